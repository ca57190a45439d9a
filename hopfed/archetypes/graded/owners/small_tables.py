"""Rows of a small table as numbers: products with them are what BLAS is fastest at.

In a table of some hundred or thousand rows the products of a step of expectation maximisation take
less time than it takes to ask for them. So there are few of them, each over all that is known of
the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array
from hopfed.kernels import MaskedBits
from hopfed.spectral.rows import Bits, array_beside

SMALL = 1 << 21  # entries of a table that is held as numbers
ONE_THREAD = 1 << 18  # entries up to which threads of BLAS would wait for each other


@dataclass(frozen=True, eq=False)
class Numbers:
    """Rows of -1, 0 (missing) and +1 in single precision, or in double where they have counts.

    Attributes
    ----------
    rows : (M, N), or (M, 2 N) where entries are missing: with what is seen, 0 and 1, beside it.
    n : N.

    Examples
    --------
    >>> rows = Numbers.of(kernels.pack_masked(np.array([[1, 0], [-1, 1]])))
    >>> rows.times(np.ones((2, 1), np.float32)).tolist(), rows.gaps
    ([[1.0], [0.0]], True)
    >>> rows.seen_times(np.ones((2, 1), np.float32)).tolist()
    [[1.0], [2.0]]
    """

    rows: np.ndarray = field(repr=False)
    n: int

    @classmethod
    def of(cls, rows: Bits, precision: type = np.float32) -> Numbers:
        """Unpack bits."""
        signs = kernels.unpack(rows, precision)
        if not isinstance(rows, MaskedBits):
            return cls(signs, signs.shape[1])
        return cls(np.hstack([signs, signs**2]), signs.shape[1])

    @property
    def gaps(self) -> bool:
        """Whether entries are missing."""
        return bool(self.rows.shape[1] > self.n)

    @property
    def signs(self) -> np.ndarray:
        """(M, N) entries."""
        return self.rows[:, : self.n]

    def times(self, X: np.ndarray) -> np.ndarray:
        """Return (M, k), the entries times X (N, k)."""
        return np.asarray(self.signs @ X)

    def seen_times(self, X: np.ndarray) -> np.ndarray:
        """Return (M, k) sums of X (N, k) over what is seen of each row."""
        if self.gaps:
            return np.asarray(self.rows[:, self.n :] @ X)
        return np.broadcast_to(
            X.sum(axis=0, dtype=np.float64).astype(X.dtype), (len(self.rows), X.shape[1])
        )

    def logs(self, by_sign: np.ndarray, by_seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over each row of what its entries add, of K kinds, in two parts (K, M) and (K,).

        Parameters
        ----------
        by_sign, by_seen : (K, N) what an entry adds, times its sign and whatever its sign is.
        """
        if self.gaps:
            both = np.hstack([by_sign, by_seen]).astype(self.rows.dtype)
            return both @ self.rows.T, np.zeros(len(both))
        return by_sign.astype(self.rows.dtype) @ self.rows.T, by_seen.sum(axis=1)

    def sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return signed sums and numbers (K, N) of the entries of rows with weights (M, K)."""
        found = weights.T @ self.rows
        if self.gaps:
            return found[:, : self.n], found[:, self.n :]
        seen = weights.sum(axis=0, dtype=np.float64).astype(weights.dtype)
        return found, np.repeat(seen[:, None], self.n, axis=1)


def numbers_of(rows: Bits | Array, precision: type = np.float32) -> Numbers | None:
    """Return the numbers of a small table of bits on the host; None of any other."""
    if not isinstance(rows, Bits) or rows.shape[0] * rows.shape[1] > SMALL:
        return None
    return Numbers.of(rows, precision) if type(array_beside(rows)) is np.ndarray else None
