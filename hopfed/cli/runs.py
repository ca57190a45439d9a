"""`hopfed run`, `sweep`, `show`, `compare`, `figure`, `report`: runs of experiments."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.outputs import RUN, replacing
from hopfed._lib.settings import describe, require, with_settings
from hopfed.cli import options as kinds
from hopfed.cli import printing
from hopfed.cli.options import command, flag, json_option, option, out_option
from hopfed.cli.printing import err, escape, out, print_json, print_table, say_wrote
from hopfed.errors import ArgumentError, RunFileError
from hopfed.errors import safe_line as cut
from hopfed.experiments import PRESET_NAMES, Table, experiment_name, find_experiment, preset
from hopfed.report import tables
from hopfed.runs import Run, blame_file, first_seed

FILES = ("data", "weights")  # settings that name files to read
LONGEST = 300  # largest number of characters of a shown setting
COLUMNS = 3  # number of printed numbers of a cell of a sweep; the table in the folder has all
ROWS = "Table, or folder of tables, whose rows a page about archetypes lists; may be repeated."
PRESET = "Settings to start from; `hopfed list NAME` has them all. [default: default]"
WHERE = "An .html file. [default: RUN.html]"
DRAWN = "A .png, .pdf or .svg file. [default: RUN.png]"
PAPER = "Table of methods to write: .tex, a tabular of LaTeX, or .csv."

_preset = option("--preset", PRESET, metavar=f"[{'|'.join(PRESET_NAMES)}|...]")
_seeds = option("--seeds", "Number of seeds, or which: 100:110 for 100 to 109.", kinds.SEEDS)
_runs = partial(click.argument, "run_files", nargs=-1, required=True, type=kinds.PATH)


@command("run")
@click.argument("name")
@_preset
@_seeds
@kinds.set_option
@kinds.engine_options
@kinds.workers_option
@kinds.device_option("recoveries run and networks are trained", opens=False)
@out_option("Run file (.h5) to write.", RUN)
@flag("--resume", "Continue the run in --out if the file exists.")
@json_option
def run_command(name: str, device: str, **options: Any) -> None:
    """Run the experiment NAME over its seeds.

    `hopfed list NAME` shows its settings. With --out the file receives every seed as soon as it is
    finished. A federation also saves its rounds, fast rounds several at a time. An interrupted run
    continues with --resume and gives the same result, or begins anew with --overwrite. `hopfed
    figure RUN.h5` draws it.

    Example: hopfed run bbp --preset quick --set M=400,1600 --out bbp.h5
    """
    from hopfed.kernels.place import place_named

    experiment = find_experiment(name)
    trains = hasattr(experiment.Config, "device")
    if trains:
        kinds.torch_device(device)
    else:
        place_named(device).open()
        options["device"] = device
    start, first = preset(experiment, options["preset"] or "default"), 0  # may raise
    held = continued_run(options)
    if held is not None and not options["preset"]:
        start, first = held_settings(experiment, held)
        refuse_code(experiment, start, held, options["settings"])
    config, first = change_settings(experiment, start, options, first)
    if trains and device != "cpu":
        config = replace(config, device=device)
    run_with_progress(experiment, config, first, options)


def run_with_progress(experiment: Any, config: Any, first: int, options: dict[str, Any]) -> Run:
    """For `hopfed run`: run `experiment` with a progress bar, print its summary, return the run."""
    from hopfed.experiments.machinery.runner import execute

    how: dict[str, Any] = {name: options[name] for name in ("resume", "engine", "workers")}
    how |= {"first": first, "out": options["out_file"], "device": options.get("device", "cpu")}
    if how["resume"] and how["out"] is None:
        raise ArgumentError("--resume", "given together with --out", "no --out")
    kept, seconds = _kept(config, continued_run(options)), -time.perf_counter()
    with (
        _cluster(options),
        progress_bar(experiment_name(experiment)) as report,
        kinds.set_files_aside(how["out"], *kept),
    ):
        run = execute(experiment, config, report=report, callbacks=[report.of_round], **how)
    seconds += time.perf_counter()
    if options["as_json"]:
        print_json({"kind": run.kind, "config": run.config, "summary": run.summary})
        return run
    print_summary(run)
    saved = f"wrote {escape(how['out'])}" if how["out"] else "not saved; --out RUN.h5 saves a run"
    units = report.counts[-1] - report.counts[0] if report.counts else 0
    unit = "round" if hasattr(experiment, "measure_round") else "seed"
    each = f", {seconds / units:.2f} s a {unit}" if units > 1 else ""
    out.print(f"\n{config.seeds} seed{'s' * (config.seeds != 1)} in {seconds:.1f} s{each}; {saved}")
    return run


def _cluster(options: dict[str, Any]) -> Any:
    """Context of the given scheduler of Dask, for the time of a run."""
    from hopfed._lib.dask_cluster import cluster

    if options["dask"] is None:
        return nullcontext()
    if options["engine"] != "dask":
        raise ArgumentError("--dask", "given together with --engine dask", options["engine"])
    return cluster(options["dask"], options["workers"])


def continued_run(options: dict[str, Any]) -> Path | None:
    """The existing run file, if `hopfed run --resume` continues it."""
    path: Path | None = options["out_file"]
    return path if options["resume"] and path is not None and path.exists() else None


def _kept(config: Any, held: Path | None) -> list[Path]:
    """Existing folders of networks; those of another run are replaced only with --overwrite."""
    folder = getattr(config, "keep", "")
    if not folder:
        return []
    require(not Path(folder).is_file(), "--keep", "a folder, or new", folder)
    if any(Path(folder).glob("seed-*")) and held is None and not kinds.may_overwrite():
        ways = "--overwrite replaces the networks in this one, --resume continues them"
        raise ArgumentError("--keep", f"a new folder ({ways})", folder)
    return [file.parent for file in Path(folder).glob("seed-*/model.json")]


def held_settings(experiment: Any, out_file: Path) -> tuple[Any, int]:
    """Settings of the run in a file that `hopfed run --resume` continues, and its first seed."""
    held = Run.load(out_file)
    if held.kind != experiment_name(experiment):
        raise ArgumentError("--out", f"a run of this experiment, not of {held.kind}", out_file)
    return tables.settings_in(held, out_file), first_seed(held.config)


def change_settings(
    experiment: Any, config: Any, options: dict[str, Any], first: int
) -> tuple[Any, int]:
    """Settings changed by --set and --seeds of `hopfed run`, and the first seed."""
    change = getattr(experiment, "with_options", with_settings)
    config = change(config, list(options["settings"]))
    if options["seeds"] is None:
        return config, first
    first, number = options["seeds"]
    return replace(config, seeds=number), first


def fit_settings_to_data(experiment: Any, config: Any, settings: Iterable[str]) -> Any:
    """For `hopfed sweep` and `fl run`: settings changed as data ask, where `settings` name none."""
    taken = experiment.for_data(config, {s.partition("=")[0].strip() for s in settings})
    if taken:
        err.note(f"as the data ask: {' '.join(map(escape, taken))}")
    return experiment.with_options(config, taken)


def refuse_code(experiment: Any, config: Any, path: Path, given: Iterable[str]) -> None:
    """For `hopfed run --resume`: refuse code and files of settings unless given in the command too.

    Some settings in `config` come from the file `path`; `given` is ``key=value`` of the command
    line.
    """
    from hopfed.experiments.fl import code_of

    pairs = [(name.strip(), text.strip()) for name, _, text in (s.partition("=") for s in given)]
    said = {(name, part.strip()) for name, text in pairs for part in (text, *text.split(","))}

    def refuse(kind: str, name: str, *keys: str) -> None:
        if not said & {(key, name) for key in keys}:
            held = {key: describe(getattr(config, key, "")) for key in keys}
            same = next(shlex.quote(f"{key}={held[key]}") for key in keys if name in held[key])
            way = f"give the same --set {same} if you know it"
            raise RunFileError(f"{path}: names {kind}, {name}; {way}")

    for name in getattr(experiment, "code_of", code_of)(config):
        refuse("code to run", name, "method", "models")
    for setting in FILES:
        held = getattr(config, setting, "")
        for file in (held,) if isinstance(held, str) else held:
            if not re.fullmatch(r"\w*", file):
                refuse("a file to read", file, setting)
    if folder := getattr(config, "keep", ""):
        refuse("a folder to write", folder, "keep")


@contextmanager
def progress_bar(name: str) -> Iterator[Report]:
    """Progress bar of `hopfed run` and `sweep`: it counts seeds, or rounds, and is removed then."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        yield Report(bar, name)


