"""Archetypes beside tables: `hopfed assign`, `complete`, `export` and `relate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.cli import inputs
from hopfed.cli import options as kinds
from hopfed.cli.options import command, flag, json_option, option, out_option
from hopfed.cli.printing import err, escape, finish_command, out, print_json, print_table, say_wrote
from hopfed.errors import ArgumentError
from hopfed.runs import Run, blame_file
from hopfed.tables import writers

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

LISTED = 60  # archetypes in the printed table
ROWS = "Archetype and probability of each row: .csv, .tsv, .json or .parquet."
FOUND = "The archetypes, or the rounds: .csv, .tsv, .json, .parquet or .h5."
ALPHA = "Share of each archetype's own rows that may be assigned to none."
LIKE = "Write a .csv in the form of this text file: delimiter, decimal mark, ends of lines."
COVARIATE = "In place of an outcome: a column that predicts the archetype; may be repeated."


@command("assign")
@kinds.RUN_FILE
@kinds.FILES
@inputs.table_options
@out_option(ROWS, writers.TABLES, required=True)
@option("--alpha", ALPHA, kinds.FINITE, 0.001)
@json_option
def assign_command(
    run_file: Path, files: Sequence[Path], out_file: Path, alpha: float, **options: Any
) -> None:
    """Assign each row of the FILEs to an archetype of RUN.

    RUN is an --out file of `hopfed recover`, `serve` or `join`. A FILE may be a folder, or a
    quoted pattern such as 'parts/*.csv'. The FILEs are read in the way of the files of RUN, their
    columns found by name; a RUN of `serve` does not hold that way: give --id, --ignore, --words and
    --binarize. --words 0=-1,1=+1,9=missing adds words that the files of RUN did not have. OUT has
    the columns id, archetype (by the numbers of `hopfed recover`; empty for rows that fit none, or
    have no entry) and probability, and file where there are several. A .csv has the form of the
    first FILE: delimiter, decimal mark, encoding, ends of lines.

    Example: hopfed assign run.h5 survey.csv --out rows.csv
    """
    from hopfed.report.page import NONE, assign_rows
    from hopfed.tables.formats import source_of

    found = archetypes_for_files(run_file, files, options)
    with err.status("assigning"):
        answers = assign_rows(found, files, alpha)
        columns: list[writers.Column] = [
            ("file", np.repeat(answers.files, answers.sizes).tolist()),
            ("id", answers.names),
            ("archetype", [k + 1 if k >= 0 else None for k in answers.archetype.tolist()]),
            ("probability", answers.probability),
        ]
        dialect = source_of(files[0]).dialect
        writers.write(out_file, columns[len(files) == 1 :], dialect=dialect)
    none, *counts = answers.counts().sum(axis=0).tolist()
    rows = len(answers.archetype)
    if options["as_json"]:
        return print_json({"rows": rows, "none": none, "archetypes": counts})
    lines = [*enumerate(counts[:LISTED], start=1), (NONE, none)]
    shares = ((k, f"{n:,}", f"{n / max(rows, 1):.1%}") for k, n in lines)
    print_table(("archetype", "rows", "share"), shares)
    if len(counts) > LISTED:
        out.print(f"... and {len(counts) - LISTED} archetypes more (--json holds all)")
    say_wrote(out_file)


@command("complete")
@kinds.RUN_FILE
@kinds.FILES
@inputs.table_options
@out_option("The rows without gaps: .csv, .tsv or .parquet.", writers.STREAMED, required=True)
@flag("--skipped", "Fill questions, too, that another column says were skipped.")
def complete_command(
    run_file: Path, files: Sequence[Path], out_file: Path, skipped: bool, **options: Any
) -> None:
    """Fill the gaps of FILEs with the likelier word under archetypes.

    RUN and the FILEs are as for `hopfed assign`. Cells that are there stay as they are; the others
    get the likelier word of their column. A row without any entry stays blank, and so do numbers
    that were cut, a column that had no entry in the rows that RUN comes from, and questions that
    were skipped: columns that are blank in all rows in which another column holds a certain value.

    Example: hopfed complete run.h5 survey.csv --out filled.csv
    """
    from hopfed.archetypes.table_filling import Filling
    from hopfed.tables.reading import describe_skips
    from hopfed.tables.table import check_columns, list_names

    found = archetypes_for_files(run_file, files, options)
    with err.status("filling gaps"):
        fillings = [Filling(found, path, skipped=skipped) for path in files]
        for path, filling in zip(files, fillings, strict=True):
            check_columns(list(filling.types), list(fillings[0].types), str(path), str(files[0]))
        cells, filled, right, blank, left = _write_filled(fillings, files, out_file)
    out.print(f"filled {filled:,} of {cells:,} cells")
    if filled and found.signs_only:
        out.print(f"how many are right is unknown: {escape(run_file)} holds signs, and no rates")
    elif filled:
        out.print(f"of these {right / filled:.1%} are expected to be right")
    if blank:
        out.print(f"{blank:,} row(s) without any entry stay blank")
    if left:
        out.print(f"{left:,} cells stay blank, as skipped questions (--skipped fills them):")
        lines = (line for each in fillings for line in describe_skips(each.skips, each.coding))
        out.note(*(f"- {line}" for line in dict.fromkeys(lines)))
    whys = {
        "unknown": f"no row that {escape(run_file)} comes from has an entry there",
        "cut": "numbers were cut there, and none is known",
    }
    for kind, why in whys.items():
        if names := dict.fromkeys(name for each in fillings for name in getattr(each, kind)):
            out.print(f"gaps in {list_names([*names])} stay blank: {why}")
    say_wrote(out_file)


def _write_filled(fillings: list[Any], files: Sequence[Path], out_file: Path) -> list[Any]:
    """Write completed tables one below the other; return cells, filled, right, blank and left."""
    import pyarrow as pa

    from hopfed.archetypes.table_filling import of_kind

    totals: list[Any] = []  # counts of each block
    types = dict(fillings[0].types)  # types in Arrow, in the first table's order
    for name, kind in (pair for filling in fillings[1:] for pair in filling.types.items()):
        types[name] = kind if types[name] == kind else pa.string()
    with writers.open_writer(out_file, replace(fillings[0].dialect, verbatim=True)) as add:
        for path, filling in zip(files, fillings, strict=True):
            for part in filling.blocks():
                totals.append((part.cells, part.filled, part.right, part.blank, part.left))
                arrays = dict(part.columns)
                columns: list[Any] = [(name, of_kind(arrays[name], k)) for name, k in types.items()]
                if len(files) > 1:
                    label = writers.text_cell(str(path))
                    columns.insert(0, ("file", pa.array([label] * len(part.gaps))))
                add(columns)
    return [sum(column) for column in zip(*totals, strict=True)]


@command("export")
@kinds.RUN_FILE
@out_option(FOUND, writers.ENDINGS, required=True)
@option("--like", LIKE, kinds.PATH, metavar="FILE")
def export_command(run_file: Path, out_file: Path, like: Path | None) -> None:
    """Write the archetypes of RUN as a table for other programs.

    It holds shares, and means by the names of columns. .csv and .parquet have a row for each
    archetype, .json has everything, with the meaning of +1, .h5 is a run file. Means are in
    [-1, 1]: the rate of +1 is (1 + mean) / 2. Where only signs are known, they are written instead;
    a column without any entry is blank.
    In a .csv, names that a spreadsheet would take for formulas (= + - @) are led by an apostrophe.
    For a federation of networks a row has a seed, round and client, accuracies, bytes and FLOPs.

    Example: hopfed export run.h5 --out archetypes.csv
    """
    from hopfed.archetypes.run_file import only_signs, read_run, write
    from hopfed.report.tables import load_complete
    from hopfed.tables.formats import source_of

    run, said = load_complete(run_file, begun=True), ""
    dialect = writers.PLAIN if like is None else source_of(like).dialect
    if np.ndim(run.arrays.get("test", 0)) == 3:
        from hopfed.experiments.shared.long_table import columns

        with blame_file(run_file, run.kind):
            rounds = list(columns(run).items())
        writers.write(out_file, rounds, dialect=dialect)
    else:
        found = read_run(run, run_file)
        write(found, out_file, dialect=dialect)
        means = "means in [-1, 1], the rate of +1 is (1 + mean) / 2"
        said = ": signs" if only_signs(found) else f": {means}"
    out.print(f"wrote {escape(out_file)}{said}")


@command("relate")
@kinds.RUN_FILE
@kinds.FILES
@inputs.table_options
@option("--column", "Outcome: means of its numbers, or rates of its words.")
@option("--covariate covariates", COVARIATE, multiple=True, metavar="COLUMN")
@option("--weights", "Column of numbers, the weights of the rows.", metavar="COLUMN")
@out_option("The table.", writers.TABLES)
@kinds.figure_option
@json_option
def relate_command(
    run_file: Path, files: Sequence[Path], column: str | None, **options: Any
) -> None:
    """Relate the archetypes of RUN to a column of FILEs.

    RUN and the FILEs are as for `hopfed assign`; RUN comes from these FILEs. The table has means,
    rates or log odds of each archetype with standard errors, which include the uncertainty of
    assignments, and Wald's test that archetypes are alike.

    Example: hopfed relate run.h5 people.csv --column age
    """
    from hopfed.archetypes.assignment import table_of
    from hopfed.archetypes.relate import relate_columns
    from hopfed.kernels import concatenate

    covariates, weights = options["covariates"], options["weights"]
    if (column is None) == (not covariates):
        got = "both" if covariates else "neither"
        raise ArgumentError("--column", "given, or --covariate", got)
    wanted = list(dict.fromkeys(covariates)) if column is None else [column]
    named = [*wanted, *filter(None, [weights])]
    found = archetypes_for_files(run_file, files, options, *named)
    own = set() if found.coding is None else set(found.coding.names)
    if known := sorted(own.intersection(named)):
        rule = "no column that the archetypes come from: `hopfed export` writes their means there"
        raise ArgumentError("--column", rule, known[0])
    with err.status("relating"):
        beside = inputs.columns_beside(files, named)
        often = None if weights is None else inputs.numbers_in(beside[weights])
        rows = concatenate([table_of(found, path).held for path in files])
        chosen = [beside[name] for name in wanted]
        answer = relate_columns(found, rows, chosen, column is not None, often)
    if options["out_file"] is not None:
        writers.write(options["out_file"], answer.columns)
    made = {"table": dict(answer.columns), "tests": answer.tests, "rows": answer.rows}
    made["left_out"] = answer.left_out
    finish_command(options, made, partial(print_relation, answer), answer.plot)


def print_relation(answer: Any) -> None:
    """Print the answer of `hopfed relate`, archetypes and other columns, or why it is unknown."""
    if isinstance(answer, str):
        out.print(f"relate: {escape(answer)}")
        return
    columns = dict(answer.columns)
    rows = zip(*columns.values(), strict=True)
    cells = ([f"{x:.4g}" if isinstance(x, float) else x for x in row] for row in rows)
    print_table(columns, cells)
    for line in answer.sentences():
        out.print(line)


def archetypes_for_files(
    path: Path, files: Sequence[Path], options: dict[str, Any], *skip: str
) -> Archetypes:
    """For `hopfed assign` and the like: archetypes of a run file, coded as `files` less `skip`."""
    from hopfed.archetypes.assignment import coded_as
    from hopfed.archetypes.run_file import read_run
    from hopfed.tables.choosing import Choices
    from hopfed.tables.reading import with_words

    found, given = read_run(Run.load(path, complete=True), path), inputs.choices_of(options)
    if found.coding is not None:
        coding = with_words(found.coding, given)
        if coding is not None:
            found = replace(found, coding=coding)
        elif given != Choices():
            held = {n: options[n] for n in inputs.NAMES if options[n] not in (None, ())}
            rule = "left out, except for meanings of further words: RUN says how columns are read"
            got = (repr(v) if isinstance(v, str) else ", ".join(v) for v in held.values())
            raise ArgumentError(", ".join(f"--{name}" for name in held), rule, "; ".join(got))
    elif len(found):
        own = options | {"ignore": (*options["ignore"], *skip)}
        found = coded_as(found, inputs.read_files(files, own, least=1)[0], str(files[0]))
    if found.status == "poor fit":
        err.note(f"{escape(path)} is a poor fit: {escape(found.advice)}")
    if len(found) > 1 and not np.isfinite(found.shares).any():
        lacks = "has no shares of archetypes: all are taken for equally likely"
        err.note(f"{escape(path)} {lacks}")
    return found
