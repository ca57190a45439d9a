"""Run files: whole or not at all, and refused in one line when they are not what they should be."""

import h5py
import numpy as np
import pytest
from helpers import assert_close

from hopfed._lib.outputs import is_run
from hopfed.errors import RunFileError
from hopfed.runs import FORMAT, Run, to_json_values
from hopfed.tables.formats import read_numbers

ARRAYS = {
    "spectrum/values": np.linspace(0, 1, 7),
    "patterns": np.array([[1, -1], [-1, 1]], dtype=np.int8),
    "nothing": np.zeros((0, 3)),
    "number": np.float32(2.5),
}


@pytest.fixture
def run():
    return Run("toy", {"N": 3, "M": [1, 2]}, dict(ARRAYS), {"score": 0.5, "rows": [1, None]})


@pytest.fixture
def path(run, tmp_path):
    run.save(tmp_path / "run.h5")
    return tmp_path / "run.h5"


def refusal(path, **options):
    with pytest.raises(RunFileError) as error:
        Run.load(path, **options)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "held", [{}, {"mode": "a"}, {"locking": False}, {"locking": True}], ids=str
)
def test_a_file_is_read_while_it_is_open(path, tmp_path, held):
    """The library wants one choice of locks in a process, and the file was said to be damaged."""
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["examples"] = np.eye(4)
    with h5py.File(path, **held), h5py.File(tmp_path / "rows.h5", **held):
        assert Run.load(path).summary["score"] == 0.5
        assert is_run(path)
        np.testing.assert_array_equal(read_numbers(tmp_path / "rows.h5"), np.eye(4))


def test_round_trip(run, path):
    got = Run.load(path)
    assert (got.kind, got.config, got.summary) == (run.kind, run.config, run.summary)
    assert got.provenance == run.provenance
    assert got.complete
    assert got.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert_close(got.arrays[name], array)


@pytest.mark.parametrize("kind", [">f8", "S3"])
def test_arrays_are_held_in_the_order_of_this_machine(tmp_path, kind):
    x = np.arange(3).astype(kind)
    Run("toy", {}, {"x": x}, {}).save(tmp_path / "run.h5")
    found = Run.load(tmp_path / "run.h5").arrays["x"]
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, x)


def test_words_on_which_the_library_loops(path):
    data = bytearray(path.read_bytes())
    first = data.index(b"GCOL") + 16  # of the heap of words: index, references, size, text
    data[first + 8 : first + 16] = (2**64 - 16).to_bytes(8, "little")  # the next one is this one
    path.write_bytes(data)
    assert "not a readable run file" in refusal(path)


def test_equal_runs_make_equal_bytes(run, path, tmp_path):
    Run.load(path).save(tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == path.read_bytes()


def test_an_interrupted_run_is_not_taken_for_a_complete_one(run, tmp_path):
    path = tmp_path / "half.h5"
    Run("toy", {}, {}, {}, committed=3, planned=8).save(path)
    assert not Run.load(path).complete
    assert "3 of 8 seeds" in refusal(path, complete=True)


def test_newer_format(path):
    with h5py.File(path, "r+") as file:
        file.attrs["hopfed_format"] = FORMAT + 1
    assert f"newer hopfed (format {FORMAT + 1}" in refusal(path)


def test_foreign_hdf5(tmp_path):
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
    assert "not a run file of hopfed" in refusal(path)


def test_truncated_anywhere(path, tmp_path):
    whole, cut = path.read_bytes(), tmp_path / "cut.h5"
    for share in (0, 0.1, 0.5, 0.9, 0.999):
        cut.write_bytes(whole[: int(share * len(whole))])
        assert "not a readable run file" in refusal(cut)


def test_damaged_attributes(path):
    for name, value in (("summary", "{"), ("planned", "many"), ("hopfed_format", "new")):
        before = path.read_bytes()
        with h5py.File(path, "r+") as file:
            file.attrs[name] = value
        refusal(path)
        path.write_bytes(before)
    with h5py.File(path, "r+") as file:
        del file.attrs["config"]
    refusal(path)


def test_no_file(tmp_path):
    assert "no such run file" in refusal(tmp_path / "absent.h5")
    assert "no such run file" in refusal(tmp_path)


def test_plain_values():
    assert to_json_values({1: (np.int8(2), np.bool_(True), np.array([1.0, np.inf]))}) == {
        "1": [2, True, [1.0, None]]
    }
