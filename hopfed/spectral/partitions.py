"""Rows in partitions on Dask's workers: every question about them is a task where a partition lies.

The packed bits of the partitions stay in the workers' memory. A question travels to them, and sums
come back: numbers of columns, of patterns and of both. Neighbouring answers are added up by the
workers, always in one order. What a lost worker held is made again by Dask, from the source.

Without a cluster (`dask.distributed.Client`) the tasks run in the threads of this process.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, call, getitem
from typing import Any, TypeVar

import numpy as np

from hopfed import kernels
from hopfed._lib.cluster import dask_itself
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Reread, Totals

FAN = 8  # answers that one task adds up
Answer = TypeVar("Answer")
Block = Any  # of packed rows, delayed


@dataclass(frozen=True, eq=False)
class Partitioned(Reread):
    """(M, N) rows of +-1, with gaps or without, in blocks that lie on Dask's workers."""

    blocks: tuple[Block, ...]  # delayed packed rows, which are kept where they were made
    sizes: tuple[int, ...]  # rows of each block

    @classmethod
    def of(cls, blocks: Sequence[Block], made: Callable[[], int] = lambda: 1) -> Partitioned:
        """Have blocks made and kept where they lie, and what they add up to."""
        dask = dask_itself()
        kept = dask.persist(*blocks)
        each = [dask.delayed(_summed, pure=False)(block, i) for i, block in enumerate(kept)]
        sizes, totals = dask.compute([dask.delayed(len)(block) for block in kept], _tree(each))
        pairs = [pair for pair in zip(kept, sizes, strict=True) if pair[1]]
        return cls._over([b for b, _ in pairs], [size for _, size in pairs], totals, made)

    @classmethod
    def _over(
        cls, blocks: Sequence[Block], sizes: Sequence[int], totals: Totals, made: Callable[[], int]
    ) -> Partitioned:
        def read() -> Iterator[Rows]:
            return (block.compute() for block in blocks)

        return cls(read, totals, made, tuple(blocks), tuple(sizes))

    @property
    def starts(self) -> np.ndarray:
        """Number of rows before each block, and of all."""
        return np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    def total(  # noqa: D102
        self,
        question: Callable[..., Answer],
        placed: bool = False,
        enough: Callable[[Answer], bool] | None = None,  # noqa: ARG002 - all are asked at once
    ) -> Answer:
        befores = [(int(first),) for first in self.starts] if placed else [()] * len(self.blocks)
        pairs = zip(self.blocks, befores, strict=False)
        return _tree(self._asked(question, pairs)).compute()

    def where(self, fits: Callable[[Rows], np.ndarray]) -> Partitioned:  # noqa: D102
        pairs = ((block, ()) for block in self.blocks)
        return Partitioned.of(self._asked(lambda p: p[np.flatnonzero(fits(p))], pairs), self.made)

    def _held(self, index: np.ndarray) -> Rows:
        return kernels.concatenate(list(dask_itself().compute(*self._taken(index))))

    def chosen(self, which: slice | np.ndarray) -> Partitioned:  # noqa: D102
        return Partitioned.of(self._taken(self._numbers(which)), self.made)

    def columns(self, which: np.ndarray) -> Partitioned:  # noqa: D102
        dask = dask_itself()
        totals = super().columns(which).totals
        blocks = dask.persist(*(dask.delayed(Rows.columns)(block, which) for block in self.blocks))
        return self._over(blocks, self.sizes, totals, self.made)

    def _taken(self, index: np.ndarray) -> list[Block]:
        """Blocks of the rows of ascending numbers; at least one, if of no rows."""
        take, starts = dask_itself().delayed(getitem, pure=False), self.starts
        cuts = np.searchsorted(index, starts)
        parts = [index[a:b] - s for a, b, s in zip(cuts, cuts[1:], starts, strict=False)]
        pairs = [pair for pair in zip(self.blocks, parts, strict=True) if len(pair[1])]
        return [take(block, part) for block, part in pairs or [(self.blocks[0], index)]]

    def _asked(self, question: Callable[..., Any], pairs: Any) -> list[Block]:
        """What blocks answer, each with what it is told beside; the question is sent once."""
        from cloudpickle import dumps

        dask = dask_itself()
        sent = dask.delayed(pickle.loads, pure=False)(dumps(question))
        ask = dask.delayed(call, pure=False)
        return [ask(sent, block, *told) for block, told in pairs]


def _summed(part: Rows, block: int) -> Totals:
    """What one block adds up to."""
    totals = Totals.none(part.n, block)
    if len(part):
        totals.add(part)
    return totals


def _tree(answers: Sequence[Block]) -> Block:
    """The sum of delayed answers, `FAN` neighbours at a time."""
    added = dask_itself().delayed(partial(reduce, add), pure=False)
    while len(answers) > 1:
        answers = [added(list(answers[i : i + FAN])) for i in range(0, len(answers), FAN)]
    return answers[0]
