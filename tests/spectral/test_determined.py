"""Columns that determine each other count once: copies, opposites, levels; and silent columns."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.kernels.examples import as_examples
from hopfed.spectral.determined import ERRORS, find_determined_columns, sum_column_pairs


def two_kinds(rng, rows=400, columns=12, high=0.9, low=0.15):
    rates = np.where(rng.random((2, columns)) < 0.5, high, low)
    rates[1] = high + low - rates[0]
    return (rng.random((rows, columns)) < rates[rng.integers(2, size=rows)]).astype(float)


def found_in(x, known=()):
    return find_determined_columns([as_examples(x, gaps=True)], known)


def mistyped(rng, column, errors):
    return np.where(rng.random(len(column)) < errors, 1 - column, column)


@pytest.mark.parametrize(("seed", "errors"), [(0, 0.0), (1, 0.01), (2, 0.02)])
def test_copies_and_opposites_follow_their_column(seed, errors):
    rng = np.random.default_rng(seed)
    x = two_kinds(rng)
    y = np.c_[x, mistyped(rng, x[:, 3], errors), mistyped(rng, 1 - x[:, 5], errors)]
    found = found_in(y)
    clusters = {frozenset({j, found.leader[j]}) for j in found.copies.tolist()}
    assert clusters == {frozenset({3, 12}), frozenset({5, 13})}


@pytest.mark.parametrize("rate", [0.97, 0.99])
def test_columns_of_clear_classes_are_no_copies(rate):
    """They agree as often as copies, but not within classes."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert found_in(two_kinds(rng, high=rate, low=1 - rate)).whole
    x = two_kinds(rng, high=0.97, low=0.03)
    assert found_in(np.c_[x, x[:, 4]]).copies.size == 1


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("seed", rest_slow(range(4), 1))
def test_levels_are_found_wherever_they_stand(seed, missing):
    """Two neighbours of one variable with gaps were a variable, its other levels none."""
    rng = np.random.default_rng(seed)
    levels = np.eye(4)[rng.choice(4, size=(800, 6), p=(0.4, 0.3, 0.2, 0.1))]
    levels[rng.random((800, 6)) < missing] = 0
    order = rng.permutation(24)
    x = levels.reshape(800, 24)[:, order]
    found = found_in(x)
    assert set(found.groups) == {tuple(np.flatnonzero(order // 4 == k).tolist()) for k in range(6)}
    assert len(found.gapped) == (6 if missing else 0)
    seen = np.repeat(levels.any(axis=2), 4, axis=1)[:, order]  # without a level there is a gap
    np.testing.assert_array_equal(hopfed.kernels.unpack(found.of(as_examples(x))) != 0, seen)
    if not missing:
        assert len(hopfed.recover(x)) <= 1  # independent variables were 20 classes


def test_a_wide_table_is_looked_through_by_hashes():
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, 1.0], (600, 3_000))
    x[:, 17], x[:, 2_500] = x[:, 1_900], mistyped(rng, 1 - x[:, 40], 0.01)
    found = found_in(x)
    clusters = {frozenset({j, int(found.leader[j])}) for j in found.copies.tolist()}
    assert clusters == {frozenset({17, 1_900}), frozenset({40, 2_500})}


@pytest.mark.parametrize(
    "what", rest_slow(["opposite", "nearly empty", "copy", "empty", "constant"], 2)
)
def test_classes_stay_what_they_are(what):
    """A copied column doubled the classes, an empty one took the verdict away."""
    x = two_kinds(np.random.default_rng(7))
    few = np.where(np.arange(400) < 5, 1.0 - x[:, 0], np.nan)
    added = {
        "copy": x[:, 2],
        "opposite": 1 - x[:, 2],
        "empty": np.full(400, np.nan),
        "constant": np.ones(400),
        "nearly empty": few,
    }[what]
    for parts in (1, 3) if what == "opposite" else (1,):
        found = hopfed.recover(np.array_split(np.c_[x, added], parts))
        assert (found.status, len(found), found.means.shape) == ("ok", 2, (2, 13))
        assert "left out of count and fit" in found.advice
        if what in ("copy", "opposite"):
            sign = 1 if what == "copy" else -1
            np.testing.assert_allclose(found.means[:, 12], sign * found.means[:, 2], atol=1e-9)


def test_a_gap_of_a_copy_is_filled_from_its_column(tmp_path):
    x = two_kinds(np.random.default_rng(8))
    found = hopfed.recover(np.c_[x, 1 - x[:, 2]])
    found.save(tmp_path / "found.h5")
    again = hopfed.load(tmp_path / "found.h5")
    rows = np.c_[x, np.full(400, np.nan)]
    np.testing.assert_array_equal(again.complete(rows).values[:, 12], np.where(x[:, 2] > 0, -1, 1))
    alone, both = again.probabilities(rows), again.probabilities(np.c_[x, 1 - x[:, 2]])
    np.testing.assert_allclose(alone, both, atol=1e-9)  # the copy adds nothing


@pytest.mark.parametrize("seed", range(40))
def test_bounds_of_complete_columns_miss_no_pair(seed):
    """They only spare the comparison of all pairs: also one pair close to a limit is seen."""
    rng = np.random.default_rng(seed)
    M, N = int(rng.integers(30, 400)), int(rng.integers(3, 30))
    x = np.where(rng.random((M, N)) < rng.uniform(0.05, 0.95, N), 1, -1)
    if seed % 2:
        turned = rng.random(M) < rng.uniform(0, 0.08)
        x[:, 1] = np.where(turned, -x[:, 0], x[:, 0])
    elif seed % 4 == 0:
        x[:, 1] = np.where((x[:, 0] > 0) & (rng.random(M) < 0.9), -1, x[:, 1])
    asked = sum_column_pairs(as_examples(x))
    all_pairs = np.triu(asked.alike(ERRORS[-1]) | asked.exclusive, k=1)
    assert asked.related() is bool(all_pairs.any())
