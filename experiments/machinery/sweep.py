"""A sweep: one experiment over a grid of settings, each cell of it a run file of its own.

Cells and their seeds are units like those of a run, so an interrupted sweep, or one with more seeds
or values, computes only units that the files lack. A cell that fails does not stop the others; it
is listed with the reason, and tried again the next time.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.outputs import check_writable
from hopfed._lib.settings import require, with_settings
from hopfed.errors import HopfedError, safe_line
from hopfed.experiments.machinery.checkpoint import Ledger
from hopfed.experiments.machinery.runner import check_fits, compute_missing_units
from hopfed.figures.kinds import Panel, line_plot
from hopfed.tables.writers import write

MOST = 10_000  # largest number of cells
LINES = 20  # largest number of lines with a legend
OK = "ok"
TABLE, FIGURE = "table.csv", "figure.png"  # files in the folder of a sweep


@dataclass(frozen=True)
class Cell:
    """A cell of a sweep: values as texts, its run file, "ok" or why not, and its summary."""

    values: tuple[str, ...]
    path: Path
    status: str = OK
    summary: Mapping[str, Any] | None = None

    def measure(self, name: str) -> tuple[float, float] | None:
        """Value and spread (NaN for one seed) of a number of the summary; None where absent."""
        found = (self.summary or {}).get(name)
        pair = found if isinstance(found, list | tuple) else (found, None)
        if len(pair) != 2 or not all(isinstance(x, int | float) for x in (pair[0], pair[1] or 0.0)):
            return None
        return float(pair[0]), math.nan if pair[1] is None else float(pair[1])


def parse_grid(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Grid of a sweep, from texts such as ``key=a,b,c``; ``;`` separates values with commas."""
    grid: dict[str, tuple[str, ...]] = {}
    for text in texts:
        key, sign, listed = text.partition("=")
        found = tuple(v.strip() for v in listed.split(";" if ";" in listed else ","))
        rule = "of the form key=a,b,c, each key once"
        require(bool(sign and all(found)) and key.strip() not in grid, "--grid", rule, text)
        grid[key.strip()] = tuple(dict.fromkeys(found))
    cells = math.prod(map(len, grid.values()))
    require(len(grid) > 0 and cells <= MOST, "--grid", f"1 to {MOST:,} cells", cells)
    return grid


def run_sweep(
    experiment: Any,
    config: Any,
    grid: Mapping[str, Sequence[str]],
    out: str | Path,
    *,
    engine: str = "local",
    workers: int = 1,
    first: int = 0,
    report: Callable[[int, int], object] | None = None,
) -> list[Cell]:
    """Sweep: run `experiment` in every cell of a grid; results in files are not computed again."""
    keep = getattr(config, "keep", "") or "--grid keep" * ("keep" in grid)
    require(not keep, "keep", "left out: cells of a sweep would take each other's place", keep)
    folder, new = Path(out), not os.path.lexists(out)
    if new:
        check_writable(folder)
    there = [path for path in (folder / TABLE, folder / FIGURE) if os.path.lexists(path)]
    ours = new or (folder.is_dir() and (not there or any(folder.glob("*=*"))))  # a cell's file
    rule = f"a new folder, or that of a sweep: there is another {TABLE} or {FIGURE} in it"
    require(ours and not any(path.is_symlink() for path in there), "--out", rule, folder)
    change = getattr(experiment, "with_options", with_settings)
    cells: dict[Path, Cell] = {}
    jobs: dict[Ledger, Path] = {}

    def failed(path: Path, error: Exception) -> None:
        words = str(error) if isinstance(error, HopfedError) else repr(error)
        cells[path] = replace(cells[path], status=safe_line(" ".join(words.split())))

    for values in product(*grid.values()):
        path = folder / _name(grid, values)
        cells[path] = Cell(values, path)
        settings = [f"{key}={value}" for key, value in zip(grid, values, strict=True)]
        try:
            its = change(config, settings)
            check_fits(its)
            job = Ledger(experiment, its, path, True, first=first)
            job.longer = False  # cells keep no states for more rounds
            jobs[job] = path
        except HopfedError as error:
            failed(path, error)
    if jobs:
        folder.mkdir(exist_ok=True)
    try:
        by_seed, lost = engine != "local", lambda job, error: failed(jobs[job], error)
        compute_missing_units(list(jobs), engine, workers, by_seed, report, lost)
        if all(cell.status != OK for cell in cells.values()):
            reason = next(iter(cells.values())).status
            raise HopfedError(f"no cell could be run; the first: {reason}")
    except HopfedError:
        with suppress(OSError):  # it is not empty
            folder.rmdir()
        raise
    for job, path in jobs.items():
        if cells[path].status == OK:
            cells[path] = replace(cells[path], summary=job.run().summary)
    found = [*cells.values()]
    write_table(found, tuple(grid), folder / TABLE)
    return found


