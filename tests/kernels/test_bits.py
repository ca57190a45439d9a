import kernel_oracle as reference
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import PackedBits

shapes = st.tuples(st.integers(1, 140), st.integers(1, 200))
seeds = st.integers(0, 2**32 - 1)


def spins(shape, seed):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


@given(shapes, seeds)
def test_pack_equals_the_reference_and_unpack_inverts_it(shape, seed):
    x = spins(shape, seed)
    p = kernels.pack(x)
    assert p.shape == x.shape
    assert p.words.dtype == np.uint64
    np.testing.assert_array_equal(p.words, reference.pack(x))
    for dtype in (np.int8, np.int32, np.float16, np.float32, np.float64):
        y = kernels.unpack(p, dtype)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.float16, np.float32, np.float64])
def test_pack_takes_signed_values_of_any_dtype_and_stride(dtype):
    x = spins((37, 150), 1)
    wanted = kernels.pack(x).words
    np.testing.assert_array_equal(kernels.pack(x.astype(dtype)).words, wanted)
    np.testing.assert_array_equal(kernels.pack(np.asfortranarray(x.astype(dtype))).words, wanted)
    wide = np.zeros((37, 300), dtype)
    wide[:, ::-2] = x
    np.testing.assert_array_equal(kernels.pack(wide[:, ::-2]).words, wanted)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint64, np.float32])
def test_pack_takes_zeros_and_ones(dtype):
    x = spins((20, 77), 2)
    packed = kernels.pack((x > 0).astype(dtype))
    np.testing.assert_array_equal(packed.words, kernels.pack(x).words)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float64])
@pytest.mark.parametrize("bad", [2, -2, 3, 127, -128])
@pytest.mark.parametrize("column", [0, 5, 63, 64, 100, 128])
def test_pack_names_the_first_bad_value(dtype, bad, column):
    x = spins((9, 129), 3).astype(dtype)
    x[4, column] = bad
    x[6, 0] = bad
    with pytest.raises(ArgumentError, match=rf"got {bad}.* at row 4, column {column}$"):
        kernels.pack(x)


def test_pack_refuses_what_is_not_binary():
    cases = [
        np.array([[1, 0, -1]]),
        np.array([[0.5, 1.0]]),
        np.array([[np.nan, 1.0]]),
        np.array([[255] * 9], np.uint8),
        np.array([1, -1]),
        np.array([["1"]]),
        np.array([[1 + 0j]]),
    ]
    for x in cases:
        with pytest.raises(ArgumentError):
            kernels.pack(x)


def test_a_zero_among_minus_ones_is_named():
    x = spins((5, 70), 4)
    x[3, 65] = 0
    with pytest.raises(ArgumentError, match="got 0 at row 3, column 65"):
        kernels.pack(x)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_data(shape):
    p = kernels.pack(np.zeros(shape, np.int8))
    assert p.shape == shape
    assert kernels.unpack(p).shape == shape
    assert kernels.transpose(p).shape == shape[::-1]
    np.testing.assert_array_equal(kernels.column_sums(p), np.zeros(shape[1]))
    assert kernels.gram(p).shape == (shape[0], shape[0])
    assert kernels.second_moment(p).shape == (shape[1], shape[1])
    assert kernels.matmat(p, np.zeros((shape[1], 3))).shape == (shape[0], 3)
    assert kernels.rmatmat(p, np.zeros((shape[0], 3))).shape == (shape[1], 3)


@given(shapes, seeds)
def test_transpose_and_column_sums(shape, seed):
    x = spins(shape, seed)
    p = kernels.pack(x)
    t = kernels.transpose(p)
    np.testing.assert_array_equal(t.words, kernels.pack(x.T).words)
    np.testing.assert_array_equal(kernels.column_sums(p), x.sum(0, dtype=np.int64))


@given(shapes, seeds)
def test_rows_and_concatenation(shape, seed):
    x = spins(shape, seed)
    p = kernels.pack(x)
    cut = shape[0] // 3
    np.testing.assert_array_equal(kernels.unpack(p[cut:]), x[cut:])
    np.testing.assert_array_equal(kernels.unpack(p[::2]), x[::2])
    np.testing.assert_array_equal(kernels.unpack(p[np.arange(shape[0])[::-1]]), x[::-1])
    np.testing.assert_array_equal(kernels.unpack(p[x[:, 0] > 0]), x[x[:, 0] > 0])
    np.testing.assert_array_equal(kernels.concatenate([p[:cut], p[cut:]]).words, p.words)
    assert len(p) == shape[0]
    assert p.nbytes == 8 * shape[0] * -(-shape[1] // 64)


def test_packed_bits_check_themselves():
    words = np.zeros((2, 2), np.uint64)
    assert PackedBits(words[:, ::1], 128).shape == (2, 128)
    for bad, n in [(words, 64), (words.astype(np.int64), 128), (words[0], 128), (words + 8, 66)]:
        with pytest.raises(ArgumentError):
            PackedBits(bad, n)
    with pytest.raises(ArgumentError, match="slice"):
        PackedBits(words, 128)[0]


def test_arguments_of_the_wrong_kind():
    p, q = kernels.pack(spins((2, 5), 0)), kernels.pack(spins((2, 6), 0))
    with pytest.raises(ArgumentError, match="one number of columns"):
        kernels.concatenate([p, q])
    with pytest.raises(ArgumentError, match="non-empty"):
        kernels.concatenate([])
    with pytest.raises(ArgumentError, match="dtype"):
        kernels.unpack(p, np.uint8)
    for function in (kernels.unpack, kernels.transpose, kernels.column_sums, kernels.gram):
        with pytest.raises(ArgumentError, match="PackedBits"):
            function(np.ones((2, 2)))
