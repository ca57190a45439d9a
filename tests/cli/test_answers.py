"""`hopfed assign`, `complete` and `export`: from a spreadsheet to an answer for every row."""

import json

import numpy as np
import pytest
from helpers import lines_of, written
from pyarrow import parquet

import hopfed as package
from hopfed.cli import main

CLUBS = ("chess", "=tennis", "choir", "garden", "band", "radio", "film", "judo", "yoga", "ski")
TREES = ("ash", "oak", "yew")


def survey(rng, rows=600, gaps=0.1):
    """Two kinds of people: clubs they are in, their tree and age; head, rows, words, kinds."""
    kind = rng.integers(2, size=rows)
    rate = np.where(kind[:, None] == np.arange(len(CLUBS)) % 2, 0.9, 0.1)
    cells = np.where(rng.random(rate.shape) < rate, "yes", "no").astype(object)
    tree = np.where(rng.random(rows) < 0.85, np.array(TREES, object)[kind], TREES[2])
    age = np.where(kind, 60, 20) + rng.integers(-15, 15, rows)
    table = np.column_stack([cells, tree, [str(a) for a in age]])
    shown = np.where(rng.random(table.shape) < gaps, "", table)
    names = [f"P{i:04d}" for i in range(rows)]
    return ["person", *CLUBS, "tree", "age"], np.column_stack([names, shown]), table, kind


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A survey as a file, the run of its recovery, and its truth."""
    folder, drawn = tmp_path_factory.mktemp("asked"), survey(np.random.default_rng(0))
    path = written(folder / "survey.csv", *drawn[:2])
    main(["recover", str(path), "--binarize", "age=median", "--out", str(folder / "run.h5")])
    return path, folder / "run.h5", drawn


def test_answers_and_archetypes_are_written_as_a_file_with_semicolons_is(hopfed, tmp_path):
    head, rows, _, _ = survey(np.random.default_rng(3))
    rows[:, -1] = ages = [a and f"{a},5" for a in rows[:, -1]]
    path, run = tmp_path / "umfrage.csv", tmp_path / "run.h5"
    written(path, head, rows, delimiter=";")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # the mark of spreadsheets
    hopfed.done("recover", path, "--binarize", "median", "--out", run)
    lines = {}
    for command, given in (("assign", [path]), ("complete", [path]), ("export", ["--like", path])):
        out = tmp_path / f"{command}.csv"
        hopfed.done(command, run, *given, "--out", out)
        assert out.read_bytes().startswith(b"\xef\xbb\xbf")
        lines[command] = out.read_bytes().decode("utf-8-sig").split("\r\n")
    assert lines["assign"][0] == "id;archetype;probability"
    told = [line.split(";")[2] for line in lines["assign"][1:-1]]
    expected = package.load(run).assign(path).probability
    np.testing.assert_allclose([float(word.replace(",", ".")) for word in told], expected)
    assert [row.split(";")[-1] for row in lines["complete"][1:-1]] == ages  # commas, and gaps
    assert lines["export"][0].startswith("archetype;share;chess;")
    assert all("," in line.split(";")[1] and "." not in line for line in lines["export"][1:-1])


def test_every_row_gets_an_archetype_and_a_probability(asked, hopfed, tmp_path):
    path, run, (_, drawn, _, kind) = asked
    text, _ = hopfed.done("assign", run, path, "--out", tmp_path / "rows.csv")
    assert "none of these" in text
    head, *rows = lines_of(tmp_path / "rows.csv")
    assert head == ["id", "archetype", "probability"]
    assert [row[0] for row in rows] == drawn[:, 0].tolist()
    got = np.array([int(row[1] or 0) for row in rows])
    kinds = {k: np.bincount(kind[got == k]) for k in set(got)}  # levels of a tree make some more
    assert sum(counts.max() for counts in kinds.values()) > 0.97 * len(kind)
    want = package.load(run).assign(path)
    np.testing.assert_array_equal(got - 1, want.archetype)
    np.testing.assert_array_equal([float(row[2]) for row in rows], want.probability)


def test_columns_are_found_by_name_and_strange_rows_are_none_of_these(asked, hopfed, tmp_path):
    _, run, (head, *_) = asked
    order = ["tree", "person", "age", *CLUBS[::-1], "shoe size"]
    usual = {c: "yes" if j % 2 else "no" for j, c in enumerate(CLUBS)}
    usual |= {"tree": "oak", "age": "61", "person": "one", "shoe size": "41"}
    odd = {c: "yes" if j % 4 < 2 else "no" for j, c in enumerate(CLUBS)}
    odd |= {"tree": "yew", "person": "two"}
    rows = [[each.get(c, "") for c in order] for each in (usual, odd)]
    other = written(tmp_path / "other.csv", order, rows)
    for alpha, none in (("0.02", 1), ("0", 0)):
        out = tmp_path / f"{none}.json"
        text, _ = hopfed.done("assign", run, other, "--out", out, "--json", "--alpha", alpha)
        assert (json.loads(text)["rows"], json.loads(text)["none"]) == (2, none)
        first, second = json.loads(out.read_text())
        assert (first["id"], second["id"], second["archetype"] is None) == ("one", "two", none == 1)
        assert first["probability"] > 0.99


def test_a_folder_and_a_pattern_are_their_files(asked, hopfed, tmp_path):
    _, run, (head, rows, *_) = asked
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, part in (("b.csv", slice(40)), ("a.csv", slice(40, 60))):
        written(folder / name, head, rows[part])
    for command, given in (("assign", folder), ("complete", folder / "*.csv")):
        hopfed.done(command, run, given, "--out", tmp_path / f"{command}.csv")
        found = np.array(lines_of(tmp_path / f"{command}.csv")[1:])
        assert found[:, 0].tolist() == [str(folder / "a.csv")] * 20 + [str(folder / "b.csv")] * 40
        assert found[:, 1].tolist() == [*rows[40:60, 0], *rows[:40, 0]]
        error = hopfed.refused(command, run, given, "--out", folder / "a.csv", "--overwrite")
        assert "another file than the input" in error
    hopfed.done("report", run, "--rows", folder, "--out", tmp_path / "page.html")
    assert "b.csv" in (tmp_path / "page.html").read_text()


def test_gaps_are_filled_in_the_words_of_their_column(asked, hopfed, tmp_path):
    path, run, (head, drawn, truth, _) = asked
    text, _ = hopfed.done("complete", run, path, "--out", tmp_path / "full.csv")
    assert "gaps in 'age' stay blank: numbers were cut there, and none is known" in text
    top, *rows = lines_of(tmp_path / "full.csv")
    assert top == head
    got, shown = np.array(rows, dtype=object)[:, 1:], drawn[:, 1:]
    gap = shown == ""
    np.testing.assert_array_equal(got[~gap], shown[~gap])
    assert set(got[:, : len(CLUBS)].ravel()) == {"yes", "no"}
    assert (set(got[:, -2]), set(got[gap[:, -1], -1])) == (set(TREES), {""})
    right = (got == truth)[:, :-1][gap[:, :-1]].mean()
    said = float(text.split("of these ")[1].split("%")[0]) / 100
    assert right == pytest.approx(said, abs=0.05)


def test_archetypes_are_exported_by_name(asked, hopfed, tmp_path):
    path, run, _ = asked
    found = package.load(run)
    for name in ("a.csv", "a.parquet", "a.h5"):
        text, _ = hopfed.done("export", run, "--out", tmp_path / name)
        assert "the rate of +1 is (1 + mean) / 2" in text
    head, *rows = lines_of(tmp_path / "a.csv")
    assert head[2:4] == ["chess", "'=tennis"]
    np.testing.assert_array_equal(np.array(rows, float)[:, 2:], found.means)
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table["=tennis"].to_pylist() == found.means[:, 1].tolist()
    assert package.load(tmp_path / "a.h5").columns == found.columns
    # The same straight from the recovery.
    again = tmp_path / "again.csv"
    hopfed.done("recover", path, "--binarize", "age=median", "--out", again)
    assert again.read_text() == (tmp_path / "a.csv").read_text()


def test_a_table_is_filled_a_block_at_a_time(asked, hopfed, tmp_path, monkeypatch):
    path, run, _ = asked
    blocks, plain = [], package.tables.writers._add_lines
    for name in ("whole", "parts"):
        hopfed.done("complete", run, path, "--out", tmp_path / f"{name}.csv")
        monkeypatch.setattr("hopfed.tables.formats.BLOCK", 1_000)
        monkeypatch.setattr("hopfed.tables.formats.ROWS", 1)
        monkeypatch.setattr(
            "hopfed.tables.writers._add_lines", lambda *how: blocks.append(how) or plain(*how)
        )
    assert len(blocks) > 5
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_words_that_are_not_known_are_told_of_all_columns_at_once(asked, hopfed, tmp_path):
    _, run, (head, drawn, *_) = asked
    rows, made = drawn[:20].copy(), tmp_path / "o.csv"
    words = (5, "choir", "maybe"), (1, "choir", "well, no"), (7, "band", "-5"), (3, "tree", "fir")
    for row, column, word in words:
        rows[row, head.index(column)] = word
    path = written(tmp_path / "b.csv", head, rows)
    status, text, errors = hopfed("assign", run, path, "--out", made)
    assert (status, text, made.exists()) == (2, "", False)
    for said in (
        "3 column(s) hold words that are not known:",
        "row 2, column 'choir': unknown words 'well, no', 'maybe'; ",
        "row 8, column 'band': unknown word '-5'; ",
    ):
        assert said in errors
    told = "well, no=missing,maybe=missing,-5=missing,fir=missing"
    assert f"--words '{told}' or words={{'well, no': 'missing', " in errors
    for command in ("assign", "complete"):
        hopfed.done(command, run, path, "--out", made, "--words", told, "--overwrite")


def test_whole_numbers_of_a_workbook_stay_whole(hopfed, tmp_path):
    pd = pytest.importorskip("pandas")
    names, rows, *_ = survey(np.random.default_rng(1))
    frame = pd.DataFrame(rows, columns=names).assign(person=range(320, 320 + len(rows)))
    book, run = tmp_path / "a.xlsx", tmp_path / "run.h5"
    frame.to_excel(book, index=False)
    hopfed.done("recover", book, "--id", "person", "--binarize", "age=median", "--out", run)
    hopfed.done("complete", run, book, "--out", tmp_path / "whole.csv")
    assert [line[0] for line in lines_of(tmp_path / "whole.csv")[1:3]] == ["320", "321"]
