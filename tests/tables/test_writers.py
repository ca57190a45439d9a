"""Results as .csv, .json and .parquet: whole, harmless, and read back as they were."""

import csv
import io
import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from helpers import filled
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from hopfed import load, read_table, recover
from hopfed.archetypes.assignment import unknown_columns
from hopfed.errors import ArgumentError, RunFileError
from hopfed.tables import writers

COLUMNS = [
    ("id", ["ann", "=1+1", "-5", "+44 20", "@me", 'a,b\n"c"', "", None]),
    ("archetype", [1, 2, None, 3, 1, 1, 1, 1]),
    ("probability", np.array([0.1, 1 / 3, 0.5, 1, 1e-12, 0.25, np.nan, -0.5])),
]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\r \r"])
def test_no_line_of_a_csv_begins_with_a_formula(tmp_path, end):
    """A carriage return in a name was written without quotes: to many a program it ends a line."""
    name = f"tea{end}=cmd|' /C calc'!A0"
    columns = [(name, [f"row{end}@me", "yes"]), ("b", [1, 2])]
    writers.write(tmp_path / "a.csv", columns)
    with writers.open_writer(tmp_path / "b.csv") as add:
        add(columns)
    for file in ("a.csv", "b.csv"):
        text = (tmp_path / file).read_bytes().decode()
        assert "\r" not in text
        assert not any(line.lstrip(' "').startswith(("=", "@")) for line in text.splitlines())
        read = list(csv.reader(io.StringIO(text, newline="")))
        assert [len(row) for row in read] == [2, 2, 2]


def test_a_csv_is_read_back_and_holds_no_formula(tmp_path):
    writers.write(tmp_path / "a.csv", COLUMNS)
    with open(tmp_path / "a.csv", newline="") as file:
        head, *body = csv.reader(file)
    assert head == ["id", "archetype", "probability"]
    texts, numbers, real = zip(*body, strict=True)
    assert texts == ("ann", "'=1+1", "-5", "'+44 20", "'@me", 'a,b\n"c"', "", "")
    assert numbers == ("1", "2", "", "3", "1", "1", "1", "1")
    values = [float(x) if x else np.nan for x in real]
    np.testing.assert_array_equal(values, COLUMNS[2][1])


@given(st.text(max_size=20))
def test_no_text_begins_as_a_formula_unless_it_is_a_number(text):
    cell = writers.text_cell(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    assert cell.replace("'", "") == lines.replace("'", "")
    for part in re.split("[;\t]", cell):  # where a spreadsheet may split a line
        if part.strip()[:1] in tuple("=+-@") and part.strip(" +-\r\n\x0b\x0c"):
            float(part)


def test_json_and_parquet_are_read_back(tmp_path):
    writers.write(tmp_path / "a.json", COLUMNS)
    rows = json.loads((tmp_path / "a.json").read_text())
    assert rows[1] == {"id": "=1+1", "archetype": 2, "probability": 1 / 3}
    assert rows[2]["archetype"] is None
    assert rows[6]["probability"] is None
    parquet = pytest.importorskip("pyarrow.parquet")
    writers.write(tmp_path / "a.parquet", [*COLUMNS, ("id", np.arange(8))])
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "archetype", "probability", "id (2)"]
    assert table["id"].to_pylist() == COLUMNS[0][1]
    assert table["archetype"].to_pylist() == COLUMNS[1][1]


def test_endings_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    for name in ("a.xlsx", "a", "a.csv.gz", ".csv"):
        with pytest.raises(ArgumentError, match=r"path must be a \.csv, \.tsv, \.json"):
            writers.write(tmp_path / name, COLUMNS)
    with pytest.raises(RunFileError, match="cannot be written"):
        writers.write(tmp_path / "none" / "a.csv", COLUMNS)
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("name", ["day", "at", "clock", "lasts"])
def test_rows_may_be_named_by_dates_and_times(name):
    others = [other for other in TYPED if other != name]
    assert read_table(with_gaps(), id=name, ignore=others).ids[1].startswith(TYPED[name][2])


def test_numbers_that_are_entries_stay_numbers():
    found = recover({f"q{j}": [k % 2 for k in range(ROWS)] for j in range(10)})
    asked = {f"q{j}": [1, 0, 1] for j in range(9)} | {"q9": pa.array([None, 0, 1], pa.int8())}
    columns = dict(filled(found, pa.table(asked)).columns)
    assert columns["q9"].equals(pa.array([1, 0, 1], pa.int8()))


@pytest.mark.parametrize("name", ["__null_dask_index__", "__index_level_0__"])
@pytest.mark.parametrize("repeats", [1, 5])
def test_the_index_of_a_frame_is_no_column(name, repeats, tmp_path):
    """A folder of Parquet that Dask wrote was refused for a column that nobody made."""
    pytest.importorskip("dask", reason="dask is not installed")
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


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def files(tmp_path, hopfed):
    """A table of two kinds of rows with a column without entries, and its run."""
    rng = np.random.default_rng(0)
    rate = np.where(rng.integers(2, size=(400, 1)) == np.arange(12) % 2, 0.9, 0.1)
    cells = np.where(rng.random(rate.shape) < rate, "yes", "no").astype(object)
    cells[rng.random(cells.shape) < 0.1] = ""
    path, run = tmp_path / "clubs.csv", tmp_path / "run.h5"
    clubs = [(f"club {j}", column) for j, column in enumerate(cells.T)]
    writers.write(path, [*clubs, ("void", [""] * 400)])
    assert hopfed("recover", path, "--out", run)[0] == 0
    return path, run


def test_its_gaps_stay_blank_and_are_not_counted(files, tmp_path, hopfed):
    path, run = files
    out = tmp_path / "full.csv"
    status, said, _ = hopfed("complete", run, path, "--out", out)
    assert status == 0
    assert "of 4,800 cells" in said
    assert "gaps in 'void' stay blank" in said
    assert all([name for name in row if not row[name]] == ["void"] for row in read(out))


def test_no_rate_of_it_is_exported(files, tmp_path, hopfed):
    run = files[1]
    for ending in ("csv", "json", "parquet", "h5"):
        status, said, _ = hopfed("export", run, "--out", tmp_path / f"found.{ending}")
        assert status == 0
        assert "void" not in said
    rows = read(tmp_path / "found.csv")
    assert [(row["void"], row["club 0"] == "") for row in rows] == [("", False)] * 2
    held = json.loads((tmp_path / "found.json").read_text())
    assert [row[-1] for row in held["means"]] == [row[-1] for row in held["errors"]] == [None] * 2
    assert [row[-1] for row in held["patterns"]] == [0, 0]
    assert np.isnan(parquet.read_table(tmp_path / "found.parquet")["void"].to_numpy()).all()
    again = load(tmp_path / "found.h5")  # a run file stays one
    assert unknown_columns(again).tolist() == [False] * 12 + [True]
    assert np.isnan(again.to_frame()["void"]).all()
    assert np.isfinite(again.assign(files[0]).probability).all()
