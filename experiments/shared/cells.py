"""Comparison of neural methods: cells of tables and sweeps, played one after the other.

A cell is `hopfed fl run` with one method and setting. All cells of an experiment have the same
clients and rounds. A seed gives all of them the same data, partition, initial weights and cohorts,
so that differences between methods are paired. The arrays of a run are (seeds, cells * rounds,
clients), cell by cell.

Cells whose methods only read one federation in different ways, as FedAvg, its prior, FedAvg+ and
kNN-Per do (`NeuralMethod.trained_as`), share one training. Each of them has the arrays, costs
included, that it would have had alone. What is played is a round of such a group, and its arrays
have an axis of cells in front.

A reading scores the trained federation of a cell with other options, without training again.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hopfed._lib.settings import check_types, require, with_settings
from hopfed.experiments import Arrays, fl
from hopfed.experiments.shared import feature_planes as _planes
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.engines import Engine
from hopfed.federation.rounds import FederationState

CLIENT = ("client/loss", "client/flops")  # metrics of a client that every method reports
ALL = "all"
CHOICES = ("validation", "last", "acc")
TABLE = "methods"  # the section that holds every method once


@dataclass(frozen=True)
class Place:
    """Place of a result in tables and sweeps.

    Attributes
    ----------
    section : the table or sweep it belongs to.
    row : name of the compared method or variant.
    at : value of the swept setting; empty in a table.
    """

    section: str
    row: str
    at: str

    @property
    def key(self) -> str:
        """Name of the result in the summary."""
        return "/".join(part for part in (self.section, self.row, self.at) if part)


@dataclass(frozen=True)
class Cell(Place):
    """One method in one setting, `config`."""

    config: fl.Config


@dataclass(frozen=True)
class Reading(Place):
    """A round, from 1, of the cell `base`, scored with other `options` of its method."""

    base: str
    options: str
    round: int


@dataclass(frozen=True)
class Bench(ABC):
    """Settings that the cells of an experiment share; see `hopfed.experiments.fl.Config`.

    Attributes
    ----------
    sections : tables and sweeps to play, among `SECTIONS`. The table of methods must be included,
        unless all are among `ALONE`, which contain their own reference.
    rows : rows to play, which must include `COMPARED`; or "all".
    rounds : communication rounds of a cell.
    early : round, from 1, whose accuracy is reported in addition to that of the chosen round.
    lax : show also the accuracy of the round that is best on test examples, which a laxer protocol
        would report.
    choose : reported round: "validation" is the best on clients' own validation examples; "last"
        is for methods that use these themselves; "acc", with `domains`, is the best on the
        validation examples of all domains, which clients would have to show each other.
    """

    data: str = "digits"
    partition: str = "classes:4"
    clients: int = 10
    models: tuple[str, ...] = ("cnn-5",)
    norm: str = "group"
    init: str = "auto"
    augment: bool = False
    device: str = "cpu"
    examples: int = 0
    shares: tuple[float, ...] = (8.0, 1.0, 1.0)
    unseen: float = 0.0
    domains: bool = False
    rounds: int = 20
    early: int = 5
    rate: float = 1.0
    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 1
    batch: int = 32
    clip: float = 0.0
    schedule: str = "constant"
    warmup: int = 0
    way: str = "auto"
    precision: str = "float32"
    compile: str = ""
    every: int = 1
    choose: str = "validation"
    lax: bool = False
    sections: tuple[str, ...] = (TABLE,)
    rows: tuple[str, ...] = (ALL,)
    seeds: int = 6

    SECTIONS: ClassVar[tuple[str, ...]] = (TABLE,)
    ALONE: ClassVar[tuple[str, ...]] = ()
    COMPARED: ClassVar[tuple[str, ...]] = ("standalone",)  # reference rows of gains
    PICTURED: ClassVar[tuple[str, ...]] = ()  # cells whose features are kept in a plane
    PLANE: ClassVar[tuple[str, str]] = ("clients", "t-sne")  # arguments `by`, `way` of `plane`

    def __post_init__(self) -> None:
        check_types(self)
        require(1 <= self.early <= self.rounds, "early", "between 1 and rounds", self.early)
        require(self.choose in CHOICES, "choose", f"one of {', '.join(CHOICES)}", self.choose)
        fits = self.domains or self.choose != "acc"
        require(fits, "choose", "validation or last without domains", self.choose)
        unknown = [s for s in self.sections if s not in self.SECTIONS]
        require(not unknown, "sections", f"among {', '.join(self.SECTIONS)}", self.sections)
        rule = " or only ".join(filter(None, (f"{TABLE} among them", ", ".join(self.ALONE))))
        whole = TABLE in self.sections or set(self.sections) <= set(self.ALONE)
        require(bool(self.sections) and whole, "sections", rule, self.sections)
        known = {cell.row for cell in self.cells()}
        rule = f"{ALL}, or among {', '.join(sorted(known))}, with {' and '.join(self.COMPARED)}"
        whole = self.rows == (ALL,) or set(self.COMPARED) <= set(self.rows) <= known
        require(whole, "rows", rule, ",".join(self.rows))
        for cell in self.cells():  # making a cell checks its settings
            require(cell.config.clients == self.clients, "clients", "one for all cells", cell.key)

    @abstractmethod
    def cells(self) -> tuple[Cell, ...]:
        """All cells of the sections, in playing order."""

    def readings(self) -> tuple[Reading, ...]:
        """All readings of the sections."""
        return ()

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) of each of some readings of one cell in the state `state`."""
        made = (with_settings(method, reading.options.split(",")) for reading in readings)
        return [fl.scores_of(each, state)[1] for each in made]

    @property
    def units(self) -> int:
        """Rounds of a seed, over all cells."""
        return len(cells_of(self)) * self.rounds

    @property
    def played(self) -> int:
        """Rounds of a seed that are played, over all groups of cells."""
        return len(groups_of(self)) * self.rounds

    def joined(self, played: Sequence[Arrays]) -> Arrays:
        """Arrays of a seed, (units, ...), from those of each round that was played."""
        found: dict[Cell, list[tuple[Arrays, int]]] = {}
        for g, group in enumerate(groups_of(self)):
            rounds = played[g * self.rounds : (g + 1) * self.rounds]
            found |= {cell: [(arrays, i) for arrays in rounds] for i, cell in enumerate(group)}
        order = [place for cell in cells_of(self) for place in found[cell]]
        return {n: np.stack([arrays[n][i] for arrays, i in order]) for n in played[0]}

    def cell(
        self,
        section: str,
        row: str,
        at: object = "",
        *,
        method: str,
        options: str = "",
        **changes: Any,
    ) -> Cell:
        """Make a cell: these settings, with `changes`."""
        shared = {f.name for f in fields(fl.Config)} & {f.name for f in fields(Bench)}
        settings = {name: getattr(self, name) for name in shared} | changes | {"seeds": 1}
        config = fl.Config(method=method, options=options, **settings)
        return Cell(section, row, str(at), config)


