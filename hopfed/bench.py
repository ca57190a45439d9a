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
from hopfed._lib.arrays import namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import BackendError, HopfedError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels.place import Place, place
from hopfed.recovery.recover import recover
from hopfed.runs import plain, provenance
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator

QUALITY = 0.8
SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 3, 25  # samples of each way
BUDGET = {"small": 0.5, "full": 1.0}  # seconds for the samples of one way at one size

Point = Mapping[str, int]  # a size: letter -> number

# Of each pair small sizes, which take seconds, and full ones.
_PAIRS = """
gram: M=250 N=16000, M=1000 N=16000: M=4000 N=50000, M=2000 N=50000
build: M=16000 N=500: M=50000 N=1000, M=50000 N=2000
products: M=1000 N=16000 k=20: M=4000 N=50000 k=50, M=4000 N=50000 k=100
layered: S=40 L=5 N=5000 R=50: S=200 L=5 N=10000 R=50, S=400 L=5 N=10000 R=50
heatbath: S=24 N=1000 R=100: S=128 N=2000 R=140, S=512 N=2000 R=140
gaps-gram: M=1000 N=16000: M=4000 N=50000
eig: M=400 N=4000 K=20: M=500 N=25000 K=20, M=1000 N=100000 K=20
dream: M=200 N=500, M=200 N=1000: M=200 N=4000, M=1000 N=4000
e2e: M=500 N=500 K=4, M=500 N=4000 K=4: M=1000 N=500 K=4, M=1000 N=64000 K=4
"""
PAIRS = {name: sizes for name, *sizes in (line.split(":") for line in _PAIRS.strip().splitlines())}
NAMES = (*PAIRS, "all")


class Way(NamedTuple):
    """One way to do the work.

    `run` is timed, on what `prepare` returns; while results are compared `quiet` takes its place. A
    result may be `tolerance` off that of the first way, None for any. Above `most` it is left out.
    """

    label: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    tolerance: float | None = 0.0
    most: Point | None = None
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

    def examples(self, M: int, N: int, K: int) -> Any:
        """M examples of K archetypes over N sites."""
        rows = draw_examples(rademacher(K, N, self.rng), M, QUALITY, self.rng)[0]
        return self.xp.asarray(rows)

    def normal(self, *shape: int, dtype: Any = np.float32) -> Any:
        """Gaussian numbers."""
        return self.xp.asarray(self.rng.standard_normal(shape).astype(dtype))


def points(name: str, sizes: str) -> list[dict[str, int]]:
    """Sizes of a pair, "small" or "full"."""
    text = PAIRS[name][0 if sizes == "small" else 1]
    pairs = ([word.split("=") for word in size.split()] for size in text.split(","))
    return [{letter: int(number) for letter, number in each} for each in pairs]


def works(name: str) -> Callable[..., Work]:
    """The function that is the pair `name`."""
    return cast("Callable[..., Work]", globals()[f"_{name.replace('-', '_')}"])


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


def not_found(a: np.ndarray, b: np.ndarray) -> float:
    """1 minus the mean overlap of the patterns of `a` with the nearest ones of `b`."""
    return float(1 - retrieval(b, a).magnetisation.mean()) if len(a) and len(b) else 1.0


def _gram(draw: Draw, M: int, N: int) -> Work:
    """Inner products of all pairs of M examples over N sites, exactly."""
    x = draw.signs(M, N)
    bits = Way("bits", kernels.gram, lambda: kernels.pack(x))
    return relative, (bits, Way("float32 BLAS", lambda y: y @ y.T, lambda: _float32(x)))


def _float32(x: Any) -> Any:
    return x.astype(np.float32)


def _build(draw: Draw, M: int, N: int) -> Work:
    """N x N operator of M examples held as int8, packing included, exactly."""
    x = draw.signs(M, N)
    ours = Way("DenseOperator", lambda _: DenseOperator.from_examples(x).matrix)
    return relative, (ours, Way("float32 BLAS", lambda _: (lambda y: y.T @ y)(_float32(x))))


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


def _gaps_gram(draw: Draw, M: int, N: int) -> Work:
    """Inner products of all pairs of M examples over N sites, as if they had gaps."""
    rows = kernels.pack(draw.signs(M, N))  # in two planes of bits; none is missing
    two = Way("two planes", kernels.gram, lambda: kernels.with_gaps(rows))
    return relative, (two, Way("complete rows", kernels.gram, lambda: rows))


# Spectra


def _eig(draw: Draw, M: int, N: int, K: int) -> Work:
    """The K leading eigenpairs of the operator of M examples over N sites."""
    from scipy.sparse.linalg import svds

    x = draw.examples(M, N, K)

    def route(name: str, operator: Any) -> tuple[Any, Any]:
        found = eigenpairs(operator, K, route=name, width=64)
        return found.values[:K], found.vectors

    def svd(y: Any) -> tuple[Any, Any]:
        _, s, vectors = namespace(y).linalg.svd(y, full_matrices=False)
        return to_host(s[:K]) ** 2 / M, vectors[:K].T

    def leading(y: Any) -> tuple[Any, Any]:
        _, s, vectors = svds(y, K, random_state=0)
        return s[::-1] ** 2 / M, vectors[::-1].T

    def missed(a: Any, b: Any) -> float:
        """Distance of the values, or the missed part of the subspace, whichever is larger."""
        values = np.abs(a[0] - b[0]).max() / a[0][0]
        return float(max(values, 1 - np.sum((to_host(a[1]).T @ to_host(b[1])) ** 2) / K))

    factors, single = partial(FactorOperator.from_examples, x), partial(_float32, x)
    ways = (
        Way("Gram route", partial(route, "gram"), factors),
        Way("NumPy svd", svd, single, 1e-4, {"M": 1000, "N": 25_000}),
        # It stops when the angles to the eigenvectors are about 0.03.
        Way("Krylov route", partial(route, "krylov"), factors, 1e-2),
        Way("SciPy svds", leading, single, 1e-4),
    )
    return missed, ways


