"""Rows that do not fit into memory: they are read again for every sum over them.

The first reading computes `Totals`; for up to `SQUARE` columns these are the whole operator. Every
other sum of a function of blocks (`Rows.total`, `Rows.where`) takes one more reading. Sums of
whole numbers equal those of held rows exactly; others differ by rounding.

Blocks of `DaskRows` stay in the memory of Dask's workers, or of the threads of this process. A
function is sent to them, and neighbouring answers are added there, always in the same order. Dask
makes the blocks of a lost worker again from the source.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add, call, getitem
from typing import Any, ClassVar, TypeVar

import numpy as np

from hopfed import kernels
from hopfed._lib.dask_cluster import import_dask
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.kernels import Rows

SQUARE = 3_000  # largest number of columns for which the first reading sums products


class Sums(tuple[Any, ...]):
    """Several sums that are added element by element."""

    def __add__(self, other: tuple[Any, ...]) -> Sums:
        return Sums(a + b for a, b in zip(self, other, strict=True))


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of one reading of rows."""

    rows: int  # M
    # sums, seen: (N,) int64, sum and number of the observed entries of each column
    sums: np.ndarray
    seen: np.ndarray
    blank: tuple[int, int]  # number of rows without any entry, and the first of them
    # (N, N) float64 ``sum_m eta_m eta_m^T``, exact; None above `SQUARE` columns
    products: np.ndarray | None

    @classmethod
    def of(cls, part: Rows) -> Totals:
        """Those of one block."""
        gone = np.flatnonzero(~part.seen.any(axis=1)).tolist() if part.gaps else []
        products = kernels.second_moment(part).astype(np.float64) if part.n <= SQUARE else None
        sums = kernels.column_sums(part), kernels.seen_counts(part)
        return cls(len(part), *sums, (len(gone), min(gone, default=0)), products)

    def __add__(self, other: Totals) -> Totals:
        """Return the totals of these rows followed by the rows of `other`."""
        first = self.blank[1] if self.blank[0] else other.blank[1] + self.rows
        known = [x for x in (self.products, other.products) if x is not None]
        both = known[0] + known[1] if len(known) > 1 else None
        sums = self.sums + other.sums, self.seen + other.seen
        return Totals(self.rows + other.rows, *sums, (self.blank[0] + other.blank[0], first), both)


