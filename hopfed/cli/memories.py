"""`hopfed store` and `hopfed recall`: an associative memory of the patterns in a file, and cues."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from hopfed._lib.outputs import RUN, is_run, replacing
from hopfed._lib.settings import parse_real, require, with_settings
from hopfed.cli import inputs
from hopfed.cli import options as kinds
from hopfed.cli.options import command, flag, json_option, option, out_option
from hopfed.cli.printing import finish_command, human_bytes, out, print_json, print_table
from hopfed.errors import ArgumentError, DataError, RunFileError
from hopfed.runs import Run, blame_file

ARRAYS = (".npy", ".npz", ".h5", ".hdf5")  # formats of numbers without names
RULE = (
    "hebb, projector, dreamed, layered, dense or exponential.  [default: projector, in Python "
    "hebb; exponential for graded patterns]"
)
SETTINGS = (
    "A setting of the rule, as n=4: layers, repulsion, coupling and t of layered; t of dreamed; "
    "n of dense; beta of exponential."
)
ROWS = 40  # rows of the printed table; --json and --out hold all
SHOWN = 6  # cues in the figure
STEPS = 3  # pictures between a cue and its recalled pattern


def _cooling(text: str) -> tuple[float, float]:
    """First and last temperature, from one number, or from two with a colon."""
    first, colon, last = text.partition(":")
    rule = "a number at least 0, or FROM:TO, falling"
    high, low = (parse_real("", part, rule) for part in (first, last if colon else first))
    require(math.inf > high >= low >= 0, "", rule, text)
    return high, low


@dataclass(frozen=True)
class Named:
    """Rows of numbers (M, ...), NaN where one is missing, and names of rows and columns.

    `coding` says how words became +-1; None where the cells are numbers as they stand.
    """

    values: np.ndarray
    columns: tuple[str, ...] | None = None  # None without given names
    ids: tuple[str, ...] | None = None
    coding: Any = None

    def kept(self, run: Run) -> Run:
        """A run with the names in its arrays."""
        from hopfed.archetypes.run_file import COLUMNS, ROWS, packed_names

        names = {COLUMNS: self.columns, ROWS: self.ids}
        packed = {name: packed_names(held) for name, held in names.items() if held is not None}
        return replace(run, arrays=run.arrays | packed)


def _names_in(run: Run, path: Path, memory: Any) -> Named:
    """Names that the run file of a memory holds, without any rows."""
    from hopfed.archetypes.run_file import ROWS, unpacked_names
    from hopfed.tables.coding import Coding

    try:
        with blame_file(path, run.kind):
            columns, ids = unpacked_names(run), unpacked_names(run, ROWS)
            coding = run.config.get("coding")
            coding = None if coding is None else Coding.from_json(coding)
    except (ArgumentError, DataError) as error:
        raise RunFileError(f"{path}: {error}") from None
    due = ((columns, memory.n_sites), (coding, memory.n_sites), (ids, len(memory)))
    if any(held is not None and len(held) != size for held, size in due):
        raise RunFileError(f"{path}: names of other columns or patterns than it holds")
    return Named(np.zeros((0, 0)), columns, ids, coding)


def _given_names(columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names of columns, None without given names."""
    from hopfed.tables.table import is_made_up

    return None if is_made_up(columns) else columns


def _named(file: Path, options: dict[str, Any], coding: Any = None, least: int = 2) -> Named:
    """Read a file of numbers as they stand, or a table as `hopfed recover` reads it.

    A table holds numbers where all its cells are numbers in [-1, 1] and no option codes it.
    With `coding`, its columns are found by name; a table of words has `least` rows or more.
    """
    from hopfed import kernels
    from hopfed.tables.choosing import Choices
    from hopfed.tables.formats import read_numbers, source_of
    from hopfed.tables.reading import read_tables
    from hopfed.tables.table import is_made_up

    choices = inputs.choices_of(options)
    if file.suffix.lower() in ARRAYS and choices == Choices():
        return Named(read_numbers(file))
    if choices == Choices() and (coding is None or is_made_up(coding.names)):
        source = source_of(file)
        with suppress(DataError):  # a table of words
            values = read_numbers(source)
            if not (np.abs(values) > 1).any():
                return Named(values, _given_names(source.names))
    [table] = read_tables([file], choices=choices, coding=coding, least=least)
    values = kernels.unpack(table.held).astype(np.float64)
    values[values == 0] = np.nan
    ids = None if table.ids is None else tuple(table.ids.tolist())
    return Named(values, _given_names(table.columns), ids, table.coding)


