"""`hopfed show` and `hopfed compare`: contents of run files, and their differences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.settings import describe
from hopfed.cli.printing import out, shown, table
from hopfed.errors import ArgumentError
from hopfed.errors import shown as cut
from hopfed.experiments import Table
from hopfed.report.tables import side_by_side, tables_of
from hopfed.runs import Run, blaming

MOST_FAULTS = 50  # largest number of faults listed for one variant
LONGEST = 300  # characters of a setting that are shown


@click.command("show")
@click.argument("run_file", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show_command(run_file: Path, as_json: bool) -> None:
    """Show settings, versions, summary and arrays of the run file RUN.

    A long setting is cut, such as how each column of a wide table is read; --json prints all.

    Example: hopfed show bbp.h5
    """
    run = Run.load(run_file)
    shapes = {name: f"{a.dtype} {list(a.shape)}" for name, a in sorted(run.arrays.items())}
    if as_json:
        parts = ("kind", "committed", "planned", "config", "summary", "provenance")
        print(json.dumps({p: getattr(run, p) for p in parts} | {"arrays": shapes}))
        return
    with blaming(run_file, run.kind):
        settings = {k: cut(describe(v), LONGEST) for k, v in run.config.items()}
        faults = _faults(run)
        results = tables_of(run) if run.complete else []
    state = "complete" if run.complete else f"interrupted: {run.committed} of {run.planned} seeds"
    out.print(f"{shown(run.kind)}, {state}\n")
    _print_pairs("setting", settings)
    _print_pairs("made with", run.provenance)
    _print_pairs("array", shapes)
    if faults:
        _print_pairs("fault", faults)
    _print_tables(results)


def _faults(run: Run) -> dict[str, str]:
    """Clients that failed, with round and reason; absence and lateness are not failures."""
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
            lines[where] = f"{word}: {reasons[seed, t, c].decode(errors='backslashreplace')}"
    return lines


@click.command("compare")
@click.argument(
    "run_files", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
def compare_command(run_files: tuple[Path, ...]) -> None:
    """Compare the settings, summaries and arrays of runs.

    Example: hopfed compare before.h5 after.h5
    """
    if len(run_files) < 2:
        raise ArgumentError("RUN", "at least two run files", len(run_files))
    runs = [Run.load(path, complete=True) for path in run_files]
    names = {name for run in runs for name in run.arrays}
    grid = table("summary", *map(shown, run_files))
    grid.columns[0].justify = "left"
    with blaming(", ".join(map(str, run_files)), runs[0].kind):
        settings = _differences([run.config | {"kind": run.kind} for run in runs])
        for label, *values in side_by_side(runs):
            style = None if len(set(values)) == 1 else "bold"
            grid.add_row(*map(shown, (label, *values)), style=style)
        same = sum(all(_equal(runs[0], run, name) for run in runs[1:]) for name in names)
    made = _differences([run.provenance for run in runs])
    for title, words in (("setting", settings), ("made with", made)):
        if words:
            _print_pairs(title, words)
    out.print(grid)
    out.print(f"\n{same} of {len(names)} arrays are equal to the last bit")


def print_summary(run: Run) -> None:
    """Print the tables of a run, such as its summary with the paper's values."""
    _print_tables(tables_of(run))


def _print_tables(tables: Sequence[Table]) -> None:
    for held in tables:
        grid = table(shown(held.title), *map(shown, held.columns))
        grid.columns[0].justify = "left"
        for row in held.rows:
            grid.add_row(*map(shown, row))
        out.print(grid)
        out.print("")


def _equal(a: Run, b: Run, name: str) -> bool:
    if name not in a.arrays or name not in b.arrays:
        return False
    first, second = a.arrays[name], b.arrays[name]
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def _print_pairs(title: str, pairs: Mapping[str, str]) -> None:
    grid = table(title, "")
    for column in grid.columns:
        column.justify = "left"
    for name, text in pairs.items():
        grid.add_row(shown(name), shown(text))
    out.print(grid)
    out.print("")


def _differences(held: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the differing entries: name -> the value in each run, as a text."""
    names = dict.fromkeys(name for each in held for name in each)
    differ = [n for n in names if any(each.get(n) != held[0].get(n) for each in held)]
    return {n: " | ".join(describe(each.get(n)) for each in held) for n in differ}
