"""`hopfed recover`: archetypes from files of binary examples."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from hopfed._lib.dask_cluster import cluster
from hopfed._lib.memory_limits import free_memory
from hopfed._lib.settings import require
from hopfed.cli import inputs
from hopfed.cli import options as kinds
from hopfed.cli.options import command, flag, option, out_option
from hopfed.cli.printing import (
    err,
    escape,
    finish_command,
    human_bytes,
    out,
    print_json,
    print_table,
)
from hopfed.errors import ArgumentError, DataError
from hopfed.tables import writers

ROWS = 60  # rows of the printed table; --json and --out hold all
CHOSEN = ("alpha", "refit", "channel", "quality")
SHORT = {"archetypes": "K", "log_likelihood": "log L", "parameters": "p", "smallest": "least"}
MEANINGS = (
    "log L: nats of all rows; p: parameters; entropy 1: each row has a sure class; least: rows of "
    "the smallest class; residual: dependence left between columns, over the edge of noise"
)
FREE = 4  # part of the free memory that the examples may take
COLUMNS = "Columns that some files lack: refused, taken for missing in these files, or left out."
MEMORY = (
    "Memory for the examples, such as 2GB; larger files are read again for every sum.  "
    "[default: a quarter of the free memory]"
)
DASK = (
    "Let workers of Dask read, on this machine or of the scheduler at ADDRESS: all FILES, folders "
    "and patterns belong to one client, and stay in the memory of the workers."
)
WEIGHTS = "Column of weights: whole numbers count equal rows, others are weights of a survey."
CHANNEL = "Symmetric: the same flip rate everywhere; graded: a mean for each class and column."
COMPARE = "Compare numbers of archetypes in a table: likelihood, BIC, dependence that is left."
BLOCKS = "Take one of every N rows, where neighbours in time or in a block are alike."
BOOTSTRAP = "With --compare: simulated tables to test each number against the one before; slow."


@command("recover")
@click.argument("files", nargs=-1, required=True, type=kinds.PATH)
@inputs.table_options
@option("--columns", COLUMNS, ("same", "union", "shared"), "same")
@option("--memory", MEMORY, kinds.SIZE)
@option("--dask", DASK, metavar="local|ADDRESS")
@option("--weights", WEIGHTS, metavar="COLUMN")
@option("--blocks", BLOCKS, kinds.COUNT, 1)
@option("--clients", "Split a single file at random over this many clients.", kinds.COUNT)
@option("--quality", "Quality r in (0, 1], or auto.", kinds.QUALITY, "auto")
@option("--alpha", "False-alarm rate of the count [0.001].", kinds.FINITE)
@option("--channel", CHANNEL, ("auto", "symmetric", "graded"), "auto")
@option("--archetypes", "Number of archetypes. [default: estimated]", kinds.FEW)
@option("--compare", COMPARE, kinds.COUNTS)
@option("--bootstrap", BOOTSTRAP, kinds.FEW)
@flag("--refit", "Refine patterns by one more exchange: sums of the nearest examples.")
@option("--support", "Smallest number of rows of an archetype.", kinds.COUNT, 5)
@option("--seed", "Seed of all random choices.", kinds.SEED, 0)
@kinds.device_option("it is computed")
@out_option("Write a run file (.h5), or archetypes as .csv, .json or .parquet.", writers.ENDINGS)
@kinds.figure_option
@kinds.shape_option
@flag("--json as_json", "Print the result as JSON.")
@flag("--dry-run", "Compute nothing: print how the files are read.")
def recover_command(files: tuple[Path, ...], **options: Any) -> None:
    """Recover archetypes from FILES of examples, one for each client.

    Text (.csv, .tsv and the like, also packed), workbooks (.xlsx, .ods), SPSS, Stata and SAS (.sav,
    .dta, .sas7bdat), .json, .parquet, .feather, .orc, .npy, .npz, .h5 or .zarr; rows are examples.
    Values +-1, 0/1, yes/no, true/false and the like; blank, NA, ? and NaN are missing. Columns are
    matched by name.

    Example: hopfed recover a.npy b.csv c.h5 --out run.h5
    """
    _check(files, options)
    seconds = -time.perf_counter()
    with nullcontext() if options["dask"] is None else cluster(options["dask"]):
        tables = _tables(files, options)
        if options["dry_run"]:
            together = (Path(", ".join(map(str, files))),)
            said = inputs.describe_tables(tables, files if options["dask"] is None else together)
            return print_json(said) if options["as_json"] else inputs.print_description(said)
        err.note(*inputs.notes_of(tables, files))
        how: dict[str, Any] = {name: options[name] for name in ("seed", "device")}
        if options["compare"] is not None:
            return _compare(tables, how, options)
        from hopfed.recovery.recover import run_recovery

        how |= {name: options[name] for name in (*CHOSEN, "support", "blocks")}
        with err.status("recovering"):
            recovery = run_recovery(tables, n_archetypes=options["archetypes"], **how)
    config: dict[str, Any] = {"files": [str(file) for file in files]}
    config |= {k: str(v) if isinstance(v, Path) else v for k, v in options.items()}
    config["quality"] = options["quality"] or "auto"
    _write(recovery, config, options, seconds + time.perf_counter())


def _tables(files: tuple[Path, ...], options: dict[str, Any]) -> list[Any]:
    """Read the files as the options say: a table for each client."""
    from hopfed.archetypes.row_weights import give_weights
    from hopfed.recovery.recover import deal_rows
    from hopfed.tables.reading import read_partitions

    weights = None if options["weights"] is None else inputs.weights_in(files, options)
    if options["dask"] is None:
        tables = inputs.read_files(files, options, options["memory"] or free_memory() // FREE)
    else:
        with err.status("reading"):
            tables = [read_partitions(files, choices=inputs.choices_of(options))]
    if weights is not None:
        rows = give_weights([held.rows for held in tables], weights)
        tables = [replace(t, rows=r) for t, r in zip(tables, rows, strict=True)]
    N, shape = tables[0].shape[1], options["shape"]
    if shape is not None and shape[0] * shape[1] != N:
        got = "x".join(map(str, shape))
        raise ArgumentError("--shape", f"height x width with a product of {N}", got)
    if options["clients"] is not None:
        parts = deal_rows(tables[0].rows, options["clients"], options["seed"])
        return [replace(tables[0], rows=rows, ids=None) for rows in parts]
    if len(files) == len(tables) and len({path.resolve() for path in files}) < len(files):
        err.note("a file is given twice, so that its rows count twice")
    return tables


def _compare(tables: list[Any], how: dict[str, Any], options: dict[str, Any]) -> None:
    """Print, draw and write the table of numbers of archetypes."""
    from hopfed.recovery.compare import COLUMNS, compare

    with err.status("comparing"):
        draws = options["bootstrap"] or 0
        compared = compare(tables, options["compare"], bootstrap=draws, **how)
    if options["out_file"]:
        writers.write(options["out_file"], compared.columns)
    made: dict[str, Any] = {"table": compared.table, "statuses": compared.statuses}
    made |= {"taken": len(compared.taken), "status": compared.taken.status}

    def show() -> None:
        columns = [[f"{x:,.{COLUMNS[n]}f}" for x in held] for n, held in compared.table.items()]
        rows = zip(*columns, compared.statuses, strict=True)
        print_table([*(SHORT.get(name, name) for name in compared.table), "status"], [*rows])
        out.note("", compared.sentences()[0], MEANINGS)

    finish_command(options, made, show, compared.plot)


def _write(recovery: Any, config: dict, options: dict[str, Any], seconds: float) -> None:
    """Save, draw and print a recovery as the options ask."""
    from hopfed.archetypes.run_file import write
    from hopfed.recovery.recover import as_run, report

    run = as_run(recovery, config)
    if options["out_file"]:
        write(recovery.archetypes, options["out_file"], run)

    def drawn() -> Any:
        from hopfed.figures.recovery import draw

        return draw(run, shape=options["shape"])

    show = partial(print_recovery, recovery, seconds)
    finish_command(options, report(recovery, seconds), show, drawn)


def print_recovery(recovery: Any, seconds: float) -> None:
    """Print the table of archetypes of `hopfed recover`, and the cost of the recovery."""
    from hopfed.archetypes.display import described, verdict

    found, left = recovery.archetypes, recovery.residual
    if found.graded_means is not None:  # differences of each class, in words
        out.note(*(line for k in range(min(len(found), ROWS)) for line in described(found, k)))
    elif len(found):
        numbers = zip(found.scores, found.predicted_scores, found.exposures, strict=True)
        lines = [(k, *(f"{x:.4f}" for x in row)) for k, row in enumerate(numbers, start=1)]
        print_table(("archetype", "score", "predicted", "exposure"), lines[:ROWS])
    if len(found) > ROWS:
        out.print(f"... and {len(found) - ROWS} more (--json or --out holds all)")
    out.print(f"\n{verdict(found)}")
    m, several = sum(recovery.n_examples), len(recovery.n_examples) > 1
    owners = f" of {len(recovery.n_examples)} client(s)" if several else ""
    measured = f"quality r = {found.quality:.3f}; explained {found.explained:.4f}"
    if left is not None:
        measured = (
            f"{found.channel} channel; columns depend on each other in classes by {left.ratio:.2f}"
            f" of the edge of noise ({left.expected:.2f} +- {left.error:.2f} if all is explained)"
        )
    count = f"spectrum shows {found.n_detected} ({recovery.rule})"
    out.print(f"{m:,} examples{owners}; {count}; {measured}")
    free = recovery.likeliest is None  # the number
    if free and left is not None and len(found) > max(found.n_detected, 1):
        out.print(
            f"the spectrum counts directions in which rows differ from their mean; the likelihood "
            f"decides that {len(found)} classes explain the rows best"
        )
    if constant := len(recovery.constant_columns):
        out.print(f"{constant} column(s) hold a single value, or no entry")
    if recovery.readings > 1:
        out.print(f"the examples are more than --memory: they were read {recovery.readings} times")
    if not several:
        out.print(f"one owner, so nothing was exchanged; {seconds:.2f} s")
        return
    worst, dense = int(recovery.traffic.up.max()), 4 * recovery.archetypes.patterns.shape[1] ** 2
    pairs = zip(recovery.traffic.up.tolist(), recovery.raw_nbytes, strict=True)
    sent, raw = max(pairs, key=lambda pair: pair[0] / pair[1])  # client that sent most for its rows
    part = f"{worst / dense:.1%}" if worst <= dense else f"{worst / dense:.1f} times that"
    more = "" if sent <= raw else f" ({sent / raw:.1f} times less)"
    out.print(
        f"each client sent at most {human_bytes(worst)} in {recovery.exchanges} exchanges; dense "
        f"operator {human_bytes(dense)} ({part}); its rows, which stay, "
        f"are {human_bytes(raw)} of bits{more}; {seconds:.2f} s"
    )


def _check(files: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Refuse wrong options before any file is read."""
    from hopfed.recovery.recover import patterns_of
    from hopfed.tables.files import is_many

    inputs.choices_of(options)
    patterns_of(**{name: options[name] for name in CHOSEN})
    table, draws = options["compare"], options["bootstrap"]
    compared = ((name, "compare") for name in (*CHOSEN, "support", "archetypes", "blocks"))
    kinds.refuse_both(("memory", "dask"), ("weights", "dask"), ("blocks", "clients"), *compared)
    require(draws is None or table is not None, "--bootstrap", "given with --compare", draws)
    file = options["out_file"]
    fits = table is None or file is None or file.suffix.lower() in writers.TABLES
    require(fits, "--out", "a table with --compare", file)
    if options["dask"] is not None:
        return
    one = options["clients"] is None or len(files) == 1
    require(one, "--clients", "left out when there are several files", len(files))
    for path in files:
        if is_many(path) and not path.is_file() and path.suffix.lower() != ".zarr":
            way = "name its files, one for each owner, or read one table with --dask"
            raise DataError(f"{escape(path)}: a folder or a pattern: {way}")
