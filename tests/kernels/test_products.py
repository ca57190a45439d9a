import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError

sizes = st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 40))


def spins(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


@given(sizes, st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_products_equal_the_reference(size, seed, dtype):
    m, n, k = size
    x, rng = spins((m, n), seed), np.random.default_rng(seed)
    X, U = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((m, k)).astype(dtype)
    p = kernels.pack(x)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for got, wanted in [
        (kernels.matmat(p, X), reference.matmat(x, X)),
        (kernels.rmatmat(p, U), reference.rmatmat(x, U)),
    ]:
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, **close)


@pytest.mark.parametrize("shape", [(1, 1), (257, 4500), (600, 2049), (64, 64)])
def test_products_beyond_one_tile(shape):
    x, rng = spins(shape, 1), np.random.default_rng(1)
    X, U = rng.standard_normal((shape[1], 7)), rng.standard_normal((shape[0], 7))
    p = kernels.pack(x)
    np.testing.assert_allclose(kernels.matmat(p, X), reference.matmat(x, X), atol=1e-10)
    np.testing.assert_allclose(kernels.rmatmat(p, U), reference.rmatmat(x, U), atol=1e-10)


def test_constant_operands_lose_no_precision():
    x = spins((50, 30000), 3)
    X = np.full((30000, 2), 0.1, np.float32)
    got = kernels.matmat(kernels.pack(x), X)
    np.testing.assert_allclose(got, reference.matmat(x, X.astype(float)), rtol=0, atol=1e-4)


def test_vectors_and_strides():
    x, rng = spins((40, 90), 3), np.random.default_rng(3)
    p, X = kernels.pack(x), rng.standard_normal((90, 8))
    assert kernels.matmat(p, X[:, 0]).shape == (40,)
    np.testing.assert_allclose(kernels.matmat(p, X[:, 0]), x @ X[:, 0], atol=1e-12)
    np.testing.assert_allclose(kernels.matmat(p, X[:, ::3]), x @ X[:, ::3], atol=1e-12)
    np.testing.assert_allclose(kernels.matmat(p, X[::-1]), x @ X[::-1], atol=1e-12)
    U = np.asfortranarray(rng.standard_normal((40, 6)))
    np.testing.assert_allclose(kernels.rmatmat(p, U), x.T @ U, atol=1e-12)
    np.testing.assert_allclose(kernels.rmatmat(p, U[:, 1]), x.T @ U[:, 1], atol=1e-12)


def test_wrong_shapes_and_dtypes():
    p = kernels.pack(spins((4, 6), 4))
    for X in (np.zeros((5, 2)), np.zeros((6, 2, 2)), np.zeros((6, 2), complex), np.float64(1)):
        with pytest.raises(ArgumentError, match="X must be"):
            kernels.matmat(p, X)
    with pytest.raises(ArgumentError, match="U must be"):
        kernels.rmatmat(p, np.zeros((6, 2)))
    with pytest.raises(ArgumentError, match="PackedBits"):
        kernels.matmat(np.ones((4, 6)), np.zeros((6, 2)))
