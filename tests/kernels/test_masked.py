"""Rows with gaps against plain NumPy, to the bit: entries -1, 0 (missing) and +1."""

import kernel_oracle as reference
import numpy as np
import pytest
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import MaskedBits, PackedBits

shapes = st.tuples(st.integers(1, 150), st.integers(1, 200))
seeds = st.integers(0, 2**32 - 1)


def gappy(shape, seed, share=0.3):
    """Entries with gaps; a row and a column without any, where there are others."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([-1, 1], np.int8), shape)
    x[rng.random(shape) < share] = 0
    if min(shape) > 1:
        x[rng.integers(shape[0])] = 0
        x[:, rng.integers(shape[1])] = 0
    return x


def packed(x):
    """Planes of `x`, also where there happens to be no gap."""
    return kernels.with_gaps(kernels.pack_masked(x, x == 0))


@given(shapes, seeds)
def test_planes_and_back(shape, seed):
    x = gappy(shape, seed)
    p = packed(x)
    assert (p.shape, p.n, len(p)) == (x.shape, x.shape[1], len(x))
    assert p.nbytes == 2 * 8 * shape[0] * -(-shape[1] // 64)
    np.testing.assert_array_equal(p.signs.words, reference.pack(x == 1))
    np.testing.assert_array_equal(p.seen.words, reference.pack(x != 0))
    for dtype in (np.int8, np.int32, np.float16, np.float32, np.float64):
        y = kernels.unpack(p, dtype)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(kernels.unpack(p.presence), x != 0)
    np.testing.assert_array_equal(kernels.unpack(kernels.transpose(p)), x.T)


@given(shapes, seeds)
def test_rows_and_concatenation(shape, seed):
    x = gappy(shape, seed)
    p, cut = packed(x), shape[0] // 3
    for rows in (slice(cut, None), slice(None, None, 2), np.arange(shape[0])[::-1], x[:, 0] > 0):
        np.testing.assert_array_equal(kernels.unpack(p[rows]), x[rows])
    complete = np.where(x == 0, 1, x)
    for other, values in ((p[cut:], x[cut:]), (kernels.pack(complete), complete)):
        both = kernels.concatenate([p[:cut], other])
        np.testing.assert_array_equal(kernels.unpack(both), np.concatenate([x[:cut], values]))


@given(shapes, st.integers(1, 150), seeds)
def test_sums_are_exact(shape, rows, seed):
    x, y = gappy(shape, seed), gappy((rows, shape[1]), seed + 1)
    p, q, there = packed(x), packed(y), (x != 0).astype(np.int64)
    exact = [
        (kernels.gram(p), reference.gram(x)),
        (kernels.second_moment(p), reference.second_moment(x)),
        (kernels.cross_gram(p, q), reference.cross_gram(x, y)),
        (kernels.gram(p.presence), there @ there.T),
    ]
    for got, wanted in exact:
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(kernels.column_sums(p), x.sum(0, dtype=np.int64))
    np.testing.assert_array_equal(kernels.seen_counts(p), there.sum(0))
    complete = np.where(y == 0, -1, y)
    for a, b in ((q, p), (kernels.pack(complete), p), (p, kernels.pack(complete))):
        wanted = reference.cross_gram(kernels.unpack(a), kernels.unpack(b))
        np.testing.assert_array_equal(kernels.cross_gram(a, b), wanted)


@pytest.mark.parametrize("m", [1, 127, 260])
@pytest.mark.parametrize("n", rest_slow([1, 64, 7937, 7936, 40_000], 3))
def test_gram_beyond_one_tile_and_one_chunk(m, n):
    x = gappy((m, n), m + n)
    np.testing.assert_array_equal(kernels.gram(packed(x)), reference.gram(x.astype(float)))


sizes = st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 20))


def products(p, X, U):
    """The four products of `p` with thin matrices."""
    return (
        kernels.matmat(p, X),
        kernels.rmatmat(p, U),
        kernels.seen_matmat(p, X),
        kernels.seen_rmatmat(p, U),
    )


def by_numpy(x, X, U):
    there = (x != 0).astype(float)
    return x.astype(float) @ X, x.T.astype(float) @ U, there @ X, there.T @ U


@given(sizes, seeds, st.sampled_from([np.float32, np.float64]))
def test_products(size, seed, dtype):
    m, n, k = size
    x, rng = gappy((m, n), seed), np.random.default_rng(seed)
    X, U = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((m, k)).astype(dtype)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for got, wanted in zip(products(packed(x), X, U), by_numpy(x, X, U), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, **close)
    X, U = rng.integers(-50, 50, (n, k)), rng.integers(-50, 50, (m, k))
    for got, wanted in zip(products(packed(x), X, U), by_numpy(x, X, U), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("columns", [7, 20])  # selected sums, and blocks of numbers
@pytest.mark.parametrize("shape", [(257, 4500), (600, 2049), (64, 64)])
def test_products_beyond_one_tile_and_vectors(shape, columns):
    x, rng = gappy(shape, 1), np.random.default_rng(1)
    X, U = rng.integers(-9, 9, (shape[1], columns)), rng.integers(-9, 9, (shape[0], columns))
    for a, b in ((X, U), (X[:, 0], U[:, 0]), (X[:, ::3], np.asfortranarray(U))):
        for got, wanted in zip(products(packed(x), a, b), by_numpy(x, a, b), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_many_columns_are_multiplied_alike_by_any_number_of_threads(monkeypatch):
    x, rng = gappy((700, 5000), 4), np.random.default_rng(4)
    X = rng.standard_normal((5000, 24), np.float32)
    U = rng.standard_normal((700, 24), np.float32)
    found = []
    for threads in "1", "3":
        monkeypatch.setenv("HOPFED_NUM_THREADS", threads)
        found.append(products(packed(x), X, U))
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("columns", [5, 20])
def test_a_row_and_a_column_without_entries_are_exactly_zero(columns):
    x, rng = gappy((90, 800), 2, 0.0), np.random.default_rng(2)
    row, column = np.flatnonzero(~x.any(1))[0], np.flatnonzero(~x.any(0))[0]
    X, U = (rng.random((size, columns), np.float32) + 1e6 for size in (800, 90))
    ours = products(packed(x), X.astype(np.float32), U.astype(np.float32))
    for got, at in zip(ours, (row, column, row, column), strict=True):
        assert not got[at].any()


def test_complete_rows_stay_what_they_are_and_are_taken_beside_those_with_gaps():
    x, rng = gappy((40, 130), 3), np.random.default_rng(3)
    complete = np.where(x == 0, 1, x)
    for values in (complete, complete > 0, (complete > 0).astype(np.uint8), complete.astype(float)):
        p = kernels.pack_masked(values)
        assert type(p) is PackedBits
        np.testing.assert_array_equal(p.words, kernels.pack(values).words)
        assert type(kernels.pack_masked(values, np.zeros(x.shape, bool))) is PackedBits
    X, U = rng.integers(-9, 9, (130, 3)), rng.integers(-9, 9, (40, 3))
    for got, wanted in zip(products(p, X, U), by_numpy(complete, X, U), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert kernels.seen_matmat(p, X[:, 0]).shape == (40,)
    assert kernels.seen_counts(p).tolist() == [40] * 130
    np.testing.assert_array_equal(kernels.unpack(kernels.with_gaps(p)), complete)


@pytest.mark.parametrize("shape", [(20, 77), (7, 64), (3, 8), (300, 9001)])
def test_what_counts_as_missing(shape):
    x = gappy(shape, 4)
    x[0, :2] = -1, 1  # a -1 is there: zeros are missing
    nan = np.where(x == 0, np.nan, x)
    binary = (nan + 1) / 2  # zeros are false, NaN is missing
    objects = np.where(x == 0, None, x.astype(object))
    hidden = np.where(x == 0, np.random.default_rng(0).integers(-128, 127, shape), x)
    cases = [
        x, x.astype(np.int64), x.astype(np.float32), nan, nan.astype(np.float32), binary, objects,
        np.where(x == 0, None, x > 0), np.ma.masked_invalid(nan), np.ma.masked_equal(x, 0),
        np.ma.array((x > 0).astype(np.uint8), mask=x == 0), np.asfortranarray(nan), nan[:, ::-1],
    ]  # fmt: skip
    for values in cases:
        p = kernels.pack_masked(values)
        assert isinstance(p, MaskedBits)
        wanted = x[:, ::-1] if values is cases[-1] else x
        np.testing.assert_array_equal(kernels.unpack(p), wanted)
    for values in (hidden.astype(np.int8), hidden, hidden.astype(float), (x > 0)):
        np.testing.assert_array_equal(kernels.unpack(kernels.pack_masked(values, x == 0)), x)
    masked = np.ma.array(x, mask=np.ma.nomask)
    masked[0, 0] = np.ma.masked
    p = kernels.pack_masked(masked, x == 1)  # either mask hides, and so do zeros
    wanted = np.where(x == 1, 0, x)
    wanted[0, 0] = 0
    np.testing.assert_array_equal(kernels.unpack(p), wanted)


def test_the_rule_for_zeros_is_that_of_the_whole_array():
    x = np.ones((3000, 900), np.int8)
    x[1:, ::2] = 0
    assert type(kernels.pack_masked(x)) is PackedBits
    x[-1, -1] = -1  # seen long after the first blocks
    np.testing.assert_array_equal(kernels.unpack(kernels.pack_masked(x)), x)
    nan = x.astype(np.float32)
    nan[0, 0] = np.nan
    x[0, 0] = 0
    np.testing.assert_array_equal(kernels.unpack(kernels.pack_masked(nan)), x)


def test_nothing_seen_at_all():
    for values in (np.full((5, 70), np.nan), np.full((5, 70), None), np.ma.masked_all((5, 70))):
        p = kernels.pack_masked(values)
        assert not kernels.unpack(p).any()
        assert not kernels.gram(p).any()
        assert not kernels.seen_counts(p).any()
    assert type(kernels.pack_masked(np.zeros((5, 70)))) is PackedBits  # 0/1: all are false


@pytest.mark.parametrize("column", [0, 5, 63, 64, 128])
def test_values_that_are_no_entries_are_named(column):
    x = gappy((9, 129), 3)
    x[0, :2], x[4, column], x[6, 0] = (-1, 1), 5, 5
    nan = np.where(x == 0, np.nan, x)
    for values in (x, nan, x.astype(np.int64), np.where(x == 0, None, x.astype(object))):
        with pytest.raises(ArgumentError, match=rf"got 5.* at row 4, column {column}$"):
            kernels.pack_masked(values)
    x[4, column] = -128  # stands for a missing entry inside the kernels, not outside
    for mask in (None, x == 1):
        with pytest.raises(ArgumentError, match=rf"got -128 at row 4, column {column}$"):
            kernels.pack_masked(x, mask)
    assert isinstance(kernels.pack_masked(x, (x == -128) | (x == 5)), MaskedBits)


def test_wrong_arguments():
    for bad in (np.ones(3), np.array([["1"]]), np.ones((2, 2), complex)):
        with pytest.raises(ArgumentError, match="two-dimensional real"):
            kernels.pack_masked(bad)
    with pytest.raises(ArgumentError, match="got words at row 0, column 1"):
        kernels.pack_masked(np.array([[1, "words"]], object))
    for mask in (np.zeros((2, 3), bool), np.zeros((2, 2), np.int8)):
        with pytest.raises(ArgumentError, match="mask must be booleans of shape"):
            kernels.pack_masked(np.ones((2, 2)), mask)
    p = packed(gappy((4, 70), 9))
    with pytest.raises(ArgumentError, match="seen must be of shape"):
        MaskedBits(p.signs, p.seen[:2])
    with pytest.raises(ArgumentError, match="0 where nothing is seen"):
        MaskedBits(kernels.pack(np.ones((1, 2))), kernels.pack(np.zeros((1, 2))))
    with pytest.raises(ArgumentError, match="slice"):
        p[0]
    with pytest.raises(ArgumentError, match="of 70 columns"):
        kernels.cross_gram(p, packed(gappy((4, 71), 9)))
    with pytest.raises(ArgumentError, match="X must be"):
        kernels.seen_matmat(p, np.ones(69))
    with pytest.raises(ArgumentError, match="U must be"):
        kernels.seen_rmatmat(kernels.pack(np.ones((4, 70))), np.ones(5))
    with pytest.raises(ArgumentError, match="dtype must be"):
        kernels.unpack(p, np.uint8)
    with pytest.raises(ArgumentError, match="null must be one of"):
        kernels.scramble(p, "none", np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="a PackedBits or a MaskedBits"):
        kernels.seen_counts(np.ones((2, 2)))


def test_scrambled_copies():
    x = gappy((90, 130), 5)
    p, signs = packed(x), kernels.unpack(packed(x).signs)
    turned = kernels.unpack(kernels.scramble(p, "signs", np.random.default_rng(0)))
    np.testing.assert_array_equal(turned != 0, x != 0)
    wanted = kernels.scramble(kernels.pack(signs), "signs", np.random.default_rng(0))
    np.testing.assert_array_equal(turned, np.where(x == 0, 0, kernels.unpack(wanted)))
    moved = kernels.unpack(kernels.scramble(p, "permute", np.random.default_rng(0)))
    assert (moved != x).any()
    np.testing.assert_array_equal(np.sort(moved, axis=0), np.sort(x, axis=0))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_data(shape):
    p = kernels.with_gaps(kernels.pack_masked(np.zeros(shape)))
    assert kernels.unpack(p).shape == shape
    assert kernels.gram(p).shape == (shape[0], shape[0])
    X, U = np.zeros((shape[1], 3)), np.zeros((shape[0], 3))
    assert kernels.matmat(p, X).shape == kernels.seen_matmat(p, X).shape == (shape[0], 3)
    assert kernels.rmatmat(p, U).shape == kernels.seen_rmatmat(p, U).shape == (shape[1], 3)
