"""Dates, times, lists and decimal numbers stay what they are where a table is written again."""

import csv
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from hopfed import read_table, recover
from hopfed.archetypes.completion import filled
from hopfed.errors import DataError

ROWS = 60
WORDS = [[["yes", "no"], ["no", "yes"]][k % 2] for k in range(ROWS)]
TYPED = {
    "day": (pa.date32(), [date(2020, 1, 1) + timedelta(k) for k in range(ROWS)], "2020-01-02"),
    "at": (
        pa.timestamp("ms", "UTC"),
        [datetime(2020, 1, 1, 5, 6, 7, 500_000, UTC) + timedelta(k) for k in range(ROWS)],
        "2020-01-02 05:06:07.5",
    ),
    "clock": (pa.time64("us"), [time(5, 6, k) for k in range(ROWS)], "05:06:01"),
    "lasts": (pa.duration("s"), [timedelta(hours=k) for k in range(ROWS)], "1:00:00"),
    "paid": (pa.decimal128(6, 2), [Decimal("1.10") * k for k in range(ROWS)], "1.10"),
    "visits": (pa.list_(pa.int64()), [[k, 2] for k in range(ROWS)], "[1, 2]"),
}


def questions():
    """Ten columns of words, in two kinds of rows, with a gap; and truth values, with a gap."""
    made = {f"q{j}": [row[j % 2] for row in WORDS] for j in range(10)}
    return made | {"flag": pa.array([row[0] == "yes" for row in WORDS])}


def with_gaps():
    made = questions()
    made["q3"] = [None, *made["q3"][1:]]
    made["flag"] = pa.array([None, *made["flag"].to_pylist()[1:]])
    made |= {name: pa.array(cells, kind) for name, (kind, cells, _) in TYPED.items()}
    return pa.table(made)


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run.h5"
    recover(questions()).save(path)
    return path


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_types_stay_in_a_parquet_file_whose_gaps_are_filled(tmp_path, hopfed, run, ending):
    given, out = tmp_path / f"given.{ending}", tmp_path / "full.parquet"
    table = with_gaps()
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, given)
    assert hopfed("complete", run, given, "--out", out)[0] == 0
    full = parquet.read_table(out)
    for name in TYPED:
        assert full[name].type == table[name].type
        assert full[name].to_pylist() == table[name].to_pylist()
    assert full["q3"].null_count == full["flag"].null_count == 0
    assert full["flag"].to_pylist() == questions()["flag"].to_pylist()
    assert full["flag"].type == pa.bool_()


def test_types_are_texts_in_a_csv(tmp_path, hopfed, run):
    given = tmp_path / "given.parquet"
    parquet.write_table(with_gaps(), given)
    assert hopfed("complete", run, given, "--out", tmp_path / "full.csv")[0] == 0
    with open(tmp_path / "full.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, (_, _, expected) in TYPED.items():
        assert rows[1][name].startswith(expected)
    assert {row["flag"] for row in rows} == {"True", "False"}


@pytest.mark.parametrize("name", ["day", "at", "clock", "lasts"])
def test_rows_may_be_named_by_dates_and_times(tmp_path, hopfed, name):
    given, run, out = (tmp_path / n for n in ("given.parquet", "run.h5", "rows.csv"))
    parquet.write_table(with_gaps(), given)
    others = ",".join(TYPED.keys() - {name})
    status, _, errors = hopfed("recover", given, "--id", name, "--ignore", others, "--out", run)
    assert status == 0, errors
    assert hopfed("assign", run, given, "--out", out)[0] == 0
    with open(out, newline="") as file:
        assert list(csv.DictReader(file))[1]["id"].startswith(TYPED[name][2])


def test_lists_name_no_rows():
    with pytest.raises(DataError, match="column 'visits' holds lists or records"):
        read_table({"visits": [[1], [2], [3]], "tea": [0, 1, 1]}, id="visits")


def test_numbers_that_are_entries_stay_numbers():
    found = recover({f"q{j}": [k % 2 for k in range(ROWS)] for j in range(10)})
    asked = {f"q{j}": [1, 0, 1] for j in range(9)} | {"q9": pa.array([None, 0, 1], pa.int8())}
    columns = dict(filled(found, pa.table(asked)).columns)
    assert columns["q9"].equals(pa.array([1, 0, 1], pa.int8()))


@pytest.mark.parametrize("name", ["__null_dask_index__", "__index_level_0__"])
@pytest.mark.parametrize("repeats", [1, 5])
def test_the_index_of_a_frame_is_no_column(name, repeats, tmp_path):
    """A folder of Parquet that Dask wrote was refused for a column that nobody made."""
    rng = np.random.default_rng(6)
    kinds = rng.integers(2, size=400)
    columns = {f"q{j}": (rng.random(400) < np.where(kinds, 0.85, 0.15)).tolist() for j in range(12)}
    columns[name] = (np.arange(400) // repeats).tolist()
    path = tmp_path / "part.0.parquet"
    parquet.write_table(pa.table(columns), path)
    table = read_table(path)
    assert table.columns == tuple(f"q{j}" for j in range(12))
    assert recover(str(tmp_path)).columns == table.columns


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_that_look_like_formulas_stay_what_they_are(hopfed, tmp_path, end):
    """+ and - became '+ and '-, and phone numbers of an ignored column were led by apostrophes."""
    rng = np.random.default_rng(5)
    signs = np.where(rng.random((90, 6)) < [[0.9], [0.2], [0.5]] * 30, "+", "-").astype(object)
    signs[3, 2] = signs[40, 5] = ""
    texts = ["=1+1", "+41 79 1", "-abc", "@user", "--", "a;=cmd", "\t=x", "'=q"]
    head = ["id", "=phone", *(f"q{j}" for j in range(6))]
    ids = [f"{texts[k % 8]} {k}" for k in range(90)]
    rows = [[ids[k], texts[-k % 8], *signs[k]] for k in range(90)]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file, lineterminator=end).writerows([head, *rows])
    given = "recover", tmp_path / "a.csv", "--id", "id", "--ignore", "=phone"
    assert hopfed(*given, "--out", tmp_path / "run.h5")[0] == 0
    made = "complete", tmp_path / "run.h5", tmp_path / "a.csv", "--out", tmp_path / "b.csv"
    assert hopfed(*made)[0] == 0
    before, after = ((tmp_path / name).read_bytes().decode() for name in ("a.csv", "b.csv"))
    pairs = list(zip(before.split(end), after.split(end), strict=True))
    assert [k for k, (a, b) in enumerate(pairs) if a != b] == [4, 41]
    (old, new) = pairs[4]
    assert new.replace("+", "").replace("-", "") == old.replace("+", "").replace("-", "")


def test_words_of_somebody_elses_archetypes_are_no_formulas(tmp_path):
    """Levels that a run file tells, and the table does not hold."""
    rng = np.random.default_rng(6)
    kinds = rng.integers(2, size=400)
    table = {
        f"q{j}": np.where(rng.random(400) < [0.9, 0.2][j % 2], kinds, 1 - kinds) for j in range(8)
    }
    table["tool"] = np.where(kinds > 0, "=cmd()", "saw").tolist()
    found = recover(table)
    asked = {name: values[:5].tolist() for name, values in table.items() if name != "tool"}
    asked["tool"] = ["saw", "", "", "", ""]
    words = set(dict(filled(found, asked).columns)["tool"].to_pylist())
    assert words == {"saw", "'=cmd()"}
    asked["tool"][1:3] = ["=cmd()", "saw"]
    words = set(dict(filled(found, asked).columns)["tool"].to_pylist())
    assert words == {"saw", "=cmd()"}
