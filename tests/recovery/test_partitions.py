"""Tables in partitions on Dask's workers: the same result, and rows stay where they are."""

import json
import os
import signal
import time
from functools import partial

import numpy as np
import pytest

import hopfed
from hopfed.archetypes import classes as graded
from hopfed.archetypes.mixture import class_sums
from hopfed.archetypes.session import Session
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import pack, unpack
from hopfed.recovery.recover import run_recovery, split
from hopfed.spectral.partitions import Partitioned
from hopfed.tables import partitions
from hopfed.tables.options import Choices
from hopfed.tables.partitions import read_partitions

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")


@pytest.fixture(autouse=True)
def rows_stay(monkeypatch):
    """No block of rows is brought here; and a graded search in part of the rows."""

    def refuse(self):
        raise AssertionError("a block of rows travels")

    monkeypatch.setattr(Partitioned, "parts", refuse)
    monkeypatch.setattr(graded, "SEARCHED", 30_000)


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process, which speak with the scheduler as those elsewhere do."""
    with distributed.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        yield client


def rows(kind, m=1_600, n=40, seed=0):
    rng = np.random.default_rng(seed)
    if kind in ("symmetric", "constant"):
        xi = np.where(rng.random((3, n)) < 0.5, 1, -1)
        x = xi[rng.integers(3, size=m)] * np.where(rng.random((m, n)) < 0.85, 1, -1)
        if kind == "constant":
            x[:, :20] = 1
        return x.astype(np.int8)
    rates = np.where(rng.random((3, n)) < 0.5, 0.2, 0.8) + rng.uniform(-0.15, 0.15, (3, n))
    x = np.where(rng.random((m, n)) < rates[rng.integers(3, size=m)], 1.0, -1.0)
    if kind == "gaps":
        x[rng.random((m, n)) < 0.1] = np.nan
    return x


def spread(x, size=500):
    """Rows in partitions, whose columns are cut as well."""
    return da.from_array(x, chunks=(size, 25))


def check_alike(held, apart, exact=True):
    """The same recovery: to the bit where everything is a sum of +-1.

    Elsewhere up to the step at which expectation maximisation stops.
    """
    a, b = held.archetypes, apart.archetypes
    for name in ("status", "advice", "n_detected", "channel"):
        assert getattr(a, name) == getattr(b, name)
    assert len(a) > 0
    assert np.array_equal(a.patterns, b.patterns)
    same = np.array_equal if exact else partial(np.allclose, rtol=0, atol=5e-4)
    for name in ("scores", "exposures", "shares", "means", "quality"):
        assert same(getattr(a, name), getattr(b, name), equal_nan=True), name
    assert np.allclose(held.eigenvalues, apart.eigenvalues, rtol=0 if exact else 1e-9, atol=0)
    assert np.array_equal(held.constant_columns, apart.constant_columns)
    assert held.n_examples == apart.n_examples
    assert abs(held.exchanges - apart.exchanges) <= 1 or not exact


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("symmetric", {}),
        ("symmetric", {"refit": True}),
        ("symmetric", {"rank_rule": "mp", "channel": "symmetric"}),
        ("constant", {}),
        ("graded", {}),
    ],
)
def test_every_channel_and_method_gives_what_rows_that_are_held_give(kind, options):
    x = rows(kind)
    apart = run_recovery(spread(x), **options)
    check_alike(run_recovery(hopfed.read_table(x), **options), apart, apart.residual is None)


def test_rows_are_brought_by_masks_and_none_may_be():
    x = rows("symmetric")
    apart = Partitioned.of([dask.delayed(pack)(x[:900]), dask.delayed(pack)(x[900:])])
    mask = np.isin(np.arange(len(x)), [3, 1_200])
    assert np.array_equal(unpack(apart[mask]), x[mask])
    assert np.array_equal(unpack(apart.chosen(mask)[:]), x[mask])
    assert apart[np.zeros(len(x), bool)].shape == (0, x.shape[1])
    with pytest.raises(ArgumentError, match="a mask of 1600 rows"):
        apart[mask[1:]]


def test_layers_are_peeled_where_the_rows_are(threads):
    rng = np.random.default_rng(3)
    xi = np.where(rng.random((30, 100)) < 0.5, 1, -1)
    x = xi[rng.integers(30, size=3_000)] * np.where(rng.random((3_000, 100)) < 0.9, 1, -1)
    held, apart = run_recovery(x), run_recovery(spread(x, 700))
    assert held.layers == apart.layers > 1
    check_alike(held, apart)


def test_workers_of_a_scheduler_give_the_same(threads):
    x = rows("gaps")
    check_alike(run_recovery(hopfed.read_table(x)), run_recovery(spread(x)), exact=False)


@pytest.mark.parametrize("kind", ["graded", "gaps"])
def test_one_exchange_over_classes_is_the_same_to_the_last_digits_of_single_precision(kind):
    x = rows(kind)
    classes = {
        "means": np.random.default_rng(1).uniform(-0.9, 0.9, (4, x.shape[1])),
        "shares": np.ones(4) / 4,
    }
    held, apart = (hopfed.read_table(given).rows for given in (x, spread(x)))
    one, other = (class_sums(Session.of([r], 0).members[0], classes) for r in (held, apart))
    for name, sums in one.items():
        assert other[name].dtype == np.asarray(sums).dtype
        assert np.allclose(sums, other[name], rtol=1e-6, atol=1e-6 * len(x)), name


def test_the_number_of_partitions_changes_nothing():
    x = rows("symmetric")
    one, many = run_recovery(spread(x, 1_600)), run_recovery(spread(x, 100))
    check_alike(one, many)


def test_groups_of_many_rows_are_dealt_alike_wherever_the_partitions_end(monkeypatch):
    monkeypatch.setattr("hopfed.archetypes.joint_diagonalization.DEALT", 1_000)
    x = rows("symmetric")
    check_alike(run_recovery(x), run_recovery(spread(x, 700)))


def test_more_columns_than_a_square_is_made_of(monkeypatch):
    monkeypatch.setattr("hopfed.spectral.reread_rows.SQUARE", 30)
    x = rows("symmetric")
    assert read_partitions(spread(x)).rows.totals.products is None
    check_alike(run_recovery(x), run_recovery(spread(x)))


def test_several_owners_whose_tables_are_in_partitions():
    x = rows("symmetric")
    held = run_recovery([x[:900], x[900:]])
    apart = run_recovery([spread(x[:900], 300), spread(x[900:], 300)])
    check_alike(held, apart)
    mixed = run_recovery([hopfed.read_table(x[:900]), spread(x[900:], 300)])
    check_alike(held, mixed)


def test_rows_can_be_chosen_dealt_and_cut():
    x = rows("graded", 300, 70)
    found = read_partitions(spread(x, 100)).rows
    which = np.array([0, 99, 100, 250])
    assert found.sizes == (100, 100, 100)
    assert np.array_equal(unpack(found[which]), x[which])
    assert np.array_equal(unpack(found[95:105]), x[95:105])
    assert np.array_equal(unpack(found.chosen(which)[:]), x[which])
    assert found.chosen(which).sizes == (2, 1, 1)
    assert found.where(lambda part: np.zeros(len(part), bool)).shape == (0, 70)
    columns = found.columns(np.array([69, 3]))
    assert np.array_equal(unpack(columns[:]), x[:, [69, 3]])
    assert columns.totals.sums.tolist() == x[:, [69, 3]].sum(axis=0).tolist()
    assert np.array_equal(found.totals.products, x.T @ x)
    held = split(hopfed.read_table(x).rows, 3, 0)
    for one, other in zip(held, split(found, 3, 0), strict=True):
        assert np.array_equal(unpack(one), unpack(other[:]))


@pytest.mark.filterwarnings("ignore:examples. 0 is missing")
def test_zero_means_what_it_means_in_the_whole_table():
    """A partition without -1 cannot know that 0 is missing there; one of +1 only has no zeros."""
    x = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1], [-1, 1, 0], [1, -1, -1]])
    for given in (x, x.astype(np.int8), x.astype(float), np.abs(x), np.abs(x) > 0):
        table = read_partitions(da.from_array(given, chunks=(2, 3)))
        held = hopfed.read_table(given)
        assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))
        assert table.notes == held.notes


def written(folder, x, ending, size=500):
    """Rows in files of some hundred, with names of rows and words."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    words = np.where(np.isnan(x), None, np.where(x > 0, "yes", "no"))
    frame = pd.DataFrame(words, columns=[f"q{j}" for j in range(x.shape[1])])
    frame.insert(0, "tree", np.resize(["ash", "yew", "oak"], len(x)))
    frame.insert(0, "id", [f"p{k}" for k in range(len(x))])
    folder.mkdir()
    for i in range(0, len(x), size):
        part = frame[i : i + size]
        part = part[sorted(part.columns, reverse=i > 0)] if ending == ".parquet" else part
        path = folder / f"part{i:06}{ending}"
        part.to_parquet(path) if ending == ".parquet" else part.to_csv(path, index=False)
    (folder / "_SUCCESS").touch()
    return frame


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_folder_of_files_is_one_table(tmp_path, ending, threads):
    frame = written(tmp_path / "data", rows("gaps"), ending)
    held = hopfed.read_table(frame.sort_index(axis=1) if ending == ".parquet" else frame)
    table = read_partitions(tmp_path / "data")
    assert table.columns == held.columns
    assert "tree=ash" in table.columns
    assert table.coding == held.coding
    assert table.notes == held.notes
    assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))
    pattern = read_partitions(str(tmp_path / "data" / f"part*{ending}"))
    assert np.array_equal(unpack(pattern.rows[:]), unpack(held.rows))
    if ending == ".parquet":
        check_alike(run_recovery(held), run_recovery(table), exact=False)


