from dataclasses import replace

import numpy as np
import pytest
from graded_tables import classes, labelled, sums_of
from scipy.special import gammaln

from hopfed import kernels
from hopfed.archetypes import class_questions
from hopfed.archetypes import session as asking
from hopfed.archetypes.class_questions import (
    class_sums,
    ratios,
    repeated,
    residual_product,
    residual_products,
    residual_squares,
    sums_and_pairs,
)
from hopfed.archetypes.mixture import ClassSums, Mixture, Prior, expect, improve, iterate
from hopfed.archetypes.search import leading
from hopfed.archetypes.session import Owner, Owners, Variables
from hopfed.errors import ArgumentError
from hopfed.kernels import pack_masked
from hopfed.memory.energies import complete


def owner(rows, T, shares):
    found = Owners.of([rows], seed=0).members[0]
    found.learn(T, shares)
    return found


def test_responsibilities_are_those_of_bayes():
    T, _, x = classes(4, 30, 50, 1, missing=0.3)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    found = owner(x, T, shares)
    _, want, energy = complete(x, T, shares)
    np.testing.assert_allclose(found.posterior, want, atol=1e-5)
    np.testing.assert_allclose(found.log_densities, -energy, rtol=1e-5)


def test_residuals_are_those_of_the_dense_matrix(monkeypatch):
    T, _, x = classes(3, 40, 60, 2, missing=0.2)
    found = owner(x, T, np.full(3, 1 / 3))
    E = np.where(x != 0, x - found.posterior @ found.means, 0)
    w = np.random.default_rng(0).standard_normal(40).astype(np.float32)
    for kept in (class_questions.KEPT, 0):
        monkeypatch.setattr(class_questions, "KEPT", kept)
        monkeypatch.setattr(class_questions, "BLOCK", 7 * 40)
        squares = residual_squares(found, {})["squares"]
        np.testing.assert_allclose(squares, (E**2).sum(0), rtol=1e-4)
        product = residual_product(found, {"vector": w})["product"]
        np.testing.assert_allclose(product, E.T @ (E @ w), rtol=1e-3, atol=1e-2)
        found.residuals = None


def test_products_of_classes_are_those_of_their_residual_moments():
    T, _, x = classes(2, 25, 60, 3, missing=0.2)
    found = owner(x, T, np.array([0.6, 0.4]))
    w = np.random.default_rng(0).standard_normal((2, 25)).astype(np.float32)
    products = residual_products(found, {"directions": w})["products"]
    for k in range(2):
        E = np.where(x != 0, x - found.means[k], 0)
        want = E.T @ (found.posterior[:, k] * (E @ w[k]))
        np.testing.assert_allclose(products[k], want, rtol=1e-3, atol=1e-2)


def test_owners_together_say_what_one_owner_of_all_says():
    T, _, x = classes(3, 50, 200, 4, missing=0.1)
    one, many = Owners.of([x], 0), Owners.of([x[:30], x[30:110], x[110:]], 0)
    mixture = [Mixture(T, np.full((n, 3), 1 / 3)) for n in (1, 3)]
    a = expect(one, mixture[0], Prior.of(one))
    b = expect(many, mixture[1], Prior.of(many))
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
    fit = iterate(owners, sums_of(x, labels, 3), prior, 1)
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


def test_lanczos_of_several_matrices_finds_each_top():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 50, 50))
    A = A @ A.transpose(0, 2, 1)
    values, vectors = leading(
        lambda w: np.einsum("bij,bj->bi", A, w), rng.standard_normal((3, 50)), 30, wanted=2
    )
    for b in range(3):
        want = np.linalg.eigvalsh(A[b])[::-1][:2]
        np.testing.assert_allclose(values[b], want, rtol=1e-6)
        np.testing.assert_allclose(A[b] @ vectors[b, 0], want[0] * vectors[b, 0], atol=1e-2)


