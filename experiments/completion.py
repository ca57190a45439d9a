"""Completion of rows of a simulated table by memories that store other rows of it."""

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import RISING, Floats, Settings, at_least, within
from hopfed.experiments.shared.statistics import format_by_name
from hopfed.figures.kinds import Panel, line_plot, split_axis
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Exponential, Projector
from hopfed.recovery.recover import recover

METHODS = ("commoner value", "projector", "dense", "nearest row", "graded", "true classes")
SHARES = (0.3, 0.25, 0.2, 0.15, 0.1)  # shares of the classes
COLUMNS = 60  # number of columns


class Config(Settings):
    masked: Annotated[Floats, within("(0, 1)"), RISING, "shares of masked entries"]
    cues: Annotated[int, at_least(1), "number of completed rows"]
    rows: Annotated[int, at_least(20), "rows of the table"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `completion`: shares of masked entries filled right (methods, masked); classes."""
    rng = stream(seed, "completion", "table")
    truth, true_shares = rng.uniform(-1, 1, (len(SHARES), COLUMNS)), np.array(SHARES)
    chosen = truth[rng.choice(len(SHARES), config.rows, p=true_shares)]
    rows = np.where(rng.random(chosen.shape) < (1 + chosen) / 2, 1, -1).astype(np.int8)
    test, kept = np.split(rows, [len(rows) // 10])
    rng = stream(seed, "completion", "held out")
    found = recover(kept, seed=seed, channel="graded")
    common = np.where(kept.sum(axis=0, dtype=np.int64) >= 0, 1, -1)
    memories = {
        "projector": AssociativeMemory.store(kept, Projector()),
        "dense": AssociativeMemory.store(kept, Dense(3)),
        "nearest row": AssociativeMemory.store(kept, Exponential(1.0)),
        "graded": AssociativeMemory.store(found.means, weights=found.shares),
        "true classes": AssociativeMemory.store(truth, weights=true_shares),
    }
    right = np.empty((len(config.masked), len(METHODS)))
    for j, share in enumerate(config.masked):
        asked = test[rng.choice(len(test), config.cues)]
        gaps = rng.random(asked.shape) < share
        cues = np.where(gaps, 0, asked)
        filled = [np.broadcast_to(common, cues.shape)]
        filled += [memory.recall(cues).states for memory in memories.values()]
        right[j] = [(np.where(states >= 0, 1, -1) == asked)[gaps].mean() for states in filled]
    return {"table/right": right.T, "table/classes": np.array(len(found))}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    half = int(np.abs(np.array(config.masked) - 0.5).argmin())
    right = arrays["table/right"].mean(axis=0)
    gap = right[METHODS.index("true classes")] - right[METHODS.index("graded")]
    return {
        "table": format_by_name(METHODS, right[:, half]),
        "below_best": float(100 * gap.max()),
        "classes": ", ".join(str(k) for k in arrays["table/classes"]),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    words: dict[str, Any] = {"xlabel": "share masked", "ylim": (0.45, 1.02)}
    lines = split_axis(METHODS, arrays["table/right"], 1)
    return [line_plot("entries that are right, in rows not stored", config.masked, lines, **words)]
