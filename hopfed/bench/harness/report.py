"""Report of pairs: rows, fitted exponents and targets, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hopfed.bench.harness.ceilings import ceilings
from hopfed.bench.harness.devices import CPU, Device
from hopfed.bench.harness.machine import describe
from hopfed.bench.harness.measure import Row, measure_point, words
from hopfed.bench.harness.record import Pair, Sweep
from hopfed.runs import Run, plain

BUDGET = {"small": 0.5, "full": 1.0}  # seconds for the samples of one way at one size

Tell = Callable[[str], Any]


def steps(pairs: Sequence[Pair], sizes: str) -> int:
    """Return how often `measure` will call `tell`."""
    return 1 + sum(len(p.points(sizes)) for p in pairs)


def measure(
    pairs: Sequence[Pair], sizes: str, tell: Tell = lambda _: None, device: Device = CPU
) -> Run:
    """Measure the ceilings of a device, then `pairs`, all of which can run there.

    Returns
    -------
    A run of kind "bench". Its summary holds "machine", "ceilings" by device, and "benchmarks", a
    dict from name to the result of `measure_pair`.
    """
    tell(f"ceilings of {device.name}")
    ceiling = ceilings(device)
    found = {p.name: measure_pair(p, sizes, [(device, ceiling)], tell) for p in pairs}
    summary = {
        "machine": describe(),
        "ceilings": {device.name: ceiling},
        "benchmarks": found,
    }
    return Run("bench", {"names": list(found), "sizes": sizes}, {}, plain(summary))


def measure_pair(
    pair: Pair,
    sizes: str,
    devices: Sequence[tuple[Device, dict[str, float]]],
    tell: Tell = lambda _: None,
) -> dict[str, Any]:
    """Measure one pair on the given devices, which come with their ceilings.

    Returns
    -------
    "summary", "rows" (of `Row`), "sweeps", "exponents", "targets" and "notes", in plain values.
    """
    rows: list[Row] = []
    points = pair.points(sizes)
    for device, ceiling in devices:
        if device is not CPU and not pair.cuda:
            continue
        for number, point in enumerate(points, start=1):
            tell(f"{pair.name} on {device.name}, {number} of {len(points)}: {words(point)}")
            rows += measure_point(pair, point, device, ceiling, BUDGET[sizes])
    sweeps = pair.sweeps(sizes)
    return plain(
        {
            "summary": pair.summary,
            "rows": [asdict(row) for row in rows],
            "sweeps": [asdict(sweep) for sweep in sweeps],
            "exponents": [fit for sweep in sweeps for fit in exponents(rows, sweep)],
            "targets": list(_targets(pair, rows)),
            "notes": pair.notes(),
        }
    )


def exponents(rows: Sequence[Row], sweep: Sweep) -> Iterator[dict[str, Any]]:
    """Fit ``seconds ~ size^exponent`` for every way along `sweep`, by least squares of logarithms.

    Yields
    ------
    "device", "way", "vary", "fixed", "exponent"; ways with fewer than two sizes are left out.
    """
    points = sweep.points()
    for device, way in dict.fromkeys((row.device, row.way) for row in rows):
        line = [
            (row.point[sweep.vary], row.seconds)
            for row in rows
            if (row.device, row.way) == (device, way) and row.seconds and row.point in points
        ]
        if len(line) > 1:
            x, y = np.log(np.array(line)).T
            place = {"device": device, "way": way, "vary": sweep.vary, "fixed": dict(sweep.fixed)}
            yield {**place, "exponent": float(np.polyfit(x, y, 1)[0])}


def _targets(pair: Pair, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Targets whose size was measured on the CPU."""
    for target in pair.targets:
        first = CPU.name, pair.ways(**target.point)[0].label, dict(target.point)
        for row in rows:
            if (row.device, row.way, dict(row.point)) == first and row.ratio is not None:
                found = {"point": dict(target.point), "ratio": row.ratio, "target": target.ratio}
                yield {**found, "reached": row.ratio >= target.ratio}
