"""Columns that belong together: the levels of one categorical variable, of which a row has one.

Such columns are not independent within a class: one of them is +1, so the likelihood of a row has
the probability of its own level and nothing of the others, and their covariance within a class is
``-4 p_a p_b`` (multinomial). All that says so takes it from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Variables:
    """Which columns are levels of one variable.

    Attributes
    ----------
    label : (N,) number of the variable of each column; -1 for a column of its own.

    Examples
    --------
    >>> variables = Variables.of([(1, 2, 3)], 5)
    >>> variables.label.tolist(), variables.part.round(2).tolist()
    ([-1, 0, 0, 0, -1], [0.0, 0.33, 0.33, 0.33, 0.0])
    >>> variables.normalised(np.array([[0.5, 0.2, 0.2, 0.4, 0.5]])).tolist()
    [[0.5, 0.25, 0.25, 0.5, 0.5]]
    """

    label: np.ndarray

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], n: int) -> Variables:
        """Take groups of column numbers, of n columns."""
        label = np.full(n, -1)
        for k, group in enumerate(groups):
            label[list(group)] = k
        return cls(label)

    @cached_property
    def inside(self) -> np.ndarray:
        """(N,) whether a column is a level."""
        return np.asarray(self.label >= 0)

    @property
    def count(self) -> int:
        """Number of variables of several columns."""
        return int(self.label.max(initial=-1)) + 1

    @cached_property
    def part(self) -> np.ndarray:
        """(N,) what a level is of its variable's columns; 0 for a column of its own."""
        sizes = np.bincount(self.label[self.inside], minlength=1)
        return np.asarray(np.where(self.inside, 1 / np.maximum(sizes, 1)[self.label], 0.0))

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Both columns of every ordered pair of different levels of one variable."""
        found = [(a, b) for group in self.groups() for a in group for b in group if a != b]
        a, b = np.array(found, dtype=int).reshape(-1, 2).T
        return a, b

    def groups(self) -> list[np.ndarray]:
        """Column numbers of each variable of several columns."""
        return self._groups

    @cached_property
    def _groups(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.label == k) for k in range(self.count)]

    def sums(self, x: np.ndarray) -> np.ndarray:
        """(K, N) of numbers added up over the columns of a variable, at each of them."""
        if not self.count:
            return x
        whole = x.astype(np.float64)
        for group in self.groups():
            whole[..., group] = x[..., group].sum(axis=-1, keepdims=True)
        return whole

    def normalised(self, rates: np.ndarray) -> np.ndarray:
        """(K, N) rates of +1, those of the levels of a variable adding up to one."""
        if not self.count:
            return rates
        return np.where(self.inside, rates / np.maximum(self.sums(rates), 1e-12), rates)
