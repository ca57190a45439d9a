"""Columns that decide which others are blank, and what they mean for copies of rows."""

import numpy as np
import pyarrow as pa
import pytest
from helpers import lines_of, rest_slow, written
from hypothesis import given
from hypothesis import strategies as st

from hopfed import read_table, recover
from hopfed.archetypes.table_filling import Filling
from hopfed.kernels import pack_masked, unpack
from hopfed.spectral.rows import hide_other_columns
from hopfed.spectral.skips import find_skips


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


@pytest.mark.parametrize(
    ("asked", "answered", "always"), [(0, 1, True), (0.5, 1, False), (0, 2 / 3, True)]
)
def test_a_question_after_which_some_are_asked_more_is_found(asked, answered, always):
    """Some who say no are asked all the same, and some who were asked did not answer."""
    rows, rng = questionnaire(41), np.random.default_rng(2)
    rows[(rng.random(len(rows)) < asked) & (rows[:, 10] < 0), 11:] = 1
    rows[:, 11:] *= rng.random((len(rows), 4)) < answered
    found = find_skips(pack_masked(rows))
    assert {(skip.column, skip.sign, skip.always) for skip in found} == {(10, -1, always)}
    assert sorted(np.concatenate([skip.blank for skip in found]).tolist()) == [11, 12, 13, 14]


@pytest.mark.parametrize(
    ("seed", "answered"), rest_slow([(42, 1), (51, 2 / 3), (44, 1), (45, 1), (52, 2 / 3)], 2)
)
def test_skipped_questions_are_no_copies_of_rows(seed, answered):
    """Rows that say no have fewer entries than their gaps tell: "some are copies" was said."""
    rows = questionnaire(seed)
    rows[:, 11:] *= np.random.default_rng(seed).random((len(rows), 4)) < answered
    found = recover(np.where(rows, rows, np.nan), seed=1)
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
    assert find_skips(pack_masked(rows)) == []


@given(st.integers(0, 10_000))
def test_rows_without_some_columns_are_equal_where_the_others_are(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (30, 70))
    kept = rng.random(70) < 0.1
    expected = np.where(kept, rows, 0)
    assert np.array_equal(unpack(hide_other_columns(pack_masked(rows), kept)), expected)


def test_complete_leaves_questions_blank_that_were_skipped(hopfed, tmp_path):
    rows = questionnaire(46)
    rows[:60, 0] = 0  # gaps by chance
    rows[60:80, 10] = 0  # whether the question was skipped is missing, too
    rows[rows[:, 10] > 0, 12] *= np.random.default_rng(1).random((rows[:, 10] > 0).sum()) < 0.9
    names = [*(f"q{j}" for j in range(10)), "smokes", *(f"s{j}" for j in range(4))]
    table = written(tmp_path / "asked.csv", names, np.array(["no", "", "yes"])[rows + 1])
    _, errors = hopfed.done("recover", table, "--out", tmp_path / "run.h5")
    assert "blank wherever 'smokes' is no: 's0', 's2', 's3'" in errors
    assert "blank wherever 'smokes' is no: 's1'" in errors
    command = "complete", tmp_path / "run.h5", table
    text, _ = hopfed.done(*command, "--out", tmp_path / "some.csv")
    assert "blank wherever 'smokes' is no: 's0', 's2', 's3'" in " ".join(text.split())
    some = np.array(lines_of(tmp_path / "some.csv")[1:])
    blank = some == ""
    assert np.array_equal(blank.any(axis=0).nonzero()[0], [11, 12, 13, 14])
    known = rows[:, 10] != 0
    assert np.array_equal(blank[known, 12], some[known, 10] == "no")
    assert f"{blank.sum():,} cells stay blank" in text
    text, _ = hopfed.done(*command, "--out", tmp_path / "all.csv", "--skipped")
    assert "blank" not in text
    assert ",," not in (tmp_path / "all.csv").read_text(encoding="utf-8")


def test_numbers_stay_numbers_where_all_gaps_are_skipped_questions(tmp_path):
    rng = np.random.default_rng(48)
    rows = questionnaire(47)
    table = {f"q{j}": rows[:, j] for j in range(10)} | {"smokes": rows[:, 10]}
    table["a day"] = [float(rng.integers(1, 30)) if x > 0 else None for x in rows[:, 10]]
    lost = rng.random(len(rows)) < 0.1
    table["lost"] = np.ma.masked_array(rng.integers(1, 30, len(rows)).astype(float), lost)
    table = pa.table(table)
    found = recover(read_table(table, binarize="median"))
    filling = Filling(found, table)
    assert filling.cut == ["lost"]
    assert filling.types["a day"] == pa.float64()
    parts = list(filling.blocks())
    columns = [pa.chunked_array(part.columns[j][1] for part in parts) for j in (11, 12)]
    assert columns[0].to_pylist() == table["a day"].to_pylist()
    assert columns[1].null_count == lost.sum()  # a side of a cut is no number
