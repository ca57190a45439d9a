"""`hopfed recover` and `demo`: archetypes from files of binary examples, and from drawn ones."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from hopfed._lib.cluster import cluster
from hopfed._lib.memory_limits import free_memory
from hopfed.cli.numbers import COUNT, COUNTS, FEW, FINITE, QUALITY, SEED, SIZE, within
from hopfed.cli.options import PATH, device_option, flag, option, shape_option
from hopfed.cli.outputs import FIGURE, File, command, figure_option, out_option, overwrite_option
from hopfed.cli.printing import err, human_bytes, out, print_json, print_table, say_wrote, shown
from hopfed.cli.tables import reading
from hopfed.errors import ArgumentError, DataError
from hopfed.tables.writers import ENDINGS

ROWS = 60  # of the table; --json and --out hold all
CHOSEN = ("alpha", "refit", "channel", "quality")
SHORT = {"archetypes": "K", "log_likelihood": "log L", "parameters": "p", "smallest": "least"}
FREE = 4  # part of the free memory that the examples may take
COLUMNS = "Columns that not all files have: refused, missing where a file lacks them, or left out."
MEMORY = (
    "Most that the examples may take, such as 2GB; what takes more is read again for every sum.  "
    "[default: a quarter of what is free]"
)
DASK = (
    "Read by workers of Dask, on this machine or of the scheduler at ADDRESS: all FILES, folders "
    "and patterns are one client's, a part each, and stay in the workers' memory."
)
WEIGHTS = "Numbers that are no feature: how often a row occurs, if whole; else of a survey."
CHANNEL = "Flips alike in all columns, or a mean for each class and column."
COMPARE = "Numbers of archetypes, from first to last, in a table: likelihood, BIC, what is left."
BLOCKS = "Take a row of every N, where rows follow each other in time or in blocks."
PICTURE = "File of the picture: .png, .pdf or .svg."
BOOTSTRAP = "With --compare: drawn tables that test each number against the one before; slow."


@command("recover")
@click.argument("files", nargs=-1, required=True, type=PATH)
@reading.table_options
@option("--columns", COLUMNS, ("same", "union", "shared"), "same")
@option("--memory", MEMORY, SIZE)
@option("--dask", DASK, metavar="local|ADDRESS")
@option("--weights", WEIGHTS, metavar="COLUMN")
@option("--blocks", BLOCKS, COUNT, 1)
@option("--clients", "Split a single file at random over this many clients.", COUNT)
@option("--quality", "Quality r in (0, 1], or auto.", QUALITY, "auto")
@option("--alpha", "False-alarm rate of the count [0.001].", FINITE)
@option("--channel", CHANNEL, ("auto", "symmetric", "graded"), "auto")
@option("--archetypes", "Number of archetypes, where it is yours.", FEW)
@option("--compare", COMPARE, COUNTS)
@option("--bootstrap", BOOTSTRAP, FEW)
@flag("--refit", "One more exchange: sums of the nearest examples.")
@option("--support", "Rows that an archetype must have.", COUNT, 5)
@option("--seed", "Of all random choices.", SEED, 0)
@device_option("it is computed")
@out_option("Write a run file (.h5), or the archetypes as .csv, .json or .parquet.", ENDINGS)
@figure_option
@shape_option
@flag("--json as_json", "Print the result as JSON.")
@flag("--dry-run", "Compute nothing: say what was read.")
def recover_command(files: tuple[Path, ...], **options: Any) -> None:
    """Recover archetypes from FILES of examples, one for each client.

    Text (.csv, .tsv and the like, also packed), workbooks (.xlsx, .ods), SPSS, Stata and SAS (.sav,
    .dta, .sas7bdat), .json, .parquet, .feather, .orc, .npy, .npz, .h5 or .zarr; rows are examples.
    Values +-1, 0/1, yes/no, true/false and the like; blank, NA, ? and NaN are missing. Columns are
    matched by name.

    Example: hopfed recover a.npy b.csv c.h5 --out run.h5
    """
    _check(files, options)
    with nullcontext() if options["dask"] is None else cluster(options["dask"]):
        _recover(files, options)


def _recover(files: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Read the files, and do with them what the options say."""
    from hopfed.archetypes.weights import weighted
    from hopfed.recovery.recover import run_recovery, split
    from hopfed.tables.reading import read_partitions

    seconds = -time.perf_counter()
    weights = None if options["weights"] is None else reading.weights_in(files, options)
    if options["dask"] is None:
        tables = reading.read(files, options, options["memory"] or free_memory() // FREE)
    else:
        with err.status("reading"):
            tables = [read_partitions(files, choices=reading.choices_of(options))]
    if weights is not None:
        rows = weighted([held.rows for held in tables], weights)
        tables = [replace(t, rows=r) for t, r in zip(tables, rows, strict=True)]
    N, shape = tables[0].shape[1], options["shape"]
    if shape is not None and shape[0] * shape[1] != N:
        got = "x".join(map(str, shape))
        raise ArgumentError("--shape", f"height x width with a product of {N}", got)
    if options["clients"] is not None:
        parts = split(tables[0].rows, options["clients"], options["seed"])
        tables = [replace(tables[0], rows=rows, ids=None) for rows in parts]
    places = [path.resolve() for path in files] if len(files) == len(tables) else []
    if twice := [str(f) for f, at in zip(files, places, strict=False) if places.count(at) > 1]:
        names = ", ".join(dict.fromkeys(twice))
        err.print(f"given twice, so that its rows count twice: {names}", soft_wrap=True)
    if options["dry_run"]:
        together = (Path(", ".join(map(str, files))),)
        said = reading.describe(tables, files if options["dask"] is None else together)
        return print_json(said) if options["as_json"] else reading.print_description(said)
    reading.check_varying(tables, options["channel"])
    for line in reading.notes_of(tables, files):
        err.print(line, soft_wrap=True)
    how: dict[str, Any] = {name: options[name] for name in ("seed", "device")}
    if options["compare"] is not None:
        return _compare(tables, how, options)
    how |= {name: options[name] for name in (*CHOSEN, "support", "blocks")}
    with err.status("recovering"):
        recovery = run_recovery(tables, n_archetypes=options["archetypes"], **how)
    seconds += time.perf_counter()
    config: dict[str, Any] = {"files": [str(file) for file in files]}
    config |= {k: str(v) if isinstance(v, Path) else v for k, v in options.items()}
    config["quality"] = options["quality"] or "auto"
    _write(recovery, config, options, seconds)


def _compare(tables: list[Any], how: dict[str, Any], options: dict[str, Any]) -> None:
    """Print, draw and write the table of numbers of archetypes."""
    from hopfed.recovery.compare import COLUMNS, compare

    with err.status("comparing"):
        draws = options["bootstrap"] or 0
        compared = compare(tables, options["compare"], bootstrap=draws, **how)
    if options["figure"]:
        compared.plot(options["figure"])
    if options["out_file"]:
        compared.to_csv(options["out_file"])
    if options["as_json"]:
        made = {"table": compared.table, "statuses": compared.statuses}
        taken = {"taken": len(compared.taken), "status": compared.taken.status}
        return print_json(made | taken)
    columns = [[f"{x:,.{COLUMNS[n]}f}" for x in held] for n, held in compared.table.items()]
    rows = zip(*columns, compared.statuses, strict=True)
    print_table([*(SHORT.get(name, name) for name in compared.table), "status"], [*rows])
    out.print(f"\n{compared.sentence()}")
    out.print(
        "log L: nats of all rows; p: parameters; entropy 1: every row is sure of its class; least: "
        "rows of the smallest; residual: what is left between columns, of the edge of noise"
    )
    say_wrote(options["out_file"], options["figure"])


def _write(recovery: Any, config: dict, options: dict[str, Any], seconds: float) -> None:
    """Save, draw and print a recovery as the options ask."""
    from hopfed.archetypes.storage import write
    from hopfed.recovery.recover import as_run, report

    run = as_run(recovery, config)
    if options["out_file"]:
        write(recovery.archetypes, options["out_file"], run)
    if options["figure"]:
        from hopfed.figures import save
        from hopfed.figures.recovery import draw

        save(draw(run, shape=options["shape"]), options["figure"])
    if options["as_json"]:
        return print_json(report(recovery, seconds))
    print_recovery(recovery, seconds)
    say_wrote(options["out_file"], options["figure"])


def print_recovery(recovery: Any, seconds: float) -> None:
    """Print the table of archetypes and what it took to find them."""
    from hopfed.archetypes.display import described, verdict

    found, left = recovery.archetypes, recovery.residual
    if found.graded_means is not None:  # in words what tells each class from the rest
        for line in (line for k in range(min(len(found), ROWS)) for line in described(found, k)):
            out.print(line)
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
            f"{found.channel} channel; columns depend on each other within classes by "
            f"{left.ratio:.2f} of the edge of noise ({left.expected:.2f} +- {left.error:.2f} "
            "expected)"
        )
    count = f"spectrum shows {found.n_detected} ({recovery.rule})"
    out.print(f"{m:,} examples{owners}; {count}; {measured}")
    if left is not None and len(found) > max(found.n_detected, 1):
        out.print(
            f"the spectrum counts directions in which rows differ from their mean; that "
            f"{len(found)} classes explain the rows best is decided by their likelihood"
        )
    _print_empty(found, recovery.constant_columns)
    if recovery.readings > 1:
        out.print(f"the examples are more than --memory: they were read {recovery.readings} times")
    if not several:
        out.print(f"one owner, so nothing was exchanged; {seconds:.2f} s")
        return
    worst, dense = int(recovery.traffic.up.max()), recovery.dense_nbytes
    part = f"{worst / dense:.1%}" if worst <= dense else f"{worst / dense:.1f} times that"
    pairs = zip(recovery.traffic.up.tolist(), recovery.raw_nbytes, strict=True)
    sent, raw = max(pairs, key=lambda pair: pair[0] / pair[1])  # that sent most for its rows
    rows = f"its rows, which stay, are {human_bytes(raw)} of bits ({sent / raw:.1f} times less)"
    rows = f"its rows in bits {human_bytes(raw)}" if sent <= raw else rows
    out.print(
        f"each client sent at most {human_bytes(worst)} in {recovery.exchanges} exchanges; dense "
        f"operator {human_bytes(dense)} ({part}); {rows}; {seconds:.2f} s"
    )


