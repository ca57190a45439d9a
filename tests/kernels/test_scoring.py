import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError

seeds = st.integers(0, 2**32 - 1)


def spins(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


@given(st.integers(1, 30), st.integers(2, 150), seeds)
def test_scores(C, N, seed):
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, min(N, 5))))[0]
    s = spins((C, N), seed)
    wanted = reference.scores(s, V)
    np.testing.assert_allclose(kernels.scores(s, V), wanted, atol=1e-12)
    np.testing.assert_allclose(kernels.scores(kernels.pack(s), V), wanted, atol=1e-12)
    single = kernels.scores(s, V.astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, wanted, atol=1e-5)


@given(st.integers(1, 60), st.integers(1, 8), seeds, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_distinct_equals_the_reference(C, base, seed, overlap):
    rng = np.random.default_rng(seed)
    prototypes = spins((base, 70), seed)
    s = prototypes[rng.integers(base, size=C)] * spins((C, 1), seed + 1)
    s = np.where(rng.random(s.shape) < 0.05, -s, s).astype(np.int8)
    score = rng.integers(0, 5, C) / 4  # with ties
    known = prototypes[: rng.integers(0, base)]
    got = kernels.distinct(kernels.pack(s), score, overlap=overlap, known=known)
    assert got.dtype == np.int64
    assert got.tolist() == reference.distinct(s, score, overlap, known)


def test_distinct_over_many_candidates():
    prototypes = spins((40, 200), 1)
    rng = np.random.default_rng(2)
    mu = rng.integers(40, size=3000)
    s = np.where(rng.random((3000, 200)) < 0.01, -1, 1) * prototypes[mu] * spins((3000, 1), 3)
    score = rng.random(3000)
    kept = kernels.distinct(s.astype(np.int8), score)
    assert kept.tolist() == reference.distinct(s, score, 0.9, s[:0])
    assert (np.diff(score[kept]) <= 0).all()


def test_distinct_of_nothing():
    none = np.zeros((0, 5), np.int8)
    assert kernels.distinct(none, np.zeros(0)).shape == (0,)
    assert kernels.distinct(spins((1, 5), 0), np.zeros(1), known=none).tolist() == [0]


def test_wrong_arguments():
    s = spins((3, 8), 4)
    for score in (np.zeros(2), np.array([0, np.nan, 1]), np.array(["a"] * 3)):
        with pytest.raises(ArgumentError, match="score must be"):
            kernels.distinct(s, score)
    with pytest.raises(ArgumentError, match="overlap"):
        kernels.distinct(s, np.zeros(3), overlap=1.5)
    with pytest.raises(ArgumentError, match="patterns"):
        kernels.scores(s[0], np.zeros((8, 2)))
    with pytest.raises(ArgumentError, match="V must be"):
        kernels.scores(s, np.zeros(8))
    with pytest.raises(ArgumentError, match="of 8 columns"):
        kernels.distinct(s, np.zeros(3), known=s[:, :4])
