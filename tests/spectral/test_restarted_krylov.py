"""Block Lanczos with restarts: what it finds, from how many products, and how wide it grows."""

import numpy as np
import pytest

from hopfed.spectral import eigenpairs as solver
from hopfed.spectral.eigenpairs import draw_block, leading_pairs


def with_values(values, seed=0):
    """A symmetric matrix of these eigenvalues, and its eigenvectors."""
    n = len(values)
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return (V * values) @ V.T, V


def start(n, width, kind=np.float64):
    return draw_block(n, width, np.random.default_rng(1), np.zeros(1)).astype(kind)


def run(A, k, width=8, tol=1e-6, kind=np.float64, most=100):
    """The k leading pairs, and the number of columns that A was multiplied with."""
    A, seen = A.astype(kind), []

    def product(X):
        assert X.dtype == kind
        seen.append(X.shape[1])
        return A @ X

    found = leading_pairs(
        product,
        start(len(A), width, kind),
        lambda values, whole: k,
        lambda values, k: tol * values[:k],
        most,
    )
    assert found.products == len(seen)
    return found, sum(seen)


SPIKED = np.concatenate([np.linspace(20, 5, 12), np.linspace(2, 0, 288)])


@pytest.mark.parametrize("widest", [512, 48])
@pytest.mark.parametrize(("kind", "tol"), [(np.float64, 1e-9), (np.float32, 1e-5)])
def test_leading_pairs_are_those_of_the_matrix(monkeypatch, widest, kind, tol):
    monkeypatch.setattr(solver, "MOST", widest)
    A, V = with_values(SPIKED)
    found, columns = run(A, 12, tol=tol, kind=kind)
    exact = 1e-12 if kind == np.float64 else 1e-5
    np.testing.assert_allclose(found.values[:12], SPIKED[:12], rtol=exact)
    assert found.vectors.dtype == kind
    assert np.linalg.svd(V[:, :12].T @ found.vectors)[1].min() > 1 - 10 * tol**2 - exact
    V = found.vectors.astype(np.float64)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=exact)
    # Residuals follow from the projected matrix: they are what a product would say.
    true = np.linalg.norm(A @ V - V * found.values[:12], axis=0)
    np.testing.assert_allclose(found.residuals, true, atol=20 * exact, rtol=1e-3)
    assert (found.loose, found.whole) == (0, False)
    assert columns < 200
    assert (len(found.values) < 64) is (widest == 48)


def test_it_ends_where_there_is_nothing_more():
    A, _ = with_values([5.0, 4.0, *(48 * [0.0])])
    found, columns = run(A, 4)
    np.testing.assert_allclose(found.values[:2], [5, 4])
    assert abs(found.values[2:]).max() < 1e-9
    assert columns < 30
    found, columns = run(with_values(np.arange(1.0, 21))[0], 20)
    np.testing.assert_allclose(found.values, np.arange(20, 0, -1.0))
    assert (found.whole, columns) == (True, 20)


def test_blocks_to_start_from():
    rng = np.random.default_rng(0)
    x = draw_block(5_000, 70, rng, np.zeros(1))
    assert (x.shape, x.dtype, set(x.ravel())) == ((5_000, 70), np.float32, {-1.0, 1.0})
    assert abs(np.linalg.eigvalsh(x.T @ x / 5_000) - 1).max() < 0.3  # edge at 1 + 2 sqrt(.014)
    few = draw_block(4, 3, rng, np.zeros(1))
    assert (few.shape, few.dtype) == ((4, 3), np.float32)
    assert len(set(abs(few).ravel())) == 12


@pytest.mark.parametrize("seed", range(20))
def test_few_sites_do_not_start_from_an_eigenvector(seed):
    """As signs would, of two sites always."""
    A = np.array([[1.5, 0.5], [0.5, 1.5]])
    begin = draw_block(2, 2, np.random.default_rng(seed), A).astype(np.float64)
    close = 1e-9
    found = leading_pairs(A.__matmul__, begin, lambda *_: 1, lambda v, k: close * v[:k], 5)
    np.testing.assert_allclose(found.values, [2, 1])
