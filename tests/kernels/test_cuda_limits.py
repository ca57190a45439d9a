"""What a chip has room for: shared memory of a block, and tiles, which are counted in bytes."""

import types

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed.kernels.bits import n_words
from hopfed.kernels.cuda import device as devices
from hopfed.kernels.cuda import gram, products
from hopfed.kernels.cuda.bits import DevicePacked

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20
STATIC = 4 * 32 * 4 + 2 * 4  # bytes that a kernel declares


class Kernel:
    """A kernel of CuPy on a chip that gives a block no more than it asked for."""

    shared_size_bytes = STATIC
    max_dynamic_shared_size_bytes = None

    def __call__(self, grid, block, args, shared_mem):
        asked = self.max_dynamic_shared_size_bytes
        most = 48 * KILOBYTE - STATIC if asked is None else asked
        if shared_mem > most:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")


@pytest.mark.parametrize("rank", [16, 12_144, 12_160, 12_272, 12_288, 12_304, 40_000])
def test_a_block_gets_what_it_declares_and_what_it_is_given(rank):
    device = object.__new__(devices.Cuda)
    module = types.SimpleNamespace(get_function=lambda name: Kernel())
    device.xp = types.SimpleNamespace(RawModule=lambda **options: module)
    device._modules, device._kernels = {}, {}
    device.launch("heatbath", "heat_bath", (1, 1), (), 128, shared=4 * rank)


@pytest.fixture
def idle(monkeypatch):
    """A device that allocates and computes nothing, and the bytes of every tile that is filled."""
    device, filled = Emulated(), []

    def fill(p, rows, words, out, seen):
        filled.append(out.nbytes)

    for module in (products, gram):
        monkeypatch.setattr(module, "unpack_into", fill)
    monkeypatch.setattr(device, "gemm", lambda *args, **options: None)
    monkeypatch.setattr(device, "launch", lambda *args, **options: None)
    return device, filled


def rows_of(device, m, n):
    return DevicePacked(device.xp.zeros((m, n_words(n)), np.uint64), n)


@pytest.mark.parametrize("method", [None, *products.METHODS])
@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_of_products_fit_the_cache_in_any_precision(idle, method, transposed):
    device, filled = idle
    p = rows_of(device, 40_000, 4_096)
    work, rows = (products.rmatmat, 40_000) if transposed else (products.matmat, 4_096)
    work(p, device.xp.zeros((rows, 1), np.float32 if method else np.float64), method=method)
    assert 16 * MEGABYTE < max(filled) <= 32 * MEGABYTE


def test_tiles_of_bytes_do_not_grow_with_the_rows(idle):
    device, filled = idle
    gram.cross_gram(rows_of(device, 60_000, 1 << 14), rows_of(device, 3, 1 << 14), "int8")
    assert 128 * MEGABYTE < max(filled) <= 256 * MEGABYTE


def test_weighted_rows_are_counted_in_bytes(idle):
    device, _ = idle
    m, n, sizes = 1 << 18, 1_000, []

    def unpacked(rows):
        sizes.append(min(rows.stop, m) - rows.start)
        return device.xp.zeros((1, 1))

    p = types.SimpleNamespace(shape=(m, n), device=device)
    gram.weighted_sum(p, device.xp.zeros(m), unpacked)
    assert sum(sizes) == m
    assert 128 * MEGABYTE < 8 * n * max(sizes) <= 256 * MEGABYTE
