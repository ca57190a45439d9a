"""Rows of bits, complete and with gaps, against plain NumPy: entries -1, 0 (missing) and +1."""

import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_oracle import entries, packed, signs

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows

shapes = st.tuples(st.integers(1, 150), st.integers(1, 200))
seeds = st.integers(0, 2**32 - 1)
kinds = st.booleans()  # whether there are gaps


@given(shapes, seeds, kinds)
def test_packing_and_back(shape, seed, gaps):
    x = entries(shape, seed, gaps)
    p = packed(x, gaps)
    assert (p.shape, p.n, len(p)) == (x.shape, x.shape[1], len(x))
    assert p.nbytes == (1 + gaps) * 8 * shape[0] * -(-shape[1] // 64)
    np.testing.assert_array_equal(p.signs, reference.pack(x == 1))
    if gaps:
        np.testing.assert_array_equal(p.seen, reference.pack(x != 0))
    for dtype in (np.int8, np.int32, np.float16, np.float32, np.float64):
        y = kernels.unpack(p, dtype)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(kernels.unpack(kernels.transpose(p)), x.T)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.float16, np.float32, np.float64])
def test_pack_takes_values_of_any_dtype_and_stride(dtype):
    x = signs((37, 150), 1)
    wanted = kernels.pack(x).signs
    wide = np.zeros((37, 300), dtype)
    wide[:, ::-2] = x
    for values in (x.astype(dtype), np.asfortranarray(x.astype(dtype)), wide[:, ::-2]):
        np.testing.assert_array_equal(kernels.pack(values).signs, wanted)
    for zeros in (bool, np.uint8, np.uint64, dtype):
        np.testing.assert_array_equal(kernels.pack((x > 0).astype(zeros)).signs, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float64])
@pytest.mark.parametrize(("bad", "column"), [(2, 0), (3, 63), (-128, 100), (0, 128)])
def test_pack_names_the_first_bad_value(dtype, bad, column):
    x = signs((9, 129), 3).astype(dtype)
    x[4, column] = x[6, 0] = bad
    with pytest.raises(ArgumentError, match=rf"got {bad}.* at row 4, column {column}$"):
        kernels.pack(x)


def test_pack_refuses_what_is_not_binary():
    for x in ([[1, 0, -1]], [[0.5, 1.0]], [[np.nan, 1.0]], [1, -1], [["1"]], [[1 + 0j]]):
        with pytest.raises(ArgumentError):
            kernels.pack(np.array(x))
    with pytest.raises(ArgumentError):
        kernels.pack(np.array([[255] * 9], np.uint8))


@given(shapes, seeds, kinds)
def test_some_rows_and_concatenation(shape, seed, gaps):
    x = entries(shape, seed, gaps)
    p, cut = packed(x, gaps), shape[0] // 3
    for rows in (slice(cut, None), slice(None, None, 2), np.arange(shape[0])[::-1], x[:, 0] > 0):
        np.testing.assert_array_equal(kernels.unpack(p[rows]), x[rows])
    complete = np.where(x == 0, 1, x)
    for other, values in ((p[cut:], x[cut:]), (kernels.pack(complete), complete)):
        both = kernels.concatenate([p[:cut], other])
        np.testing.assert_array_equal(kernels.unpack(both), np.concatenate([x[:cut], values]))


@given(shapes, seeds, kinds)
def test_sums_are_exact(shape, seed, gaps):
    x = entries(shape, seed, gaps)
    p, there = packed(x, gaps), (x != 0).astype(np.int64)
    found, moment = kernels.gram(p), kernels.second_moment(p)
    assert found.dtype == moment.dtype == np.int32
    np.testing.assert_array_equal(found, reference.gram(x))
    np.testing.assert_array_equal(moment, reference.second_moment(x))
    np.testing.assert_array_equal(kernels.column_sums(p), x.sum(0, dtype=np.int64))
    np.testing.assert_array_equal(kernels.seen_counts(p), there.sum(0))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("shape", [(1, 64), (260, 7937), (9, 16_385), (700, 70), (1100, 70)])
def test_gram_beyond_one_tile_and_one_chunk(shape, gaps, monkeypatch):
    x = entries(shape, sum(shape), gaps)
    for threads in "1", "3":
        monkeypatch.setenv("HOPFED_NUM_THREADS", threads)
        found = kernels.gram(packed(x, gaps))
        np.testing.assert_array_equal(found, reference.gram(x))


