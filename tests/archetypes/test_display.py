"""Archetypes in words, in notebooks and in pictures."""

import re
from dataclasses import replace

import numpy as np
import pytest

import hopfed
from hopfed.archetypes.display import tell_apart
from hopfed.archetypes.run_file import as_run
from hopfed.errors import ArgumentError
from hopfed.report.page import report_page

HOSTILE = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture(scope="module")
def found():
    """Two kinds of 60 columns: one says yes to the first 20, the other to the last 10."""
    rng = np.random.default_rng(0)
    rate = np.full((2, 60), 0.5)
    rate[0, :20], rate[1, 50:] = 0.95, 0.05
    x = rng.random((900, 60)) < rate[rng.choice(2, 900, p=[0.7, 0.3])]
    return replace(hopfed.recover(x, seed=0), columns=tuple(f"q{j}" for j in range(60)))


def test_the_columns_that_tell_are_those_that_were_planted(found):
    more, less = tell_apart(found, 0, most=60)
    assert {t.column for t in more} == {*range(20), *range(50, 60)}
    assert not less
    more, less = tell_apart(found, 1, most=60)
    assert {t.column for t in less} == {*range(20), *range(50, 60)}
    best = more[0] if more else less[0]
    assert best.other - best.rate > 0.4
    gaps = [t.other - t.rate for t in less]
    assert gaps == sorted(gaps, reverse=True)
    assert len(tell_apart(found, 0, most=3)[0]) == 3


def test_one_class_is_not_compared_with_rows_that_are_not_there():
    """It was said to be 92% "against 50%" of rows that do not exist."""
    rng = np.random.default_rng(1)
    rates = np.array([0.9, 0.7, 0.5, 0.2, *[0.5] * 6])
    found = hopfed.recover(rng.random((800, 10)) < rates, seed=0)
    assert len(found) == 1
    more, less = tell_apart(found, 0)
    assert [t.column for t in more + less] == [0, 1, 3]
    assert {t.other for t in more + less} == {None}
    words = found.summary()
    assert re.search(r"mostly \+1: column 1 \(\d+%\), column 2 \(\d+%\)\n", words)
    assert re.search(r"seldom \+1: column 4 \(\d+%\)", words)
    assert "against" not in words
    said = report_page({"one.h5": as_run(found)})
    assert "elsewhere" not in said
    assert "other rows" not in said


def test_words_name_them_and_nothing_steers_the_terminal(found):
    words = found.summary()
    assert words.startswith("2 archetypes; ok: ")
    assert "archetype 1, 7" in words
    assert "more often +1: q" in words
    hostile = replace(found, columns=(HOSTILE,) * 60).summary()
    assert "\x1b" not in hostile
    assert "\\x1b[2J" in hostile
    one = replace(found, patterns=found.patterns[:1], graded_means=found.means[:1] * 0)
    one = replace(one, exposures=found.shares[:1], own_errors=None)
    assert one.summary().endswith("rows: no column tells it from a coin")
    rare = replace(found, exposures=np.array([0.997, 0.003])).summary()
    assert "archetype 2, <1% of the rows" in rare


def test_what_columns_share_is_no_interval_of_each(found):
    assert "each rate known within" in found.summary()
    words = replace(found, channel="symmetric", quality_error=0.01).summary()
    assert "rates on average over columns: single ones were not fitted" in words
    assert "known within" not in words


def test_a_notebook_shows_the_words_and_runs_no_name(found):
    assert found.summary().splitlines()[0] in found._repr_html_()
    hostile = replace(found, columns=(HOSTILE,) * 60)._repr_html_()
    assert "<script>" not in hostile
    assert "&lt;script&gt;" in hostile


def test_pictures_of_columns_and_of_shapes(found, tmp_path):
    figure = found.plot()
    axes = figure.axes[0]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert len(labels) == 50  # of 60: those that differ most
    assert {f"q{j}" for j in (*range(20), *range(50, 60))} <= set(labels)
    assert "the 50 of 60 columns" in axes.get_title()
    np.testing.assert_allclose(axes.images[0].get_array()[0], found.means[:, 0])
    pictures = found.plot(shape=(6, 10), path=tmp_path / "a.png")
    assert [a.images[0].get_array().shape for a in pictures.axes] == [(6, 10)] * 2
    assert (tmp_path / "a.png").stat().st_size > 1000
    replace(found, columns=(HOSTILE + "$a$",) * 60).plot(path=tmp_path / "b.svg")
    assert "<script>" not in (tmp_path / "b.svg").read_text()


def test_what_cannot_be_drawn_is_refused(found):
    with pytest.raises(ArgumentError, match="product of 60, got 7x7"):
        found.plot(shape=(7, 7))
    none = hopfed.recover(np.random.default_rng(0).choice([-1, 1], (100, 20)), seed=0)
    assert len(none) == 0
    assert none.summary().startswith("0 archetypes; no signal: ")
    with pytest.raises(ArgumentError, match="archetypes that have means"):
        none.plot()


def test_columns_of_a_table_are_told_in_its_own_words():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=400)
    yes = rng.random((400, 8)) < np.where(kind[:, None] == 0, 0.9, 0.1)
    table = {f"q{j}": np.where(yes[:, j], "yes", "no") for j in range(8)}
    table |= {"size": kind * 3 + rng.random(400), "tree": np.where(kind, "oak", "ash")}
    table |= {"mark": np.where(yes[:, 0], 1, 0)}
    words = hopfed.recover(hopfed.read_table(table, binarize={"size": 2})).summary()
    assert "+1" not in words
    for said in ("= yes (", "size > 2 (", "tree=oak (", "more often: "):
        assert said in words