def test_one_large_file_is_several_partitions_by_its_groups_of_rows(tmp_path, threads, monkeypatch):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    x = rows("gaps")
    words = np.where(np.isnan(x), None, np.where(x > 0, "yes", "no"))
    frame = pd.DataFrame(words, columns=[f"q{j}" for j in range(x.shape[1])])
    frame["tree"] = np.resize(["ash", "yew", "oak"], len(x))
    path = tmp_path / "large.parquet"
    frame.to_parquet(path, row_group_size=150)
    assert read_partitions(path).rows.sizes == (1_600,), "small files are read as one"
    monkeypatch.setattr(partitions, "PART", 41 * 300)
    table, held = read_partitions(path), hopfed.read_table(path)
    assert table.rows.sizes == (300, 300, 300, 300, 300, 100)
    assert (table.columns, table.coding, table.notes) == (held.columns, held.coding, held.notes)
    assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))
    frame.loc[1_000, "q3"] = "perhaps"
    frame.to_parquet(path, row_group_size=150)
    with pytest.raises(DataError, match=r"row 901 on.*row 101\b"):
        read_partitions(path, choices=Choices(words={"q3": {"yes": 1, "no": -1}}))


def test_a_frame_of_dask_is_a_table_by_its_names():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    x = rows("symmetric", 600, 20)
    frame = pd.DataFrame(np.where(x > 0, "y", "n"), columns=[f"q{j}" for j in range(20)])
    frame["size"] = np.arange(600) % 7
    lazy = dd.from_pandas(frame, npartitions=4)
    held = hopfed.read_table(frame, binarize={"size": "median"}, ignore=["q3"])
    table = hopfed.read_table(lazy, binarize={"size": "median"}, ignore=["q3"])
    assert (table.columns, table.coding) == (held.columns, held.coding)
    assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))
    none = lazy[lazy["size"] > 99]
    joined = read_partitions(dd.concat([none, lazy]).drop(columns="size"))
    assert joined.shape == (600, 20)
    found = hopfed.recover(lazy.drop(columns="size"))
    assert found.columns == tuple(f"q{j}" for j in range(20))


