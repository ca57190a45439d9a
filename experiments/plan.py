"""Plan: whether studies of the planned size keep what was promised of them.

For every number of sites, of equal archetypes and every quality, theory plans three sizes: each
archetype is seen with the power asked for, all of them are counted, and every pattern is resolved,
which `recover` says as "ok" (theory/study.py). Tables of these sizes are drawn and counted, by the
rule that `recover` uses, and at the third size recovered. The frequencies are compared with the
power that was asked for, within binomial errors. The planner's own draws share nothing with these.

Measured on the default grid with 60 tables of each kind (error .039), promised .9: archetypes seen
.87 to 1, all counted .82 to 1, "ok" .80 to 1. Two of the 54 places are more than two errors below:
all of ten at N = 256, r = .6 in .817, "ok" for three at N = 100, r = .2 in .80.

Run it with ``hopfed run plan --workers 2 --out plan.h5``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.experiments import Arrays, Measure, Record, Table
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import recover
from hopfed.spectral.noise import Sample
from hopfed.spectral.rank import TracyWidom
from hopfed.theory.study import PROMISES, Promises, promises

ERRORS = 2.0  # binomial standard errors within which a promise counts as kept


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    N : numbers of sites.
    K : numbers of archetypes, of equal exposure.
    qualities : of the examples.
    power : probability that is promised.
    seeds : independent tables of each kind and size.
    """

    N: tuple[int, ...] = (100, 256)
    K: tuple[int, ...] = (1, 3, 10)
    qualities: tuple[float, ...] = (0.2, 0.4, 0.6)
    power: float = 0.9
    seeds: int = 100

    def __post_init__(self) -> None:
        check_types(self)
        require(min(self.N) >= 50, "N", "at least 50 each", self.N)
        require(min(self.K) >= 1 and max(self.K) <= 50, "K", "from 1 to 50 each", self.K)
        good = all(0 < r < 1 for r in self.qualities)
        require(good, "qualities", "in (0, 1)", self.qualities)
        require(0 < self.power < 1, "power", "in (0, 1)", self.power)
        require(max(self.K) < min(self.N), "K", "below every N", self.K)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)


PRESETS = {
    "quick": Config(N=(100,), K=(1, 3), qualities=(0.4,), seeds=20),
    "default": Config(),
    "paper": Config(N=(100, 256, 400), seeds=400),
}

RECORD = Record(
    claim="a study of the planned size sees its archetypes as often as was promised",
    source="proposed here (theory/NOTES.md, Power of a study)",
    minutes={"quick": 0.1, "default": 5, "paper": 40},
    measures={
        "seen": Measure("archetypes seen, mean over the grid", aim="the power"),
        "all": Measure("tables in which all are counted, mean over the grid", aim="the power"),
        "resolved": Measure('tables that are "ok", mean over the grid', aim="the power"),
        "kept": Measure("places of the grid not below the power by two errors", aim="all"),
        "lowest": Measure("lowest frequency of the grid, by promise"),
    },
)


def grid(config: Config) -> list[tuple[int, int, float]]:
    """Kinds of study: sites, archetypes, quality."""
    return list(product(config.N, config.K, config.qualities))


@lru_cache(maxsize=1024)
def planned(N: int, K: int, r: float, power: float) -> Promises:
    """Sizes that theory plans, once in a process."""
    return promises(r, np.full(K, 1 / K), N, power)


def run(config: Config, seed: int, device: str = "cpu") -> Arrays:
    """Planned sizes and powers (kinds, promises), and what one table of each shows."""
    kinds = grid(config)
    sizes, powers, shown = (np.zeros((len(kinds), len(PROMISES))) for _ in range(3))
    for i, (N, K, r) in enumerate(kinds):
        plan = planned(N, K, r, config.power)
        for j, promise in enumerate(PROMISES):
            sizes[i, j], powers[i, j] = plan.samples[promise], plan.powers[promise]
            rng = stream(seed, "plan", N, K, f"{r:g}", promise)
            exposures = np.full(K, 1 / K)
            rows, _ = draw_examples(
                rademacher(K, N, rng), int(sizes[i, j]), r, rng, exposures=exposures
            )
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
        "lowest": "; ".join(f"{name} {lowest[j]:.3f}" for j, name in enumerate(PROMISES)),
        "error": float(error),
        "frequencies": frequency.tolist(),
        "sizes": arrays["sizes"][0].tolist(),
        "kinds": [list(kind) for kind in grid(config)],
    }


def tables(config: Config, summary: dict[str, Any]) -> tuple[Table, ...]:
    """Planned sizes and frequencies of every kind of study."""
    headings = [text for name in PROMISES for text in (f"M {name}", name)]
    rows = []
    for kind, sizes, found in zip(
        summary["kinds"], summary["sizes"], summary["frequencies"], strict=True
    ):
        cells = [
            text for M, f in zip(sizes, found, strict=True) for text in (f"{M:.0f}", f"{f:.3f}")
        ]
        rows.append(("N = {:.0f}, K = {:.0f}, r = {:g}".format(*kind), *cells))
    title = f"power {config.power:g}, error {summary['error']:.3f}"
    return (Table(title, tuple(headings), tuple(rows)),)
