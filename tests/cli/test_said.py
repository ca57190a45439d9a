"""What commands say of their own accord, for somebody who sees them for the first time."""

import csv

import numpy as np
import pytest

from hopfed.hopfield.channel import draw_examples, rademacher


@pytest.fixture
def survey(tmp_path):
    """Two kinds of people: ten answers and a size, with gaps, as a .csv file."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=500)
    yes = rng.random((500, 10)) < np.where(kind[:, None] == np.arange(10) % 2, 0.9, 0.1)
    lines = [["size", *(f"q{j}" for j in range(10))]]
    for k in range(500):
        size = "" if k % 10 == 0 else f"{kind[k] * 3 + rng.random():.2f}"
        lines.append([size, *np.where(yes[k], "yes", "no")])
    with open(tmp_path / "survey.csv", "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return tmp_path / "survey.csv"


def test_gaps_of_numbers_that_were_cut_are_said_to_stay_blank(survey, hopfed, tmp_path):
    run = tmp_path / "run.h5"
    text, errors = hopfed.done("recover", survey, "--binarize", "size=median", "--out", run)
    assert "each client sent" not in text
    assert "one owner, so nothing was exchanged" in text
    text, _ = hopfed.done("complete", run, survey, "--out", tmp_path / "whole.csv")
    assert "gaps in 'size' stay blank: numbers were cut there, and none is known" in text
    _, text, _ = hopfed("export", run, "--out", tmp_path / "a.csv")
    assert "the rate of +1 is (1 + mean) / 2" in text
    hopfed.done("report", run)
    assert (tmp_path / "run.html").exists()


def test_a_dry_run_says_first_what_matters(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(2)
    rows = draw_examples(rademacher(2, 60, rng), 900, 0.6, rng)[0]
    np.save(tmp_path / "mine.npy", rows)
    given = "join", "--data", tmp_path / "mine.npy", "--dry-run"
    for options, words in (
        (("--trust-server",), "can learn single rows of yours"),
        (("--epsilon", "2"), "tell of a row what epsilon 2 and delta 1e-05 say"),
    ):
        text, _ = hopfed.done(*given, *options)
        assert words in " ".join(text.split())
        assert text.endswith("Nothing was sent.\n")
        assert "gaps" not in text
    rows[:9, 0] = 0
    np.save(tmp_path / "mine.npy", rows)
    assert "These rows have gaps" in hopfed(*given, "--trust-server")[1]
    assert not (tmp_path / "home").exists()


def test_a_long_setting_is_shown_by_its_beginning(hopfed, tmp_path):
    path, run = tmp_path / "wide.csv", tmp_path / "run.h5"
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (60, 150))
    lines = [",".join(f"question {j}" for j in range(150))]
    path.write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]))
    assert hopfed("recover", path, "--out", run)[0] == 0
    out, _ = hopfed.done("show", run)
    assert "question 3" in out
    assert "question 140" not in out
    assert "..." in out
