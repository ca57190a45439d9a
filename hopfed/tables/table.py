"""The class of tables, and how columns of several owners are matched: by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unicodedata import normalize

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.errors import ColumnsError, DataError, safe_line
from hopfed.kernels import Rows
from hopfed.tables.coding import Coding, Column
from hopfed.tables.writers import PLAIN, Dialect, distinct_names

__all__ = ["Table"]

COLUMNS = ("same", "union", "shared")  # columns of the first, of any table, of all tables
WAY = "; --columns union (columns='union') takes such as missing, --columns shared leaves them out"
NAMES = 5  # most names in a line
SHOWN = 10  # most columns with a line in an error
LONGEST = 200  # characters of a name
NAME = 400  # bytes that a column takes, whatever it holds
Block = list[Any]
_COMMA = r"^(\s*[+-]?[0-9]*),([0-9]+([eE][+-]?[0-9]+)?\s*)$"
_THOUSANDS = r"^\s*[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+\s*$"


@dataclass
class Source:
    """A table that can be read as often as is needed."""

    label: str  # its name in errors
    names: tuple[str, ...]  # of its columns; made up where it has none
    read: Callable[[], Iterator[Block]]  # begins to read
    ids: np.ndarray | None = None  # names of rows beside its columns
    notes: list[str] = field(default_factory=list)  # how it was understood
    numbers: Callable[[], Iterator[np.ndarray]] | None = None  # begins to read an array, in parts
    dialect: Dialect = PLAIN  # form of a text file
    commas: frozenset[int] = frozenset()  # places of columns of numbers with a decimal comma
    doubts: set[str] = field(default_factory=set)  # columns whose points may be of thousands
    readings: int = 0  # number of times that it was read
    held: list[Column] = field(default_factory=list)  # contents of its columns, as far as read

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time, as `plain` returns them."""
        self.readings += 1
        yield from map(self.plain, self.read())

    def plain(self, block: Block) -> Block:
        """Return a block with points for decimal commas, and commas for points of thousands."""
        import pyarrow.compute as pc

        block = list(block)
        for j in self.commas:
            plain = pc.replace_substring_regex(block[j], _COMMA, r"\1.\2")
            marked = pc.match_substring_regex(block[j], _THOUSANDS)
            block[j] = pc.if_else(marked, pc.replace_substring(block[j], ".", ","), plain)
        return block

    def parts(self) -> Iterator[np.ndarray]:
        """Yield all rows of an array, some at a time."""
        self.readings += 1
        yield from self.numbers() if self.numbers is not None else ()


def name_columns(names: Sequence[Any], label: str) -> tuple[tuple[str, ...], list[str]]:
    """Return names for a `Table`'s columns that all differ; notes on those alike or too long."""
    require_memory(NAME * len(names), f"{label}: {len(names):,} columns")
    plain = [normalize("NFC", "" if name is None else str(name).strip()) for name in names]
    given = [name[:LONGEST] or f"column {j}" for j, name in enumerate(plain, start=1)]
    found = distinct_names(given)
    fresh = {name: old for name, old in zip(found, given, strict=True) if name != old}
    cut = [j for j, name in enumerate(plain, start=1) if len(name) > LONGEST]
    notes = []
    if fresh:
        name = safe_line(next(iter(fresh.values())), 60)
        notes.append(f"two columns are called '{name}': later ones are {list_names([*fresh])} here")
    if cut:
        notes.append(f"names of {len(cut):,} column(s) are cut to {LONGEST} characters: {cut[:5]}")
    return tuple(found), notes


@dataclass(frozen=True, eq=False)
class Table:
    """Rows packed to bits, with the names of columns and rows.

    Attributes
    ----------
    rows : (M, N) of +-1, perhaps with gaps; those beyond the memory are read again when needed.
    columns : N names; made up where the source has none.
    ids : (M,) names of the rows, None where the source has none, or rows are read again.
    coding : how cells became +-1.
    notes : what was odd, one line each.

    Examples
    --------
    >>> from hopfed import read_table
    >>> table = read_table([[0, 1, 1], [1, None, 0]])
    >>> table.shape, table.columns, table.ids is None
    ((2, 3), ('column 1', 'column 2', 'column 3'), True)
    >>> table
    <Table of 2 rows and 3 columns with gaps: column 1, column 2, column 3>
    """

    rows: Rows
    columns: tuple[str, ...]
    ids: np.ndarray | None
    coding: Coding
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        m, n = self.rows.shape
        require(len(self.columns) == n, "columns", f"{n} names", len(self.columns))
        require(self.ids is None or len(self.ids) == m, "ids", f"{m} names", "others")

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.rows.shape

    @property
    def held(self) -> Rows:
        """The rows, where they are in memory; an error where they are read again for sums only."""
        rule = "in memory here: read the table without a limit"
        require(self.rows.held, "rows", rule, "others")
        return self.rows

    def __len__(self) -> int:
        return self.rows.shape[0]

    def __repr__(self) -> str:
        m, n = self.shape
        names = ", ".join([*map(safe_line, self.columns[:3]), *["..."] * (n > 3)])
        gaps = " with gaps" * self.rows.gaps
        return f"<Table of {m:,} rows and {n:,} columns{gaps}: {names}>"


