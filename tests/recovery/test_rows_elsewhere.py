"""Rows that are not held here: read again from a file, or in partitions on Dask's workers."""

import json
import os
import signal
from functools import partial

import h5py
import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes import classes as graded
from hopfed.archetypes.patterns import Patterns
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import pack, pack_masked, unpack
from hopfed.recovery.recover import deal_rows, run_recovery
from hopfed.spectral.rank import TracyWidom
from hopfed.spectral.reread_rows import DaskRows, Reread
from hopfed.tables.reading import gather_rows, read_partitions, read_tables
from hopfed.tables.table import Source

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")

BY_LAW = {"patterns": Patterns(TracyWidom(0.01)), "channel": "symmetric"}
NOTHING = Source("rows", (), lambda: iter(()))
MEMORY = 4_000  # bytes, of the tens of thousands that the tables below take


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """No partition is brought here, many blocks of a file, and a search in part of the rows."""

    def refuse(self):
        raise AssertionError("a block of rows travels")

    monkeypatch.setattr(DaskRows, "parts", refuse)
    monkeypatch.setattr("hopfed.tables.formats.BLOCK", 20_000)
    monkeypatch.setattr("hopfed.tables.formats.ROWS", 1)
    monkeypatch.setattr("hopfed.tables.formats.PART", 5_000)
    monkeypatch.setattr(graded, "SEARCHED", 24_000)


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


def many_patterns():
    rng = np.random.default_rng(3)
    xi = np.where(rng.random((30, 100)) < 0.5, 1, -1)
    x = xi[rng.integers(30, size=3_000)] * np.where(rng.random((3_000, 100)) < 0.9, 1, -1)
    return x.astype(np.int8)


def spread(x, size=500):
    """Rows in partitions, whose columns are cut as well."""
    return da.from_array(x, chunks=(size, 25))


def again(x, folder, memory=MEMORY):
    """Rows of a file that does not fit into the memory given."""
    np.save(folder / "again.npy", x)
    table = hopfed.read_table(folder / "again.npy", memory=memory)
    assert isinstance(table.rows, Reread)
    return table


def elsewhere(form, x, folder):
    return again(x, folder) if form == "again" else read_partitions(spread(x))


forms = pytest.mark.parametrize("form", ["again", "apart"])


def check_alike(held, other, exact=True):
    """The same to the bit, or up to the step at which expectation maximisation stops."""
    a, b = held.archetypes, other.archetypes
    for name in ("status", "advice", "n_detected", "channel"):
        assert getattr(a, name) == getattr(b, name)
    assert len(a) > 0
    assert np.array_equal(a.patterns, b.patterns)
    same = np.array_equal if exact else partial(np.allclose, rtol=0, atol=5e-4)
    for name in ("scores", "exposures", "shares", "means", "quality"):
        assert same(getattr(a, name), getattr(b, name), equal_nan=True), name
    assert np.allclose(held.eigenvalues, other.eigenvalues, rtol=1e-9, atol=0)
    assert np.array_equal(held.constant_columns, other.constant_columns)
    assert held.n_examples == other.n_examples
    assert abs(held.exchanges - other.exchanges) <= 1 or not exact


@pytest.mark.parametrize(
    ("form", "kind", "options"),
    rest_slow(
        [
            ("again", "symmetric", {"refit": True}),
            ("apart", "constant", {}),
            ("again", "graded", {}),
            ("apart", "symmetric", BY_LAW),
            ("apart", "graded", {}),
        ],
        3,
    ),
)
def test_every_channel_and_method_gives_what_rows_that_are_held_give(form, kind, options, tmp_path):
    x = rows(kind)
    table = elsewhere(form, x, tmp_path)
    other = run_recovery(table, **options)
    check_alike(run_recovery(hopfed.read_table(x), **options), other, other.residual is None)
    if form == "again":
        assert other.readings == table.rows.made() > 1


@forms
def test_layers_are_peeled_where_the_rows_are(form, threads, tmp_path):
    x = many_patterns()
    held, other = run_recovery(x), run_recovery(elsewhere(form, x, tmp_path))
    assert held.layers == other.layers > 1
    check_alike(held, other)


def test_workers_of_a_scheduler_give_the_same(threads):
    x = rows("gaps")
    check_alike(run_recovery(hopfed.read_table(x)), run_recovery(spread(x)), exact=False)


def test_groups_of_many_rows_are_dealt_alike_wherever_the_partitions_end(monkeypatch):
    monkeypatch.setattr("hopfed.archetypes.patterns.DEALT", 1_000)
    x = rows("symmetric")
    check_alike(run_recovery(x), run_recovery(spread(x, 100)))


