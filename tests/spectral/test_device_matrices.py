"""Which way the pairs of a matrix on a device are found, by arrays of a library on the host."""

import numpy as np
import pytest
from helpers import sample

from hopfed.spectral import eigenpairs as solver
from hopfed.spectral.eigenpairs import all_pairs, counted, top


@pytest.fixture
def asked(monkeypatch):
    """Solvers of whole matrices that were asked; few pairs of a side of 100 are iterated on."""
    calls = []
    linalg = solver.namespace(np.ones(1)).linalg
    for name in ("eigh", "eigvalsh"):
        own = getattr(linalg, name)
        monkeypatch.setattr(
            linalg, name, lambda A, own=own, name=name: calls.append(name) or own(A)
        )
    monkeypatch.setattr(solver, "ITERATED", 100)
    return calls


def spiked(K, n=200):
    x = sample(K, n, 900, 0.8, 3)[1].astype(float)
    A = x.T @ x / len(x)
    return A, np.linalg.eigvalsh(A)[::-1]


def test_few_pairs_are_iterated_on(asked):
    A, exact = spiked(5)
    found = all_pairs(A, 5)
    assert asked == []
    assert found.iterated == "converged"
    np.testing.assert_allclose(found.values[:5], exact[:5], rtol=1e-10)
    np.testing.assert_allclose(A @ found.vectors, found.vectors * found.there, atol=1e-4)


def test_a_rule_has_all_values_and_no_more_vectors_than_it_wants(asked):
    A, exact = spiked(5)
    found = all_pairs(A, lambda values, whole: int(whole) * int((values > 5).sum()))
    assert asked == ["eigh"]
    assert (found.iterated, found.vectors.shape) == (None, (200, 5))
    np.testing.assert_allclose(found.values, exact, atol=1e-10)
    np.testing.assert_allclose(A @ found.vectors, found.vectors * found.there, atol=1e-4)
    none = all_pairs(A, lambda values, whole: 0)
    assert (none.vectors.shape, none.there.shape, len(none.values)) == ((200, 0), (0,), 200)
    assert asked == ["eigh"] * 2


@pytest.mark.parametrize("wanted", [13, lambda values, whole: 13])
def test_of_many_pairs_all_are_computed(asked, wanted):
    A, exact = spiked(30)
    found = all_pairs(A, wanted)
    assert asked == ["eigh"]
    np.testing.assert_allclose(found.values, exact, atol=1e-10)


def test_what_is_not_found_is_left_to_the_solver(asked, monkeypatch):
    """Pairs in the middle of the noise: their distance to the next is a hundredth of them."""
    values = np.linspace(2, 0, 400)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((400, 400)))[0]
    found = all_pairs((V * values) @ V.T, 25)
    assert asked == ["eigh"]
    np.testing.assert_allclose(found.values, values, atol=1e-12)


def test_a_small_matrix_is_left_to_the_solver(asked):
    A, _ = spiked(2, n=90)
    assert all_pairs(A, 2).vectors.shape == (90, 2)
    assert asked == ["eigh"]
    assert len(all_pairs(A, 0).values) == 90
    assert asked == ["eigh", "eigvalsh"]


@pytest.mark.parametrize("n", [1, 5, 300])
def test_the_largest_value(n):
    x = np.random.default_rng(0).standard_normal((n, 2 * n))
    A = x @ x.T
    found = top(n, A.astype(np.float32).__matmul__, A)
    assert found == pytest.approx(np.linalg.eigvalsh(A)[-1], rel=1e-5)


def test_vectors_of_nothing_are_not_counted():
    assert counted(5, np.array([3.0, 1.0, 1e-13, 0.0]), True) == 2
    assert counted(lambda values, whole: 1, np.array([3.0, 1.0]), True) == 1