def test_a_zarr_store_is_read_in_parts(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    monkeypatch.setattr("hopfed.tables.partitions.PART", 20_000)
    x = rows("symmetric")
    store = zarr.create_array(tmp_path / "a.zarr", shape=x.shape, chunks=(250, 40), dtype=x.dtype)
    store[:] = x
    table = read_partitions(tmp_path / "a.zarr")
    assert table.rows.sizes == (500, 500, 500, 100)
    check_alike(run_recovery(x), run_recovery(table))
    check_alike(run_recovery(x), run_recovery(tmp_path / "a.zarr"))


def test_what_cannot_be_is_one_line(tmp_path):
    x = rows("symmetric").astype(float)
    x[777, 3] = 2
    with pytest.raises(DataError, match=r"partition 1: values must be .* row 278, column 4"):
        hopfed.recover(spread(x))
    with pytest.raises(DataError, match="at least two examples are needed, got 1"):
        hopfed.recover(spread(x[:1]))
    with pytest.raises(DataError, match="rows of a table, got 1 axes"):
        hopfed.recover(da.from_array(x[0]))
    with pytest.raises(DataError, match=r"lost/\*.csv: no such file"):
        hopfed.recover("lost/*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there are no files in it"):
        hopfed.recover(tmp_path / "empty")
    written(tmp_path / "data", rows("graded", 900, 20), ".csv", 300)
    last = tmp_path / "data" / "part000600.csv"
    last.write_text(last.read_text().replace("no", "perhaps", 1))
    with pytest.raises(DataError, match=r"part000600.csv, row 1, column 'q\d+': 'perhaps' stands"):
        hopfed.recover(tmp_path / "data")
    last.write_text(last.read_text().replace("q3", "q33", 1))
    with pytest.raises(DataError, match=r"part000600\.csv: lacks 'q3' of .* and has 'q33' beside"):
        hopfed.recover(tmp_path / "data")
    with pytest.raises(ArgumentError, match="rank_rule must be tw, mp or a number"):
        hopfed.recover(spread(rows("symmetric")), rank_rule="shuffle")


def test_the_command_reads_a_pattern_with_workers_of_its_own(hopfed, tmp_path):
    x = rows("symmetric")
    np.save(tmp_path / "all.npy", x)
    (tmp_path / "data").mkdir()
    for i in range(0, len(x), 500):
        np.save(tmp_path / "data" / f"{i:06}.npy", x[i : i + 500])
    _, plain, _ = hopfed("recover", tmp_path / "all.npy", "--json")
    status, apart, error = hopfed("recover", f"{tmp_path}/data/*.npy", "--dask", "local", "--json")
    assert status == 0, error
    first, second = json.loads(plain), json.loads(apart)
    first.pop("seconds"), second.pop("seconds")
    assert first == second


def test_a_scheduler_that_does_not_answer_is_one_line(hopfed, tmp_path, monkeypatch):
    monkeypatch.setattr("hopfed._lib.cluster.PATIENCE", 0.5)
    np.save(tmp_path / "a.npy", rows("symmetric"))
    status, _, error = hopfed("recover", tmp_path / "a.npy", "--dask", "tcp://127.0.0.1:1")
    assert status == 2
    assert "dask must be local, or the address of a scheduler that answers" in error
    status, _, error = hopfed("recover", tmp_path / "a.npy", "--dask", "local", "--memory", "1GB")
    assert status == 2
    assert "--memory must be left out with --dask" in error


def slow_rows(block, folder, m, n):
    """Rows of a block, made slowly; a file says that they were made."""
    time.sleep(0.1)
    with open(f"{folder}/{block}", "a") as made:
        made.write("x")
    return rows("symmetric", m, n, seed=0)[block::20]


@pytest.mark.slow
def test_what_a_lost_worker_held_is_made_again(tmp_path):
    m, n = 4_000, 60
    make = dask.delayed(slow_rows, pure=False)
    blocks = [
        da.from_delayed(make(b, str(tmp_path), m, n), (m // 20, n), np.int8) for b in range(20)
    ]
    x = np.concatenate([rows("symmetric", m, n)[b::20] for b in range(20)])
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        table = read_partitions(da.concatenate(blocks))
        assert sorted(int(p.name) for p in tmp_path.iterdir()) == list(range(20))
        os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)
        check_alike(run_recovery(x), run_recovery(table))
        times = [len(p.read_text()) for p in tmp_path.iterdir()]
    assert max(times) > 1
    assert min(times) == 1