@pytest.mark.parametrize(("m", "n", "limit"), [(1_200, 40, 30), (90, 150, 100)])
def test_products_alone_give_the_spectrum_of_very_many_columns(monkeypatch, tmp_path, m, n, limit):
    for name in ("archetypes.patterns", "spectral.eigenpairs", "spectral.whitening"):
        monkeypatch.setattr(f"hopfed.{name}.EXPLICIT_LIMIT", limit)
    x = rows("symmetric", m, n)
    a, b = (run_recovery(rows).archetypes for rows in (x, again(x, tmp_path, memory=64)))
    assert np.array_equal(a.patterns, b.patterns)
    assert len(a) == 3


def held_and_not(form, kind):
    """300 rows that are held, with gaps or without; and rows that are not held, of the same."""
    held = (pack_masked if kind == "gaps" else pack)(np.nan_to_num(rows(kind, 300, 70)))
    parts = held[:100], held[100:]
    if form == "apart":
        return held, DaskRows.of([dask.delayed(part) for part in parts])
    return held, gather_rows(NOTHING, parts, lambda: iter(parts), most=0)


@forms
@pytest.mark.parametrize("kind", ["symmetric", "gaps"])
def test_rows_are_chosen_asked_dealt_and_cut_as_those_that_are_held(form, kind):
    held, found = held_and_not(form, kind)
    entries = unpack(held)
    assert (held.held, found.held) == (True, False)
    assert (found.shape, found.size, found.gaps) == (held.shape, held.size, held.gaps)
    assert np.array_equal(found.totals.products, entries.T.astype(int) @ entries)
    mask = np.isin(np.arange(300), [3, 250])
    for which in (mask, slice(90, 120, 7), np.array([0, 99, 100, 299])):
        assert np.array_equal(unpack(found[which]), entries[which])
        assert np.array_equal(unpack(found.chosen(which)[:]), entries[which])
    for which in (np.zeros(300, bool), slice(5, 5), np.array([], int)):
        assert unpack(found[which]).shape == (0, 70)
        assert found.chosen(which)[:].shape == (0, 70)
    for which in (mask[1:], np.array([2, 1]), slice(None, None, -1), [-1, 3], [300]):
        with pytest.raises(ArgumentError, match="rows must be"):
            found[which]
    order = np.random.default_rng(0).permutation(70)[:27]
    assert found.columns(order).totals.sums.tolist() == entries[:, order].sum(axis=0).tolist()
    for each in (held, found):
        assert np.array_equal(unpack(each.columns(order)[:]), entries[:, order])
        few = each.where(lambda part: unpack(part)[:, 0] > 0)
        assert few.held == each.held
        assert np.array_equal(unpack(few[:]), entries[entries[:, 0] > 0])
        assert each.total(lambda part, before: before * len(part), placed=True) in (0, 20_000)
    for one, other in zip(deal_rows(held, 3, 0), deal_rows(found, 3, 0), strict=True):
        assert np.array_equal(unpack(one), unpack(other[:]))
    if form == "again":
        assert found.mapped(lambda part: part.columns(order), 27).shape == (300, 27)


@pytest.mark.filterwarnings("ignore:examples. 0 is missing")
def test_zero_means_what_it_means_in_the_whole_table():
    """A partition without -1 cannot know that 0 is missing there; one of +1 only has no zeros."""
    x = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1], [-1, 1, 0], [1, -1, -1]])
    for given in (x, x.astype(np.int8), x.astype(float), np.abs(x), np.abs(x) > 0):
        table = read_partitions(da.from_array(given, chunks=(2, 3)))
        held = hopfed.read_table(given)
        assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))


