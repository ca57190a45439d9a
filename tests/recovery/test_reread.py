"""Tables that do not fit into the memory given: read again, and the same result."""

import gzip
import json

import h5py
import numpy as np
import pytest

import hopfed
from hopfed.archetypes import classes as graded
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import MaskedBits, pack, pack_masked, unpack
from hopfed.recovery.recover import run_recovery, split
from hopfed.spectral.reread_rows import Gathered, Reread
from hopfed.tables.reading import read_tables

MEMORY = 4_000  # bytes, of the tens of thousands that the tables below take


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks, and a graded search in part of the rows, of tables that are quick to read."""
    monkeypatch.setattr("hopfed.tables.text.BLOCK", 20_000)
    monkeypatch.setattr("hopfed.tables.text.ROWS", 1)
    monkeypatch.setattr("hopfed.tables.formats.PART", 5_000)
    monkeypatch.setattr("hopfed.tables.arrays.LARGE", 20_000)
    monkeypatch.setattr(graded, "SEARCHED", 24_000)


def rows(kind, m=1_200, n=40, seed=0):
    rng = np.random.default_rng(seed)
    if kind in ("symmetric", "constant"):
        xi = np.where(rng.random((3, n)) < 0.5, 1, -1)
        x = xi[rng.integers(3, size=m)] * np.where(rng.random((m, n)) < 0.85, 1, -1)
        if kind == "constant":
            x[:, :20] = 1
        return x.astype(float)
    rates = rng.uniform(0.1, 0.9, (3, n))
    x = np.where(rng.random((m, n)) < rates[rng.integers(3, size=m)], 1.0, -1.0)
    if kind == "gaps":
        x[rng.random((m, n)) < 0.1] = np.nan
    return x


def csv_text(x, order=None):
    order = range(x.shape[1]) if order is None else order
    words = np.where(np.isnan(x), "", np.where(x > 0, "yes", "no"))
    lines = [",".join(["id", *(f"q{j}" for j in order)])]
    return "\n".join([*lines, *(",".join([f"p{k}", *words[k, order]]) for k in range(len(x)))])


def write(folder, x, ending):
    path = folder / f"table{ending}"
    if ending == ".npy":
        np.save(path, x)
    elif ending == ".npz":
        np.savez_compressed(path, examples=x, labels=np.arange(len(x)))
    elif ending == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("examples", data=x, chunks=(100, 20), compression="gzip")
    elif ending == ".csv":
        path.write_text(csv_text(x))
    elif ending == ".tsv":
        path.write_text(csv_text(x).replace(",", "\t"))
    elif ending == ".csv.gz":
        path.write_bytes(gzip.compress(csv_text(x).encode()))
    else:
        import pyarrow as pa
        from pyarrow import feather, parquet

        found = {f"q{j}": pa.array(x[:, j], mask=np.isnan(x[:, j])) for j in range(x.shape[1])}
        if ending == ".parquet":
            parquet.write_table(pa.table(found), path, row_group_size=500)
        else:
            feather.write_feather(pa.table(found), path, chunksize=500, compression="lz4")
    return path


def check_alike(held, again):
    """The same recovery: patterns to the bit, means up to the step at which EM stops."""
    a, b = held.archetypes, again.archetypes
    for name in ("status", "advice", "n_detected", "channel"):
        assert getattr(a, name) == getattr(b, name)
    assert len(a) > 0
    assert np.array_equal(a.patterns, b.patterns)
    assert np.allclose(a.means, b.means, rtol=0, atol=1e-4)
    assert np.allclose(a.shares, b.shares, rtol=0, atol=1e-4)
    assert np.allclose(held.eigenvalues, again.eigenvalues, rtol=1e-9)
    assert np.array_equal(held.constant_columns, again.constant_columns)


@pytest.mark.parametrize(
    "ending", [".npy", ".npz", ".h5", ".csv", ".tsv", ".csv.gz", ".parquet", ".feather"]
)
@pytest.mark.parametrize("kind", ["symmetric", "gaps"])
def test_a_table_read_again_gives_what_one_that_is_held_gives(tmp_path, kind, ending):
    path = write(tmp_path, rows(kind), ending)
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    assert isinstance(again.rows, Reread)
    assert len(list(again.rows.parts())) > 2
    assert (again.shape, again.columns, again.notes) == (held.shape, held.columns, held.notes)
    assert np.array_equal(unpack(again.rows[:]), unpack(held.rows))
    assert again.rows.gaps == isinstance(held.rows, MaskedBits)
    if (kind, ending) in (
        ("symmetric", ".npy"),
        ("gaps", ".csv"),
    ):  # the same rows, the same recovery
        check_alike(run_recovery(held), run_recovery(again))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("symmetric", {"refit": True}),
        ("symmetric", {"rank_rule": "mp", "channel": "symmetric"}),
        ("constant", {}),
        ("graded", {}),
    ],
)
def test_every_channel_and_method(tmp_path, kind, options):
    path = write(tmp_path, rows(kind), ".npy")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    first, second = run_recovery(held, **options), run_recovery(again, **options)
    check_alike(first, second)
    assert first.readings == 1
    assert second.readings == again.rows.made() > 1


def test_few_observed_entries_of_a_larger_table_are_searched_whole(tmp_path):
    x = rows("gaps")
    x[np.random.default_rng(5).random(x.shape) < 0.6] = np.nan
    path = write(tmp_path, x, ".npy")
    assert x.size > graded.SEARCHED > np.isfinite(x).sum()
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    assert isinstance(again.rows, Reread)
    check_alike(run_recovery(held), run_recovery(again))


def test_layers_are_peeled_off_rows_that_are_not_held(tmp_path):
    rng = np.random.default_rng(3)
    xi = np.where(rng.random((30, 100)) < 0.5, 1, -1)
    x = xi[rng.integers(30, size=3_000)] * np.where(rng.random((3_000, 100)) < 0.9, 1, -1)
    np.save(tmp_path / "a.npy", x.astype(np.int8))
    held, again = (hopfed.read_table(tmp_path / "a.npy", memory=m) for m in (None, MEMORY))
    first, second = run_recovery(held), run_recovery(again)
    assert first.layers == second.layers > 1
    check_alike(first, second)


def test_more_columns_than_the_first_reading_adds_up(tmp_path, monkeypatch):
    monkeypatch.setattr("hopfed.spectral.reread_rows.SQUARE", 30)
    path = write(tmp_path, rows("symmetric"), ".csv")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    assert again.rows.totals.products is None
    check_alike(run_recovery(held), run_recovery(again))


def test_products_alone_give_the_spectrum_of_very_many_columns(tmp_path, monkeypatch):
    for name in ("archetypes.moments", "spectral.eigenpairs", "spectral.whitening"):
        monkeypatch.setattr(f"hopfed.{name}.EXPLICIT_LIMIT", 30)
    monkeypatch.setattr("hopfed.spectral.reread_rows.SQUARE", 30)
    path = write(tmp_path, rows("symmetric"), ".npy")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    a, b = run_recovery(held).archetypes, run_recovery(again).archetypes
    assert np.array_equal(a.patterns, b.patterns)


def test_fewer_rows_than_very_many_columns(tmp_path, monkeypatch):
    for name in ("archetypes.moments", "spectral.eigenpairs"):
        monkeypatch.setattr(f"hopfed.{name}.EXPLICIT_LIMIT", 100)
    path = write(tmp_path, rows("symmetric", m=90, n=150), ".npy")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=64)
    assert isinstance(again.rows, Reread)
    a, b = run_recovery(held).archetypes, run_recovery(again).archetypes
    assert np.array_equal(a.patterns, b.patterns)
    assert len(a) == 3


def test_owners_are_matched_by_name_and_one_may_be_held(tmp_path):
    x = rows("gaps")
    order = np.random.default_rng(1).permutation(x.shape[1]).tolist()
    (tmp_path / "a.csv").write_text(csv_text(x[:900]))
    (tmp_path / "b.csv").write_text(csv_text(x[900:], order))
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    again = read_tables(paths, memory=14_000)  # half of it for each: b fits, a does not
    assert [isinstance(table.rows, Reread) for table in again] == [True, False]
    check_alike(run_recovery(read_tables(paths)), run_recovery(again))


def test_a_table_that_is_read_again_is_dealt_to_clients(tmp_path):
    path = write(tmp_path, rows("symmetric"), ".npy")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    for one, other in zip(split(held.rows, 3, 0), split(again.rows, 3, 0), strict=True):
        assert np.array_equal(unpack(one), unpack(other[:]))
    check_alike(run_recovery(split(held.rows, 3, 0)), run_recovery(split(again.rows, 3, 0)))


def test_copies_and_constant_columns_are_named_all_the_same(tmp_path):
    x = rows("gaps")
    x[:, 7], x[:, 9], x[:, 11] = -x[:, 3], 1, np.nan
    path = write(tmp_path, x, ".csv")
    held, again = hopfed.read_table(path), hopfed.read_table(path, memory=MEMORY)
    assert held.notes == again.notes
    assert any("'q3' and 'q7'" in line for line in again.notes)


def test_a_word_that_comes_late_changes_the_coding_and_nothing_else(tmp_path):
    text = csv_text(rows("gaps")) + "\n" + ",".join(["last", *["yes"] * 39, "perhaps"])
    (tmp_path / "a.csv").write_text(text)
    words = {"perhaps": None}
    held, again = (
        hopfed.read_table(tmp_path / "a.csv", words=words, memory=m) for m in (None, MEMORY)
    )
    assert isinstance(again.rows, Reread)
    assert np.array_equal(unpack(again.rows[:]), unpack(held.rows))
    with pytest.raises(DataError, match=r"row 1201, column 'q39': 'perhaps' stands beside"):
        hopfed.read_table(tmp_path / "a.csv", memory=MEMORY)


def test_what_cannot_be_is_one_line(tmp_path):
    path = write(tmp_path, rows("symmetric"), ".csv")
    again = hopfed.read_table(path, memory=MEMORY)
    with pytest.raises(ArgumentError, match="rank_rule must be tw, mp or a number"):
        hopfed.recover(again, rank_rule="shuffle")
    gaps = hopfed.read_table(write(tmp_path, rows("gaps"), ".tsv"), memory=MEMORY)
    with pytest.raises(DataError, match="entries are missing, and complete rows are needed"):
        hopfed.recover(gaps, channel="symmetric")
    path.write_text("\n".join(path.read_text().splitlines()[:-5]))
    with pytest.raises(DataError, match="the file changed: 1,200 rows before, 1,195 now"):
        hopfed.recover(again)


def test_rows_are_held_while_they_fit():
    x = pack(np.where(np.random.default_rng(0).random((300, 70)) < 0.5, 1, -1))
    parts = [x[:100], x[100:200], x[200:]]
    for most, holds in ((x.nbytes, True), (x.nbytes - 1, False)):
        gathered = Gathered("rows", most)
        for part in parts:
            gathered.add(part)
        assert gathered.holds == holds
        assert isinstance(gathered.rows(lambda: iter(parts)), Reread) != holds
    found = gathered.rows(lambda: iter(parts))
    which = np.array([0, 99, 100, 250])
    assert np.array_equal(unpack(found[which]), unpack(x)[which])
    assert np.array_equal(unpack(found.chosen(which)[:]), unpack(x)[which])
    columns = found.columns(np.array([69, 3]))
    assert np.array_equal(unpack(columns[:]), unpack(x)[:, [69, 3]])
    assert columns.totals.sums.tolist() == unpack(x)[:, [69, 3]].sum(axis=0).tolist()
    y = unpack(x).astype(float)
    assert np.array_equal(found.totals.products, y.T @ y)


def in_parts(kind):
    """Entries of rows with or without gaps, and what stands for the rows."""
    entries = rows(kind)[:300]
    packed = (pack_masked if kind == "gaps" else pack)(np.nan_to_num(entries))
    gathered = Gathered("rows", most=0)
    for part in (packed[:100], packed[100:]):
        gathered.add(part)
    return unpack(packed), gathered.rows(lambda: iter((packed[:100], packed[100:])))


@pytest.mark.parametrize("kind", ["symmetric", "gaps"])
def test_rows_are_chosen_by_masks_slices_and_numbers(kind):
    entries, found = in_parts(kind)
    mask = np.isin(np.arange(300), [3, 250])
    for which in (mask, slice(90, 120, 7), np.array([0, 0, 299])):
        assert np.array_equal(unpack(found[which]), entries[which])
        assert np.array_equal(unpack(found.chosen(which)[:]), entries[which])


@pytest.mark.parametrize("kind", ["symmetric", "gaps"])
def test_no_rows_may_be_chosen(kind):
    entries, found = in_parts(kind)
    for which in (np.zeros(300, bool), slice(5, 5), np.array([], int), []):
        assert unpack(found[which]).shape == (0, entries.shape[1])
    assert found.chosen([])[:].shape == (0, entries.shape[1])


@pytest.mark.parametrize(
    "which", [np.ones(299, bool), np.array([2, 1]), slice(None, None, -1), [-1, 3], [300]]
)
def test_rows_that_cannot_be_chosen_in_one_reading_are_refused(which):
    with pytest.raises(ArgumentError, match="rows must be"):
        in_parts("symmetric")[1][which]


def test_the_command_says_how_often_the_file_was_read(hopfed, tmp_path):
    path = write(tmp_path, rows("symmetric"), ".csv")
    _, plain, _ = hopfed("recover", path, "--json")
    _, again, error = hopfed("recover", path, "--json", "--memory", "4kB")
    first, second = json.loads(plain), json.loads(again)
    assert second.pop("readings") > 1
    assert first["exposures"] == pytest.approx(second["exposures"], abs=1e-4)
    assert error.splitlines() == ["column 'id' names the rows"]
    _, text, _ = hopfed("recover", path, "--memory", "4kB")
    assert "the examples are more than --memory: they were read " in text
    _, held, _ = hopfed("recover", path, "--dry-run")
    _, described, _ = hopfed("recover", path, "--dry-run", "--memory", "4kB")
    assert held == described
    for size in ("much", "-1", "0", "1XB", "1e3"):
        status, _, error = hopfed("recover", path, "--memory", size)
        assert status == 2
        assert "is not a size, such as 500MB or 2GB" in error
