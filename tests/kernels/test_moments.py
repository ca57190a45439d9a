import kernel_oracle as reference
import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import moments

shapes = st.tuples(st.integers(1, 150), st.integers(1, 200))
seeds = st.integers(0, 2**32 - 1)


def spins(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


@given(shapes, seeds)
def test_gram_is_exact(shape, seed):
    x = spins(shape, seed)
    G = kernels.gram(kernels.pack(x))
    assert G.dtype == np.int32
    np.testing.assert_array_equal(G, reference.gram(x))


@given(shapes, st.integers(1, 150), seeds)
def test_cross_gram_is_exact(shape, rows, seed):
    x, y = spins(shape, seed), spins((rows, shape[1]), seed + 1)
    G = kernels.cross_gram(kernels.pack(x), kernels.pack(y))
    assert G.dtype == np.int32
    np.testing.assert_array_equal(G, reference.cross_gram(x, y))


@pytest.mark.parametrize("m", [1, 127, 128, 129, 260])
@pytest.mark.parametrize("n", rest_slow([1, 64, 16385, 16384, 40000], 3))
def test_gram_beyond_one_tile_and_one_chunk(m, n):
    x = spins((m, n), m + n)
    np.testing.assert_array_equal(kernels.gram(kernels.pack(x)), reference.gram(x.astype(float)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("m", [512, 700, 1100])
def test_strips_of_several_tiles(m, threads, monkeypatch):
    monkeypatch.setenv("HOPFED_NUM_THREADS", str(threads))
    x, y = spins((m, 70), m), spins((m - 30, 70), 1)
    p = kernels.pack(x)
    np.testing.assert_array_equal(kernels.gram(p), reference.gram(x))
    np.testing.assert_array_equal(
        kernels.cross_gram(p, kernels.pack(y)), x.astype(int) @ y.T.astype(int)
    )
    assert moments.strips(m)[-1][1] == m
    if threads == 1:
        assert moments.strips(m)[0][1] > 64


@given(shapes, seeds, st.sampled_from(["few", "many", "integers"]))
def test_second_moment(shape, seed, kind):
    x = spins(shape, seed)
    p = kernels.pack(x)
    C = kernels.second_moment(p)
    assert C.dtype == np.int32
    np.testing.assert_array_equal(C, reference.second_moment(x))
    rng = np.random.default_rng(seed)
    w = {
        "few": rng.choice([0.0, 0.25, -1.5], shape[0]),
        "many": rng.standard_normal(shape[0]),
        "integers": rng.integers(0, 5, shape[0]),
    }[kind]
    C = kernels.second_moment(p, w)
    assert C.dtype == np.float64
    np.testing.assert_allclose(C, reference.second_moment(x, w), rtol=1e-12, atol=1e-12 * shape[0])


def test_wrong_arguments():
    p = kernels.pack(spins((4, 70), 9))
    with pytest.raises(ArgumentError, match="of 70 columns"):
        kernels.cross_gram(p, kernels.pack(spins((4, 71), 9)))
    for weights in (np.ones(3), np.ones((4, 1)), np.array([1, 2, 3, np.nan]), np.array(["a"] * 4)):
        with pytest.raises(ArgumentError, match="weights must be"):
            kernels.second_moment(p, weights)
