"""Products of rows: bits are exact, numbers keep their precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels import pack
from hopfed.spectral.rows import SITES, inner_products, times, transposed_times


@given(st.integers(1, 9), st.integers(1, 200), st.integers(0, 99))
def test_products_of_bits_are_exact(M, N, seed):
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([-1, 1], np.int8), size=(M, N))
    X, U = rng.integers(-4, 5, (N, 2)).astype(float), rng.integers(-4, 5, (M, 2)).astype(float)
    whole = x.astype(np.int64)
    for rows in (pack(x), x.astype(float), x):
        np.testing.assert_array_equal(times(rows, X), whole @ X)
        np.testing.assert_array_equal(transposed_times(rows, U), whole.T @ U)
    for rows in (pack(x), x.astype(float), x.astype(np.float32), x):
        np.testing.assert_array_equal(inner_products(rows), whole @ whole.T)
        assert inner_products(rows).dtype == np.float64


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
