"""The figure of `hopfed run byzantine`: false discoveries, costs of defences, and ROC curves."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed.figures import new_figure, styled
from hopfed.runs import Run

# Defence -> line: solid for defences by clients, dashed for defences by entries.
STYLES = {
    "none": ("0.5", "-"),
    "persistence": ("C4", "-"),
    "agreement": ("C0", "-"),
    "both": ("C2", "-"),
    "median": ("C1", "--"),
    "trimmed": ("C3", "--"),
}
SCORES = {  # score with a threshold in some defence -> label and line
    "level": ("pooled score", "C0", "-"),
    "rounds": ("rounds", "C4", "--"),
    "groups": ("groups", "C2", "-."),
}
LEVEL = 3.0  # standard score from which a round supports a pattern
FALSE_BELOW = 0.9


@styled()
def draw(run: Run) -> Figure:
    """Draw what most liars reach, what defences cost a rare archetype, theory, and one ROC."""
    figure = new_figure(180, 104)
    above, below = figure.subplots(2, 3)
    many = max(run.config["attackers"])
    _false(above[:2], run, [f"{many} fixed", f"{many} wandering"])
    _rare(above[2], run)
    _visible(below[0], run)
    _passing(below[1], run)
    _roc(below[2], run, "rare", "wandering")
    below[2].set_ylabel("archetypes passed")
    below[2].legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.5)
    _name_defences(figure, above[0])
    return figure


@styled()
def draw_whole(run: Run) -> Figure:
    """Draw false discoveries over rounds, theory and costs, and ROC curves at most liars."""
    figure = new_figure(180, 128)
    grid = figure.subplots(3, 4)
    few, many = min(run.config["attackers"]), max(run.config["attackers"])
    scenarios = [f"{few} fixed", f"{many} fixed", f"{few} wandering", f"{many} wandering"]
    _false(grid[0], run, scenarios)
    _visible(grid[1, 0], run)
    _passing(grid[1, 1], run)
    kept = {
        d: (run.arrays[f"{many} fixed/{d}/magnetisation"] >= FALSE_BELOW).mean(axis=2)
        for d in STYLES
    }
    _over_rounds(grid[1, 2], kept)
    grid[1, 2].set(title="archetypes, with liars", ylabel="share broadcast", ylim=(-0.04, 1.04))
    _rare(grid[1, 3], run)
    panels = [(truth, kind) for truth in ("common", "rare") for kind in ("fixed", "wandering")]
    for axes, (truth, kind) in zip(grid[2], panels, strict=True):
        _roc(axes, run, truth, kind)
    grid[2, 1].legend(loc="lower right", handlelength=1.5)  # its curves leave the most room
    grid[2, 0].set_ylabel("archetypes passed")
    _name_defences(figure, grid[0, 0])
    return figure


def _name_defences(figure: Figure, axes: Axes) -> None:
    lines, labels = axes.get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=len(labels))


def _false(row: np.ndarray, run: Run, scenarios: list[str]) -> None:
    """Draw false discoveries over rounds, a panel for each scenario."""
    false = {(s, d): run.arrays[f"{s}/{d}/false"] for s in scenarios for d in STYLES}
    highest = max(values.mean(axis=0).max() for values in false.values())
    for axes, scenario in zip(row, scenarios, strict=True):
        _over_rounds(axes, {d: false[scenario, d] for d in STYLES})
        n, kind = scenario.split()
        title = f"{n} of {run.config['clients']} lie, {kind}"
        axes.set(title=title, ylim=(-0.3, highest + 0.3))
    row[0].set_ylabel("false discoveries")


def _rare(axes: Axes, run: Run) -> None:
    """Draw the share of seeds in which an honest archetype of few clients is broadcast."""
    rare = {d: run.arrays[f"rare/{d}/magnetisation"][:, :, -1] >= FALSE_BELOW for d in STYLES}
    _over_rounds(axes, rare)
    title = f"archetype of {run.config['few']} clients"
    axes.set(title=title, ylabel="share broadcast", ylim=(-0.04, 1.04))


def _over_rounds(axes: Axes, values: dict[str, np.ndarray]) -> None:
    """Draw the mean over seeds of every defence's (seeds, rounds), slightly shifted."""
    for i, (name, (colour, style)) in enumerate(STYLES.items()):
        mean = values[name].mean(axis=0)
        shift = 0.05 * (i - 2.5)
        axes.plot(
            np.arange(len(mean)) + shift, mean, ls=style, color=colour, marker=".", label=name
        )
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _visible(axes: Axes, run: Run) -> None:
    """Draw the share of rounds in which one liar's spike was counted, and the prediction."""
    a = np.array(run.config["amplitudes"])
    n, margin = run.config["clients"], run.arrays["foreseen/margin"][0, 0]
    axes.plot(a, run.arrays["visible"].mean(axis=(0, 1)), "o", color="C0", label="measured")
    axes.plot(a, run.arrays["foreseen/visible"][0, 0], color="0.3", label="theory")
    axes.axvline(a[0] / margin[0], color="0.6", ls=":", label="boundary")
    axes.set(title=f"1 of {n}: counted?", xlabel="amplitude a", ylabel="share of rounds")
    axes.set(ylim=(-0.04, 1.04), xlim=(0, 1.04 * a.max()))
    axes.legend(loc="upper left", handlelength=0.9, handletextpad=0.4, borderaxespad=0)


def _passing(axes: Axes, run: Run) -> None:
    """Draw the share of rounds in which half of the groups support the spike, and theory."""
    attackers = run.config["attackers"]
    measured = run.arrays["passing"].mean(axis=(0, 1))
    axes.plot(attackers, measured, "o", color="C0", label="measured")
    axes.plot(
        attackers, run.arrays["foreseen/passing"][0, 0], "_", color="0.3", ms=12, label="theory"
    )
    axes.set(title="spike in half of the groups?", xlabel="liars", ylabel="share of rounds")
    axes.set(ylim=(-0.04, 1.04), xticks=attackers, xlim=(0, max(attackers) + 1))
    axes.legend(loc="upper left", handlelength=1.2)


def _roc(axes: Axes, run: Run, truth: str, kind: str) -> None:
    """Share of archetypes against share of injected patterns above any threshold."""
    for score, (label, colour, style) in SCORES.items():
        true, false = _judged(run, truth, kind, score)
        levels = np.unique(np.concatenate([true, false]))[::-1]
        x, y = (np.array([0, *((v >= u).mean() for u in levels)]) for v in (false, true))
        axes.plot(x, y, color=colour, ls=style, label=label, clip_on=False)
    axes.plot([0, 1], [0, 1], color="0.8", lw=0.7, zorder=0)
    axes.set(title=f"{truth} against {kind}", xlabel="injected passed", aspect="equal")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))


def _judged(run: Run, truth: str, kind: str, score: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of a score for archetypes and for injected patterns, over all seeds."""
    which, K = "level" if score == "rounds" else score, run.config["K"]
    lies = run.arrays[f"{max(run.config['attackers'])} {kind}/support/{which}"]
    values = {"common": lies[..., :K], "rare": run.arrays[f"rare/support/{which}"][..., K - 1 : K]}
    true, false = values[truth], lies[..., K:]
    if score == "rounds":  # number of rounds whose pooled operators support a pattern
        true, false = ((v > LEVEL).sum(axis=1) for v in (true, false))
    else:  # a pattern in its own round
        false = np.diagonal(false, axis1=1, axis2=2)
    return true.ravel(), false.ravel()
