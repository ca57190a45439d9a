"""Exposures and quality, their standard errors, and how often their intervals hold the truth."""

import numpy as np
import pytest
from helpers import rest_slow

from hopfed import recover
from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory.exposures import errors, interval

UNEQUAL = (0.4, 0.3, 0.15, 0.1, 0.05)


# Draws; how far the mean may be off; how many intervals hold the truth, of exposures and quality.
@pytest.mark.parametrize(
    ("draws", "off", "least", "sure"),
    rest_slow([(20, 0.03, 0.87, 0.75), (200, 0.01, 0.92, 0.88)], 1),
)
def test_exposures_are_not_low_and_intervals_hold_the_truth(draws, off, least, sure):
    shares, ratios, held, held_quality = np.array(UNEQUAL), [], [], []
    for seed in range(100, 100 + draws):
        rng = np.random.default_rng(seed)
        xi = rademacher(5, 400, rng)
        x = draw_examples(xi, 1000, 0.5, rng, exposures=shares)[0]
        found = recover(x, seed=seed, channel="symmetric")
        which = np.abs(found.patterns.astype(float) @ xi.T).argmax(axis=1)
        if len(set(which.tolist())) < 5:  # fewer are seen: others have their shares
            continue
        truth, ends = shares[which], interval(found.exposures, found.exposure_errors)
        ratios.append((found.exposures / truth).mean())
        held += ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).tolist()
        low, high = interval(found.quality, found.quality_error)
        held_quality.append(low <= 0.5 <= high)
    assert len(held_quality) >= 0.8 * draws
    assert np.mean(ratios) == pytest.approx(1, abs=off)
    assert least < np.mean(held) < 0.99
    assert np.mean(held_quality) >= sure


def test_correlated_archetypes_keep_their_shares():
    """Pairs that overlap by .6 share most of a direction; the fit tells their weights apart."""
    rng = np.random.default_rng(100)
    base = rademacher(3, 500, rng)
    like = np.where(rng.random(base.shape) < 0.2, -base, base).astype(np.int8)
    xi, shares = np.concatenate([base, like]), np.array([0.3, 0.2, 0.1, 0.05, 0.15, 0.2])
    found = recover(draw_examples(xi, 4000, 0.6, rng, exposures=shares)[0], seed=0)
    which = np.abs(found.patterns.astype(float) @ xi.T).argmax(axis=1)
    assert sorted(which) == list(range(6))
    off = (found.exposures - shares[which]) / found.exposure_errors
    assert np.abs(off).max() < 4
    alone = errors(found.exposures, found.quality, 500, 4000).exposures
    assert (found.exposure_errors > alone).all()  # what they share is hard to tell apart


def test_a_quality_that_is_given_has_no_error():
    rng = np.random.default_rng(1)
    x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    found = recover(x, seed=1)
    assert (np.diff(found.exposures) <= 0).all()
    assert found.exposures.sum() == pytest.approx(1, abs=1e-3)
    assert found.quality_error > 0
    given = recover(x, seed=1, quality=0.8)
    assert (given.quality, given.quality_error) == (0.8, 0.0)


def test_where_errors_are_not_known():
    """Owners of different quality: the noise is not of one variance, and no number is made up."""
    rng = np.random.default_rng(0)
    xi = rademacher(3, 300, rng)
    found = recover([draw_examples(xi, 800, r, rng)[0] for r in (0.9, 0.3)], seed=0)
    assert len(found) == 3
    assert found.exposure_errors is None
    assert np.isnan(found.quality_error)


def test_errors_of_one_pattern_and_of_what_is_no_share():
    one = errors([1.0], 0.8, N=100, M=400)
    assert one.exposures[0] == 0
    assert one.quality == pytest.approx(np.sqrt(0.36 / 40000), rel=0.01)  # of M N flips
    with pytest.raises(ArgumentError, match="overlaps"):
        errors([0.5, 0.5], 0.8, 100, 100, np.eye(3))
    with pytest.raises(ArgumentError, match="exposures"):
        errors([1.5], 0.8, 100, 100)


def test_a_prior_does_not_pull_unequal_shares_together():
    rng = np.random.default_rng(3)
    means, of = rng.uniform(-0.5, 0.5, (2, 30)), rng.choice(2, 3_000, p=[0.8, 0.2])
    found = recover(np.where(rng.random((3_000, 30)) < (1 + means[of]) / 2, 1, -1), n_archetypes=2)
    assert abs(found.shares[0] - 0.8) < found.exposure_errors[0]
