"""Missing entries of examples: how many, the first, and rows and columns without any entry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like, to_host
from hopfed.kernels import MaskedBits, PackedBits

SHOWN = 5  # rows or columns that a line names


@dataclass(frozen=True)
class Gaps:
    """Missing entries of an (M, N) table; rows and columns are counted from 0.

    Attributes
    ----------
    shape : (M, N).
    entries : number of entries that are missing.
    first : row and column of the first one, row by row; None if there is none.
    rows, columns : those that are missing altogether.

    Examples
    --------
    >>> gaps = Gaps.of(kernels.pack_masked([[1, None, -1], [None, None, 1]]))
    >>> gaps.entries, gaps.first, gaps.rows, gaps.columns
    (3, (0, 1), (), (1,))
    >>> print(gaps)
    3 of 6 entries are missing (50%); nothing is known in column 2
    """

    shape: tuple[int, int]
    entries: int
    first: tuple[int, int] | None
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, examples: PackedBits | MaskedBits) -> Gaps:
        """Look at packed examples, on the host or on a device."""
        m, n = examples.shape
        if isinstance(examples, PackedBits):
            return cls((m, n), 0, None, (), ())
        ones = like(np.ones(n), examples.seen.words)
        by_row = to_host(kernels.seen_matmat(examples, ones)).astype(np.int64)
        by_column = to_host(kernels.seen_counts(examples))
        first = None
        if (by_row < n).any():
            row = int((by_row < n).argmax())
            line = to_host(kernels.unpack(examples[row : row + 1]))[0]
            first = row, int((line == 0).argmax())
        return cls(
            (m, n),
            m * n - int(by_row.sum()),
            first,
            tuple(np.flatnonzero(by_row == 0).tolist()),
            tuple(np.flatnonzero(by_column == 0).tolist()),
        )

    def __str__(self) -> str:
        if not self.entries:
            return "no entry is missing"
        size = self.shape[0] * self.shape[1]
        are = "is" if self.entries == 1 else "are"
        share = _percent(self.entries / size)
        line = f"{self.entries:,} of {size:,} entries {are} missing ({share})"
        empty = [_named("row", self.rows), _named("column", self.columns)]
        named = " and ".join(part for part in empty if part)
        return f"{line}; nothing is known in {named}" if named else line


def _percent(share: float) -> str:
    """Whole percentage, or that it is under one."""
    return f"{100 * share:.0f}%" if share >= 0.01 else "under 1%"


def _named(what: str, numbers: tuple[int, ...]) -> str:
    """Some rows or columns, counted from 1."""
    if not numbers:
        return ""
    named = ", ".join(str(k + 1) for k in numbers[:SHOWN])
    more = f" and {len(numbers) - SHOWN:,} more" if len(numbers) > SHOWN else ""
    return f"{what}{'s' if len(numbers) > 1 else ''} {named}{more}"
