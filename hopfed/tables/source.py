"""A table that can be read as often as is needed: names of columns, and blocks of rows.

A block is a list of arrays of Arrow, one for each column. Files larger than the memory are read a
block at a time; small ones are kept once they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError, shown
from hopfed.tables.writers import PLAIN, Dialect, numbered

KEPT = 1 << 25  # bytes of blocks that are kept, so that they are read once
LONGEST = 200  # characters of a name
NAME = 400  # bytes that a column takes, whatever it holds
Block = list[Any]


class Numbers(NamedTuple):
    """The rows of an array of `shape` (M, N): what begins to read parts, and all if it is held."""

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
    notes : what was taken for what, a line each.
    numbers : the numbers, where the source is an array without words or names.
    dialect : how it is written, of a text file.
    commas : places of its columns of numbers with a decimal comma.
    watch : is told what part is read, where that is known.
    most : bytes of blocks that are kept.
    readings : times that it was read.
    """

    what: str
    names: tuple[str, ...]
    read: Callable[[], Iterator[Block]]
    ids: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    numbers: Numbers | None = None
    dialect: Dialect = PLAIN
    commas: frozenset[int] = frozenset()
    watch: Callable[[float], None] | None = None
    most: int = KEPT
    readings: int = 0
    _kept: list[Block] | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time, with points for decimal commas."""
        return map(self.plain, self.given_blocks())

    def plain(self, block: Block) -> Block:
        """Return a block with points for decimal commas."""
        for j in sorted(self.commas):
            block = [*block[:j], self._pointed(j, block[j]), *block[j + 1 :]]
        return block

    def _pointed(self, j: int, cells: Any) -> Any:
        import pyarrow.compute as pc

        mixed = pc.index(pc.match_substring_regex(cells, r"^\s*[+-]?[0-9]*\.[0-9]"), True).as_py()
        if mixed >= 0:
            word = shown(cells[mixed].as_py().strip(), 40)
            raise DataError(
                f"{self.what}: column '{shown(self.names[j], 60)}' holds '{word}' beside numbers "
                "with a decimal comma: write all numbers in one way, without marks of thousands"
            )
        return pc.replace_substring_regex(
            cells, r"^(\s*[+-]?[0-9]*),([0-9]+([eE][+-]?[0-9]+)?\s*)$", r"\1.\2"
        )

    def given_blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time, as the source has them."""
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


def named(names: Sequence[Any], what: str) -> tuple[tuple[str, ...], list[str]]:
    """Return names of columns that all differ, and a line where some were alike or too long."""
    require_memory(NAME * len(names), f"{what}: {len(names):,} columns")
    plain = [normalize("NFC", "" if name is None else str(name).strip()) for name in names]
    given = [name[:LONGEST] or f"column {j}" for j, name in enumerate(plain, start=1)]
    cut = [j for j, name in enumerate(plain, start=1) if len(name) > LONGEST]
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
