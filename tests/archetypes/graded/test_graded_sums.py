from dataclasses import replace

import numpy as np
import pytest
from graded_tables import classes, labelled, sums_of
from scipy.special import gammaln, logsumexp, softmax

from hopfed import kernels
from hopfed.archetypes import class_sums
from hopfed.archetypes.class_sums import (
    ClassSums,
    Mixture,
    Prior,
    e_step,
    fit_sums,
    improve,
    ratios,
    residual_product,
    residual_products,
    residual_squares,
    sums_and_pairs,
)
from hopfed.archetypes.session import Owner, Owners, Variables, log_odds


def owner(rows, T, shares):
    found = Owners.of([rows], seed=0).members[0]
    found.learn(T, shares)
    return found


def test_residuals_are_those_of_the_dense_matrix(monkeypatch):
    T, _, x = classes(3, 40, 60, 2, missing=0.2)
    found = owner(x, T, np.full(3, 1 / 3))
    E = np.where(x != 0, x - found.posterior @ found.means, 0)
    w = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    for kept in (class_sums.KEPT, 0):
        monkeypatch.setattr(class_sums, "KEPT", kept)
        monkeypatch.setattr(class_sums, "BLOCK", 7 * 40)
        squares = residual_squares(found, {})["squares"]
        np.testing.assert_allclose(squares, (E**2).sum(0), rtol=1e-4)
        product = residual_product(found, {"vector": w})["product"]
        np.testing.assert_allclose(product, E.T @ (E @ w), rtol=1e-3, atol=1e-2)
        found.residuals = None


def test_owners_together_say_what_one_owner_of_all_says():
    T, _, x = classes(3, 50, 200, 4, missing=0.1)
    one, many = Owners.of([x], 0), Owners.of([x[:30], x[30:110], x[110:]], 0)
    mixture = [Mixture(T, np.full((n, 3), 1 / 3)) for n in (1, 3)]
    a = e_step(one, mixture[0], Prior.of(one))
    b = e_step(many, mixture[1], Prior.of(many))
    np.testing.assert_allclose(a.sums.signed, b.sums.signed, atol=1e-3)
    np.testing.assert_allclose(a.sums.seen, b.sums.seen, atol=1e-3)
    assert a.sums.log_likelihood == pytest.approx(b.sums.log_likelihood, rel=1e-6)
    assert b.sums.counts.shape == (3, 3)
    np.testing.assert_allclose(a.sums.pairs, b.sums.pairs, rtol=1e-4)
    np.testing.assert_allclose(a.sums.pairs.sum(axis=0), a.sums.counts[0], rtol=1e-4)
    joined = a.sums.merged((1, 2))
    assert joined.pairs[1, 1] == pytest.approx(a.sums.pairs[1:, 1:].sum())


def test_the_likelihood_of_a_fit_only_rises():
    _, y, x = classes(3, 60, 400, 5, missing=0.2)
    owners = Owners.of([x], 0)
    prior = Prior.of(owners)
    labels = np.where(np.arange(400) % 3 == 0, y, np.arange(400) % 3)
    fit = fit_sums(owners, sums_of(x, labels, 3), prior, 1)
    values = [fit.sums.log_likelihood]
    for _ in range(25):
        fit = improve(owners, fit, 1)
        values.append(fit.sums.log_likelihood)
    # The prior, which is fitted too, may take back a little at the end.
    assert (np.diff(values) > -0.02 * len(x) ** 0.5).all()
    assert values[-1] - values[0] > 200


def test_evidence_of_sure_rows_is_that_of_the_labelled_table():
    rng = np.random.default_rng(0)
    T = np.where(np.arange(40) < 20, 0.99, -0.99) * np.array([[1], [-1]])
    y = rng.integers(2, size=60)
    x = np.where(rng.random((60, 40)) < (1 + T[y]) / 2, 1, -1)
    fit = labelled(x, y, 2, 1)[1]
    c, m = fit.prior.concentration, fit.prior.rates
    a, b = c * m, c * (1 - m)
    total = np.log(2)
    for k in range(2):
        up, down = (x[y == k] > 0).sum(0), (x[y == k] < 0).sum(0)
        total += (gammaln(a + up) + gammaln(b + down) - gammaln(c + up + down)).sum()
        total -= (gammaln(a) + gammaln(b) - gammaln(c)).sum()
    n = np.bincount(y)
    total += gammaln(2) + gammaln(n + 1).sum() - gammaln(62)
    total -= 20 * np.log((1 / (1 / (c + 1) + 1 / n)).sum())  # the columns' own rates, by Laplace
    assert fit.evidence == pytest.approx(total, abs=0.2)


