"""Completing entries that are missing: stored patterns, and rows of a table that were not stored.

Of stored patterns a share of the sites is masked, of those observed one in twenty is wrong, and
each rule fills the gaps. Nine rows in ten of a table are stored, gaps in the others are filled: by
memories of the rows, and by a graded one of K class means fitted to them by expectation
maximisation, K chosen by the likelihood of an eighth that the fit does not see. Controls are the
commoner value of each column, and the true classes of a simulated table, which nothing can beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import load_silhouettes
from hopfed.experiments.shared.statistics import by_name
from hopfed.kernels import unpack
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.energies import log_sum_exp
from hopfed.memory.graded import complete, log_likelihoods
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Projector, Rule
from hopfed.tables.examples import as_examples
from hopfed.tables.formats import read_numbers

PATTERNS = ("random", "pictures")
RULES: tuple[Rule, ...] = (Hebb(), Dreamed(1.0), Projector(), Dense(3), Exponential(1.0))
WRONG = 0.05  # share of the observed sites of a stored pattern that are flipped
METHODS = ("commoner value", "projector", "dense", "nearest row", "graded", "true classes")
STEPS = 60  # of expectation maximisation
STARTS = 3
LEAST = 10  # rows of a table, of which a tenth are not stored
SMOOTH = 1.0  # rows of each value that a class is given beforehand


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(10), "sites of the stored patterns"] = 400
    K: Annotated[int, at_least(1), "number of them"] = 60
    masked: Annotated[Floats, within("(0, 1)", rising=True), "shares that are missing"] = (
        0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95,
    )  # fmt: skip
    cues: Annotated[int, at_least(1), "patterns or rows that are completed"] = 60
    classes: Annotated[Ints, at_least(1), "numbers of archetypes to choose from"] = (
        1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40,
    )  # fmt: skip
    rows: Annotated[int, at_least(20), "of the simulated table"] = 600
    columns: Annotated[int, at_least(10), "of it"] = 60
    data: Annotated[str, "file of silhouettes; empty for letters"] = ""
    table: Annotated[str, "file of binary rows; empty for a simulated table"] = ""
    seeds: int = 5


PRESETS = {
    "quick": {
        "N": 200, "K": 30, "masked": (0.3, 0.6, 0.9), "cues": 30, "classes": (2, 5, 8),
        "rows": 300, "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 20, "cues": 200},
}  # fmt: skip
MINUTES = {"quick": 0.1, "default": 0.3, "paper": 2}
COMPARED = {
    "random": "masked sites right at half masked, random patterns, by rule",
    "pictures": "the same, pictures",
    "most_random": "largest share masked with .99 right, random patterns, by rule",
    "table": "masked entries right at half masked, rows not stored, by method",
    "below_best": "graded below the true classes, points",
    "classes": "archetypes chosen, by seed",
}


def measure(seed: int, config: Config) -> Arrays:
    """Shares of masked entries that are right: (rules, masked) and (methods, masked)."""
    arrays: Arrays = {}
    for name in PATTERNS:
        xi = _patterns(config, name, seed)
        arrays[f"{name}/right"] = np.array(
            [_stored(config, xi, rule, stream(seed, "completion", name)) for rule in RULES]
        )
    rows, truth = _table(config, seed)
    arrays["table/right"], arrays["table/classes"] = _held_out(config, rows, truth, seed)
    return arrays


def _patterns(config: Config, name: str, seed: int) -> np.ndarray:
    rng = stream(seed, "completion", name, "patterns")
    if name == "random":
        return rng.choice(np.array([-1, 1], np.int8), (config.K, config.N))
    pool = load_silhouettes(config.data, ()).patterns
    return rng.permutation(pool)[: config.K]


def _stored(config: Config, xi: np.ndarray, rule: Rule, rng: np.random.Generator) -> list[float]:
    """Right share for each share masked."""
    memory = AssociativeMemory.store(xi, rule)
    out = []
    for share in config.masked:
        asked = xi[rng.choice(len(xi), config.cues)]
        gaps = rng.random(asked.shape) < share
        wrong = np.where(rng.random(asked.shape) < WRONG, -asked, asked)
        states = memory.recall(np.where(gaps, 0, wrong)).states
        out.append(float((states == asked)[gaps].mean()))
    return out


def _table(config: Config, seed: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Rows in random order, and the classes (means, shares) that they were drawn from, if any."""
    rng = stream(seed, "completion", "table")
    if config.table:
        rows = unpack(as_examples(read_numbers(config.table)))
        require(len(rows) >= LEAST, "table", f"a file of at least {LEAST} rows", len(rows))
        return rng.permutation(rows), None
    means = rng.uniform(-1, 1, (5, config.columns))
    shares = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    chosen = means[rng.choice(5, config.rows, p=shares)]
    rows = np.where(rng.random(chosen.shape) < (1 + chosen) / 2, 1, -1).astype(np.int8)
    return rows, (means, shares)


