"""Rows that are unsure of their class: the evidence and the prior allow for it, and find more."""

import numpy as np
import pytest
from graded_tables import classes, error, fitted, known, labelled
from helpers import rest_slow

from hopfed.archetypes.class_sums import Mixture, e_step, fit_sums
from hopfed.archetypes.classes import Search, add_class, split_classes


def few_entries(seed, M=1000):
    """Three classes of 150 columns, of which a row has thirty."""
    return classes(3, 150, M, seed, shape=(5, 5), missing=0.8)


def with_a_small_class(seed, K=6, N=200, few=8):
    """600 rows, 8 of them of the last class, and the labels."""
    rng = np.random.default_rng(seed)
    T = 2 * rng.beta(1, 4, (K, N)) - 1
    y = np.repeat(np.arange(K), [*np.full(K - 1, (600 - few) // (K - 1)), few])
    return np.where(rng.random((len(y), N)) < (1 + T[y]) / 2, 1, -1), y


@pytest.mark.parametrize("seed", rest_slow([900, 901], 1))
def test_the_prior_of_unsure_rows_does_not_run_away(seed):
    T, y, x = few_entries(seed, M=500)
    fit = labelled(x, y, 3)[1]
    assert fit.size == 3
    assert fit.prior.concentration < 100  # the means were drawn at 10
    assert error(fit.classes.means, T) < 0.28


@pytest.mark.parametrize("seed", rest_slow([900, 905, 908, 909], 1))
def test_a_class_of_few_rows_is_found_by_what_the_others_explain_badly(seed):
    assert fitted(with_a_small_class(seed)[0])[1].size == 6


def test_a_class_whose_rows_are_counted_in_all_others_is_found():
    """A few rows in each: no class is two, and one more is made of those that fit badly."""
    rng = np.random.default_rng(0)
    T = 2 * rng.beta(5, 5, (8, 600)) - 1
    y = np.r_[np.full(200, 7), rng.integers(7, size=3800)]
    x = np.where(rng.random((4000, 600)) < (1 + T[y]) / 2, 1, -1)
    x[rng.random(x.shape) < 0.8] = 0
    owners, fit = labelled(x, np.where(y == 7, np.arange(4000) % 7, y), 7)
    assert fit.size == 7
    starts = add_class(owners, fit)
    assert (starts.counts.shape, len(starts.seen)) == ((1, 8), 8)
    assert starts.counts.sum() == pytest.approx(4000, abs=0.1)
    more = fit_sums(owners, starts, fit.prior, 60)
    assert more.evidence > fit.evidence + 200
    assert error(more.classes.means, T) < 1.5 * error(known(x, y, 8), T)
    assert split_classes(owners, fit, Search(), 0).evidence > fit.evidence + 200


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("again", [1, 4])
def test_a_class_told_twice_has_no_more_evidence(exact, again):
    """Rows that are copies cost nearly nothing a column, so little can be given back."""
    rng = np.random.default_rng(23)
    T = 2 * rng.beta(1, 1, (10, 80)) - 1
    if exact:
        T = np.sign(T)
    x = np.where(rng.random((400, 80)) < (1 + T[np.arange(400) % 10]) / 2, 1, -1).astype(np.int8)
    owners, fit = labelled(x, np.arange(400) % 10, 10, 30)
    shares = np.hstack([fit.classes.shares, fit.classes.shares[:, :again]])
    shares[:, :again] /= 2
    shares[:, -again:] /= 2
    means = np.vstack([fit.classes.means, fit.classes.means[:again]])
    assert e_step(owners, Mixture(means, shares), fit.prior).evidence < fit.evidence