@given(shapes, seeds, kinds, st.sampled_from(["few", "many", "integers", "equal"]))
def test_weighted_second_moment(shape, seed, gaps, kind):
    x, rng = entries(shape, seed, gaps), np.random.default_rng(seed)
    w = {
        "few": rng.choice([0.0, 0.25, -1.5], shape[0]),
        "many": rng.standard_normal(shape[0]),
        "integers": rng.integers(0, 5, shape[0]),
        "equal": np.full(shape[0], 0.3),
    }[kind]
    C = kernels.second_moment(packed(x, gaps), w)
    assert C.dtype == np.float64
    np.testing.assert_allclose(C, reference.second_moment(x, w), rtol=1e-12, atol=1e-12 * shape[0])


sizes = st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 40))


def products(p, X, U):
    """The four products of `p` with thin matrices."""
    return (
        kernels.matmat(p, X),
        kernels.rmatmat(p, U),
        kernels.matmat(p, X, True),
        kernels.rmatmat(p, U, True),
    )


def by_numpy(x, X, U):
    there = (x != 0).astype(float)
    return x.astype(float) @ X, x.T.astype(float) @ U, there @ X, there.T @ U


@given(sizes, seeds, kinds, st.sampled_from([np.float32, np.float64]))
def test_products(size, seed, gaps, dtype):
    m, n, k = size
    x, rng = entries((m, n), seed, gaps), np.random.default_rng(seed)
    p = packed(x, gaps)
    X, U = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((m, k)).astype(dtype)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for got, wanted in zip(products(p, X, U), by_numpy(x, X, U), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, **close)
    X, U = rng.integers(-50, 50, (n, k)), rng.integers(-50, 50, (m, k))
    for got, wanted in zip(products(p, X, U), by_numpy(x, X, U), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 7, 20])  # sums in a register, in a vector, in two
@pytest.mark.parametrize("shape", [(257, 4500), (600, 2049), (64, 64)])
def test_products_beyond_one_tile_and_vectors(shape, columns, gaps):
    x, rng = entries(shape, 1, gaps), np.random.default_rng(1)
    X, U = rng.integers(-9, 9, (shape[1], columns)), rng.integers(-9, 9, (shape[0], columns))
    for a, b in ((X, U), (X[:, 0], U[:, 0]), (X[:, ::3], np.asfortranarray(U))):
        for got, wanted in zip(products(packed(x, gaps), a, b), by_numpy(x, a, b), strict=True):
            np.testing.assert_array_equal(got, wanted)
    some = products(packed(x, gaps)[::-2], X, U[::-2])
    for got, wanted in zip(some, by_numpy(x[::-2], X, U[::-2]), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("columns", [1, 2])
def test_constant_operands_lose_no_precision(columns):
    x = signs((50, 30000), 3)
    X = np.full((30000, columns), 0.1, np.float32)
    got = kernels.matmat(kernels.pack(x), X)
    np.testing.assert_allclose(got, x @ X.astype(float), rtol=0, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 2, 5, 24])
def test_products_are_alike_by_any_number_of_threads(columns, monkeypatch):
    x, rng = entries((700, 5000), 4, True), np.random.default_rng(4)
    X = rng.standard_normal((5000, columns), np.float32)
    U = rng.standard_normal((700, columns), np.float32)
    monkeypatch.setattr("hopfed.kernels.cpu.products.FEW", 0)
    found = []
    for threads in "1", "3":
        monkeypatch.setenv("HOPFED_NUM_THREADS", threads)
        found.append(products(packed(x, True), X, U))
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("columns", [1, 2, 5, 20])
def test_a_row_and_a_column_without_entries_are_exactly_zero(columns):
    x, rng = entries((90, 800), 2, True, 0.0), np.random.default_rng(2)
    row, column = np.flatnonzero(~x.any(1))[0], np.flatnonzero(~x.any(0))[0]
    X, U = (rng.random((size, columns), np.float32) + 1e6 for size in (800, 90))
    ours = products(packed(x, True), X.astype(np.float32), U.astype(np.float32))
    for got, at in zip(ours, (row, column, row, column), strict=True):
        assert not got[at].any()


def test_complete_rows_stay_what_they_are():
    x = entries((40, 130), 3, True)
    complete = np.where(x == 0, 1, x)
    for values in (complete, complete > 0, (complete > 0).astype(np.uint8), complete.astype(float)):
        p = kernels.pack_masked(values)
        assert not p.gaps
        np.testing.assert_array_equal(p.signs, kernels.pack(values).signs)
        assert not kernels.pack_masked(values, np.zeros(x.shape, bool)).gaps
    np.testing.assert_array_equal(kernels.unpack(kernels.with_gaps(p)), complete)


@pytest.mark.parametrize("shape", [(20, 77), (7, 64), (3, 8)])
def test_what_counts_as_missing(shape):
    x = entries(shape, 4, True)
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
        assert p.gaps
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
    assert not kernels.pack_masked(x).gaps
    x[-1, -1] = -1  # seen long after the first blocks
    np.testing.assert_array_equal(kernels.unpack(kernels.pack_masked(x)), x)
    nan = x.astype(np.float32)
    nan[0, 0] = np.nan
    x[0, 0] = 0
    np.testing.assert_array_equal(kernels.unpack(kernels.pack_masked(nan)), x)


