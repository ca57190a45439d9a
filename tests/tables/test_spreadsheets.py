"""Tables as programs for spreadsheets write them: read right, or refused in one line."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.kernels import unpack


def refused(path, words):
    """Check that a file is refused in one line that holds these words."""
    with pytest.raises(DataError, match=words) as caught:
        hopfed.read_table(path)
    assert str(caught.value).isprintable()


SHEETS = {  # header and rows as programs for spreadsheets write them; signs, or what is said
    "ja and nein": ("id;a;b\nA;ja;nein\nB;Nein;nein\nC;ja;JA\n", True),
    "oui and non": ("id;a;b\nA;oui;non\nB;Non;non\nC;oui;OUI\n", True),
    "sí and no": ("id,a,b\nA,sí,no\nB,No,no\nC,Sí,SÍ\n", True),
    "wahr and falsch": ("id;a;b\nA;WAHR;FALSCH\nB;FALSCH;FALSCH\nC;WAHR;WAHR\n", True),
    "marks": ("id,a,b\nA,✓,✗\nB,✗,✗\nC,✓,✓\n", True),
    "true beside 1": ("id,a,b\nA,TRUE,0\nB,0,0\nC,1,1\n", True),
    "spaces": ("id, a , b\nA,Yes , no\nB, no,NO \nC,YES,yes\n", True),
    "not applicable": ("id,a,b\nA,yes,no\nB,no,no\nC,yes,yes\nD,n.a.,N.A.\n", True),
    "line breaks in cells": ('id,"a\nb",c\nA,yes,no\nB,no,no\nC,"yes",yes\n', True),
    "columns without names at the end": ("id,a,b,,\nA,1,0,,\nB,0,0,,\nC,1,1,,\n", True),
    "decimal commas": ("id;a\nA;1,5\nB;2,25\nC;3,5\n", r"'a' holds numbers \(1.5, 2.25, 3.5"),
    "decimal commas or thousands": (
        "id;a\nA;1,500\nB;2,250\nC;3,125\n",
        "'a' holds numbers .* like '1,500': write",
    ),
    "decimal commas and marks of thousands": (
        "id;a\nA;1,5\nB;2.250,5\nC;3,125\n",
        "'a' holds numbers .* like '[0-9.,]*': write",
    ),
    "decimal commas and points": (
        "id;a\n" + "A;1,5\n" * 30 + "B;2.250\n",
        "row 31, column 2: '2.250' beside numbers with a decimal comma",
    ),
    "per cent": ("id,a\nA,5%\nB,10%\nC,12%\n", "holds numbers that are written like '5%'"),
    "money": ("id,a\nA,€ 5\nB,€ 1200\nC,€ 12\n", "holds numbers that are written like '€ 5'"),
    "thousands": (
        "id;a\nA;1.200.000\nB;3.400.000\nC;5.600.000\n",
        "written like '[0-9].[0-9]{3}.0",
    ),
    "a line for Excel": ("sep=;\nid;a\nA;yes\nB;no\n", "first line is sep=;.* remove it"),
    "a title": ("Survey,\n\nid,a\nA,yes\nB,no\n", "is empty: leave out what stands above"),
    "delimiters at the end": ("id,a\nA,yes,,\nB,no,,\n", "every row needs as many cells as the"),
    "customers": (
        "customer,a\n107,yes\n233,no\n512,no\n",
        "if 'customer' names the rows: id='customer'",
    ),
}


@pytest.mark.parametrize("name", SHEETS)
def test_spreadsheets(tmp_path, name):
    text, wanted = SHEETS[name]
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    if isinstance(wanted, str):
        refused(tmp_path / "a.csv", wanted)
        return
    table = hopfed.read_table(tmp_path / "a.csv")
    assert unpack(table.rows).tolist()[:3] == [[1, -1], [-1, -1], [1, 1]]
    assert unpack(table.rows).tolist()[3:] in ([], [[0, 0]])
    assert table.ids.tolist()[:3] == ["A", "B", "C"]


def test_blank_rows_and_ticked_boxes_are_pointed_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b\nA,yes,no\n,,\nB,no,no\nC,yes,yes\n,,\n")
    line = "without any entry: 2 row(s), the first of them row 2"
    assert line in hopfed.read_table(path).notes
    assert line in hopfed.read_table(path, memory=1).notes
    path.write_text("id,a,b\nA,x,\nB,,\nC,x,x\n")
    (note,) = (line for line in hopfed.read_table(path).notes if "blanks" in line)
    assert note.startswith("one word and blanks in 'a', 'b': if blanks mean no, say so")
    table = hopfed.read_table(path, words={"x": 1, "": -1})
    assert unpack(table.rows).tolist() == [[1, -1], [-1, -1], [1, 1]]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_a_workbook_is_to_be_saved_as_text(tmp_path, ending):
    (tmp_path / f"a{ending}").write_bytes(b"PK")
    refused(tmp_path / f"a{ending}", "a workbook; save its sheet as CSV")


def test_numbers_in_other_spelling_are_not_names_of_rows(tmp_path):
    """Columns of decimal commas, all different, were left out but for the last one."""
    path = tmp_path / "a.csv"
    for sign in ";|\t":
        path.write_text("".join(f"{i},5{sign}{i + 7},25\n" for i in range(1, 15)))
        with pytest.raises(DataError, match=r"got 1.5 at row 1, column 1; or say where"):
            hopfed.read_table(path)
    path.write_text("id;a\n" + "".join(f"{i}.001,5;ja\n{i}.002,5;nein\n" for i in range(1, 8)))
    assert hopfed.read_table(path).ids[0] == "1.001,5"


def test_decimal_commas_are_read_and_written_again(tmp_path, request):
    """As a spreadsheet of many countries saves a table, and opens it."""
    command = request.getfixturevalue("hopfed")
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=200)
    size = kind * 3 + rng.random(200)
    yes = rng.random((200, 8)) < np.where(kind[:, None] == np.arange(8) % 2, 0.9, 0.1)
    lines = ["größe;" + ";".join(f"q{j}" for j in range(8))]
    for k in range(200):
        written = "" if k % 10 == 0 else f"{size[k] - 2:.2f}".replace(".", ",")
        lines.append(";".join([written, *np.where(yes[k], "ja", "nein")]))
    path, run, whole = (tmp_path / name for name in ("a.csv", "run.h5", "whole.csv"))
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    table = hopfed.read_table(path, binarize={"größe": 0.5})
    signs = unpack(table.rows)[:, 0]
    np.testing.assert_array_equal(signs[signs != 0] > 0, (np.round(size - 2, 2) > 0.5)[signs != 0])
    assert command("recover", path, "--binarize", "median", "--out", run)[0] == 0
    assert command("complete", run, path, "--out", whole)[0] == 0
    found = whole.read_bytes().decode("utf-8-sig").splitlines()
    assert whole.read_bytes().startswith(b"\xef\xbb\xbf")
    changed = [(a, b) for a, b in zip(lines, found, strict=True) if a != b]
    assert len(changed) == 20  # and these in the blank cell alone
    assert all(re.fullmatch(r"(<=|>) -?\d,\d+", b.removesuffix(a)) for a, b in changed)
    assert unpack(hopfed.read_table(whole, binarize="median").rows).shape == (200, 9)
    assert command("assign", run, whole, "--out", tmp_path / "kinds.csv")[0] == 0


@pytest.mark.parametrize("cell", ["> 3", "<= 3", "> 2,5", "<= 2,5"])
def test_sides_of_a_cut_stand_beside_decimal_commas(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"size;tea\n1,5;ja\n{cell};nein\n9;ja\n")
    cut = float(cell.split()[1].replace(",", "."))
    signs = unpack(hopfed.read_table(path, binarize={"size": cut}).rows)[:, 0]
    assert signs.tolist() == [-1, 1 if cell[0] == ">" else -1, 1]


def test_a_delimiter_at_the_end_of_rows_moves_no_names(tmp_path):
    """As programs write it that end each row with a delimiter, but not the names of columns."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,0,0,\n1,0,1,\n1,1,0,\n")
    table = hopfed.read_table(path)
    assert table.columns == ("a", "b", "c")
    assert unpack(table.rows).tolist() == [[1, -1, -1], [1, -1, 1], [1, 1, -1]]
    path.write_text("a,b,c\nann,1,0,\nben,1,0,1\ncem,1,1,\n")  # as R writes names of rows
    assert hopfed.read_table(path).ids.tolist() == ["ann", "ben", "cem"]


