"""Results as .csv, .json, .parquet and .h5: whole, harmless, and read back as they were."""

import csv
import io
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError, RunFileError
from hopfed.runs import Run
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
    with writers.writing(tmp_path / "b.csv") as add:
        add(columns)
    for file in ("a.csv", "b.csv"):
        text = (tmp_path / file).read_bytes().decode()
        assert "\r" not in text
        assert not any(line.lstrip(' "').startswith(("=", "@")) for line in text.splitlines())
        read = list(csv.reader(io.StringIO(text, newline="")))
        assert [len(row) for row in read] == [2, 2, 2]


@pytest.mark.parametrize("split", [";", "\t"])
def test_no_cell_of_a_split_line_is_a_formula(tmp_path, split):
    word = f"tea{split}\"=cmd|' /C calc'!A0{split}'\"@me{split}b"
    writers.write(tmp_path / "a.csv", [("b", [1]), ("id", [word])])
    with open(tmp_path / "a.csv", newline="") as file:
        cells = [cell for row in csv.reader(file, delimiter=split) for cell in row]
    assert len(cells) >= 4
    assert not any(cell.startswith(("=", "@")) for cell in cells)


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


def test_a_run_file_has_the_columns_as_arrays(tmp_path):
    named = [("name", ["ü", "b"] * 4), ("note", [None, "x"] * 4)]
    writers.write(tmp_path / "a.h5", [COLUMNS[1], COLUMNS[2], *named])
    run = Run.load(tmp_path / "a.h5")
    assert run.arrays["archetype"].tolist() == [1, 2, -1, 3, 1, 1, 1, 1]
    np.testing.assert_array_equal(run.arrays["probability"], COLUMNS[2][1])
    assert run.arrays["name"][0].decode() == "ü"
    assert run.arrays["note"].tolist() == [b"", b"x"] * 4


def test_blocks_of_rows_are_written_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "BLOCK", 3)
    writers.write(tmp_path / "a.csv", [("n", np.arange(10)), ("t", [str(i) for i in range(10)])])
    assert (tmp_path / "a.csv").read_text() == "n,t\n" + "".join(f"{i},{i}\n" for i in range(10))


def test_endings_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    for name in ("a.xlsx", "a", "a.csv.gz", ".csv"):
        with pytest.raises(ArgumentError, match=r"--out must be a \.csv, \.json"):
            writers.check_ending("--out", tmp_path / name)
    with pytest.raises(RunFileError, match="cannot be written"):
        writers.write(tmp_path / "none" / "a.csv", COLUMNS)
    assert not list(tmp_path.iterdir())
