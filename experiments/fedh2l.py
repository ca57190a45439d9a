"""FedH2L and its baselines on domains: peers learn from each other's predictions.

Every node holds a domain and shows a share alpha of it to all. ACC is accuracy on all domains, WDP
on the node's own, CDP on the others. `agg equal images` sees as many images a round as FedH2L. See
theory/NOTES.md, "Domains and public data". Sections: `methods`; `averaging`, FedAvg and FedProx
with one architecture; `bandwidth`, these after as many rounds as cost the bytes of FedH2L;
`variants`; `local steps`; `alpha`. The last round is reported, because validation examples of a
node do not represent other domains; the paper's choice is ``--set choose=acc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays, fl
from hopfed.experiments.fl import DOMAINS
from hopfed.experiments.machinery.settings import Rule
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import TABLE, CellSettings, Place, measure_round, tables
from hopfed.experiments.shared.statistics import mean_and_error, mean_and_sd
from hopfed.federation.rounds import FederationState
from hopfed.figures.kinds import Panel, error_bars

__all__ = ["Config", "measure_round", "panels", "summarise", "tables"]

EQUAL = "agg equal images"

PICTURED = (f"{TABLE}/ind", f"{TABLE}/{EQUAL}", f"{TABLE}/fedh2l")
GROUPS, EACH = 4, 50  # domains in a plane, and test examples of each


class Config(CellSettings):
    """Settings."""

    domains: Annotated[bool, Rule(bool, "true, because domains are compared")]
    alpha: Annotated[float, "share of a node's examples that all nodes know"]

    REFERENCE: ClassVar[str] = "ind"

    @property
    def images(self) -> int:
        """Images of a step of AGG, when it sees as many as FedH2L."""
        return self.clients * self.batch

    def score(
        self, readings: Sequence[Place], method: Any, state: FederationState
    ) -> list[np.ndarray]:
        """ACC of each node."""
        return [fl.score_by_domain(method, state)["domains/acc"]] * len(readings)

    def more(self, cell: Place, t: int, method: Any, state: FederationState) -> Arrays:
        """Features in a plane, after the last round of some rows."""
        drawn = t + 1 == self.rounds and cell.key in PICTURED
        blank = np.zeros((min(GROUPS, self.clients), EACH, 3), np.uint8)
        return {"plane": features_in_plane(method, state) if drawn else blank}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Experiment `fedh2l`: ACC, WDP, CDP, paired gain in ACC over `agg equal images`, its error.

    Also the round at which FedAvg and FedProx need the bytes of FedH2L, and their ACC there.
    """
    summary, held = _cells.summarise(config, arrays), _cells.arrays_by_cell(config, arrays)
    acc = {key: found["acc"] for key, found in _cells.numbers_per_seed(config, arrays).items()}
    for key in acc if f"{TABLE}/{EQUAL}" in acc else ():
        summary[f"{key}/gain"] = mean_and_error(acc[key] - acc[f"{TABLE}/{EQUAL}"])
    read, own = _cells.reading_accuracies(config, arrays), f"{TABLE}/fedh2l"
    for reading in _cells.readings_of(config) if own in held else ():
        pairs = (fl.sum_costs(held[key])[:2] for key in (reading.base, own))
        spent, most = ((up + down)[0] for up, down in pairs)  # bytes of a node in the first seed
        if reading.round == 1 or spent[reading.round - 1] <= most[-1]:
            summary[f"{reading.section}/{reading.row}/matched"] = reading.round
            summary[f"{reading.section}/{reading.row}/acc"] = mean_and_sd(read[reading.key])
    return summary


def features_in_plane(method: Any, state: FederationState) -> np.ndarray:
    """Experiment `fedh2l`: test features in a plane (domains, EACH, 3): x, y, label plus one.

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


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Experiment `fedh2l`: ACC, WDP, CDP by row, features in a plane, panels of all comparisons."""
    held = _cells.arrays_by_cell(config, arrays)
    table = {c.row: held[c.key] for c in _cells.cells_of(config) if c.section == TABLE}
    ends = {n: [a[f"domains/{n}"][:, -1].mean(axis=1) for a in table.values()] for n in DOMAINS}
    marks = {name.upper(): np.stack(each, axis=1) for name, each in ends.items()}
    made = [error_bars("all domains, own, others", list(table), marks, xlabel="accuracy")]
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
