"""Measurement of all ways of a pair at one size: times, ratios, and shares of the ceiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hopfed.bench.harness.ceilings import bound
from hopfed.bench.harness.devices import CPU, Device
from hopfed.bench.harness.record import Cost, Pair, Point, Way
from hopfed.bench.harness.timing import best_seconds
from hopfed.errors import HopfedError


@dataclass(frozen=True)
class Row:
    """Results of one way at one size; values that were not measured are None."""

    device: str
    way: str
    point: Point
    seconds: float | None = None  # the shortest time
    ratio: float | None = None  # seconds of the obvious way divided by `seconds`
    bytes: float | None = None  # bytes of the `Cost`, by formula
    operations: Mapping[str, float] | None = None
    share: float | None = None  # seconds at the limiting ceiling divided by `seconds`
    bound: str | None = None  # name of the limiting ceiling
    gap: float | None = None  # distance between the result and that of the first way
    absent: str = ""  # reason if there is no measurement


def measure_point(
    pair: Pair, point: Point, device: Device, ceiling: dict[str, float], budget: float
) -> list[Row]:
    """Run all ways on the same data: once to compare the results, then in turn to time them.

    Parameters
    ----------
    ceiling : ceilings of the device, from `ceilings.ceilings`.
    budget : seconds for the samples of one way.

    Raises
    ------
    HopfedError : two ways that must agree differ; then no times are reported.
    """
    data, ways = device.put(pair.data(point)), pair.ways(**point)
    calls: dict[str, Callable[[], Any]] = {}
    rows: list[Row] = []
    first: Any = None
    for way in ways:
        row = Row(device.name, way.label, point, absent=way.beyond(point))
        if not row.absent:
            try:
                result = way.run(way.prepare({**data, **pair.quiet}))
                call = partial(way.run, way.prepare(data))
            except (MemoryError, HopfedError, TypeError) as error:
                row = replace(row, absent=_reason(error, device))
        if not row.absent:
            gap = _gap(pair, point, way, next(iter(calls)), first, result) if calls else None
            first = first if calls else result
            calls[way.label] = call
            cost = way.cost(result) if callable(way.cost) else way.cost
            row = replace(row, bytes=cost.bytes, operations=cost.operations, gap=gap)
        rows.append(row)
    seconds = best_seconds(calls, budget=budget, synchronise=device.synchronise)
    return [_timed(row, seconds, ways[1].label, ceiling) for row in rows]


def _timed(row: Row, seconds: Mapping[str, float], obvious: str, ceiling: dict[str, float]) -> Row:
    """Return `row` with its time, ratio and share of the ceiling, if it was timed."""
    if row.bytes is None or row.operations is None:
        return row
    taken = seconds[row.way]
    ratio = seconds[obvious] / taken if obvious in seconds else None
    binding = bound(Cost(row.bytes, row.operations), ceiling)
    share, name = (None, None) if binding is None else (binding[0] / taken, binding[1])
    return replace(row, seconds=taken, ratio=ratio, share=share, bound=name)


def _reason(error: Exception, device: Device) -> str:
    """Return why a way has no measurement; raise errors other than these two again.

    Every device can run out of memory. On the GPU a way may also refuse CuPy arrays.
    """
    if isinstance(error, MemoryError):
        return "out of memory"
    if device is CPU:
        raise error
    return f"does not take these arrays: {error}"


def _gap(pair: Pair, point: Point, way: Way, reference: str, first: Any, result: Any) -> float:
    gap = float(pair.gap(first, result))
    if way.tolerance is not None and not gap <= way.tolerance:
        raise HopfedError(
            f"{pair.name} at {words(point)}: {way.label} and {reference} differ by {gap:.3g}, more "
            f"than {way.tolerance:g}; no time was taken"
        )
    return gap


def words(point: Point) -> str:
    """Return sizes as a text.

    Examples
    --------
    >>> words({"M": 4000, "N": 50000})
    'M = 4,000, N = 50,000'
    """
    return ", ".join(f"{letter} = {value:,}" for letter, value in point.items())
