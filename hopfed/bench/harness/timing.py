"""Times of several calls made in turn, so that a disturbance affects all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

SAMPLE = 2e-3  # seconds; shorter calls are repeated inside one sample
LEAST, MOST = 2, 25  # smallest and largest number of samples of each call


def best_seconds(
    calls: Mapping[str, Callable[[], Any]], *, budget: float, synchronise: Callable[[], Any]
) -> dict[str, float]:
    """Return the shortest time of each call.

    Parameters
    ----------
    calls : calls by name; each must have been made before, so that nothing is compiled here.
    budget : seconds for all samples of one call; `LEAST` samples are always taken.
    synchronise : function that waits for the device.
    """
    samples = {name: [sample(call, synchronise)] for name, call in calls.items()}
    repeats = {name: max(1, round(SAMPLE / max(first, 1e-7))) for name, (first,) in samples.items()}

    def wanted(name: str) -> bool:
        taken = samples[name]
        return len(taken) < LEAST or (len(taken) < MOST and sum(taken) * repeats[name] < budget)

    pending = list(calls)
    while pending := [name for name in pending if wanted(name)]:
        for name in pending:
            samples[name].append(sample(calls[name], synchronise, repeats[name]))
    return {name: min(times) for name, times in samples.items()}


def sample(call: Callable[[], Any], synchronise: Callable[[], Any], repeats: int = 1) -> float:
    """Seconds of a call, as the mean of `repeats` calls in a row."""
    synchronise()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise()
    return (time.perf_counter() - start) / repeats
