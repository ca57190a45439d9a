"""`hopfed assign`, `complete` and `export`: from a spreadsheet to an answer for every row."""

import json
from contextlib import contextmanager
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
from helpers import lines_of, written
from pyarrow import parquet
from sklearn.metrics import adjusted_rand_score

import hopfed as package
from hopfed.cli import main
from hopfed.tables import writers

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


@pytest.fixture
def people(asked, tmp_path):
    """The same in a folder of the test's own."""
    path, run, drawn = asked
    return Path(copy(path, tmp_path)), Path(copy(run, tmp_path)), drawn


def test_answers_and_archetypes_are_written_as_a_file_with_semicolons_is(hopfed, tmp_path):
    head, rows, _, _ = survey(np.random.default_rng(3))
    rows[:, -1] = ages = [a and f"{a},5" for a in rows[:, -1]]
    path, run, out = (tmp_path / name for name in ("umfrage.csv", "run.h5", "rows.csv"))
    written(path, head, rows, delimiter=";")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # the mark of spreadsheets
    hopfed.done("recover", path, "--binarize", "median", "--out", run)
    hopfed.done("assign", run, path, "--out", out)
    first, *lines = out.read_bytes().decode("utf-8-sig").split("\r\n")
    assert out.read_bytes().startswith(b"\xef\xbb\xbfid;archetype;probability\r\n")
    assert len(lines) == len(rows) + 1
    told = [line.split(";")[2] for line in lines[:-1]]
    assert not any("." in word for word in told)
    expected = package.load(run).assign(path).probability
    assert np.allclose([float(word.replace(",", ".")) for word in told], expected)
    hopfed.done("complete", run, path, "--out", tmp_path / "full.csv")
    full = (tmp_path / "full.csv").read_text(encoding="utf-8-sig").splitlines()
    assert [row.split(";")[-1] for row in full[1:]] == ages  # decimal commas, and gaps
    said, _ = hopfed.done("export", run, "--out", tmp_path / "e.csv", "--like", path)
    assert "+1 is yes in 'chess'" in " ".join(said.split())
    first, *rest = (tmp_path / "e.csv").read_bytes().decode("utf-8-sig").split("\r\n")
    assert first.startswith("archetype;share;chess;")
    assert all("," in line.split(";")[1] and "." not in line for line in rest if line)


def test_every_row_gets_an_archetype_and_a_probability(people, hopfed, tmp_path):
    path, run, (_, drawn, _, kind) = people
    text, _ = hopfed.done("assign", run, path, "--out", tmp_path / "rows.csv")
    assert "none of these" in text
    head, *rows = lines_of(tmp_path / "rows.csv")
    assert head == ["id", "archetype", "probability"]
    assert [row[0] for row in rows] == drawn[:, 0].tolist()
    got = np.array([int(row[1] or 0) for row in rows])
    kinds = {k: np.bincount(kind[got == k]) for k in set(got)}  # levels of a tree make some more
    assert sum(counts.max() for counts in kinds.values()) > 0.97 * len(kind)
    assert len({int(counts.argmax()) for counts in kinds.values()}) == 2
    probability = np.array([float(row[2]) for row in rows])
    assert 0 < probability.min() < probability.mean() < 1
    want = package.load(run).assign(path)
    np.testing.assert_array_equal(got - 1, want.archetype)
    np.testing.assert_array_equal(probability, want.probability)


def test_columns_are_found_by_name_and_strange_rows_are_none_of_these(people, hopfed, tmp_path):
    _, run, (head, *_) = people
    order = ["tree", "person", "age", *CLUBS[::-1], "shoe size"]
    usual = {c: "yes" if j % 2 else "no" for j, c in enumerate(CLUBS)}
    usual |= {"tree": "oak", "age": "61", "person": "one", "shoe size": "41"}
    odd = {c: "yes" if j % 4 < 2 else "no" for j, c in enumerate(CLUBS)}
    odd |= {"tree": "yew", "person": "two"}
    rows = [[each.get(c, "") for c in order] for each in (usual, odd)]
    other = written(tmp_path / "other.csv", order, rows)
    status, text, _ = hopfed(
        "assign", run, other, "--out", tmp_path / "a.json", "--json", "--alpha", "0.02"
    )
    assert (status, json.loads(text)["rows"], json.loads(text)["none"]) == (0, 2, 1)
    first, second = json.loads((tmp_path / "a.json").read_text())
    assert (first["id"], second["id"], second["archetype"]) == ("one", "two", None)
    assert first["probability"] > 0.99
    assert hopfed("assign", run, other, "--out", tmp_path / "b.json", "--alpha", "0")[0] == 0
    assert None not in [row["archetype"] for row in json.loads((tmp_path / "b.json").read_text())]


def test_a_folder_and_a_pattern_are_their_files(people, hopfed, tmp_path):
    _, run, (head, rows, *_) = people
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, part in (("b.csv", slice(40)), ("a.csv", slice(40, 60))):
        written(folder / name, head, rows[part])
    for command, given in (("assign", folder), ("complete", folder / "*.csv")):
        hopfed.done(command, run, given, "--out", tmp_path / f"{command}.csv")
        found = lines_of(tmp_path / f"{command}.csv")[1:]
        files = [str(folder / "a.csv")] * 20 + [str(folder / "b.csv")] * 40
        assert [row[0] for row in found] == files
        assert [row[1] for row in found] == [*rows[40:60, 0], *rows[:40, 0]]
        error = hopfed.refused(command, run, given, "--out", folder / "a.csv", "--overwrite")
        assert "another file than the input" in error
    hopfed.done("report", run, "--rows", folder, "--out", tmp_path / "page.html")
    assert "b.csv" in (tmp_path / "page.html").read_text()


