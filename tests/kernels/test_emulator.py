"""The emulated device notices what a device would suffer from: the test of the tests of kernels."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from emulator import device as emulator
from emulator.device import BARRIER, ORDER, ORDERS, WITHOUT, Emulated
from helpers import rest_slow

from hopfed.errors import BackendError
from hopfed.kernels import pack
from hopfed.kernels.cuda import gram
from hopfed.kernels.cuda.device import FOLDER

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="no C++ compiler"
)

TESTS = os.path.dirname(__file__)
FILES = {  # module -> tests of its kernels
    "bits": "test_cuda_rows.py",
    "gram": "test_cuda_rows.py",
    "heatbath": "test_cuda_dynamics.py",
    "products": "test_cuda_rows.py",
    "layered": "test_cuda_dynamics.py",
}


def barriers():
    """All barriers, as ``module:number``."""
    for path in sorted(FOLDER.glob("*.cu")):
        found = BARRIER.findall(path.read_text(encoding="utf-8"))
        yield from (f"{path.stem}:{number}" for number in range(len(found)))


def passes(file, **environment):
    """Whether the tests of a file pass on the emulated device; what never ends does not."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not gpu and not slow"]
    command += ["-p", "no:cacheprovider", *(os.path.join(TESTS, name) for name in file.split())]
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, timeout=900
        )
    except subprocess.TimeoutExpired:
        return False
    assert done.returncode in (0, 1), done.stdout.decode()[-2000:]
    return done.returncode == 0


def test_a_launch_is_one_that_a_device_can_start():
    device = Emulated()
    x, n = device.xp.zeros((2, 1), np.uint64), np.int64(2)
    counts = device.xp.zeros(2, np.int32)
    for args, grid, threads, words in (
        ((x,), (1, 1), 32, "takes 4 arguments, got 1"),
        ((x, n, n, counts.astype(np.float32)), (1, 1), 32, r"argument 3 of count_rows is int\*"),
        ((x, np.int32(2), n, counts), (1, 1), 32, "argument 1 of count_rows is i64, got int32"),
        ((x, n, n, counts), (0, 1), 32, "cannot start"),
        ((x, n, n, counts), (1, 1 << 16), 32, "cannot start"),
        ((x, n, n, counts), (1, 1), 33, "cannot start"),
    ):
        with pytest.raises(BackendError, match=words):
            device.launch("bits", "count_rows", grid, args, threads)


def _gram(device, x):
    return gram.inner_products(pack(device.xp.asarray(x)).signs, None, x.shape[1], "bits").get()


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_threads_gives_the_same(order):
    device = Emulated(order=order)
    x = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (70, 300))
    found = _gram(device, x)
    assert np.array_equal(found, x.astype(np.int32) @ x.T.astype(np.int32))


@pytest.mark.parametrize("still", [0, 1])
def test_blocks_stay_active_that_go_on(still):
    device, rng, n = Emulated(), np.random.default_rng(1), 700  # more than threads
    active, moved = rng.integers(0, 2, n, np.uint32), rng.integers(0, 3, n).astype(np.uint64)
    host = active, np.zeros(n, np.int64), moved, np.zeros(n, np.int64)
    there = [device.xp.asarray(x.copy()) for x in host]
    device.launch("layered", "layered_advance", (3, 1), (np.int64(n), np.int32(still), *there))
    goes_on = active * (moved > 0) if still else active
    due = goes_on, active, np.zeros(n), np.where(active, moved, 0)
    for found, wanted in zip(there, due, strict=True):
        np.testing.assert_array_equal(found.get(), wanted)


@pytest.fixture
def without(monkeypatch):
    """Leave out a barrier, named as by `barriers`."""

    def leave_out(barrier):
        monkeypatch.setenv(WITHOUT, barrier)
        emulator._library.cache_clear()

    yield leave_out
    emulator._library.cache_clear()


@pytest.mark.parametrize("order", rest_slow(ORDERS, 1))
@pytest.mark.parametrize("left_out", ["gram:0", "gram:1"])
def test_words_that_were_not_waited_for_are_noticed(without, left_out, order):
    """They come as late as they may: at the wait that is there; to other threads, at a barrier."""
    x = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), (70, 1_300))
    without(left_out)
    found = _gram(Emulated(order=order), x)
    assert not np.array_equal(found, x.astype(np.int32) @ x.T.astype(np.int32))


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("file", sorted({f.split()[0] for f in FILES.values()}))
def test_all_kernels_in_any_order_of_threads(file, order):
    assert passes(file, **{ORDER: order})


@pytest.mark.slow
@pytest.mark.parametrize("barrier", list(barriers()))
def test_each_barrier_is_needed(barrier):
    assert not all(
        passes(FILES[barrier.split(":")[0]], **{ORDER: order, WITHOUT: barrier}) for order in ORDERS
    )
