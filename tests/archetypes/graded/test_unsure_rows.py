"""Rows that are unsure of their class: the evidence and the prior allow for it, and find more."""

import numpy as np
import pytest
from graded_tables import classes, error, fitted, known, labelled
from helpers import rest_slow

from hopfed.archetypes.class_questions import standardised
from hopfed.archetypes.mixture import Mixture, Unsure, expect, iterate
from hopfed.archetypes.search import DEEP, Search, one_more, split, without_tails
from hopfed.archetypes.session import Variables


def few_entries(seed, M=1000):
    """Three classes of 150 columns, of which a row has thirty."""
    return classes(3, 150, M, seed, shape=(5, 5), missing=0.8)


def with_a_small_class(seed, K=6, N=200, few=8):
    """600 rows, 8 of them of the last class, and the labels."""
    rng = np.random.default_rng(seed)
    T = 2 * rng.beta(1, 4, (K, N)) - 1
    y = np.repeat(np.arange(K), [*np.full(K - 1, (600 - few) // (K - 1)), few])
    return np.where(rng.random((len(y), N)) < (1 + T[y]) / 2, 1, -1), y


def test_the_evidence_is_that_of_the_determinants():
    rng = np.random.default_rng(900)
    R = rng.dirichlet(np.full(4, 0.5), 300)
    observed, part = rng.random(7), np.array([0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3])
    unsure = Unsure(R.sum(axis=0), np.linalg.eigvalsh(R.T @ R), observed, 1 - part)
    for c in (0.5, 20.0, 1e6):
        by_hand = sum(
            (1 - a) / 2 * np.log(c + f * R.sum(axis=0)).sum()
            - (1 - a) / 2 * np.linalg.slogdet(c * np.eye(4) + f * R.T @ R)[1]
            for f, a in zip(observed, part, strict=True)
        )
        assert unsure.evidence(c) == pytest.approx(by_hand, rel=1e-9, abs=1e-6)
    assert unsure.at(np.array([1])).evidence(3.0) < unsure.evidence(3.0)


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


def test_the_worst_explained_rows_are_those_of_the_class_that_is_missing():
    x, y = with_a_small_class(900)
    owners, fit = labelled(x, np.minimum(y, 4), 5, steps=1)
    parts, owner = without_tails(owners, fit), owners.members[0]
    likely = standardised(owner)  # of each row in each class
    worst = np.where(likely > DEEP, 0, owner.posterior)
    np.testing.assert_allclose(parts.lower.counts[0], worst.sum(axis=0), atol=1e-2)
    np.testing.assert_allclose(parts.upper.signed, ((owner.posterior - worst).T @ x), atol=0.05)
    assert worst[y == 5].sum() > 4  # of eight rows
    assert worst[y < 5].sum() < 0.05 * 592


def test_a_class_whose_rows_are_counted_in_all_others_is_found():
    """A few rows in each: no class is two, and one more is made of those that fit badly."""
    rng = np.random.default_rng(0)
    T = 2 * rng.beta(5, 5, (8, 600)) - 1
    y = np.r_[np.full(200, 7), rng.integers(7, size=3800)]
    x = np.where(rng.random((4000, 600)) < (1 + T[y]) / 2, 1, -1)
    x[rng.random(x.shape) < 0.8] = 0
    owners, fit = labelled(x, np.where(y == 7, np.arange(4000) % 7, y), 7)
    assert fit.size == 7
    starts = one_more(owners, fit)
    assert (starts.counts.shape, len(starts.seen)) == ((1, 8), 8)
    assert starts.counts.sum() == pytest.approx(4000, abs=0.1)
    more = iterate(owners, starts, fit.prior, 60)
    assert more.evidence > fit.evidence + 200
    assert error(more.classes.means, T) < 1.5 * error(known(x, y, 8), T)
    assert split(owners, fit, Search(), 0).evidence > fit.evidence + 200


@pytest.mark.parametrize(
    ("M", "N", "missing"), rest_slow([(300, 40, 0.3), (600, 60, 0.5), (1000, 150, 0.8)], 1)
)
def test_independent_columns_with_gaps_stay_one_class(M, N, missing):
    rng = np.random.default_rng(900)
    for rates in (rng.random(N), np.full(N, 0.5), rng.beta(0.5, 3, N)):
        x = np.where(rng.random((M, N)) < rates, 1, -1)
        x[rng.random((M, N)) < missing] = 0
        assert fitted(x)[1].size == 1


def test_patterns_of_noise_are_no_classes_of_complete_rows():
    rng = np.random.default_rng(901)
    x = np.where(rng.random((400, 50)) < rng.random(50), 1, -1)
    V = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:8]
    patterns = np.where(np.concatenate([V, -V, x[:3]]) < 0, -1, 1)
    assert fitted(x, patterns=patterns)[1].size == 1


def test_levels_of_a_variable_are_told_apart_as_one_less():
    groups = Variables.of([(0, 1, 2)], 4)
    half = np.array([[4.0, 4.0], [4.0, 4.0]])
    unsure = Unsure(np.full(2, 8.0), np.linalg.eigvalsh(half), np.ones(4), 1 - groups.part)
    alone = Unsure(np.full(2, 8.0), np.linalg.eigvalsh(half), np.ones(1), np.ones(1))
    assert unsure.evidence(5.0) == pytest.approx(3 * alone.evidence(5.0))


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
    assert expect(owners, Mixture(means, shares), fit.prior).evidence < fit.evidence
