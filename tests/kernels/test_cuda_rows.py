"""Packed rows, Gram matrices and products on a device, against the CPU, with gaps and without.

Every test runs on the emulated device, where there is a C++ compiler, and on a GPU (`-m gpu`).
"""

import kernel_oracle as reference
import numpy as np
import pytest
from emulator.device import Emulated
from kernel_oracle import entries, packed

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels.cuda import gram, products

SHAPES = [(1, 1), (130, 1), (131, 203), (3, 64), (7, 720), (0, 5), (70, 0)]
KINDS = [False, True]  # whether there are gaps


def same_words(there, here):
    for got, wanted in ((there.signs, here.signs), (there.seen, here.seen)):
        assert (got is None) is (wanted is None)
        if got is not None:
            np.testing.assert_array_equal(got.get(), wanted)


@pytest.mark.parametrize("gaps", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_packing_and_back(device, shape, gaps):
    x = entries(shape, 0, gaps)
    p, wanted = packed(x, gaps, device), packed(x, gaps)
    assert (p.shape, p.nbytes) == (wanted.shape, wanted.nbytes)
    same_words(p, wanted)
    for dtype in (np.int8, np.int32, np.float32, np.float64):
        back = kernels.unpack(p, dtype)
        assert back.dtype == dtype
        np.testing.assert_array_equal(back.get(), x)
    same_words(kernels.transpose(p), kernels.transpose(wanted))
    np.testing.assert_array_equal(kernels.column_sums(p).get(), x.sum(axis=0, dtype=np.int64))
    np.testing.assert_array_equal(kernels.seen_counts(p).get(), (x != 0).sum(axis=0))
    ones = np.ones((2, shape[1]), np.int8)
    both = kernels.concatenate([p[:1], packed(ones, False, device), p])
    np.testing.assert_array_equal(kernels.unpack(both).get(), np.vstack([x[:1], ones, x]))


@pytest.mark.parametrize("first", range(9))
def test_packing_where_memory_is_not_aligned(device, first):
    flat = entries(9 + 5 * 72)
    x = device.xp.asarray(flat)[first : first + 5 * 72].reshape(5, 72)
    same_words(kernels.pack(x), kernels.pack(flat[first : first + 5 * 72].reshape(5, 72)))


@pytest.mark.parametrize("width", [72, 75])  # rows whose entries are read eight at a time, or not
def test_every_byte_is_told_from_every_other(device, width):
    for value in range(-128, 128):
        x = np.ones((2, width), np.int8)
        x[1, (8, 15, 71, width - 1)[value % 4]] = value
        there = device.xp.asarray(x)
        if value in (-1, 0, 1):
            same_words(kernels.pack(there), kernels.pack(x))
            continue
        for pack in (kernels.pack, kernels.pack_masked):
            with pytest.raises(ArgumentError, match=f"got {value} at row 1"):
                pack(there)


@pytest.mark.parametrize("shape", [(256, 256), (257, 640), (300, 590), (1100, 70), (2050, 128)])
@pytest.mark.parametrize("offset", [0, 1])
def test_tiles_of_bits_are_turned_and_counted(device, shape, offset):
    """Of rows in pairs of words and in single ones, some of which start between pairs."""
    x = entries(shape)
    p = displaced(packed(x, False, device), device, offset)
    same_words(kernels.transpose(p), kernels.transpose(kernels.pack(x)))
    np.testing.assert_array_equal(kernels.column_sums(p).get(), x.sum(axis=0, dtype=np.int64))


def displaced(p, device, offset):
    """The same rows, `offset` words from where an array starts."""
    held = device.xp.zeros(offset + p.signs.size, np.uint64)
    held[offset:] = p.signs.reshape(-1)
    return kernels.Rows(held[offset:].reshape(p.signs.shape), p.n)


@pytest.mark.parametrize("method", gram.METHODS)
@pytest.mark.parametrize("gaps", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gram_matrices_are_exact(device, monkeypatch, shape, gaps, method):
    monkeypatch.setattr(gram, "COLUMNS", 128)  # several blocks, the last one short
    monkeypatch.setattr(gram, "PANEL", 64)
    x = entries(shape, 0, gaps)
    p = packed(x, gaps, device)
    got = gram.inner_products(p.signs, p.seen, p.n, method)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got.get(), reference.gram(x))
    np.testing.assert_array_equal(kernels.second_moment(p).get(), reference.second_moment(x))


@pytest.mark.parametrize("words", [1, 9, 16, 18])
def test_words_that_come_while_others_are_multiplied(device, words):
    """Of rows that start at any word, in several blocks."""
    x = entries((270, 64 * words - 5))
    p = displaced(packed(x, False, device), device, int(words == 18))  # rows that start elsewhere
    np.testing.assert_array_equal(
        gram.inner_products(p.signs, None, p.n, "bits").get(), reference.gram(x)
    )


@pytest.mark.parametrize("gaps", KINDS)
def test_weighted_second_moments(device, gaps):
    for shape in ((1, 1), (40, 30), (7, 130)):
        x = entries(shape, 0, gaps)
        p, w = packed(x, gaps, device), np.random.default_rng(0).standard_normal(shape[0])
        for weights in (w, device.xp.asarray(w), np.full(shape[0], 0.5), np.arange(shape[0]) // 20):
            values = weights.get() if weights is not w and hasattr(weights, "get") else weights
            got = kernels.second_moment(p, weights).get()
            np.testing.assert_allclose(got, reference.second_moment(x, values), atol=1e-12)
    with pytest.raises(ArgumentError, match="finite"):
        kernels.second_moment(p, np.full(7, np.nan))


def test_chips_without_the_instruction_multiply_bytes():
    device = Emulated(ordinal=101)
    p = kernels.pack(device.xp.asarray(entries((5, 70))))
    for capability, way in ((90, "gram_mma"), (75, "unpack_rows"), (100, "unpack_rows")):
        device.capability = capability
        device.launches.clear()
        kernels.gram(p)
        assert device.launches[-1] == way


@pytest.mark.parametrize("gaps", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(device, monkeypatch, shape, gaps, dtype):
    monkeypatch.setattr(products, "BYTES", 16_000)  # several tiles
    monkeypatch.setattr(products, "ROWS", 64)
    monkeypatch.setattr(products, "METHODS", (("float32",), ("bf16",))[dtype == "bf16"] * 2)
    kind = np.float32 if dtype == "bf16" else dtype
    x, rng = entries(shape, 0, gaps), np.random.default_rng(2)
    p, host = packed(x, gaps, device), packed(x, gaps)
    close = {"rtol": 1e-5, "atol": 1e-3} if kind == np.float32 else {"rtol": 1e-12, "atol": 1e-11}
    for k in (0, 1, 5):
        X, U = ((10 * rng.standard_normal((n, k))).astype(kind)[:, ::-1] for n in shape[::-1])
        ways = (kernels.matmat, X), (kernels.rmatmat, U)
        for (multiply, Z), seen in [(way, seen) for way in ways for seen in (False, True)]:
            got, wanted = multiply(p, device.xp.asarray(Z), seen), multiply(host, Z, seen)
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got.get(), wanted, **close)
    ones = kernels.matmat(p, device.xp.ones(shape[1]))
    np.testing.assert_array_equal(ones.get(), x.sum(axis=1))
    with pytest.raises(ArgumentError, match="X must be"):
        kernels.matmat(p, device.xp.ones((shape[1] + 1, 2)))
    with pytest.raises(ArgumentError, match="a CuPy array"):
        kernels.matmat(p, np.ones((shape[1], 2)))


def test_terms_of_sixteen_bits_are_about_as_exact_as_float32(device):
    """Numbers of all sizes, and sums without cancellation, in parts of the columns."""
    x, rng = entries((140, 900)), np.random.default_rng(0)
    X = (rng.standard_normal((900, 30)) * 10.0 ** rng.integers(-20, 20, (900, 30))).astype("f4")
    p = packed(x, False, device)
    for factor in (X, abs(X), np.ones_like(X)):
        got = products.product(p.signs, None, 900, device.xp.asarray(factor), False, "bf16").get()
        far = abs(got - x.astype(float) @ factor.astype(float))
        assert (far <= 2e-6 * abs(factor).astype(float).sum(axis=0)).all()


def test_chips_without_the_instruction_multiply_tiles():
    chip = Emulated(ordinal=100)
    p, X = kernels.pack(chip.xp.asarray(entries((9, 70)))), chip.xp.ones((70, 3), np.float32)
    for capability, operand, way in (
        (90, X, "thin_product"), (90, X.astype(np.float64), "unpack_rows"),
        (75, X, "unpack_rows"),
    ):  # fmt: skip
        chip.capability = capability
        found = kernels.matmat(p, operand)
        assert chip.launches[-1] == way
        np.testing.assert_array_equal(found[:, 0].get(), kernels.unpack(p).get().sum(axis=1))
