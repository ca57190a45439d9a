"""Run files: whole or not at all, and refused in one line when they are not what they should be."""

import os
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest
from helpers import assert_close

from hopfed.errors import ArgumentError, RunFileError
from hopfed.runs import FORMAT, Run, check_writable, plain, remove_leftovers, replacing

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


def test_round_trip(run, path):
    got = Run.load(path)
    assert (got.kind, got.config, got.summary) == (run.kind, run.config, run.summary)
    assert got.provenance == run.provenance
    assert got.complete
    assert got.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert_close(got.arrays[name], array)


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


def test_an_error_while_writing_leaves_the_old_file(path):
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_bytes(bytes(1 // 0))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(path):
    left, other = path.with_name(".run-abcd1234.h5"), path.with_name(".run-2-abcd1234.h5")
    for name in (left, other):
        name.touch()
    remove_leftovers(path)
    assert not left.exists()
    assert other.exists()
    assert path.exists()


@pytest.mark.parametrize("name", ["absent/run.h5", "", "/proc/run.h5"])
def test_where_nothing_can_be_written(name, tmp_path):
    if name.startswith("/proc") and not sys.platform.startswith("linux"):
        pytest.skip("no /proc here")
    with pytest.raises(ArgumentError, match="--out must be"):
        check_writable(tmp_path / name, "--out")


def test_a_read_only_folder(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root writes anywhere")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ArgumentError, match="writable"):
            check_writable(tmp_path / "run.h5")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("limit", "error"), [(1 << 12, "ArgumentError"), (1 << 17, "RunFileError")]
)
def test_a_disk_that_fills_up(limit, error, path):
    """At the start, and in the middle of a write; the limit on file sizes stands for the disk."""
    before = path.read_bytes()
    code = (
        "import sys, numpy as np\n"
        "from hopfed.runs import Run, check_writable\n"
        "try:\n"
        "    check_writable(sys.argv[1])\n"
        "    Run('toy', {}, {'x': np.zeros(1 << 16)}, {}).save(sys.argv[1])\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, '|', error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert answer.stdout.startswith(error + " |")
    assert "File too large" in answer.stdout
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_plain_values():
    assert plain({1: (np.int8(2), np.bool_(True), np.array([1.0, np.inf]))}) == {
        "1": [2, True, [1.0, None]]
    }
