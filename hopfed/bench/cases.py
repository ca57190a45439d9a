"""`hopfed bench recover`: complete recoveries, their speed and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.bench.harness.machine import describe, peak_bytes
from hopfed.bench.recovery import recover_densely
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import recover
from hopfed.tables.arrays import Npz

SUMMARY = "complete recoveries; speed against the paper's dense algorithm; peak memory"

SILHOUETTES = {"paper's three": (6, 4, 9), "thirteen": tuple(range(0, 100, 8))}
BATCH = 1 << 24  # entries drawn at a time before they are packed


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


@dataclass(frozen=True)
class Limits:
    """Limits of a complete recovery: bytes of peak memory and, if set, seconds."""

    case: Case
    most_bytes: float
    most_seconds: float | None = None


CASES = (
    Case(400, 6, 1000, 0.8),
    Case(400, 40, 4000, 0.8),
    Case(1000, 30, 4000, 0.6),
    Case(1000, 140, 10000, 0.8),
    Case(1000, 140, 10000, 0.8, clients=5),
    Case(1000, 80, 10000, 0.8, method="layered"),
)
SILHOUETTE_CASES = (
    Case(784, 3, 336, 0.6, archetypes="paper's three"),
    Case(784, 13, 3000, 0.8, archetypes="thirteen"),
)
RATIO_CASE = Case(1000, 10, 1000, 0.8)
MEMORY_CASE = Case(50_000, 20, 2_000, 0.8)
TARGETS = (
    Limits(Case(100_000, 50, 5_000, 0.8), most_bytes=3e9, most_seconds=60.0),
    Limits(Case(1_000_000, 20, 2_000, 0.8), most_bytes=8e9),
)


def steps(sizes: str, silhouettes: Path | None) -> int:
    """Return how often `measure_recovery` will call `tell`."""
    cases = len(CASES) + (len(SILHOUETTE_CASES) if silhouettes else 0)
    return 3 + cases + (len(TARGETS) if sizes == "full" else 0)


def measure_recovery(
    sizes: str,
    seeds: int,
    silhouettes: Path | None,
    tell: Callable[[str], Any],
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure "recovery", "ratio", "memory", "machine" and, if `sizes` is "full", "targets".

    Times on a device include the way of the bits there; memory is that of the host, and the paper's
    algorithm runs on the processor always.
    """
    rows, targets = [], []
    tell("recover: warming up")
    _compile(device)
    for row in recovery_rows(seeds, silhouettes, device):
        rows.append(row)
        tell(f"recover: {len(rows)} cases done")
    tell("recover: against the paper's algorithm")
    ratio = ratio_row(min(seeds, 3), device)
    tell("recover: peak memory")
    memory = _alone(MEMORY_CASE, packed=False, device=device)
    del memory["seconds_drawing"]
    for limits in TARGETS if sizes == "full" else ():
        tell(f"recover: N = {limits.case.N:,}, M = {limits.case.M:,}")
        targets.append(target_row(limits, device))
    found = {"recovery": rows, "ratio": ratio, "memory": memory, "targets": targets}
    return {**found, "device": device, "machine": describe()}


def _compile(device: str) -> None:
    """Recover small data by every method and route, so that no timing includes compilation."""
    for method in {case.method for case in CASES}:
        for N, K, M in ((100, 3, 300), (300, 3, 100)):
            recover(_data(Case(N, K, M, 0.9, 2), 0)[1], seed=0, method=method, device=device)


