"""`hopfed bench recover`: recovery in full, its speed against the paper's algorithm, its memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.bench.paper import recover_densely
from hopfed.data.channel import draw_examples, rademacher
from hopfed.metrics import retrieval
from hopfed.recovery import recover
from hopfed.rng import stream

SILHOUETTES = {"paper's three": (6, 4, 9), "thirteen": tuple(range(0, 100, 8))}


@dataclass(frozen=True)
class Case:
    """One setting: sites N, archetypes K, examples M, quality r, clients, method."""

    N: int
    K: int
    M: int
    r: float
    clients: int = 1
    method: str = "auto"
    archetypes: str = "random"


CASES = (
    Case(400, 6, 1000, 0.8),
    Case(400, 40, 4000, 0.8),
    Case(1000, 30, 4000, 0.6),
    Case(1000, 140, 10000, 0.8),
    Case(1000, 140, 10000, 0.8, clients=5),
    Case(1000, 80, 10000, 0.8, method="lam"),
)
SILHOUETTE_CASES = (
    Case(784, 3, 336, 0.6, archetypes="paper's three"),
    Case(784, 13, 3000, 0.8, archetypes="thirteen"),
)
RATIO_CASE = Case(1000, 10, 1000, 0.8)
MEMORY_CASE = Case(50_000, 20, 2_000, 0.8)


def recovery_rows(seeds: int, silhouettes: Path | None) -> Iterator[dict[str, Any]]:
    """Recover every case in every seed, and yield a row for each case."""
    for case in CASES + (SILHOUETTE_CASES if silhouettes else ()):
        complete = false = 0
        seconds = []
        for seed in range(seeds):
            xi, clients = _data(case, seed, silhouettes)
            start = time.perf_counter()
            found = recover(clients, seed=seed, method=case.method)
            seconds.append(time.perf_counter() - start)
            score = retrieval(found.patterns, xi)
            complete += score.found() == case.K
            false += score.false_discoveries
        yield {
            "case": case.__dict__,
            "seeds": seeds,
            "complete": complete,
            "false_discoveries": false,
            "seconds_median": float(np.median(seconds)),
            "seconds_max": max(seconds),
        }


def ratio_row(seeds: int) -> dict[str, Any]:
    """Time `recover` and the paper's dense algorithm on the same data, in this process."""
    case, ours, dense, kept = RATIO_CASE, [], [], []
    for seed in range(seeds):
        xi, clients = _data(case, seed, None)
        start = time.perf_counter()
        found = recover(clients, seed=seed)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        theirs = recover_densely(clients[0], case.K, seed=seed)
        dense.append(time.perf_counter() - start)
        kept.append([retrieval(p, xi).magnetisation.mean() for p in (found.patterns, theirs)])
    m_ours, m_dense = np.mean(kept, axis=0)
    return {
        "case": case.__dict__,
        "seeds": seeds,
        "seconds": float(np.median(ours)),
        "seconds_dense": float(np.median(dense)),
        "ratio": float(np.median(np.array(dense) / np.array(ours))),
        "magnetisation": float(m_ours),
        "magnetisation_dense": float(m_dense),
    }


def memory_row() -> dict[str, Any]:
    """Measure peak memory and time of a wide recovery, in a process of its own."""
    code = "from hopfed.bench.recover import memory_case; memory_case()"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    peak, seconds, complete, false = answer.stdout.split()
    return {
        "case": MEMORY_CASE.__dict__,
        "peak_bytes": int(peak),
        "seconds": float(seconds),
        "found": int(complete),
        "false_discoveries": int(false),
    }


def memory_case() -> None:
    """Recover the wide case once and print peak bytes, seconds, found, false discoveries."""
    import resource

    xi, clients = _data(MEMORY_CASE, 0, None)
    start = time.perf_counter()
    found = recover(clients, seed=0)
    seconds = time.perf_counter() - start
    score = retrieval(found.patterns, xi)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak, seconds, score.found(), score.false_discoveries)


def _data(case: Case, seed: int, silhouettes: Path | None) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = stream(seed, "bench", case.N, case.K)
    if case.archetypes == "random" or silhouettes is None:
        xi = rademacher(case.K, case.N, rng)
    else:
        with np.load(silhouettes) as archive:
            images, labels = archive["images"], archive["labels"]
        first = [np.flatnonzero(labels == c)[0] for c in SILHOUETTES[case.archetypes]]
        xi = np.where(images[first].reshape(case.K, -1) == 0, 1, -1).astype(np.int8)
    examples = draw_examples(xi, case.M, case.r, rng)[0]
    return xi, np.array_split(examples, case.clients)
