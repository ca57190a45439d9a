"""Tables with gaps: what stands for a missing entry in each format, and what is said of them."""

import h5py
import numpy as np
import pytest

from hopfed import kernels
from hopfed.data.missing import Gaps
from hopfed.data.readers import as_examples, read_examples, read_numbers
from hopfed.errors import DataError
from hopfed.kernels import MaskedBits, PackedBits, unpack

X = np.array([[1, -1, 0, 0], [0, 0, 0, 0], [1, 1, 0, -1]], dtype=np.int8)  # 0 is missing
NAN = np.where(X == 0, np.nan, X)


def write(path, array):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, examples=array)
    else:
        with h5py.File(path, "w") as file:
            file["examples"] = array
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5"])
@pytest.mark.parametrize("values", [NAN, NAN.astype(np.float32), (NAN + 1) / 2, X])
def test_arrays_in_files(tmp_path, suffix, values):
    path = write(tmp_path / f"a{suffix}", values)
    found = read_examples(path, gaps=True)
    assert isinstance(found, MaskedBits)
    np.testing.assert_array_equal(unpack(found), X)
    with pytest.raises(
        DataError, match=r"7 entries are missing \(first: row 1, column 3; .*needed"
    ):
        read_examples(path)


@pytest.mark.parametrize("word", ["", "?", "NA", "na", "nan", "NaN", '""', '"?"', " ", " NA "])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_cells_of_a_text(tmp_path, word, delimiter):
    path = tmp_path / "a.csv"
    names = {-1: "0", 0: word, 1: "1"}
    lines = [delimiter.join(names[int(v)] for v in row) for row in X]
    for head in ((), (delimiter.join("abcd"),)):
        path.write_text("\n".join([*head, *lines]) + "\n")
        np.testing.assert_array_equal(unpack(read_examples(path, gaps=True)), X)
        np.testing.assert_array_equal(read_numbers(path, gaps=True), (NAN + 1) / 2)
        with pytest.raises(DataError, match="7 entries are missing"):
            read_examples(path)


def test_cells_between_spaces_and_a_first_row_without_any(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1 ? 0\nNA 1 1\n")
    np.testing.assert_array_equal(unpack(read_examples(path, gaps=True)), [[1, 0, -1], [0, 1, 1]])
    path.write_text("?,NA\n1,0\n")  # no header: it would be one row less
    np.testing.assert_array_equal(unpack(read_examples(path, gaps=True)), [[0, 0], [1, -1]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,,0\n0,x,1\n", "row 2, column 2: 'x' is not a number"),
        ("1,?\n?\n", "columns changed from 2 to 1 at row 2"),
        ("1,?\n\n?,1\n", "row 2 is empty"),
        ("1,?\n0,5\n", "got 5 at row 2, column 2"),
        ("1,--\n0,1\n", "row 1, column 2: '--' is not a number"),
    ],
)
def test_faults_are_still_named(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_examples(path, gaps=True)


def test_numbers_that_are_no_examples_have_no_gaps_unasked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0.5,\n1,0.25\n")
    with pytest.raises(DataError, match="row 1, column 2: there is no number"):
        read_numbers(path)


def test_arrays_at_hand():
    objects = np.where(X == 0, None, X.astype(object))
    for values in (X, NAN, objects, objects.tolist(), np.ma.masked_equal(X, 0), NAN.astype("f2")):
        np.testing.assert_array_equal(unpack(as_examples(values, gaps=True)), X)
    cube = np.ma.masked_invalid(NAN).reshape(3, 2, 2)
    with pytest.raises(DataError, match=r"a table is \(M, N\), got \(3, 2, 2\)"):
        as_examples(cube, gaps=True)
    packed = kernels.pack_masked(X)
    assert as_examples(packed, gaps=True) is packed
    with pytest.raises(DataError, match="mine: 7 entries are missing"):
        as_examples(packed, name="mine")
    with pytest.raises(DataError, match="at least two examples are needed, got 1 x 4"):
        as_examples(packed[:1], gaps=True)


def test_complete_tables_are_what_they_were(tmp_path):
    complete = np.where(X == 0, 1, X)
    for values in (complete, complete > 0, np.ma.array(complete)):
        found = as_examples(values, gaps=True)
        assert type(found) is PackedBits
        np.testing.assert_array_equal(found.words, kernels.pack(complete).words)
    assert type(read_examples(write(tmp_path / "a.npy", complete), gaps=True)) is PackedBits


def test_what_is_said_of_gaps():
    gaps = Gaps.of(as_examples(X, gaps=True))
    assert (gaps.shape, gaps.entries, gaps.first) == ((3, 4), 7, (0, 2))
    assert (gaps.rows, gaps.columns) == ((1,), (2,))
    assert str(gaps) == (
        "7 of 12 entries are missing (58%); nothing is known in row 2 and column 3"
    )
    none = Gaps.of(as_examples(np.eye(3)))
    assert (none.entries, none.first, none.rows, str(none)) == (0, None, (), "no entry is missing")
    wide = np.ones((300, 9))
    wide[2, 1] = np.nan
    assert str(Gaps.of(as_examples(wide, gaps=True))) == (
        "1 of 2,700 entries is missing (under 1%)"
    )
    wide[:, 1:8] = np.nan
    assert str(Gaps.of(as_examples(wide, gaps=True))).endswith(
        "nothing is known in columns 2, 3, 4, 5, 6 and 2 more"
    )
