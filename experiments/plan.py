"""Plan: whether studies of the planned size keep what was promised of them.

Theory plans three sizes: each archetype is seen with the power asked for, all of them are counted,
and every pattern is resolved, which `recover` says as "ok" (theory/study.py). Tables of these sizes
are drawn and counted by the rule of `recover`, and at the third size recovered; their frequencies
are compared with the power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays, Table
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.statistics import by_name
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import recover
from hopfed.spectral.noise import Sample
from hopfed.spectral.rank import TracyWidom
from hopfed.theory.study import PROMISES, Promises, promises

ERRORS = 2.0  # binomial standard errors within which a promise counts as kept


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[Ints, at_least(50), "numbers of sites"] = (100, 256)
    K: Annotated[Ints, within("[1, 50]"), "of archetypes, of equal exposure"] = (1, 3, 10)
    qualities: Annotated[Floats, within("(0, 1)"), "r of the examples"] = (0.2, 0.4, 0.6)
    power: Annotated[float, within("(0, 1)"), "probability that is promised"] = 0.9
    seeds: Annotated[int, "independent tables of each kind and size"] = 100

    def validate(self) -> None:
        """Refuse more archetypes than sites."""
        require(max(self.K) < min(self.N), "K", "below every N", self.K)


PRESETS = {
    "quick": {"N": (100,), "K": (1, 3), "qualities": (0.4,), "seeds": 20},
    "default": {},
    "paper": {"N": (100, 256, 400), "seeds": 400},
}
MINUTES = {"quick": 0.1, "default": 5, "paper": 40}
COMPARED = {
    "seen": ("archetypes seen, mean over the grid", "", "the power"),
    "all": ("tables in which all are counted, mean over the grid", "", "the power"),
    "resolved": ('tables that are "ok", mean over the grid', "", "the power"),
    "kept": ("places of the grid not below the power by two errors", "", "all"),
    "lowest": "lowest frequency of the grid, by promise",
}


def grid(config: Config) -> list[tuple[int, int, float]]:
    """Kinds of study: sites, archetypes, quality."""
    return list(product(config.N, config.K, config.qualities))


@lru_cache(maxsize=1024)
def planned(N: int, K: int, r: float, power: float) -> Promises:
    """Sizes that theory plans, once in a process."""
    return promises(r, np.full(K, 1 / K), N, power)


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Planned sizes and powers (kinds, promises), and what one table of each shows."""
    kinds = grid(config)
    sizes, powers, shown = (np.zeros((len(kinds), len(PROMISES))) for _ in range(3))
    for i, (N, K, r) in enumerate(kinds):
        plan = planned(N, K, r, config.power)
        for j, promise in enumerate(PROMISES):
            sizes[i, j], powers[i, j] = plan.samples[promise], plan.powers[promise]
            rng = stream(seed, "plan", N, K, f"{r:g}", promise)
            xi, equal = rademacher(K, N, rng), np.full(K, 1 / K)
            rows, _ = draw_examples(xi, int(sizes[i, j]), r, rng, exposures=equal)
            if promise == "resolved":
                shown[i, j] = recover(rows, seed=seed, device=device).status == "ok"
            else:
                count = min(_counted(rows), K)
                shown[i, j] = count / K if promise == "seen" else count == K
    return {"sizes": sizes, "powers": powers, "shown": shown}


def _counted(rows: np.ndarray) -> int:
    """Number of archetypes that the rule of `recover` counts."""
    M, N = rows.shape
    x = rows.astype(np.float64)
    values = np.linalg.eigvalsh(x @ x.T if M < N else x.T @ x)[::-1] / M
    return TracyWidom()(Sample(np.maximum(values, 0), N, M)).n_detected


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Frequencies over the tables, their errors, and how many promises are kept."""
    shown = arrays["shown"]
    frequency = shown.mean(axis=0)
    error = np.sqrt(config.power * (1 - config.power) / len(shown))
    kept = frequency >= config.power - ERRORS * error
    lowest = frequency.min(axis=0)
    return {
        **{name: float(frequency[:, j].mean()) for j, name in enumerate(PROMISES)},
        "kept": "; ".join(
            f"{name} {kept[:, j].sum()} of {len(kept)}" for j, name in enumerate(PROMISES)
        ),
        "lowest": by_name(PROMISES, lowest),
        "error": float(error),
        "frequencies": frequency.tolist(),
        "sizes": arrays["sizes"][0].tolist(),
        "kinds": [list(kind) for kind in grid(config)],
    }


def tables(config: Config, summary: dict[str, Any]) -> tuple[Table, ...]:
    """Planned sizes and frequencies of every kind of study."""
    headings = [text for name in PROMISES for text in (f"M {name}", name)]
    rows, names = [], ("kinds", "sizes", "frequencies")
    for kind, sizes, found in zip(*(summary[name] for name in names), strict=True):
        pairs = zip(sizes, found, strict=True)
        cells = [text for M, f in pairs for text in (f"{M:.0f}", f"{f:.3f}")]
        rows.append(("N = {:.0f}, K = {:.0f}, r = {:g}".format(*kind), *cells))
    title = f"power {config.power:g}, error {summary['error']:.3f}"
    return (Table(title, tuple(headings), tuple(rows)),)