def test_a_column_without_a_name_is_no_doubtful_header(tmp_path):
    (tmp_path / "a.csv").write_text("id,a,\nann,1,\nben,0,\ncem,1,\n")
    notes = hopfed.read_table(tmp_path / "a.csv").notes
    assert not any("first row" in note for note in notes)


def test_a_column_may_hold_nothing_but_words_for_no_answer(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b\nA,yes,9\nB,no,9\nC,yes,9\n")
    table = hopfed.read_table(path, words={"9": None})
    assert unpack(table.rows).tolist() == [[1, 0], [-1, 0], [1, 0]]


def test_codes_of_no_answer_are_not_cut_in_silence(tmp_path):
    """A median made 9 of 1, 2 and 9 the only +1, and -99 and 999 low and high."""
    path = tmp_path / "a.csv"
    lines = [f"{i},{1 + i % 2},{20 + i % 60},{40 + i % 50}" for i in range(200)]
    lines[3], lines[7] = "3,9,-99,99", "7,9,999,50"
    path.write_text("\n".join(["nr,smoker,age,beds", *lines]))
    with pytest.raises(DataError, match="'smoker' holds 1, 2, 9: if 9 means") as caught:
        hopfed.read_table(path, binarize="median", id="nr")
    assert "binarize={'smoker': 1.5}" in str(caught.value)
    table = hopfed.read_table(path, binarize="median", words={"smoker": {"9": None}}, id="nr")
    assert (unpack(table.rows)[:, 0] == 0).sum() == 2
    (note,) = (line for line in table.notes if "far from" in line)
    assert note.startswith("'age' holds -99 and 999, far from its other numbers")


@pytest.mark.parametrize("how", ["frame", "parquet", "csv"])
@pytest.mark.parametrize("written", ["-99", "-99.0", " -99"])
@pytest.mark.parametrize("distinct", [8, 5_000])
def test_a_number_that_stands_for_no_answer_is_neither_cut_nor_coded(
    tmp_path, how, written, distinct
):
    """It moved the median of 52 to 30, and was -1, in the very words that a hint gave."""
    rng = np.random.default_rng(7)
    ages = rng.integers(distinct, size=6_000) * 60 / distinct + 20
    gone = rng.random(6_000) < 0.4
    table = pa.table({"age": np.where(gone, -99, ages), "q": rng.integers(2, size=6_000)})
    if how == "csv":
        cells = [written if g else f"{age:.17g}" for g, age in zip(gone, ages, strict=True)]
        lines = [f"{a},{q}" for a, q in zip(cells, table["q"].to_pylist(), strict=True)]
        (tmp_path / "a.csv").write_text("\n".join(["age,q", *lines]))
    elif how == "parquet":
        pq.write_table(table, tmp_path / "a.parquet")
    source = table if how == "frame" else tmp_path / f"a.{how}"
    for cut in ("median", "mean", "quantile:0.5", 40):
        read = hopfed.read_table(source, words={"age": {written: None}}, binarize={"age": cut})
        wanted = {"mean": ages[~gone].mean(), 40: 40}.get(cut, np.median(ages[~gone]))
        if distinct > 8 or cut in ("mean", 40):
            assert read.coding.codes[0].threshold == pytest.approx(wanted)
        held = unpack(read.rows)[:, 0]
        assert np.array_equal(held == 0, gone)
        assert not any("far from" in note for note in read.notes)


def test_the_hint_about_a_number_far_from_others_is_one_to_follow(hopfed, tmp_path):
    path, rng = tmp_path / "a.csv", np.random.default_rng(8)
    ages = np.where(rng.random(500) < 0.4, -99, 20 + 60 * rng.random(500))
    lines = [f"{age:.6g}.0" if age == -99 else f"{age:.6g}" for age in ages]
    path.write_text("\n".join(["age,q", *(f"{line},{k % 2}" for k, line in enumerate(lines))]))
    command = "recover", path, "--binarize", "age=median", "--dry-run"
    _, text, _ = hopfed(*command)
    (hint,) = re.findall(r"--words \S*-99=missing", text)
    status, text, _ = hopfed(*command, *hint.split())
    assert status == 0
    assert f"+1 above {np.median(ages[ages > 0]):.4g}" in text
    assert "far from" not in text


def test_a_word_of_one_column_is_told_on_the_command_line(hopfed, tmp_path):
    path = tmp_path / "a.csv"
    lines = [f"p{i},{1 + i % 2},{i % 10}" for i in range(100)]
    lines[3] = "p3,9,9"
    path.write_text("\n".join(["id,smoker,score", *lines]))
    given = "--binarize", "score=4", "--words", "smoker=9=missing,smoker=1=+1,smoker=2=-1"
    status, said, errors = hopfed("recover", path, "--dry-run", *given)
    assert status == 0, errors
    assert "0.5% of the entries missing" in said
    assert "1 is +1, 2 is -1: 'smoker'" in said
    status, _, errors = hopfed("recover", path, "--dry-run", "--binarize", "4")
    assert (status, "--words smoker=9=missing" in errors) == (2, True)
    assert "--binarize smoker=1.5" in errors
