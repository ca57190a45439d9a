"""What a chip has room for: shared memory of a block, and tiles, which are counted in bytes."""

import types

import numpy as np
import pytest
from emulator.device import Emulated

from hopfed.kernels.bits import n_words
from hopfed.kernels.cuda import device as devices
from hopfed.kernels.cuda import gram, products

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

    def fill(signs, seen, n, rows, words, out):
        filled.append(out.nbytes)

    for module in (products, gram):
        monkeypatch.setattr(module, "unpack_into", fill)
    monkeypatch.setattr(device, "gemm", lambda *args, **options: None)
    monkeypatch.setattr(device, "launch", lambda *args, **options: None)
    return device, filled


@pytest.mark.parametrize("method", [None, *products.METHODS])
@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_of_products_fit_the_cache_in_any_precision(idle, method, transposed):
    device, filled = idle
    words = device.xp.zeros((40_000, n_words(4_096)), np.uint64)
    X = device.xp.zeros((40_000 if transposed else 4_096, 1), np.float32 if method else np.float64)
    products.product(words, None, 4_096, X, transposed, method)
    assert 16 * MEGABYTE < max(filled) <= 32 * MEGABYTE


def test_tiles_of_bytes_do_not_grow_with_the_rows(idle):
    device, filled = idle
    words = device.xp.zeros((20_000, n_words(1 << 14)), np.uint64)
    gram.inner_products(words, None, 1 << 14, "int8")
    assert 128 * MEGABYTE < max(filled) <= 256 * MEGABYTE
