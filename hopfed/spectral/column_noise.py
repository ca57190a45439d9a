"""Noise of independent columns of any rate: where the law of white noise holds.

Columns that are divided by their own standard deviation have the edge of white noise up to the
factor ``1 - 2 / sqrt(M N)``, whatever their kurtosis (theory/NOTES.md, "Counting in whitened
coordinates"), as long as every column has many of its rarer values. With c of them the next terms
go as 1 / c, and rows that happen to hold many rare values have eigenvalues of their own. There the
largest eigenvalue is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from hopfed._lib.arrays import Array, blas_threads
from hopfed._lib.random import stream
from hopfed.theory import tracy_widom

REPEATS = 64  # simulated draws: 5% comes out as 5% +- 2% from one set of draws to another
RARE = 0.03  # what rare values may do to the edge, against the width of the Tracy-Widom law
ENTRIES = 20_000_000  # of a draw: beyond, nothing is simulated, and `uncertain` says so
EXPLICIT = 1_500  # side of a matrix up to which its eigenvalue is computed directly
TW_MEAN, TW_SD = -1.2065335745820, 1.2679805339620
GUMBEL_MEAN, GUMBEL_SD = float(np.euler_gamma), float(np.pi / np.sqrt(6))


@dataclass(frozen=True)
class ColumnNoise:
    """Independent columns of -1, 0 (missing) and +1, as they are once their classes are known.

    Attributes
    ----------
    seen : (N,) share of the rows in which the column is observed, in (0, 1].
    variances : (N,) variance of the zero-filled column within its class, in (0, seen].
    n_examples : M.
    seed : of the simulation.
    stretch : edge where owners hold different columns, over that of white noise.

    Examples
    --------
    >>> common = ColumnNoise(np.ones(50), np.full(50, 0.64), 400)
    >>> round(common.scarcity, 4), common.simulated, common.factor(0.05)
    (0.0056, False, 1.0)
    >>> rare = ColumnNoise(np.ones(300), np.full(300, 0.19), 100)  # five in a hundred
    >>> round(rare.scarcity, 2), rare.simulated, 1.0 < rare.factor(0.05) < 1.1
    (0.17, True, True)
    """

    seen: np.ndarray = field(repr=False)
    variances: np.ndarray = field(repr=False)
    n_examples: int
    seed: int = 0
    stretch: float = 1.0

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) shares of the rows that are +1 and -1, columns turned so that +1 is the commoner."""
        lean = np.sqrt(np.clip(self.seen - self.variances, 0.0, None))  # seen * |mean|
        lean = np.minimum(lean, self.seen)
        return (self.seen + lean) / 2, (self.seen - lean) / 2

    @cached_property
    def scarcity(self) -> float:
        """Mean over columns of ``(E z^4 - 1) / M``: about 1 / (number of rarer values)."""
        up, down = self._counts()
        M = self.n_examples
        shares = np.array([up, down, M - up - down]) / M
        values = np.array([1.0, -1.0, 0.0])[:, None] - (shares[0] - shares[1])
        square = (shares * values**2).sum(axis=0)
        fourth = (shares * values**4).sum(axis=0)
        return float((fourth / square**2 - 1).mean() / M)

    @property
    def scarce(self) -> bool:
        """Whether columns are too rare, for this many rows, for the law of white noise."""
        return bool(self.scarcity**2 > RARE * min(self.n_examples, len(self.seen)) ** (-2 / 3))

    @property
    def simulated(self) -> bool:
        """Whether `factor` simulates."""
        return self.scarce and self.n_examples * len(self.seen) <= ENTRIES

    @property
    def uncertain(self) -> bool:
        """Whether the law does not hold and the matrix is too large to be simulated."""
        return self.scarce and not self.simulated

    def factor(self, alpha: float) -> float:
        """What to multiply the white edge of false-alarm rate `alpha` by."""
        if not self.simulated:
            return self.stretch
        M, N = self.n_examples, len(self.seen)
        centre, scale = tracy_widom.wishart_scaling(M - 1, N)
        shift = (1 - 2 / np.sqrt(M * N)) / M
        white = (centre + scale * tracy_widom.critical_value(alpha)) * shift
        sd = max(float(self.tops.std(ddof=1)), scale * TW_SD * shift)
        # What the Tracy-Widom law leaves of the variance is taken to come from the row with the
        # most rare values; the largest of many such rows has Gumbel's law.
        odd = 1 - (scale * TW_SD * shift / sd) ** 2
        wide = (-np.log(-np.log1p(-alpha)) - GUMBEL_MEAN) / GUMBEL_SD
        usual = (tracy_widom.critical_value(alpha) - TW_MEAN) / TW_SD
        found = float(self.tops.mean()) + sd * (odd * wide + (1 - odd) * usual)
        return max(float(found / white), 1.0) * self.stretch

    @cached_property
    def tops(self) -> np.ndarray:
        """(REPEATS,) simulated largest eigenvalues, in the scale of whitened coordinates."""
        return self.draws(REPEATS)

    def draws(self, repeats: int) -> np.ndarray:
        """(repeats,) largest eigenvalues of columns that are permuted independently."""
        up, down = self._counts()
        place = np.arange(self.n_examples)[:, None]
        Z = (place < up).astype(np.float32) - ((place >= up) & (place < up + down))
        Z -= Z.mean(axis=0)
        Z /= np.sqrt((Z**2).mean(axis=0))
        found = np.empty(repeats)
        for i in range(repeats):
            rng = stream(self.seed, "column noise", i)
            rng.permuted(Z, axis=0, out=Z)
            found[i] = _largest(Z, rng)
        return found * (1 - 1 / self.n_examples)  # as variances about a mean are estimated

    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) numbers of +1 and of -1 in M rows; no column is constant."""
        M = self.n_examples
        up, down = (np.rint(share * M).astype(np.int64) for share in self.shares)
        up = np.clip(up, 1, M - 1)
        full = np.minimum(down, M - up)
        return up, np.where(up + full == M, np.maximum(full, 1), full)


def _largest(Z: Array, rng: np.random.Generator) -> float:
    """Largest eigenvalue of ``Z^T Z / M``."""
    M, N = Z.shape
    short = Z if N <= M else Z.T
    side = short.shape[1]
    if side <= EXPLICIT:
        with blas_threads(1):  # a second thread gains little here, and loses much on a busy machine
            G = (short.T @ short).astype(np.float64)
            last = scipy.linalg.eigh(G, eigvals_only=True, subset_by_index=[side - 1, side - 1])
        return float(float(last[0]) / M)
    product = scipy.sparse.linalg.LinearOperator(
        (side, side), lambda x: short.T @ (short @ x), dtype=np.float32
    )
    start = rng.standard_normal(side).astype(np.float32)
    value = scipy.sparse.linalg.eigsh(product, k=1, v0=start, tol=1e-4, return_eigenvectors=False)
    return float(float(value[0]) / M)
