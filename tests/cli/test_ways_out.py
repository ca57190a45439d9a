"""Files of new rows that are not like the first one: a refusal names what helps, and that helps."""

import numpy as np
import pytest
from helpers import written

NAMES = [f"q{j}" for j in range(12)]
COLOURS = ["blue", "green", "red"]


def table(path, words, colours, names=(*NAMES, "colour")):
    rows = [[*row, colour] for row, colour in zip(words, colours, strict=True)]
    return written(path, names, rows)


@pytest.fixture
def survey(tmp_path, hopfed):
    """Answers of two kinds of people, with their colours, and what was recovered of them."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 300)
    yes = (rng.random((300, 12)) < 0.9) == (kind[:, None] == (np.arange(12) % 2))
    words = np.where(yes, "yes", "no")
    colours = rng.choice(COLOURS, 300)
    path, run = table(tmp_path / "a.csv", words, colours), tmp_path / "run.h5"
    assert hopfed("recover", path, "--out", run)[0] == 0
    return run, words[:20], colours[:20]


@pytest.mark.parametrize("command", ["assign", "complete"])
def test_words_that_are_not_known_are_told_of_all_columns_at_once(
    survey, hopfed, tmp_path, command
):
    run, words, colours = survey
    words, colours = words.astype("U20"), colours.astype("U20")
    colours[3], words[5, 2], words[1, 2], words[7, 4] = "violet", "maybe", "well, no", "-5"
    made = tmp_path / "o.csv"
    path = table(tmp_path / "b.csv", words, colours)
    status, text, errors = hopfed(command, run, path, "--out", made)
    assert (status, text, made.exists()) == (2, "", False)
    for said in (
        "3 column(s) hold words that are not known:",
        "row 2, column 'q2': 'well, no', 'maybe' was not there",
        "row 8, column 'q4': '-5' was not there",
        "row 4, column 'colour': 'violet' was not there",
    ):
        assert said in errors
    told = "well, no=missing,maybe=missing,-5=missing,violet=missing"
    assert f"--words '{told}' (words={{'well, no': 'missing', " in errors
    status, _, errors = hopfed(command, run, path, "--out", made, "--words", told)
    assert (status, made.exists()) == (0, True), errors


@pytest.mark.parametrize("command", ["assign", "complete"])
def test_a_column_that_a_file_lacks_may_be_blank(survey, hopfed, tmp_path, command):
    run, words, _ = survey
    blank, made = [""] * len(words), tmp_path / "o.csv"
    lacks = written(tmp_path / "b.csv", NAMES, words)
    status, _, errors = hopfed(command, run, lacks, "--out", made)
    assert status == 2
    assert "lacks 'colour' of the coding; rename columns, or add blank ones" in errors
    _, errors = hopfed.done(command, run, table(tmp_path / "c.csv", words, blank), "--out", made)
    near = table(tmp_path / "d.csv", words, ["red"] * len(words), [*NAMES, "colours"])
    _, _, errors = hopfed(command, run, near, "--out", tmp_path / "p.csv")
    assert "lacks 'colour' of the coding, and has 'colours' beside; rename" in errors
