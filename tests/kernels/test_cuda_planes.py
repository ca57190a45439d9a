"""Rows with gaps on a device, against the CPU: emulated, and on a GPU (`-m gpu`)."""

import kernel_oracle as reference
import numpy as np
import pytest

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.kernels import MaskedBits
from hopfed.kernels.cuda import gram
from hopfed.kernels.cuda.bits import DevicePacked
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator

SHAPES = [(1, 1), (3, 64), (130, 1), (131, 203)]


def gappy(shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([-1, 1], np.int8), shape)
    x[rng.random(shape) < 0.3] = 0
    x[0, 0] = -1
    if min(shape) > 1:
        x[-1], x[:, -1] = 0, 0
    return x


def packed(device, x):
    xp = device.xp
    return kernels.with_gaps(kernels.pack_masked(xp.asarray(x), xp.asarray(x == 0)))


@pytest.mark.parametrize("shape", SHAPES)
def test_planes_and_back(device, shape):
    x = gappy(shape)
    p = packed(device, x)
    assert isinstance(p, MaskedBits)
    assert isinstance(p.signs, DevicePacked)
    np.testing.assert_array_equal(p.signs.words.get(), reference.pack(x == 1))
    np.testing.assert_array_equal(p.seen.words.get(), reference.pack(x != 0))
    for dtype in (np.int8, np.int32, np.float32, np.float64):
        back = kernels.unpack(p, dtype)
        assert back.dtype == dtype
        np.testing.assert_array_equal(back.get(), x)
    np.testing.assert_array_equal(kernels.unpack(kernels.transpose(p)).get(), x.T)
    both = kernels.concatenate([p[:1], kernels.pack(device.xp.ones((2, shape[1]))), p])
    wanted = np.vstack([x[:1], np.ones((2, shape[1])), x])
    np.testing.assert_array_equal(kernels.unpack(both).get(), wanted)


def test_what_counts_as_missing(device):
    x, xp = gappy((20, 77)), device.xp
    nan = np.where(x == 0, np.nan, x)
    for values in (x, x.astype(np.int64), nan, nan.astype(np.float32), (nan + 1) / 2):
        np.testing.assert_array_equal(
            kernels.unpack(kernels.pack_masked(xp.asarray(values))).get(), x
        )
    complete = np.where(x == 0, 1, x)
    for values in (complete, complete > 0, (complete > 0).astype(float)):
        assert isinstance(kernels.pack_masked(xp.asarray(values)), DevicePacked)
    for bad in (5, -128):
        x[4, 65] = bad
        with pytest.raises(ArgumentError, match=f"got {bad} at row 4, column 65"):
            kernels.pack_masked(xp.asarray(x))
    with pytest.raises(ArgumentError, match="mask must be"):
        kernels.pack_masked(xp.asarray(x), xp.zeros((2, 2), bool))


@pytest.mark.parametrize("shape", SHAPES)
def test_gram_matrices_are_exact(device, monkeypatch, shape):
    monkeypatch.setattr(gram, "COLUMNS", 128)  # several blocks, the last one short
    monkeypatch.setattr(gram, "PANEL", 64)
    x, y = gappy(shape), gappy((shape[0] // 2 + 1, shape[1]), 1)
    p, q = packed(device, x), packed(device, y)
    np.testing.assert_array_equal(kernels.gram(p).get(), reference.gram(x))
    np.testing.assert_array_equal(kernels.cross_gram(p, q).get(), reference.cross_gram(x, y))


def test_the_public_functions(device):
    x = gappy((40, 150))
    p, there = packed(device, x), (x != 0).astype(int)
    np.testing.assert_array_equal(kernels.second_moment(p).get(), reference.second_moment(x))
    np.testing.assert_array_equal(kernels.column_sums(p).get(), x.sum(0, dtype=int))
    np.testing.assert_array_equal(kernels.seen_counts(p).get(), there.sum(0))
    w = np.random.default_rng(0).standard_normal(40)
    got = kernels.second_moment(p, device.xp.asarray(w)).get()
    np.testing.assert_allclose(got, reference.second_moment(x, w), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(device, monkeypatch, shape, dtype):
    monkeypatch.setattr("hopfed.kernels.cuda.products.BYTES", 1 << 15)  # several tiles
    if dtype == "bf16":
        dtype = np.float32
        monkeypatch.setattr("hopfed.kernels.cuda.products.fastest", lambda device, k: "bf16")
    x, rng = gappy(shape), np.random.default_rng(0)
    X, U = (rng.integers(-9, 9, (n, 5)).astype(dtype) for n in shape[::-1])
    p, there = packed(device, x), (x != 0).astype(int)
    complete = kernels.pack(device.xp.ones(shape))
    for columns in (slice(None), 0):
        a, b = device.xp.asarray(X[:, columns]), device.xp.asarray(U[:, columns])
        for rows, values, seen in ((p, x, there), (complete, np.ones(shape), np.ones(shape))):
            for got, wanted in (
                (kernels.matmat(rows, a), values.astype(float) @ X[:, columns]),
                (kernels.rmatmat(rows, b), values.T.astype(float) @ U[:, columns]),
                (kernels.seen_matmat(rows, a), seen @ X[:, columns]),
                (kernels.seen_rmatmat(rows, b), seen.T @ U[:, columns]),
            ):
                np.testing.assert_array_equal(got.get(), wanted)


@pytest.mark.parametrize("route", ["gram", "dense", "krylov"])
def test_a_spectrum_stays_on_the_device(device, route):
    x = gappy((40, 60))
    op = FactorOperator.from_examples(packed(device, x))
    found = eigenpairs(op, 2, route=route, width=30)
    wanted = np.linalg.eigvalsh(x.T.astype(float) @ x / len(x))[::-1][:2]
    np.testing.assert_allclose(np.asarray(found.values[:2]), wanted, rtol=1e-5)
    assert op.trace == pytest.approx((x != 0).sum() / len(x))
