"""`hopfed show` and `hopfed compare`: what run files hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed.cli.output import out, table
from hopfed.config import describe
from hopfed.experiments import NAMES, OTHERS, Measure, find
from hopfed.runs import Run

MOST_FAULTS = 50  # of one variant that are listed


@click.command("show")
@click.argument("run_file", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show_command(run_file: Path, as_json: bool) -> None:
    """Show what the run file RUN holds: settings, versions, summary, arrays.

    Example: hopfed show bbp.h5
    """
    run = Run.load(run_file)
    shapes = {name: f"{a.dtype} {list(a.shape)}" for name, a in sorted(run.arrays.items())}
    if as_json:
        parts = ("kind", "committed", "planned", "config", "summary", "provenance")
        print(json.dumps({p: getattr(run, p) for p in parts} | {"arrays": shapes}))
        return
    state = "complete" if run.complete else f"interrupted: {run.committed} of {run.planned} seeds"
    out.print(f"{run.kind}, {state}\n", markup=False)
    _print_pairs("setting", {k: describe(v) for k, v in run.config.items()})
    _print_pairs("made with", run.provenance)
    _print_pairs("array", shapes)
    _print_faults(run)
    if run.complete:
        print_summary(run)


def _print_faults(run: Run) -> None:
    """Clients that failed, with round and reason; absent and late ones are no failure."""
    from hopfed.federation.faults import Fault

    quiet = (Fault.NONE, Fault.ABSENT, Fault.LATE)
    lines: dict[str, str] = {}
    for name, codes in sorted(run.arrays.items()):
        if not name.endswith("faults/code") or codes.ndim != 3:
            continue
        reasons = run.arrays[name.removesuffix("code") + "reason"]
        for seed, t, c in np.argwhere(~np.isin(codes, quiet))[:MOST_FAULTS]:
            variant = name.removesuffix("faults/code").rstrip("/")
            word = Fault(codes[seed, t, c]).name.lower().replace("_", " ")
            where = f"{variant} seed {seed} round {t} client {c}".strip()
            lines[where] = f"{word}: {reasons[seed, t, c].decode()}"
    if lines:
        _print_pairs("fault", lines)


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
def compare_command(first: Path, second: Path) -> None:
    """Compare two runs: what differs in their settings, their summaries, their arrays.

    Example: hopfed compare before.h5 after.h5
    """
    a, b = (Run.load(path, complete=True) for path in (first, second))
    _print_differences("setting", a.config | {"kind": a.kind}, b.config | {"kind": b.kind})
    _print_differences("made with", a.provenance, b.provenance)
    grid = table("summary", str(first), str(second))
    grid.columns[0].justify = "left"
    for label, ours, theirs in _paired(a, b):
        grid.add_row(label, ours, theirs, style=None if ours == theirs else "bold")
    out.print(grid)
    same = [name for name in a.arrays.keys() & b.arrays.keys() if _equal(a, b, name)]
    total = len(a.arrays.keys() | b.arrays.keys())
    out.print(f"\n{len(same)} of {total} arrays are equal to the last bit")


def print_summary(run: Run) -> None:
    """Print the summary of a run beside what the paper reports and what was aimed at."""
    measures = _measures(run.kind)
    if not measures:
        _print_pairs("summary", {k: _words(v) for k, v in run.summary.items()})
        return
    grid = table("", "ours", "paper", "aim")
    grid.columns[0].justify = "left"
    for key, measure in measures.items():
        if key in run.summary:
            grid.add_row(measure.label, number(run.summary[key]), measure.paper, measure.aim)
    out.print(grid, markup=False)


def number(value: Any) -> str:
    """Return a number, or a pair of a number and its spread, in words.

    Examples
    --------
    >>> number([0.98312, 0.0021]), number(3), number(None)
    ('0.9831 ± 0.0021', '3', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)) and len(value) == 2:
        middle, spread = (number(v) for v in value)
        return middle if spread == "-" else f"{middle} ± {float(value[1]):.2g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _words(value: Any) -> str:
    """Anything a summary without declared measures may hold, cut to a line."""
    if isinstance(value, list):
        shown = ", ".join(_words(v) for v in value[:6])
        return f"{shown}, ... ({len(value)})" if len(value) > 6 else shown
    return number(value)


def _paired(a: Run, b: Run) -> list[tuple[str, str, str]]:
    """(label, value in a, value in b) of every row of the two summaries."""
    measures = _measures(a.kind)
    if a.kind == b.kind and measures:
        rows = [(m.label, a.summary.get(k), b.summary.get(k)) for k, m in measures.items()]
        return [(label, number(ours), number(theirs)) for label, ours, theirs in rows]
    names = [*a.summary, *(k for k in b.summary if k not in a.summary)]
    return [(k, _words(a.summary.get(k)), _words(b.summary.get(k))) for k in names]


def _measures(kind: str) -> Mapping[str, Measure]:
    return find(kind).RECORD.measures if kind in (*NAMES, *OTHERS) else {}


def _equal(a: Run, b: Run, name: str) -> bool:
    first, second = a.arrays[name], b.arrays[name]
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def _print_pairs(title: str, pairs: Mapping[str, str]) -> None:
    grid = table(title, "")
    for column in grid.columns:
        column.justify = "left"
    for name, text in pairs.items():
        grid.add_row(name, text)
    out.print(grid, markup=False)
    out.print("")


def _print_differences(title: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    names = [n for n in [*a, *(k for k in b if k not in a)] if a.get(n) != b.get(n)]
    if names:
        _print_pairs(title, {n: f"{describe(a.get(n))} | {describe(b.get(n))}" for n in names})
