"""Columns that decide which others are blank, and what they mean for copies of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels, recover
from hopfed.spectral.equal_rows import only, row_marks
from hopfed.spectral.skips import skips


def questionnaire(seed, rows=1500):
    """Three classes of ten questions, and a question after which some are asked four more."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    rates = np.full((3, 10), 0.2)
    rates[0, :4] = rates[1, 4:7] = rates[2, 7:] = 0.8
    asked = np.where(rng.random((rows, 10)) < rates[kinds], 1, -1)
    smokes = np.where(rng.random(rows) < 0.4, 1, -1)
    more = np.where(rng.random((rows, 4)) < 0.5, 1, -1) * (smokes > 0)[:, None]
    return np.hstack([asked, smokes[:, None], more])


def test_a_question_after_which_some_are_asked_more_is_found():
    (skip,) = skips(questionnaire(41))
    assert (skip.column, skip.sign, skip.blank.tolist()) == (10, -1, [11, 12, 13, 14])


@pytest.mark.parametrize("seed", [42, 43, 44])
def test_skipped_questions_are_no_copies_of_rows(seed):
    """Rows that say no have fewer entries than their gaps tell: "some are copies" was said."""
    found = recover(np.where(questionnaire(seed), questionnaire(seed), np.nan), seed=1)
    assert found.status == "ok", found.advice
    assert len(found) == 3


def test_copies_among_skipped_questions_are_told():
    rows = questionnaire(45)
    rows = np.vstack([rows, rows[:500]])
    found = recover(np.where(rows, rows, np.nan), seed=1)
    assert found.status == "structure, but not classes"
    assert "copies" in found.advice


@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
def test_gaps_by_chance_tell_nothing(seed, missing):
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((200, 12)) < rng.uniform(0.15, 0.85, 12), 1, -1)
    rows[rng.random(rows.shape) < missing] = 0
    assert skips(rows) == []


@given(st.integers(0, 10_000))
def test_rows_without_some_columns_are_equal_where_the_others_are(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (30, 70))
    kept = rng.random(70) < 0.1
    expected = np.where(kept, rows, 0)
    packed = only(kernels.pack_masked(rows), kept)
    assert np.array_equal(kernels.unpack(packed), expected)
    assert np.array_equal(row_marks(packed), row_marks(only(rows, kept)))


def test_complete_says_which_gaps_are_of_questions_that_were_skipped(hopfed, tmp_path):
    rows, table = questionnaire(46), tmp_path / "asked.csv"
    words = {1: "yes", -1: "no", 0: ""}
    names = [*(f"q{j}" for j in range(10)), "smokes", *(f"s{j}" for j in range(4))]
    lines = [",".join(names), *(",".join(words[int(x)] for x in row) for row in rows)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, _, errors = hopfed("recover", table, "--out", tmp_path / "run.h5")
    assert status == 0
    assert "blank wherever 'smokes' is -1: 's0', 's1', 's2', 's3'" in errors
    status, text, _ = hopfed("complete", tmp_path / "run.h5", table, "--out", tmp_path / "all.csv")
    assert status == 0
    assert "blank wherever 'smokes' is -1" in " ".join(text.split())
