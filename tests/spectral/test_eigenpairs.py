from dataclasses import replace

import numpy as np
import pytest
from helpers import sample
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.kernels import pack_masked
from hopfed.spectral.eigenpairs import SmallPairs, canonical_gauge, eigenpairs, site_gauge
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator, pool
from hopfed.testing import check_eigenpairs

shapes = st.tuples(st.integers(2, 40), st.integers(1, 60), st.integers(0, 2**32))


def draw(shape, kinds=(-1, 1)):
    m, n, seed = shape
    return np.random.default_rng(seed).choice(np.array(kinds, np.int8), size=(m, n))


@given(shapes, st.sampled_from([(-1, 1), (-1, 0, 1)]))
def test_gram_route_equals_dense(shape, kinds):
    eta = draw(shape, kinds)
    op = FactorOperator.from_examples(pack_masked(eta, eta == 0) if 0 in kinds else eta)
    want = np.linalg.eigvalsh(eta.T.astype(float) @ eta / len(eta))[::-1]
    for route in ("gram", "dense"):
        found = eigenpairs(op, 3, route=route)
        size = min(len(found.values), len(want))
        np.testing.assert_allclose(found.values[:size], want[:size], atol=1e-9)
        assert found.status == "converged"
        assert found.complete
        assert (found.residuals < 1e-7).all()
        V = found.vectors
        np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-8)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_every_form_and_route_sees_one_spectrum(seed):
    eta = sample(4, 90, 150, 0.8, seed)[1]
    factor = FactorOperator.from_examples(eta)
    parts = [FactorOperator.from_examples(p) for p in np.array_split(eta, 3)]
    want = eigenpairs(factor, 4, route="dense")
    others = [
        eigenpairs(factor, 4, route="gram"),
        eigenpairs(factor, 4, route="krylov", width=16, tol=1e-4),
        eigenpairs(DenseOperator.from_examples(eta), 4),
        eigenpairs(PooledOperator.over(parts), 4, width=16, tol=1e-4),
    ]
    for other in others:
        np.testing.assert_allclose(other.values[:4], want.values[:4], rtol=1e-3)
        cosines = np.linalg.svd(want.vectors.T @ other.vectors)[1]
        assert cosines.min() > 1 - 1e-3
        assert other.status == "converged"


@pytest.mark.parametrize("shape", [(150, 400), (400, 150)])
def test_large_small_sides_are_iterated_on(monkeypatch, shape):
    M, N = shape
    eta = sample(5, N, M, 0.8, 8)[1]
    op = FactorOperator.from_examples(eta)
    want = eigenpairs(op, 5)
    monkeypatch.setattr("hopfed.spectral.eigenpairs.FULL_LIMIT", 100)
    found = eigenpairs(op, 5)
    assert (want.complete, found.complete) == (True, False)
    assert (found.route, found.status) == (want.route, "converged")
    np.testing.assert_allclose(found.values[:5], want.values[:5], rtol=1e-4)
    assert np.abs((found.vectors * want.vectors).sum(axis=0)).min() > 1 - 1e-4


@pytest.mark.parametrize("route", ["gram", "dense"])
def test_eigenpairs_have_their_properties(route):
    def leading(C, k):
        values, V = np.linalg.eigh(C)
        rows, N = (V * np.sqrt(np.maximum(values, 0))).T, len(C)
        op = FactorOperator(N, float(N), float(N), rows * np.sqrt(N), np.ones(N))
        found = eigenpairs(op, k, route=route)
        return found.values[:k], found.vectors[:, :k]

    check_eigenpairs(leading)


def test_rows_are_never_held_as_numbers(monkeypatch):
    op = FactorOperator.from_examples(pack_masked(draw((60, 90, 4), (-1, 0, 1))))
    monkeypatch.setattr("hopfed.kernels.cpu.bits.unpack", None)  # would fail if they were
    for route in ("gram", "dense", "krylov"):
        eigenpairs(op, 2, route=route)


def test_wanted_may_be_a_rule():
    op = FactorOperator.from_examples(sample(3, 60, 200, 0.9, 4)[1])
    seen = []

    def rule(values, complete):
        seen.append(complete)
        return int((values > 5).sum())

    assert eigenpairs(op, rule).vectors.shape == (60, 3)
    assert seen == [True]


def test_krylov_says_when_it_did_not_converge():
    op = FactorOperator.from_examples(sample(20, 300, 600, 0.4, 5)[1])
    found = eigenpairs(op, 20, route="krylov", width=8, max_products=3, tol=1e-6)
    assert "not converged" in found.status


def test_krylov_survives_an_operator_of_tiny_rank():
    eta = np.tile(sample(1, 80, 1, 1.0, 6)[1], (5, 1))
    found = eigenpairs(FactorOperator.from_examples(eta), 3, route="krylov", width=16)
    assert found.vectors.shape[1] == 1
    assert found.values[0] == pytest.approx(80, rel=1e-4)


def test_bad_routes_and_counts():
    op = FactorOperator.from_examples(sample(2, 10, 8, 0.8, 7)[1])
    with pytest.raises(ArgumentError, match="route must be one of"):
        eigenpairs(op, 1, route="fast")
    with pytest.raises(ArgumentError, match="wanted must be"):
        eigenpairs(op, -1)
    with pytest.raises(ArgumentError, match="without rows"):
        eigenpairs(DenseOperator.from_examples(sample(2, 10, 8, 0.8, 7)[1]), 1, route="gram")


