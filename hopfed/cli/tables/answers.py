"""`hopfed assign`, `complete` and `export`: files of what archetypes say about tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hopfed.cli.numbers import FINITE
from hopfed.cli.options import FILES, RUN, file_option, flag, json_option, option
from hopfed.cli.outputs import check_outputs, out_option
from hopfed.cli.printing import err, out, shown, table
from hopfed.cli.tables.reading import NAMES, by_code, choices_of, read, table_options
from hopfed.errors import ArgumentError
from hopfed.runs import Run

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

LISTED = 60  # archetypes in the printed table
MEANT = 5  # words and cuts of which a line says where they are +1
ORDERS = {  # of the columns of a federation
    "sorted": "the sorted names of the owners' columns, capitals first",
    "ordered": "the columns of the owners",
}
ALPHA = "Share of the archetypes' own rows that may be called none of these."
LIKE = "Write a .csv as this text file is: what separates cells, decimal commas, ends of lines."


def _out(what: str) -> Any:
    return out_option(f"{what}: .csv, .json, .parquet or .h5.", required=True)


@click.command("assign")
@RUN
@FILES
@table_options
@_out("Archetype and probability of each row")
@option("--alpha", ALPHA, FINITE, 0.001)
@json_option
def assign_command(
    run_file: Path, files: tuple[Path, ...], out_file: Path, alpha: float, **options: Any
) -> None:
    """Say to which archetype of RUN each row of the FILEs belongs.

    RUN is what `hopfed recover`, `serve` or `join` wrote with --out. A FILE may be a folder, or a
    quoted pattern such as 'parts/*.csv'. The FILEs are read as those that it comes from, their
    columns found by name; where RUN does not say how, as that of `serve`, by --id, --ignore,
    --words and --binarize. --words 0=-1,1=+1,9=missing says what words stand for that were not
    there. OUT has the columns id, archetype (as `hopfed recover` numbers them; empty for rows that
    are none of these, or have no entry) and probability, and file where there are several. A .csv
    is written as the first FILE is: what separates cells, decimal commas, encoding, ends of lines.

    Example: hopfed assign run.h5 survey.csv --out rows.csv
    """
    files = _check(run_file, files, out_file)
    from hopfed.report.sections import NONE, answers_of
    from hopfed.tables.formats import source_of
    from hopfed.tables.writers import write

    found = found_for(run_file, files, options)
    with err.status("assigning"):
        answers = answers_of(found, files, alpha)
        archetype = answers.archetype
        columns: list[Any] = [("file", np.repeat(answers.files, answers.sizes).tolist())]
        columns = [
            *columns[: len(files) > 1],
            ("id", answers.names),
            ("archetype", [k + 1 if k >= 0 else None for k in archetype.tolist()]),
            ("probability", answers.probability),
        ]
        words = found.coding.entries() if found.coding is not None else frozenset()
        write(out_file, columns, dialect=source_of(files[0], words=words).dialect)
    counts = answers.counts().sum(axis=0)
    if options["as_json"]:
        made = {"rows": len(archetype), "none": int(counts[0]), "archetypes": counts[1:].tolist()}
        print(json.dumps(made))
        return
    grid, total = table("archetype", "rows", "share"), max(int(counts.sum()), 1)
    for k, n in [*enumerate(counts[1 : LISTED + 1], start=1), (NONE, counts[0])]:
        grid.add_row(str(k), f"{n:,}", f"{n / total:.1%}")
    out.print(grid)
    if len(counts) > LISTED + 1:
        out.print(f"... and {len(counts) - LISTED - 1} archetypes more (--json holds all)")
    out.print(f"wrote {shown(out_file)}")


@click.command("complete")
@RUN
@FILES
@table_options
@out_option("The rows without gaps: .csv or .parquet.", required=True)
@flag("--skipped", "Fill questions, too, that another column says were skipped.")
def complete_command(
    run_file: Path, files: tuple[Path, ...], out_file: Path, skipped: bool, **options: Any
) -> None:
    """Fill the gaps of FILEs with what archetypes make likelier.

    RUN and the FILEs are as for `hopfed assign`. Cells that are there stay as they are; the others
    get the likelier word of their column. A row without any entry stays blank, and so do numbers
    that were cut, a column that had no entry in the rows that RUN comes from, and questions that
    were skipped: columns that are blank in all rows in which another column holds a certain value.

    Example: hopfed complete run.h5 survey.csv --out filled.csv
    """
    from hopfed.archetypes.completion import Filling
    from hopfed.tables.writers import STREAMED

    files = _check(run_file, files, out_file, STREAMED)
    from hopfed.tables.remarks import skipped as lines_of
    from hopfed.tables.table import check_columns, listed

    found = found_for(run_file, files, options)
    with err.status("filling gaps"):
        fillings = [Filling(found, path, skipped=skipped) for path in files]
        first = list(fillings[0].types)
        for path, filling in zip(files, fillings, strict=True):
            check_columns(list(filling.types), first, str(path), str(files[0]))
        cells, filled, right, blank, left = _write_filled(fillings, files, out_file)
    out.print(f"filled {filled:,} of {cells:,} cells")
    if filled and found.signs_only:
        out.print(f"how many are right is not known: {shown(run_file)} holds signs, and no rates")
    elif filled:
        out.print(f"of these {right / filled:.1%} are expected to be right")
    if blank:
        rows = "row without any entry stays" if blank == 1 else "rows without any entry stay"
        out.print(f"{blank:,} {rows} blank")
    if left:
        out.print(f"{left:,} cells stay blank, as skipped questions (--skipped fills them):")
    told = [lines_of(filling.skips, filling.coding) for filling in fillings] if left else []
    for line in dict.fromkeys(line for lines in told for line in lines):
        out.print(f"- {line}")
    whys = {
        "unknown": f"no row that {shown(run_file)} comes from has an entry there",
        "cut": "numbers were cut there, and none is known",
    }
    for kind, why in whys.items():
        if names := dict.fromkeys(name for each in fillings for name in getattr(each, kind)):
            out.print(f"gaps in {listed([*names])} stay blank: {why}")
    out.print(f"wrote {shown(out_file)}")


@click.command("export")
@RUN
@_out("The archetypes, or the rounds")
@file_option("--like", LIKE, metavar="FILE")
def export_command(run_file: Path, out_file: Path, like: Path | None) -> None:
    """Write the archetypes of RUN as a table for other programs.

    It holds shares, and means by the names of columns. .csv and .parquet have a row for each
    archetype, .json all that is known, with what +1 stands for, .h5 is a run file. Means are in
    [-1, 1]: the rate of +1 is (1 + mean) / 2. Where only signs are known they are written instead;
    a column without any entry, of which nothing is known, is blank.
    In a .csv, names that a spreadsheet would take for formulas (= + - @) are led by an apostrophe.
    Of a federation of networks a row is a seed, round and client, with accuracies, bytes and FLOPs.

    Example: hopfed export run.h5 --out archetypes.csv
    """
    _check(run_file, () if like is None else (like,), out_file)
    from hopfed.archetypes.storage import loaded, only_signs, write
    from hopfed.runs import blaming
    from hopfed.tables import writers
    from hopfed.tables.formats import source_of

    run, said = Run.load(run_file), ""
    dialect = writers.PLAIN if like is None else source_of(like).dialect
    if run.kind == "fl" and not run.complete:
        from hopfed.experiments.ledger import so_far

        run = so_far(run)
    if np.ndim(run.arrays.get("test", 0)) == 3:
        from hopfed.experiments.shared.long_table import columns

        with blaming(run_file, run.kind):
            rounds = list(columns(run).items())
        writers.write(out_file, rounds, dialect=dialect)
    else:
        if not run.complete:
            Run.load(run_file, complete=True)  # which says how it is finished
        found = loaded(run, run_file)
        write(found, out_file, dialect=dialect)
        means = "means in [-1, 1], the rate of +1 is (1 + mean) / 2"
        said = f": {'signs' if only_signs(found) else means}{_pluses(found)}"
        order = str(run.config.get("order", "")).partition(" ")[0]  # of columns without names
        if found.columns is None and order in ORDERS:
            said += f"; column 1 and so on follow {ORDERS[order]}"
    out.print(f"wrote {shown(out_file)}{said}")


def _check(
    run_file: Path, files: tuple[Path, ...], out_file: Path, endings: tuple[str, ...] = ()
) -> tuple[Path, ...]:
    """Refuse an output that cannot be written, or would be an input; return all of the files."""
    from hopfed.tables.files import files_of
    from hopfed.tables.writers import ENDINGS, check_ending

    every = tuple(file for given in files for file in files_of(given))
    endings = check_ending("--out", out_file, endings or ENDINGS)
    check_outputs(("--out", out_file, endings), inputs=(run_file, *every))
    return every


def _pluses(found: Any) -> str:
    """What +1 stands for in the columns of a table, where the names do not say it."""
    from hopfed.archetypes.assignment import unknown_columns

    if found.coding is None:
        return ""
    void = {found.coding.columns[j] for j in unknown_columns(found).nonzero()[0]}
    pairs = zip(found.coding.names, found.coding.codes, strict=True)
    codes = {name: "" if name in void else code.plus for name, code in pairs}
    parts = [f"{shown(plus)} in {names}" for plus, names in by_code(codes) if plus]
    more = ["others in other columns"] * (len(parts) > MEANT)
    return f"; +1 is {', '.join(parts[:MEANT] + more)}" if parts else ""


def _write_filled(fillings: list[Any], files: tuple[Path, ...], out_file: Path) -> list[Any]:
    """Write completed tables one below the other; return cells, filled, right, blank and left."""
    import pyarrow as pa

    from hopfed.archetypes.completion import of_kind
    from hopfed.tables.writers import text_cell, writing

    totals: list[Any] = []  # of each block
    with writing(out_file, replace(fillings[0].dialect, verbatim=True)) as add:
        types = dict(fillings[0].types)  # in Arrow, in the first table's order
        for name, kind in (pair for filling in fillings[1:] for pair in filling.types.items()):
            types[name] = kind if types[name] == kind else pa.string()
        for path, filling in zip(files, fillings, strict=True):
            for part in filling.blocks():
                totals.append((part.cells, part.filled, part.right, part.blank, part.left))
                arrays = dict(part.columns)
                columns: list[Any] = [(name, of_kind(arrays[name], k)) for name, k in types.items()]
                if len(files) > 1:
                    columns.insert(0, ("file", pa.array([text_cell(str(path))] * len(part.gaps))))
                add(columns)
    return [sum(column) for column in zip(*totals, strict=True)]


# Archetypes from the files of `hopfed recover`, `serve` and `join`, to be applied to tables


def found_for(path: Path, files: Sequence[Path], options: dict[str, Any]) -> Archetypes:
    """Return the archetypes in a run file, which know how the cells of some tables are read."""
    from hopfed.archetypes.assignment import coded_as
    from hopfed.archetypes.storage import loaded
    from hopfed.tables.options import Choices
    from hopfed.tables.reading import with_words

    run = Run.load(path, complete=True)
    found, given = loaded(run, path), choices_of(options)
    if found.coding is not None:
        coding = with_words(found.coding, given)
        if coding is not None:
            found = replace(found, coding=coding)
        elif given != Choices():
            held = {name: options[name] for name in NAMES if options[name] not in (None, ())}
            rule = "left out, but for what further words stand for: RUN says how columns are read"
            got = (repr(v) if isinstance(v, str) else ", ".join(v) for v in held.values())
            raise ArgumentError(", ".join(f"--{name}" for name in held), rule, "; ".join(got))
    elif len(found):
        found = coded_as(found, read(files, options, least=1)[0], str(files[0]))
    if found.status == "poor fit":
        err.print(f"{shown(path)} is a poor fit: {shown(found.advice)}", soft_wrap=True)
    if len(found) > 1 and not np.isfinite(found.shares).any():
        lacks = "does not say how many rows each archetype has: all are taken for equally likely"
        err.print(f"{shown(path)} {lacks}", soft_wrap=True)
    return found
