"""Owners of different columns: the second moment, its forms, and the count."""

from functools import partial

import numpy as np
import pytest

from hopfed.kernels import pack_masked
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator, pool
from hopfed.spectral.rank import TracyWidom
from hopfed.spectral.whitening import Holdings, whitened

LACKS = np.arange(60) % 4  # owner l lacks the columns of kind l; those of kind 3 all hold


def dealt(x, lacks=LACKS):
    """Rows dealt to three owners, each without some of the columns."""
    parts = [part.copy() for part in np.array_split(x, 3)]
    for owner, part in enumerate(parts):
        part[:, lacks == owner] = 0
    return parts


def independent(M, rng, rates=None):
    rates = rng.random(60) if rates is None else rates
    return np.where(rng.random((M, 60)) < rates, 1, -1).astype(np.int8)


def operators(parts):
    return [FactorOperator.from_examples(part) for part in parts]


def counted(parts, alpha=1e-3, dense=True, seed=0):
    owners = operators(parts)
    pooled = PooledOperator.over(owners)
    if dense:
        pooled = pool([DenseOperator.from_examples(op.rows) for op in owners])
    mean = np.concatenate(parts).mean(axis=0)
    told = partial(whitened, pooled, TracyWidom(alpha), mean=mean, seed=seed)
    return told(holdings=Holdings.of(owners)), told()


def test_the_matched_moment_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    parts = dealt(independent(300, rng))
    owners = operators(parts)
    holdings = Holdings.of(owners)
    every = np.concatenate(parts).astype(float)
    common = every.sum(0) / (every != 0).sum(0)
    about = np.concatenate([part - common * (part != 0) for part in parts])
    seen = (every != 0).astype(float)
    p, both = seen.mean(0), seen.T @ seen / 300
    C = about.T @ about / 300 * np.divide(np.outer(p, p), both, where=both > 0, out=0 * both)
    np.fill_diagonal(C, (about**2).mean(0))
    raw = C + np.outer(p * common, p * common)
    dense = pool([DenseOperator.from_examples(op.rows) for op in owners])
    for form in (dense, PooledOperator.over(owners)):
        found = [op.matmat(np.eye(60)) for op in holdings.matched(form)]
        np.testing.assert_allclose(found[0], C, atol=1e-10)
        np.testing.assert_allclose(found[1], raw, atol=1e-10)
    np.testing.assert_allclose(holdings.spread, np.diag(C), atol=1e-10)


def test_a_class_has_one_direction_whoever_holds_its_columns():
    rng = np.random.default_rng(1)
    T = rng.uniform(-1, 1, (3, 60))
    labels = np.tile(np.arange(3), 20_000)  # equal shares at every owner
    x = np.where(rng.random((60_000, 60)) < (1 + T[labels]) / 2, 1, -1).astype(np.int8)
    found, unaware = counted(dealt(x))
    assert found.rank.n_detected == 3
    assert unaware.rank.n_detected > 5
    p = np.where(LACKS == 3, 1, 2 / 3)
    basis = found.spectrum.vectors * np.sqrt(found.variances)[:, None]
    left = np.linalg.lstsq(basis, p[:, None] * T.T)[1]
    assert (left < 0.01 * (T**2).sum(axis=1)).all()


def test_independent_columns_are_no_classes_at_the_level_that_is_asked_for():
    rng = np.random.default_rng(2)
    draws = [counted(dealt(independent(450, rng)), 0.05, seed=i) for i in range(30)]
    alarms = sum(found.rank.n_detected > 1 for found, _ in draws)
    assert alarms <= 5  # of 1.5 expected: chance passes 5 in .3% of such series
    assert all(unaware.rank.n_detected >= 3 for _, unaware in draws)  # each owner a class


def test_products_and_the_matrix_show_the_same_classes():
    rng = np.random.default_rng(3)
    T = rng.uniform(-1, 1, (3, 60))
    x = np.where(rng.random((900, 60)) < (1 + T[np.arange(900) % 3]) / 2, 1, -1).astype(np.int8)
    (found, _), (whole, _) = counted(dealt(x), dense=False), counted(dealt(x))
    one, two = (white.spectrum.vectors[:, :3] for white in (found, whole))
    cosines = np.linalg.svd(one.T @ two, compute_uv=False)
    assert cosines.min() > 0.99  # the rounds end a little apart, as each knows other eigenvalues


def test_owners_of_the_same_columns_have_no_holdings():
    rng = np.random.default_rng(4)
    x = independent(90, rng)
    x[:, 5] = 0  # nobody holds it
    x[rng.random(x.shape) < 0.3] = 0
    assert Holdings.of(operators(dealt(x, np.full(60, 9)))) is None
    there = Holdings.of(operators(dealt(x)))
    assert there.held[:, 5].all()
    assert there.stretch(np.ones(60, bool)) == pytest.approx(1, abs=0.1)


def test_a_pair_that_nobody_holds_together_says_nothing():
    x = np.where(np.random.default_rng(5).random((80, 2)) < 0.5, 1, -1).astype(np.int8)
    first, second = x[:40].copy(), x[40:].copy()
    first[:, 1], second[:, 0] = 0, 0
    owners = operators([pack_masked(first), pack_masked(second)])
    about = Holdings.of(owners).matched(PooledOperator.over(owners))[0].matmat(np.eye(2))
    assert about[0, 1] == about[1, 0] == 0
