"""`recover` on the processor and on the device: equal patterns, times, and copies between them."""

import os
import time
from functools import partial

import numpy as np

from hopfed import kernels, recover
from hopfed.archetypes.patterns import Patterns
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels.place import Place
from stages import NotHereError, Rows, run, the_device, torch_on

# Examples, sites, archetypes and method.
FULL = (
    (1_000, 400, 40, "auto"),
    (10_000, 1_000, 140, "auto"),
    (10_000, 1_000, 80, "layered"),
    (2_000, 50_000, 20, "auto"),
    (4_000, 50_000, 50, "auto"),
    (5_000, 100_000, 50, "auto"),
)
LARGE = (2_000, 1_000_000, 20)  # on the device only
SMALL = ((300, 100, 3, "auto"),)
# Rows, columns and classes of tables with gaps.
GRADED = ((3_000, 300, 5), (40_000, 1_000, 8))
GRADED_SMALL = ((200, 40, 2),)
GAPS = 0.2
CLOSE = 1e-3  # of means in both places: sums of float32 are added up in another order
QUALITY = 0.8
BATCH = 100  # rows drawn at a time


def work(rows: Rows) -> None:
    """Recover every case in both places, then the largest on the device alone."""
    device = the_device(rows)
    rows.add("processor", cores=len(os.sched_getaffinity(0)))
    for M, N, K, method in SMALL if rows.emulate else FULL:
        name = f"recover M = {M:,}, N = {N:,}, K = {K}, {method}"
        with rows.attempt(name):
            x = draw_examples(rademacher(K, N, _rng()), M, QUALITY, _rng())[0]
            _both(rows, device, name, x, method)
    for M, N, K in GRADED_SMALL if rows.emulate else GRADED:
        name = f"graded recover M = {M:,}, N = {N:,}, K = {K}"
        with rows.attempt(name):
            _graded(rows, name, M, N, K)
    if not rows.emulate:
        with rows.attempt("recover of the largest"):
            _large(rows, device, *LARGE)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _both(rows: Rows, device, name: str, x: np.ndarray, method: str) -> None:
    work = partial(recover, seed=0, patterns=Patterns(method=method))
    bits = kernels.pack(x)
    there = Place(0).put(bits)
    here, cpu = _timed(partial(work, bits), rows)
    found, seconds = _timed(partial(work, there), rows)
    _, with_moving = _timed(partial(work, bits, device="cuda"), rows)
    same = np.array_equal(here.patterns, found.patterns)
    times = {"cpu": cpu, "ratio": cpu / seconds, "from host": with_moving}
    rows.add(name, seconds=seconds, same=same, status=found.status, **times)
    rows.failed |= not same
    with rows.attempt(f"transfers of {name}"):
        rows.add(f"transfers of {name}", **transfers(device, partial(work, there), rows.emulate))


def _graded(rows: Rows, name: str, M: int, N: int, K: int) -> None:
    """Classes of a table with gaps, in both places."""
    rng = _rng()
    means, kinds = rng.uniform(-0.9, 0.9, (K, N)), rng.integers(0, K, M)
    x = np.where(rng.random((M, N)) < (1 + means[kinds]) / 2, 1, -1).astype(np.int8)
    x[rng.random((M, N)) < GAPS] = 0
    bits = kernels.pack_masked(x)
    there = Place(0).put(bits)
    here, cpu = _timed(lambda: recover(bits, seed=0), rows)
    found, seconds = _timed(lambda: recover(there, seed=0), rows)
    same = here.status == found.status and len(here) == len(found)
    gap = float(abs(here.graded_means - found.graded_means).max()) if same else np.inf
    more = {"classes": len(found), "status": found.status, "gap": gap}
    rows.add(name, seconds=seconds, cpu=cpu, ratio=cpu / seconds, **more)
    rows.failed |= not gap <= CLOSE


def _timed(work, rows: Rows):
    """Result and shortest seconds; what runs first compiles and is not counted."""
    best, repeats = np.inf, 1 if rows.emulate else 3
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - start)
    return found, best


def transfers(device, work, emulate: bool) -> dict[str, int]:
    """Copies from the host to the device and back during `work`, of whatever size, and launches.

    A yes or no that the host waits for is a copy to the profiler; emulated it is counted apart.
    """
    if emulate:
        before = len(device.launches)
        with device.counted() as copies:
            work()
        copies["launches"] = copies.pop("calls") + len(device.launches) - before
        return dict(copies)
    torch = torch_on()  # its profiler sees the copies of the whole process
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    if not names:
        raise NotHereError("PyTorch's profiler sees nothing on this device")
    kinds = {"up": "Memcpy HtoD", "down": "Memcpy DtoH"}
    found = {kind: sum(n.startswith(start) for n in names) for kind, start in kinds.items()}
    return found | {"launches": sum(not n.startswith("Mem") for n in names)}


def _large(rows: Rows, device, M: int, N: int, K: int) -> None:
    """Time and memory where the device alone is asked."""
    rng, xi = _rng(), rademacher(K, N, _rng())
    parts = [kernels.pack(draw_examples(xi, BATCH, QUALITY, rng)[0]) for _ in range(M // BATCH)]
    there = Place(0).put(kernels.concatenate(parts))
    pool = device.xp.get_default_memory_pool()
    found, seconds = _timed(lambda: recover(there, seed=0), rows)
    right = sum(bool((abs(found.patterns.astype(np.int32) @ p) > 0.99 * N).any()) for p in xi)
    name = f"recover M = {M:,}, N = {N:,}, K = {K}, auto"
    rows.add(name, seconds=seconds, status=found.status, found=right, pool=pool.total_bytes())


if __name__ == "__main__":
    run(work)