def made_up_names(n: int) -> tuple[str, ...]:
    """Return the names of n columns of a `Table` that have none."""
    return tuple(f"column {j}" for j in range(1, n + 1))


def is_made_up(columns: Sequence[str]) -> bool:
    """Whether the columns of a `Table` have no names of their own."""
    return tuple(columns) == made_up_names(len(columns))


def list_names(names: Sequence[object]) -> str:
    """Return the first names, such as of a `Table`, as text, and the number of the others."""
    text = ", ".join(f"'{safe_line(name, 60)}'" for name in names[:NAMES])
    return text + f" and {len(names) - NAMES:,} more" * (len(names) > NAMES)


def columns_error(
    label: str, said: str, lines: Sequence[str], names: Sequence[str], last: str
) -> ColumnsError:
    """Return an error about a `Table`'s columns: a line for each of the first, and a `last` one."""
    if len(names) == 1:
        return ColumnsError("; ".join(filter(None, [f"{label}: {lines[0]}", last])), tuple(names))
    more = [f"and {len(names) - SHOWN:,} columns more"] * (len(names) > SHOWN)
    text = "\n  ".join([f"{label}: {said}:", *lines[:SHOWN], *more])
    return ColumnsError(f"{text}\n{last}", tuple(names))


def check_columns(
    columns: Sequence[str], first: Sequence[str], name: str, other: str, way: str = ""
) -> None:
    """Raise an error that names columns of a `Table` unlike those of the first, in any order."""
    held, due = set(columns), set(first)
    lacks = [column for column in first if column not in held]
    more = [column for column in columns if column not in due]
    said = [f"lacks {list_names(lacks)} of {other}"] * bool(lacks)
    said += [f"has {list_names(more)} beside" + f" those of {other}" * (not lacks)] * bool(more)
    if said:
        raise DataError(f"{name}: {', and '.join(said)}{way}")


def places_of(columns: Sequence[str], first: Sequence[str], name: str, other: str) -> list[int]:
    """Return the places of the first `Table`'s columns in another: by name if both have names."""
    if is_made_up(columns) or is_made_up(first):
        if len(columns) != len(first):
            raise DataError(f"{name}: {len(columns)} columns, not {len(first)} as in {other}")
        return list(range(len(columns)))
    check_columns(columns, first, name, other, way=WAY)
    place = {column: j for j, column in enumerate(columns)}
    return [place[column] for column in first]


def match_tables(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """Return each `Table` with its columns in the order of the first one's, found by name."""
    first, found = tables[0], []
    for table, name in zip(tables, names, strict=True):
        places, rows = places_of(table.columns, first.columns, name, names[0]), table.rows
        if places != list(range(len(places))):
            rows = rows.columns(np.array(places, int))
            table = replace(table, rows=rows, coding=first.coding)
        found.append(replace(table, columns=first.columns))
    return found


def match_sources(sources: Sequence[Source], columns: str) -> tuple[list[Source], set[str]]:
    """Return each `Source` with column names where others have them, and columns to leave out."""
    require(columns in COLUMNS, "columns", f"one of {', '.join(COLUMNS)}", columns)
    first, holders = sources[0], Counter(name for source in sources for name in source.names)
    lacking = {name for name, count in holders.items() if count < len(sources)}
    if columns == "same" or not lacking:
        for s in sources:
            places_of(s.names, first.names, s.label, first.label)
        by_place = any(is_made_up(s.names) for s in sources)
        return [replace(s, names=first.names) if by_place else s for s in sources], set()
    for source in sources:
        if is_made_up(source.names):
            why = "its columns have no names, and others have other columns"
            raise DataError(f"{source.label}: {why}")
        lost = [name for name in source.names if name in lacking]
        if lost and columns == "shared":
            source.notes.append(f"{source.label}: left out {list_names(lost)}, which not all have")
    return list(sources), lacking if columns == "shared" else set()
