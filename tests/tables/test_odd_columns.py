"""Formats and oddities of tables as people have them: each is read, or refused in one line."""

import datetime
import tracemalloc
from decimal import Decimal
from types import MappingProxyType

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import sparse

import hopfed
from hopfed.errors import DataError
from hopfed.hopfield.channel import small_sample
from hopfed.kernels import unpack
from hopfed.kernels.examples import as_examples

ROWS = [[1, -1], [-1, 1], [1, 1]]
COLUMNS = ["a", "b"]
SPARSE = sparse.random(30, 8, 0.3, "csr", rng=np.random.default_rng(0)) != 0


def check(table, expected):
    if isinstance(expected, int):
        assert table.shape[1] == expected
        return
    columns, rows = expected
    assert list(table.columns) == columns
    np.testing.assert_array_equal(unpack(table.rows), rows)


def judge(source, options, expected):
    """Read a source and check it, or check that it is refused in one line."""
    if not isinstance(expected, str):
        check(hopfed.read_table(source, **options), expected)
        return
    with pytest.raises(DataError, match=expected) as caught:
        hopfed.read_table(source, **options)
    assert all(line.isprintable() for line in str(caught.value).split("\n"))


ARROW = {
    "truth values": ({"a": [True, False, True], "b": [False, True, True]}, (COLUMNS, ROWS)),
    "whole numbers with gaps": ({"a": [1, 0, None]}, (["a"], [[1], [-1], [0]])),
    "numbers with NaN": ({"a": [1.0, 0.0, float("nan")]}, (["a"], [[1], [-1], [0]])),
    "decimals": ({"a": [Decimal("1.00"), Decimal(0), Decimal(1)]}, (["a"], [[1], [-1], [1]])),
    "words with gaps": ({"a": ["yes", "no", None]}, (["a"], [[1], [-1], [0]])),
    "categories": (
        {"a": pa.array(["x", "y", "z", "x"]).dictionary_encode()},
        (["a=x", "a=y", "a=z"], [[1, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, -1]]),
    ),
    "ids": ({"id": ["x", "y", "z"], "a": [1, 0, 1], "b": [0, 1, 1]}, (COLUMNS, ROWS)),
    "dates": (
        {"a": [datetime.date(2020, 1, d) for d in (1, 2, 2)], "b": [1, 0, 1]},
        "column 'a' holds dates or times; give ignore",
    ),
    "lists": ({"a": [[1], [0], [1]], "b": [1, 0, 1]}, "column 'a' holds lists or records"),
    "nothing known": ({"a": [None, None, None], "b": [1, 0, 1]}, 2),
}


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("kind", ["arrow", "parquet", "feather", "polars", "pandas"])
def test_frames(tmp_path, name, kind):
    given, expected = ARROW[name]
    table = pa.table(given)
    if kind == "parquet":
        parquet.write_table(table, tmp_path / "a.parquet")
        table = tmp_path / "a.parquet"
    elif kind == "feather":
        feather.write_feather(table, str(tmp_path / "a.feather"))
        table = tmp_path / "a.feather"
    elif kind == "polars":
        table = pytest.importorskip("polars", reason="polars is not installed").from_arrow(table)
    elif kind == "pandas":
        pytest.importorskip("pandas", reason="pandas is not installed")
        table = table.to_pandas()
    judge(table, {}, expected)


