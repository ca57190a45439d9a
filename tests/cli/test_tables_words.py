"""Files of new rows whose words are not those that the archetypes come from."""

import csv

import numpy as np
import pytest

from hopfed import read_table
from hopfed.errors import ArgumentError


@pytest.fixture
def survey(tmp_path, hopfed):
    """Rows of yes and no, their run and answers; and what writes the same rows in other words."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=300)
    yes = (kind[:, None] == np.arange(10) % 2) ^ (rng.random((300, 10)) < 0.1)

    def written(name, plus, minus):
        cells = np.where(yes, plus, minus)
        path = tmp_path / f"{name}.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([[f"q{j}" for j in range(10)], *cells])
        return path

    run, first = tmp_path / "run.h5", written("first", "yes", "no ")
    assert hopfed("recover", first, "--out", run)[0] == 0
    assert hopfed("assign", run, first, "--out", tmp_path / "rows.csv")[0] == 0
    return run, written, (tmp_path / "rows.csv").read_text()


@pytest.mark.parametrize(
    ("plus", "minus", "words"),
    [("1", "2", "1=+1,2=-1"), ("Ja", "Nein", "ja=+1,nein=-1")],
)
def test_other_words_are_named_and_taken(survey, tmp_path, hopfed, plus, minus, words):
    run, written, expected = survey
    path, out = written("other", plus, minus), tmp_path / "others.csv"
    status, _, errors = hopfed("assign", run, path, "--out", out)
    assert status == 2
    assert f"or say +1 or -1: --words {plus}=missing," in errors.replace("\n", " ")
    status, _, errors = hopfed("assign", run, path, "--words", words, "--out", out)
    assert status == 0, errors
    assert out.read_text() == expected


def test_what_a_word_stands_for_is_not_turned(survey, tmp_path, hopfed):
    run, written, _ = survey
    path, out = written("other", "yes", "no"), tmp_path / "others.csv"
    status, _, errors = hopfed("assign", run, path, "--words", "yes=-1", "--out", out)
    assert status == 2
    assert "--words must be for other words than 'yes', which is +1 in 'q0', got yes=-1" in errors


def test_columns_of_numbers_take_no_signs():
    coding = read_table({"kg": [1, 2, 3, 9]}, binarize=2.5).coding
    with pytest.raises(ArgumentError, match="words must be for missing entries, or words of"):
        read_table({"kg": ["much", "1"]}, coding=coding, words={"much": 1})