@command("store")
@click.argument("file", type=kinds.PATH)
@out_option("The .h5 file to write.", RUN, required=True)
@click.option("--rule", default="", help=RULE)
@option("--set settings", SETTINGS, multiple=True)
@flag("--operator", "Rows are examples: store their second moments.")
@json_option
@inputs.table_options
def store_command(file: Path, out_file: Path, rule: str, **options: Any) -> None:
    """Store the patterns of FILE in an associative memory.

    Rows are patterns of +-1 or 0/1, graded patterns with means in [-1, 1], or words, in a table as
    `hopfed recover` reads it. Names of rows and columns are stored, too. FILE may also be a run
    file of `hopfed recover`, for its archetypes, or, with --operator, a table of examples.

    Example: hopfed store patterns.npy --out memory.h5 --rule dense --set n=4
    """
    from hopfed.memory.associative import AssociativeMemory
    from hopfed.memory.cues import is_graded
    from hopfed.memory.rules import rule_named
    from hopfed.memory.run_file import memory_to_run

    settings, chosen = options["settings"], None  # the patterns decide without a name
    said = ", ".join(settings)
    require(bool(rule) or not settings, "--set", "given together with --rule", said)
    if rule:
        chosen = with_settings(rule_named(rule), settings)
    if options["operator"]:
        from hopfed.kernels.examples import as_examples
        from hopfed.spectral.operators import FactorOperator

        [held] = inputs.read_files([file], options)
        patterns: Any = FactorOperator.from_examples(as_examples(held.rows, name=str(file)))
        names = Named(np.zeros((0, 0)), _given_names(held.columns), None, held.coding)
    else:
        names = _archetypes(file) or _named(file, options)
        patterns = _patterns(names, file)
    default = "projector" if options["operator"] or not is_graded(patterns) else ""
    memory = AssociativeMemory.store(patterns, chosen or default)
    run = names.kept(memory_to_run(memory, str(file)))
    coding = {} if names.coding is None else {"coding": names.coding.to_json()}
    replace(run, config=run.config | coding).save(out_file)
    size = out_file.stat().st_size
    if options["as_json"]:
        more = {"settings": run.config["settings"], "bytes": size, "advice": memory.advice}
        return print_json(run.summary | more)
    content = f"{len(memory):,} {'graded ' if memory.is_graded else ''}patterns"
    if memory.factor is not None:
        content = f"an operator of {memory.factor.shape[1]} components"
    stored = f"stored {content} of {memory.n_sites:,} sites by {memory.rule!r}"
    out.note(stored, f"wrote {out_file} ({human_bytes(size)})", *memory.advice)


def _flatten_rows(rows: np.ndarray) -> np.ndarray:
    """Rows as numbers (M, N), from rows that may be pictures."""
    return rows.reshape(len(rows), -1) if rows.ndim > 2 and rows.size else rows


def _patterns(names: Named, file: Path) -> np.ndarray:
    """Patterns of a table; DataError for one with a gap."""
    from hopfed.memory.cues import as_patterns

    if names.coding is not None and np.isnan(names.values).any():
        row, column = np.argwhere(np.isnan(names.values))[0].tolist()
        which = column + 1 if names.columns is None else f"'{names.columns[column]}'"
        raise DataError(f"{file}: row {row + 1}, column {which} is missing: patterns are complete")
    try:
        return as_patterns(_flatten_rows(names.values))
    except ArgumentError as error:
        raise DataError(f"{file}: {error}") from error


