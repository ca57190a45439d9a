"""`hopfed store`: an associative memory of the patterns in a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed.cli.memories.named import Named, check_complete
from hopfed.cli.memories.named import read as read_named
from hopfed.cli.printing import human_bytes, out
from hopfed.cli.tables.reading import choices_of, read, table_options
from hopfed.errors import ArgumentError, DataError

SETTINGS = (
    "layers, repulsion, coupling, t and g of layered; t of dreamed; n of dense; beta of exponential"
)


@click.command("store")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "out_file",
    required=True,
    type=click.Path(path_type=Path),
    help="A new .h5 file.",
)
@click.option(
    "--rule",
    default="",
    help="hebb, projector, dreamed, layered, dense or exponential.  [default: projector; "
    "exponential for graded patterns]",
)
@click.option(
    "--set", "settings", multiple=True, help=f"A setting of the rule, as n=4: {SETTINGS}."
)
@click.option(
    "--operator", is_flag=True, help="Rows are examples: store what their second moments show."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@table_options
def store_command(
    file: Path,
    out_file: Path,
    rule: str,
    settings: tuple[str, ...],
    operator: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Store the patterns of FILE in an associative memory.

    Rows are patterns of +-1, 0/1, or means in [-1, 1], graded patterns; or of words, in a table as
    `hopfed recover` reads it. Names of rows and columns are stored with them. Or a run file of
    `hopfed recover`, whose archetypes are stored; or, with --operator, a table of examples.

    Example: hopfed store patterns.npy --out memory.h5 --rule dense --set n=4
    """
    from hopfed._lib.outputs import RUN, check_outputs
    from hopfed.memory.storage import as_run

    check_outputs(("--out", out_file, RUN), inputs=[file])
    chosen = _rule(rule, settings)
    choices_of(options)
    named, memory = _stored(file, chosen, options, operator)
    run = as_run(memory, str(file))
    coding = {} if named.coding is None else {"coding": named.coding.to_json()}
    run = replace(run, arrays=run.arrays | named.arrays(), config=run.config | coding)
    run.save(out_file)
    size = out_file.stat().st_size
    if as_json:
        print(json.dumps({**run.summary, "settings": run.config["settings"], "bytes": size}))
        return
    what = f"{len(memory):,} {'graded ' if memory.is_graded else ''}patterns"
    if memory.factor is not None:
        what = f"an operator of {memory.factor.shape[1]} components"
    out.print(f"stored {what} of {memory.n_sites:,} sites by {memory.rule!r}", markup=False)
    out.print(f"wrote {out_file} ({human_bytes(size)})", markup=False)


def _rule(name: str, settings: tuple[str, ...]) -> Any:
    """Rule with its settings; empty to choose by the patterns."""
    from hopfed._lib.settings import with_settings
    from hopfed.memory.rules import rule_named

    if not name:
        if settings:
            raise ArgumentError("--set", "given together with --rule", settings[0])
        return ""
    rule = rule_named(name)
    if settings and not vars(rule):
        raise ArgumentError("--set", f"left out: {name} has no settings", settings[0])
    return with_settings(rule, settings)


def _stored(file: Path, rule: Any, options: dict[str, Any], operator: bool) -> tuple[Named, Any]:
    """What the rows and columns are called, and the memory."""
    from hopfed.memory.associative import AssociativeMemory
    from hopfed.memory.cues import is_graded

    if operator:
        from hopfed.spectral.operators import FactorOperator
        from hopfed.tables.examples import as_examples
        from hopfed.tables.table import is_made_up

        [table] = read([file], options)
        examples = FactorOperator.from_examples(as_examples(table.rows, name=str(file)))
        columns = None if is_made_up(table.columns) else table.columns
        named = Named(np.zeros((0, 0)), columns, None, table.coding)
        return named, AssociativeMemory.store(examples, rule or "projector")
    named = read_patterns(file, options)
    graded = is_graded(named.values)
    return named, AssociativeMemory.store(named.values, rule or ("" if graded else "projector"))


def read_patterns(file: Path, options: dict[str, Any]) -> Named:
    """Patterns of a table, or the archetypes of a run file of `hopfed recover`."""
    from hopfed.memory.cues import as_patterns

    named = _archetypes(file) or read_named(file, options)
    check_complete(named, file)
    table = named.values
    if table.ndim < 2:
        raise DataError(f"{file}: patterns must be rows of a table, got {table.ndim} axes")
    if not table.size:
        raise DataError(f"{file}: holds no patterns, its shape is {table.shape}")
    table = table.reshape(len(table), -1)
    try:
        return replace(named, values=as_patterns(table))
    except ArgumentError as error:
        raise DataError(f"{file}: {error}") from error


def _archetypes(file: Path) -> Named | None:
    """Archetypes of a run file; None for any other file."""
    if file.suffix.lower() not in (".h5", ".hdf5") or not file.is_file():
        return None
    from hopfed._lib.outputs import is_run
    from hopfed.archetypes.storage import has_archetypes, part_of
    from hopfed.runs import Run

    if not is_run(file):
        return None  # the reader of tables says what is wrong, if anything is
    run = Run.load(file)
    if run.kind == "serve" and has_archetypes(run):
        run = part_of(run)
    if "archetypes/patterns" not in run.arrays:
        raise DataError(f"{file}: a run of {run.kind!r}, which holds no archetypes")
    found = run.arrays["archetypes/patterns"]
    if found.ndim != 2 or not len(found) or found.dtype.kind == "S":
        raise DataError(f"{file}: the recovery found no archetypes")
    return replace(Named.of_run(run, file, *found.shape), values=found)
