"""A table that can be read as often as is needed: names of columns, and blocks of rows.

A block is a list of arrays of Arrow, one for each column. Files larger than the memory are read a
block at a time; small ones are kept once they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError, shown
from hopfed.tables.words import number
from hopfed.tables.writers import PLAIN, Dialect, numbered

KEPT = 1 << 25  # bytes of blocks that are kept, so that they are read once
LONGEST = 200  # characters of a name
NAME = 400  # bytes that a column takes, whatever it holds
Block = list[Any]
_POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")


class Numbers(NamedTuple):
    """The rows of an array of `shape` (M, N): what begins to read parts, and all if it is held."""

    shape: tuple[int, int]
    parts: Callable[[], Iterator[np.ndarray]]
    whole: Any = None


@dataclass
class Source:
    """A table that can be read as often as is needed."""

    what: str  # it is called in an error
    names: tuple[str, ...]  # of its columns; made up where it has none
    read: Callable[[], Iterator[Block]]  # begins to read
    ids: np.ndarray | None = None  # names of rows that it brings with it, beside its columns
    notes: list[str] = field(default_factory=list)  # what was taken for what
    numbers: Numbers | None = None  # of an array without words or names
    dialect: Dialect = PLAIN  # how it is written, of a text file
    commas: frozenset[int] = frozenset()  # places of columns of numbers with a decimal comma
    watch: Callable[[float], None] | None = None  # is told what part is read
    most: int = KEPT  # bytes of blocks that are kept
    readings: int = 0  # times that it was read
    _kept: list[Block] | None = None

    @property
    def pointed(self) -> bool | None:
        """Whether it has decimal commas; None where points in numbers are decimal ones."""
        return True if self.commas else False if self.dialect.delimiter == ";" else None

    def blocks(self) -> Iterator[Block]:
        """Yield all rows, a block at a time, with points for decimal commas."""
        return map(self.plain, self.given_blocks())

    def plain(self, block: Block) -> Block:
        """Return a block with points for decimal commas."""
        if not self.commas:
            return block
        return [self._pointed(j, a) if j in self.commas else a for j, a in enumerate(block)]

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
            held = [*held, block] if held is not None and size <= self.most else None
            yield block
        self._kept = held

    def parts(self) -> Iterator[np.ndarray]:
        """Yield all rows of an array, some at a time."""
        if self.numbers is not None:
            self.readings += 1
            yield from self.numbers.parts()

    def ordered(self, names: Sequence[str]) -> Callable[[], Iterator[Block]]:
        """What begins to read the columns of these names, cells that it lacks missing."""
        place = {name: j for j, name in enumerate(self.names)}

        def read() -> Iterator[Block]:
            import pyarrow as pa

            for block in self.blocks():
                gone = pa.nulls(len(block[0]) if block else 0, pa.string())
                yield [block[place[name]] if name in place else gone for name in names]

        return read


def named(names: Sequence[Any], what: str) -> tuple[tuple[str, ...], list[str]]:
    """Return names of columns that all differ, and a line where some were alike or too long."""
    require_memory(NAME * len(names), f"{what}: {len(names):,} columns")
    plain = [normalize("NFC", "" if name is None else str(name).strip()) for name in names]
    given = [name[:LONGEST] or f"column {j}" for j, name in enumerate(plain, start=1)]
    found = numbered(given)
    cut = [j for j, name in enumerate(plain, start=1) if len(name) > LONGEST]
    alike = [(name, fresh) for name, fresh in zip(given, found, strict=True) if name != fresh]
    notes = []
    if cut:
        others = f", and of {len(cut) - 1:,} more," if len(cut) > 1 else ""
        notes.append(f"the name of column {cut[0]}{others} is cut to {LONGEST} characters")
    if alike:
        name, fresh = (shown(each, 60) for each in alike[0])
        others = f"; {len(alike) - 1:,} more are numbered, too" if len(alike) > 1 else ""
        notes.append(f"two columns are called '{name}': the later one is '{fresh}' here{others}")
    return tuple(found), notes


def doubtful(columns: Sequence[Collection[str]], sure: bool) -> list[str]:
    """Return, of each column of a file, why it is not read as its points may be of thousands."""
    found, plain = [], False
    for words in columns:
        pointed = [w for word in words if "." in (w := word.strip()) and number(w) is not None]
        like = [word for word in pointed if _POINTED.fullmatch(word)]
        whole = [len(w.strip().lstrip("+-")) for w in words if w.strip().lstrip("+-").isdecimal()]
        decimal = len(like) < len(pointed) or (not sure and max(whole, default=0) > 3)
        plain = plain or decimal
        doubt = bool(like) and not decimal and (sure or bool(whole))
        found.append(like[0] if doubt else "")
    return [_why(word, sure) if word and (sure or not plain) else "" for word in found]


def _why(word: str, sure: bool) -> str:
    where = "in a file with decimal commas" if sure else "beside whole numbers"
    decimal = "" if word.count(".") > 1 else f", as {word}0 if it is a decimal one"
    plain = word.replace(".", "")
    return f"holds '{word}' {where}: write it as {plain} if the point is one of thousands{decimal}"