def _archetypes(file: Path) -> Named | None:
    """Archetypes of a run file; None for any other file."""
    from hopfed.archetypes.run_file import read_run

    if file.suffix.lower() not in RUN or not file.is_file() or not is_run(file):
        return None
    found = read_run(Run.load(file), file)
    if not len(found):
        raise DataError(f"{file}: the recovery found no archetypes")
    return Named(found.patterns, found.columns, None, found.coding)


@command("recall")
@click.argument("memory", type=kinds.PATH)
@click.argument("cues", type=kinds.PATH)
@out_option("States to .npy or .csv; everything to .h5.", (".npy", ".csv", ".h5"))
@option("--updates", "Largest number of updates.", kinds.whole_number(1), 100)
@option(
    "--temperature",
    "A number, or FROM:TO to cool.",
    kinds.ParsedText("number|from:to", _cooling),
    "0",
)
@option("--order", "One spin at a time, or all at once.", ("serial", "synchronous"), "serial")
@flag("--free", "Let observed sites of cues with gaps turn, too.")
@option("--seed", "Seed of the noise.", kinds.SEED, 0)
@option("--figure", "Draw cue, steps and result.", kinds.OutputFile(kinds.FIGURE))
@kinds.shape_option
@flag("--json as_json", "Print as JSON; nearest counts from 0.")
def recall_command(memory: Path, cues: Path, **options: Any) -> None:
    """Recall patterns from the rows of CUES, with a stored MEMORY.

    MEMORY is a file of `hopfed store`. Values of CUES are +-1 or 0/1; NaN is a gap, and 0 is one in
    a file with a cell of -1, or with no other value. CUES may also be a table in the words of the
    stored one, with its columns in any order; blank cells are gaps.

    Example: hopfed recall memory.h5 cues.npy --out recalled.npy
    """
    from hopfed.memory.run_file import memory_from_run

    held = Run.load(memory)
    stored = memory_from_run(held, memory)
    names = _names_in(held, memory, stored)
    given = _named(cues, inputs.NOTHING, names.coding, least=1)
    config = {"memory": str(memory), "cues": str(cues), "rule": repr(stored.rule)}
    config |= {name: str(value) for name, value in options.items()}
    run = _recalled(stored, _cues(given, names.columns, cues, stored.n_sites), options, config)
    run = replace(names, ids=given.ids).kept(run)
    both = {"ids": given.ids, "patterns": names.ids}
    run.summary.update({name: list(ids) for name, ids in both.items() if ids is not None})
    if options["out_file"] is not None:
        _write(run, options["out_file"], names.columns, given.ids)

    def drawn() -> Any:
        from hopfed.figures.recall import draw

        return draw(run, shape=options["shape"])

    finish_command(options, run.summary, partial(_print, run), drawn)


def _cues(found: Named, columns: tuple[str, ...] | None, file: Path, n_sites: int) -> np.ndarray:
    """Cues (S, N) of +1, -1, and 0 in gaps, with columns in the order of the memory."""
    from hopfed.memory.cues import as_cues
    from hopfed.tables.table import check_columns

    cues = found.values
    if found.columns is not None and columns is not None:
        check_columns(found.columns, columns, str(file), "the memory")
        place = {name: j for j, name in enumerate(found.columns)}
        cues = cues[:, [place[name] for name in columns]]
    if not cues.size:
        raise DataError(f"{file}: holds no cues, its shape is {cues.shape}")
    try:
        return as_cues(_flatten_rows(cues), None, n_sites)[0]
    except ArgumentError as error:
        raise DataError(f"{file}: {error}") from None


