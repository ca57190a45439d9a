"""Benchmarks: the same work done in two or more ways, in one process, in turn.

A pair is a function: sizes go in; ways come out, hopfed's first and the obvious one second, with
the distance of two results. Before anything is timed the results are compared. Seconds are the
median of the samples, a ratio is that of two medians, and the spread is half the distance of the
quartiles, as a share of the median.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.random import stream
from hopfed.errors import BackendError, HopfedError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels.place import Place, place
from hopfed.runs import plain, provenance
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import FactorOperator

QUALITY = 0.8
SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 3, 25  # samples of each way
BUDGET = {"small": 0.5, "full": 1.0}  # seconds for the samples of one way at one size

Point = Mapping[str, int]  # a size: letter -> number

# Of each pair its letters, small sizes, which take seconds, and full ones.
_SIZES = (
    ("gram", "M N", [(250, 16_000), (1000, 16_000)], [(4000, 50_000), (2000, 50_000)]),
    ("products", "M N k", [(1000, 16_000, 20)], [(4000, 50_000, 50), (4000, 50_000, 100)]),
    ("layered", "S L N R", [(40, 5, 5000, 50)], [(200, 5, 10_000, 50), (400, 5, 10_000, 50)]),
    ("heatbath", "S N R", [(24, 1000, 100)], [(128, 2000, 140), (512, 2000, 140)]),
    ("eig", "M N K", [(400, 4000, 20)], [(500, 25_000, 20), (1000, 100_000, 20)]),
)
PAIRS: dict[str, dict[str, list[Point]]] = {
    name: {
        which: [dict(zip(letters.split(), size, strict=True)) for size in sizes]
        for which, sizes in (("small", small), ("full", full))
    }
    for name, letters, small, full in _SIZES
}
NAMES = (*PAIRS, "all")


class Way(NamedTuple):
    """One way to do the work.

    `run` is timed, on what `prepare` returns; while results are compared `quiet` takes its place. A
    result may be `tolerance` off that of the first way.
    """

    label: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    tolerance: float = 0.0
    quiet: Callable[[Any], Any] | None = None


# The distance of two results, 0 where they are equal, and ways to do the same.
Work = tuple[Callable[[Any, Any], float], Sequence[Way]]


@dataclass(frozen=True)
class Draw:
    """What a pair draws its inputs from, and the library whose arrays they are."""

    rng: np.random.Generator
    xp: ModuleType = np

    def signs(self, M: int, N: int) -> Any:
        """Fair signs, int8."""
        return self.xp.asarray(rademacher(M, N, self.rng))

    def normal(self, *shape: int) -> Any:
        """Gaussian numbers, float32."""
        return self.xp.asarray(self.rng.standard_normal(shape).astype(np.float32))


def works(name: str) -> Callable[..., Work]:
    """The function that is the pair `name`."""
    return cast("Callable[..., Work]", globals()[f"_{name}"])


def summary(name: str) -> str:
    """What a benchmark is, in a line: the first of its docstring."""
    if name not in PAIRS:
        return "all of them"
    return (works(name).__doc__ or "").partition("\n")[0].rstrip(".")


def relative(a: Any, b: Any) -> float:
    """Norm of the difference, divided by that of the first."""
    a, b = to_host(a).astype(np.float64), to_host(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def other_signs(a: Any, b: Any) -> float:
    """Share of the entries that have another sign."""
    return float(((to_host(a) >= 0) != (to_host(b) >= 0)).mean())


def _gram(draw: Draw, M: int, N: int) -> Work:
    """Inner products of all pairs of M examples over N sites, exactly."""
    x = draw.signs(M, N)
    bits = Way("bits", kernels.gram, lambda: kernels.pack(x))
    return relative, (bits, Way("float32 BLAS", lambda y: y @ y.T, lambda: _float32(x)))


def _float32(x: Any) -> Any:
    return x.astype(np.float32)


def _products(draw: Draw, M: int, N: int, k: int) -> Work:
    """The operator of M examples over N sites on a thin matrix of k columns."""
    x, X = draw.signs(M, N), draw.normal(N, k)

    def multiplied(y: Any) -> Any:
        return y.T @ (y @ X) / np.float32(len(y))

    ways = (
        Way("bits", lambda one: one.matmat(X), lambda: FactorOperator.from_examples(x)),
        Way("float32 copy held", multiplied, lambda: _float32(x), 1e-5),
        Way("int8, converted", lambda _: multiplied(_float32(x)), tolerance=1e-5),
    )
    return relative, ways


UPDATES, BETA, REPULSION = 5, 3.0, 0.2
COLD = 1e8  # inverse temperature at which random numbers have no effect


def _layered(draw: Draw, S: int, L: int, N: int, R: int) -> Work:
    """5 updates of S blocks of L layers of N spins, coupling of rank R, with noise."""
    W, state, xp = draw.normal(N, R) / np.float32(N**0.5), draw.signs(S * L, N), draw.xp
    state, own = state.reshape(S, L, N), (W**2).sum(axis=1)

    def fused(_: Any, noise: float = 1.0) -> Any:
        options: dict[str, Any] = {"beta": BETA, "updates": UPDATES, "repulsion": REPULSION}
        return kernels.layered_step(state, W, noise=noise, **options).state

    def expression(s: Any, noise: float = 1.0) -> Any:
        """arXiv:2603.19902, eqs. (8) to (12), written directly as large float32 products."""
        rng = xp.random.default_rng(0)
        for _ in range(UPDATES):
            A = (s.reshape(S * L, N) @ W).reshape(S, L, -1)
            overlaps = (A @ A.transpose(0, 2, 1)) * (1 - xp.eye(L, dtype=A.dtype))
            c = A - (REPULSION / N) * (overlaps @ A)
            fields = (c.reshape(S * L, -1) @ W.T).reshape(S, L, N) - own * s
            u = rng.random(s.shape, dtype=xp.float32)
            up = xp.tanh(BETA * fields) + noise * (2 * u - 1) >= 0
            s = xp.where(up, xp.float32(1), xp.float32(-1))
        return s

    ours = Way("fused", fused, quiet=partial(fused, noise=0.0))
    calm = partial(expression, noise=0.0)
    obvious = Way("NumPy expression", expression, lambda: _float32(state), 1e-3, quiet=calm)
    return other_signs, (ours, obvious)


def _heatbath(draw: Draw, S: int, N: int, R: int) -> Work:
    """5 serial heat-bath sweeps of S chains of N spins, coupling of rank R."""
    W, state, xp = draw.normal(N, R) / np.float32(N**0.5), draw.signs(S, N), draw.xp

    def kernel(_: Any, beta: float = BETA) -> Any:
        return kernels.heat_bath(state, W, beta=beta, sweeps=UPDATES, seed=0).state

    def by_site(_: Any, beta: float = BETA) -> Any:
        """Update all chains together, site by site, and keep the coefficients up to date."""
        rng, s = xp.random.default_rng(0), _float32(state.T)  # rows are contiguous
        A, own = s.T @ W, (W * W).sum(axis=1)
        for _ in range(UPDATES):
            u = rng.random(s.shape, dtype=np.float32)
            for i in range(N):
                fields = A @ W[i] - own[i] * s[i]
                new = _float32(xp.where(u[i] < (1 + xp.tanh(beta * fields)) / 2, 1, -1))
                A += (new - s[i])[:, None] * W[i]
                s[i] = new
        return s.T.astype(np.int8)

    # Rounding of a field near 0 may flip one spin, which may flip others.
    cold = partial(by_site, beta=COLD)
    obvious = Way("NumPy, site by site", by_site, tolerance=0.01, quiet=cold)
    return other_signs, (Way("kernel", kernel, quiet=partial(kernel, beta=COLD)), obvious)


def _eig(draw: Draw, M: int, N: int, K: int) -> Work:
    """The K leading eigenpairs of the operator of M examples over N sites."""
    from scipy.sparse.linalg import svds

    x = draw.xp.asarray(draw_examples(rademacher(K, N, draw.rng), M, QUALITY, draw.rng)[0])

    def route(name: str, operator: Any) -> tuple[Any, Any]:
        found = eigenpairs(operator, K, route=name, width=64)
        return found.values[:K], found.vectors

    def leading(y: Any) -> tuple[Any, Any]:
        _, s, vectors = svds(y, K, random_state=0)
        return s[::-1] ** 2 / M, vectors[::-1].T

    def missed(a: Any, b: Any) -> float:
        """Distance of the values, or the missed part of the subspace, whichever is larger."""
        values = np.abs(a[0] - b[0]).max() / a[0][0]
        return float(max(values, 1 - np.sum((to_host(a[1]).T @ to_host(b[1])) ** 2) / K))

    factors = partial(FactorOperator.from_examples, x)
    ways = (
        Way("Gram route", partial(route, "gram"), factors),
        Way("SciPy svds", leading, lambda: _float32(x), 1e-4),
        # It stops when the angles to the eigenvectors are about 0.03.
        Way("Krylov route", partial(route, "krylov"), factors, 1e-2),
    )
    return missed, ways


def describe() -> dict[str, str]:
    """Processor, cores, threads in use, memory, GPU, and versions of the libraries."""
    from threadpoolctl import threadpool_info

    from hopfed.kernels.cpu.threads import thread_count

    def entry(file: str, name: str) -> str:
        """The text after ``name:`` in the first such line of a file; empty if there is none."""
        try:
            lines = Path(file).read_text().splitlines()
        except OSError:
            return ""
        found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
        return next(found, "")

    np.zeros((2, 2)) @ np.zeros((2, 2))  # loads BLAS, so that it is listed
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = {f"{p['internal_api']} {p.get('version')}, threads: {p['num_threads']}" for p in pools}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        gpu = Place(0).open().name
    except BackendError as error:
        gpu = f"not yet measured: {error}"
    processor = entry("/proc/cpuinfo", "model name") or platform.processor() or "unknown"
    memory = int(entry("/proc/meminfo", "MemTotal").partition(" ")[0] or 0) / 2**20
    return {
        "processor": f"{processor} ({platform.machine()})",
        "cores": str(cores or 1),
        "kernel threads": str(thread_count()),
        "memory": f"{memory:.0f} GiB",
        "BLAS": "; ".join(sorted(blas)) or "unknown",
        "GPU": gpu,
        **{k: v for k, v in provenance().items() if k != "machine"},
    }


def samples(
    calls: Mapping[str, Callable[[], Any]], budget: float, wait: Callable[[], Any] = int
) -> dict[str, list[float]]:
    """Times of calls that are made in turn, so that a disturbance affects all of them alike.

    Each was made before, so that nothing is compiled here; `budget` is seconds for all samples of
    one, of which there are `LEAST` in any case.
    """

    def sample(name: str, repeats: int) -> float:
        """Seconds of a call, as the mean of `repeats` calls in a row."""
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            calls[name]()
        wait()
        return (time.perf_counter() - start) / repeats

    repeats = {name: max(1, round(SAMPLE / max(sample(name, 1), 1e-7))) for name in calls}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + budget * len(calls)
    for k in range(MOST):
        if k >= LEAST and time.perf_counter() > end:
            break
        for name in calls:
            taken[name].append(sample(name, repeats[name]))
    return taken


def measure_point(
    name: str, work: Callable[..., Work], point: Point, device: str, budget: float
) -> list[dict[str, Any]]:
    """Rows of all ways on the same data: run once to compare the results, then in turn to time.

    Two ways that must agree and differ are a HopfedError; then no times are reported.
    """
    there = place(device).open()
    draw = Draw(stream(0, "bench", name), np if there is None else there.xp)
    distance, ways = work(draw, **point)
    rows, calls, first = [], dict[str, Callable[[], Any]](), None
    nothing = dict.fromkeys(("seconds", "spread", "ratio", "gap"))
    for way in ways:
        row: dict[str, Any] = {"device": device.partition(":")[0], "way": way.label} | nothing
        rows.append(row | {"point": dict(point), "absent": ""})
        try:
            inputs = way.prepare()
            result = (way.quiet or way.run)(inputs)
        except (HopfedError, TypeError, MemoryError) as error:
            if there is None and not isinstance(error, MemoryError):
                raise  # the same on the processor is a fault of the benchmark
            rows[-1]["absent"] = f"cannot be run here: {error}"
            continue
        if calls:
            rows[-1]["gap"] = gap = float(distance(first, result))
            if not gap <= way.tolerance:
                raise HopfedError(
                    f"{name} at {words(point)}: {way.label} and {ways[0].label} differ by "
                    f"{gap:.3g}, more than {way.tolerance:g}; no time was taken"
                )
        else:
            first = result
        calls[way.label] = partial(way.run, inputs)
    taken = samples(calls, budget, int if there is None else there.synchronize)
    obvious = taken.get(ways[1].label)
    for row in (row for row in rows if row["way"] in taken):
        low, row["seconds"], high = np.quantile(taken[row["way"]], (0.25, 0.5, 0.75)).tolist()
        row["spread"] = (high - low) / 2 / row["seconds"]
        row["ratio"] = None if obvious is None else float(np.median(obvious)) / row["seconds"]
    return rows


def words(point: Point) -> str:
    """Sizes as a text, such as M = 4,000, N = 50,000."""
    return ", ".join(f"{letter} = {value:,}" for letter, value in point.items())


def measure(
    names: Sequence[str],
    sizes: str,
    tell: Callable[[str], Any] = lambda _: None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure pairs: "machine", and "benchmarks" by name."""
    found = {}
    for name in names:
        rows: list[dict[str, Any]] = []
        for point in PAIRS[name][sizes]:
            tell(f"{name}: {words(point)}")
            rows += measure_point(name, works(name), point, device, BUDGET[sizes])
        found[name] = {"summary": summary(name), "rows": rows}
    return dict(plain({"machine": describe(), "benchmarks": found}))
