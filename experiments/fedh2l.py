"""FedH2L and its baselines on domains: peers learn from each other's predictions.

Every node holds a domain and shows a share alpha of it to all. ACC is accuracy on all domains, WDP
on the node's own, CDP on the others. `agg equal images` sees as many images a round as FedH2L. See
theory/NOTES.md, "Domains and public data". Sections: `methods`; `averaging`, FedAvg and FedProx
with one architecture; `bandwidth`, these after as many rounds as need the bytes of FedH2L;
`variants`; `local steps`; `alpha`. The last round is reported, because validation examples of a
node do not represent other domains; the paper's choice is ``--set choose=acc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays, Table, fl
from hopfed.experiments.fl import DOMAINS
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, Bench, Cell, Reading, measure_round, percent
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.federation.rounds import FederationState
from hopfed.figures.kinds import Panel, matrix, paired

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

EQUAL = "agg equal images"
AVERAGING, BANDWIDTH = "averaging", "bandwidth"
AVERAGES = ("fedavg", "fedprox")

PICTURED = (f"{TABLE}/ind", f"{TABLE}/{EQUAL}", f"{TABLE}/fedh2l")
GROUPS, EACH = 4, 50  # of a plane: domains, and test examples of each


class Config(Bench):
    """Settings."""

    data: str = "mnist"
    partition: str = "rotation:0,20,40,60:100:same"
    clients: int = 4
    models: tuple[str, ...] = ("lenet",)
    shares: tuple[float, ...] = (75.0, 10.0, 15.0)
    domains: bool = True
    rounds: int = 500
    early: int = 50
    optimizer: str = "amsgrad"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    every: int = 50
    choose: str = "last"
    alpha: Annotated[float, "share of a node's examples that all nodes know"] = 0.10

    COMPARED: ClassVar[tuple[str, ...]] = ("ind", EQUAL)

    def validate(self) -> None:
        """Refuse one domain for all, and bandwidth without what it reads."""
        require(self.domains, "domains", "true, because domains are compared", self.domains)
        whole = BANDWIDTH not in self.sections or AVERAGING in self.sections
        require(whole, "sections", f"with {AVERAGING} where {BANDWIDTH} is", self.sections)
        super().validate()

    @property
    def images(self) -> int:
        """Images that AGG sees in a step where it sees as many as FedH2L."""
        return self.clients * self.batch

    def score(
        self, readings: Sequence[Reading], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """ACC of each node."""
        return [fl.by_domain(method, state)["domains/acc"]] * len(readings)

    def more(self, cell: Cell, t: int, method: Any, state: FederationState) -> Arrays:
        """Features in a plane, at the end of some rows."""
        drawn = t + 1 == self.rounds and cell.key in PICTURED
        blank = np.zeros((min(GROUPS, self.clients), EACH, 3), np.uint8)
        return {"plane": plane(method, state) if drawn else blank}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """ACC, WDP, CDP, and the paired gain in ACC over `agg equal images` with standard error.

    Also the round at which FedAvg and FedProx need the bytes of FedH2L, and their ACC there.
    """
    summary, held = _cells.summarise(config, arrays), _cells.by_cell(config, arrays)
    acc = {key: found["acc"] for key, found in _cells.per_seed(config, arrays).items()}
    for key, values in acc.items():
        summary[f"{key}/gain"] = mean_and_error(values - acc[f"{TABLE}/{EQUAL}"])
    read, own = _cells.read(config, arrays), f"{TABLE}/fedh2l"
    for reading in _cells.readings_of(config) if own in held else ():
        pairs = (fl.costs(held[key])[:2] for key in (reading.base, own))
        spent, most = ((up + down)[0] for up, down in pairs)  # of a node, in the first seed
        if reading.round == 1 or spent[reading.round - 1] <= most[-1]:
            summary[f"{BANDWIDTH}/{reading.row}/matched"] = reading.round
            summary[f"{BANDWIDTH}/{reading.row}/acc"] = mean_and_sd(read[reading.key])
    return summary


def plane(method: Any, state: FederationState) -> np.ndarray:
    """Features of test examples of domains in a plane (domains, EACH, 3): x, y, label plus one.

    All are features of the model of node 0 (arXiv:2101.11296, Fig. 1); missing examples are 0.
    """
    from sklearn.decomposition import PCA

    split, seed = method.loaded.split, method.task.seed
    found = np.zeros((min(GROUPS, len(split)), EACH, 3), np.uint8)
    domains = range(len(found))
    rows = [stream(seed, "plane", c).permutation(split.test[c])[:EACH] for c in domains]
    classifier, every = fl.classifier_of(method, state, 0), np.concatenate(rows)
    features = np.asarray(classifier.embed(method.loaded.tensors, every).features)
    xy = PCA(2, svd_solver="full").fit_transform(features)
    xy = np.rint(255 * (xy - xy.min(axis=0)) / np.maximum(np.ptp(xy, axis=0), 1e-12))
    points = np.column_stack([xy, split.dataset.labels[every] + 1])
    for c, held in enumerate(np.split(points, np.cumsum([len(part) for part in rows])[:-1])):
        found[c, : len(held)] = held
    return found


def tables(config: Config, summary: dict[str, Any]) -> list[Table]:
    """One table per section, with the paper's numbers if the setting is the paper's."""
    shown: _cells.Shown = {
        **{name.upper(): (name, lambda v: percent(v, 1)) for name in DOMAINS},
        f"ACC gained over {EQUAL}": ("gain", lambda v: percent(v, 2, True)),
        "MB": ("megabytes", _cells.brief),
    }
    sections = _cells.by_section(_cells.cells_of(config))
    made = [_cells.table(places, summary, shown, config.paper()) for places in sections]
    at = {n: [summary.get(f"{BANDWIDTH}/{n}/{k}") for k in ("matched", "acc")] for n in AVERAGES}
    matched = tuple((n, str(t), percent(acc, 1)) for n, (t, acc) in at.items() if acc)
    return made + [Table("bytes of fedh2l", ("rounds", "ACC"), matched)] * bool(matched)


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """ACC, WDP and CDP of each row, who is right on whose domain, and what all comparisons show."""
    held = _cells.by_cell(config, arrays)
    table = {c.row: held[c.key] for c in _cells.cells_of(config) if c.section == TABLE}
    ends = {n: [a[f"domains/{n}"][:, -1].mean(axis=1) for a in table.values()] for n in DOMAINS}
    marks = {name.upper(): np.stack(each, axis=1) for name, each in ends.items()}
    made = [paired("all domains, own, others", list(table), marks, xlabel="accuracy")]
    for row in [row for row in ("ind", "fedh2l") if row in table]:
        right = table[row]["domains/accuracy"][:, -1].mean(axis=0)
        at, title = range(1, len(right) + 1), f"% right, {row}"
        made.append(matrix(title, right, at, at, half=False, xlabel="node", ylabel="domain"))
    planes = {row: a["plane"][0, -1] for row, a in table.items() if "plane" in a}
    made += [_plane(row, held) for row, held in planes.items() if held.any()]
    return [*made, *_cells.panels(config, arrays, summary)]


def _plane(row: str, held: np.ndarray) -> Panel:
    """Features in a plane; a colour is a label, a mark a domain."""

    def draw(axes: Any, _: Any) -> None:
        from matplotlib import colormaps

        for points, mark in zip(held, "o^sD", strict=False):
            x, y, label = points[points[:, 2] > 0].T.astype(int)
            axes.scatter(x, y, s=9, marker=mark, color=colormaps["tab10"]((label - 1) % 10), lw=0)
        axes.set(xticks=[], yticks=[])

    words = {"xlabel": "colour: label, mark: domain", "legend": ""}
    return Panel(draw, f"features, {row}", words)
