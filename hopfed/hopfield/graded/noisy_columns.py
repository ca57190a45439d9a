"""Which columns owners have, in answers with noise; others stand in for one that lacks some.

An owner that lacks a column says exactly 0 of it, for every class: noise on a column that it has
does so once in millions of answers. In the pooled sums its rows of a class are given the rates
that the other owners have there. So its rows do not look like a class of their own; but what is
known of the column has the noise of fewer rows, and what is known of two columns that of the
owners who have both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopfed.federation.messages import Message
from hopfed.hopfield.graded.robust import trimmed
from hopfed.hopfield.headers import ABSENT

FEW = 1e-3  # smallest part of an owner's rows that a class is taken to have
BELIEVED = 3  # of so many owners, or fewer, one alone is believed about two columns


@dataclass(frozen=True)
class Present:
    """The columns that owners have.

    Attributes
    ----------
    columns : (L, N) whether each owner has each.
    """

    columns: np.ndarray

    @classmethod
    def of(cls, said: Sequence[Message]) -> Present:
        """Read it off what owners said; who lacks more than may be lacked has said 0 of some."""
        has = np.array([((m["seen"] != 0) | (m["signed"] != 0)).any(axis=0) for m in said])
        lacks = (~has).sum(axis=1)
        has[lacks > has.shape[1] // ABSENT] = True
        return cls(has)

    @property
    def all(self) -> bool:
        """Whether every owner has every column."""
        return bool(self.columns.all())

    @property
    def pairs(self) -> np.ndarray:
        """(L, N (N - 1) / 2) whether each owner has both columns."""
        i, j = np.triu_indices(self.columns.shape[1], 1)
        return np.asarray(self.columns[:, i] & self.columns[:, j])

    def filled(
        self, name: str, each: np.ndarray, counts: np.ndarray, weights: np.ndarray, cut: int
    ) -> np.ndarray:
        """What owners said, and for what they lack what others said, class by class."""
        if self.all:
            return each
        has = self.pairs if name == "pairs" else self.columns[:, None]
        rows = np.maximum(counts, FEW)[..., None]
        own = weights.reshape(-1, *[1] * (each.ndim - 1))
        rates = np.clip(trimmed(each / rows, has * own * rows, cut), -1.0, 1.0)
        return np.asarray(np.where(has, each, rows * rates))

    def noise(self, rows: np.ndarray, weights: np.ndarray) -> float:
        """Variance of a pooled sum whose noise is 1 at each owner, the mean over columns."""
        each = (weights / rows) ** 2
        if self.all:
            return float(each.sum())
        held = weights @ self.columns
        # A column that few rows alone have is not to hide the others.
        behind = np.maximum(held, np.median(weights))
        found = (each @ self.columns * (weights.sum() / behind) ** 2)[held > 0]
        return float(found.mean())

    def believed(self, weights: np.ndarray, cut: int) -> np.ndarray:
        """How much counts what owners say of each pair of columns, from 0 to 1.

        In proportion to the weight of the owners who have both columns, up to the weight that is
        behind most pairs: what few rows say has so much noise that it would hide what is known of
        the other pairs. A pair counts for nothing where half of the owners who have both columns
        may lie. Of three owners or fewer even one is believed: where each of three lacks another
        third of the columns, one alone has most pairs.
        """
        held, number = self._both(weights), self._both(np.ones(len(weights)))
        most = np.median(held[np.triu_indices(len(held), 1)])
        part = np.minimum(held / max(float(most), float(np.median(weights))), 1.0)
        return np.where(number > (2 * cut if len(weights) > BELIEVED else 0), part, 0.0)

    def thinner(
        self, rows: np.ndarray, weights: np.ndarray, believed: np.ndarray
    ) -> tuple[float, float]:
        """How much more products of two columns vary than if all owners had all, by noise and rows."""
        if self.all:
            return 1.0, 1.0
        held, each, whole = self._both(weights), (weights / rows) ** 2, weights.sum()
        scale = (believed * whole / np.maximum(held, weights.min())) ** 2
        by_noise, by_rows = scale * self._both(each) / each.sum(), scale * held / whole
        return _largest(by_noise), _largest(by_rows)

    def _both(self, each: np.ndarray) -> np.ndarray:
        """(N, N) sums of something of each owner (L,) over those that have both columns."""
        has = self.columns.astype(float)
        return np.asarray((has * each[:, None]).T @ has)


def _largest(variances: np.ndarray) -> float:
    """Mean over the pairs of a column, of the column where it is largest."""
    np.fill_diagonal(variances, 0.0)
    return float(variances.sum(axis=1).max() / (len(variances) - 1))
