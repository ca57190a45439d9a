"""Archetypes from the files of `hopfed recover`, `serve` and `join`, to be applied to tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.cli.printing import err, shown
from hopfed.cli.tables.reading import NAMES, choices_of, read
from hopfed.errors import ArgumentError, DataError, OtherColumnsError, RunFileError
from hopfed.runs import Run

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes


def found_for(path: Path, files: Sequence[Path], options: dict[str, Any]) -> Archetypes:
    """Return the archetypes in a run file, which know how the cells of some tables are read.

    Columns are found by name where names are known; options are those of `table_options`.
    """
    from hopfed.archetypes.storage import loaded
    from hopfed.tables.options import Choices
    from hopfed.tables.packing import with_words

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
        found = _coded(found, run, path, files, options)
    if found.status == "poor fit":
        err.print(f"{shown(path)} is a poor fit: {shown(found.advice)}", soft_wrap=True)
    if len(found) > 1 and not np.isfinite(found.shares).any():
        lacks = "does not say how many rows each archetype has: all are taken for equally likely"
        err.print(f"{shown(path)} {lacks}", soft_wrap=True)
    return found


def _coded(
    found: Archetypes, run: Run, path: Path, files: Sequence[Path], options: dict[str, Any]
) -> Archetypes:
    """Return archetypes with the coding of tables, all of which are coded alike."""
    from hopfed.archetypes.rows import coded_as, in_order
    from hopfed.tables.table import is_made_up

    table = read(files, options, least=1)[0]
    names = () if is_made_up(table.columns) else table.columns
    told = _told(run)
    if not told:
        return coded_as(found, table, str(files[0]))
    from hopfed.hopfield.columns import places_of

    try:
        places = places_of(names, table.shape[1], told, str(run.config["name"]))
    except OtherColumnsError:
        way = ", whose names it does not know" if not found.columns else ""
        raise DataError(f"{files[0]}: its columns are not those of {path}{way}") from None
    if places is None:
        return coded_as(found, table, str(files[0]))
    return in_order(found, np.argsort(places), table)


def _told(run: Run) -> Any:
    """What is known of the names of columns in a run of `hopfed serve` without the names."""
    from hopfed._lib.settings import from_plain
    from hopfed.cli.machines.serve_columns import said_of
    from hopfed.experiments import find
    from hopfed.runs import settings_of

    if run.kind != "serve":
        return {}
    try:
        config = from_plain(find("serve").Config, settings_of(run.config))
    except (ArgumentError, TypeError) as error:
        raise RunFileError(f"its settings do not fit: {error}") from None
    return {} if config.names else said_of(config)
