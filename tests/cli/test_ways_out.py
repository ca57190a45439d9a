"""Files of new rows that are not like the first one: a refusal names what helps, and that helps."""

import numpy as np
import pytest
from helpers import written

NAMES = [f"q{j}" for j in range(12)]
COLOURS = ["blue", "green", "red"]


def table(path, words, colours):
    return written(path, [*NAMES, "colour"], np.column_stack([words, colours]))


@pytest.fixture
def survey(tmp_path, hopfed):
    """Answers of two kinds of people, with their colours, and what was recovered of them."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 300)
    yes = (rng.random((300, 12)) < 0.9) == (kind[:, None] == (np.arange(12) % 2))
    words, colours = np.where(yes, "yes", "no"), rng.choice(COLOURS, 300)
    path, run = table(tmp_path / "a.csv", words, colours), tmp_path / "run.h5"
    hopfed.done("recover", path, "--out", run)
    return run, words[:20].astype("U20"), colours[:20].astype("U20")


def test_words_that_are_not_known_are_told_of_all_columns_at_once(survey, hopfed, tmp_path):
    run, words, colours = survey
    colours[3], words[5, 2], words[1, 2], words[7, 4] = "violet", "maybe", "well, no", "-5"
    made = tmp_path / "o.csv"
    path = table(tmp_path / "b.csv", words, colours)
    status, text, errors = hopfed("assign", run, path, "--out", made)
    assert (status, text, made.exists()) == (2, "", False)
    for said in (
        "3 column(s) hold words that are not known:",
        "row 2, column 'q2': 'well, no', 'maybe', beside",
        "row 8, column 'q4': '-5', beside",
    ):
        assert said in errors
    told = "well, no=missing,maybe=missing,-5=missing,violet=missing"
    assert f"--words '{told}' or words={{'well, no': 'missing', " in errors
    for command in ("assign", "complete"):
        hopfed.done(command, run, path, "--out", made, "--words", told, "--overwrite")