STEPS, EPS = 200, 0.01  # as in arXiv:2603.19902, eq. (17); the dreaming time is 2


def _dream(draw: Draw, M: int, N: int) -> Work:
    """The operator of M examples sharpened for t = 2, applied to 8 columns."""
    x, X, t = draw.examples(M, N, 10), draw.normal(N, 8, dtype=np.float64), STEPS * EPS

    def thin(p: Any) -> Any:
        xp, unit = namespace(X), M * N
        G = xp.eye(M) + t / unit * xp.astype(kernels.gram(p), xp.float64)
        return (1 + t) / unit * kernels.rmatmat(p, xp.linalg.solve(G, kernels.matmat(p, X)))

    def solve(y: Any) -> Any:
        J, xp = y.T @ y / y.size, namespace(y)
        return xp.linalg.solve(xp.eye(N) + t * J, (1 + t) * (J @ X))

    def steps(y: Any) -> Any:
        J = y.T @ y / y.size
        for n in range(STEPS):
            J = J + EPS / (1 + EPS * n) * (J - J @ J)
        return J @ X

    dense = partial(x.astype, np.float64)
    ways = (
        Way("thin factor", thin, lambda: kernels.pack(x)),
        Way("dense solve", solve, dense, 1e-8, {"N": 4000}),
        Way("the paper's 200 steps", steps, dense, 1e-2, {"N": 500}),  # their error is of order eps
    )
    return relative, ways


# Recoveries


def _e2e(draw: Draw, M: int, N: int, K: int) -> Work:
    """From M examples over N sites to archetypes; only k-means is told their number K."""
    from sklearn.cluster import KMeans

    from hopfed.experiments.shared.published import published_patterns
    from hopfed.experiments.shared.statistics import counted_spectrum

    x = draw.examples(M, N, K)

    def k_means(_: Any) -> np.ndarray:
        found = KMeans(K, random_state=0).fit(_float32(x))
        return np.where(found.cluster_centers_ >= 0, 1, -1)

    def published(_: Any) -> np.ndarray:
        found = counted_spectrum(DenseOperator.from_examples(x), M)
        return published_patterns(*found, seed=0)

    ways = (
        Way("recover", lambda rows: recover(rows, seed=0).patterns, lambda: x),
        Way("the paper's, dense", published, tolerance=None, most={"N": 4000}),
        Way("k-means on raw data", k_means, tolerance=None),
    )
    return not_found, ways


def describe() -> dict[str, str]:
    """Processor, cores, threads in use, memory, GPU, and versions of the libraries."""
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
    processor = _entry("/proc/cpuinfo", "model name") or platform.processor() or "unknown"
    memory = int(_entry("/proc/meminfo", "MemTotal").partition(" ")[0] or 0) / 2**20
    return {
        "processor": f"{processor} ({platform.machine()})",
        "cores": str(cores or 1),
        "kernel threads": str(thread_count()),
        "memory": f"{memory:.0f} GiB",
        "BLAS": "; ".join(sorted(blas)) or "unknown",
        "GPU": gpu,
        **{k: v for k, v in provenance().items() if k != "machine"},
    }


def _entry(file: str, name: str) -> str:
    """Return the text after ``name:`` in the first such line of a file; empty if there is none."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(found, "")


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

    def wanted(name: str) -> bool:
        number, spent = len(taken[name]), sum(taken[name]) * repeats[name]
        return number < LEAST or (number < MOST and spent < budget)

    while pending := [name for name in calls if wanted(name)]:
        for name in pending:
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
        if over := [letter for letter, most in (way.most or {}).items() if point[letter] > most]:
            rows[-1]["absent"] = f"takes too long at this {over[0]}"
            continue
        try:
            inputs = way.prepare()
            result = (way.quiet or way.run)(inputs)
        except MemoryError:
            rows[-1]["absent"] = "out of memory"
            continue
        except (HopfedError, TypeError) as error:
            if there is None:
                raise  # the same on the processor is a fault of the benchmark
            rows[-1]["absent"] = f"does not take these arrays: {error}"
            continue
        if calls:
            rows[-1]["gap"] = gap = float(distance(first, result))
            if way.tolerance is not None and not gap <= way.tolerance:
                raise HopfedError(
                    f"{name} at {words(point)}: {way.label} and {ways[0].label} differ by "
                    f"{gap:.3g}, more than {way.tolerance:g}; no time was taken"
                )
        else:
            first = result
        calls[way.label] = partial(way.run, inputs)
    taken = samples(calls, budget, int if there is None else there.synchronize)
    medians = {label: float(np.median(times)) for label, times in taken.items()}
    obvious = medians.get(ways[1].label)
    for row in (row for row in rows if row["way"] in taken):
        row["seconds"] = seconds = medians[row["way"]]
        low, high = np.quantile(taken[row["way"]], (0.25, 0.75))
        row["spread"] = (high - low) / 2 / seconds
        row["ratio"] = None if obvious is None else obvious / seconds
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
        for point in points(name, sizes):
            tell(f"{name}: {words(point)}")
            rows += measure_point(name, works(name), point, device, BUDGET[sizes])
        found[name] = {"summary": summary(name), "rows": rows}
    return dict(plain({"machine": describe(), "benchmarks": found}))