@dataclass(frozen=True, eq=False)
class Reread(Rows):
    """(M, N) rows of +-1, with gaps or without, that are read again for every sum over them."""

    held: ClassVar[bool] = False
    signs: None = field(default=None, init=False, repr=False)
    n: int = field(init=False)
    seen: None = field(default=None, init=False, repr=False)
    counts: None = field(default=None, init=False, repr=False)
    # starts a reading: yields packed rows, a block at a time, the same blocks each time
    read: Callable[[], Iterator[Rows]]
    totals: Totals  # totals of an earlier reading
    made: Callable[[], int]  # returns the number of readings

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", len(self.totals.sums))

    def __len__(self) -> int:
        return self.totals.rows

    @property
    def home(self) -> np.ndarray:  # noqa: D102
        return np.empty(0, np.uint64)

    @property
    def gaps(self) -> bool:  # noqa: D102
        return bool((self.totals.seen < self.totals.rows).any())

    @property
    def readings(self) -> int:  # noqa: D102
        return self.made()

    def parts(self) -> Iterator[Rows]:
        """Read all rows once, a block at a time."""
        rows = 0
        for part in self.read():
            rows += len(part)
            yield part
        if rows != len(self):
            raise DataError(f"the file changed: {len(self):,} rows before, {rows:,} now")

    def __getitem__(self, which: slice | Sequence[int] | np.ndarray) -> Rows:
        """Return held rows by a slice, a mask, or ascending numbers."""
        index = self._numbers(which)
        require_memory(len(index) * self.n // 4, "rows")
        if not len(index):
            pack = kernels.pack_masked if self.gaps else kernels.pack
            return pack(np.empty((0, self.n), np.int8))
        return self._held(index)

    def _numbers(self, which: slice | Sequence[int] | np.ndarray) -> np.ndarray:
        """Numbers of the rows of a slice, a mask or ascending numbers."""
        m = len(self)
        index = np.arange(*which.indices(m)) if isinstance(which, slice) else np.asarray(which)
        if index.dtype == bool:
            require(index.shape == (m,), "rows", f"a mask of {m} rows", index.shape)
            index = np.flatnonzero(index)
        ordered = not len(index) or (index[0] >= 0 and index[-1] < m)
        ordered = ordered and not (np.diff(index) < 0).any()
        require(ordered, "rows", f"a slice, a mask, or ascending numbers below {m}", which)
        return index

    def _held(self, index: np.ndarray) -> Rows:
        """Held rows of ascending numbers, at least one."""
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
        """Return rows by a slice, a mask or ascending numbers, which are not held either."""
        index = self._numbers(which)
        return self._other(self.n, lambda: self._picked(index))

    def columns(self, which: np.ndarray) -> Reread:  # noqa: D102
        t = self.totals
        products = None if t.products is None else t.products[np.ix_(which, which)]
        totals = replace(t, products=products, sums=t.sums[which], seen=t.seen[which])
        return Reread(lambda: (p.columns(which) for p in self.parts()), totals, self.made)

    def mapped(self, change: Callable[[Rows], Rows], n: int) -> Reread:  # noqa: D102
        return self._other(n, lambda: map(change, self.parts()))

    def _other(self, n: int, read: Callable[[], Iterator[Rows]]) -> Reread:
        """Rows of n columns with another function to read them."""
        none = Totals.of(kernels.pack(np.empty((0, n), np.int8)))
        return Reread(read, reduce(add, map(Totals.of, read()), none), self.made)


def earlier_totals(rows: Any) -> Totals | None:
    """Sums of an earlier reading of rows that are reread; None of rows that are held in memory."""
    return rows.totals if isinstance(rows, Reread) else None


FAN = 8  # answers added by one task
Answer = TypeVar("Answer")
Block = Any  # a delayed block of packed rows


@dataclass(frozen=True, eq=False)
class DaskRows(Reread):
    """(M, N) rows of +-1, with gaps or without, in blocks on Dask's workers."""

    blocks: tuple[Block, ...]  # delayed packed rows, kept on the worker that made them
    sizes: tuple[int, ...]  # rows of each block

    @classmethod
    def of(cls, blocks: Sequence[Block], made: Callable[[], int] = lambda: 1) -> DaskRows:
        """Make the blocks, keep them on their workers, and compute their totals."""
        dask = import_dask()
        kept = dask.persist(*blocks)
        each = [dask.delayed(Totals.of, pure=False)(block) for block in kept]
        sizes, totals = dask.compute([dask.delayed(len)(block) for block in kept], _tree(each))
        pairs = [pair for pair in zip(kept, sizes, strict=True) if pair[1]]
        return cls._over([b for b, _ in pairs], [size for _, size in pairs], totals, made)

    @classmethod
    def _over(
        cls, blocks: Sequence[Block], sizes: Sequence[int], totals: Totals, made: Callable[[], int]
    ) -> DaskRows:
        def read() -> Iterator[Rows]:
            return (block.compute() for block in blocks)

        return cls(read, totals, made, tuple(blocks), tuple(sizes))

    @property
    def starts(self) -> np.ndarray:
        """Number of rows before each block, and in all."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    def total(  # noqa: D102
        self,
        question: Callable[..., Answer],
        placed: bool = False,
        enough: Callable[[Answer], bool] | None = None,  # noqa: ARG002 - blocks run at once
    ) -> Answer:
        befores = [(int(first),) for first in self.starts] if placed else [()] * len(self.blocks)
        pairs = zip(self.blocks, befores, strict=False)
        return _tree(self._asked(question, pairs)).compute()

    def where(self, fits: Callable[[Rows], np.ndarray]) -> DaskRows:  # noqa: D102
        pairs = ((block, ()) for block in self.blocks)
        return DaskRows.of(self._asked(lambda p: p[np.flatnonzero(fits(p))], pairs), self.made)

    def _held(self, index: np.ndarray) -> Rows:
        return kernels.concatenate(list(import_dask().compute(*self._taken(index))))

    def chosen(self, which: slice | np.ndarray) -> DaskRows:  # noqa: D102
        return DaskRows.of(self._taken(self._numbers(which)), self.made)

    def columns(self, which: np.ndarray) -> DaskRows:  # noqa: D102
        dask = import_dask()
        totals = super().columns(which).totals
        blocks = dask.persist(*(dask.delayed(Rows.columns)(block, which) for block in self.blocks))
        return self._over(blocks, self.sizes, totals, self.made)

    def _taken(self, index: np.ndarray) -> list[Block]:
        """Blocks of the rows of ascending numbers; at least one block, perhaps empty."""
        take, starts = import_dask().delayed(getitem, pure=False), self.starts
        cuts = np.searchsorted(index, starts)
        parts = [index[a:b] - s for a, b, s in zip(cuts, cuts[1:], starts, strict=False)]
        pairs = [pair for pair in zip(self.blocks, parts, strict=True) if len(pair[1])]
        return [take(block, part) for block, part in pairs or [(self.blocks[0], index)]]

    def _asked(self, question: Callable[..., Any], pairs: Any) -> list[Block]:
        """Answers of blocks, each with arguments of its own; the question is sent once."""
        from cloudpickle import dumps

        dask = import_dask()
        sent = dask.delayed(pickle.loads, pure=False)(dumps(question))
        ask = dask.delayed(call, pure=False)
        return [ask(sent, block, *own) for block, own in pairs]


def _tree(answers: Sequence[Block]) -> Block:
    """Sum delayed answers, `FAN` neighbours at a time."""
    added = import_dask().delayed(partial(reduce, add), pure=False)
    while len(answers) > 1:
        answers = [added(list(answers[i : i + FAN])) for i in range(0, len(answers), FAN)]
    return answers[0]
