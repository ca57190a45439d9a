"""Degrees of one trait, or places on a gradient, are no classes, and classes there are."""

import numpy as np
import pytest
from helpers import rest_slow
from scipy.special import expit

import hopfed
from hopfed.archetypes.judging import rivals_of, trait_evidence
from hopfed.archetypes.session import Owners
from hopfed.kernels import pack


def evidence(x):
    """Of one trait; slopes begin at 1.5 along the first direction of the columns."""
    told = {"means": x, "shares": np.full(len(x), 1 / len(x))}
    line = rivals_of((1 + x.mean(axis=0)) / 2, told)[0]
    return trait_evidence(Owners.over([pack(x)], 0), line, x.shape[1])


def degrees(rows, columns, slope, seed):
    """A test of ability: rows of more or less of it, columns harder and easier."""
    rng = np.random.default_rng(seed)
    ability = rng.standard_normal((rows, 1))
    return rng.random((rows, columns)) < expit(slope * (ability - rng.normal(0, 0.7, columns)))


def kinds(rows, columns, K, seed):
    rng = np.random.default_rng(seed)
    rates = np.where(rng.random((K, columns)) < 0.5, 0.15, 0.85)
    return rng.random((rows, columns)) < rates[rng.integers(K, size=rows)]


@pytest.mark.parametrize("seed", rest_slow([800, 801, 802, 803], 1))
@pytest.mark.parametrize(
    "shape", [(1000, 4, 1.5), (200, 4, 3), (200, 6, 3), (1000, 6, 3), (60, 6, 3)]
)
def test_one_trait_of_few_columns_is_not_called_classes(shape, seed):
    """Of Rasch's tables of four to eight columns up to all were "ok: 2 classes"."""
    found = hopfed.recover(degrees(*shape, seed), seed=seed)
    assert found.status != "ok" or len(found) < 2


def peaks(rows, columns, seed, width=0.15, around=0):
    """Species along a slope, or through a year that comes `around`: each is common at its place."""
    rng = np.random.default_rng(seed)
    far = np.abs(rng.random((rows, 1)) - np.arange(columns) / (columns - 1 + around))
    far = np.minimum(far, 1 - far) if around else far
    return rng.random((rows, columns)) < 0.05 + 0.85 * np.exp(-(far**2) / 2 / width**2)


@pytest.mark.parametrize("seed", rest_slow([830, 831, 832, 833], 1))
@pytest.mark.parametrize(
    "shape", [(400, 20, 0.15, 0), (700, 60, 0.15, 0), (500, 12, 0.1, 0), (800, 30, 0.12, 1)]
)
def test_places_on_a_gradient_or_a_ring_are_not_called_classes(shape, seed):
    """Of 128 such tables 100 were "ok" while a trait was the only rival of classes."""
    rows, columns, width, around = shape
    found = hopfed.recover(peaks(rows, columns, seed, width, around), seed=seed)
    assert found.status != "ok"


@pytest.mark.parametrize("seed", rest_slow([810, 811, 812], 1))
@pytest.mark.parametrize("shape", [(200, 12, 3), (1000, 12, 2), (1000, 10, 3), (60, 24, 2)])
def test_classes_of_few_columns_stay_classes(shape, seed):
    rows, columns, K = shape
    found = hopfed.recover(kinds(rows, columns, K, seed), seed=seed)
    assert found.status == "ok", found.advice
    assert len(found) == K


@pytest.mark.parametrize("seed", range(3))
def test_evidence_is_that_of_the_integral_over_the_trait(seed):
    """Two columns: against the sum over a fine grid of degrees, at what generated the rows."""
    rng = np.random.default_rng(seed)
    a, b = np.array([1.5, 0.8]), np.array([0.3, -0.4])
    t = rng.standard_normal((4000, 1))
    x = np.where(rng.random((4000, 2)) < expit(b + a * t), 1, -1)
    grid = np.linspace(-6, 6, 801)
    weights = np.exp(-(grid**2) / 2)
    weights /= weights.sum()
    up = expit(b + a * grid[:, None])
    chance = [np.where(x[:, [j]] > 0, up[:, j], 1 - up[:, j]) for j in range(2)]
    truth = np.log((chance[0] * chance[1]) @ weights).sum()
    fitted = evidence(x) + 2 * np.log(4000)  # without what four numbers cost
    assert fitted >= truth - 0.05  # the ridges cost a little
    assert fitted <= truth + 12  # four numbers explain no more of noise


def test_columns_that_copy_each_other_have_an_end():
    x = np.repeat(np.where(np.arange(40) % 2, 1, -1)[:, None], 5, axis=1)
    assert np.isfinite(evidence(x))