class Report:
    """Progress bar: the number of finished units, and the loss of a round of networks."""

    def __init__(self, bar: Any, name: str):
        self.bar, self.name, self.task = bar, name, bar.add_task(name, total=None)
        self.counts: list[int] = []  # numbers of finished units, in order

    def __call__(self, done: int, planned: int) -> None:
        """Show the number of finished units."""
        self.counts.append(done)
        self.bar.update(self.task, completed=done, total=planned)

    def of_round(self, seed: int, t: int, arrays: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Show the mean loss of the clients that trained in a round."""
        losses = np.asarray(arrays.get("client/loss", ()), float)  # all clients in all cells
        if np.isfinite(losses).any():
            held = losses[np.isfinite(losses)].mean()
            self.bar.update(self.task, description=f"{self.name}, loss {held:.3f}")


@command("sweep")
@click.argument("name", metavar="EXPERIMENT")
@option("--grid", "Setting to sweep.", multiple=True, required=True, metavar="KEY=A,B,C")
@_preset
@kinds.set_option
@_seeds
@partial(kinds.engine_options, places=kinds.PLACES)
@kinds.workers_option
@option("--choose", "Name the cell in which this number is largest.", metavar="NUMBER")
@option("--out folder", "Folder to write.", kinds.PATH, required=True)
@kinds.overwrite_option
def sweep_command(name: str, folder: Path, **options: Any) -> None:
    """Run EXPERIMENT in each cell of a grid of settings.

    The folder --out receives a run file for each cell. Beside them are table.csv, a row for each
    cell, and figure.png, of the number to --choose, or the first. An interrupted sweep goes on
    with the same command, also with more values or seeds, and begins anew with --overwrite. Cells
    that fail are listed with the reason; the status is 1 then.

    `hopfed sweep fl --set method=NAME --choose validation` chooses settings of a method; report
    the choice on other seeds, such as 100:105.

    Example: hopfed sweep mp --preset quick --grid N=50,100 --seeds 0:2 --out swept
    """
    from hopfed.experiments.machinery.sweep import OK, best_cell, parse_grid, run_sweep

    experiment, grid = find_experiment(name), parse_grid(options["grid"])
    start = preset(experiment, options["preset"] or "default")
    config, first = change_settings(experiment, start, options, 0)
    for method in grid.get("method", ()):  # an unknown one is an error before any cell runs
        change_settings(experiment, config, options | {"settings": [f"method={method}"]}, 0)
    if hasattr(experiment, "for_data"):
        config = fit_settings_to_data(experiment, config, [*options["settings"], *options["grid"]])
    before = sorted(folder.glob("*=*.h5")) if folder.is_dir() else []
    how = {"engine": options["engine"], "workers": options["workers"], "first": first}
    with _cluster(options), progress_bar(name) as report, kinds.set_files_aside(*before):
        cells = run_sweep(experiment, config, grid, folder, report=report, **how)
    _show_cells(cells, list(grid), folder, options["choose"])
    if options["choose"]:
        pairs = zip(grid, best_cell(cells, options["choose"]).values, strict=True)
        out.print(f"chosen: {' '.join(f'--set {escape(k)}={escape(v)}' for k, v in pairs)}")
    failed = [cell for cell in cells if cell.status != OK]
    for cell in failed:
        which = ", ".join(f"{k}={v}" for k, v in zip(grid, cell.values, strict=True))
        err.note(f"failed: {escape(which)}: {cell.status}")
    if failed:
        raise SystemExit(1)


def _show_cells(cells: Any, keys: list[str], folder: Path, measure: str | None) -> None:
    """Print the first numbers of the cells, and draw one of them."""
    from hopfed.experiments.machinery.sweep import FIGURE, TABLE, measures_of, sweep_panel
    from hopfed.figures import save
    from hopfed.figures.kinds import draw_page

    names = sorted(measures_of(cells), key=lambda name: name != measure)  # the drawn one first
    first = names[:COLUMNS]
    numbers = ([tables.format_spread(cell.measure(name)) for name in first] for cell in cells)
    rows = [(*cell.values, *held) for cell, held in zip(cells, numbers, strict=True)]
    print_table((*keys, *first), rows)
    say_wrote(folder / TABLE)
    if names:
        save(draw_page([sweep_panel(cells, keys, names[0])]), folder / FIGURE)
        say_wrote(folder / FIGURE)


@command("show")
@kinds.RUN_FILE
@json_option
def show_command(run_file: Path, as_json: bool) -> None:
    """Show settings, versions, summary and arrays of the run file RUN.

    A long setting is cut, such as how each column of a wide table is read; --json prints all.

    Example: hopfed show bbp.h5
    """
    run = Run.load(run_file)
    shapes = {name: f"{a.dtype} {list(a.shape)}" for name, a in sorted(run.arrays.items())}
    if as_json:
        parts = ("kind", "committed", "planned", "config", "summary", "provenance")
        return print_json({p: getattr(run, p) for p in parts} | {"arrays": shapes})
    with blame_file(run_file, run.kind):
        settings = {k: cut(describe(v), LONGEST) for k, v in run.config.items()}
        results = tables.tables_of(run) if run.complete else []
    state = "complete" if run.complete else f"interrupted: {run.committed} of {run.planned} seeds"
    out.print(f"{escape(run.kind)}, {state}\n")
    pairs = {"setting": settings, "made with": run.provenance, "array": shapes}
    _print([Table(title, ("",), tuple(held.items())) for title, held in pairs.items()], left=2)
    _print(results)


@command("compare")
@_runs(metavar="RUN RUN...")
@out_option(PAPER, (".tex", ".csv"))
def compare_command(run_files: tuple[Path, ...], out_file: Path | None) -> None:
    """Compare the settings, summaries and arrays of runs.

    --out writes a table of runs of `hopfed fl run`, such as those of a sweep: a row for each, with
    means over seeds and their standard errors.

    Example: hopfed compare before.h5 after.h5
    """
    require(len(run_files) > 1, "RUN", "at least two run files", len(run_files))
    runs = [Run.load(path, complete=True) for path in run_files]
    with blame_file(", ".join(map(str, run_files)), runs[0].kind):
        settings = tables.differing_rows([run.config | {"kind": run.kind} for run in runs])
        numbers = tables.compare_summaries(runs)
        names = {name for run in runs for name in run.arrays}
        same = sum(all(_equal(name, runs[0], other) for other in runs[1:]) for name in names)
        if out_file is not None:
            tables.write_for_papers(runs, out_file)
    versions = tables.differing_rows([run.provenance for run in runs])
    for title, rows in (("setting", settings), ("made with", versions)):
        if rows:
            lines = tuple((name, " | ".join(words)) for name, *words in rows)
            _print([Table(title, ("",), lines)], left=2)
    spread = ", ± standard deviation" * any(run.config.get("seeds", 1) > 1 for run in runs)
    print_table((f"summary{spread}", *run_files), numbers, 1)
    out.print(f"\n{same} of {len(names)} arrays are equal to the last bit")
    say_wrote(out_file)


def _equal(name: str, run: Run, other: Run) -> bool:
    """Whether two runs have an array of this name, with the same values."""
    if name not in run.arrays or name not in other.arrays:
        return False
    a, b = run.arrays[name], other.arrays[name]
    return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def print_summary(run: Run) -> None:
    """Print the tables of a run for `hopfed run`, such as its summary with the paper's values."""
    _print(tables.tables_of(run))


def _print(held: Iterable[Table], left: int = 1) -> None:
    """Print tables whose first columns begin at the left."""
    for each in held:
        print_table((each.title, *each.columns), each.rows, left)
        out.print("")


def _default_name(ending: str) -> Callable[..., Path]:
    """Name of a file where the user gives none: that of the first run file."""
    return lambda ctx, _, named: named or ctx.params["run_files"][0].with_suffix(ending)


@command("figure")
@_runs(metavar="RUN...")
@out_option(DRAWN, kinds.FIGURE, callback=_default_name(".png"))
@flag("--whole", "Draw all panels, and not only the first ones.")
def figure_command(run_files: tuple[Path, ...], out_file: Path, whole: bool) -> None:
    """Draw the run file RUN.

    Several runs of `hopfed fl run` are drawn side by side. The run files hold all data of the
    figure.

    Example: hopfed figure bbp.h5 --out bbp.png
    """
    from hopfed.experiments.machinery.pictures import draw_runs, has_more_sections
    from hopfed.figures import save

    runs = [tables.load_complete(path, begun=True) for path in run_files]
    begun = [path for path, run in zip(run_files, runs, strict=True) if not run.complete]
    err.note(*(f"{escape(path)}: interrupted; the figure has its results so far" for path in begun))
    held, number = sorted({run.kind for run in runs}), "several runs" if runs[1:] else "runs"
    require(len(held) == 1, "RUN", "runs of one kind, to be drawn together", ", ".join(held))
    with blame_file(", ".join(map(str, run_files)), held[0]):
        figure = draw_runs(runs, whole=whole)
        if figure is None:
            raise RunFileError(f"{run_files[0]}: there is no figure for {number} of {held[0]!r}")
        save(figure, out_file)
        more = not runs[1:] and not whole and has_more_sections(runs[0])
    out.print(f"wrote {escape(out_file)}" + "; --whole draws all panels" * more)


@command("report")
@_runs(metavar="RUN...")
@out_option(WHERE, kinds.PAGE, callback=_default_name(".html"))
@option("--rows row_files", ROWS, kinds.MANY, multiple=True, metavar="FILE")
def report_command(
    run_files: tuple[Path, ...], out_file: Path, row_files: tuple[Path, ...]
) -> None:
    """Write a page about the run files RUN.

    It holds settings, tables, figures, versions, and the data, in one file. It works without a
    network and can be printed. The page of a recovery, or of a federation, begins with
    archetypes in words; with --rows it names at most 5,000 rows of tables, read as the table that
    the archetypes come from.

    Example: hopfed report bbp.h5 --out bbp.html
    """
    from hopfed.archetypes.run_file import has_archetypes
    from hopfed.cli.answers import archetypes_for_files
    from hopfed.cli.inputs import NOTHING
    from hopfed.report.page import assign_rows, report_page

    runs, answers = {path.name: tables.load_complete(path) for path in run_files}, None
    same = len(runs) < len(run_files)
    require(not same, "RUN", "files of different names", ", ".join(map(str, run_files)))
    if row_files:
        held = [run.kind for run in runs.values()]
        one = len(runs) == 1 and all(map(has_archetypes, runs.values()))
        require(one, "--rows", "given with one run that has archetypes", ", ".join(held))
        found = archetypes_for_files(run_files[0], row_files, NOTHING)
        with err.status("assigning"):
            answers = assign_rows(found, row_files)
    # A lone surrogate has no UTF-8 bytes.
    data = report_page(runs, answers).encode(errors="backslashreplace")
    with replacing(out_file) as temporary:
        temporary.write_bytes(data)
    out.print(f"wrote {escape(out_file)} ({printing.human_bytes(len(data))})")
