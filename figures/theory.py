"""The figures of `hopfed theory`: one function per subcommand, of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopfed.figures.kinds import COLUMN, Panel, draw_page, heat_map, scatter
from hopfed.figures.spectrum import bulk_density
from hopfed.theory import planning, spikes, tracy_widom
from hopfed.theory import storage as laws


def _curves(title: str, curves: Mapping[str, tuple[Any, Any]], **words: Any) -> Panel:
    return scatter(title, curves, joined=True, diagonal=False, **words)


def mp(q: np.ndarray, variance: float) -> Figure:
    """Figure of `hopfed theory mp`: density of the bulk for every aspect ratio."""
    curves, highest = {}, []
    for ratio in q:
        x, density = bulk_density(ratio, variance)
        atom = f", atom {1 - 1 / ratio:.2g} at 0" if ratio > 1 else ""
        curves[f"q = {ratio:g}{atom}"] = x, density
        highest.append(np.quantile(density, 0.9 if abs(ratio - 1) < 0.1 else 1))
    words = {"xlabel": "eigenvalue", "ylabel": "density", "ylim": (0, 1.15 * max(highest))}
    return draw_page([_curves("", curves, **words)])


def tw(beta: int) -> Figure:
    """Figure of `hopfed theory tw`: density, and the upper tail on a logarithmic scale."""
    s = np.linspace(-6, 5, 500)
    left = {"density": (s, tracy_widom.pdf(s, beta))}
    right = {"tail": (s, tracy_widom.sf(s, beta))}
    made = _curves(rf"density, $\beta$ = {beta}", left, xlabel="s", ylim=(0, None))
    return draw_page([made, _curves("upper tail", right, log="y", xlabel="s")])


def spike(q: float, variance: float, kappa: np.ndarray | None) -> Figure:
    """Figure of `hopfed theory spike`: eigenvalue and overlap over strength, given ones marked."""
    start, given = float(spikes.threshold(q)), np.zeros(0) if kappa is None else kappa
    strength = np.linspace(0, max(5 * start, 1.2 * float(given.max(initial=0))), 2001)[1:]
    made = []
    for name, law in (
        ("eigenvalue", lambda k: spikes.outlier(k, q, variance)),
        ("squared overlap", lambda k: spikes.overlap(k, q)),
    ):
        curve = np.asarray(law(strength))
        lines = {"law": (strength, curve)}
        lines[r"$\kappa = \sqrt{q}$"] = np.full(2, start), np.array([curve.min(), curve.max()])
        words = {"diagonal": False, "lines": lines, "xlabel": r"strength $\kappa$", "ylabel": name}
        points = {"given": (given, law(given))} if len(given) else {}
        made.append(scatter(f"q = {q:.3g}", points, **words))
    return draw_page(made)


def phase(N: int, M: int, power: float, false_alarm: float) -> Figure:
    """Figure of `hopfed theory phase`: overlap over quality, exposure; boundary, test's reach."""
    quality, exposure = np.linspace(0.02, 0.98, 120), np.geomspace(1e-4, 1, 120)
    q, boundary = N / M, planning.minimal_exposure(quality, N, M)
    overlap = spikes.overlap(planning.margin(quality[:, None], exposure, N, M) * np.sqrt(q), q)
    reach = planning.exposure_needed(quality, N, M, power, false_alarm)
    inside = (boundary >= exposure[0] / 2) & (boundary <= 2)

    def draw(axes: Axes, _: Any) -> None:
        levels = np.linspace(0, 1, 11)
        shades = axes.contourf(exposure, quality, overlap, levels, cmap="cividis")
        shades.set_edgecolor("face")  # no light seams between the shades
        axes.figure.colorbar(shades, ax=axes, label="squared overlap", ticks=levels[::2])
        axes.plot(boundary[inside], quality[inside], color="w", label="threshold")
        axes.plot(reach, quality, color="w", ls="--", label=f"power {power:g} at {false_alarm:g}")
        axes.set(xscale="log", xlim=(exposure[0], 1), ylim=(quality[0], quality[-1]))
        axes.legend(loc="lower left", labelcolor="w")

    words = {"xlabel": r"exposure $\pi$", "ylabel": "quality $r$", "legend": ""}
    return draw_page([Panel(draw, f"N = {N:,}, M = {M:,}, q = {q:.3g}", words)], width=COLUMN)


def basins(found: Any) -> Figure:
    """Figure of `hopfed theory basins`: share recalled over load, damage; basin's edge, theory."""
    loads, flips, last = found.loads, found.flips, found.capacity
    lines = {"edge": (loads, found.edge)}
    if not np.isnan(found.law_edge).all():
        lines["edge, theory"] = loads, found.law_edge
    if loads[0] < last < loads[-1]:
        lines["capacity, theory"] = [last] * 2, [flips[0], flips[-1]]
    words = {"xlabel": r"load $K / N$", "ylabel": "share of sites turned", "half": False}
    title = f"cues recalled: {found.rule.name}, N = {found.n_sites:,}"
    return draw_page(
        [heat_map(title, found.recalled, loads, flips, lines=lines, **words)], width=COLUMN
    )


def plan(
    r: float, exposure: np.ndarray, samples: np.ndarray, N: int, power: float, false_alarm: float
) -> Figure:
    """Figure of `hopfed theory plan`: power over the number of examples, for every exposure."""
    curves: dict[str, tuple[Any, Any]] = {}
    for share, needed in zip(exposure, np.atleast_1d(samples), strict=True):
        if np.isfinite(needed):
            least = max(needed / 4, 1, 36 / N)  # smaller tables have no threshold
            M = np.unique(np.geomspace(least, needed * 4, 60).round())
            M = M[M * N >= 36]
            reached = planning.detection_power(r, share, N, M, false_alarm)
            curves[rf"$\pi$ = {share:g}"] = M, reached
    if curves:
        every = np.concatenate([M for M, _ in curves.values()])
        curves[f"power {power:g}"] = [every.min(), every.max()], [power] * 2
    words = {"log": "x", "xlabel": "examples M", "ylabel": "power", "ylim": (0, 1.02)}
    return draw_page([_curves(f"N = {N:,}, r = {r:g}", curves, **words)])


def capacity(t: np.ndarray) -> Figure:
    """Figure of `hopfed theory capacity`: magnetisation over the load for every dreaming time."""
    lines = {}
    for time in t:
        last = float(laws.capacity(time))
        load = np.linspace(0, last * (1 - 1e-9), 200)
        label = "projector" if np.isinf(time) else f"t = {time:g}"
        lines[label] = [*load, last], [*laws.magnetisation(load, time), 0]
    return draw_page([_curves("magnetisation", lines, ylim=(0, 1.03), xlabel=r"load $\alpha$")])
