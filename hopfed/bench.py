"""Benchmarks: the same work done in two ways, in one process, in turn.

A pair is a function of sizes that returns two ways, hopfed's first and the obvious one second, with
the distance of their results. Results are compared before any timing. Seconds are
the median of the samples, a ratio is that of two medians, and the spread is half the distance of
the quartiles, as a share of the median.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from timeit import timeit
from typing import Any, NamedTuple

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed.errors import BackendError, HopfedError
from hopfed.hopfield.channel import rademacher
from hopfed.kernels.place import Place, place_named
from hopfed.runs import provenance, to_json_values

SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 3, 25  # samples of each way
BUDGET = {"small": 0.5, "full": 1.0}  # seconds for the samples of one way at one size

Point = Mapping[str, int]  # a size: letter -> number


class Way(NamedTuple):
    """A way to do the work; while results are compared `quiet` takes the place of `run`."""

    label: str
    run: Callable[[], Any]
    quiet: Callable[[], Any] | None = None


class Work(NamedTuple):
    """Two ways to do the same work, the distance of their results, and the largest allowed one."""

    ways: tuple[Way, Way]
    distance: Callable[[Any, Any], float]
    tolerance: float = 0.0


def gram(rng: np.random.Generator, xp: Any, M: int, N: int) -> Work:
    """Inner products of all pairs of M examples over N sites, exactly, in two ways."""
    x = xp.asarray(rademacher(M, N, rng))
    bits, y = kernels.pack(x), x.astype(np.float32)

    def relative(a: Any, b: Any) -> float:
        a, b = to_host(a).astype(np.float64), to_host(b)
        return float(np.linalg.norm(a - b) / np.linalg.norm(a))

    return Work(
        (Way("bits", lambda: kernels.gram(bits)), Way("float32 BLAS", lambda: y @ y.T)), relative
    )


UPDATES, BETA, REPULSION = 5, 3.0, 0.2


def layered(rng: np.random.Generator, xp: Any, S: int, L: int, N: int, R: int) -> Work:
    """5 updates of S blocks of L layers of N spins, coupling of rank R, with noise, in two ways."""
    W = xp.asarray(rng.standard_normal((N, R)).astype(np.float32)) / np.float32(N**0.5)
    state = xp.asarray(rademacher(S * L, N, rng)).reshape(S, L, N)
    own, begin = (W**2).sum(axis=1), state.astype(np.float32)

    def fused(noise: float = 1.0) -> Any:
        options: dict[str, Any] = {"beta": BETA, "updates": UPDATES, "repulsion": REPULSION}
        return kernels.layered_step(state, W, noise=noise, **options).state

    def expression(noise: float = 1.0) -> Any:
        """arXiv:2603.19902, eqs. (8) to (12), written directly as large float32 products."""
        rng, s = xp.random.default_rng(0), begin
        for _ in range(UPDATES):
            A = (s.reshape(S * L, N) @ W).reshape(S, L, -1)
            overlaps = (A @ A.transpose(0, 2, 1)) * (1 - xp.eye(L, dtype=A.dtype))
            c = A - (REPULSION / N) * (overlaps @ A)
            fields = (c.reshape(S * L, -1) @ W.T).reshape(S, L, N) - own * s
            u = rng.random(s.shape, dtype=xp.float32)
            up = xp.tanh(BETA * fields) + noise * (2 * u - 1) >= 0
            s = xp.where(up, xp.float32(1), xp.float32(-1))
        return s

    def other_signs(a: Any, b: Any) -> float:
        return float(((to_host(a) >= 0) != (to_host(b) >= 0)).mean())

    ours = Way("fused", fused, partial(fused, noise=0.0))
    obvious = Way("NumPy expression", expression, partial(expression, noise=0.0))
    return Work((ours, obvious), other_signs, 1e-3)


# Name of a pair -> its function, and its sizes: small ones, which take seconds, and full ones.
PAIRS: dict[str, tuple[Callable[..., Work], dict[str, list[Point]]]] = {
    "gram": (gram, {
        "small": [{"M": M, "N": 16_000} for M in (250, 1000)],
        "full": [{"M": M, "N": 50_000} for M in (4000, 2000)],
    }),
    "layered": (layered, {
        "small": [{"S": 40, "L": 5, "N": 5000, "R": 50}],
        "full": [{"S": S, "L": 5, "N": 10_000, "R": 50} for S in (200, 400)],
    }),
}  # fmt: skip


def describe_benchmark(name: str) -> str:
    """Description of a benchmark in a line: its docstring."""
    return (PAIRS[name][0].__doc__ or "").rstrip(".")


def describe_machine() -> dict[str, str]:
    """The machine of benchmarks: processor, cores, threads, memory, GPU, versions of libraries."""
    from threadpoolctl import threadpool_info

    from hopfed.kernels.cpu.threads import thread_count

    np.zeros((2, 2)) @ np.zeros((2, 2))  # loads BLAS, so that it is listed
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = {f"{p['internal_api']} {p.get('version')}, threads: {p['num_threads']}" for p in pools}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        gpu = Place(0).open().name
    except BackendError as error:
        gpu = f"not yet measured: {error}"
    processor, memory = platform.processor() or "unknown", 0
    with suppress(OSError, AttributeError, ValueError):  # no Linux, no Unix
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    return {
        "processor": f"{processor} ({platform.machine()})",
        "cores": str(cores or 1),
        "kernel threads": str(thread_count()),
        "memory": f"{memory / 2**30:.0f} GiB",
        "BLAS": "; ".join(sorted(blas)) or "unknown",
        "GPU": gpu,
        **{k: v for k, v in provenance().items() if k != "machine"},
    }


def measure_point(
    name: str, work: Callable[..., Work], point: Point, device: str, budget: float
) -> list[dict[str, Any]]:
    """Rows of a benchmark's two ways on the same data: run once to compare, then in turn for times.

    Calls are made in turn, so that a disturbance affects both alike; `budget` is seconds for all
    samples of one. Raises HopfedError, without times, where the results differ.
    """
    there = place_named(device).open()
    wait: Callable[[], Any] = int if there is None else there.synchronize
    made = work(stream(0, "bench", name), np if there is None else there.xp, **point)
    results = [(way.quiet or way.run)() for way in made.ways]
    gap = float(made.distance(*results))
    if not gap <= made.tolerance:
        raise HopfedError(
            f"{name} at {size_text(point)}: {' and '.join(way.label for way in made.ways)} differ "
            f"by {gap:.3g}, more than {made.tolerance:g}; no time was measured"
        )

    def sample(way: Way, number: int) -> float:
        """Seconds of a call, as the mean of `number` calls in a row."""
        return timeit(lambda: (way.run(), wait()), wait, number=number) / number

    repeats = [max(1, round(SAMPLE / max(sample(way, 1), 1e-7))) for way in made.ways]
    taken: list[list[float]] = []
    end = time.perf_counter() + budget * len(made.ways)
    while len(taken) < LEAST or (len(taken) < MOST and time.perf_counter() < end):
        taken.append([sample(*each) for each in zip(made.ways, repeats, strict=True)])
    low, middle, high = np.quantile(taken, (0.25, 0.5, 0.75), axis=0)
    held = zip(made.ways, middle.tolist(), ((high - low) / 2 / middle).tolist(), strict=True)
    return [
        {"device": device.partition(":")[0], "point": dict(point), "way": way.label}
        | {"seconds": seconds, "spread": spread, "ratio": middle[1] / seconds}
        | {"gap": gap if k else None}
        for k, (way, seconds, spread) in enumerate(held)
    ]


def size_text(point: Point) -> str:
    """Sizes of a benchmark as a text, such as M = 4,000, N = 50,000."""
    return ", ".join(f"{letter} = {value:,}" for letter, value in point.items())


def measure(
    names: Sequence[str],
    sizes: str,
    tell: Callable[[str], Any] = lambda _: None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure benchmarks, pairs of ways to do work; return the "machine", "benchmarks" by name."""
    found = {}
    for name in names:
        rows: list[dict[str, Any]] = []
        work, points = PAIRS[name]
        for point in points[sizes]:
            tell(f"{name}: {size_text(point)}")
            rows += measure_point(name, work, point, device, BUDGET[sizes])
        found[name] = {"summary": describe_benchmark(name), "rows": rows}
    return dict(to_json_values({"machine": describe_machine(), "benchmarks": found}))
