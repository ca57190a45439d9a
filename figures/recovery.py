"""Pictures of a recovery, its archetypes, `hopfed.compare` and `Archetypes.relate`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hopfed._lib.settings import require
from hopfed.errors import safe_line
from hopfed.figures.kinds import COLUMN, HEIGHT, draw_page, line_plot, set_log_scales
from hopfed.figures.style import draw_tiles, escape_dollars, new_figure, picture_shape, use_style
from hopfed.runs import Run
from hopfed.theory import marchenko_pastur

SHOWN = 40  # largest number of archetypes
ACROSS = 10  # pictures in a row
LINES = 50  # columns in the heat map, which differ most between archetypes
LONGEST = 32  # characters of a name
RELATED = 8  # largest number of names in a relation
FEW = 50  # largest number of eigenvalues with a linear axis of ranks


@use_style()
def draw(run: Run, *, shape: tuple[int, int] | None = None) -> Figure:
    """Draw a recovery, or archetypes alone, as pictures of `shape` or the nearest rectangle."""
    if "spectrum/eigenvalues" not in run.arrays:
        return draw_detail(run, "means", shape)
    # A fit of classes has shares and errors, and no scores, even with a single quality.
    graded = run.summary.get("channel", "symmetric") != "symmetric"
    graded |= "archetypes/errors" in run.arrays
    patterns = run.arrays["archetypes/means" if graded else "archetypes/patterns"]
    named = shape is None and len(patterns) > 0 and _has_names(run)
    width, height = 170.0, 18.0 * -(-min(len(patterns), SHOWN) // ACROSS)
    if named:
        width, height = _heat_map_size(run)
    figure = new_figure(max(170, width), 55 + height)
    top, bottom = figure.subfigures(2, 1, height_ratios=(55, max(height, 1)))
    left, right = top.subplots(1, 2)
    _spectrum(left, run)
    (_shares if graded else _scores)(right, run)
    if named:
        _heat_map(bottom, run)
    elif len(patterns):
        draw_tiles(bottom, patterns[:SHOWN], picture_shape(shape, patterns.shape[1]), ACROSS)
    return figure


@use_style()
def draw_detail(run: Run, kind: str, shape: tuple[int, int] | None = None) -> Figure:
    """Detail of a recovery: "means" of archetypes, "scores" of patterns, "shares" of classes."""
    require(kind in ("means", *PARTS), "kind", f"one of means, {', '.join(PARTS)}", repr(kind))
    held = run.arrays.get(f"archetypes/{kind}", np.zeros(0))
    require(len(held) > 0, "run", f"of archetypes that have {kind}", "none")
    if kind in PARTS:
        figure = new_figure(COLUMN, HEIGHT)
        PARTS[kind](figure.subplots(), run)
    elif shape is not None:
        shape, across = picture_shape(shape, held.shape[1]), min(ACROSS, len(held))
        figure = new_figure(17 * across, 18 * -(-min(len(held), SHOWN) // across) + 2)
        draw_tiles(figure, held[:SHOWN], shape, across)
    else:
        figure = new_figure(*_heat_map_size(run))
        _heat_map(figure, run)
    return figure


def _heat_map_size(run: Run) -> tuple[float, float]:
    """Width and height in mm of a heat map."""
    K, N = run.arrays["archetypes/means"].shape
    return 70 + 6 * min(K, SHOWN), 25 + 4.2 * min(N, LINES)


def _heat_map(figure: Any, run: Run) -> None:
    """Draw the means of archetypes: a line for each column of the table, in its order."""
    means = run.arrays["archetypes/means"]
    K, N = means.shape
    kept = np.sort(np.argsort(-means.std(axis=0), kind="stable")[:LINES])
    some = means[:SHOWN, kept].T
    axes = figure.subplots()
    image = axes.imshow(some, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="none")
    names = run.arrays.get("columns/names", [b"column %d" % (j + 1) for j in range(N)])
    given = [safe_line(names[j].decode("utf-8", "replace"), LONGEST) for j in kept]
    axes.set_yticks(np.arange(len(kept)), [escape_dollars(name) for name in given])
    shares = run.arrays["archetypes/shares"][:SHOWN]
    known = np.isfinite(shares)  # a federation of signs has no shares
    parts = ["<1%" if 0 < s < 0.005 else f"{s:.0%}" if s == s else "" for s in shares]
    labels = [f"{k}\n{part}".strip() for k, part in enumerate(parts, start=1)]
    axes.set_xticks(np.arange(some.shape[1]), labels)
    axes.set_xlabel("archetype, and its share of the rows" if known.any() else "archetype")
    if some.size < means.size:
        rest = f" of the first {SHOWN} archetypes" if K > SHOWN else ""
        axes.set_title(f"the {len(kept)} of {N:,} columns that differ most{rest}")
    bar = figure.colorbar(image, ax=axes, ticks=[-1, 0, 1])
    bar.set_ticklabels(["0%", "50%", "100%"])  # a rate is (1 + mean) / 2
    bar.set_label("rate of +1 in the column")


def _has_names(run: Run) -> bool:
    """Whether columns have given names."""
    names = run.arrays.get("columns/names")
    return names is not None and any(n != b"column %d" % j for j, n in enumerate(names, start=1))


def _spectrum(axes: Axes, run: Run) -> None:
    """Eigenvalues by rank, beside the law of noise, and the threshold."""
    values = run.arrays["spectrum/eigenvalues"]
    n_detected, threshold = run.summary["n_detected"], run.summary["threshold"]
    index = np.arange(1, len(values) + 1)
    signal = index <= n_detected
    M, N = sum(run.summary["n_examples"]), run.summary["n_sites"]
    axes.set_title(f"N = {N:,}, M = {M:,}, q = {N / M:.3g}")
    axes.plot(index[~signal], values[~signal], ".", color="0.7", label="noise")
    axes.plot(index[signal], values[signal], "o", label=f"signal ({n_detected})")
    noise = values[~signal & (values > 1e-9 * values.max(initial=0.0))]
    if len(values) == min(M, N) and len(noise):  # all of them: their median gives the variance
        place = (np.arange(len(noise)) + 0.5) / len(noise) * min(1.0, M / N)
        variance = np.median(noise) / marchenko_pastur.median_nonzero(N / M)
        law = marchenko_pastur.quantile(1 - place, N / M, variance)
        axes.plot(index[~signal][: len(noise)], law, color="0.3", lw=0.9, label="law of noise")
    axes.axhline(threshold, color="C1", ls="--", label="threshold")
    axes.set(yscale="log", xlabel="rank", ylabel="eigenvalue")
    axes.set_ylim(bottom=0.8 * max(values[values > 0].min(initial=1.0), threshold / 300))
    set_log_scales(axes, "xy" if len(values) > FEW else "y")
    if len(values) <= FEW:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")


def _scores(axes: Axes, run: Run) -> None:
    """Scores of patterns beside theory."""
    score, predicted = run.arrays["archetypes/scores"], run.arrays["archetypes/predicted_scores"]
    axes.plot(predicted, score, "o")
    low = min([*score, *predicted, 0.9])
    axes.plot([low, 1], [low, 1], color="0.6", lw=0.8, zorder=0)
    status, explained = run.summary["status"], run.summary["explained"]
    axes.set(xlabel="score predicted by theory", ylabel="score measured")
    axes.set_title(f"{status}; explained {explained:.3f}, quality r = {run.summary['quality']:.3f}")


def _shares(axes: Axes, run: Run) -> None:
    """Shares of classes."""
    shares, said = run.arrays["archetypes/shares"], run.summary
    axes.bar(np.arange(1, len(shares) + 1), shares)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="archetype", ylabel="share of the rows")
    left = f"dependence left: {said['residual']:.2f} of the edge of noise"
    axes.set_title(f"{said['status']}; {said['channel']}\n{left}")


PARTS = {"scores": _scores, "shares": _shares}


def draw_comparison(compared: Any) -> Any:
    """Figure of a recovery's `hopfed.recovery.compare.Comparison`."""
    table, made = compared.table, []
    words = {"xlabel": "archetypes", "xticks": table["archetypes"]}
    for title, names in (
        ("criteria, lower is better", {"BIC": "BIC", "AIC": "AIC"}),
        ("what rows say", {"dependence (1: none)": "residual", "entropy (1: sure)": "entropy"}),
    ):
        lines = {label: [table[name]] for label, name in names.items()}
        ends = [f(f(table[name]) for name in names.values()) for f in (min, max)]
        taken = {"taken by hopfed": ([len(compared.taken)] * 2, ends)}
        made.append(line_plot(title, table["archetypes"], lines, taken, **words))
    return draw_page(made)


def draw_relation(related: Any) -> Any:
    """Figure of a recovery's `hopfed.archetypes.relate.Relation`."""
    first = int(related.kind == "log odds")  # the constant is no covariate
    numbers, spans = [f"{k + 1}" for k in range(len(related.estimates))], related.intervals()
    words: dict[str, Any] = {"xlabel": "archetype", "ylabel": f"{related.kind}, 95% intervals"}
    test, made = {"test": [0.0] * len(numbers)} if first else {}, []
    for j, name in list(enumerate(related.names))[first : first + RELATED]:
        lines, title = (
            {"": (related.estimates[:, j], *spans[:, j].T)},
            escape_dollars(safe_line(name, 40)),
        )
        made.append(line_plot(title, numbers, lines, test, points=True, legend="", **words))
    return draw_page(made)
