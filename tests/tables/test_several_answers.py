"""Cells that hold several answers: each combination is a category, unless told; that is said."""

import csv
from itertools import combinations

import numpy as np
import pytest

from hopfed import kernels, read_table
from hopfed.errors import DataError


def column(options, mark, rows):
    """Every combination of some options, drawn for each row."""
    held = [mark.join(c) for n in range(1, len(options) + 1) for c in combinations(options, n)]
    chosen = np.random.default_rng(0).integers(0, len(held), rows)
    chosen[: len(held)] = np.arange(len(held))
    return [held[k] for k in chosen]


@pytest.mark.parametrize("mark", [";", "; ", "|", ", "])
def test_combinations_that_became_categories_are_told(mark):
    """Of four options fifteen categories were made, without a word."""
    ways = column(["bike", "bus", "car", "train"], mark, 400)
    table = read_table({"tea": ["yes", "no"] * 200, "way": ways})
    assert len(table.columns) == 16
    said = [line for line in table.notes if "combinations" in line]
    assert said == [
        "'way' holds 15 combinations of 4 answers ('bike', 'bus', 'car', 'train') with "
        f"'{mark.strip()}' between them, each a category; for a column of yes and no for each "
        "answer: words={'way': 'answers'}"
    ]
    told = read_table({"tea": ["yes", "no"] * 200, "way": ways}, words={"way": "category"})
    assert not any("combinations" in line for line in told.notes)


def test_too_many_combinations_are_no_names_of_rows():
    ways = column(list("abcdefg"), ";", 600)
    with pytest.raises(DataError) as caught:
        read_table({"way": ways, "tea": ["yes", "no"] * 300}, id="")
    assert str(caught.value) == (
        "examples: column 'way' holds 127 different words, combinations of 7 answers with ';' "
        "between them; commonest a;c;e (10x), a;b;c;d (10x), b;d;e;f;g (10x), a;c;d;e;f;g (10x), "
        "a;f (8x), ...; give words={'way': 'answers'}; or ignore=['way']"
    )


WAYS = ["bus;bike", "", "car; bus", "bike", "?", "bus;"]


def test_each_answer_becomes_a_column():
    """A blank is missing; what a cell does not name is no; answers do not exclude each other."""
    table = read_table({"tea": ["yes", "no"] * 3, "way": WAYS}, words={"way": "answers"})
    assert table.columns == ("tea", "way=bike", "way=bus", "way=car")
    assert kernels.unpack(table.rows)[:, 1:].tolist() == [
        *([1, 1, -1], [0, 0, 0], [-1, 1, 1], [1, -1, -1], [0, 0, 0], [-1, 1, -1])
    ]
    assert table.coding.groups == ()
    assert table.notes == (
        "'way' holds 3 answers with ';' between them, each a column of yes and no: 'bike', 'bus', "
        "'car'",
        "blanks in 'way' are missing: if they mean none, say so (words={'way': {'': -1}})",
    )


def test_more_combinations_than_words_are_kept_of_other_columns():
    options = [f"choice {k}" for k in range(14)]
    ticked = np.random.default_rng(1).random((3000, 14)) < 0.5
    cells = [" | ".join(np.array(options)[row].tolist()) for row in ticked]
    assert len(set(cells)) > 1000
    table = read_table({"tea": ["yes", "no"] * 1500, "way": cells}, words={"way": "answers"})
    assert len(table.columns) == 15
    order = [table.columns.index(f"way={name}") for name in options]
    said = ticked.any(axis=1)
    assert np.array_equal(kernels.unpack(table.rows)[:, order][said] > 0, ticked[said])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["bus", "car"], "holds no cell of several answers, with ; or | or , between"),
        ([f"{k};{k + 1}" for k in range(150)], "holds 151 or more different answers"),
    ],
)
def test_columns_of_other_cells_are_refused(cells, said):
    given = {"tea": ["yes", "no"] * (len(cells) // 2), "way": cells}
    with pytest.raises(DataError) as caught:
        read_table(given, words={"way": "answers"}, id="")
    assert str(caught.value).startswith(f"examples: column 'way' {said}; commonest ")
    assert "; give ignore=['way']" in str(caught.value)


def test_gaps_are_filled_with_the_answers_that_are_likely(tmp_path, hopfed):
    rng, path = np.random.default_rng(2), tmp_path / "survey.csv"
    kinds = rng.integers(2, size=600)
    options = np.array(["bike", "bus", "car", "train"])
    rates = np.array([[0.95, 0.05, 0.9, 0.05], [0.05, 0.9, 0.05, 0.95]])
    ticked = rng.random((600, 4)) < rates[kinds]
    others = rng.random((600, 5)) < np.where(kinds, 0.9, 0.1)[:, None]
    ways = [";".join(options[row]) for row in ticked]
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["a", "b", "c", "d", "e", "way"])
        for k, (row, way) in enumerate(zip(others, ways, strict=True)):
            out.writerow([*np.where(row, "yes", "no"), "" if k < 20 else way])
    run, whole = tmp_path / "run.h5", tmp_path / "whole.csv"
    status, found, _ = hopfed("recover", path, "--words", "way=answers", "--out", run)
    assert status == 0
    assert "way=bike (" in found
    assert hopfed("complete", run, path, "--out", whole)[0] == 0
    with whole.open(newline="", encoding="utf-8") as file:
        filled = [row["way"] for row in csv.DictReader(file)]
    due = ["bus;train" if kind else "bike;car" for kind in kinds[:20]]
    assert sum(a == b for a, b in zip(filled, due, strict=False)) >= 18
    assert filled[20:30] == ways[20:30]
