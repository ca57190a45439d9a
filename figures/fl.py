"""The figure of `hopfed fl run`: accuracy over rounds, bytes and FLOPs, and over clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures.kinds import against, over, page
from hopfed.figures.style import literal, styled
from hopfed.runs import Run


@styled()
def draw(run: Run) -> Figure:
    """Draw validation and test accuracy of a run over rounds and costs, and over its clients."""
    lines = {"validation": (run, "validation"), "test of a client": (run, "test")}
    return _page(lines, literal(run.config["method"]))


@styled()
def draw_several(runs: Sequence[Run]) -> Figure:
    """Draw the test accuracy of several runs, one colour each."""
    return _page({label: (run, "test") for label, run in zip(labels(runs), runs, strict=True)})


def labels(runs: Sequence[Run]) -> list[str]:
    """Name every run by its method, and by the settings that differ between the runs."""
    parts = [[run.config["method"], run.config.get("options")] for run in runs]
    names = [literal(" ".join(filter(None, part))) for part in parts]
    if len(set(names)) < len(runs):
        keys = [k for k in runs[0].config if k not in ("method", "options", "seeds")]
        vary = [k for k in keys if len({str(run.config.get(k)) for run in runs}) > 1]
        extra = [[f"{k}={_word(run.config.get(k))}" for k in vary] for run in runs]
        names = [", ".join([name, *more]) for name, more in zip(names, extra, strict=True)]
    # Runs with equal settings, such as on two machines, get numbers.
    return [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _word(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value).rpartition("/")[2]
    return literal(text)


def _page(lines: dict[str, tuple[Run, str]], title: str = "") -> Figure:
    configs = [run.config for run, _ in lines.values()]
    each = ((c["models"][0], _word(c["data"]), c["partition"]) for c in configs)
    setting = ", ".join(" / ".join(dict.fromkeys(w)) for w in zip(*each, strict=True))
    first = next(iter(lines.values()))[0].arrays["test"]
    scored = np.flatnonzero(~np.isnan(first).all(axis=(0, 2)))
    curves, clients = {}, {}
    costs: dict[str, dict[str, Any]] = {"MB of a client": {}, "GFLOP of a client": {}}
    for label, (run, part) in lines.items():
        a = run.arrays
        there = np.flatnonzero(~np.isnan(a[part]).all(axis=(0, 2)))
        mean = np.nanmean(a[part][:, there], axis=2)
        curves[label] = mean if len(there) == len(scored) else np.full((1, len(scored)), np.nan)
        sent = a["traffic/up"] + a["traffic/down"] + a.get("scoring/bytes", 0)
        both = sent, a["client/flops"]
        for held, spent, unit in zip(costs.values(), both, (1e6, 1e9), strict=True):
            x = np.nan_to_num(spent.astype(float)).mean(axis=2).cumsum(axis=1).mean(axis=0)
            held[label] = x[there] / unit, mean.mean(axis=0)
        validation = np.nan_to_num(a["validation"].mean(axis=2), nan=-1.0)
        chosen = np.sort(a[part][np.arange(len(validation)), validation.argmax(axis=1)].ravel())
        clients[label] = chosen, (np.arange(len(chosen)) + 0.5) / len(chosen)
    words = {"xlabel": "round", "ylabel": "accuracy, mean over clients"}
    panels = [over("over rounds", (scored + 1).tolist(), curves, **words)]
    for name, held in costs.items():
        panels.append(against("over cost", held, joined=True, diagonal=False, xlabel=name))
    words = {"xlabel": "accuracy of a client", "ylabel": "share of clients"}
    panels.append(against("over clients", clients, joined=True, diagonal=False, **words))
    figure = page(panels)
    figure.suptitle(f"{title}, {setting}" if title else setting)
    return figure
