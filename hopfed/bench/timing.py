"""Times of several calls, taken in turn, so that what disturbs one disturbs the others too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 2, 25  # samples of each call, besides the time that is set for it


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
    samples = {name: [_sample(call, 1, synchronise)] for name, call in calls.items()}
    repeats = {name: max(1, round(SAMPLE / max(first, 1e-7))) for name, (first,) in samples.items()}
    pending = list(calls)
    while pending := [name for name in pending if _wanted(samples[name], repeats[name], budget)]:
        for name in pending:
            samples[name].append(_sample(calls[name], repeats[name], synchronise))
    return {name: min(times) for name, times in samples.items()}


def _wanted(samples: list[float], repeats: int, budget: float) -> bool:
    if len(samples) < LEAST:
        return True
    return len(samples) < MOST and sum(samples) * repeats < budget


def _sample(call: Callable[[], Any], repeats: int, synchronise: Callable[[], Any]) -> float:
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise()
    return (time.perf_counter() - start) / repeats