def _recalled(memory: Any, cues: np.ndarray, options: dict[str, Any], config: Any) -> Run:
    """Recall from cues; return the run, with intermediate states of the first cues."""
    (high, low), updates = options["temperature"], options["updates"]
    # The temperature falls over nine tenths of the updates, then stays.
    T = high + (low - high) * np.minimum(np.arange(updates) / max(1.0, 0.9 * updates), 1)
    how = {"order": options["order"], "seed": options["seed"], "hold": not options["free"]}

    def states_of(asked: np.ndarray, made: int) -> Any:  # cues of +1 and gaps, not bits
        heat = {"updates": made, "temperature": T[:made] if high > low else high}
        return memory.recall(asked, observed=asked != 0, **how, **heat)

    found = states_of(cues, updates)
    last = int(found.updates[:SHOWN].max(initial=1))
    marks = np.unique(np.geomspace(1, max(last, 1), STEPS + 1).round().astype(int))[:-1]
    steps = [states_of(cues[:SHOWN], int(mark)).states for mark in marks]
    best, nearest = np.zeros(found.states.shape[:-1]), np.full(found.states.shape[:-1], -1)
    if len(memory):
        nearest = np.abs(found.overlaps).argmax(axis=-1)
        best = np.take_along_axis(found.overlaps, nearest[..., None], axis=-1)[..., 0]
    names = ("states", "overlaps", "energy", "updates", "converged")
    arrays = {"cues": cues, "steps/updates": marks} | {n: getattr(found, n) for n in names}
    arrays["steps/states"] = np.reshape(steps, (-1, *found.states[:SHOWN].shape))
    summary = {"cues": len(cues), "converged": int(found.converged.sum())}
    measured = {"nearest": nearest, "overlap": best, "energy": found.energy}
    measured |= {"updates": found.updates}
    return Run("recall", config, arrays, summary | {n: a.tolist() for n, a in measured.items()})


def _write(run: Run, path: Path, names: Any, ids: Any) -> None:
    """Write states, with names of columns and cues where there are some; or everything."""
    from hopfed.tables.table import made_up_names
    from hopfed.tables.writers import write

    states, ending = run.arrays["states"], path.suffix.lower()
    flat = states.reshape(-1, states.shape[-1])
    if ending == ".h5":
        run.save(path)
    elif ending == ".csv" and (names or ids):
        columns: list[Any] = [*zip(names or made_up_names(flat.shape[1]), flat.T, strict=True)]
        if ids is not None:  # with the layers of a cue one below the other
            columns.insert(0, ("id", np.repeat(ids, len(flat) // max(len(ids), 1)).tolist()))
        write(path, columns)
    else:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            if ending == ".npy":
                np.save(file, states)
            else:
                form = "%d" if flat.dtype.kind == "i" else "%g"
                np.savetxt(file, flat, fmt=form, delimiter=",")


def _print(run: Run) -> None:
    """Print the recalled pattern of every cue; cues and patterns by name where they have one."""
    arrays, nearest = run.arrays, np.array(run.summary["nearest"])
    cues = run.summary.get("ids") or range(1, len(nearest) + 1)
    patterns = run.summary.get("patterns") or range(1, arrays["overlaps"].shape[-1] + 1)
    best, rows = np.array(run.summary["overlap"]), []
    for at in np.ndindex(min(len(nearest), ROWS), *nearest.shape[1:]):
        near = (patterns[nearest[at]], f"{best[at]:.4f}") if len(patterns) else ("-", "-")
        rests = "yes" if arrays["converged"][at[0]] else "no"
        layer = [each + 1 for each in at[1:]]
        rows.append((cues[at[0]], *layer, *near, arrays["updates"][at[0]], rests))
    layers = ["layer"] * (nearest.ndim > 1)
    print_table(("cue", *layers, "nearest", "overlap", "updates", "rests"), rows)
    if len(nearest) > ROWS:
        out.print(f"... and {len(nearest) - ROWS} more (--json or --out holds all)")
    if (best < 0).any():
        out.print("A negative overlap: nearest to the opposite of that pattern, also stored.")
