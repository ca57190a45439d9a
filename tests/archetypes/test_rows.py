"""Rows of tables: coded as those that archetypes come from, columns by name in any order."""

import numpy as np
import pytest
from helpers import filled

import hopfed
from hopfed.errors import DataError
from hopfed.kernels import unpack

NAMES = [f"q{j}" for j in range(12)]


@pytest.fixture(scope="module")
def answers():
    """Two kinds of 12 answers, a category and a number, as a mapping, and the kinds."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=500)
    yes = rng.random((500, 12)) < np.where(kind[:, None] == np.arange(12) % 2, 0.9, 0.15)
    table = {name: np.where(yes[:, j], "Yes", "no").tolist() for j, name in enumerate(NAMES)}
    table["tree"] = np.array(["ash", "oak", "yew"])[rng.integers(3, size=500)].tolist()
    table["size"] = (kind * 3 + rng.integers(0, 8, 500)).tolist()
    return table, kind


@pytest.fixture(scope="module")
def found(answers):
    return hopfed.recover(hopfed.read_table(answers[0], binarize={"size": "median"}))


def rows(table, which, names=None):
    return {name: [table[name][i] for i in which] for name in names or table}


def test_forms_of_one_table_are_the_same_rows(answers, found, tmp_path):
    table, kind = answers
    read = hopfed.read_table(table, coding=found.coding)
    want = found.assign(read)
    path = tmp_path / "a.csv"
    lines = [list(table), *zip(*table.values(), strict=True)]
    path.write_text("\n".join(",".join(map(str, line)) for line in lines))
    backwards = dict(reversed(table.items())) | {"shoes": [40] * 500}
    for form in (table, backwards, path, str(path), read.rows, unpack(read.rows)):
        got = found.assign(form)
        np.testing.assert_array_equal(got.archetype, want.archetype)
        np.testing.assert_array_equal(got.probability, want.probability)
    found.save(tmp_path / "run.h5")
    back = hopfed.load(tmp_path / "run.h5")
    assert back.coding == found.coding
    np.testing.assert_array_equal(back.assign(backwards).probability, want.probability)


def test_tables_that_were_read_apart_are_matched_by_name(answers, found):
    table, _ = answers
    other = hopfed.read_table(
        rows(table, range(500), [*NAMES[::-1], "size", "tree"]), binarize="median"
    )
    assert other.columns != found.columns
    np.testing.assert_array_equal(found.assign(other).archetype, found.assign(table).archetype)
    cut = hopfed.read_table(table, binarize={"size": 1})
    with pytest.raises(DataError, match="'size' cut elsewhere"):
        found.assign(cut)
    less = hopfed.read_table(rows(table, range(500), NAMES))
    with pytest.raises(DataError, match="rows: lacks 'tree=ash'"):
        found.score(less)


def test_what_the_first_table_did_not_hold_is_named(answers, found):
    table, _ = answers
    strange = rows(table, range(3)) | {"tree": ["ash", "elm\x1b[2J", "oak"]}
    with pytest.raises(DataError, match=r"'tree': unknown word 'elm\\x1b\[2J'; 3 categ"):
        found.assign(strange)
    with pytest.raises(DataError, match="lacks 'q0', 'size' of the coding"):
        found.assign(rows(table, range(3), ["tree", *NAMES[1:]]))


def test_a_gap_in_a_category_gets_one_level(answers, found):
    table, _ = answers
    gaps = rows(table, range(60)) | {"tree": [""] * 30 + table["tree"][30:60]}
    values, probability = found.complete(gaps)
    trees = [j for j, name in enumerate(found.columns) if name.startswith("tree=")]
    assert (values[:, trees].sum(axis=1) == -1).all()
    np.testing.assert_array_equal(values[30:], found.complete(table).values[30:60])
    level = found.probabilities(gaps)[:30] @ ((1 + found.means[:, trees]) / 2)
    chosen = values[:30, trees].argmax(axis=1)
    np.testing.assert_array_equal(chosen, level.argmax(axis=1))
    np.testing.assert_allclose(
        probability[np.arange(30), np.array(trees)[chosen]], level.max(axis=1), rtol=1e-5
    )


def test_cells_that_are_there_stay_to_the_letter(answers, found):
    table, kind = answers
    gaps = {name: list(cells) for name, cells in table.items()}
    gaps["q3"][:40] = [None] * 40
    gaps["size"][40:80] = [None] * 40
    made = dict(filled(found, gaps).columns)
    assert list(made) == list(table)
    assert made["q4"].to_pylist() == table["q4"]
    assert made["q3"].to_pylist()[40:] == table["q3"][40:]
    right = np.array(made["q3"].to_pylist()[:40]) == np.array(table["q3"][:40])
    assert set(made["q3"].to_pylist()) == {"Yes", "no"}
    assert right.mean() > 0.7
    sizes = made["size"].to_pylist()
    assert sizes[:40] == list(table["size"][:40])
    assert sizes[40:80] == [None] * 40  # a side of a cut is no number


def test_frames_are_answered_and_filled(answers, found):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table, _ = answers
    frame = pd.DataFrame(table, index=[f"person {i}" for i in range(500)])
    want = found.assign(table)
    np.testing.assert_array_equal(found.assign(frame).probability, want.probability)
    gaps = frame.copy()
    gaps.loc["person 3", "q3"] = None
    columns = dict(filled(found, gaps).columns)
    assert columns["id"].to_pylist()[3] == "person 3"
    assert columns["q3"].to_pylist()[3] in ("Yes", "no")
    assert columns["q4"].to_pylist() == table["q4"]
    polars = pytest.importorskip("polars", reason="polars is not installed")
    again = found.assign(polars.DataFrame(table)[:, ::-1])
    np.testing.assert_array_equal(again.probability, want.probability)