def test_gaps_are_filled_in_the_words_of_their_column(people, hopfed, tmp_path):
    path, run, (head, drawn, truth, _) = people
    text, _ = hopfed.done("complete", run, path, "--out", tmp_path / "full.csv")
    assert "gaps in 'age' stay blank: numbers were cut there, and none is known" in text
    top, *rows = lines_of(tmp_path / "full.csv")
    assert top == head
    assert [row[0] for row in rows] == drawn[:, 0].tolist()
    got, shown = np.array([row[1:] for row in rows], dtype=object), drawn[:, 1:]
    gap = shown == ""
    np.testing.assert_array_equal(got[~gap], shown[~gap])
    clubs = got[:, : len(CLUBS)]
    assert set(clubs[gap[:, : len(CLUBS)]]) == {"yes", "no"}
    assert set(got[:, -2]) == set(TREES)
    right = (got == truth)[:, :-1][gap[:, :-1]].mean()
    assert right > 0.8
    said = float(text.split("of these ")[1].split("%")[0]) / 100
    assert right == pytest.approx(said, abs=0.05)
    assert set(got[gap[:, -1], -1]) == {""}  # on which side of the cut is no number
    assert "" not in set(got[:, :-1].ravel())


def test_archetypes_are_exported_by_name(people, hopfed, tmp_path):
    path, run, _ = people
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
    text, _ = hopfed.done("recover", path, "--binarize", "age=median", "--out", again)
    assert "one owner, so nothing was exchanged" in text
    assert again.read_text() == (tmp_path / "a.csv").read_text()


def test_an_owner_that_lacks_columns_of_a_union_gets_answers(tmp_path, hopfed):
    rng = np.random.default_rng(5)
    signs = rng.choice([0, 1], (3, 24))
    kind = rng.integers(3, size=600)
    x = np.where(rng.random((600, 24)) < 0.15, 1 - signs[kind], signs[kind]).astype(object)
    x[301, 9] = ""
    head = [f"q{j}" for j in range(24)]
    for file, span, part in (("a", slice(16), x[:300]), ("b", slice(8, 24), x[300:])):
        written(tmp_path / f"{file}.csv", head[span], part[:, span])
    a, b, run = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "run.h5"
    hopfed.done("recover", a, b, "--columns", "union", "--out", run)
    _, errors = hopfed.done("assign", run, b, "--out", tmp_path / "rows.json")
    found = [line["archetype"] for line in json.loads((tmp_path / "rows.json").read_text())]
    assert adjusted_rand_score([k or 0 for k in found], kind[300:]) > 0.9
    out, _ = hopfed.done("complete", run, b, "--out", tmp_path / "full.csv")
    assert "filled 1 of 4,800 cells" in out
    assert lines_of(tmp_path / "full.csv")[0] == head[8:]


def test_whole_numbers_of_a_workbook_stay_whole(hopfed, tmp_path):
    pd = pytest.importorskip("pandas")
    names, rows, *_ = survey(np.random.default_rng(1))
    frame = pd.DataFrame(rows, columns=names).assign(person=range(320, 320 + len(rows)))
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    run, whole = tmp_path / "run.h5", tmp_path / "whole.csv"
    how = ("--id", "person", "--binarize", "age=median", "--out", run)
    assert hopfed("recover", tmp_path / "a.xlsx", *how)[0] == 0
    assert hopfed("complete", run, tmp_path / "a.xlsx", "--out", whole)[0] == 0
    assert [line[0] for line in lines_of(whole)[1:3]] == ["320", "321"]


def test_a_table_is_filled_a_block_at_a_time(people, hopfed, tmp_path, monkeypatch):
    path, run, _ = people
    assert hopfed("complete", run, path, "--out", tmp_path / "whole.csv")[0] == 0
    sizes, plain = [], writers.writing

    @contextmanager
    def recorded(target, dialect):
        with plain(target, dialect) as add:
            yield lambda block: (sizes.append(len(block[0][1])), add(block))

    monkeypatch.setattr(writers, "writing", recorded)
    monkeypatch.setattr("hopfed.tables.text.BLOCK", 1_000)
    monkeypatch.setattr("hopfed.tables.text.ROWS", 1)
    assert hopfed("complete", run, path, "--out", tmp_path / "parts.csv")[0] == 0
    assert (sum(sizes), max(sizes) < 120) == (600, True)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_rows_of_several_files_are_told_apart(people, hopfed, tmp_path):
    path, run, (head, rows, *_) = people
    second = written(tmp_path / "second.csv", head, rows[:3])
    hopfed.done("assign", run, path, second, "--out", tmp_path / "a.csv")
    top, *found = lines_of(tmp_path / "a.csv")
    assert top == ["file", "id", "archetype", "probability"]
    assert [row[0] for row in found] == [str(path)] * 600 + [str(second)] * 3
    assert [row[1:] for row in found[600:]] == [row[1:] for row in found[:3]]
    hopfed.done("complete", run, second, path, "--out", tmp_path / "b.csv")
    top, *found = lines_of(tmp_path / "b.csv")
    assert top[:2] == ["file", "person"]
    assert found[0][1:] == found[3][1:]