@lru_cache(8)
def cells_of(bench: Bench) -> tuple[Cell, ...]:
    """Cells of the requested rows; cached, because every round uses them."""
    return tuple(cell for cell in bench.cells() if bench.rows == (ALL,) or cell.row in bench.rows)


@lru_cache(8)
def readings_of(bench: Bench) -> tuple[Reading, ...]:
    """Readings of the cells that are played."""
    keys = {cell.key for cell in cells_of(bench)}
    return tuple(reading for reading in bench.readings() if reading.base in keys)


@lru_cache(8)
def groups_of(bench: Bench) -> tuple[tuple[Cell, ...], ...]:
    """Cells that share one training, in the order of their first ones."""
    groups: dict[fl.Config, list[Cell]] = {}
    for cell in cells_of(bench):
        groups.setdefault(_trained(cell.config), []).append(cell)
    return tuple(map(tuple, groups.values()))


def _trained(config: fl.Config) -> fl.Config:
    """Settings with the method that is trained, which may be another than the one that is read."""
    from hopfed.neural.methods import method

    if method(config.method).reads is None:  # making a method may load its data
        return config
    made = config.make(0)
    base = made.trained_as()
    return config if base == made else replace(config, method=base.name, options="")


def play(bench: Bench, seed: int, t: int, state: Any, engine: Engine) -> tuple[Arrays, Any]:
    """Play round `t` of the experiment: `run_round` of every experiment made of cells."""
    groups = groups_of(bench)
    group, inner = groups[t // bench.rounds], t % bench.rounds
    config, ends = group[0].config, inner + 1 == bench.rounds
    trained = config.make(seed).trained_as()
    spent, after = fl.train_round(config, trained, inner, state or None, engine)
    spent = {n: a for n, a in spent.items() if not n.startswith("client/") or n in CLIENT}
    each = [_scored(bench, cell, inner, trained, spent, after) for cell in group]
    each += each[-1:] * (max(map(len, groups)) - len(each))  # one shape for all groups
    arrays = {n: np.stack([a[n] for a in each]) for n in each[0]}
    if not ends:
        return arrays, after
    return arrays, None if t + 1 == bench.played else {}  # the next group starts afresh


def _scored(
    bench: Bench, cell: Cell, inner: int, trained: Any, spent: Arrays, after: FederationState
) -> Arrays:
    """Arrays of a cell in a round, as if its method had been trained alone."""
    method, arrays = cell.config.make(trained.task.seed), dict(spent)
    if method != trained:
        more = [method.reading_flops(c) for c in range(bench.clients)]
        arrays["client/flops"] = arrays["client/flops"] + more  # NaN where one did not take part
    arrays |= fl.score(cell.config, method, inner, after)
    if bench.choose == "acc":
        arrays["validation"] = arrays["domains/validation"]
    readings = readings_of(bench)
    if readings:
        arrays["readings"] = np.full((len(readings), bench.clients), np.nan)
    here = cell.key, inner + 1
    ours = [i for i, reading in enumerate(readings) if (reading.base, reading.round) == here]
    if ours:
        arrays["readings"][ours] = bench.score([readings[i] for i in ours], method, after)
    if bench.PICTURED:
        arrays["plane"] = _planes.blank(bench.clients)
        if inner + 1 == bench.rounds and cell.key in bench.PICTURED:
            arrays["plane"] = _planes.plane(method, after, *bench.PLANE)
    return arrays


def play_quietly(bench: Bench, seed: int, t: int, state: Any, engine: Engine) -> tuple[Arrays, Any]:
    """As `play`, without warnings about clients with fewer examples than neighbours asked for."""
    from hopfed.neural.memory.neighbours import SmallStoreWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallStoreWarning)
        return play(bench, seed, t, state, engine)