@pytest.fixture
def torch(monkeypatch):
    """A second array library, whose arrays NumPy does not get unasked."""
    library = pytest.importorskip("torch")

    def refuse(*_, **__):
        raise TypeError("a tensor was given to NumPy")

    monkeypatch.setattr(library.Tensor, "__array__", refuse)
    return library


def elsewhere(torch, op):
    """The operator, its arrays those of torch."""
    names = ("matrix",) if isinstance(op, DenseOperator) else ("rows", "weights")
    return replace(op, **{name: torch.asarray(getattr(op, name)) for name in names})


@pytest.mark.parametrize("route", ["gram", "dense", "krylov", "iterated"])
@pytest.mark.parametrize("side", [(12, 40), (40, 12)])
def test_other_array_libraries_keep_their_arrays(torch, monkeypatch, route, side):
    rng = np.random.default_rng(9)
    rows, weights = rng.standard_normal(side), rng.random(side[0]) + 0.1
    rows[:, 0] *= 5
    here = FactorOperator(side[1], weights.sum(), (weights**2).sum(), rows, weights)
    there = elsewhere(torch, here)
    assert there.trace == pytest.approx(here.trace)
    want = eigenpairs(here, 2, route="dense")
    if route == "iterated":
        monkeypatch.setattr("hopfed.spectral.eigenpairs.FULL_LIMIT", 5)
    asked = "auto" if route == "iterated" else route
    found = eigenpairs(there, 2, route=asked, width=8, tol=1e-6)
    assert isinstance(found.vectors, torch.Tensor)
    assert type(found.values) is np.ndarray
    assert found.status == "converged"
    np.testing.assert_allclose(found.values[:2], want.values[:2], rtol=1e-4)
    overlap = np.abs((found.vectors.numpy() * want.vectors).sum(axis=0))
    assert overlap.min() > 1 - 1e-3


def test_operators_of_another_library(torch):
    x, X = draw((20, 30, 1)), np.random.default_rng(0).standard_normal((30, 3))
    dense = DenseOperator.from_examples(x)
    rows = replace(FactorOperator.from_examples(x), rows=x.astype(np.float64))
    for here in (dense, rows, PooledOperator.over([dense, pool([rows], [2.0])])):
        parts = here.parts if isinstance(here, PooledOperator) else (here,)
        moved = [elsewhere(torch, part) for part in parts]
        there = moved[0] if len(moved) == 1 else PooledOperator.over(moved)
        got = there.matmat(torch.asarray(X))
        assert isinstance(got, torch.Tensor)
        np.testing.assert_allclose(got.numpy(), here.matmat(X), rtol=1e-10, atol=1e-10)


def test_a_solver_that_fails_is_found_out(torch, monkeypatch):
    def broken(A, wanted):
        return SmallPairs(np.full(len(A), np.nan), A[0, :1] * np.nan, A[:, :1] * np.nan)

    monkeypatch.setattr("hopfed.spectral.eigenpairs.all_pairs", broken)
    op = elsewhere(torch, DenseOperator.from_examples(draw((5, 9, 0))))
    assert "residuals" in eigenpairs(op, 1).status


def test_a_matrix_in_single_precision_is_worked_on_in_it():
    rng = np.random.default_rng(3)
    x = rng.choice([-1.0, 1.0], size=(300, 80))
    x[:200] *= x[:200, :1] * np.where(rng.random((200, 80)) < 0.9, 1, -1) * x[:200]
    double = DenseOperator(80, 300.0, 300.0, x.T @ x)
    single = DenseOperator(80, 300.0, 300.0, (x.T @ x).astype(np.float32))
    exact, found = eigenpairs(double, 2), eigenpairs(single, 2)
    assert found.status == exact.status == "converged"
    np.testing.assert_allclose(found.values, exact.values, atol=1e-5 * exact.values[0])
    np.testing.assert_allclose(abs((found.vectors * exact.vectors).sum(axis=0)), 1, atol=1e-4)


def test_flips_of_sites_go_through_and_signs_of_vectors_do_not():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    D = rng.choice([-1.0, 1.0], 30)
    fixed, turned = canonical_gauge(V), canonical_gauge((V * [1, -1, -1, 1]) * D[:, None])
    np.testing.assert_array_equal(abs(turned), abs(fixed))
    np.testing.assert_allclose(
        turned * (D * np.sign(turned[0, 0] * fixed[0, 0] * D[0]))[:, None], fixed
    )


def test_ties_do_not_hang_on_the_last_bits():
    V = np.array([[0.5, 0.5], [0.5, -0.5], [0.5, 0.5], [0.5, -0.5]])
    for bits in np.random.default_rng(0).integers(-4, 5, (20, 4, 2)):
        shaken = V * (1 + bits * 2.0**-52)
        np.testing.assert_array_equal(np.sign(canonical_gauge(shaken)), np.sign(V))
    assert site_gauge(np.array([[1.0], [-1e-17], [1e-17]])).tolist() == [1, 1, 1]
    assert site_gauge(np.array([[0.5, -1.0], [-0.5, 1.0], [0.0, 1.0]])).tolist() == [1, -1, 1]
