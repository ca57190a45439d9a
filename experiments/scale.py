"""Time, memory and bytes of a recovery as sites and examples grow: nothing of size N x N.

Each point is recovered in a process of its own, of which the system says the peak memory.
"""

import json
import subprocess
import sys
import time
from typing import Annotated, Any

import numpy as np

from hopfed import kernels
from hopfed._lib.memory_limits import peak_bytes
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.errors import HopfedError
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Ints, Settings, at_least, like, within
from hopfed.experiments.shared.statistics import stacked
from hopfed.figures.kinds import Panel, against
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery

BATCH = 2**26  # entries drawn at a time


class Config(Settings):
    N: Annotated[Ints, at_least(100), "sites of each point"]
    M: Annotated[Ints, at_least(100), like("N"), "examples of each"]
    archetypes: Annotated[int, at_least(1), "K"]
    quality: Annotated[float, within("(0, 1]"), "r of the examples"]

    @property
    def least_memory(self) -> int:
        """Bytes of the examples of the largest point: a bit an entry, and no operator is dense."""
        return max(n * m for n, m in zip(self.N, self.M, strict=True)) // 8


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Recover at every point in a separate process; the axis of all arrays is the point."""
    points = []
    for N, M in zip(config.N, config.M, strict=True):
        settings = N, M, config.archetypes, config.quality, seed, device
        code = f"from hopfed.experiments.scale import point; point{settings}"
        call = [sys.executable, "-c", code]
        answer = subprocess.run(call, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            lines = answer.stderr.strip().splitlines() or ["killed, perhaps for want of memory"]
            raise HopfedError(f"the point N = {N}, M = {M} failed: {lines[-1]}")
        points.append(json.loads(answer.stdout))
    return stacked(points)


def point(N: int, M: int, K: int, quality: float, seed: int, device: str) -> None:
    """Recover once and print time and memory as JSON; runs in a separate process."""
    rng = stream(seed, "scale", N, M)
    xi = rademacher(K, N, rng)
    size = max(1, BATCH // N)
    sizes = (min(size, M - a) for a in range(0, M, size))
    bits = kernels.concatenate([kernels.pack(draw_examples(xi, m, quality, rng)[0]) for m in sizes])
    start = time.perf_counter()
    recovery = run_recovery(bits, seed=seed, patterns=Patterns(method="joint"), device=device)
    seconds = time.perf_counter() - start
    score = retrieval(recovery.archetypes.patterns, xi)
    result = {
        "found": score.found() / K,
        "false": score.false_discoveries,
        "seconds": seconds,
        "peak": peak_bytes(),
        "sent": int(recovery.traffic.up.max()),
        "dense": 4 * recovery.archetypes.patterns.shape[1] ** 2,
    }
    print(json.dumps(result))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    return {
        "found": float(arrays["found"].min()),
        "false_discoveries": int(arrays["false"].sum()),
        "seconds_longest": float(np.median(arrays["seconds"], axis=0).max()),
        "peak_largest": float(arrays["peak"].max() / 1e9),
        "sent_largest": float((arrays["sent"] / arrays["dense"]).max()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    sides = np.sort([config.N, config.M], axis=0)  # (2, points)
    dense = np.median(arrays["dense"], axis=0)
    words: dict[str, Any] = {"log": "xy", "joined": True, "diagonal": False}
    words["xlabel"], made = "larger of N and M; grey: dense", []
    for label, name, unit in (
        ("seconds", "seconds", 1), ("peak memory (GB)", "peak", 1e9),
        ("sent by a client (MB)", "sent", 1e6),
    ):  # fmt: skip
        points, values = {}, np.median(arrays[name], axis=0) / unit
        for side in np.unique(sides[0]):
            at = np.flatnonzero(sides[0] == side)
            at = at[np.argsort(sides[1, at])]
            points[f"smaller side {side:,}"] = sides[1, at], values[at]
        foreseen = {"foreseen": (np.sort(config.N), dense[np.argsort(config.N)] / unit)}
        made.append(against(label, points, lines={} if unit == 1 else foreseen, **words))
    return made