def test_nothing_seen_at_all():
    for values in (np.full((5, 70), np.nan), np.full((5, 70), None), np.ma.masked_all((5, 70))):
        assert not kernels.seen_counts(kernels.pack_masked(values)).any()
    assert not kernels.pack_masked(np.zeros((5, 70))).gaps  # 0/1: all are false


@pytest.mark.parametrize("column", [0, 5, 63, 64, 128])
def test_values_that_are_no_entries_are_named(column):
    x = entries((9, 129), 3, True)
    x[0, :2], x[4, column], x[6, 0] = (-1, 1), 5, 5
    nan = np.where(x == 0, np.nan, x)
    for values in (x, nan, x.astype(np.int64), np.where(x == 0, None, x.astype(object))):
        with pytest.raises(ArgumentError, match=rf"got 5.* at row 4, column {column}$"):
            kernels.pack_masked(values)
    x[4, column] = -128  # stands for a missing entry inside the kernels, not outside
    for mask in (None, x == 1):
        with pytest.raises(ArgumentError, match=rf"got -128 at row 4, column {column}$"):
            kernels.pack_masked(x, mask)
    assert kernels.pack_masked(x, (x == -128) | (x == 5)).gaps


def test_rows_check_themselves():
    words = np.zeros((2, 2), np.uint64)
    assert Rows(words[:, ::1], 128).shape == (2, 128)
    for bad, n in [(words, 64), (words.astype(np.int64), 128), (words[0], 128), (words + 8, 66)]:
        with pytest.raises(ArgumentError):
            Rows(bad, n)
    p = packed(entries((4, 70), 9, True), True)
    with pytest.raises(ArgumentError, match="seen must be of shape"):
        Rows(p.signs, 70, p.seen[:2])
    with pytest.raises(ArgumentError, match="0 where nothing is seen"):
        Rows(kernels.pack(np.ones((1, 2))).signs, 2, kernels.pack(np.zeros((1, 2))).signs)
    for rows in (p, Rows(p.signs, 70)):
        with pytest.raises(ArgumentError, match="slice"):
            rows[0]


def test_wrong_arguments():
    p, q = kernels.pack(signs((4, 70), 0)), kernels.pack(signs((2, 6), 0))
    for bad in (np.ones(3), np.array([["1"]]), np.ones((2, 2), complex)):
        with pytest.raises(ArgumentError, match="two-dimensional real"):
            kernels.pack_masked(bad)
    with pytest.raises(ArgumentError, match="got words at row 0, column 1"):
        kernels.pack_masked(np.array([[1, "words"]], object))
    for mask in (np.zeros((2, 3), bool), np.zeros((2, 2), np.int8)):
        with pytest.raises(ArgumentError, match="mask must be booleans of shape"):
            kernels.pack_masked(np.ones((2, 2)), mask)
    with pytest.raises(ArgumentError, match="one number of columns"):
        kernels.concatenate([p, q])
    with pytest.raises(ArgumentError, match="non-empty"):
        kernels.concatenate([])
    with pytest.raises(ArgumentError, match="dtype"):
        kernels.unpack(p, np.uint8)
    for function in (kernels.unpack, kernels.transpose, kernels.seen_counts, kernels.gram):
        with pytest.raises(ArgumentError, match="Rows, as made by"):
            function(np.ones((2, 2)))
    for X in (np.zeros((5, 2)), np.zeros((70, 2, 2)), np.zeros((70, 2), complex), np.float64(1)):
        with pytest.raises(ArgumentError, match="X must be"):
            kernels.matmat(p, X)
    with pytest.raises(ArgumentError, match="U must be"):
        kernels.rmatmat(p, np.ones(5), True)
    for weights in (np.ones(3), np.ones((4, 1)), np.array([1, 2, 3, np.nan]), np.array(["a"] * 4)):
        with pytest.raises(ArgumentError, match="weights must be"):
            kernels.second_moment(p, weights)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_data(shape, gaps):
    p = packed(np.zeros(shape, np.int8), gaps)
    assert p.shape == kernels.unpack(p).shape == kernels.transpose(p).shape[::-1] == shape
    np.testing.assert_array_equal(kernels.column_sums(p), np.zeros(shape[1]))
    assert kernels.gram(p).shape == (shape[0], shape[0])
    assert kernels.second_moment(p).shape == (shape[1], shape[1])
    found = products(p, np.zeros((shape[1], 3)), np.zeros((shape[0], 3)))
    assert [x.shape[0] for x in found] == [*shape, *shape]