def by_cell(bench: Bench, arrays: Arrays) -> dict[str, Arrays]:
    """Arrays of each cell, (seeds, rounds, ...), by its key."""
    cells = cells_of(bench)
    return {
        cell.key: {n: a[:, i * bench.rounds : (i + 1) * bench.rounds] for n, a in arrays.items()}
        for i, cell in enumerate(cells)
    }


def counted_round(bench: Bench, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Reported round (seeds,) of a cell, and the clients' test accuracy in it."""
    if bench.choose == "last":
        seeds = len(arrays["test"])
        return np.full(seeds, bench.rounds - 1), arrays["test"][:, -1]
    return fl.chosen_round(arrays)


def per_seed(bench: Bench, arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
    """One number per seed for each cell and measure.

    ``test``, ``weighted`` by test examples, ``decile``, the mean of the worst tenth, and
    ``quantile``, see `low_quantile`, are at the round that counts; ``early``, ``last`` and
    ``best_test``, of the round that is best on test examples, not;
    megabytes (both ways) and GFLOP are those of a client until the chosen round; ``unseen`` is that
    of the clients that never take part, where there are any.
    """
    found = {}
    settings = {cell.key: cell.config for cell in cells_of(bench)}
    for key, a in by_cell(bench, arrays).items():
        seen = settings[key].seen
        best, chosen = counted_round(bench, a)
        seeds = np.arange(len(best))
        test = a["test"].mean(axis=2)
        scored = np.flatnonzero(~np.isnan(test[0]))
        early = scored[np.searchsorted(scored, min(bench.early - 1, scored[-1]))]
        up, down, flops = (fl.spent(a, n) for n in ("traffic/up", "traffic/down", "client/flops"))
        found[key] = {
            "test": chosen.mean(axis=1),
            "weighted": fl.by_size(chosen, a),
            "decile": fl.worst_tenth(chosen),
            "quantile": fl.lowest(chosen),
            "spread": chosen.std(axis=1),
            "early": test[:, early],
            "last": test[:, -1],
            "best_test": np.nanmax(test, axis=1),
            "round": best + 1.0,
            "megabytes": (up + down)[seeds, best] / 1e6,
            "gigaflops": flops[seeds, best] / 1e9,
        }
        if seen < bench.clients:
            found[key]["unseen"] = chosen[:, seen:].mean(axis=1)
    return found


def read(bench: Bench, arrays: Arrays) -> dict[str, np.ndarray]:
    """Test accuracy of each reading, mean over clients: (seeds,)."""
    keys = [cell.key for cell in cells_of(bench)]
    found = {}
    for i, reading in enumerate(readings_of(bench)):
        at = keys.index(reading.base) * bench.rounds + reading.round - 1
        found[reading.key] = arrays["readings"][:, at, i].mean(axis=1)
    return found


def summarise(bench: Bench, arrays: Arrays) -> dict[str, Any]:
    """Mean and deviation over seeds of every measure; gains over a reference row are paired.

    Keys are ``section/row/at/measure``; ``gain`` and ``early_gain`` have standard errors.
    """
    cells, reference = per_seed(bench, arrays), bench.COMPARED[0]
    summary: dict[str, Any] = {}
    for cell in cells_of(bench):
        values = cells[cell.key]
        beside = Place(cell.section, reference, cell.at).key
        base = cells.get(beside) or cells[f"{TABLE}/{reference}"]
        for name, value in values.items():
            summary[f"{cell.key}/{name}"] = mean_and_sd(value)
        for name, measure in (("gain", "test"), ("early_gain", "early")):
            summary[f"{cell.key}/{name}"] = mean_and_error(values[measure] - base[measure])
    readings = read(bench, arrays).items()
    return summary | {f"{key}/test": mean_and_sd(values) for key, values in readings}


def mean_and_error(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and its standard error, of one value per seed."""
    mean, sd = mean_and_sd(values)
    return mean, None if sd is None else sd / len(values) ** 0.5
