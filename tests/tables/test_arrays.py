import struct
import zipfile

import h5py
import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.kernels import unpack
from hopfed.kernels.examples import as_examples
from hopfed.tables.formats import read_numbers

X = np.array([[1, -1, 1], [-1, -1, 1], [1, 1, -1]], dtype=np.int8)


def read_examples(path):
    array = read_numbers(path)
    return as_examples(array.reshape(len(array), -1) if array.ndim > 2 else array)


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


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1, -1], [1, 3]]), "got 3 at row 2, column 2"),
        (np.array([[1, -1], [0, 1]]), r"1 missing \(first: row 2, column 1; 0 is missing"),
        (np.array([[1.0, np.nan], [1, np.nan]]), r"2 missing \(first: row 1, column 2;"),
        (np.array([[1, None], [0, 1]]), r"1 missing \(first: row 1, column 2;"),
        (np.ma.masked_all((1200, 3)), r"3,600 missing \(first: row 1, column 1;"),
        (np.ma.array([[1, 7], [7, 1]], mask=[[0, 1], [0, 0]]), "got 7 at row 2, column 1"),
        (np.array([[1, None], [0, "a"]]), "got 'a' at row 2, column 2"),
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
        path.write_bytes(write(path, np.ones((50, 50))).read_bytes()[:40])
        with pytest.raises(DataError, match=r"cannot be read|no"):
            read_examples(path)


def test_unknown_format_and_ambiguous_archives(tmp_path):
    path = tmp_path / "a.docx"
    path.write_text("1 0")
    with pytest.raises(DataError, match=r"unknown format '.docx'; use one of .csv"):
        read_examples(path)
    np.savez(tmp_path / "a.npz", first=X, second=X)
    with pytest.raises(DataError, match="tables found: first, second"):
        read_examples(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["numbers"] = np.arange(3)
    with pytest.raises(DataError, match="tables found: none"):
        read_examples(tmp_path / "a.h5")


def npy(path, header, body=b""):
    """Write an .npy file with a header of one's own."""
    text = repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body)
    return path


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((2**62, 4), "|i1", "cannot be read"),
        ((2**40, 2**40), "<f8", "cannot be read"),
        ((-2, -2), "|i1", "cannot be read"),
        ((3, 3), "|i1", "cannot be read"),
        ((1, 2), "|i1", "not that of all"),
        ((2, 2), "|O", "objects"),
        ((2, 2), "|V1", "are not read"),
        ((4,), "<U0", "cannot be read|are not read"),
        ((2, 2), [("a", "|i1")], "are not read"),
        ((2, 2), "|b1", "truth values other than 0 and 1"),
        ((4,), "|i1", "rows of a table"),
        ((), "<U1", "rows of a table, got 0 axes"),
        ((), "<i4", "rows of a table, got 0 axes"),
    ],
)
def test_headers_are_held_to_the_bytes_that_follow(tmp_path, shape, kind, message):
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    with pytest.raises(DataError, match=message):
        read_examples(npy(tmp_path / "a.npy", header, b"\1\0\1\3"))


def test_arrays_are_not_begun_when_they_do_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("hopfed._lib.memory_limits.free_memory", lambda: 10**6)
    rows = np.zeros((5000, 5000), np.int8)
    for suffix in (".npy", ".npz", ".h5"):
        path = write(tmp_path / f"a{suffix}", rows)
        with pytest.raises(DataError, match=r"needs 0.0[3-9] GB of memory, 0.00 GB are free"):
            read_examples(path)


def test_a_bomb_is_weighed_before_it_is_unpacked(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        header = npy(
            tmp_path / "h", {"descr": "|i1", "fortran_order": False, "shape": (2**20, 2**20)}
        )
        archive.writestr("examples.npy", header.read_bytes() + bytes(10**6))
    with pytest.raises(DataError, match="cannot be read"):
        read_examples(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 2**31)  # what it says that it unpacks to
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"cannot be read|of memory"):
        read_examples(path)


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path):
    path = write(tmp_path / "a.npz", X)
    data = bytearray(path.read_bytes())
    data[data.index(X.tobytes())] ^= 254  # a 1 becomes another number, -1 or not
    path.write_bytes(data)
    with pytest.raises(DataError, match="Bad CRC-32"):
        read_examples(path)


def test_numbers_in_any_order_of_bytes_and_axes(tmp_path):
    for kind in (">i2", "<f2", ">f8", np.longdouble, "<u8"):
        for order in "CF":
            np.save(tmp_path / "a.npy", np.asarray(X > 0, dtype=kind, order=order))
            np.testing.assert_array_equal(unpack(read_examples(tmp_path / "a.npy")), X)


