import kernel_oracle as reference
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels.cpu.elementary import FAINT, mixed, responsibilities

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(1, 9), st.integers(1, 150), st.sampled_from([1.0, 30.0, 300.0]), seeds)
def test_responsibilities(K, M, wide, seed):
    rng = np.random.default_rng(seed)
    logs, shifts = (wide * rng.standard_normal((K, M))).astype(np.float32), rng.standard_normal(K)
    whole, single, totals = responsibilities(logs, shifts)
    shares, wanted = reference.responsibilities(logs, shifts)
    np.testing.assert_allclose(whole, shares, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(totals, wanted, rtol=1e-13, atol=1e-12)
    assert single.dtype == np.float32
    heard = np.where(whole >= FAINT, whole, 0.0)  # products of less are denormal, and slow
    np.testing.assert_array_equal(single, heard.astype(np.float32))


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 80), seeds)
def test_mixed(S, K, M, seed):
    rng = np.random.default_rng(seed)
    logs = (40 * rng.standard_normal((S, K, M))).astype(np.float32)
    shifts, parts = rng.standard_normal((S, K)), rng.random((K, M))
    found = mixed(logs, shifts, parts, 60.0)
    np.testing.assert_allclose(found, reference.mixed(logs, shifts, parts, 60.0), rtol=1e-12)
