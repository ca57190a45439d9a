"""`hopfed relate`: what archetypes have to do with other columns of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hopfed.cli.options import FILES, RUN, figure_option, json_option, option
from hopfed.cli.outputs import FIGURE, check_outputs, out_option
from hopfed.cli.printing import err, out, say_wrote, shown, table
from hopfed.cli.tables.answers import found_for
from hopfed.cli.tables.reading import columns_beside, numbers_in, table_options
from hopfed.errors import ArgumentError
from hopfed.runs import plain

COVARIATE = "In place of an outcome: what rows are of one archetype or another by; may be repeated."


@click.command("relate")
@RUN
@FILES
@table_options
@option("--column", "Outcome: means of its numbers, or rates of its words.")
@option("--covariate covariates", COVARIATE, multiple=True, metavar="COLUMN")
@option("--weights", "Numbers: how often a row counts.", metavar="COLUMN")
@out_option("The table, as .csv.")
@figure_option
@json_option
def relate_command(run_file: Path, files: tuple[Path, ...], **options: Any) -> None:
    """Say what archetypes of RUN have to do with a column of FILEs.

    RUN and the FILEs are as for `hopfed assign`; the FILEs are those that RUN comes from. Means,
    rates or log odds of each archetype are told with standard errors, which count that rows are not
    sure of their archetype, and Wald's test that archetypes are alike.

    Example: hopfed relate run.h5 people.csv --column age
    """
    out_file, figure = options["out_file"], options["figure"]
    if (options["column"] is None) == (not options["covariates"]):
        got = "neither" if options["column"] is None else "both"
        raise ArgumentError("--column", "given, or --covariate", got)
    outputs = ("--out", out_file, (".csv",)), ("--figure", figure, FIGURE)
    check_outputs(*outputs, inputs=(run_file, *files))
    from hopfed.archetypes.assignment import table_of
    from hopfed.archetypes.relate import of_cells, related
    from hopfed.kernels import concatenate

    found = found_for(run_file, files, options)
    wanted = [*options["covariates"], options["column"], options["weights"]]
    own = set() if found.coding is None else set(found.coding.names)
    if known := sorted(own.intersection(name for name in wanted if name)):
        rule = "no column that the archetypes come from: `hopfed export` writes their means there"
        raise ArgumentError("--column", rule, known[0])
    with err.status("relating"):
        entries = found.coding.entries() if found.coding is not None else frozenset()
        parts = [columns_beside(path, [n for n in wanted if n], entries) for path in files]
        beside = {
            name: of_cells(name, [c for part in parts for c in part[name]]) for name in parts[0]
        }
        weights = numbers_in(beside[options["weights"]]) if options["weights"] else None
        rows = concatenate([table_of(found, path).held for path in files])
        is_outcome = options["column"] is not None
        wanted = [options["column"]] if is_outcome else list(dict.fromkeys(options["covariates"]))
        answer = related(found, [rows], [[beside[n] for n in wanted]], is_outcome, [weights])
    if figure:
        answer.plot(figure)
    if out_file:
        answer.to_csv(out_file)
    if options["as_json"]:
        tests = {name: list(test) for name, test in answer.tests.items()}
        made = {"table": answer.table(), "tests": tests, "rows": answer.rows}
        print(json.dumps(plain(made | {"left_out": answer.left_out})))
        return
    print_relation(answer)
    say_wrote(out_file, figure)


def print_relation(answer: Any) -> None:
    """Print what archetypes have to do with something; or the sentence why that is not known."""
    if isinstance(answer, str):
        out.print(f"relate: {shown(answer)}")
        return
    columns = answer.table()
    grid = table(*columns)
    for row in zip(*columns.values(), strict=True):
        grid.add_row(*(f"{x:.4g}" if isinstance(x, float) else shown(x) for x in row))
    out.print(grid)
    for line in answer.sentences():
        out.print(line)