def test_traffic_counts_what_was_said():
    x = np.ones((10, 8), np.int8)
    owners = Owners.of([x, x], 0)
    owners.ask(class_sums, {"means": np.zeros((3, 8), np.float32)}, {"shares": np.ones((2, 3))})
    assert owners.exchanges == 1
    assert owners.traffic.down.tolist() == [3 * 8 * 4 + 3 * 8] * 2
    assert (owners.traffic.parameters_up == 3 + 2 * 3 * 8 + 1).all()


@pytest.mark.parametrize("rows", [[], [np.ones((3, 4)), np.ones((3, 5))]])
def test_owners_of_nothing_or_other_columns_are_refused(rows):
    with pytest.raises(ArgumentError, match="rows must be"):
        Owners.of(rows, 0)


def test_a_row_without_entries_has_the_shares():
    found = Owner(pack_masked(np.full((1, 5), np.nan)))
    found.learn(np.random.default_rng(0).uniform(-1, 1, (2, 5)), np.array([0.7, 0.3]))
    np.testing.assert_allclose(found.posterior, [[0.7, 0.3]], atol=1e-6)
    assert found.log_densities[0] == pytest.approx(0.0, abs=1e-6)


def test_sums_in_single_precision_miss_no_entry():
    """Nearly all of 200 classes of raw digits lacked a little of an entry: "a <= 0" in the end."""
    seen = np.array([[205.92555], [3.0]])
    sums = ClassSums(np.array([[206.0, 3.0]]), -seen * (1 + 1e-6), seen)
    assert (sums.plus >= 0).all()
    assert (replace(sums, signed=-sums.signed).minus >= 0).all()
    np.testing.assert_allclose(sums.plus + sums.minus, seen, rtol=1e-5)


K, M, N = 4, 90, 33


def owners(monkeypatch, gaps):
    """The same rows as numbers and as bits, which have learned the same classes."""
    rng = np.random.default_rng(3)
    x = rng.choice([-1, 1], (M, N))
    x = np.where(rng.random((M, N)) < 0.2, 0, x) if gaps else x
    variables = Variables.of([(0, 1, 2), (5, 6)], N)
    means, shares = rng.uniform(-0.9, 0.9, (K, N)), rng.dirichlet(np.ones(K))
    found = []
    for most in (asking.SMALL, 0):
        monkeypatch.setattr(asking, "SMALL", most)
        found.append(Owner(kernels.pack_masked(x), 0, variables))
        assert (found[-1].dense is not None) == (most > 0)
        answer = sums_and_pairs(found[-1], {"means": means, "shares": shares})
        found.append(answer)
    return found


@pytest.mark.parametrize("gaps", [False, True])
def test_sums_over_classes(monkeypatch, gaps):
    held, numbers, packed, bits = owners(monkeypatch, gaps)
    assert numbers.keys() == bits.keys()
    for name, wanted in bits.items():
        assert numbers[name].shape == wanted.shape
        assert numbers[name].dtype == wanted.dtype
        np.testing.assert_allclose(numbers[name], wanted, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(held.posterior, packed.posterior, atol=1e-5)
    np.testing.assert_allclose(held.weights, packed.weights, atol=1e-5)
    np.testing.assert_allclose(held.log_densities, packed.log_densities, rtol=1e-5)


@pytest.mark.parametrize("gaps", [False, True])
def test_ratios_and_products(monkeypatch, gaps):
    held, _, packed, _ = owners(monkeypatch, gaps)
    rng = np.random.default_rng(4)
    asked = rng.uniform(-0.9, 0.9, (3, K, N)), rng.normal(0, 1, (3, K))
    found, wanted = (ratios(o, *asked) for o in (held, packed))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    w = rng.normal(size=(K, N)).astype(np.float32)
    for question in (residual_products, residual_squares, residual_product, repeated):
        told = {"directions": w, "vector": w[0]}
        found, wanted = (question(o, told) for o in (held, packed))
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-2, err_msg=name)
