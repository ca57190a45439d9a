"""Products of rows: bits are exact, numbers keep their precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels import pack, pack_masked, unpack
from hopfed.spectral.rows import (
    SITES,
    array_beside,
    column_moments,
    count_equal_rows,
    hash_rows,
    inner_products,
    pack_rows,
    seen_times,
    seen_transposed_times,
    squared_lengths,
    stack_rows,
    times,
    transposed_times,
)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 3e-7)])
def test_long_sums_are_summed_by_blocks_in_double_precision(dtype, rtol):
    rows = np.random.default_rng(0).random((3, 20 * SITES + 5)).astype(dtype)
    exact = rows.astype(np.longdouble) @ rows.T.astype(np.longdouble)
    np.testing.assert_allclose(inner_products(rows), exact.astype(float), rtol=rtol)


def test_products_with_single_precision_rows_have_the_type_of_the_other_side():
    rows = np.random.default_rng(0).standard_normal((4, 30)).astype(np.float32)
    X = np.random.default_rng(1).standard_normal((30, 2))
    found = times(rows, X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, rows.astype(float) @ X, rtol=1e-4, atol=1e-5)


@given(st.integers(1, 9), st.integers(1, 200), st.integers(0, 99), st.booleans())
def test_products_are_exact_and_missing_entries_are_zero(M, N, seed, gaps):
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([-1, 0, 1] if gaps else [-1, 1], np.int8), size=(M, N))
    X, U = rng.integers(-4, 5, (N, 2)).astype(float), rng.integers(-4, 5, (M, 2)).astype(float)
    whole, seen = x.astype(np.int64), (x != 0).astype(np.int64)
    bits = pack_masked(x, x == 0) if gaps else pack(x)
    for rows in (bits, x.astype(float), x.astype(np.float32), x):
        np.testing.assert_array_equal(times(rows, X), whole @ X)
        np.testing.assert_array_equal(transposed_times(rows, U), whole.T @ U)
        np.testing.assert_array_equal(seen_times(rows, X), seen @ X)
        np.testing.assert_array_equal(seen_transposed_times(rows, U), seen.T @ U)
        np.testing.assert_array_equal(inner_products(rows), whole @ whole.T)
        assert inner_products(rows).dtype == np.float64
        np.testing.assert_array_equal(squared_lengths(rows), seen.sum(axis=1))
        np.testing.assert_array_equal(column_moments(rows), [whole.sum(axis=0), seen.sum(axis=0)])
    assert seen_times(bits, X.astype(np.float32)).dtype == np.float32


def test_rows_with_gaps_and_without_are_stacked():
    gaps = np.array([[1, -1, 0], [0, 0, 1]])
    complete = np.array([[1, 1, -1]])
    parts = [pack_rows(p) for p in (gaps, complete, pack_masked(gaps))]
    assert [p.gaps for p in parts] == [True, False, True]
    whole = np.concatenate([gaps, complete, gaps])
    np.testing.assert_array_equal(unpack(stack_rows(parts)), whole)
    np.testing.assert_array_equal(stack_rows([parts[0], complete.astype(float)]), whole[:3])
    assert array_beside(parts[0]) is parts[0].signs


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 200), st.booleans())
def test_rows_share_a_number_where_they_are_equal_and_only_there(seed, M, N, gaps):
    rng = np.random.default_rng(seed)
    kinds = rng.choice([-1, 0, 1] if gaps else [-1, 1], (max(M // 2, 1), N)).astype(np.int8)
    x = kinds[rng.integers(len(kinds), size=M)]
    x[0, rng.integers(N)] *= -1  # one entry makes another row
    rows = pack_masked(x, x == 0) if gaps else pack(x)
    marks = hash_rows(rows)
    equal = (x[:, None] == x[None]).all(axis=2)
    np.testing.assert_array_equal(marks[:, None] == marks[None], equal)
    expected = np.unique(x, axis=0, return_counts=True)[1]
    assert count_equal_rows(rows).tolist() == [(expected - 1).sum(), (expected == 1).sum()]
