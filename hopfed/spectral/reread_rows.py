"""Rows that do not fit into memory: they are read again for every sum over them.

`Gathered` takes packed rows as they come. While they fit it holds them; once they do not it keeps
what one reading can add up, and `Reread` stands for the rows. Whatever a recovery asks of rows is a
sum over them, so a block at a time is enough:

- the first reading gives the sums of the columns, the entries that are there, and the sums of
  products of up to `SQUARE` columns, which is the whole operator;
- every other question is one more reading: a product with the operator of more columns, the
  projections of random groups, the rows nearest to each pattern, votes, the energies of rows, the
  rows that classes are searched in, a step of expectation maximisation.

Sums of whole numbers are those of rows that are held, to the bit. Others are added up block by
block, and differ from them by rounding. Beside the blocks there are a few numbers for each row.

A question is a function of one block (`Reread.total`, `Reread.where`), so that it can be answered
wherever the block is (`hopfed.spectral.partitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.kernels import Rows

SQUARE = 3_000  # columns up to which the first reading adds up their products
STEP = 1 << 22  # entries of a block that are unpacked

Answer = TypeVar("Answer")


class Sums(tuple[Any, ...]):
    """Several sums that add up one by one."""

    def __add__(self, other: tuple[Any, ...]) -> Sums:
        return Sums(a + b for a, b in zip(self, other, strict=True))


@dataclass
class Totals:
    """What one reading of rows adds up."""

    rows: int  # M
    # sums, seen: (N,) int64, of the entries of each column and the number of those that are there
    sums: np.ndarray
    seen: np.ndarray
    # (N, 2) products of the columns with random numbers, which copies of a column share
    marks: np.ndarray
    blank: tuple[int, int]  # number of rows without any entry, and the first of them
    # (N, N) float64 ``sum_m eta_m eta_m^T``, exact; None where that is not kept
    products: np.ndarray | None

    def __add__(self, other: Totals) -> Totals:
        """Sums over these rows and, after them, those of `other`."""
        later = other.blank[1] + self.rows if other.blank[0] else 0
        first = self.blank[1] if self.blank[0] else later
        both = None
        if self.products is not None and other.products is not None:
            both = self.products + other.products
        sums = {name: getattr(self, name) + getattr(other, name) for name in _BY_COLUMN}
        blank = self.blank[0] + other.blank[0], first
        return Totals(rows=self.rows + other.rows, **sums, blank=blank, products=both)


@dataclass(frozen=True, eq=False)
class Reread:
    """(M, N) rows of +-1, with gaps or without, that are read again for every sum over them."""

    shape: tuple[int, int]  # (M, N)
    # begins to read: yields packed rows, a block at a time, the same ones each time
    read: Callable[[], Iterator[Rows]]
    totals: Totals  # what an earlier reading has added up
    made: Callable[[], int]  # says how often the rows were read

    def __len__(self) -> int:
        return self.shape[0]

    counts = None  # each row is there once

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def home(self) -> np.ndarray:
        """Array that lies where the rows do."""
        return np.empty(0, np.uint64)

    @property
    def gaps(self) -> bool:
        """Whether any entry is missing."""
        return bool((self.totals.seen < self.totals.rows).any())

    def parts(self) -> Iterator[Rows]:
        """Read all rows once, a block at a time."""
        rows = 0
        for part in self.read():
            rows += len(part)
            yield part
        if rows != self.shape[0]:
            raise DataError(f"the file changed: {self.shape[0]:,} rows before, {rows:,} now")

    def total(
        self,
        question: Callable[..., Answer],
        placed: bool = False,
        enough: Callable[[Answer], bool] | None = None,
    ) -> Answer:
        """Add up what each block answers."""
        found: Any = None
        before = 0
        for part in self.parts():
            answer = question(part, before) if placed else question(part)
            found = answer if found is None else found + answer
            before += len(part)
            if enough is not None and enough(found):
                break
        return found

    def where(self, fits: Callable[[Rows], np.ndarray]) -> Reread:
        """Some of the rows, which are not held either: those of a block for which it `fits`."""
        return self.chosen(np.flatnonzero(np.concatenate([fits(part) for part in self.parts()])))

    def __getitem__(self, which: slice | np.ndarray) -> Rows:
        """Rows that are held from then on: a slice, a mask, or ascending numbers."""
        index = self._numbers(which)
        require_memory(len(index) * self.shape[1] // 4, "rows")
        if not len(index):
            pack = kernels.pack_masked if self.gaps else kernels.pack
            return pack(np.empty((0, self.shape[1]), np.int8))
        return self._held(index)

    def _numbers(self, which: slice | np.ndarray) -> np.ndarray:
        """Numbers of the rows that a slice, a mask or ascending numbers choose."""
        m = len(self)
        index = np.arange(*which.indices(m)) if isinstance(which, slice) else np.asarray(which)
        if index.dtype == bool:
            require(index.shape == (m,), "rows", f"a mask of {m} rows", index.shape)
            index = np.flatnonzero(index)
        ordered = not len(index) or (index[0] >= 0 and index[-1] < m)
        ordered = ordered and not (np.diff(index) < 0).any()
        require(ordered, "rows", f"a slice, a mask, or numbers below {m} that ascend", which)
        return index

    def _held(self, index: np.ndarray) -> Rows:
        """Rows of ascending numbers, at least one."""
        return kernels.concatenate(list(self._picked(index)))

    def _picked(self, index: np.ndarray) -> Iterator[Rows]:
        """Read the rows of ascending numbers, a block at a time."""
        before = 0
        for part in self.parts():
            first, last = np.searchsorted(index, [before, before + len(part)])
            if last > first:
                yield part[index[first:last] - before]
            before += len(part)

    def chosen(self, which: slice | np.ndarray) -> Reread:
        """Some of the rows, as a slice, a mask or ascending numbers, that are not held either."""
        index = self._numbers(which)
        return self._other((len(index), self.shape[1]), lambda: self._picked(index))

    def columns(self, which: np.ndarray) -> Reread:
        """Some of the columns, or all in another order."""
        shape = self.shape[0], len(which)
        t = self.totals
        products = None if t.products is None else t.products[np.ix_(which, which)]
        totals = replace(t, products=products, **{k: getattr(t, k)[which] for k in _BY_COLUMN})

        def read() -> Iterator[Rows]:
            return (packed_columns(part, which) for part in self.parts())

        return Reread(shape, read, totals, self.made)

    def mapped(self, change: Callable[[Rows], Rows], n: int) -> Reread:
        """Rows of n columns that `change` makes of each block as it is read."""
        return self._other((self.shape[0], n), lambda: map(change, self.parts()))

    def _other(self, shape: tuple[int, int], read: Callable[[], Iterator[Rows]]) -> Reread:
        summed = Summed(shape[1])
        for part in read():
            summed.add(part)
        return Reread(shape, read, summed.totals(), self.made)


_BY_COLUMN = ("sums", "seen", "marks")


class Summed:
    """Sums over rows of n columns as they come, or over those of the block of a number."""

    def __init__(self, n: int, block: int = 0):
        self._rows, self._n = 0, n
        self._sums, self._seen = np.zeros((2, n), np.int64)
        self._marks = np.zeros((n, 2))
        self._blank = (0, 0)
        self._draws = stream(0, "copies", *([block] if block else []))
        self._products = np.zeros((n, n)) if n <= SQUARE else None

    def add(self, part: Rows) -> None:
        """Add up some more rows."""
        if part.gaps:
            blank = ~part.seen.any(axis=1)
            if blank.any():
                first = self._blank[1] if self._blank[0] else self._rows + int(blank.argmax())
                self._blank = self._blank[0] + int(blank.sum()), first
        self._rows += len(part)
        self._sums += kernels.column_sums(part)
        self._seen += kernels.seen_counts(part)
        self._marks += kernels.rmatmat(part, self._draws.standard_normal((len(part), 2)))
        if self._products is not None:
            self._products += kernels.second_moment(part)

    def totals(self) -> Totals:
        """Return the sums over all rows so far."""
        sums = self._sums, self._seen, self._marks
        return Totals(self._rows, *sums, self._blank, self._products)


class Gathered:
    """Packed rows as they come: held while they take at most so many bytes, else added up."""

    def __init__(self, what: str, most: int | None = None):
        self.what, self.most = what, most
        self.nbytes = 0
        self._parts: list[Rows] = []
        self._summed: Summed | None = None

    @property
    def holds(self) -> bool:
        """Whether all rows are held so far."""
        return self._summed is None

    def add(self, part: Rows) -> None:
        """Take some more rows."""
        if self._summed is not None:
            self._summed.add(part)
            return
        self._parts.append(part)
        self.nbytes += part.nbytes
        if self.most is None:
            require_memory(self.nbytes, self.what)  # to put them together
        elif self.nbytes > self.most:
            self._summed = Summed(part.shape[1])
            for held in self._parts:
                self._summed.add(held)
            self._parts = []

    def rows(
        self, again: Callable[[], Iterator[Rows]], made: Callable[[], int] = lambda: 1
    ) -> Rows | Reread:
        """Return all rows, or what stands for them."""
        if self._summed is not None:
            totals = self._summed.totals()
            return Reread((totals.rows, len(totals.sums)), again, totals, made)
        if not self._parts:
            raise DataError(f"{self.what}: at least two examples are needed, got 0")
        return kernels.concatenate(self._parts)


def packed_columns(rows: Rows, columns: np.ndarray) -> Rows:
    """Return some columns of packed rows, in the order that is asked for, where the rows are."""
    planes = (None if p is None else _columns(p, rows.n, columns) for p in (rows.signs, rows.seen))
    signs, seen = planes
    return Rows(signs, len(columns), seen, rows.counts)


def _columns(plane: Array, n: int, columns: np.ndarray) -> Array:
    """Words of some of n columns of a plane of bits."""
    at, step = like(columns, plane), max(1, STEP // max(n, 1))
    blocks = (kernels.unpack(Rows(plane[a : a + step], n)) for a in range(0, len(plane), step))
    return kernels.concatenate([kernels.pack(block[:, at]) for block in blocks]).signs
