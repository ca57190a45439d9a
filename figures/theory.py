"""The figures of `hopfed theory`: one function per subcommand, of the same name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from hopfed.figures import new_figure, styled
from hopfed.theory import (
    concentration,
    marchenko_pastur,
    planning,
    spikes,
    storage,
    storage_thermal,
    tracy_widom,
)

WIDTH, HEIGHT = 90, 65  # mm, one column


@styled()
def mp(q: np.ndarray, variance: float) -> Figure:
    """Density of the bulk for every aspect ratio."""
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    highest = []
    for ratio in q:
        lower, upper = marchenko_pastur.edges(ratio, variance)
        # Equal steps of the angle are dense at the edges, where the density is steep.
        angle = np.linspace(0, np.pi, 401)[1:-1]
        x = (lower + upper) / 2 - (upper - lower) / 2 * np.cos(angle)
        density = marchenko_pastur.pdf(x, ratio, variance)
        axes.plot(x, density, label=f"q = {ratio:g}")
        highest.append(np.quantile(density, 0.9 if abs(ratio - 1) < 0.1 else 1))
    axes.set(xlabel="eigenvalue", ylabel="density", ylim=(0, 1.15 * max(highest)))
    axes.legend()
    return figure


@styled()
def tw(beta: int) -> Figure:
    """Density, and the upper tail on a logarithmic scale."""
    figure = new_figure(WIDTH, HEIGHT)
    left, right = figure.subplots(1, 2)
    s = np.linspace(-6, 5, 500)
    left.plot(s, tracy_widom.pdf(s, beta))
    left.set(xlabel="s", ylabel=rf"density, $\beta$ = {beta}", ylim=(0, None))
    right.semilogy(s, tracy_widom.sf(s, beta), color="C1")
    right.set(xlabel="s", ylabel="upper tail")
    return figure


@styled()
def bounds(
    N: int,
    M: np.ndarray,
    r: float,
    level: float,
    proxy: float,
    constants: tuple[float, float],
    band: tuple[float, float],
) -> Figure:
    """Deviations of the operator over M, and the band of the bulk beside its edges."""
    figure = new_figure(2 * WIDTH, HEIGHT)
    left, right = figure.subplots(1, 2)
    samples = np.unique(np.round(np.geomspace(min(M.min(), 50), max(M.max(), 1000), 200)))
    curves = {
        "Bernstein": concentration.bernstein_deviation(level, N, samples, proxy),
        "form (35)": concentration.sub_gaussian_deviation(level, N, samples, 1.0, constants[0]),
        "form (36)": concentration.paper_deviation(level, N, samples, proxy, constants[0]),
        "form (38)": concentration.refined_deviation(level, N, samples, constants),
    }
    for (name, values), line in zip(curves.items(), ("-", "-.", "--", ":"), strict=True):
        left.plot(samples, values, line, label=name)
    left.set(xscale="log", yscale="log", xlabel="M", ylabel=r"bound on $\|J - \mathrm{E}\,J\|$")
    left.legend()
    lower, upper = concentration.bulk_band(N, samples, level, 1 - r**2, band)
    ends = marchenko_pastur.edges(N / samples, 1 - r**2)
    right.fill_between(samples, lower, upper, color="C0", alpha=0.25, lw=0, label="band (39)")
    for end, label in zip(ends, ("edges", None), strict=True):
        right.plot(samples, end, color="C0", label=label)
    right.set(xscale="log", xlabel="M", ylabel="eigenvalue of N J", ylim=(0, None))
    right.legend()
    return figure


@styled()
def spike(q: float, variance: float, kappa: np.ndarray | None) -> Figure:
    """Eigenvalue and overlap over the strength, with the given strengths marked."""
    figure = new_figure(WIDTH, HEIGHT)
    left, right = figure.subplots(1, 2)
    start = float(spikes.threshold(q))
    most = 5 * start if kappa is None else max(5 * start, 1.2 * float(np.max(kappa)))
    strength = np.linspace(most / 2000, most, 2000)
    curves = (
        (left, spikes.outlier(strength, q, variance), "eigenvalue"),
        (right, spikes.overlap(strength, q), "overlap"),
    )
    for axes, values, name in curves:
        axes.plot(strength, values)
        axes.axvline(start, color="0.4", ls="--", lw=0.9, label=r"$\kappa = \sqrt{q}$")
        axes.set(xlabel=r"strength $\kappa$", ylabel=name)
    if kappa is not None:
        left.plot(kappa, spikes.outlier(kappa, q, variance), "o", color="C1")
        right.plot(kappa, spikes.overlap(kappa, q), "o", color="C1")
    right.set_ylim(-0.03, 1.03)
    left.legend(loc="upper left")
    return figure


@styled()
def phase(N: int, M: int, power: float, false_alarm: float) -> Figure:
    """Predicted overlap over quality and exposure, with the boundary and the test's reach."""
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    quality = np.linspace(0.02, 0.98, 120)
    exposure = np.geomspace(1e-4, 1, 120)
    diagram = planning.phase_diagram(quality, exposure, N, M)
    mesh = axes.pcolormesh(
        exposure, quality, diagram.overlap, cmap="cividis", vmin=0, vmax=1, rasterized=True
    )
    figure.colorbar(mesh, label="overlap")
    axes.plot(diagram.boundary, quality, color="w", label="boundary")
    coarse = quality[::6]
    reach = planning.exposure_needed(coarse, N, M, power, false_alarm)
    axes.plot(reach, coarse, color="w", ls=":", label=f"power {power:g}")
    axes.set(xscale="log", xlabel="exposure", ylabel="quality r", title=f"N = {N:,}, M = {M:,}")
    axes.set(xlim=(exposure[0], 1), ylim=(quality[0], quality[-1]))
    axes.legend(loc="lower left", labelcolor="w")
    return figure


