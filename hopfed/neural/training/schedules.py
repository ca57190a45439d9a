"""Learning-rate schedules over the rounds of a run."""

from __future__ import annotations

import math

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError

FORMS = "constant, cosine, or step:ROUNDS:FACTOR such as step:10:0.5"


def factor(schedule: str, warmup: int, t: int, rounds: int) -> float:
    """Factor of the learning rate in round `t`, counted from 0, of `rounds`.

    Parameters
    ----------
    schedule : "constant"; "cosine", half a cosine over the rounds after the warm-up, from 1 towards
        0 (Loshchilov and Hutter, ICLR 2017); or "step:K:F", times F after every K of these rounds.
    warmup : rounds over which the factor first rises linearly: ``(t + 1) / (warmup + 1)``.

    Raises
    ------
    ArgumentError : another schedule, or one with numbers outside of their ranges.

    Examples
    --------
    >>> [round(factor("cosine", 1, t, 5), 3) for t in range(5)]
    [0.5, 1.0, 0.854, 0.5, 0.146]
    >>> [factor("step:2:0.5", 0, t, 5) for t in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    kind, *numbers = schedule.split(":")
    every, shrink = _step(schedule, numbers) if kind == "step" else (1, 1.0)
    known = kind == "step" or schedule in ("constant", "cosine")
    require(known, "schedule", FORMS, repr(schedule))
    if t < warmup:
        return (t + 1) / (warmup + 1)
    if kind == "cosine":
        passed = (t - warmup) / max(rounds - warmup, 1)
        return (1 + math.cos(math.pi * min(passed, 1.0))) / 2
    return float(shrink ** ((t - warmup) // every))


def _step(schedule: str, numbers: list[str]) -> tuple[int, float]:
    """Rounds of a step and its factor."""
    try:
        every, shrink = numbers
        found = int(every), float(shrink)
    except ValueError:
        raise ArgumentError("schedule", FORMS, repr(schedule)) from None
    fits = found[0] >= 1 and 0 < found[1] <= 1
    require(fits, "schedule", "step:ROUNDS:FACTOR, ROUNDS at least 1, FACTOR in (0, 1]", schedule)
    return found