def _print_empty(found: Any, constant: np.ndarray) -> None:
    """Say which columns hold no entry, or a single value."""
    from hopfed.archetypes.assignment import unknown_columns
    from hopfed.archetypes.storage import names_of

    void = np.flatnonzero(unknown_columns(found))
    for which, hold in ((np.setdiff1d(constant, void), "a single value"), (void, "no entry")):
        if len(which):
            held = [shown(names_of(found)[j]) for j in which]
            more = f" and {len(held) - ROWS} more" if len(held) > ROWS else ""
            named = "" if found.columns is None else f": {', '.join(held[:ROWS])}{more}"
            out.print(f"{len(held)} column(s) hold {hold}{named}")


def _check(files: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Refuse what cannot work before any file is read."""
    from hopfed.recovery.recover import patterns_of
    from hopfed.tables.files import is_many

    reading.choices_of(options)
    patterns_of(**{name: options[name] for name in CHOSEN})
    if options["compare"] is None and options["bootstrap"] is not None:
        raise ArgumentError("--bootstrap", "given with --compare", options["bootstrap"])
    if options["compare"] is not None:
        source = click.get_current_context().get_parameter_source
        others = (*CHOSEN, "support", "archetypes", "blocks")
        given = [name for name in others if source(name) is ParameterSource.COMMANDLINE]
        if given:
            rule = f"without --{given[0]}, of which it knows nothing"
            raise ArgumentError("--compare", rule, "both")
        if options["out_file"] and options["out_file"].suffix.lower() != ".csv":
            raise ArgumentError("--out", "a .csv file with --compare", options["out_file"])
    if options["dask"] is not None and options["memory"] is not None:
        raise ArgumentError("--memory", "left out with --dask: its workers hold the rows", "both")
    if options["dask"] is not None and options["weights"] is not None:
        raise ArgumentError("--weights", "left out with --dask", options["weights"])
    if options["clients"] is not None and options["blocks"] > 1:
        raise ArgumentError("--blocks", "left out with --clients, which deals rows", "both")
    if options["clients"] is not None and options["dask"] is None and len(files) > 1:
        raise ArgumentError("--clients", "left out when there are several files", len(files))
    for path in files if options["dask"] is None else ():
        if is_many(path) and not path.is_file() and path.suffix.lower() != ".zarr":
            way = "name its files, each that of an owner, or with --dask they are one table"
            raise DataError(f"{shown(path)}: a folder or a pattern: {way}")


@command("demo")
@option("--seed", "Seed of all draws.", SEED, 0)
@option("--size", "Pixels.", within(40, 96), 48)
@option("--figure", PICTURE, File(FIGURE), Path("demo.png"))
@overwrite_option
@device_option("it is computed")
def demo_command(seed: int, size: int, figure: Path, device: str) -> None:
    """Hide 26 letters in noise at five clients, and recover them.

    Example: hopfed demo --figure letters.png
    """
    from hopfed.experiments.shared.silhouettes import letters_over_clients

    with err.status("drawing letters and flipping a quarter of all pixels") as status:
        letters, examples, subsets = letters_over_clients(seed, size)
        from hopfed.archetypes.overlap import retrieval
        from hopfed.figures import save
        from hopfed.figures.style import examples_and_patterns
        from hopfed.recovery.recover import run_recovery

        status.update("recovering")
        seconds = -time.perf_counter()
        recovery = run_recovery(examples, seed=seed, refit=True, device=device)
        seconds += time.perf_counter()
        status.update("drawing")
        patterns = recovery.archetypes.patterns
        score = retrieval(patterns, letters)  # the truth only sorts and scores
        drawn = [rows[i] for i in range(6) for rows in examples]
        sorted_ = patterns[score.best.argsort(kind="stable")]
        save(examples_and_patterns(drawn, sorted_, size), figure)
    for c, (rows, subset) in enumerate(zip(examples, subsets, strict=True), start=1):
        out.print(f"client {c}: {len(rows):,} noisy examples of the letters {subset}")
    out.print()
    print_recovery(recovery, seconds)
    out.print(
        f"compared with the truth: {score.found()} of {len(letters)} letters at |m| >= 0.99, "
        f"{score.false_discoveries} false discoveries"
    )
    say_wrote(figure)
