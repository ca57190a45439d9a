import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.kernels import mixtures
from hopfed.kernels.cpu.elementary import FAINT

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(1, 9), st.integers(1, 150), st.sampled_from([1.0, 30.0, 300.0]), seeds)
def test_responsibilities(K, M, wide, seed):
    rng = np.random.default_rng(seed)
    logs, shifts = (wide * rng.standard_normal((K, M))).astype(np.float32), rng.standard_normal(K)
    whole, single, totals = mixtures.responsibilities(logs, shifts)
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
    found = mixtures.mixed(logs, shifts, parts, 60.0)
    np.testing.assert_allclose(found, reference.mixed(logs, shifts, parts, 60.0), rtol=1e-12)


@pytest.mark.parametrize("c", [0.05, 2.0, 5_000.0])
def test_beta_gains(c):
    rng = np.random.default_rng(1)
    plus, minus = (10 ** rng.uniform(-3, 6, (5, 40)) * (rng.random((5, 40)) < 0.9) for _ in "+-")
    rates = rng.uniform(1e-4, 1 - 1e-4, 40)
    wanted = reference.beta_gains(plus, minus, rates, c)
    found = mixtures.beta_gains(plus, minus, rates, c)
    # Log gammas of up to 2e6, each 2.7e7 and rounded a few times, which nearly cancel.
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=6 * 2.7e7 * 2.2e-16)
    none = np.zeros((1, 40))
    np.testing.assert_allclose(mixtures.beta_gains(none, none, rates, c), 0, atol=1e-12)
