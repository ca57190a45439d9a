"""Sources of tables: each gives names of columns and blocks of rows, and can be read repeatedly.

A block is a list of arrays of Arrow, one for each column. Files larger than the memory are read a
block at a time; small ones are kept once they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.data.arrow_cells import distinct
from hopfed.data.dialects import PLAIN, Dialect
from hopfed.data.writers import numbered
from hopfed.errors import shown

KEPT = 1 << 28  # bytes of blocks that are kept, so that they are read once
LONGEST = 200  # characters of a name
Block = list[Any]


@dataclass(frozen=True)
class Numbers:
    """The rows of an array, a part at a time.

    Attributes
    ----------
    shape : (M, N).
    parts : begins to read: yields arrays (rows, N) of numbers.
    whole : the array itself, where it is in memory.
    """

    shape: tuple[int, int]
    parts: Callable[[], Iterator[np.ndarray]]
    whole: Any = None


@dataclass
class Source:
    """A table that can be read as often as is needed.

    Attributes
    ----------
    what : it is called in an error.
    names : of its columns; made up where it has none.
    read : begins to read: yields blocks.
    ids : names of rows that it brings with it, beside its columns.
    notes : what was odd about its names.
    numbers : the numbers, where the source is an array without words or names.
    unfit : why a column, by its place, cannot be used.
    watch : is told what part is read, where that is known.
    most : bytes of blocks that are kept.
    readings : times that it was read.
    dialect : how it is written, of a text file.
    usual : makes numbers, truth values or text of an array that is none of these.
    """

    what: str
    names: tuple[str, ...]
    read: Callable[[], Iterator[Block]]
    ids: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    numbers: Numbers | None = None
    unfit: dict[int, str] = field(default_factory=dict)
    watch: Callable[[float], None] | None = None
    most: int = KEPT
    readings: int = 0
    dialect: Dialect = PLAIN
    usual: Callable[[Any], Any] | None = None
    _kept: list[Block] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time: numbers, truth values and text."""
        return map(self.plain, self.given_blocks())

    def plain(self, block: Block) -> Block:
        """Return a block as numbers, truth values and text."""
        return block if self.usual is None else [self.usual(array) for array in block]

    def given_blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time, as the source has them: dates are dates."""
        if self._kept is not None:
            yield from self._kept
            return
        self.readings += 1
        held: list[Block] | None = []
        size = 0
        for block in self.read():
            size += sum(array.nbytes for array in block)
            if held is not None and size <= self.most:
                held.append(block)
            else:
                held = None
            yield block
        self._kept = held

    def parts(self) -> Iterator[np.ndarray]:
        """Yield all rows of an array, some at a time."""
        if self.numbers is not None:
            self.readings += 1
            yield from self.numbers.parts()

    def row_of(self, column: int, fits: Callable[[str], bool]) -> int:
        """Row, from 1, in which a column first holds a word that `fits`; 0 if none does."""
        before = 0
        for block in self.blocks():
            words, places = distinct(block[column])
            fit = np.array([fits(word) for word in words] + [fits("")])
            at = np.flatnonzero(fit[places])
            if len(at):
                return before + int(at[0]) + 1
            before += len(places)
        return 0


def unique(names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return names that all differ, and a line where some were alike or empty.

    Examples
    --------
    >>> unique(["a", "", "a"])
    (('a', 'column 2', 'a (2)'), ["two columns are called 'a': the later one is 'a (2)' here"])
    """
    given = [name or f"column {j}" for j, name in enumerate(names, start=1)]
    cut = [j for j, name in enumerate(given, start=1) if len(name) > LONGEST]
    given = [name[:LONGEST] for name in given]
    found = numbered(given)
    alike = [(name, fresh) for name, fresh in zip(given, found, strict=True) if name != fresh]
    notes = []
    if cut:
        others = f", and of {len(cut) - 1:,} more," if len(cut) > 1 else ""
        notes.append(f"the name of column {cut[0]}{others} is cut to {LONGEST} characters")
    if alike:
        name, fresh = alike[0]
        others = f"; {len(alike) - 1:,} more are numbered, too" if len(alike) > 1 else ""
        notes.append(
            f"two columns are called '{shown(name, 60)}': the later one is "
            f"'{shown(fresh, 60)}' here{others}"
        )
    return tuple(found), notes
