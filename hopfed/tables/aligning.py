"""Owners whose tables have different columns: what becomes of those that not all have.

- "same": nothing; a table that lacks a column is refused, with its name.
- "union": all columns that any has; one that a table lacks is missing in all of its rows.
- "shared": the columns that all have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.settings import require
from hopfed.errors import DataError, shown
from hopfed.kernels import MaskedBits
from hopfed.kernels.masked import with_gaps
from hopfed.spectral.reread_rows import Reread
from hopfed.tables.coding import Code, Coding
from hopfed.tables.source import Block, Source
from hopfed.tables.table import Table, is_made_up, listed, matched

COLUMNS = ("same", "union", "shared")


def check_choice(columns: str) -> None:
    """Refuse another word than those of COLUMNS."""
    require(columns in COLUMNS, "columns", f"one of {', '.join(COLUMNS)}", columns)


def chosen(tables: Sequence[Sequence[str]], columns: str) -> tuple[str, ...]:
    """Names of the columns that are taken, in the order in which they first come."""
    every = dict.fromkeys(name for names in tables for name in names)
    if columns == "union":
        return tuple(every)
    common = set.intersection(*(set(names) for names in tables))
    return tuple(name for name in every if name in common)


def aligned_sources(sources: Sequence[Source], columns: str) -> list[Source]:
    """Sources that have the same columns, those that are chosen."""
    check_choice(columns)
    held = [set(source.names) for source in sources]
    alike = all(names == held[0] for names in held)
    if columns == "same" or alike:
        if not alike:
            _check_spelling([s.names for s in sources], [s.what for s in sources])
        return list(sources)
    _check_named([source.names for source in sources], [source.what for source in sources])
    names = chosen([source.names for source in sources], columns)
    if not names:
        raise DataError(f"{sources[0].what}: no column is in all of the {len(sources)} tables")
    return [_aligned(source, names) for source in sources]


def _check_named(tables: Sequence[Sequence[str]], whats: Sequence[str]) -> None:
    for names, what in zip(tables, whats, strict=True):
        if is_made_up(names):
            raise DataError(f"{what}: its columns have no names, and others have other columns")


def check_joined(tables: Sequence[Sequence[str]], whats: Sequence[str]) -> None:
    """Refuse a table that shares no column with any other, and names that differ in their spelling.

    Nothing says how columns depend on each other that no table shares, and two spellings of a name
    are two columns.
    """
    _check_spelling(tables, whats)
    holders = Counter(name for names in tables for name in names)
    for names, what in zip(tables, whats, strict=True):
        if len(tables) > 1 and all(holders[name] == 1 for name in names):
            raise DataError(f"{what}: shares no column with another table")


def _check_spelling(tables: Sequence[Sequence[str]], whats: Sequence[str]) -> None:
    """Refuse two spellings of one name, each in tables that have not the other."""
    spellings: dict[str, str] = {}
    for name in dict.fromkeys(name for names in tables for name in names):
        plain = re.sub(r"[ _.-]", "", name.lower())
        first = spellings.setdefault(plain, name)
        if plain and first != name and not any({first, name} <= set(names) for names in tables):
            one, other = (next(i for i, t in enumerate(tables) if n in t) for n in (first, name))
            raise DataError(
                f"{whats[other]}: column '{shown(name.strip(), 60)}' is '{shown(first, 60)}' in "
                f"{whats[one]}: give both one name"
            )


def _aligned(source: Source, names: tuple[str, ...]) -> Source:
    """A source with these columns, cells that it lacks missing."""
    place = {name: j for j, name in enumerate(source.names)}
    places = [place.get(name) for name in names]

    def read() -> Iterator[Block]:
        import pyarrow as pa

        for block in source.blocks():
            gone = pa.nulls(len(block[0]) if block else 0, pa.string())
            yield [gone if j is None else block[j] for j in places]

    return Source(source.what, names, read, source.ids, _noted(source, names))


def _noted(source: Source, names: Sequence[str]) -> list[str]:
    """The notes of a source, and which columns it lacks or loses."""
    lacks = [name for name in names if name not in source.names]
    lost = [name for name in source.names if name not in names]
    notes = list(source.notes)
    if lacks:
        notes.append(lacking(source.what, lacks))
    if lost:
        notes.append(f"{source.what}: left out {listed(lost)}, which not all have")
    return notes


def lacking(what: str, names: Sequence[str]) -> str:
    """Return a line about columns that a table lacks."""
    return f"{what}: lacks {listed(names)}, missing in all of its rows"


def aligned_tables(tables: Sequence[Table], names: Sequence[str], columns: str) -> list[Table]:
    """Tables that have the same columns, those that are chosen, in one order."""
    check_choice(columns)
    first = set(tables[0].columns)
    if columns == "same" or all(set(table.columns) == first for table in tables):
        return matched(tables, names)
    _check_named([table.columns for table in tables], names)
    if columns == "union":
        check_joined([table.coding.names for table in tables], names)
    coding = _together(tables, names, columns)
    return [_with_columns(table, coding) for table in tables]


def _together(tables: Sequence[Table], names: Sequence[str], columns: str) -> Coding:
    """One coding of all tables."""
    codes: dict[str, Code] = {}
    for table, what in zip(tables, names, strict=True):
        for name, code in zip(table.coding.names, table.coding.codes, strict=True):
            if codes.setdefault(name, code).names(name) != code.names(name):
                raise DataError(
                    f"{what}: column '{name}' has other categories than in another table: read "
                    "the tables together (hopfed recover), or with one coding"
                )
    kept = chosen([table.coding.names for table in tables], columns)
    if not kept:
        raise DataError(f"{names[0]}: no column is in all of the {len(tables)} tables")
    return replace(
        tables[0].coding,
        names=kept,
        codes=tuple(codes[name] for name in kept),
        partial=columns == "union",
    )


def _with_columns(table: Table, coding: Coding) -> Table:
    """A table with the columns of a coding, entries that it lacks missing."""
    place = {name: j for j, name in enumerate(table.columns)}
    order = np.array([place.get(name, -1) for name in coding.columns])
    rows = table.rows
    if (order >= 0).all() and isinstance(rows, Reread):
        return replace(table, rows=rows.columns(order), columns=coding.columns, coding=coding)
    lines = kernels.transpose(table.held)
    if (order < 0).any():
        gaps = with_gaps(lines)
        empty = replace(gaps.seen, words=0 * gaps.seen.words[:1])
        lines = kernels.concatenate([gaps, MaskedBits(empty, empty)])
    rows = kernels.transpose(lines[order])  # -1 is the empty one, which comes last
    return replace(table, rows=rows, columns=coding.columns, coding=coding)