def worded(x):
    """A table of words, with names of rows and a column of three kinds."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    words = np.where(np.isnan(x), None, np.where(x > 0, "yes", "no"))
    frame = pd.DataFrame(words, columns=[f"q{j}" for j in range(x.shape[1])])
    frame.insert(0, "tree", np.resize(["ash", "yew", "oak"], len(x)))
    frame.insert(0, "id", [f"p{k}" for k in range(len(x))])
    return frame


def written(folder, x, ending, size=500):
    """Rows in files of some hundred."""
    frame = worded(x)
    folder.mkdir()
    for i in range(0, len(x), size):
        part = frame[i : i + size]
        part = part[sorted(part.columns, reverse=i > 0)] if ending == ".parquet" else part
        path = folder / f"part{i:06}{ending}"
        part.to_parquet(path) if ending == ".parquet" else part.to_csv(path, index=False)
    (folder / "_SUCCESS").touch()
    return frame


def check_same_table(table, held):
    assert (table.columns, table.coding, table.notes) == (held.columns, held.coding, held.notes)
    assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))


@pytest.mark.parametrize("ending", rest_slow([".parquet", ".csv"], 1))
def test_a_folder_of_files_is_one_table(tmp_path, ending, threads):
    frame = written(tmp_path / "data", rows("gaps"), ending)
    held = hopfed.read_table(frame.sort_index(axis=1) if ending == ".parquet" else frame)
    assert "tree=ash" in held.columns
    check_same_table(read_partitions(tmp_path / "data"), held)
    check_same_table(read_partitions(str(tmp_path / "data" / f"part*{ending}")), held)


def test_a_frame_of_dask_is_a_table_by_its_names():
    dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    frame = worded(rows("graded", 600, 20)).drop(columns="id")
    frame["size"] = np.arange(600) % 7
    lazy = dd.from_pandas(frame, npartitions=4)
    options = {"binarize": {"size": "median"}, "ignore": ["q3"]}
    check_same_table(hopfed.read_table(lazy, **options), hopfed.read_table(frame, **options))
    none = lazy[lazy["size"] > 99]
    odd = dd.from_pandas(frame.assign(odd=["yes", "no"] * 299 + ["no", "perhaps"]), npartitions=2)
    with pytest.raises(
        DataError, match=r"^examples: partition 1, row 300, column 'odd': 'perhaps'"
    ):
        read_partitions(odd.drop(columns="size"))
    joined = read_partitions(dd.concat([none, lazy]).drop(columns=["size", "tree"]))
    assert joined.shape == (600, 20)


def test_a_zarr_store_is_read_in_parts(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    x = rows("symmetric")
    store = zarr.create_array(tmp_path / "a.zarr", shape=x.shape, chunks=(250, 40), dtype=x.dtype)
    store[:] = x
    table = read_partitions(tmp_path / "a.zarr")
    assert np.array_equal(unpack(table.rows[:]), x)
    zarr.save_group(str(tmp_path / "b.zarr"), examples=x, labels=x[0])
    assert np.array_equal(unpack(read_partitions(tmp_path / "b.zarr").rows[:]), x)


def test_partitions_that_cannot_be_a_table_are_one_line(tmp_path):
    x = rows("symmetric").astype(float)
    x[777, 3] = 2
    (tmp_path / "empty").mkdir()
    for given, message in (
        (spread(x), r"values must be .* partition 1, row 278, column 4"),
        (spread(x[:1]), "at least two examples are needed, got 1"),
        (da.from_array(x[0]), "rows of a table, got 1 axes"),
        ("lost/*.csv", r"no such file"),
        (tmp_path / "empty", "a folder without any"),
    ):
        with pytest.raises(DataError, match=message):
            hopfed.recover(given)
    written(tmp_path / "data", rows("graded", 900, 20), ".csv", 300)
    last = tmp_path / "data" / "part000600.csv"
    last.write_text(last.read_text().replace("no", "perhaps", 1))
    with pytest.raises(DataError, match=r"part000600.csv, row 1, column 'q\d+': 'perhaps' stands"):
        hopfed.recover(tmp_path / "data")
    last.write_text(last.read_text().replace("q3", "q33", 1))
    with pytest.raises(DataError, match=r"part000600\.csv: lacks 'q3' of .* and has 'q33' beside"):
        hopfed.recover(tmp_path / "data")


@pytest.mark.slow
def test_the_command_reads_a_pattern_with_workers_of_its_own(hopfed, tmp_path):
    x = rows("symmetric")
    for name, part in {"all": x, "part0": x[:500], "part1": x[500:]}.items():
        np.save(tmp_path / f"{name}.npy", part)
    plain, _ = hopfed.done("recover", tmp_path / "all.npy", "--json")
    apart, _ = hopfed.done("recover", f"{tmp_path}/part*.npy", "--dask", "local", "--json")
    first, second = json.loads(plain), json.loads(apart)
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_a_scheduler_that_does_not_answer_is_one_line(hopfed, tmp_path, monkeypatch):
    monkeypatch.setattr("hopfed._lib.dask_cluster.PATIENCE", 0.5)
    np.save(tmp_path / "a.npy", rows("symmetric"))
    for words, message in (
        (("tcp://127.0.0.1:1",), "dask must be local, or the address of a scheduler that answers"),
        (("local", "--memory", "1GB"), "--memory must be left out beside --dask"),
    ):
        assert message in hopfed.refused("recover", tmp_path / "a.npy", "--dask", *words)


@pytest.mark.slow
def test_what_a_lost_worker_held_is_made_again():
    x = rows("symmetric", 4_000, 60)
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        table = read_partitions(spread(x, 200))
        os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)
        check_alike(run_recovery(x), run_recovery(table))


def write(folder, x, ending):
    path = folder / f"table{ending}"
    if ending == ".npy":
        np.save(path, x)
    elif ending == ".npz":
        np.savez_compressed(path, examples=x, labels=np.arange(len(x)))
    elif ending == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("examples", data=x, chunks=(100, 20), compression="gzip")
    elif ending == ".parquet":
        worded(x).to_parquet(path, row_group_size=500)
    elif ending == ".feather":
        worded(x).to_feather(path, chunksize=500, compression="lz4")
    else:
        worded(x).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        *(("gaps", ".csv"), ("symmetric", ".npz"), ("gaps", ".parquet"), ("symmetric", ".h5")),
        *(("symmetric", ".csv.gz"), ("gaps", ".npy"), ("gaps", ".feather")),
    ],
)
def test_a_file_read_again_is_the_table_that_is_held(tmp_path, kind, ending):
    path = write(tmp_path, rows(kind).astype(float), ending)
    held, table = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    assert isinstance(table.rows, Reread)
    assert len(list(table.rows.parts())) > 2
    check_same_table(table, held)
    assert table.rows.gaps == held.rows.gaps


def test_owners_are_matched_by_name_and_one_may_be_held(tmp_path):
    frame = worded(rows("gaps", 600))
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    frame[:450].to_csv(paths[0], index=False)
    frame[450:].sample(frac=1, axis=1, random_state=1).to_csv(paths[1], index=False)
    tables = read_tables(paths, memory=7_000)  # half of it for each: b fits, a does not
    assert [isinstance(table.rows, Reread) for table in tables] == [True, False]
    check_alike(run_recovery(read_tables(paths)), run_recovery(tables), exact=False)


def test_a_word_that_comes_late_changes_the_coding_and_nothing_else(tmp_path):
    path = write(tmp_path, rows("gaps", 1_200), ".csv")
    path.write_text(path.read_text() + ",".join(["last", "ash", *["yes"] * 39, "perhaps"]))
    held, table = (
        hopfed.read_table(path, words={"perhaps": None}, memory=m) for m in (None, MEMORY)
    )
    assert isinstance(table.rows, Reread)
    assert np.array_equal(unpack(table.rows[:]), unpack(held.rows))
    with pytest.raises(DataError, match=r"row 1201, column 'q39': 'perhaps' stands beside"):
        hopfed.read_table(path, memory=MEMORY)


def test_what_cannot_be_read_again_is_one_line(tmp_path):
    path = write(tmp_path, rows("symmetric", 1_200).astype(float), ".csv")
    table = hopfed.read_table(path, memory=MEMORY)
    gaps = hopfed.read_table(write(tmp_path, rows("gaps"), ".parquet"), memory=MEMORY)
    with pytest.raises(DataError, match="entries are missing, and channel wants none"):
        hopfed.recover(gaps, channel="symmetric")
    path.write_text("\n".join(path.read_text().splitlines()[:-5]))
    with pytest.raises(DataError, match="the file changed: 1,200 rows before, 1,195 now"):
        hopfed.recover(table)


def test_rows_are_held_while_they_fit():
    x = pack(np.where(np.random.default_rng(0).random((300, 70)) < 0.5, 1, -1))
    parts = [x[:100], x[100:200], x[200:]]
    for most, holds in ((x.nbytes, True), (x.nbytes - 1, False)):
        assert gather_rows(NOTHING, parts, lambda: iter(parts), most).held == holds


def test_the_command_says_how_often_the_file_was_read(hopfed, tmp_path):
    path = write(tmp_path, rows("symmetric", 600, 20).astype(float), ".csv")
    text, error = hopfed.done("recover", path, "--memory", "1kB")
    assert "names of rows were found, in 'id'" in error
    assert "the examples are more than --memory: they were read " in text
    held, described = (
        hopfed.done("recover", path, "--dry-run", *more)[0] for more in ((), ("--memory", "1kB"))
    )
    assert held == described
    for size in ("much", "-1", "0", "1XB", "1e3"):
        said = hopfed.refused("recover", path, "--memory", size)
        assert "is not a size, such as 500MB or 2GB" in said
