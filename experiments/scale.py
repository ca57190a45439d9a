"""Time, memory and bytes of a recovery as sites and examples grow: nothing of size N x N.

Examples are drawn and packed in batches, so the M x N table exists only as bits. Each point is
recovered in a separate process; the operating system reports its peak memory.

Run it with ``hopfed run scale --out scale.h5`` and ``hopfed figure scale.h5 --out scale.png``.
Seconds and peak bytes are measured, so they differ from run to run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import HopfedError
from hopfed.experiments import Arrays, Measure, Record
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import run_recovery

BATCH = 2**26  # entries drawn at a time


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    N, M : sites and examples of each point; the two lists have equal lengths.
    archetypes : K.
    quality : r of the examples.
    seeds : independent draws.
    """

    N: tuple[int, ...] = (1_000, 10_000, 100_000, 10_000, 10_000)
    M: tuple[int, ...] = (2_000, 2_000, 2_000, 10_000, 50_000)
    archetypes: int = 50
    quality: float = 0.8
    seeds: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        require(len(self.N) == len(self.M), "M", f"as many values as N, {len(self.N)}", self.M)
        require(min(self.N) >= 100, "N", "at least 100 each", self.N)
        require(min(self.M) >= 100, "M", "at least 100 each", self.M)
        require(self.archetypes >= 1, "archetypes", "at least 1", self.archetypes)
        require(0 < self.quality <= 1, "quality", "in (0, 1]", self.quality)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)

    @property
    def least_memory(self) -> int:
        """Bytes of the examples of the largest point: a bit an entry, and no operator is dense."""
        return max(n * m for n, m in zip(self.N, self.M, strict=True)) // 8


PRESETS = {
    "quick": Config(N=(400, 4_000), M=(800, 400), archetypes=8, seeds=1),
    "default": Config(),
    "paper": Config(
        N=(1_000, 10_000, 100_000, 1_000_000, 10_000, 10_000),
        M=(2_000, 2_000, 2_000, 2_000, 10_000, 100_000),
    ),
}

RECORD = Record(
    claim="time grows as the larger side, memory as the bits of the examples; nothing is N x N",
    source="proposed here",
    minutes={"quick": 0.2, "default": 2, "paper": 5},
    measures={
        "found": Measure("least part of the archetypes found", aim="1"),
        "false_discoveries": Measure("false discoveries", aim="0"),
        "seconds_longest": Measure("seconds of the slowest point"),
        "peak_largest": Measure("largest peak memory, GB", aim="< 8"),
        "sent_largest": Measure("largest share of the dense operator sent"),
    },
)


def run(config: Config, seed: int, device: str = "cpu") -> Arrays:
    """Recover at every point in a separate process; the axis of all arrays is the point."""
    sizes = zip(config.N, config.M, strict=True)
    points = [_measure(config, N, M, seed, device) for N, M in sizes]
    return {name: np.array([p[name] for p in points]) for name in points[0]}


def _measure(config: Config, N: int, M: int, seed: int, device: str) -> dict[str, float]:
    settings = json.dumps([N, M, config.archetypes, config.quality, seed, device])
    code = f"from hopfed.experiments.scale import point; point(*{settings})"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        why = (answer.stderr.strip().splitlines() or ["it was killed, perhaps for want of memory"])[
            -1
        ]
        raise HopfedError(f"the point N = {N}, M = {M} failed: {why}")
    return json.loads(answer.stdout)


def point(N: int, M: int, K: int, quality: float, seed: int, device: str = "cpu") -> None:
    """Recover once and print time and memory as JSON; runs in a separate process."""
    from hopfed.bench.harness.machine import peak_bytes

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
