"""`recover` on tables of every kind: the channel that holds, gaps, and no "ok" without classes."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.patterns import Patterns
from hopfed.errors import ArgumentError, DataError
from hopfed.hopfield.channel import rademacher


def signs(table):
    return np.where(table, 1, -1).astype(np.int8)


def tables(rng, M=1000, N=200):
    """Tables whose second moments look like those of patterns, and their channel if they are."""
    z, steps = rng.standard_normal, np.arange(N)
    xi, label = rademacher(6, N, rng), rng.integers(6, size=M)
    flips = rng.uniform(0, 0.4, N)
    graded = 2 * rng.beta(1, 1, (3, N)) - 1
    chain = z((M, N))
    for i in range(1, N):
        chain[:, i] = 0.3 * chain[:, i - 1] + np.sqrt(0.91) * chain[:, i]
    trait = z((M, 1)) - z((1, N)) + rng.logistic(size=(M, N))
    members = rng.dirichlet(np.full(4, 0.3), M) @ rng.choice([-1, 1], (4, N))
    return {
        "by column": (xi[label] * np.where(rng.random((M, N)) < flips, -1, 1) > 0, 6),
        "asymmetric": (rng.random((M, N)) < np.where(xi[label] > 0, 0.9, 0.3), 6),
        "graded": (rng.random((M, N)) < (1 + graded[label % 3]) / 2, 3),
        "rates": (rng.random((M, N)) < rng.random(N), 0),
        "blocks": (0.55 * z((M, 5))[:, steps * 5 // N] + 0.84 * z((M, N)) > 0, 0),
        "chain": (chain > 0, 0),
        "trait": (trait > 0, 0),
        "mixed": (rng.random((M, N)) < (1 + 0.8 * members) / 2, 0),
    }


@pytest.mark.parametrize(
    "name",
    rest_slow(
        ["by column", "graded", "trait", "blocks", "asymmetric", "rates", "chain", "mixed"], 3
    ),
)
def test_what_is_not_noisy_patterns_is_never_ok_as_such(name):
    table, classes = tables(np.random.default_rng(7))[name]
    found = hopfed.recover(signs(table), seed=0)
    if classes:
        assert (found.status, len(found)) == ("ok", classes)
        assert found.channel == ("by column" if name == "by column" else "graded")
        assert found.means.shape == found.errors.shape == (classes, 200)
        assert found.shares.sum() == pytest.approx(1)
    elif name == "rates":
        assert (found.status, len(found)) == ("one class", 1)
    else:
        assert found.status == "structure, but not classes"


def test_what_only_the_symmetric_channel_knows_needs_complete_rows():
    x = np.where(np.eye(20) > 0, np.nan, 1.0)
    for option in (
        {"patterns": Patterns(method="joint")},
        {"quality": 0.5},
        {"channel": "symmetric"},
    ):
        with pytest.raises(DataError, match="missing"):
            hopfed.recover(x, seed=0, **option)
    with pytest.raises(ArgumentError, match="channel must be"):
        hopfed.recover(x, seed=0, channel="grey")
    with pytest.raises(ArgumentError, match="channel must be auto or symmetric with method"):
        hopfed.recover(x, seed=0, channel="graded", patterns=Patterns(method="joint"))
    with pytest.raises(DataError, match="fewer than two columns"):
        hopfed.recover(x, seed=0)


@pytest.mark.slow
def test_raw_digits_are_structure_but_not_classes(mnist_digits):
    found = hopfed.recover(mnist_digits[:1000], seed=0)
    assert found.status == "structure, but not classes"
    assert found.channel == "graded"


def test_two_opposite_classes_of_four_columns_are_not_one_pattern():
    """Medians of the iris flowers: overlaps of four columns cannot tell the channels apart."""
    from sklearn.datasets import load_iris

    values = load_iris().data
    rows = np.where(values > np.median(values, axis=0), 1, -1)
    for draw in (3, 103):
        kept = np.random.default_rng(draw).permutation(150)[:120]
        found = hopfed.recover(rows[kept], seed=0)
        assert len(found) == 2
        assert found.shares.sum() == pytest.approx(1)


def test_few_rows_are_no_archetype():
    """Four rows of a pattern, and three that come back: they are persons, not kinds."""
    rng = np.random.default_rng(11)
    xi = rademacher(3, 600, rng)
    label = np.repeat([0, 1, 2], [40, 40, 4])
    rows = xi[label] * np.where(rng.random((84, 600)) < 0.9, 1, -1)
    shown = hopfed.recover(rows, support=1)
    assert (shown.status, len(shown)) == ("ok", 3)
    hidden = hopfed.recover(rows)
    assert (hidden.status, len(hidden)) == ("incomplete", 2)
    assert "1 pattern(s) that fewer than 5 examples resemble" in hidden.advice
    assert np.abs(hidden.patterns.astype(int) @ xi[2]).max() < 200
    with pytest.raises(ArgumentError, match=r"support must be .* at least 1"):
        hopfed.recover(rows, support=0)
