"""Time, memory and bytes of a recovery as sites and examples grow, without any N x N array."""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated, Any

import numpy as np

from hopfed import kernels
from hopfed._lib.memory_limits import peak_bytes
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Ints, Settings, at_least, like, within
from hopfed.experiments.shared.statistics import stack_cells
from hopfed.figures.kinds import Panel, scatter
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery

BATCH = 2**26  # entries drawn at a time


class Config(Settings):
    N: Annotated[Ints, at_least(100), "sites of each point"]
    M: Annotated[Ints, at_least(100), like("N"), "examples of each point"]
    archetypes: Annotated[int, at_least(1), "K"]
    quality: Annotated[float, within("(0, 1]"), "r of the examples"]

    @property
    def least_memory(self) -> int:
        """Bytes of the examples of the largest point: a bit an entry, and no operator is dense."""
        return max(n * m for n, m in zip(self.N, self.M, strict=True)) // 8


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Experiment `scale`: recover at every point in a process of its own; arrays are (points,)."""
    points = []
    for N, M in zip(config.N, config.M, strict=True):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            about = config.archetypes, config.quality, seed, device
            points.append(pool.submit(_point, N, M, *about).result())
    return stack_cells(points)


def _point(N: int, M: int, K: int, quality: float, seed: int, device: str) -> dict[str, Any]:
    """Time and memory of one recovery, in a process of its own."""
    rng = stream(seed, "scale", N, M)
    xi = rademacher(K, N, rng)
    size = max(1, BATCH // N)
    sizes = (min(size, M - a) for a in range(0, M, size))
    bits = kernels.concatenate([kernels.pack(draw_examples(xi, m, quality, rng)[0]) for m in sizes])
    start = time.perf_counter()
    recovery = run_recovery(bits, seed=seed, patterns=Patterns(method="joint"), device=device)
    seconds = time.perf_counter() - start
    score = retrieval(recovery.archetypes.patterns, xi)
    return {
        "found": score.found() / K,
        "false": score.false_discoveries,
        "seconds": seconds,
        "peak": peak_bytes(),
        "sent": int(recovery.traffic.up.max()),
        "dense": 4 * recovery.archetypes.patterns.shape[1] ** 2,
    }


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    return {
        "found": float(arrays["found"].min()),
        "false_discoveries": int(arrays["false"].sum()),
        "seconds_longest": float(np.median(arrays["seconds"], axis=0).max()),
        "peak_largest": float(arrays["peak"].max() / 1e9),
        "sent_largest": float((arrays["sent"] / arrays["dense"]).max()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    sides, at, made = np.sort([config.N, config.M], axis=0), np.argsort(config.N), []
    dense = np.sort(config.N), np.median(arrays["dense"], axis=0)[at]
    words: dict[str, Any] = {"log": "xy", "joined": True, "diagonal": False}
    words["xlabel"] = "larger of N and M; grey: dense"
    for label, name, unit in (
        ("seconds", "seconds", 1), ("peak memory (GB)", "peak", 1e9),
        ("sent by a client (MB)", "sent", 1e6),
    ):  # fmt: skip
        points, values = {}, np.median(arrays[name], axis=0) / unit
        for side in np.unique(sides[0]):
            own = [k for k in np.argsort(sides[1]) if sides[0, k] == side]
            points[f"smaller side {side:,}"] = sides[1, own], values[own]
        lines = {"foreseen": (dense[0], dense[1] / unit)} if name != "seconds" else {}
        made.append(scatter(label, points, lines=lines, **words))
    return made