def test_tables_of_other_hdf5_files_are_refused(tmp_path):
    write(tmp_path / "other.h5", X)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["examples"] = h5py.ExternalLink("other.h5", "inside/table")
        file["loop"] = h5py.SoftLink("/loop")
    with pytest.raises(DataError, match="tables found: none"):
        read_examples(path)
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("other.h5", "inside/table", X.shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("examples", layout)
    with pytest.raises(DataError, match="values are in other files"):
        read_examples(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("examples", X.shape, "i1", external=[("raw", 0, 9)])
    with pytest.raises(DataError, match="values are in other files"):
        read_examples(path)


def test_hdf5_tables_of_no_size_that_there_is(tmp_path):
    path = tmp_path / "a.h5"
    for kind, shape, message in (
        ("i1", (2**25, 2**25), "cannot be in a file of 1,400 bytes"),
        ("i1", (0, 2**40), "no entry in 0 row"),
        (h5py.ref_dtype, (3, 3), "are not read"),
        (h5py.string_dtype(), (3, 3), "are not read"),
        ([("a", "i1")], (3, 3), "are not read"),
    ):
        with h5py.File(path, "w") as file:
            file.create_dataset("examples", shape, kind)
        with pytest.raises(DataError, match=message):
            read_examples(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,x\n0,1\n1,1\n", "row 1, column 'column 2': 'x' is not a number"),
        ("#1,0\n0,1\n1,1\n", "row 1, column 'column 1': '#1' is not a number"),
        ("a,b\n1,0\n#0,1\n1,1\n", "row 2, column 'a': '#0' is not a number"),
        (",,\n1,0,1\n0,1,0\n", r"3 missing \(first: row 1, column 1;"),
        ("1,0\n0,\n", r"1 missing \(first: row 2, column 2;"),
        ("nan,nan\n0,1\n0,1\n", r"2 missing \(first: row 1, column 1;"),
        ("1,-inf\n0,1\n", "got -inf at row 1, column 2"),
        ("²,1\n0,1\n", "row 1, column 'column 1': '²' is not a number"),
        ("0,1\n１,1\n", "row 2, column 'column 1': '１' is not a number"),
        ("0,1\n1_0,1\n", "row 2, column 'column 1': '1_0' is not a number"),
        ("0,1\n0x1,1\n", "row 2, column 'column 1': '0x1' is not a number"),
        ("0,1\n1e400,1\n", "got inf at row 2, column 1"),
        ("0,1\n" * 3000 + "0,1,1\n", "row 3001 has 3 cells instead of 2"),
        ("0,1\n0,[/b]\n", r"row 2, column 'column 2': '\[/b\]' is not a number"),
        ('1,"0\n",1\n', "at least two examples are needed, got 1 x 3"),
        ("1,0\0\n0,1\n", "NUL bytes"),
        ("a title,\n", "there is no row of numbers in it"),
        ("0," * 10**4 + "1", "at least two examples are needed, got 1 x 10001"),
    ],
)
def test_no_row_of_a_csv_vanishes(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    with pytest.raises(DataError, match=message) as caught:
        read_examples(path)
    assert "\n" not in str(caught.value)


def test_names_in_a_file_are_not_obeyed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a\x1b[31m"], file["b\x0b"] = X, X
    np.savez(tmp_path / "a.npz", **{"a\x0b": X, "b": X})
    for suffix in (".h5", ".npz"):
        with pytest.raises(DataError) as caught:
            read_examples(tmp_path / f"a{suffix}")
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("held", [(1, 2), (3, 7)])
def test_what_numbers_mean_does_not_depend_on_their_container(tmp_path, held):
    """Arrays, lists and files of arrays refused what frames and texts of the same numbers read."""
    x = np.random.default_rng(0).choice(held, (40, 5))
    due = np.where(x == held[1], 1, -1)
    np.save(tmp_path / "a.npy", x)
    for given in (x, x.tolist(), tmp_path / "a.npy"):
        np.testing.assert_array_equal(unpack(hopfed.read_table(given).rows), due)
    for found in (hopfed.recover(x), hopfed.recover([x[:20], x[20:]])):
        if len(found):
            np.testing.assert_array_equal(found.probabilities(x), found.probabilities(x.tolist()))
    with pytest.raises(DataError, match=r"holds numbers|got . at row") as caught:
        hopfed.recover(np.random.default_rng(0).integers(1, 6, (30, 3)))
    assert "binarize" in str(caught.value)
