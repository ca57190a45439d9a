"""Time, memory and bytes of a recovery as sites and examples grow: nothing of size N x N.

Examples are drawn and packed in batches, so the M x N table exists only as bits. Each point is
recovered in a process of its own, of which the operating system says the peak memory. Seconds and
peak bytes are measured, so they differ from run to run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import HopfedError
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Ints, Settings, at_least, within
from hopfed.experiments.shared.statistics import stacked
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery

BATCH = 2**26  # entries drawn at a time


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[Ints, at_least(100), "sites of each point"] = (
        1_000, 10_000, 100_000, 10_000, 10_000,
    )  # fmt: skip
    M: Annotated[Ints, at_least(100), "examples of each"] = (2_000, 2_000, 2_000, 10_000, 50_000)
    archetypes: Annotated[int, at_least(1), "K"] = 50
    quality: Annotated[float, within("(0, 1]"), "r of the examples"] = 0.8
    seeds: int = 2

    def validate(self) -> None:
        """Refuse sites without examples."""
        require(len(self.N) == len(self.M), "M", f"as many values as N, {len(self.N)}", self.M)

    @property
    def least_memory(self) -> int:
        """Bytes of the examples of the largest point: a bit an entry, and no operator is dense."""
        return max(n * m for n, m in zip(self.N, self.M, strict=True)) // 8


PRESETS = {
    "quick": {"N": (400, 4_000), "M": (800, 400), "archetypes": 8, "seeds": 1},
    "default": {},
    "paper": {
        "N": (1_000, 10_000, 100_000, 1_000_000, 10_000, 10_000),
        "M": (2_000, 2_000, 2_000, 2_000, 10_000, 100_000),
    },
}
MINUTES = {"quick": 0.2, "default": 2, "paper": 5}
COMPARED = {
    "found": ("least part of the archetypes found", "", "1"),
    "false_discoveries": ("false discoveries", "", "0"),
    "seconds_longest": "seconds of the slowest point",
    "peak_largest": ("largest peak memory, GB", "", "< 8"),
    "sent_largest": "largest share of the dense operator sent",
}


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Recover at every point in a separate process; the axis of all arrays is the point."""
    sizes = zip(config.N, config.M, strict=True)
    return stacked([_measure(config, N, M, seed, device) for N, M in sizes])


def _measure(config: Config, N: int, M: int, seed: int, device: str) -> dict[str, float]:
    settings = json.dumps([N, M, config.archetypes, config.quality, seed, device])
    code = f"from hopfed.experiments.scale import point; point(*{settings})"
    call = [sys.executable, "-c", code]
    answer = subprocess.run(call, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines() or ["it was killed, perhaps for want of memory"]
        raise HopfedError(f"the point N = {N}, M = {M} failed: {lines[-1]}")
    return json.loads(answer.stdout)


def point(N: int, M: int, K: int, quality: float, seed: int, device: str = "cpu") -> None:
    """Recover once and print time and memory as JSON; runs in a separate process."""
    from hopfed._lib.memory_limits import peak_bytes

    rng = stream(seed, "scale", N, M)
    xi = rademacher(K, N, rng)
    bits = kernels.concatenate([kernels.pack(b) for b in _batches(xi, M, quality, rng)])
    drawn = peak_bytes()
    start = time.perf_counter()
    recovery = run_recovery(bits, seed=seed, method="joint", device=device)
    seconds = time.perf_counter() - start
    score = retrieval(recovery.archetypes.patterns, xi)
    result = {
        "found": score.found() / K,
        "false": score.false_discoveries,
        "matched": float(score.matched.mean()),
        "frobenius": score.frobenius,
        "seconds": seconds,
        "peak": peak_bytes(),
        "peak_before": drawn,
        "sent": int(recovery.traffic.up.max()),
        "dense": recovery.dense_nbytes,
    }
    print(json.dumps(result))


def _batches(
    xi: np.ndarray, M: int, quality: float, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    size = max(1, BATCH // xi.shape[1])
    for a in range(0, M, size):
        yield draw_examples(xi, min(size, M - a), quality, rng)[0]


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    """Worst case over points and seeds."""
    return {
        "found": float(arrays["found"].min()),
        "false_discoveries": int(arrays["false"].sum()),
        "seconds_longest": float(np.median(arrays["seconds"], axis=0).max()),
        "peak_largest": float(arrays["peak"].max() / 1e9),
        "sent_largest": float((arrays["sent"] / arrays["dense"]).max()),
    }