@styled()
def plan(
    r: float,
    exposure: np.ndarray,
    samples: np.ndarray,
    N: int,
    power: float,
    false_alarm: float,
    stronger: int,
) -> Figure:
    """Power over the number of examples, for every exposure."""
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    for share, needed in zip(exposure, np.atleast_1d(samples), strict=True):
        if not np.isfinite(needed):
            continue
        M = np.unique(np.geomspace(max(needed / 4, stronger + 1, 36 / N), needed * 4, 60).round())
        M = M[M * N >= 36]  # smaller tables have no threshold
        reached = planning.detection_power(r, share, N, M, false_alarm, stronger)
        axes.plot(M, reached, label=rf"$\pi$ = {share:g}")
    axes.axhline(power, color="0.4", ls="--", lw=0.9)
    axes.set(xscale="log", xlabel="examples M", ylabel="power", ylim=(0, 1.02))
    axes.set_title(f"N = {N:,}, r = {r:g}")
    figure.legend(loc="outside right center", handlelength=1)
    return figure


@styled()
def capacity(t: np.ndarray, points: Sequence[tuple[float, float, float, float]]) -> Figure:
    """Magnetisation over the load for every dreaming time, and the phase line of Hebb's rule.

    `points` are simulated: (t, load, mean magnetisation, standard error).
    """
    figure = new_figure(WIDTH, 115)
    above, below = figure.subplots(2, 1)
    for k, time in enumerate(t):
        last = float(storage.capacity(time))
        load = np.linspace(0, last, 200)
        m = storage.magnetisation(load, time)
        above.plot([*load, last], [*m, 0], color=f"C{k % 7}", label=f"t = {time:g}")
        mine = np.array([p[1:] for p in points if p[0] == time]).reshape(-1, 3)
        above.errorbar(*mine.T, ls="none", marker="o", mfc="none", color=f"C{k % 7}")
    above.set(xlabel=r"load $\alpha$", ylabel="magnetisation", ylim=(0, 1.03))
    figure.legend(loc="outside upper center", ncols=4, handlelength=1)
    temperature = np.linspace(0.01, 0.99, 30)
    below.plot(storage_thermal.thermal_capacity(temperature), temperature, label="retrieval")
    load = np.linspace(0, 0.16, 100)
    glass = storage_thermal.spin_glass_temperature(load)
    below.plot(load, glass, color="C1", ls="--", label="spin glass")
    below.set(xlabel=r"load $\alpha$", ylabel="temperature", ylim=(0, None))
    below.set_title("Hebb's rule")
    below.legend(loc="upper right", bbox_to_anchor=(1, 0.8))
    return figure