def test_frames_of_pandas():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    mixed = pd.DataFrame({"a": [True, None, "no"], "b": [1, 0, "?"]})
    check(hopfed.read_table(mixed.iloc[1:]), (["a", "b"], [[0, -1], [-1, 0]]))
    judge(mixed, {}, "row 1, column 'a': 'true' stands beside 'no'")
    frame = pd.DataFrame({"a": [1, 0, 1], 7: [0, 1, 1]}, index=["x", "y", "z"])
    table = hopfed.read_table(frame)
    check(table, (["a", "7"], ROWS))
    assert table.ids.tolist() == ["x", "y", "z"]
    nullable = frame.astype({"a": "Int64", 7: "boolean"})
    nullable.loc["y", "a"] = pd.NA
    check(hopfed.read_table(nullable), (["a", "7"], [[1, -1], [0, 1], [1, 1]]))
    judge(frame["a"], {}, "a table is needed, got a series")
    ages = frame.assign(a=pd.cut([3, 70, 30], [0, 18, 65, 100])).reset_index(drop=True)
    found = hopfed.read_table(ages, id="")
    assert found.columns[:3] == ("a=(0, 18]", "a=(18, 65]", "a=(65, 100]")
    assert unpack(found.rows)[:, :3].tolist() == [[1, -1, -1], [-1, -1, 1], [-1, 1, -1]]
    months = ages.assign(id=pd.period_range("2024-01", periods=3, freq="M"))
    assert hopfed.read_table(months).ids[0] == "2024-01"
    days = ages.assign(day=pd.Categorical(pd.date_range("2024", periods=3)))
    judge(days, {"id": ""}, "'day' holds dates or times")


