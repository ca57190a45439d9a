"""The figure of `hopfed run privacy`: counts, overlaps and magnetisations against epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hopfed.figures import new_figure, styled
from hopfed.runs import Run
from hopfed.theory import general_spikes, private
from hopfed.theory.covariance import Population

GRID = 30  # budgets between the least and the largest finite one at which theory is evaluated
RECOVERED = 0.9  # magnetisation from which an archetype counts as recovered


@styled()
def draw(run: Run) -> Figure:
    """Draw what was counted and recovered above, and each archetype below; lines are theory."""
    figure = new_figure(90, 115)
    grid = figure.add_gridspec(2, 2, height_ratios=(55, 60))
    above = figure.add_subplot(grid[0, :])
    left, right = (figure.add_subplot(grid[1, i]) for i in range(2))
    budgets, place = _axis(run)
    theory = _Theory(run, budgets)

    for name, colour, marker, label in (
        ("n_detected", "C0", "o", r"counted, $\hat K$"),
        ("recovered", "C1", "s", r"recovered, $|m| \geq 0.9$"),
    ):
        values = run.arrays["n_detected"]
        if name == "recovered":
            values = (run.arrays["magnetisation"] >= RECOVERED).sum(axis=-1)
        _points(above, run, values, color=colour, marker=marker, label=label)
        _line(above, place, getattr(theory, name), color=colour)
    above.axhline(len(run.config["exposures"]), color="0.8", lw=0.8, zorder=0)
    above.plot([], [], color="0.3", label="theory")
    above.set(ylabel="archetypes", ylim=(-0.2, None))
    above.legend(loc="lower right")

    names = list(enumerate(np.array(run.config["exposures"]) / np.sum(run.config["exposures"])))
    for k, _ in names:
        style: dict[str, Any] = {"color": f"C{k % 7}", "marker": "o"}
        _points(left, run, run.arrays["overlap"][..., k], **style)
        _line(left, place, theory.overlap[:, k], color=f"C{k % 7}")
        _points(right, run, run.arrays["magnetisation"][..., k], **style)
        _line(right, place, theory.magnetisation[:, k], color=f"C{k % 7}")
    left.set(ylabel="overlap", ylim=(-0.03, 1.03))
    right.set(ylabel="magnetisation |m|", ylim=(-0.03, 1.03))
    for axes in (above, left, right):
        _ticks(axes, run)
    colours = [Line2D([], [], color=f"C{k % 7}", label=rf"$\pi$ = {s:g}") for k, s in names]
    figure.legend(
        handles=colours, loc="outside lower center", ncols=5, handlelength=0.8, columnspacing=1
    )
    return figure


def _axis(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Budgets at which theory is evaluated, the infinite one last, and their axis positions."""
    finite = _finite(run)
    fine = np.unique(np.geomspace(finite.min(), finite.max(), GRID)) if finite.size else finite
    return np.append(fine, np.inf), np.append(np.log2(fine), _infinity(run))


def _finite(run: Run) -> np.ndarray:
    budgets = np.array([float(e) for e in run.config["epsilons"]])
    return budgets[np.isfinite(budgets)]


def _infinity(run: Run) -> float:
    """Place of the infinite budget: two doublings beyond the largest finite one."""
    return float(np.log2(_finite(run).max(initial=1.0))) + 2


def _points(axes: Axes, run: Run, values: np.ndarray, **style: Any) -> None:
    """Mean and standard deviation over seeds at every budget; `values` is (seeds, epsilons)."""
    budgets = np.array([float(e) for e in run.config["epsilons"]])
    place = np.where(np.isinf(budgets), _infinity(run), np.log2(budgets))
    style |= {"ls": "none", "mfc": "none", "elinewidth": 0.7}
    axes.errorbar(place, values.mean(axis=0), values.std(axis=0), **style)


def _line(axes: Axes, place: np.ndarray, values: np.ndarray, color: str) -> None:
    axes.plot(place[:-1], values[:-1], color=color, lw=0.9)
    axes.plot(place[-1] + np.array([-0.3, 0.3]), values[[-1, -1]], color=color, lw=0.9)


def _ticks(axes: Axes, run: Run) -> None:
    labels = [f"{e:g}" for e in _finite(run)]
    axes.set_xticks([*np.log2(_finite(run)), _infinity(run)], [*labels, "none"])
    axes.set_xlabel(r"privacy budget $\varepsilon$")


class _Theory:
    """Predictions at every budget for each archetype, averaged over the draws.

    Arrays are (budgets,) or (budgets, archetypes); what is read off patterns counts with the
    probability that the archetype's eigenvalue passes the test.
    """

    def __init__(self, run: Run, budgets: np.ndarray):
        from scipy.special import erf

        c = run.config
        N, M, s2 = c["N"], c["M"] * c["clients"], 1 - c["quality"] ** 2
        shares = np.array(c["exposures"]) / np.sum(c["exposures"])
        stronger = np.argsort(np.argsort(-shares, kind="stable"), kind="stable").tolist()
        ell = s2 * (1 + run.arrays["foreseen/kappa"][:, 0])  # (seeds, K), the same at any budget
        aligned = run.arrays["foreseen/alignment"][:, 0]
        passes, gammas = [], []
        for epsilon in budgets.tolist():
            z = private.noise_multiplier(epsilon, c["delta"])
            radius = float(private.noise_radius(z, N, M, c["clients"]))
            passes.append(
                [
                    private.detection_power(c["quality"], share, N, M, radius, c["alpha"], k)
                    for share, k in zip(shares.tolist(), stronger, strict=True)
                ]
            )
            gammas.append(general_spikes.overlap(ell, Population.flat(s2), N / M, radius))
        power, gamma = np.array(passes), np.array(gammas)  # (budgets, K), (budgets, seeds, K)
        m = erf(np.sqrt(gamma / (2 * np.maximum(1 - gamma, 1e-300))))
        self.n_detected = power.sum(axis=1)
        self.recovered = (power * (m >= RECOVERED).mean(axis=1)).sum(axis=1)
        self.overlap = (gamma * aligned).mean(axis=1)
        self.magnetisation = power * m.mean(axis=1)