def _held_out(
    config: Config, rows: np.ndarray, truth: tuple[np.ndarray, np.ndarray] | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Right shares (methods, masked) of rows that were not stored, and the number of classes."""
    test, kept = np.split(rows, [len(rows) // 10])
    rng = stream(seed, "completion", "held out")
    means, shares = chosen_classes(kept, config.classes, rng)
    memories = {
        "projector": AssociativeMemory.store(kept, Projector()),
        "dense": AssociativeMemory.store(kept, Dense(3)),
        "nearest row": AssociativeMemory.store(kept, Exponential(1.0)),
        "graded": AssociativeMemory.store(means, weights=shares),
    }
    if truth is not None:
        memories["true classes"] = AssociativeMemory.store(truth[0], weights=truth[1])
    common = np.where(kept.sum(axis=0, dtype=np.int64) >= 0, 1, -1)
    out = np.full((len(METHODS), len(config.masked)), np.nan)
    for j, share in enumerate(config.masked):
        asked = test[rng.choice(len(test), config.cues)]
        gaps = rng.random(asked.shape) < share
        for i, name in enumerate(METHODS):
            if name == "commoner value":
                states = np.broadcast_to(common, asked.shape)
            elif name in memories:
                states = memories[name].recall(np.where(gaps, 0, asked)).states
            else:
                continue
            out[i, j] = (np.where(states >= 0, 1, -1) == asked)[gaps].mean()
    return out, np.array(len(means))


def chosen_classes(
    rows: np.ndarray, numbers: tuple[int, ...], rng: np.random.Generator
) -> list[np.ndarray]:
    """Means (K, N) and shares (K,) with the K that serves unseen rows best, fitted to all rows."""
    aside, fitted = np.split(rows, [len(rows) // 8])
    scores = []
    for K in numbers:
        means, shares = fit_classes(fitted, K, rng)
        scores.append(log_sum_exp(log_likelihoods(aside, means) + np.log(shares)).mean())
    return fit_classes(rows, numbers[int(np.argmax(scores))], rng)


def fit_classes(rows: np.ndarray, K: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Fit K classes by expectation maximisation: means (K, N), shares (K,); best of some starts."""
    fits = [_climb(rows, K, rng) for _ in range(STARTS)]
    return [*min(fits, key=lambda fit: fit[0])[1:]]


def _climb(
    rows: np.ndarray, K: int, rng: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean energy, means and shares of a fit from random rows."""
    means = 0.5 * rows[rng.choice(len(rows), min(K, len(rows)), replace=False)]
    shares = np.full(len(means), 1 / len(means))
    for _ in range(STEPS):
        _, R, energy = complete(rows, means, shares)
        mass = R.sum(axis=0)
        means = R.T @ rows / (mass[:, None] + 2 * SMOOTH)
        shares = (mass + SMOOTH) / (mass + SMOOTH).sum()
    return float(energy.mean()), means, shares


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Right shares where half is masked, and the largest share masked that is filled."""
    masked = np.array(config.masked)
    half = int(np.abs(masked - 0.5).argmin())
    summary: dict[str, Any] = {}
    rules = [rule.name for rule in RULES]
    for name in PATTERNS:
        summary[name] = by_name(rules, arrays[f"{name}/right"].mean(axis=0)[:, half])
    right = arrays["random/right"].mean(axis=0)
    most = [float(masked[row >= 0.99].max(initial=0)) for row in right]
    summary["most_random"] = by_name(rules, most)
    table = arrays["table/right"].mean(axis=0)
    summary["table"] = by_name(METHODS, table[:, half])
    gap = table[METHODS.index("true classes")] - table[METHODS.index("graded")]
    summary["below_best"] = float(100 * gap.max())
    summary["classes"] = ", ".join(str(k) for k in arrays["table/classes"])
    return summary
