"""`hopfed sweep`: an experiment over a grid of settings."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.cluster import cluster
from hopfed.cli.numbers import COUNT, SEEDS
from hopfed.cli.outputs import overwrite_option, set_aside
from hopfed.cli.printing import err, out, shown, table
from hopfed.cli.runs.run import dask_option, progress
from hopfed.errors import ArgumentError
from hopfed.experiments import PRESET_NAMES, find, preset


@click.command("sweep")
@click.argument("name", metavar="EXPERIMENT")
@click.option("--grid", multiple=True, required=True, metavar="KEY=A,B,C", help="Setting to sweep.")
@click.option("--preset", metavar=f"[{'|'.join(PRESET_NAMES)}|...]", help="Settings to start from.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option("--seeds", type=SEEDS, help="Number of seeds, or which: 0:20 for 0 to 19.")
@click.option(
    "--engine",
    type=click.Choice(("local", "pool", "dask")),
    default="local",
    show_default=True,
    help="Where cells and seeds run: in process, in worker processes, on workers of Dask.",
)
@click.option("--workers", type=COUNT, default=1, show_default=True, help="Processes.")
@dask_option
@click.option("--choose", metavar="NUMBER", help="Say which cell has most of it.")
@click.option("--measure", help="Number of the summary that is drawn.  [default: the first]")
@click.option(
    "--out", "folder", required=True, type=click.Path(path_type=Path), help="Folder to write."
)
@overwrite_option
def sweep_command(name: str, grid: tuple[str, ...], folder: Path, **options: Any) -> None:
    """Run EXPERIMENT in each cell of a grid of settings.

    The folder --out receives a run file for each cell. Beside them are table.csv, a row for each
    cell, and figure.png. A sweep that was interrupted, or that is given more values or seeds, goes
    on where it is, and begins anew with --overwrite. Cells that fail are listed with the reason;
    the status is 1 then.

    `hopfed sweep fl --set method=NAME --choose validation` chooses settings of a method; report
    what is chosen on other seeds, such as 100:105.

    Example: hopfed sweep mp --preset quick --grid N=50,100 --seeds 0:2 --out swept
    """
    from hopfed.experiments.sweep import OK, best, parsed_grid, sweep

    experiment, settings = find(name), parsed_grid(grid)
    config, first = _config(experiment, options)
    dask = options["dask"]
    if dask is not None and options["engine"] != "dask":
        raise ArgumentError("--dask", "given together with --engine dask", options["engine"])
    known = experiment.COMPARED
    if options["measure"] is not None and known and options["measure"] not in known:
        raise ArgumentError("--measure", f"one of {', '.join(known)}", options["measure"])
    workers = options["workers"]
    opened = nullcontext() if dask is None else cluster(dask, workers)
    before = sorted(folder.glob("*=*.h5")) if folder.is_dir() else []
    with opened, progress(name) as report, set_aside(*before):
        cells = sweep(
            experiment,
            config,
            settings,
            folder,
            engine=options["engine"],
            workers=workers,
            first=first,
            report=report,
        )
    _show(cells, list(settings), folder, options["measure"])
    if options["choose"]:
        chosen = best(cells, options["choose"])
        pairs = zip(settings, chosen.values, strict=True)
        out.print(f"chosen: {' '.join(f'--set {shown(k)}={shown(v)}' for k, v in pairs)}")
    failed = [cell for cell in cells if cell.status != OK]
    for cell in failed:
        which = ", ".join(f"{k}={v}" for k, v in zip(settings, cell.values, strict=True))
        err.print(f"failed: {shown(which)}: {cell.status}", soft_wrap=True)
    if failed:
        raise SystemExit(1)


def _config(experiment: Any, options: dict[str, Any]) -> tuple[Any, int]:
    """Settings of all cells, and the first seed."""
    from hopfed._lib.settings import with_settings

    change = getattr(experiment, "with_options", with_settings)
    config = change(preset(experiment, options["preset"] or "default"), options["settings"])
    if options["seeds"] is None:
        return config, 0
    first, number = options["seeds"]
    return replace(config, seeds=number), first


def _show(cells: Any, keys: list[str], folder: Path, measure: str | None) -> None:
    """Print the table of the cells, and draw one number of them."""
    from hopfed.experiments.sweep import FIGURE, TABLE, measures_of
    from hopfed.figures import save
    from hopfed.figures.sweep import draw_sweep

    names = measures_of(cells)
    drawn = measure or next(iter(names), "to draw")
    _print(cells, keys, sorted(names, key=lambda name: name != drawn))
    written = [folder / TABLE]
    if drawn in names:
        values = {cell.values: cell.measure(drawn) for cell in cells}
        save(draw_sweep(keys, values, drawn), folder / FIGURE)
        written.append(folder / FIGURE)
    else:
        err.print(f"no figure: no cell has a number {shown(drawn)}", soft_wrap=True)
    for path in written:
        out.print(f"wrote {shown(path)}")


def _print(cells: Any, keys: list[str], names: list[str]) -> None:
    """Print as many numbers of the cells as fit into a line; the file has all."""
    columns = [[key, *(str(shown(cell.values[i])) for cell in cells)] for i, key in enumerate(keys)]
    columns += [[name, *(_words(cell.measure(name)) for cell in cells)] for name in names]
    ends = np.cumsum([max(map(len, column)) + 1 for column in columns])
    fit = max(int(np.searchsorted(ends, out.width + 1, side="right")), len(keys) + 1)
    grid = table(*(column[0] for column in columns[:fit]))
    for cells_of_row in zip(*(column[1:] for column in columns[:fit]), strict=True):
        grid.add_row(*cells_of_row)
    out.print(grid)
    if fit < len(columns):
        out.print(f"and {len(columns) - fit} numbers more in the table that is written:")


def _words(pair: tuple[float, float] | None) -> str:
    if pair is None:
        return "-"
    error = f"{pair[1]:.0f}" if pair[1] >= 100 else f"{pair[1]:.2g}"
    return f"{pair[0]:.4g}" + (f" +- {error}" if pair[1] else "")
