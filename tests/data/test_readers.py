import h5py
import numpy as np
import pytest

from hopfed.data.readers import as_examples, read_examples
from hopfed.errors import DataError
from hopfed.kernels import unpack

X = np.array([[1, -1, 1], [-1, -1, 1], [1, 1, -1]], dtype=np.int8)


def write(path, array):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, examples=array, labels=np.arange(len(array)))
    elif path.suffix == ".csv":
        np.savetxt(path, array, delimiter=",", fmt="%g")
    else:
        with h5py.File(path, "w") as file:
            file["inside/table"] = array
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5"])
@pytest.mark.parametrize("values", [X, (X > 0).astype(int), X > 0, X.astype(float)])
def test_every_format_reads_every_kind_of_binary_value(tmp_path, suffix, values):
    path = write(tmp_path / f"a{suffix}", values.astype(int) if suffix == ".csv" else values)
    np.testing.assert_array_equal(unpack(read_examples(path)), X)


def test_csv_with_header_and_other_delimiters(tmp_path):
    for delimiter in ",;\t ":
        path = tmp_path / "a.csv"
        lines = [delimiter.join(f"q{j}" for j in range(3))]
        lines += [delimiter.join(str(v) for v in row) for row in X]
        path.write_text("\n".join(lines) + "\n\n")
        np.testing.assert_array_equal(unpack(read_examples(path)), X)


def test_images_are_flattened_row_by_row(tmp_path):
    images = np.random.default_rng(0).integers(0, 2, size=(5, 4, 3))
    path = write(tmp_path / "a.npy", images)
    np.testing.assert_array_equal(unpack(read_examples(path)) > 0, images.reshape(5, -1) > 0)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1, -1], [1, 3]]), "got 3 at row 2, column 2"),
        (np.array([[1, -1], [0, 1]]), "got 0 at row 2, column 1"),
        (np.array([[1.0, np.nan], [1, 1]]), "got NaN at row 1, column 2"),
        (np.array([[1.0, 0.5], [1, 1]]), "got 0.5 at row 1, column 2"),
        (np.ones((1, 4)), "at least two examples are needed, got 1 x 4"),
        (np.ones((0, 4)), "at least two examples are needed, got 0 x 4"),
        (np.ones((4, 0)), "at least two examples are needed, got 4 x 0"),
        (np.ones(4), "rows of a table"),
        (np.array([["a", "b"], ["c", "d"]]), "must be numbers"),
        (np.ones((3, 3), dtype=complex), "must be numbers"),
    ],
)
def test_arrays_that_are_not_binary_examples(array, message):
    with pytest.raises(DataError, match=message):
        as_examples(array)


def _truncate(path):
    path.write_bytes(path.read_bytes()[:40])


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5"])
def test_broken_files_get_one_line(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with pytest.raises(DataError, match="no such file"):
        read_examples(path)
    path.touch()
    with pytest.raises(DataError, match="empty"):
        read_examples(path)
    path.write_bytes(b"\x00\x01 this is no data,at all\n1,2\n")
    with pytest.raises(DataError) as caught:
        read_examples(path)
    assert "\n" not in str(caught.value)
    if suffix != ".csv":
        _truncate(write(path, np.ones((50, 50))))
        with pytest.raises(DataError, match=r"cannot be read|no"):
            read_examples(path)


def test_csv_faults_name_the_place(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,0,1\n1,0\n1,1,1\n")
    with pytest.raises(DataError, match="columns changed from 3 to 2"):
        read_examples(path)
    path.write_text("a,b\n")
    with pytest.raises(DataError, match="only a header"):
        read_examples(path)
    path.write_text("\n\n")
    with pytest.raises(DataError, match="empty"):
        read_examples(path)


def test_unknown_format_and_ambiguous_archives(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 0")
    with pytest.raises(DataError, match=r"unknown format '.txt'; use .npy, .npz, .csv or .h5"):
        read_examples(path)
    np.savez(tmp_path / "a.npz", first=X, second=X)
    with pytest.raises(DataError, match="tables found: first, second"):
        read_examples(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["numbers"] = np.arange(3)
    with pytest.raises(DataError, match="tables found: none"):
        read_examples(tmp_path / "a.h5")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read as npy"):
        read_examples(tmp_path / "a.npy")
