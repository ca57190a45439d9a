"""Accuracy of federations of networks over rounds, bytes, FLOPs and clients; their pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hopfed.experiments import Arrays, fl
from hopfed.figures.kinds import Panel, draw_page, line_plot, scatter
from hopfed.figures.style import escape_dollars, use_style
from hopfed.runs import Run

Lines = Mapping[str, tuple[Arrays, str]]  # label -> arrays of a run, and name of the drawn one


@use_style()
def draw(runs: Sequence[Run]) -> Any:
    """Draw curves of accuracy over rounds, costs and clients; of several runs test curves alone."""
    lines: Lines = {n: (r.arrays, "test") for n, r in zip(label_runs(runs), runs, strict=True)}
    if len(runs) == 1:
        own = runs[0].arrays
        lines = {"validation": (own, "validation"), "test of a client": (own, "test")}
    clients = {}
    for label, (arrays, part) in lines.items():
        best = fl.chosen_round(arrays)[0]
        chosen = np.sort(arrays[part][np.arange(len(best)), best].ravel())
        clients[label] = chosen, (np.arange(len(chosen)) + 0.5) / len(chosen)
    words: dict[str, Any] = {"xlabel": "accuracy of a client", "ylabel": "share of clients"}
    words |= {"joined": True, "diagonal": False}
    figure = draw_page([*accuracy_panels(lines), scatter("over clients", clients, **words)])
    configs = [run.config for run in runs]
    each = [(c["method"], c["models"][0], c["data"], c["partition"]) for c in configs]
    parts = (" / ".join(dict.fromkeys(map(_word, words))) for words in zip(*each, strict=True))
    figure.suptitle(", ".join(parts))
    return figure


def label_runs(runs: Sequence[Run]) -> list[str]:
    """Name the curves of runs by method and differing settings; equal names get numbers."""
    names = [
        escape_dollars(f"{r.config['method']} {r.config.get('options', '')}".strip()) for r in runs
    ]
    if len(set(names)) < len(runs):
        keys = [k for k in runs[0].config if k not in ("method", "options", "seeds")]
        vary = [k for k in keys if len({str(run.config.get(k)) for run in runs}) > 1]
        extra = ([f"{k}={_word(run.config.get(k))}" for k in vary] for run in runs)
        names = [", ".join([name, *more]) for name, more in zip(names, extra, strict=True)]
    return [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _word(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value).rpartition("/")[2]
    return escape_dollars(text)


def accuracy_panels(lines: Lines, legend: str = "best") -> list[Panel]:
    """Curves of accuracy, mean over clients, over rounds, megabytes and GFLOP of a client."""
    curves: dict[str, np.ndarray] = {}
    spent: dict[str, dict[str, Any]] = {"MB of a client": {}, "GFLOP of a client": {}}
    rounds: list[int] = []
    for label, (arrays, part) in lines.items():
        mean = fl.mean_over_clients(arrays, part)
        there = np.flatnonzero(~np.isnan(mean).all(axis=0))
        rounds, y = rounds or (there + 1).tolist(), mean[:, there]
        curves[label] = y if len(there) == len(rounds) else np.full((1, len(rounds)), np.nan)
        up, down, flops, _ = fl.sum_costs(arrays)
        for held, cost in zip(spent.values(), ((up + down) / 1e6, flops / 1e9), strict=True):
            x = cost[:, there].mean(axis=0)
            held |= {label: (x, y.mean(axis=0))} if x[-1] > 0 else {}
    words: dict[str, Any] = {"ylabel": "accuracy", "legend": legend}
    made = [line_plot("over rounds", rounds, curves, band="error", xlabel="round", **words)]
    words |= {"joined": True, "diagonal": False, "log": "x"}
    made += [scatter("over cost", held, xlabel=n, **words) for n, held in spent.items() if held]
    return made
