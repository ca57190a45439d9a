"""From a benchmark to its report: rows, fitted exponents, targets; plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hopfed.bench.ceilings import ceilings
from hopfed.bench.devices import CPU, Device, cuda
from hopfed.bench.machine import describe
from hopfed.bench.measure import Row, measure_point, words
from hopfed.bench.record import Benchmark, Sweep
from hopfed.runs import Run, plain

BUDGET = {"small": 0.5, "full": 1.0}  # seconds for the samples of one way at one size

Tell = Callable[[str], Any]


def steps(benchmarks: Sequence[Benchmark], sizes: str) -> int:
    """Count the times that `measure` will say what comes next."""
    devices = 1 + (cuda()[0] is not None)
    each = (len(b.points(sizes)) * (devices if b.cuda else 1) for b in benchmarks)
    return devices + sum(each)


def measure(benchmarks: Sequence[Benchmark], sizes: str, tell: Tell = lambda _: None) -> Run:
    """Measure the ceilings, then `benchmarks`, on the CPU and on a CUDA device if there is one.

    Returns
    -------
    A run of kind "bench" whose summary holds "machine", "ceilings" by device, and "benchmarks":
    name -> what `measure_benchmark` returns.
    """
    device, _ = cuda()
    devices = {}
    for each in (CPU, *([device] if device else [])):
        tell(f"ceilings of {each.name}")
        devices[each.name] = each, ceilings(each)
    found = {b.name: measure_benchmark(b, sizes, list(devices.values()), tell) for b in benchmarks}
    summary = {
        "machine": describe(),
        "ceilings": {name: ceiling for name, (_, ceiling) in devices.items()},
        "benchmarks": found,
    }
    return Run("bench", {"names": [b.name for b in benchmarks], "sizes": sizes}, {}, plain(summary))


def measure_benchmark(
    benchmark: Benchmark,
    sizes: str,
    devices: Sequence[tuple[Device, dict[str, float]]],
    tell: Tell = lambda _: None,
) -> dict[str, Any]:
    """Measure one benchmark on devices given with their ceilings.

    Returns
    -------
    "summary", "rows" (of `Row`), "sweeps", "exponents", "targets" and "notes", in plain values.
    """
    rows: list[Row] = []
    points = benchmark.points(sizes)
    for device, ceiling in devices:
        if device is not CPU and not benchmark.cuda:
            continue
        for number, point in enumerate(points, start=1):
            tell(f"{benchmark.name} on {device.name}, {number} of {len(points)}: {words(point)}")
            rows += measure_point(benchmark, point, device, ceiling, BUDGET[sizes])
    sweeps = benchmark.sizes[sizes]
    return plain(
        {
            "summary": benchmark.summary,
            "rows": [asdict(row) for row in rows],
            "sweeps": [asdict(sweep) for sweep in sweeps],
            "exponents": [fit for sweep in sweeps for fit in exponents(rows, sweep)],
            "targets": list(_targets(benchmark, rows)),
            "notes": benchmark.notes(),
        }
    )


def exponents(rows: Sequence[Row], sweep: Sweep) -> Iterator[dict[str, Any]]:
    """Fit ``seconds ~ size^exponent`` to every way along `sweep`, by least squares of logarithms.

    Yields
    ------
    "device", "way", "vary", "fixed", "exponent"; ways with fewer than two sizes are left out.
    """
    for device, way in dict.fromkeys((row.device, row.way) for row in rows):
        line = [
            (row.point[sweep.vary], row.seconds)
            for row in rows
            if (row.device, row.way) == (device, way) and row.seconds and sweep.holds(row.point)
        ]
        if len(line) > 1:
            x, y = np.log(np.array(line)).T
            yield {
                "device": device,
                "way": way,
                "vary": sweep.vary,
                "fixed": dict(sweep.fixed),
                "exponent": float(np.polyfit(x, y, 1)[0]),
            }


def _targets(benchmark: Benchmark, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Targets whose size was measured on the CPU."""
    for target in benchmark.targets:
        for row in rows:
            ours = row.device == CPU.name and row.way == benchmark.ways[0].label
            if ours and row.ratio is not None and dict(row.point) == dict(target.point):
                yield {
                    "point": dict(target.point),
                    "ratio": row.ratio,
                    "target": target.ratio,
                    "reached": row.ratio >= target.ratio,
                }
