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

from hopfed._lib.settings import require
from hopfed.errors import DataError, shown
from hopfed.tables.coding import Code
from hopfed.tables.source import Block, Source
from hopfed.tables.table import Table, is_made_up, listed, matched, with_columns

COLUMNS = ("same", "union", "shared")


def check_choice(columns: str) -> None:
    """Refuse another word than those of COLUMNS."""
    require(columns in COLUMNS, "columns", f"one of {', '.join(COLUMNS)}", columns)


def aligned_sources(sources: Sequence[Source], columns: str) -> list[Source]:
    """Sources that have the same columns, those that are chosen."""
    check_choice(columns)
    tables, whats = [source.names for source in sources], [source.what for source in sources]
    alike = all(set(names) == set(tables[0]) for names in tables)
    if not alike and columns == "same":
        _check_spelling(tables, whats)
    if alike or columns == "same":
        return list(sources)
    names = _chosen(tables, whats, columns)
    return [_aligned(source, names) for source in sources]


def _chosen(tables: Sequence[Sequence[str]], whats: Sequence[str], columns: str) -> tuple[str, ...]:
    """Names of the columns that are taken, in the order in which they first come."""
    for names, what in zip(tables, whats, strict=True):
        if is_made_up(names):
            raise DataError(f"{what}: its columns have no names, and others have other columns")
    holders = Counter(name for names in tables for name in names)
    kept = tuple(n for n, count in holders.items() if columns == "union" or count == len(tables))
    if not kept:
        raise DataError(f"{whats[0]}: no column is in all of the {len(tables)} tables")
    return kept


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

    lacks = [name for name in names if name not in place]
    lost = [name for name in source.names if name not in names]
    notes = [*source.notes, *([lacking(source.what, lacks)] if lacks else [])]
    if lost:
        notes.append(f"{source.what}: left out {listed(lost)}, which not all have")
    return Source(source.what, names, read, source.ids, notes)


def lacking(what: str, names: Sequence[str]) -> str:
    """Return a line about columns that a table lacks."""
    return f"{what}: lacks {listed(names)}, missing in all of its rows"


def aligned_tables(tables: Sequence[Table], names: Sequence[str], columns: str) -> list[Table]:
    """Tables, called `names`, that have the same columns, those that are chosen, in one order."""
    check_choice(columns)
    first = set(tables[0].columns)
    if columns == "same" or all(set(table.columns) == first for table in tables):
        return matched(tables, names)
    held = [table.coding.names for table in tables]
    kept = _chosen(held, names, columns)
    if columns == "union":
        check_joined(held, names)
    codes: dict[str, Code] = {}
    for table, what in zip(tables, names, strict=True):
        for name, code in zip(table.coding.names, table.coding.codes, strict=True):
            if codes.setdefault(name, code).names(name) != code.names(name):
                raise DataError(
                    f"{what}: column '{name}' has other categories than in another table: read "
                    "the tables together (hopfed recover), or with one coding"
                )
    used, partial = tuple(codes[name] for name in kept), columns == "union"
    coding = replace(tables[0].coding, names=kept, codes=used, partial=partial)
    found = []
    for table in tables:
        place = {name: j for j, name in enumerate(table.columns)}
        places = [place.get(name, -1) for name in coding.columns]
        found.append(with_columns(table, places, coding.columns, coding))
    return found
