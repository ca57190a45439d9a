"""Cells that hold several answers: each combination is a category, and that is said."""

from itertools import combinations

import numpy as np
import pytest

from hopfed import read_table
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
        f"'{mark.strip()}' between them, each a category: split it into a column of yes and no for "
        "each answer, before it is read"
    ]
    told = read_table({"tea": ["yes", "no"] * 200, "way": ways}, words={"way": "category"})
    assert not any("combinations" in line for line in told.notes)


def test_too_many_combinations_are_no_names_of_rows():
    ways = column(list("abcdefg"), ";", 600)
    with pytest.raises(DataError) as caught:
        read_table({"way": ways, "tea": ["yes", "no"] * 300}, id="")
    assert str(caught.value) == (
        "examples: column 'way' holds 127 different words, combinations of 7 answers with ';' "
        "between them (split it into a column of yes and no for each); leave it out: ignore=['way']"
    )


def test_words_with_a_comma_are_words():
    towns = ["Lyon, France", "Bonn, Germany", "Paris, France", "Rome, Italy"] * 50
    table = read_table({"tea": ["yes", "no"] * 100, "town": towns})
    assert not any("combinations" in line for line in table.notes)
