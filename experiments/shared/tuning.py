"""Settings of a method chosen on validation examples, over a small grid.

Every point of the grid is a run of `hopfed fl run` on the same seeds; its score is the validation
accuracy, mean over clients, of its best round, mean over seeds. Test examples have no part in the
choice and are not reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import HopfedError
from hopfed.experiments import fl
from hopfed.experiments.runner.execute import execute

MOST = 256  # points of a grid


@dataclass(frozen=True)
class Point:
    """A point of a grid, and what it cost.

    Attributes
    ----------
    settings : ``key=value`` texts.
    validation : its score; NaN where its runs failed.
    round : best round, from 1, mean over seeds.
    gigaflops, megabytes : of all clients in all rounds and seeds.
    seconds : that its runs took.
    fault : why its runs failed; empty if they did not.
    """

    settings: tuple[str, ...]
    validation: float = math.nan
    round: float = math.nan
    gigaflops: float = math.nan
    megabytes: float = math.nan
    seconds: float = math.nan
    fault: str = ""


def grid(settings: Sequence[str]) -> list[tuple[str, ...]]:
    """Points of a grid of ``key=value,value`` texts, the last key fastest.

    Raises
    ------
    ArgumentError : not of this form, or too many points.

    Examples
    --------
    >>> grid(["lr=0.1,0.3", "mu=1"])
    [('lr=0.1', 'mu=1'), ('lr=0.3', 'mu=1')]
    """
    axes = []
    for setting in settings:
        name, sign, values = setting.partition("=")
        parts = [value.strip() for value in values.split(",")]
        fits = bool(sign) and bool(name.strip()) and all(parts)
        require(fits, "--grid", "of the form key=value,value", repr(setting))
        axes.append([f"{name.strip()}={value}" for value in parts])
    names = [axis[0].partition("=")[0] for axis in axes]
    require(bool(axes), "--grid", "given at least once", "none")
    require(
        len(set(names)) == len(names), "--grid", "given once for each setting", ", ".join(names)
    )
    count = math.prod(map(len, axes))
    require(count <= MOST, "--grid", f"at most {MOST} points", count)
    return list(product(*axes))


def tune(
    config: fl.Config,
    points: Sequence[tuple[str, ...]],
    *,
    workers: int = 1,
    first: int = 0,
    report: Callable[[int, int], object] | None = None,
) -> list[Point]:
    """Play every point of a grid.

    Parameters
    ----------
    config : settings that all points share.
    points : as `grid` returns them; a wrong setting is refused before any is played.
    workers, first : see `hopfed.experiments.runner.execute.execute`.
    report : called with the numbers of points that are done, and of all.
    """
    configs = [fl.with_options(config, list(point)) for point in points]
    for each in configs:
        each.make(first)
    found = []
    for number, (point, each) in enumerate(zip(points, configs, strict=True)):
        found.append(_played(point, each, workers, first))
        if report is not None:
            report(number + 1, len(points))
    return found


def best(points: Sequence[Point]) -> Point:
    """Return the point with the highest score, the first among equals.

    Raises
    ------
    HopfedError : the runs of all points failed.
    """
    scores = [-1.0 if math.isnan(p.validation) else p.validation for p in points]
    found = points[int(np.argmax(scores))]
    if math.isnan(found.validation):
        raise HopfedError(f"no point of the grid could be played: {points[0].fault}")
    return found


def _played(point: tuple[str, ...], config: fl.Config, workers: int, first: int) -> Point:
    began = time.perf_counter()
    try:
        arrays = execute(fl, config, workers=workers, first=first).arrays
    except HopfedError as error:  # such as clients that all diverge
        return Point(point, fault=f"{error!s:.70}", seconds=time.perf_counter() - began)
    chosen, _ = fl.chosen_round(arrays)
    scores = arrays["validation"][np.arange(len(chosen)), chosen].mean(axis=1)
    flops = np.nansum(arrays["client/flops"])
    sent = sum(float(arrays[f"traffic/{way}"].sum()) for way in ("up", "down"))
    return Point(
        point,
        float(scores.mean()),
        float(chosen.mean() + 1),
        float(flops / 1e9),
        sent / 1e6,
        time.perf_counter() - began,
    )


def as_toml(method: str, config: fl.Config, points: Sequence[Point], given: Sequence[str]) -> str:
    """Return a file for ``hopfed fl run METHOD --config``: the chosen settings, the grid, its cost.

    Parameters
    ----------
    given : ``key=value`` texts of the settings that all points share.
    """
    chosen = best(points)
    lines = [
        f"# hopfed fl tune {method}: {len(points)} points, {config.seeds} seeds, "
        f"{config.rounds} rounds each",
        f"# cost of the grid: {_sum(points, 'seconds'):.0f} s, "
        f"{_sum(points, 'gigaflops'):.4g} GFLOP, {_sum(points, 'megabytes'):.4g} MB",
        "# validation % | best round | seconds | settings",
    ]
    for p in points:
        score = p.fault or f"{100 * p.validation:.2f} | {p.round:.1f}"
        mark = "  (chosen)" if p is chosen else ""
        lines.append(f"# {score} | {p.seconds:.1f} | {' '.join(p.settings)}{mark}")
    kept = fl.with_options(fl.Config(method=method), [*given, *chosen.settings])
    names = {s.partition("=")[0].strip() for s in (*given, *chosen.settings)}
    own = [part for part in kept.options.split(",") if part]
    mine = sorted(n for n in names if hasattr(kept, n))
    lines += [f"{n} = {_word(getattr(kept, n))}" for n in mine]
    if own:
        lines.append("[options]")
        lines += [f"{n} = {_word(v)}" for n, _, v in (part.partition("=") for part in own)]
    return "\n".join(lines) + "\n"


def _sum(points: Sequence[Point], name: str) -> float:
    return float(np.nansum([getattr(p, name) for p in points]))


def _word(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_word, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
