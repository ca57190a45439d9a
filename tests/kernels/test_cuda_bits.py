"""Packed data, Gram matrices, products and scores on a device, against the CPU.

Every test runs on the emulated device, where there is a C++ compiler, and on a GPU (`-m gpu`).
"""

import kernel_oracle as reference
import numpy as np
import pytest
from emulator.device import Emulated

from hopfed import kernels
from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.cuda import bf16, bits, gram, products

SHAPES = [(1, 1), (130, 1), (131, 203), (3, 64), (7, 720), (0, 5), (70, 0)]


def signs(shape, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_packing_and_back(device, shape):
    x = signs(shape)
    p, wanted = bits.pack(device.xp.asarray(x)), kernels.pack(x)
    assert p.shape == wanted.shape
    assert p.nbytes == wanted.nbytes
    np.testing.assert_array_equal(bits.to_host(p).words, wanted.words)
    np.testing.assert_array_equal(bits.to_device(wanted, device).words.get(), wanted.words)
    for dtype in (np.int8, np.int32, np.float32, np.float64):
        back = bits.unpack(p, dtype)
        assert back.dtype == dtype
        np.testing.assert_array_equal(back.get(), x)
    turned = bits.transpose(p)
    np.testing.assert_array_equal(bits.to_host(turned).words, kernels.transpose(wanted).words)
    np.testing.assert_array_equal(bits.column_sums(p).get(), x.sum(axis=0, dtype=np.int64))
    both = kernels.concatenate([p, p])
    np.testing.assert_array_equal(bits.unpack(both).get(), np.concatenate([x, x]))


@pytest.mark.parametrize("first", range(9))
def test_packing_where_memory_is_not_aligned(device, first):
    flat = signs(9 + 5 * 72)
    x = device.xp.asarray(flat)[first : first + 5 * 72].reshape(5, 72)
    wanted = kernels.pack(flat[first : first + 5 * 72].reshape(5, 72))
    np.testing.assert_array_equal(bits.pack(x).words.get(), wanted.words)


@pytest.mark.parametrize("width", [72, 75])  # rows whose entries are read eight at a time, or not
def test_every_byte_is_told_from_every_other(device, width):
    for value in range(-128, 128):
        x = np.ones((2, width), np.int8)
        x[1, (8, 15, 71, width - 1)[value % 4]] = value
        there = device.xp.asarray(x)
        if value in (-1, 0, 1):
            np.testing.assert_array_equal(bits.pack(there).words.get(), kernels.pack(x).words)
            continue
        with pytest.raises(ArgumentError, match=f"got {value} at row 1"):
            bits.pack(there)


@pytest.mark.parametrize("shape", [(256, 256), (257, 640), (300, 590), (1100, 70), (2050, 128)])
@pytest.mark.parametrize("offset", [0, 1])
def test_tiles_of_bits_are_turned_and_counted(device, shape, offset):
    """Of rows in pairs of words and in single ones, some of which start between pairs."""
    x = signs(shape)
    p = bits.pack(device.xp.asarray(x))
    held = device.xp.zeros(offset + p.words.size, np.uint64)
    held[offset:] = p.words.reshape(-1)
    p = bits.DevicePacked(held[offset:].reshape(p.words.shape), p.n)
    wanted = kernels.transpose(kernels.pack(x)).words
    np.testing.assert_array_equal(bits.transpose(p).words.get(), wanted)
    np.testing.assert_array_equal(bits.column_sums(p).get(), x.sum(axis=0, dtype=np.int64))


def test_packing_refuses_what_the_cpu_refuses(device):
    for bad, value in ((2, 2), (0, 0), (np.nan, np.nan)):
        x = signs((5, 70)).astype(np.float64)
        x[3, 65] = bad
        message = f"got {value:.1f} at row 3, column 65"
        with pytest.raises(ArgumentError, match=message):
            bits.pack(device.xp.asarray(x))
    for bad in (np.ones(3), np.ones((2, 2), complex)):
        with pytest.raises(ArgumentError, match="two-dimensional real"):
            bits.pack(device.xp.asarray(bad))
    with pytest.raises(ArgumentError, match="a CuPy array"):
        bits.pack(np.ones((2, 2)))
    with pytest.raises(ArgumentError, match="uint64"):
        bits.DevicePacked(device.xp.zeros((2, 1), np.int64), 3)
    with pytest.raises(ArgumentError, match="dtype must be"):
        bits.unpack(bits.pack(device.xp.ones((2, 2))), np.uint8)


@pytest.mark.parametrize("method", gram.METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gram_matrices_are_exact(device, monkeypatch, shape, method):
    monkeypatch.setattr(gram, "COLUMNS", 128)  # several blocks, the last one short
    monkeypatch.setattr(gram, "PANEL", 64)
    x, y = signs(shape), signs((shape[0] // 2 + 1, shape[1]), 1)
    p, q = bits.pack(device.xp.asarray(x)), bits.pack(device.xp.asarray(y))
    got = gram.gram(p, method)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got.get(), reference.gram(x))
    np.testing.assert_array_equal(gram.cross_gram(p, q, method).get(), reference.cross_gram(x, y))


@pytest.mark.parametrize("words", [1, 9, 16, 18])
def test_words_that_come_while_others_are_multiplied(device, words):
    """In pieces of 8 bytes where rows have an odd number of words, else of 16."""
    x, y = signs((130, 64 * words - 5)), signs((70, 64 * words - 5), 1)
    p, q = (bits.pack(device.xp.asarray(rows)) for rows in (x, y))
    if words == 18:  # rows of 16 bytes that start elsewhere
        held = device.xp.zeros(1 + p.words.size, np.uint64)
        held[1:] = p.words.reshape(-1)
        p = bits.DevicePacked(held[1:].reshape(p.words.shape), p.n)
    got = gram.cross_gram(p, q, "bits")
    np.testing.assert_array_equal(got.get(), reference.cross_gram(x, y))


def test_second_moments(device):
    for shape in ((1, 1), (40, 30), (7, 130)):
        x = signs(shape)
        p = bits.pack(device.xp.asarray(x))
        np.testing.assert_array_equal(gram.second_moment(p).get(), reference.second_moment(x))
        w = np.random.default_rng(0).standard_normal(shape[0])
        for weights in (w, device.xp.asarray(w)):
            got = gram.second_moment(p, weights)
            np.testing.assert_allclose(got.get(), reference.second_moment(x, w), atol=1e-12)
    with pytest.raises(ArgumentError, match="weights must be"):
        gram.second_moment(p, np.ones(8))
    with pytest.raises(ArgumentError, match="finite"):
        gram.second_moment(p, np.full(7, np.nan))


def test_few_rows_have_a_measurement_of_their_own(device, monkeypatch):
    monkeypatch.setattr(gram, "_fastest", {})
    seen, seconds = [], device.seconds

    def timed(work):
        shape = work.__closure__ and [c.cell_contents for c in work.__closure__]
        seen.append(max(x.shape[0] for x in shape if isinstance(x, bits.DevicePacked)))
        return {16: 2.0, 4: 1.0, 1: 3.0}[device.trial[0] // seen[-1]] + len(seen) % 3

    monkeypatch.setattr(device, "seconds", timed)
    most = device.trial[0]
    for rows in (1, most // 16, most // 16 + 1, most // 4, most, 9 * most, None):
        gram.fastest(device, rows=rows)
    assert seen == [most // 16] * 2 + [most // 4] * 2 + [most] * 2
    monkeypatch.setattr(device, "seconds", seconds)
    p = bits.pack(device.xp.asarray(signs((3, 9))))
    monkeypatch.setattr(gram, "_fastest", {(device.name, device.ordinal, most // 16): "x"})
    ways = []
    monkeypatch.setattr(gram, "add", lambda out, a, b, method, **_: ways.append(method))
    gram.gram(p)
    assert ways == ["x"]


def test_gram_arguments(device):
    p = bits.pack(device.xp.asarray(signs((4, 9))))
    with pytest.raises(ArgumentError, match="method must be"):
        gram.gram(p, "magic")
    with pytest.raises(ArgumentError, match="DevicePacked"):
        gram.gram(np.ones((2, 2)))
    with pytest.raises(ArgumentError, match="b must be"):
        gram.cross_gram(p, bits.pack(device.xp.asarray(signs((4, 8)))))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_products(device, monkeypatch, shape, dtype):
    monkeypatch.setattr(products, "BYTES", 16_000)  # several tiles
    monkeypatch.setattr(products, "ROWS", 64)
    x, rng = signs(shape), np.random.default_rng(2)
    p, host = bits.pack(device.xp.asarray(x)), kernels.pack(x)
    for k in (0, 1, 5):
        X = (10 * rng.standard_normal((shape[1], k))).astype(dtype)[:, ::-1]
        U = (10 * rng.standard_normal((shape[0], k))).astype(dtype)
        for got, wanted in (
            (products.matmat(p, device.xp.asarray(X)), kernels.matmat(host, X)),
            (products.rmatmat(p, device.xp.asarray(U)), kernels.rmatmat(host, U)),
        ):
            assert got.dtype == wanted.dtype
            tolerance = 1e-4 if dtype == np.float32 else 1e-10
            np.testing.assert_allclose(got.get(), wanted, rtol=tolerance, atol=10 * tolerance)
        if dtype == np.float32:
            ways = [products.matmat(p, device.xp.asarray(X), method=m) for m in products.METHODS]
            np.testing.assert_allclose(ways[1].get(), ways[0].get(), rtol=1e-4, atol=1e-3)
            turned = products.rmatmat(p, device.xp.asarray(U), method="bf16").get()
            np.testing.assert_allclose(turned, kernels.rmatmat(host, U), rtol=1e-4, atol=1e-3)
    vector = products.matmat(p, device.xp.ones(shape[1], dtype))
    np.testing.assert_allclose(vector.get(), x.sum(axis=1))
    with pytest.raises(ArgumentError, match="X must be"):
        products.matmat(p, device.xp.ones((shape[1] + 1, 2)))
    with pytest.raises(ArgumentError, match="a CuPy array"):
        products.matmat(p, np.ones((shape[1], 2)))


def test_three_terms_of_sixteen_bits_are_the_number(device):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((50, 7)) * 10.0 ** rng.integers(-20, 20, (50, 7))).astype(np.float32)
    terms = bf16.split(device.xp, device.xp.asarray(x)).get()
    assert (terms.dtype, terms.shape) == (np.uint16, (50, 24))  # 3 x 7, and zeros
    first, second, third = (bf16.widened(terms[:, i : i + 7]).astype(float) for i in (0, 7, 14))
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
    assert [products.fastest(chip, k) for k in (1, 17)] == [way, way]
    p, X = bits.pack(chip.xp.asarray(signs((9, 70)))), chip.xp.ones((70, 3), np.float32)
    chip.launches.clear()
    found = kernels.matmat(p, X)
    assert ("unpack_bf16" in chip.launches) is (way == "bf16")
    np.testing.assert_array_equal(found[:, 0].get(), kernels.unpack(p).get().sum(axis=1))
    chip.launches.clear()
    kernels.matmat(p, X.astype(np.float64))
    assert "unpack_bf16" not in chip.launches
    chip.capability = 75
    monkeypatch.setattr(products, "_fastest", {})
    assert products.fastest(chip, 1) == "float32"


def test_tiles_shrink_when_memory_runs_out(device, monkeypatch):
    x = signs((64, 100))
    p, sizes, empty = bits.pack(device.xp.asarray(x)), [], device.xp.empty

    class Scarce:
        def __getattr__(self, name):
            return getattr(kept, name)

        def empty(self, shape, dtype):
            sizes.append(shape)
            if shape > limit:
                raise device.out_of_memory(*short)
            return empty(shape, dtype)

    short = (1, 2) if device.name != "emulated device" else ()
    products.fastest(device, 2)  # beforehand: that is measured
    kept, limit = device.xp, 2000
    ones = device.xp.ones((100, 2))
    monkeypatch.setattr(device, "xp", Scarce())
    np.testing.assert_array_equal(products.matmat(p, ones)[:, 0].get(), x.sum(axis=1))
    assert sizes == [8192, 4096, 2048, 1024]
    limit = 0
    with pytest.raises(BackendError, match="out of device memory for a product"):
        products.matmat(p, ones)


def test_scores_and_duplicates(device):
    xi = signs((6, 200))
    rng = np.random.default_rng(3)
    noisy = [np.where(rng.random((5, 200)) < rate, -row, row) for row in xi for rate in (0.01, 0.3)]
    patterns = np.concatenate([xi, -xi, *noisy]).astype(np.int8)
    V = np.linalg.qr(xi.T.astype(float))[0]
    there, wanted = device.xp.asarray(patterns), kernels.scores(patterns, V)
    np.testing.assert_allclose(
        kernels.scores(there, device.xp.asarray(V)).get(), wanted, rtol=1e-12
    )
    for known in (None, xi[:2]):
        other = None if known is None else device.xp.asarray(known)
        kept = kernels.distinct(there, wanted, overlap=0.8, known=other)
        expected = kernels.distinct(patterns, wanted, overlap=0.8, known=known)
        np.testing.assert_array_equal(kept, expected)
