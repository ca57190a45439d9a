"""Ordered answers: each level a threshold, whose dependence is known, and no trait for classes."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import lines_of, rest_slow, written
from sklearn.metrics import adjusted_rand_score

import hopfed
from hopfed import read_table
from hopfed.archetypes.display import tell_apart
from hopfed.archetypes.run_file import COLUMNS, as_run, packed_names, read_run
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import unpack
from hopfed.recovery.compare import _drawn
from hopfed.spectral.skips import find_skips


def answers(kind, seed, rows=400, columns=8, levels=5):
    """Answers of 1 to 5 by degrees of a trait, by three classes, or by nothing; and the class."""
    rng = np.random.default_rng([seed, 59])
    labels = rng.integers(3, size=rows)
    if kind == "trait":
        cuts = 1.5 * np.sort(rng.normal(0, 1.2, (columns, levels - 1)), axis=1)
        z = 1.5 * rng.normal(size=(rows, 1)) + rng.logistic(size=(rows, columns))
        return 1 + (z[:, :, None] > cuts).sum(axis=2), labels
    rates = rng.dirichlet(np.full(levels, 0.8), (3, columns)).cumsum(axis=2)
    rates = rates[labels if kind == "classes" else 0 * labels]
    return 1 + (rng.random((rows, columns, 1)) > rates[..., :-1]).sum(axis=2), labels


def table(x):
    """A table of answers, all of which are ordered."""
    names = [f"q{j}" for j in range(x.shape[1])]
    return read_table(dict(zip(names, x.T, strict=True)), ordinal=names)


@pytest.mark.parametrize("seed", rest_slow(range(20), 1))
def test_one_trait_of_five_levels_is_not_called_classes(seed):
    found = hopfed.recover(table(answers("trait", seed)[0]), seed=seed)
    assert found.status != "ok" or len(found) < 2


def test_thresholds_that_are_not_reached_are_no_blanks():
    x = answers("classes", 7, rows=900)[0].astype(float)
    held = table(x)
    assert not find_skips(held.rows, held.coding.steps)
    x[x[:, 0] == 1, 5] = np.nan
    (skip,) = find_skips(table(x).rows, held.coding.steps)
    assert (skip.column, skip.sign, skip.blank.tolist()) == (0, -1, [20, 21, 22, 23])


def test_a_run_that_calls_a_threshold_as_before_takes_the_same_rows():
    held = table(answers("classes", 2, rows=60)[0])
    run = as_run(hopfed.recover(held, n_archetypes=2))
    run.arrays[COLUMNS] = packed_names([name.partition(" of ")[0] for name in held.columns])
    found = read_run(run, "old.h5")
    assert found.columns[:3] == ("q0>1", "q0>2 of >1", "q0>3 of >2")
    assert len(found.assign(held).archetype) == 60


@pytest.mark.slow
def test_no_classes_are_found_where_there_are_none():
    said = [hopfed.recover(table(answers("none", seed)[0]), seed=seed) for seed in range(20)]
    assert [found.status for found in said].count("one class") >= 19


def test_classes_are_found_with_one_number_fewer_than_levels():
    x, labels = answers("classes", 2)
    held = table(x)
    found = hopfed.recover(held, seed=0)
    assert (found.status, len(found)) == ("ok", 3)
    assert found.means.shape == (3, 8 * 4)
    chosen = found.assign(held).archetype
    assert adjusted_rand_score(chosen, labels) > 0.7
    rates = [(x[chosen == k] > 1).mean(axis=0) for k in range(3)]
    np.testing.assert_allclose((1 + found.means[:, ::4]) / 2, rates, atol=0.08)
    for told in tell_apart(found, 0)[0]:  # beside the other rows that reach the threshold
        seen = unpack(held.rows)[chosen != 0, told.column]
        assert told.other == pytest.approx((seen > 0).sum() / (seen != 0).sum(), abs=0.03)
    rows = found.sample(20_000)[0]
    drawn = unpack(_drawn(held.rows, found, 1))
    np.testing.assert_array_equal(drawn[:, ::4] != 0, unpack(held.rows)[:, ::4] != 0)
    for each in (rows, drawn):  # a threshold is seen above those before, and only there
        np.testing.assert_array_equal(each[:, 1::4] != 0, each[:, ::4] > 0)
    with pytest.raises(ArgumentError, match="channel must be auto or graded with ordered answers"):
        hopfed.recover(held, channel="symmetric")


def test_the_log_likelihood_is_that_of_the_levels():
    """Of one class: the sum over columns of the entropy of its levels."""
    x = np.random.default_rng(3).integers(1, 6, (300, 6))
    compared = hopfed.compare(table(x), [1])
    parts = [np.unique(c, return_counts=True)[1] for c in x.T]
    want = sum((n * np.log(n / n.sum())).sum() for n in parts)
    assert compared.table["log_likelihood"][0] == pytest.approx(want, abs=0.5)
    assert compared.table["parameters"][0] == sum(len(n) - 1 for n in parts)


def test_words_have_the_order_that_is_told():
    given = {"a": ["low", "high", "mid", ""], "b": [1, 2, "dk", 10]}
    held = read_table(given, ordinal={"a": ("low", "mid", "high"), "b": ()})
    assert held.columns == ("a>low", "a>mid of >low", "b>1", "b>2 of >1")
    assert unpack(held.rows).tolist() == [
        [-1, 0, -1, 0],
        [1, 1, 1, -1],
        [1, -1, 0, 0],
        [0, 0, 1, 1],
    ]
    for what, message in (
        ("a", r"from the lowest to the highest.*ordinal=\{.a.: \(.low., .mid., .high.\)\}"),
        ({"a": ("low", "mid")}, "'high' is not among the levels that were given"),
        ("c", "there is no column 'c'"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(given | {"a": ["low", "high", "mid", "high"]}, ordinal=what)


def test_the_commands_read_and_fill_them(hopfed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, _ = answers("classes", 2, 300, 6)
    words = np.array(["", "never", "at times", "often", "very often", "always"], object)[x]
    gone = np.random.default_rng(0).random(len(x)) < 0.1
    words[gone, 0] = ""
    names = [f"q{j}" for j in range(6)]
    written("t.csv", names, words)
    order = "never<at times<often<very often<always"
    told = [w for name in names for w in ("--ordinal", f"{name}={order}")]
    assert "blank wherever" not in hopfed.done("recover", "t.csv", *told, "--out", "run.h5")[1]
    seen = json.loads(hopfed.done("recover", "t.csv", *told, "--dry-run", "--json")[0])
    assert seen["missing"] == pytest.approx(gone.mean() / 6)  # of cells, not of thresholds
    hopfed.done("report", "run.h5", "--rows", "t.csv", "--out", "page.html")
    assert f"{gone.sum()} of 1,800 entries are missing" in Path("page.html").read_text("utf-8")
    said, _ = hopfed.done("complete", "run.h5", "t.csv", "--out", "filled.csv")
    assert f"filled {gone.sum()} of 1,800 cells" in said
    filled = np.array(lines_of("filled.csv")[1:])
    assert (filled[~gone] == words[~gone]).all()
    right = filled[gone, 0] == np.array(["", *order.split("<")], object)[x[gone, 0]]
    assert right.mean() > 0.3  # of five levels
