"""Operators, spectra and nulls of examples with gaps, against dense NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels import pack_masked
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator, pool

shapes = st.tuples(st.integers(3, 40), st.integers(2, 70), st.integers(0, 2**32))


def draw(m, n, seed):
    """Entries -1, 0 and +1, all three, a row and a column without any."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-1, 2, (m, n)).astype(np.int8)
    x[0], x[:, 0], x[1, 1], x[2, 1] = 0, 0, -1, 1
    return x


def second_moment(x):
    return x.T.astype(float) @ x / len(x)


@given(shapes)
def test_every_form_equals_the_definition(shape):
    x = draw(*shape)
    C, X = second_moment(x), np.random.default_rng(0).standard_normal((x.shape[1], 3))
    for examples in (x, pack_masked(x)):
        factor = FactorOperator.from_examples(examples)
        assert factor.rows.gaps
        dense = DenseOperator.from_examples(examples)
        for op in (factor, dense, PooledOperator.over([factor])):
            np.testing.assert_allclose(op.matmat(X), C @ X, rtol=1e-10, atol=1e-10)
            assert op is not factor or op.trace == pytest.approx(np.trace(C)) == dense.trace
            assert op.n_examples == len(x)


@given(shapes)
def test_every_route_finds_the_spectrum(shape):
    x = draw(*shape)
    op, want = FactorOperator.from_examples(x), np.linalg.eigvalsh(second_moment(x))[::-1]
    for route in ("gram", "dense"):
        found = eigenpairs(op, 2, route=route)
        size = min(len(found.values), len(want))
        np.testing.assert_allclose(found.values[:size], want[:size], atol=1e-9)
        assert found.status == "converged"


def test_weights_and_owners_with_gaps_and_without():
    x, y = draw(30, 50, 1), np.where(draw(20, 50, 2) > 0, 1, -1)
    first, second = FactorOperator.from_examples(x), FactorOperator.from_examples(y)
    both = pool([first, second, first], [2.0, 1.0, 2.0])
    assert both.rows.gaps
    S = 4 * x.T.astype(float) @ x + y.T @ y
    np.testing.assert_allclose(both.matmat(np.eye(50)), S / (4 * 30 + 20), atol=1e-12)
    found = eigenpairs(both, 2, route="dense").values
    np.testing.assert_allclose(found[:2], np.linalg.eigvalsh(S / 140)[::-1][:2], atol=1e-9)


def test_rows_are_never_held_as_numbers(monkeypatch):
    x = draw(60, 90, 4)
    op = FactorOperator.from_examples(x)
    monkeypatch.setattr("hopfed.kernels.cpu.bits.unpack", None)  # would fail if they were
    for route in ("gram", "dense", "krylov"):
        eigenpairs(op, 2, route=route)
