"""The figure of `hopfed fl run`: accuracy over rounds, bytes and FLOPs, and over clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures import literal, new_figure, styled
from hopfed.runs import Run


@styled()
def draw(run: Run) -> Figure:
    """Draw validation and test accuracy of a run over rounds and costs, and over its clients."""
    config = run.config
    return _panels(
        {"validation": (run, "validation"), "test": (run, "test")}, literal(config["method"])
    )


@styled()
def draw_several(runs: Sequence[Run]) -> Figure:
    """Draw the test accuracy of several runs, one colour each."""
    lines = {label: (run, "test") for label, run in zip(labels(runs), runs, strict=True)}
    return _panels(lines)


def labels(runs: Sequence[Run]) -> list[str]:
    """Name every run by its method, and by the settings that differ between the runs.

    Examples
    --------
    >>> configs = ({"method": "fedprox", "lr": lr, "seeds": 1} for lr in (0.1, 0.2))
    >>> labels([Run("fl", config, {}, {}) for config in configs])
    ['fedprox, lr=0.1', 'fedprox, lr=0.2']
    """
    names = [_name(run.config) for run in runs]
    if len(set(names)) < len(runs):
        keys = [k for k in runs[0].config if k not in ("method", "options", "seeds")]
        vary = [k for k in keys if len({str(run.config.get(k)) for run in runs}) > 1]
        extra = [[f"{k}={_word(run.config.get(k))}" for k in vary] for run in runs]
        names = [", ".join([name, *more]) for name, more in zip(names, extra, strict=True)]
    # Runs with equal settings, such as on two machines, get numbers.
    return [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]


def _name(config: dict[str, Any]) -> str:
    return literal(" ".join(part for part in (config["method"], config.get("options")) if part))


def _word(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value).rpartition("/")[2]
    return literal(text)


def _panels(lines: dict[str, tuple[Run, str]], title: str = "") -> Figure:
    figure = new_figure(160, 58)
    setting = _setting([run.config for run, _ in lines.values()])
    figure.suptitle(f"{title}, {setting}" if title else setting)
    over_rounds, over_bytes, over_flops, over_clients = figure.subplots(1, 4)
    for i, (label, (run, part)) in enumerate(lines.items()):
        a, color = run.arrays, f"C{i}"
        traffic = _spent(a["traffic/up"]) + _spent(a["traffic/down"])
        rounds = np.broadcast_to(np.arange(1.0, traffic.shape[1] + 1), traffic.shape)
        _band(over_rounds, a[part], rounds, color, label)
        _band(over_bytes, a[part], traffic / 1e6, color)
        _band(over_flops, a[part], _spent(a["client/flops"]) / 1e9, color)
        if part == "test":
            _clients(over_clients, a, color)
    figure.legend(loc="outside lower center", ncols=min(len(lines), 6))
    for axes in (over_bytes, over_flops):
        axes.sharey(over_rounds)
        axes.tick_params(labelleft=False)
    over_rounds.set(xlabel="round", ylabel="accuracy, mean over clients")
    over_bytes.set(xlabel="MB of a client")
    over_flops.set(xlabel="GFLOP of a client")
    over_clients.set(xlabel="test accuracy", ylabel="share of clients", ylim=(0, 1))
    return figure


def _setting(configs: Sequence[dict[str, Any]]) -> str:
    """Model, data and partition; if runs differ, all of their values."""
    each = ((c["models"][0], _word(c["data"]), c["partition"]) for c in configs)
    return ", ".join(" / ".join(dict.fromkeys(words)) for words in zip(*each, strict=True))


def _spent(values: np.ndarray) -> np.ndarray:
    """Mean over clients, cumulated over rounds: (seeds, rounds)."""
    return np.nan_to_num(values.astype(float)).mean(axis=2).cumsum(axis=1)


def _band(axes: Axes, values: np.ndarray, x: np.ndarray, color: str, label: str = "") -> None:
    """Accuracy (seeds, rounds, clients): mean over clients, then mean and range over seeds."""
    scored = ~np.isnan(values).all(axis=(0, 2))
    mean = np.nanmean(values[:, scored], axis=2)
    at = x[:, scored].mean(axis=0)
    if at[-1] == 0:  # a method without this cost
        axes.axhline(mean[:, -1].mean(), color=color, ls=":", label=label)
        return
    axes.fill_between(at, mean.min(axis=0), mean.max(axis=0), color=color, alpha=0.2, lw=0)
    axes.plot(at, mean.mean(axis=0), color=color, label=label)


def _clients(axes: Axes, arrays: dict[str, np.ndarray], color: str) -> None:
    """Test accuracy of every client at the round chosen by validation, all seeds."""
    validation, test = arrays["validation"], arrays["test"]
    scored = ~np.isnan(validation).all(axis=2)
    best = np.where(scored, np.nan_to_num(validation).mean(axis=2), -1).argmax(axis=1)
    chosen = np.sort(test[np.arange(len(best)), best].ravel())
    share = (np.arange(len(chosen)) + 0.5) / len(chosen)
    axes.plot(chosen, share, drawstyle="steps-mid", color=color)