LISTS = {
    "numbers": ([[1, 0], [0, 1], [1, 1]], (["column 1", "column 2"], ROWS)),
    "gaps": ([[1, None], [0, 1]], (["column 1", "column 2"], [[1, 0], [-1, 1]])),
    "words": ([["yes", "n"], ["no", "y"]], (["column 1", "column 2"], [[1, -1], [-1, 1]])),
    "tuples": (((True, False), (False, True)), (["column 1", "column 2"], [[1, -1], [-1, 1]])),
    "mixed": ([["yes", 1], [None, 0]], (["column 1", "column 2"], [[1, 1], [0, -1]])),
    "ragged": ([[1, 0], [0]], "nor rows of one length"),
    "paths": (["a.csv", "b.csv"], "recover takes several files"),
    "no rows": ([], "there are no columns"),
    "no columns": ([[], []], "there are no columns"),
    "one axis": ([1, 0, 1], "neither a path nor rows of one length"),
    "a number": (7, "neither a path nor rows of one length: int"),
    "an axis": (np.ones(4), "rows of a table, got 1 axes"),
    "complex numbers": (np.ones((3, 3), complex), "must be numbers"),
    "words of NumPy": (
        np.array([["t", "f"], ["f", "t"]]),
        (["column 1", "column 2"], [[1, -1], [-1, 1]]),
    ),
    "no letter": (np.full((3, 2), 0x7FFFFFFF, np.uint32).view("U1"), "cannot be read: invalid max"),
    "no letters": (np.full((3, 6), 1310720, np.uint32).view("U3"), "cannot be read: Invalid UTF8"),
    "columns of different length": ({"a": [1, 0], "b": [1]}, "columns must be of one length"),
    "a masked array": (
        np.ma.array([[1, 7], [0, 1]], mask=[[0, 1], [0, 0]]),
        (["column 1", "column 2"], [[1, 0], [-1, 1]]),
    ),
    "pictures": (np.ones((4, 3, 2)), 6),
    "a sparse matrix": (SPARSE, ([f"column {j}" for j in range(1, 9)], None)),
    "a sparse array": (sparse.coo_array(SPARSE), 8),
    "a word of a mapping": ({"tea": "yes"}, "column 'tea' must be a list of cells"),
    "any mapping": (MappingProxyType({"a": [1, 0, 1], "b": ["no", "yes", "yes"]}), (COLUMNS, ROWS)),
    "nothing": ({}, "there are no columns"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_and_arrays(name):
    given, expected = LISTS[name]
    if isinstance(expected, tuple) and expected[1] is None:
        whole = given.toarray() if sparse.issparse(given) else [[1, 1], [0, 0]]
        expected = expected[0], 2 * np.asarray(whole, int) - 1
    judge(given, {}, expected)


@pytest.mark.filterwarnings("ignore:.*0 is missing")
def test_files_of_zarr(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    X = np.random.default_rng(0).integers(-1, 2, (50, 7))
    zarr.save_array(str(tmp_path / "a.zarr"), X)
    zarr.save_group(str(tmp_path / "b.zarr"), examples=X, labels=np.arange(50))
    for name in ("a.zarr", "b.zarr"):
        np.testing.assert_array_equal(unpack(hopfed.read_table(tmp_path / name).rows), X)
    judge(tmp_path / "c.zarr", {}, "no such file")
    (tmp_path / "d.zarr").mkdir()
    judge(tmp_path / "d.zarr", {}, "cannot be read")


def test_annotated_data(tmp_path):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    obs = pd.DataFrame(index=[f"cell{k}" for k in range(30)])
    var = pd.DataFrame(index=[f"gene{k}" for k in range(8)])
    for values in (SPARSE.astype(float), SPARSE.toarray().astype(float)):
        table = hopfed.read_table(anndata.AnnData(values, obs, var))
        check(table, ([f"gene{k}" for k in range(8)], 2 * SPARSE.toarray() - 1))
        assert table.ids[3] == "cell3"
    anndata.AnnData(SPARSE.toarray().astype(np.float32)).write_h5ad(tmp_path / "a.h5ad")
    held = hopfed.read_table(anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")).held
    assert unpack(held).tolist() == (2 * SPARSE.toarray() - 1).tolist()


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16", "int8", "bool"])
def test_tensors_of_every_kind_are_read(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = np.random.default_rng(0).integers(0, 2, (6, 5))
    tensor = torch.tensor(rows).to(getattr(torch, kind))
    if kind == "float32":
        tensor.requires_grad_()
    for read in (as_examples, lambda x: hopfed.read_table(x).rows):
        np.testing.assert_array_equal(unpack(read(tensor)) > 0, rows > 0)
        with pytest.raises(DataError, match="a dense tensor is needed"):
            read(torch.eye(3).to_sparse())


def test_stacked_owners_are_not_taken_for_images():
    """Three owners of 200 rows each were three rows of 40,000 columns."""
    rows = small_sample()[1][:600]
    stacked = np.stack([rows[:200], rows[200:400], rows[400:]])
    message = r"a table is \(M, N\), got \(3, 200, 200\); give a list of tables for several owners"
    for read in (hopfed.recover, as_examples):
        with pytest.raises(DataError, match=message):
            read(stacked)
    assert len(hopfed.recover(list(stacked), seed=1)) == 3


@pytest.mark.filterwarnings("ignore:.*0 is missing")
@pytest.mark.parametrize("gone", [None, 0, np.nan])
def test_large_arrays_are_packed_in_parts(tmp_path, monkeypatch, gone):
    X = np.random.default_rng(0).choice([-1.0, 1.0], (300, 17))
    if gone is not None:
        X[100:200, 3] = gone
    X = X if gone is np.nan else X.astype(np.int8)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "b.npz", X=X, labels=np.zeros(300))
    np.savez_compressed(tmp_path / "c.npz", X=X)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(7, 5), compression="gzip")
        file["labels"] = np.zeros(300)
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file.create_dataset("X", data=X, dtype=X.dtype.newbyteorder(">"))
    whole = hopfed.read_table(tmp_path / "a.npy")
    monkeypatch.setattr("hopfed.tables.formats.PART", 170)
    files = [tmp_path / name for name in ("a.npy", "b.npz", "c.npz", "d.h5", "e.h5")]
    for source in (*files, X):
        table = hopfed.read_table(source)
        assert type(table.rows) is type(whole.rows)
        np.testing.assert_array_equal(unpack(table.rows), unpack(whole.rows))
    X[250, 5] = 3
    np.save(tmp_path / "a.npy", X)
    judge(tmp_path / "a.npy", {}, "got 3.* at row 251, column 6")
    (tmp_path / "c.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:-900])
    judge(tmp_path / "c.npz", {}, "cannot be read")


@pytest.mark.parametrize("name", ["a.npy", "a.h5"])
def test_arrays_in_files_are_never_held_whole(tmp_path, monkeypatch, name):
    rows, columns = 20_000, 500  # 10 MB, and 1.25 MB of bits
    X = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (rows, columns))
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, X)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(1_000, 100), compression="gzip")
    monkeypatch.setattr("hopfed.tables.formats.PART", 1 << 18)
    tracemalloc.start()
    table = hopfed.read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.shape == (rows, columns)
    assert peak < 8e6
    np.testing.assert_array_equal(unpack(table.rows[::97]), X[::97])
