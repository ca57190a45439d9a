"""Measure all ways of a benchmark at one size: times, ratios, shares of the ceiling that binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hopfed.bench.ceilings import bound
from hopfed.bench.devices import CPU, Device
from hopfed.bench.record import Benchmark, Cost, Point, Way
from hopfed.bench.timing import best_seconds
from hopfed.errors import HopfedError


@dataclass(frozen=True)
class Row:
    """One way at one size.

    Attributes
    ----------
    device, way : names.
    point : the sizes.
    seconds : the shortest time measured; None where the way is absent.
    ratio : seconds of the obvious way over these; None where either is absent.
    bytes, operations : of the `Cost`, by formula.
    share : seconds at the ceiling that binds over `seconds`.
    bound : name of that ceiling.
    gap : distance of the result to that of the first way; None for the first.
    absent : why there is no measurement, or empty.
    """

    device: str
    way: str
    point: Point
    seconds: float | None = None
    ratio: float | None = None
    bytes: float | None = None
    operations: Mapping[str, float] | None = None
    share: float | None = None
    bound: str | None = None
    gap: float | None = None
    absent: str = ""


def measure_point(
    benchmark: Benchmark, point: Point, device: Device, ceiling: dict[str, float], budget: float
) -> list[Row]:
    """Run all ways on the same data: once to compare the results, then in turn for the time.

    Parameters
    ----------
    ceiling : of the device, as from `ceilings.ceilings`.
    budget : seconds for the samples of one way.

    Raises
    ------
    HopfedError : two ways that must agree do not; no time is worth reporting then.
    """
    data = device.put(benchmark.setup(**point))
    quiet = benchmark.quiet(data) if benchmark.quiet else data
    calls: dict[str, Callable[[], Any]] = {}
    done: dict[str, tuple[Cost, float | None]] = {}
    absent: dict[str, str] = {}
    first: Any = None
    for way in benchmark.ways:
        if reason := way.beyond(point):
            absent[way.label] = reason
            continue
        try:
            result = way.run(way.prepare(quiet))
            calls[way.label] = partial(way.run, way.prepare(data))
        except (MemoryError, HopfedError, TypeError) as error:
            absent[way.label] = _reason(error, device)
            continue
        gap = _gap(benchmark, way, point, first, result) if done else None
        done[way.label] = way.cost(**point, **way.observe(result)), gap
        first = result if first is None else first
    seconds = best_seconds(calls, budget=budget, synchronise=device.synchronise)
    obvious = seconds.get(benchmark.ways[1].label)
    rows = [Row(device.name, label, point, absent=reason) for label, reason in absent.items()]
    for label, (cost, gap) in done.items():
        rows.append(_row(device.name, label, point, seconds[label], obvious, cost, gap, ceiling))
    order = [way.label for way in benchmark.ways]
    return sorted(rows, key=lambda row: order.index(row.way))


def _row(
    device: str,
    way: str,
    point: Point,
    seconds: float,
    obvious: float | None,
    cost: Cost,
    gap: float | None,
    ceiling: dict[str, float],
) -> Row:
    ratio = None if obvious is None else obvious / seconds
    binding = bound(cost, ceiling)
    share, name = (None, None) if binding is None else (binding[0] / seconds, binding[1])
    return Row(device, way, point, seconds, ratio, cost.bytes, cost.operations, share, name, gap)


def _reason(error: Exception, device: Device) -> str:
    """Out of memory is an answer anywhere; not to take CuPy arrays is one on the GPU only."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if device is CPU:
        raise error
    return f"does not take these arrays: {error}"


def _gap(benchmark: Benchmark, way: Way, point: Point, first: Any, result: Any) -> float:
    gap = float(benchmark.gap(first, result))
    if way.tolerance is not None and not gap <= way.tolerance:
        raise HopfedError(
            f"{benchmark.name} at {words(point)}: {way.label} and {benchmark.ways[0].label} differ "
            f"by {gap:.3g}, more than {way.tolerance:g}; no time was taken"
        )
    return gap


def words(point: Point) -> str:
    """Sizes in words.

    Examples
    --------
    >>> words({"M": 4000, "N": 50000})
    'M = 4,000, N = 50,000'
    """
    return ", ".join(f"{letter} = {value:,}" for letter, value in point.items())
