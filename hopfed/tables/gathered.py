"""Packed rows as they are read: they are held while they fit, and read again once they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hopfed import kernels
from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import Reread, Totals


class Gathered:
    """Packed rows as they come: held while they take at most so many bytes, else added up."""

    def __init__(self, label: str, most: int | None = None):
        self.label, self.most = label, most
        self.nbytes = 0
        self._parts: list[Rows] = []
        self._totals: Totals | None = None

    @property
    def holds(self) -> bool:
        """Whether all rows are held so far."""
        return self._totals is None

    def add(self, part: Rows) -> None:
        """Take some more rows."""
        if self._totals is not None:
            self._totals.add(part)
            return
        self._parts.append(part)
        self.nbytes += part.nbytes
        if self.most is None:
            require_memory(self.nbytes, self.label)  # to put them together
        elif self.nbytes > self.most:
            self._totals = Totals.none(part.n)
            for held in self._parts:
                self._totals.add(held)
            self._parts = []

    def rows(
        self, again: Callable[[], Iterator[Rows]], made: Callable[[], int] = lambda: 1
    ) -> Rows:
        """Return all rows, or what stands for them."""
        if self._totals is not None:
            return Reread(again, self._totals, made)
        if not self._parts:
            raise DataError(f"{self.label}: at least two examples are needed, got 0")
        return kernels.concatenate(self._parts)
