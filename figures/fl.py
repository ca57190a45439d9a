"""The figure of `hopfed fl run`: accuracy over rounds, bytes and FLOPs, and over clients."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import new_figure
from hopfed.runs import Run


def draw(run: Run) -> Figure:
    """Draw accuracy against rounds, megabytes and GFLOP of a client, and its distribution."""
    figure = new_figure(160, 48)
    over_rounds, over_bytes, over_flops, over_clients = figure.subplots(1, 4)
    a = run.arrays
    traffic = _spent(a["traffic/up"]) + _spent(a["traffic/down"])
    rounds = np.arange(1.0, a["test"].shape[1] + 1)
    _band(over_rounds, run, np.broadcast_to(rounds, traffic.shape), "round")
    over_rounds.legend(loc="lower right")
    over_rounds.set_ylabel("accuracy")
    _band(over_bytes, run, traffic / 1e6, "MB of a client")
    _band(over_flops, run, _spent(a["client/flops"]) / 1e9, "GFLOP of a client")
    _clients(over_clients, run)
    for axes in (over_bytes, over_flops):
        axes.sharey(over_rounds)
        axes.tick_params(labelleft=False)
    config = run.config
    over_rounds.set_title(f"{config['method']}, {config['models'][0]}")
    over_bytes.set_title(config["data"].rpartition("/")[2])
    over_flops.set_title(config["partition"])
    return figure


def _spent(values: np.ndarray) -> np.ndarray:
    """Mean over clients, summed over the rounds so far: (seeds, rounds)."""
    return np.nan_to_num(values.astype(float)).mean(axis=2).cumsum(axis=1)


def _band(axes: Axes, run: Run, x: np.ndarray, label: str) -> None:
    """Mean over clients: mean over seeds, and their range."""
    for i, part in enumerate(("validation", "test")):
        values = run.arrays[part]
        scored = ~np.isnan(values).all(axis=(0, 2))
        mean = np.nanmean(values[:, scored], axis=2)
        at = x[:, scored].mean(axis=0)
        axes.fill_between(at, mean.min(axis=0), mean.max(axis=0), color=f"C{i}", alpha=0.2, lw=0)
        axes.plot(at, mean.mean(axis=0), color=f"C{i}", label=part)
    axes.set(xlabel=label, ylim=(0, 1.02))


def _clients(axes: Axes, run: Run) -> None:
    """Test accuracy of every client at the round chosen by validation, all seeds."""
    validation, test = run.arrays["validation"], run.arrays["test"]
    scored = ~np.isnan(validation).all(axis=2)
    best = np.where(scored, np.nan_to_num(validation).mean(axis=2), -1).argmax(axis=1)
    chosen = np.sort(test[np.arange(len(best)), best].ravel())
    axes.plot(chosen, (np.arange(len(chosen)) + 0.5) / len(chosen), drawstyle="steps-mid")
    axes.set(xlabel="test accuracy", ylabel="share of clients", xlim=(0, 1.02), ylim=(0, 1))
    axes.set_title("clients")
