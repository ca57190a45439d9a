"""Comparison of neural methods: cells of tables and sweeps, played one after the other.

A cell is `hopfed fl run` with one method and setting. A seed gives all cells the same data, initial
weights and cohorts, so differences are paired. Arrays of a run are (seeds, cells * rounds,
clients). Cells that only read one federation in different ways (`NeuralMethod.trained_as`) share
one training, and each has the arrays, costs included, that it would have alone. A reading scores
the trained federation of a cell with other options.
"""

from __future__ import annotations

import re
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from importlib.resources import files
from itertools import product
from string import Formatter
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed._lib.settings import describe, require, with_settings
from hopfed.experiments import Arrays, Table, fl
from hopfed.experiments.machinery.checkpoint import stack_seeds
from hopfed.experiments.machinery.settings import Words, among
from hopfed.experiments.shared.curves import accuracy_panels
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.federation.rounds import FederationState
from hopfed.figures.kinds import Panel, error_bars, label_styles, line_plot

CLIENT = ("client/loss", "client/flops")  # metrics of a client that every method reports
ALL = "all"
TABLE = "methods"  # the section that holds every method once

COMPARISONS = tomllib.loads(
    files(__package__).joinpath("comparisons.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Place:
    """Place of a result: its section, the row that is compared, and the swept value, if any.

    A cell has the settings `config` of one method. A reading scores the `round`, from 1, of the
    cell `base` with other `options` of its method.
    """

    section: str
    row: str
    at: str
    config: Any = None
    base: str = ""
    options: str = ""
    round: int = 0

    @property
    def key(self) -> str:
        """Name of the result in the summary."""
        return "/".join(part for part in (self.section, self.row, self.at) if part)


class CellSettings(fl.Shared):
    """Settings that the cells of an experiment share."""

    early: Annotated[int, "round, from 1, reported beside the chosen one"] = 5
    choose: Annotated[
        str,
        among(("validation", "last", "acc")),
        "reported round: the best on clients' own validation examples; the last, for methods that "
        "use these themselves; the best on those of all domains, which clients would have to show",
    ] = "validation"
    sections: Annotated[Words, "tables and sweeps to play"] = (TABLE,)
    rows: Annotated[Words, "rows to play, or all; gains need the reference row"] = (ALL,)

    REFERENCE: ClassVar[str] = "standalone"  # row over which gains are measured
    TIMED: ClassVar[bool] = False  # whether the seconds of training are an array

    def validate(self) -> None:
        """Refuse sections and rows that do not exist."""
        require(1 <= self.early <= self.rounds, "early", "between 1 and rounds", self.early)
        fits = self.domains or self.choose != "acc"
        require(fits, "choose", "validation or last without domains", self.choose)
        require(self.scoring == "all", "scoring", "all in a comparison", self.scoring)
        known = among(self.plans()["sections"])
        require(known.holds(self.sections), "sections", known.words, ",".join(self.sections))
        rows = {place.row for place in self.places() if not place.base}
        rule = f"{ALL}, or among {', '.join(sorted(rows))}, which the sections have"
        whole = bool(rows) and (self.rows == (ALL,) or set(self.rows) <= rows)
        require(whole, "rows", rule, ",".join(self.rows))

    def fingerprint(self, seed: int) -> dict[str, str]:
        """Facts that a continued run must share besides its settings."""
        return {"data": cells_of(self)[0].config.fingerprint(seed)["data"]}

    @classmethod
    def plans(cls) -> dict[str, Any]:
        """Entry of this experiment in comparisons.toml."""
        return COMPARISONS[cls.__module__.rpartition(".")[2]]

    def paper(self) -> dict[str, str]:
        """Row -> the paper's number, where these settings are the paper's."""
        held = dict(self.plans().get("paper", {}))
        rows, data = held.pop("rows", []), re.split("[_.]", self.data.rpartition("/")[2])[0]
        for at, numbers in held.items():
            pairs = [word.split("=") for word in at.split()]
            here = [data if name == "data" else describe(getattr(self, name)) for name, _ in pairs]
            if here == [value for _, value in pairs]:
                return dict(zip(rows, numbers.split("|"), strict=True))
        return {}

    def places(self) -> Iterator[Place]:
        """Every cell and reading of the sections, in playing order."""
        plans, own = self.plans(), {f.name: getattr(self, f.name) for f in fields(fl.Shared)}
        own |= {"seeds": 1, "minimum": 0}  # a method that diverges does not end the others
        due = [section for section in plans["sections"] if section in self.sections]
        for section, plan in ((s, plan) for s in due for plan in plans_of(plans, s)):
            if "when" in plan and not getattr(self, plan["when"]):
                continue
            rows = plan["rows"]
            if not isinstance(rows, dict):
                names = getattr(self, rows) if isinstance(rows, str) else rows
                rows = {name: plans.get("specs", {}).get(name, name) for name in names}
            for (row, spec), (at, value) in product(rows.items(), self._values(plan)):
                fill = partial(self._filled, at=value, row=row)
                method, _, words = fill(spec).rpartition(" ") if "=" in spec else (spec, "", "")
                given = filter(None, f"{words},{fill(plan.get('options', ''))}".split(","))
                options = ",".join({word.partition("=")[0]: word for word in given}.values())
                if "read" not in plan:
                    config = fl.Config(method=method or row, options=options, **own)
                    changes = [fill(setting) for setting in plan.get("set", ())]
                    yield Place(section, row, at, with_settings(config, changes))
                elif (t := int(fill(plan.get("round", "{rounds}")))) <= self.rounds:
                    yield Place(section, row, at, None, fill(plan["read"]), options, t)

    def _values(self, plan: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Label and value of each column of a plan; a label ends at the first comma."""
        held = plan.get("values", [""])
        if isinstance(held, dict):
            return list(held.items())
        found: list[str] = []
        for value in held:
            named = getattr(self, value[1:-1]) if value.startswith("{") else value
            found += map(str, named) if isinstance(named, tuple) else [named]
        return [(value.partition(",")[0], value) for value in found]

    def _filled(self, text: str, **more: str) -> str:
        """A text of a plan whose names in braces are replaced by settings."""
        names = {name for _, name, _, _ in Formatter().parse(text) if name} - more.keys()
        return text.format(**{name: describe(getattr(self, name)) for name in names}, **more)

    def score(
        self, readings: Sequence[Place], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """Test accuracy (clients,) of each of `readings` of one cell in the state `state`."""
        made = (with_settings(method, reading.options.split(",")) for reading in readings)
        return [fl.scores_and_flops(each, state)[0][1] for each in made]

    def more(self, cell: Place, t: int, method: Any, state: FederationState) -> Arrays:  # noqa: ARG002
        """Further arrays of a cell after its round t."""
        return {}

    @property
    def units(self) -> int:
        """Rounds of a seed, over all cells."""
        return len(cells_of(self)) * self.rounds

    @property
    def played(self) -> int:
        """Rounds of a seed that are played, over all groups of cells."""
        return len(groups_of(self)) * self.rounds

    def joined(self, played: Sequence[Arrays]) -> Arrays:
        """Arrays of a seed, (cells * rounds, ...), from those of each round that was played."""
        T, groups = range(self.rounds), enumerate(groups_of(self))
        at = {cell: (g * len(T), i) for g, group in groups for i, cell in enumerate(group)}
        order = [(at[cell][0] + t, at[cell][1]) for cell in cells_of(self) for t in T]
        return {n: np.stack([played[unit][n][i] for unit, i in order]) for n in played[0]}


def plans_of(plans: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    """Plans of the cells in a section of a comparison: one, or several."""
    held = plans["sections"][section]
    return held if isinstance(held, list) else [held]


@lru_cache(8)
def cells_of(bench: CellSettings) -> tuple[Place, ...]:
    """Cells of the requested rows of a comparison; cached, because every round uses them."""
    cells = (place for place in bench.places() if not place.base)
    return tuple(cell for cell in cells if bench.rows == (ALL,) or cell.row in bench.rows)


@lru_cache(8)
def readings_of(bench: CellSettings) -> tuple[Place, ...]:
    """Readings of the cells of a comparison that are played."""
    keys = {cell.key for cell in cells_of(bench)}
    return tuple(place for place in bench.places() if place.base in keys)


@lru_cache(8)
def groups_of(bench: CellSettings) -> tuple[tuple[Place, ...], ...]:
    """Cells of a comparison that share one training, in the order of their first cells."""
    groups: dict[fl.Config, list[Place]] = {}
    for cell in cells_of(bench):
        groups.setdefault(_trained(cell.config), []).append(cell)
    return tuple(map(tuple, groups.values()))


def _trained(config: fl.Config) -> fl.Config:
    """Settings with the method that is trained, which another method may only read."""
    from hopfed.neural.methods import method

    if method(config.method).reads is None:  # making a method may load its data
        return config
    made = config.make(0)
    base = made.trained_as()
    return config if base == made else replace(config, method=base.name, options="")


def measure_round(
    seed: int, bench: CellSettings, t: int, state: Any, engine: Engine
) -> tuple[Arrays, Any]:
    """Play round `t` of an experiment made of cells."""
    from hopfed.neural.memory import SmallStoreWarning

    groups = groups_of(bench)
    group, inner = groups[t // bench.rounds], t % bench.rounds
    state = state if inner else None  # each group starts afresh
    config = group[0].config
    trained = config.make(seed).trained_as()
    with warnings.catch_warnings():  # about clients with fewer examples than neighbours
        warnings.simplefilter("ignore", SmallStoreWarning)
        start = time.process_time()
        spent, after = fl.train_round(config, trained, inner, state, engine)
        spent = {n: a for n, a in spent.items() if not n.startswith("client/") or n in CLIENT}
        if bench.TIMED:
            spent["seconds"] = np.array(time.process_time() - start)
        each = [_scored(bench, cell, inner, trained, spent, after) for cell in group]
    each += each[-1:] * (max(map(len, groups)) - len(each))  # one shape for all groups
    return stack_seeds(each), FederationState({}) if inner + 1 == bench.rounds else after


def _scored(
    bench: CellSettings,
    cell: Place,
    inner: int,
    trained: Any,
    spent: Arrays,
    after: FederationState,
) -> Arrays:
    """Arrays of a cell in a round, as if its method had been trained alone."""
    method, arrays = cell.config.make(trained.task.seed), dict(spent)
    if method != trained:
        more = [method.reading_flops(c) for c in range(bench.clients)]
        arrays["client/flops"] = arrays["client/flops"] + more  # NaN if client was absent
    arrays |= fl.score_clients(cell.config, method, inner, after, arrays)
    if bench.choose == "acc":
        arrays["validation"] = arrays["domains/validation"]
    readings, here = readings_of(bench), (cell.key, inner + 1)
    if readings:
        arrays["readings"] = np.full((len(readings), bench.clients), np.nan)
    ours = [i for i, reading in enumerate(readings) if (reading.base, reading.round) == here]
    if ours:
        arrays["readings"][ours] = bench.score([readings[i] for i in ours], method, after)
    return arrays | bench.more(cell, inner, method, after)


def arrays_by_cell(bench: CellSettings, arrays: Arrays) -> dict[str, Arrays]:
    """Arrays of each cell, (seeds, rounds, ...), by its key."""
    T, keys = bench.rounds, [cell.key for cell in cells_of(bench)]
    return {k: {n: a[:, i * T : i * T + T] for n, a in arrays.items()} for i, k in enumerate(keys)}


def counted_round(bench: CellSettings, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Reported round (seeds,) of a cell, and the clients' test accuracy in it."""
    if bench.choose == "last":
        return np.full(len(arrays["test"]), bench.rounds - 1), arrays["test"][:, -1]
    return fl.chosen_round(arrays)


def numbers_per_seed(bench: CellSettings, arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
    """A number per seed for each cell and measure, at the round that counts where none is named.

    As `fl.accuracies_and_costs`; megabytes (both ways) of a client until then; ``unseen``, the
    accuracy of the clients that never take part, where there are any.
    """
    found, held = {}, arrays_by_cell(bench, arrays)
    for cell in cells_of(bench):
        a, seen = held[cell.key], cell.config.seen
        best, chosen = counted_round(bench, a)
        test, seeds = fl.mean_over_clients(a, "test"), np.arange(len(best))
        scored = np.flatnonzero(~np.isnan(test[0]))
        early = scored[np.searchsorted(scored, min(bench.early - 1, scored[-1]))]
        up, down, *_ = fl.sum_costs(a)
        numbers = fl.accuracies_and_costs(a, best, chosen)
        numbers |= {"early": test[:, early], "megabytes": (up + down)[seeds, best] / 1e6}
        if bench.domains:
            numbers |= {n: a[f"domains/{n}"][seeds, best].mean(axis=1) for n in fl.DOMAINS}
        if seen < bench.clients:
            numbers["unseen"] = chosen[:, seen:].mean(axis=1)
        found[cell.key] = numbers
    return found


def reading_accuracies(bench: CellSettings, arrays: Arrays) -> dict[str, np.ndarray]:
    """Test accuracy of each reading of a comparison's cells, mean over clients: (seeds,)."""
    held, found = arrays_by_cell(bench, arrays), {}
    for i, reading in enumerate(readings_of(bench)):
        found[reading.key] = held[reading.base]["readings"][:, reading.round - 1, i].mean(axis=1)
    return found


def summarise(bench: CellSettings, arrays: Arrays) -> dict[str, Any]:
    """Of cells, mean and deviation over seeds of every measure; gains over a reference are paired.

    Keys are ``section/row/at/measure``; ``gain`` and ``early_gain`` have standard errors, and
    ``discarded`` is the share of updates that could not be used, where there are any.
    """
    cells, held = numbers_per_seed(bench, arrays), arrays_by_cell(bench, arrays)
    summary: dict[str, Any] = {}
    for cell in cells_of(bench):
        values = cells[cell.key]
        beside = Place(cell.section, bench.REFERENCE, cell.at).key
        base = cells.get(beside) or cells.get(f"{TABLE}/{bench.REFERENCE}", {})
        summary |= {f"{cell.key}/{name}": mean_and_sd(value) for name, value in values.items()}
        for name, measure in (("gain", "test"), ("early_gain", "early")) if base else ():
            summary[f"{cell.key}/{name}"] = mean_and_error(values[measure] - base[measure])
        bad = ~np.isin(held[cell.key]["faults/code"], fl.QUIET)
        if bad.any():
            summary[f"{cell.key}/discarded"] = [float(bad.mean())]
    readings = reading_accuracies(bench, arrays).items()
    return summary | {f"{key}/test": mean_and_sd(values) for key, values in readings}


def tables(bench: CellSettings, summary: dict[str, Any]) -> list[Table]:
    """Tables of a comparison of cells, by section: a row per place, numbers, the paper's value."""
    one, gain, brief = (
        partial(format_percent, digits=1),
        partial(format_percent, digits=2, sign=True),
        "{:.3g}",
    )
    shown: dict[str, tuple[str, Callable[[Any], str]]] = {
        "accuracy %": ("test", one),
        "gain ± s.e.": ("gain", gain),
        f"gain, round {bench.early}": ("early_gain", gain),
        "worst tenth %": ("decile", lambda value: one(value[:1])),
        **{f"{name.upper()} %": (name, one) for name in fl.DOMAINS},
        "change ± s.e.": ("change", gain),
        "MB": ("megabytes", lambda value: brief.format(value[0])),
        "MB up": ("up", lambda value: brief.format(value[0])),
        "GFLOP": ("gigaflops", lambda value: brief.format(value[0])),
        "all examples %": ("whole", one),
        "unseen clients %": ("unseen", one),
        "discarded updates %": ("discarded", one),
    }
    paper, made = bench.paper(), []
    for title, places in group_by_section([*cells_of(bench), *readings_of(bench)]):
        rows = []
        heads = [h for h, (n, _) in shown.items() if any(f"{p.key}/{n}" in summary for p in places)]
        for place in places:
            values = ((summary.get(f"{place.key}/{shown[h][0]}"), shown[h][1]) for h in heads)
            row = [f"{place.row} {place.at}".strip(), *(f(v) if v else "" for v, f in values)]
            rows.append((*row, *[paper.get(place.key, paper.get(place.row, ""))] * bool(paper)))
        made.append(Table(title, (*heads, *["paper"] * bool(paper)), tuple(rows)))
    return made


def group_by_section(places: Sequence[Place]) -> list[tuple[str, list[Place]]]:
    """Places of each section of a comparison of cells."""
    sections = dict.fromkeys(place.section for place in places)
    return [(name, [place for place in places if place.section == name]) for name in sections]


def format_percent(value: Sequence[float | None], digits: int, sign: bool = False) -> str:
    """Mean and spread of a cell of a comparison in percent, as ``+1.2 ± 0.4``."""
    mean, spread = value[0], value[1] if len(value) > 1 else None
    text = f"{100 * (mean or 0):{'+' if sign else ''}.{digits}f}"
    return text if spread is None else f"{text} ± {100 * spread:.{digits}f}"


def panels(bench: CellSettings, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Panels of a comparison of cells (accuracy over rounds, cost, gains, clients), of sections."""
    held, chosen, made = arrays_by_cell(bench, arrays), {}, list[Panel]()
    for cell in cells_of(bench):
        test, seen = counted_round(bench, held[cell.key])[1], cell.config.seen
        chosen[cell.key] = test[:, seen:] if seen < bench.clients else test  # newcomers alone
    means = {key: test.mean(axis=1) for key, test in chosen.items()} | reading_accuracies(
        bench, arrays
    )
    for section, places in group_by_section([*cells_of(bench), *readings_of(bench)]):
        if section == TABLE:
            made += _table_panels(bench.REFERENCE, places, held, chosen)
        else:
            label = plans_of(bench.plans(), section)[0].get("label", "")
            made.append(_section_panel(places, means, label))
    return made


def _table_panels(
    reference: str, table: Sequence[Place], held: Mapping[str, Arrays], chosen: Arrays
) -> list[Panel]:
    """Panels of the table of methods, whose reference, if any, comes last, in grey."""
    keys = {place.row: place.key for place in table}
    style = label_styles([row for row in keys if row != reference])
    colours = [style[row]["color"] if row in style else "0.6" for row in keys]
    lines = {row: (held[key], "test") for row, key in keys.items() if row != reference}
    if reference in keys:
        lines["test"] = held[keys[reference]], "test"
    made = accuracy_panels(lines, legend="")
    if reference in keys:
        base = chosen[keys[reference]].mean(axis=1)
        gains = {"": 100 * np.stack([chosen[k].mean(axis=1) - base for k in keys.values()], axis=1)}
        title = f"points over {reference}, paired by seed"
        made.append(error_bars(title, [*keys], gains, level=0.0, colours=colours, each=True))
    size = chosen[table[0].key].size
    clients = {"": np.stack([np.resize(chosen[k].ravel(), size) for k in keys.values()], 1)}
    return [*made, error_bars("accuracy of clients", [*keys], clients, colours=colours, each=True)]


def _section_panel(places: Sequence[Place], means: Arrays, label: str) -> Panel:
    """Accuracy of each row at every value, or of each row alone."""
    section, rows = places[0].section, list(dict.fromkeys(place.row for place in places))
    at = list(dict.fromkeys(place.at for place in places))
    none = np.full(len(means[places[0].key]), np.nan)
    found = [[means.get(Place(section, row, x).key, none) for x in at] for row in rows]
    values: np.ndarray = np.array(found)  # (rows, values, seeds)
    if all(re.fullmatch(r"[-+.\de]+", value) for value in at):
        lines = dict(zip(rows, values.swapaxes(1, 2), strict=True))
        return line_plot(section, at, lines, band="error", xlabel=label, ylabel="test accuracy")
    marks = dict(zip(at, values.transpose(1, 2, 0), strict=True))
    legend = "below" if len(rows) > 7 else "best"
    return error_bars(section, rows, marks, each=True, legend=legend, xlabel="test accuracy")
