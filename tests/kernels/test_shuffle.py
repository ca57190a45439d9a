"""Scrambled copies: what they keep, what chance they have, the same on a device; their top."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import shuffle
from hopfed.kernels.cuda import bits
from hopfed.kernels.philox import key, philox4x32
from hopfed.kernels.shuffle import NULLS, largest_eigenvalue, scramble

shapes = st.tuples(st.integers(0, 150), st.integers(0, 200))
seeds = st.integers(0, 2**32 - 1)


def signs(shape, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


def scrambled(x, null, seed=1):
    return scramble(kernels.pack(x), null, np.random.default_rng(seed))


@given(shapes, seeds)
def test_signs_are_the_bits_of_philox(shape, seed):
    x = signs(shape, seed)
    k0, k1 = key(int(np.random.default_rng(seed).integers(1 << 63)))
    row, word = np.meshgrid(*(np.arange(s, dtype=np.uint64) for s in (shape[0], 4)), indexing="ij")
    one = np.uint64(1)
    drawn = philox4x32(word // np.uint64(2), row, np.uint64(0), one, k0, k1)
    low, high = (np.where(word & one, drawn[i + 2], drawn[i]) for i in (0, 1))
    flips = np.unpackbits((low | high << np.uint64(32)).view(np.uint8), axis=1, bitorder="little")
    wanted = np.where(flips[:, : shape[1]], -x, x)
    np.testing.assert_array_equal(kernels.unpack(scrambled(x, "signs", seed)), wanted)


@given(shapes, seeds)
def test_permuted_columns_keep_their_sums(shape, seed):
    x = signs(shape, seed)
    np.testing.assert_array_equal(
        kernels.column_sums(scrambled(x, "permute", seed)), x.sum(axis=0, dtype=np.int64)
    )


def test_every_arrangement_of_a_column_is_as_likely():
    x = np.tile(np.array([[1], [1], [-1], [-1]], np.int8), 12_000)
    counts = Counter(map(tuple, kernels.unpack(scrambled(x, "permute")).T.tolist()))
    assert len(counts) == 6
    # 2,000 each: five standard deviations are 204.
    assert all(abs(count - 2_000) < 204 for count in counts.values())


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 130), (130, 1), (65, 203), (0, 5), (7, 0)])
def test_copies_are_the_same_on_a_device(device, null, shape):
    x = signs(shape)
    there = scramble(bits.to_device(kernels.pack(x), device), null, np.random.default_rng(1))
    np.testing.assert_array_equal(bits.to_host(there).words, scrambled(x, null).words)


@pytest.mark.parametrize("null", NULLS)
def test_copies_do_not_depend_on_threads(null, monkeypatch):
    x = signs((300, 170))
    monkeypatch.setenv("HOPFED_NUM_THREADS", "1")
    alone = scrambled(x, null).words
    monkeypatch.setenv("HOPFED_NUM_THREADS", "3")
    monkeypatch.setattr(shuffle, "TASK", 500)
    np.testing.assert_array_equal(scrambled(x, null).words, alone)


@pytest.mark.parametrize("null", NULLS)
def test_arrays_stay_arrays(null):
    x = signs((40, 30)).astype(np.float64)
    copy = scramble(x, null, np.random.default_rng(0))
    assert copy.dtype == x.dtype
    assert (np.abs(copy) == 1).all()
    assert (copy != x).any()


@pytest.mark.parametrize("large", [10, 12_000])
@pytest.mark.parametrize("shape", [(5, 3), (70, 90), (90, 70), (300, 120), (100, 1_000), (150, 1)])
@pytest.mark.parametrize("kind", ["equal", "unequal"])
def test_largest_eigenvalue(shape, kind, large, monkeypatch):
    monkeypatch.setattr(shuffle, "LARGE", large)
    x, rng = signs(shape).astype(np.float64), np.random.default_rng(3)
    weights = 1 / shape[0] if kind == "equal" else rng.random(shape[0])
    wanted = np.linalg.eigvalsh((x.T * weights) @ x)[-1]
    found = largest_eigenvalue(kernels.pack(x), weights, rng)
    assert found == pytest.approx(wanted, rel=1e-5)


def test_largest_eigenvalue_of_spectra_of_one_value():
    rng = np.random.default_rng(0)
    H = np.ones((1, 1))
    for _ in range(7):
        H = np.block([[H, H], [H, -H]])  # all eigenvalues of H^T H are 128
    assert largest_eigenvalue(kernels.pack(H), 1.0, rng) == pytest.approx(128)
    assert largest_eigenvalue(kernels.pack(np.ones((100, 300))), 1.0, rng) == pytest.approx(3e4)
    assert largest_eigenvalue(kernels.pack(np.ones((0, 3))), 1.0, rng) == 0.0
    assert largest_eigenvalue(kernels.pack(np.ones((2, 3))), 0.0, rng) == 0.0


def test_wrong_arguments(device):
    p, rng = kernels.pack(signs((4, 6))), np.random.default_rng(0)
    with pytest.raises(ArgumentError, match="null must be one of signs, permute"):
        scramble(p, "bootstrap", rng)
    for weights in (np.ones(3), -1.0, np.nan, [1, 1, 1, np.inf]):
        with pytest.raises(ArgumentError, match="weights must be one number or 4, finite"):
            largest_eigenvalue(p, weights, rng)
    with pytest.raises(ArgumentError, match="p must be on the host"):
        largest_eigenvalue(bits.to_device(p, device), 1.0, rng)
    with pytest.raises(ArgumentError, match="p must be a PackedBits"):
        largest_eigenvalue(np.ones((2, 2)), 1.0, rng)
