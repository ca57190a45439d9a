"""Choice of filters: those whose bits correlate most with the residuals of a first read-out.

Source: theory/NOTES.md, "Ridge and privacy of the read-out". It is a step of boosting, which adds
functions that correlate with the residuals (J. H. Friedman, Annals of Statistics 29 (2001) 1189).
Here a function is a filter with the bits of its fields. Its correlation is a sum over examples, so
clients can choose together without sending images.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hopfed._lib.settings import require

RIDGE = 0.3  # of the first read-out
PART = 4  # kept filters for each one of the first read-out; those of it are kept in any case
STEPS = 31  # residuals are rounded to multiples of 1 / 31, and cut at 1
ROWS = 4096  # examples at a time, so that sums in single precision are exact


@dataclass(frozen=True)
class Selection:
    """How many of how many filters are kept.

    Features are ordered as in `hopfed.neural.readouts.bits.Filters`: by sign, filter and field.

    Attributes
    ----------
    candidates : filters to choose from.
    kept : how many are chosen.
    places : fields over which a filter's responses are averaged, in all.

    Raises
    ------
    ArgumentError : there are not more candidates than are kept.

    Examples
    --------
    >>> choose = Selection(candidates=16, kept=8, places=4)
    >>> choose.first, choose.length, choose.columns([0, 3])[:8].tolist()
    (2, 128, [0, 1, 2, 3, 12, 13, 14, 15])
    """

    candidates: int
    kept: int
    places: int

    def __post_init__(self) -> None:
        rule = f"more than the {self.kept} filters that are kept"
        require(self.candidates > self.kept, "candidates", rule, self.candidates)

    @property
    def first(self) -> int:
        """Filters of the first read-out."""
        return max(self.kept // PART, 1)

    @property
    def length(self) -> int:
        """Features of all candidates."""
        return 2 * self.candidates * self.places

    def columns(self, filters: Iterable[int]) -> np.ndarray:
        """Features (2 k places,) of k filters, in the order of filters that are only these."""
        every = np.arange(self.length).reshape(2, self.candidates, self.places)
        return every[:, list(filters)].ravel()

    def residual_sums(self, bits: np.ndarray, labels: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Sum of each candidate's bit times the residual of each class in the first read-out.

        Parameters
        ----------
        bits : (n, length + 1) of +-1, those of all candidates and the constant.
        labels : (n,).
        W : (D, C), the first read-out, of the bits of the first filters and the constant.

        Returns
        -------
        (length, C) integers, in steps of 1 / `STEPS`; of 16 bits where these hold them.

        Examples
        --------
        >>> choose = Selection(candidates=2, kept=1, places=1)
        >>> bits = np.array([[1, 1, -1, -1, 1], [1, -1, -1, 1, 1]], np.float32)
        >>> choose.residual_sums(bits, np.array([0, 1]), np.zeros((3, 2))).tolist()
        [[31, 31], [31, -31], [-31, -31], [-31, 31]]
        """
        seen = np.append(self.columns(range(self.first)), self.length)
        one_hot = np.eye(W.shape[1])[labels]
        total = np.zeros((self.length, W.shape[1]), np.int64)
        for start in range(0, len(bits), ROWS):
            block = bits[start : start + ROWS]
            left = one_hot[start : start + ROWS] - block[:, seen].astype(np.float64) @ W
            steps = np.rint(STEPS * np.clip(left, -1, 1)).astype(np.float32)
            total += (block[:, :-1].T @ steps).astype(np.int64)
        small = np.abs(total).max(initial=0) <= np.iinfo(np.int16).max
        return total.astype(np.int16 if small else np.int32)

    def chosen(self, sums: np.ndarray) -> np.ndarray:
        """Filters (kept,) in rising order: the first ones, and those whose sums are largest.

        Parameters
        ----------
        sums : (length, C), of all clients; a filter's are squared and added up.

        Examples
        --------
        >>> choose = Selection(candidates=3, kept=2, places=1)
        >>> choose.chosen(np.array([[0], [1], [2], [0], [-4], [2]])).tolist()
        [0, 1]
        """
        squares = (np.asarray(sums, np.float64) ** 2).sum(axis=1)
        merit = squares.reshape(2, self.candidates, self.places).sum(axis=(0, 2))
        merit[: self.first] = np.inf
        return np.sort(np.argsort(-merit, kind="stable")[: self.kept])