def test_sums_in_single_precision_miss_no_entry():
    """Nearly all of 200 classes of raw digits lacked a little of an entry: "a <= 0" in the end."""
    seen = np.array([[205.92555], [3.0]])
    sums = ClassSums(np.array([[206.0, 3.0]]), -seen * (1 + 1e-6), seen)
    assert (sums.plus >= 0).all()
    assert (replace(sums, signed=-sums.signed).minus >= 0).all()
    np.testing.assert_allclose(sums.plus + sums.minus, seen, rtol=1e-5)


K, M, N = 4, 90, 33


@pytest.fixture(params=[False, True], ids=["complete", "gaps"])
def table(request):
    """Rows as numbers and as bits, which have learned classes, and their logs in plain numbers."""
    rng = np.random.default_rng(3)
    x = rng.choice([-1, 1], (M, N))
    x = np.where(rng.random((M, N)) < 0.2, 0, x) if request.param else x
    variables = Variables.of([(0, 1, 2), (5, 6)], N)
    means, shares = rng.uniform(-0.9, 0.9, (K, N)), rng.dirichlet(np.ones(K))
    held = Owner(kernels.pack_masked(x), 0, variables)
    sums = sums_and_pairs(held, {"means": means, "shares": shares})
    return x, held, sums, plain_logs(x, means, variables) + np.log(shares)


def plain_logs(x, means, variables):
    odds, even = log_odds(means, variables)
    return x @ odds.T + (x != 0) @ even.T


def test_sums_over_classes(table):
    x, held, sums, logs = table
    np.testing.assert_allclose(held.posterior, softmax(logs, axis=1), atol=1e-5)
    np.testing.assert_allclose(held.log_densities, logsumexp(logs, axis=1), rtol=1e-5)
    R = held.posterior
    wanted = {"signed": R.T @ x, "seen": R.T @ (x != 0), "counts": R.sum(axis=0), "pairs": R.T @ R}
    for name, array in wanted.items():
        assert sums[name].dtype == np.float32
        np.testing.assert_allclose(sums[name], array, rtol=2e-5, atol=2e-4)


def test_ratios_and_products(table):
    x, held, _, logs = table
    rng = np.random.default_rng(4)
    points, more = rng.uniform(-0.9, 0.9, (3, K, N)), rng.normal(0, 1, (3, K))
    at = logs - np.log(held.shares)
    apart = [plain_logs(x, means, held.variables) - at for means in points]
    wanted = [
        (held.posterior * np.exp(a + m)).sum(axis=1) for a, m in zip(apart, more, strict=True)
    ]
    np.testing.assert_allclose(ratios(held, points, more), np.transpose(wanted), rtol=1e-4)
    w, left = rng.normal(size=(K, N)), (x[:, None] - held.means) * (x != 0)[:, None]  # (M, K, N)
    weighed = held.posterior * np.einsum("mkn,kn->mk", left, w)
    found = residual_products(held, {"directions": w})["products"]
    np.testing.assert_allclose(found, np.einsum("mk,mkn->kn", weighed, left), rtol=1e-3, atol=1e-2)


def test_entries_are_no_fewer_than_their_signed_sum_however_few_a_class_has():
    rng = np.random.default_rng(1)
    x = np.where(rng.random((9_001, 40)) < 0.5, 1, -1)
    x[3:, :30] = 0
    weights = rng.random((9_001, 5)).astype(np.float32)
    weights[:3] = 1e-9
    found = class_sums.weighted_sums(Owner(kernels.pack_masked(x)), weights)
    assert (found["seen"] >= np.abs(found["signed"])).all()
    np.testing.assert_allclose(found["signed"], weights.T @ x, rtol=1e-3, atol=0.01)
