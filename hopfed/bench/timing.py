"""Times of several calls, taken in turn, so that what disturbs one disturbs the others too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 2, 15  # samples of each call, besides the time that is set for it


def best_seconds(
    calls: Mapping[str, Callable[[], Any]], *, budget: float, synchronise: Callable[[], Any]
) -> dict[str, float]:
    """Return the shortest time of each call.

    Parameters
    ----------
    calls : by name; each has been called before, so that compilation is over.
    budget : seconds that the samples of one call may take together, once there are `LEAST`.
    synchronise : waits for the device.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    repeats = {name: _repeats(call, synchronise) for name, call in calls.items()}
    pending = list(calls)
    while pending:
        for name in pending:
            samples[name].append(_sample(calls[name], repeats[name], synchronise))
        pending = [
            name
            for name in pending
            if len(samples[name]) < LEAST
            or (len(samples[name]) < MOST and sum(samples[name]) * repeats[name] < budget)
        ]
    return {name: min(times) for name, times in samples.items()}


def _repeats(call: Callable[[], Any], synchronise: Callable[[], Any]) -> int:
    seconds = _sample(call, 1, synchronise)
    return max(1, round(SAMPLE / max(seconds, 1e-7)))


def _sample(call: Callable[[], Any], repeats: int, synchronise: Callable[[], Any]) -> float:
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise()
    return (time.perf_counter() - start) / repeats
