import numpy as np
import pytest
from helpers import sample
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.kernels import pack_masked
from hopfed.spectral.operators import DenseOperator, FactorOperator, PooledOperator, pool
from hopfed.testing import check_gram

shapes = st.tuples(st.integers(2, 40), st.integers(1, 70), st.integers(0, 2**32))


def draw(shape, kinds=(-1, 0, 1)):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    return rng.choice(np.array(kinds, np.int8), size=(m, n)), rng.standard_normal((n, 3))


@pytest.mark.parametrize("form", [FactorOperator, DenseOperator])
@pytest.mark.parametrize("gaps", [False, True])
def test_factor_and_dense_equal_the_definition(form, gaps):
    def gram(rows):
        held = pack_masked(rows, rows == 0) if gaps else rows
        op = form.from_examples(held)
        assert op.trace == pytest.approx((rows != 0).sum() / len(rows))
        assert op.n_examples == len(rows)
        ops = op, PooledOperator.over([op])
        found, pooled = (op.matmat(np.eye(rows.shape[1])) * len(rows) for op in ops)
        np.testing.assert_allclose(pooled, found, atol=1e-9)
        return found

    check_gram(gram, gaps=gaps, tolerance=1e-9)


@given(shapes, shapes)
def test_addition_pools_examples_and_commutes(a, b):
    x, X = draw(a)
    y = draw((b[0], a[1], b[2]), (-1, 1))[0]
    gaps = pack_masked(x, x == 0)
    C = (4 * x.T.astype(float) @ x + y.T @ y) / (4 * len(x) + len(y))
    for make in (FactorOperator.from_examples, DenseOperator.from_examples):
        left, right = pool([make(gaps), make(y)], [4, 1]), pool([make(y), make(gaps)], [1, 4])
        for both in (left, right):
            np.testing.assert_allclose(both.matmat(X), C @ X, rtol=1e-5, atol=1e-5)
    same = pool([FactorOperator.from_examples(gaps), FactorOperator.from_examples(y)])
    assert same.n_examples == len(x) + len(y)


def test_pooling_counts_is_exact_in_any_order():
    parts = [sample(3, 30, m, 0.5, m)[1] for m in (5, 17, 40)]
    ops = [DenseOperator.from_examples(p) for p in parts]
    np.testing.assert_array_equal(pool(ops).matrix, pool(ops[::-1]).matrix)


def test_equal_weights_and_the_examples_they_are_worth():
    ops = [DenseOperator.from_examples(sample(2, 20, m, 0.8, m)[1]) for m in (10, 30)]
    mean = pool(ops, [1.0 / op.mass for op in ops])
    want = (ops[0].matrix / 10 + ops[1].matrix / 30) / 2
    np.testing.assert_allclose(mean.matmat(np.eye(20)), want, atol=1e-12)
    assert mean.n_examples == pytest.approx(4 / (1 / 10 + 1 / 30))  # 1 / mean of 1 / M, times L


def test_what_does_not_add_says_so():
    a = FactorOperator.from_examples(sample(2, 20, 5, 0.8, 0)[1])
    b = DenseOperator.from_examples(sample(2, 20, 5, 0.8, 0)[1])
    c = FactorOperator.from_examples(sample(2, 21, 5, 0.8, 0)[1])
    for operators, weights, fault in (
        ([a, b], None, "one form"), ([a, c], None, "same sites"), ([], None, "at least one"),
        ([a], [0.0], "weight must be a positive number"),
        ([PooledOperator.over([a])], None, "rows or matrices"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=fault):
            pool(operators, weights)