def _name(grid: Mapping[str, Sequence[str]], values: Sequence[str]) -> str:
    """Name of a cell's file; a hash is added if its values cannot be a file name as they are."""
    plain = ",".join(f"{key}={value}" for key, value in zip(grid, values, strict=True))
    name = re.sub(r"[^\w.,=+-]", "_", plain)[:150]
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return f"{name}.h5" if name == plain else f"{name}-{digest}.h5"


def best_cell(cells: Sequence[Cell], name: str) -> Cell:
    """Cell of a sweep with the largest mean of a number of the summary, the first among equals.

    Choose settings by a number without test examples, such as ``validation`` of `hopfed sweep fl`,
    and report the choice on other seeds.
    """
    there = [cell for cell in cells if cell.measure(name)]
    rule = f"one of {', '.join(measures_of(cells))}, which the cells have"
    require(bool(there), "--choose", rule, name)
    return max(there, key=lambda cell: (cell.measure(name) or (-math.inf,))[0])


def measures_of(cells: Sequence[Cell]) -> list[str]:
    """Names of the numbers that the summaries of a sweep hold, in their order."""
    names = dict.fromkeys(name for cell in cells for name in cell.summary or {})
    return [name for name in names if any(cell.measure(name) for cell in cells)]


def sweep_panel(cells: Sequence[Cell], keys: Sequence[str], name: str) -> Panel:
    """Panel of a sweep: a number over the first setting of a grid, a line per choice of others."""
    from hopfed.figures.style import escape_dollars

    at, lines = list(dict.fromkeys(cell.values[0] for cell in cells)), dict[str, np.ndarray]()
    for cell in cells:
        label = escape_dollars(", ".join(map("{} = {}".format, keys[1:], cell.values[1:])))
        line = lines.setdefault(label, np.full((2, len(at)), np.nan))
        line[:, at.index(cell.values[0])] = cell.measure(name) or np.nan
    axes: dict[str, Any] = {"xlabel": escape_dollars(keys[0]), "ylabel": escape_dollars(name)}
    axes["legend"] = "best" if len(lines) <= LINES else ""
    pairs = {label: tuple(line) for label, line in lines.items()}
    return line_plot("", [escape_dollars(x) for x in at], pairs, points=True, **axes)


def write_table(cells: Sequence[Cell], keys: Sequence[str], path: Path) -> None:
    """Write the table of a sweep, a row per cell: settings, status, numbers and their spreads."""
    words = zip(*((*cell.values, cell.status) for cell in cells), strict=True)
    columns = list(zip((*keys, "status"), words, strict=True))
    for name in measures_of(cells):
        pairs = [cell.measure(name) or ("", "") for cell in cells]
        shown = [(mean, "" if spread != spread else spread) for mean, spread in pairs]
        columns += zip((name, f"{name} +-"), zip(*shown, strict=True), strict=True)
    write(path, columns)
