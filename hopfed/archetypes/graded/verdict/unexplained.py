"""Residuals of an owner's entries, ``x - E[x | row]``, 0 where an entry is missing: as numbers.

A product with them then costs two multiplications for an entry, however many classes there are. In
a table of some size they are kept from one product to the next, in blocks of rows; in a larger one
every block is made anew, which costs what the classes do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed.archetypes.graded.owners.asking import Owner
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.spectral.rows import Bits, array_beside

BLOCK = 1 << 18  # entries of a block: what a core's cache holds
ON_DEVICE = 1 << 24  # the same where every call costs more
KEPT = 1 << 25  # entries of a table of which the residuals are kept


@dataclass
class Unexplained:
    """Residuals of one owner's rows at the classes that it was last asked about.

    Attributes
    ----------
    owner : of the rows.
    kept : blocks of residuals in single precision, by their first row; made when first asked for.
    """

    owner: Owner
    kept: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        M, N = self.owner.rows.shape
        return 4 * M * N if M * N <= KEPT else 0

    def squares(self, pairs: tuple[np.ndarray, np.ndarray] | None = None) -> list[np.ndarray]:
        """Squares (N,) added up by column; and the products (P,) of these pairs of columns."""

        def of(block: Array, often: Array) -> list[np.ndarray]:
            found = [often @ block**2]
            if pairs is not None:
                found.append(often @ (block[:, pairs[0]] * block[:, pairs[1]]))
            return [to_host(x).astype(np.float64) for x in found]

        return [sum(x[1:], start=x[0]) for x in zip(*self._each(of), strict=True)]

    def product(self, w: np.ndarray) -> np.ndarray:
        """Product (N,) of the residual moment with a vector, ``E^T (E w)``."""

        def of(block: Array, often: Array) -> np.ndarray:
            return to_host(((block @ like(w, block)) * often) @ block).astype(np.float64)

        found = self._each(of)
        return np.asarray(sum(found[1:], start=found[0]))

    def _each(self, of: Callable[[Array, Array], Array]) -> list[Array]:
        """What is asked of every block and how often its rows occur, in the order of the rows."""
        M, N = self.owner.rows.shape
        here = isinstance(array_beside(self.owner.rows), np.ndarray)
        blocks = spans(M, max(1, (BLOCK if here else ON_DEVICE) // N))
        answers: list[Array] = [None] * len(blocks)

        def task(i: int) -> None:
            block = self._block(*blocks[i])
            often = self.owner.often[slice(*blocks[i])]
            answers[i] = of(block, namespace(block).astype(often, block.dtype))

        if not here:
            for i in range(len(blocks)):
                task(i)
            return answers
        with blas_threads(1):
            for_each(task, range(len(blocks)))
        return answers

    def _block(self, first: int, last: int) -> Array:
        if first in self.kept:
            return self.kept[first]
        owner = self.owner
        x = owner.rows[first:last]
        x = kernels.unpack(x, np.float32) if isinstance(x, Bits) else x
        xp = namespace(x)
        R = xp.astype(owner.posterior[first:last], xp.float32)
        found = x - R @ like(owner.means.astype(np.float32), R)
        if not isinstance(owner.rows, kernels.PackedBits):
            found *= x != 0
        if self.nbytes:
            self.kept[first] = found
        return found
