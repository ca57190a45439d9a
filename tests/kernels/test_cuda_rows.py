"""Packed rows, Gram matrices and products on a device, against the CPU, with gaps and without.

Every test runs on the emulated device, where there is a C++ compiler, and on a GPU (`-m gpu`).
"""

import kernel_oracle as reference
import numpy as np
import pytest
from emulator.device import Emulated, widen_bfloat16
from kernel_oracle import entries, packed

from hopfed import kernels
from hopfed.errors import ArgumentError, BackendError
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
    """In pieces of 8 bytes where rows have an odd number of words, else of 16."""
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
    for capability, way in ((90, "gram_mma"), (75, "mirror"), (100, "mirror")):
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
    monkeypatch.setattr(
        products, "fastest_method", lambda *_: "bf16" if dtype == "bf16" else "float32"
    )
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


def test_three_terms_of_sixteen_bits_are_the_number(device):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((50, 7)) * 10.0 ** rng.integers(-20, 20, (50, 7))).astype(np.float32)
    terms = products.split_float32(device, device.xp.asarray(x)).get()
    assert (terms.dtype, terms.shape) == (np.uint16, (50, 24))  # 3 x 7, and zeros
    parts = (widen_bfloat16(terms[:, i : i + 7]).astype(float) for i in (0, 7, 14))
    first, second, third = parts
    np.testing.assert_array_equal(first + second + third, x)
    assert (abs(second) <= 2**-8 * abs(first)).all()
    assert (terms[:, 21:] == 0).all()


class Chip(Emulated):
    """A device on which products of 16 bits take so long, and keep so many digits."""

    def __init__(self, seconds, digits):
        super().__init__(ordinal=100)
        self.taken, self.digits = seconds, digits

    def seconds(self, work, repeats=1):
        self.launches.clear()
        work()
        return self.taken if "unpack_bf16" in self.launches else 1.0

    def gemm(self, a, b, out, *, ta, tb, add):
        super().gemm(a, b, out, ta=ta, tb=tb, add=add)
        if a.dtype == np.uint16:
            out[...] = out.astype(np.float64).round(self.digits).astype(np.float32)


@pytest.mark.parametrize(
    ("seconds", "digits", "way"), [(0.5, 9, "bf16"), (2.0, 9, "float32"), (0.5, 1, "float32")]
)
def test_terms_are_multiplied_where_that_is_faster_and_as_exact(monkeypatch, seconds, digits, way):
    monkeypatch.setattr(products, "_fastest", {})
    chip = Chip(seconds, digits)
    assert [products.fastest_method(chip, k) for k in (1, 17)] == [way, way]
    p, X = kernels.pack(chip.xp.asarray(entries((9, 70)))), chip.xp.ones((70, 3), np.float32)
    for operand, by_terms in ((X, way == "bf16"), (X.astype(np.float64), False)):
        chip.launches.clear()
        found = kernels.matmat(p, operand)
        assert ("unpack_bf16" in chip.launches) is by_terms
        np.testing.assert_array_equal(found[:, 0].get(), kernels.unpack(p).get().sum(axis=1))
    chip.capability = 75
    products._fastest.clear()
    assert products.fastest_method(chip, 1) == "float32"


def test_tiles_shrink_when_memory_runs_out(device, monkeypatch):
    x = entries((64, 100))
    p, sizes, empty = kernels.pack(device.xp.asarray(x)), [], device.xp.empty

    class Scarce:
        def __getattr__(self, name):
            return getattr(kept, name)

        def empty(self, shape, dtype):
            sizes.append(shape)
            if shape > limit:
                raise device.out_of_memory(*short)
            return empty(shape, dtype)

    short = (1, 2) if device.name != "emulated device" else ()
    kept, limit = device.xp, 2000
    ones = device.xp.ones((100, 2))
    monkeypatch.setattr(device, "xp", Scarce())
    np.testing.assert_array_equal(kernels.matmat(p, ones)[:, 0].get(), x.sum(axis=1))
    assert sizes == [8192, 4096, 2048, 1024]
    limit = 0
    with pytest.raises(BackendError, match="out of device memory for a product"):
        kernels.matmat(p, ones)