def _timed(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    """Return the result of a call and its seconds."""
    start = time.perf_counter()
    found = function(*args, **options)
    return found, time.perf_counter() - start


def recovery_rows(
    seeds: int, silhouettes: Path | None, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """Recover every case in every seed, and yield a row for each case."""
    for case in CASES + (SILHOUETTE_CASES if silhouettes else ()):
        complete = false = 0
        seconds = []
        for seed in range(seeds):
            xi, clients = _data(case, seed, silhouettes)
            options = {"seed": seed, "method": case.method, "device": device}
            found, taken = _timed(recover, clients, **options)
            seconds.append(taken)
            score = retrieval(found.patterns, xi)
            complete += score.found() == case.K
            false += score.false_discoveries
        yield {
            "case": asdict(case),
            "seeds": seeds,
            "complete": complete,
            "false_discoveries": false,
            "seconds_median": float(np.median(seconds)),
            "seconds_max": max(seconds),
        }


def ratio_row(seeds: int, device: str = "cpu") -> dict[str, Any]:
    """Time `recover` and the published dense algorithm on the same data, in this process."""
    taken, kept = [], []
    for seed in range(seeds):
        xi, clients = _data(RATIO_CASE, seed)
        found, thin = _timed(recover, clients, seed=seed, device=device)
        published, dense = _timed(recover_densely, clients[0], RATIO_CASE.K, seed=seed)
        taken.append((thin, dense))
        kept.append([retrieval(p, xi).magnetisation.mean() for p in (found.patterns, published)])
    thin, dense = np.array(taken).T
    magnetisation, magnetisation_dense = np.mean(kept, axis=0)
    return {
        "case": asdict(RATIO_CASE),
        "seeds": seeds,
        "seconds": float(np.median(thin)),
        "seconds_dense": float(np.median(dense)),
        "ratio": float(np.median(dense / thin)),
        "magnetisation": float(magnetisation),
        "magnetisation_dense": float(magnetisation_dense),
    }


def target_row(limits: Limits, device: str = "cpu") -> dict[str, Any]:
    """Compare a large recovery from packed bits, in a separate process, with its limits."""
    row = _alone(limits.case, packed=True, device=device)
    complete = row["found"] == limits.case.K and row["false_discoveries"] == 0
    in_time = limits.most_seconds is None or row["seconds"] < limits.most_seconds
    reached = complete and in_time and row["peak_bytes"] < limits.most_bytes
    most = {"most_bytes": limits.most_bytes, "most_seconds": limits.most_seconds}
    return {**row, **most, "reached": reached}


def _alone(case: Case, *, packed: bool, device: str) -> dict[str, Any]:
    """Recover `case` from packed bits or int8 in a separate process, and measure its memory."""
    code = "from hopfed.bench.cases import alone; alone()"
    asked = json.dumps({"case": asdict(case), "packed": packed, "device": device})
    command = [sys.executable, "-c", code, asked]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"case": asdict(case), **json.loads(answer.stdout)}


def alone() -> None:
    """Recover the case given as JSON on the command line; print time and memory as JSON."""
    asked = json.loads(sys.argv[1])
    draw = _packed_data if asked["packed"] else _data
    (xi, clients), drawing = _timed(draw, Case(**asked["case"]), 0)
    found, seconds = _timed(recover, clients, seed=0, device=asked["device"])
    answer = {"peak_bytes": peak_bytes(), "seconds": seconds, "seconds_drawing": drawing}
    score = retrieval(found.patterns, xi)
    answer |= {"found": score.found(), "false_discoveries": score.false_discoveries}
    print(json.dumps(answer))


def _data(
    case: Case, seed: int, silhouettes: Path | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = stream(seed, "bench", case.N, case.K)
    if case.archetypes == "random" or silhouettes is None:
        xi = rademacher(case.K, case.N, rng)
    else:
        with Npz(silhouettes) as archive:
            images, labels = archive["images"], archive["labels"]
        first = [np.flatnonzero(labels == c)[0] for c in SILHOUETTES[case.archetypes]]
        xi = np.where(images[first].reshape(case.K, -1) == 0, 1, -1).astype(np.int8)
    examples = draw_examples(xi, case.M, case.r, rng)[0]
    return xi, np.array_split(examples, case.clients)


def _packed_data(case: Case, seed: int) -> tuple[np.ndarray, kernels.PackedBits]:
    """Draw the examples batch by batch and keep only their packed bits."""
    rng = stream(seed, "bench", "packed", case.N, case.K)
    xi = rademacher(case.K, case.N, rng)
    rows = max(1, BATCH // case.N)
    counts = [min(rows, case.M - start) for start in range(0, case.M, rows)]
    batches = [kernels.pack(draw_examples(xi, m, case.r, rng)[0]) for m in counts]
    return xi, kernels.concatenate(batches)
