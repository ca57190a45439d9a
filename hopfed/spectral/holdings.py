"""Second moments of owners who hold different columns, pooled so that owners are no classes.

A column that an owner does not hold is missing in all of its rows, and so are the others that it
lacks: gaps that come together, unlike those of one row. Two things follow for the pooled second
moment, and both are mended from the column sums of every owner:

- zero-filled rows of different owners have different means, which look like classes. So the mean
  of a column is taken off where the column is held only;
- a product of two columns is seen by the owners who hold both. Each entry is multiplied by what
  leaves of it what gaps at random would have left (`hopfed.theory.held_columns`), or a class would
  have as many directions as there are owners. Noise is no longer white then; its edge is known.

A pair of columns that no owner holds together says nothing, and its entry is 0. The count is right
where there are no classes. Strong classes are counted a few times too often, since what chance
makes of a class differs from owner to owner. The search merges what was counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator
from hopfed.spectral.row_energy import diagonal_and_mean
from hopfed.spectral.scaling import DerivedOperator
from hopfed.theory import held_columns

KINDS = 64  # of columns from which the edge is computed, the most numerous ones


@dataclass(frozen=True)
class Holdings:
    """Which owner holds which columns, and their sums.

    Attributes
    ----------
    rows : (L,) of each owner.
    seen, sums : (L, N) number of the entries of a column at each owner, and their sum.

    Examples
    --------
    >>> x = np.array([[1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    >>> here, there = (FactorOperator.from_examples(rows) for rows in (x, x[:, ::-1]))
    >>> found = Holdings.of([here, there])
    >>> found.held.astype(int).tolist(), found.label.tolist(), Holdings.of([here, here]) is None
    ([[1, 1, 0], [0, 1, 1]], [1, 2, 0], True)
    """

    rows: np.ndarray
    seen: np.ndarray = field(repr=False)
    sums: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, owners: Sequence[FactorOperator]) -> Self | None:
        """Look at the columns of owners; None where all hold the same ones."""
        moments = [diagonal_and_mean(op) for op in owners]
        rows = np.array([op.mass for op in owners])
        seen = np.array([d for d, _ in moments]) * rows[:, None]
        sums = np.array([d * 0 if m is None else m for d, m in moments]) * rows[:, None]
        found = cls(rows, seen, sums)
        return None if found.held.all() else found

    @cached_property
    def held(self) -> np.ndarray:
        """(L, N) whether an owner holds a column; one that nobody holds counts as held by all."""
        there = np.asarray(self.seen) > 0
        return np.asarray(there | ~there.any(axis=0))

    @cached_property
    def _kinds(self) -> tuple[np.ndarray, np.ndarray]:
        kinds, label = np.unique(self.held.T, axis=0, return_inverse=True)
        return kinds.T, label.ravel()

    @property
    def label(self) -> np.ndarray:
        """(N,) kind of each column: those of one kind are held by the same owners."""
        return self._kinds[1]

    @cached_property
    def shares(self) -> np.ndarray:
        """(L,) of the rows."""
        return np.asarray(self.rows / self.rows.sum())

    @cached_property
    def factors(self) -> np.ndarray:
        """(G, G) what entries of the second moment are multiplied by, by kind of both columns."""
        return held_columns.factors(self._kinds[0], self.shares)

    @cached_property
    def spread(self) -> np.ndarray:
        """(N,) mean squares of zero-filled columns about their means where they are held."""
        mean, centres = self._centres
        taken = 2 * mean * centres - centres**2
        found: np.ndarray = self.seen.sum(axis=0) / self.rows.sum() - self.shares @ taken
        return found

    @cached_property
    def _centres(self) -> tuple[np.ndarray, np.ndarray]:
        """(L, N) mean of each owner's zero-filled rows, and what it would be at the common mean."""
        common = self.sums.sum(axis=0) / np.maximum(self.seen.sum(axis=0), 1)
        rows = self.rows[:, None]
        return self.sums / rows, self.seen / rows * common

    def stretch(self, varying: np.ndarray) -> float:
        """Edge of the noise of the columns `varying` (N,) over that of white noise."""
        kinds, label = self._kinds
        sizes = np.bincount(label[varying], minlength=kinds.shape[1]).astype(np.float64)
        chosen = np.argsort(-sizes, kind="stable")[:KINDS]
        chosen = chosen[sizes[chosen] > 0]
        ratios = sizes[chosen] * sizes.sum() / sizes[chosen].sum() / self.rows.sum()
        edge = held_columns.upper_edge(kinds[:, chosen], self.shares, ratios)
        return float(edge / (1 + np.sqrt(ratios.sum())) ** 2)

    def matched(self, operator: HebbianOperator) -> tuple[HebbianOperator, HebbianOperator]:
        """The second moment about the columns' means, and with these, as gaps at random leave it.

        Parameters
        ----------
        operator : the pooled one, of zero-filled rows.
        """
        mean, centres = self._centres
        root = np.sqrt(self.shares)[:, None]
        whole = self.sums.sum(axis=0) / self.rows.sum()
        about = MatchedOperator(
            *(operator.n_sites, operator.mass, operator.sum_sq_weights),
            base=operator,
            taken=like(np.concatenate([root * (mean - centres), root * mean]).T, operator.home),
            label=self.label,
            factors=self.factors,
            diagonal=like((1 - np.diag(self.factors)[self.label]) * self.spread, operator.home),
            mean=like(0 * whole, operator.home),
        )
        both = about, replace(about, mean=like(whole, operator.home))
        if isinstance(operator, DenseOperator):
            return both[0].dense(), both[1].dense()
        return both


@dataclass(frozen=True)
class MatchedOperator(DerivedOperator):
    """``F * (S - taken) + diag + mass m m^T`` as products with `base`, * entry by entry.

    Attributes
    ----------
    base : the operator of zero-filled rows.
    taken : (N, 2 L) pairs of columns b, a: ``sum a a^T - b b^T`` is taken off C.
    label, factors : (N,) and (G, G): F has ``factors[label_i, label_j]``.
    diagonal : (N,) what is added to the diagonal of C.
    mean : (N,) m.
    """

    made = "matched"
    taken: Array = field(repr=False)
    label: np.ndarray = field(repr=False)
    factors: np.ndarray = field(repr=False)
    diagonal: Array = field(repr=False)
    mean: Array = field(repr=False)

    def matmat(self, X: Array) -> Array:  # noqa: D102
        xp = namespace(X)
        k, kinds = X.shape[1], len(self.factors)
        one = xp.astype(like(np.eye(kinds)[self.label], X), X.dtype)  # (N, G)
        apart = xp.reshape(one[:, :, None] * X[:, None, :], (-1, kinds * k))
        found = self.base.matmat(apart) - self._taken(apart)
        weights = xp.astype(like(self.factors[self.label], X), X.dtype)
        found = xp.sum(xp.reshape(found, (-1, kinds, k)) * weights[:, :, None], axis=1)
        d, m = (xp.astype(x, X.dtype)[:, None] for x in (self.diagonal, self.mean))
        return found + d * X + m * (m.T @ X)

    def _taken(self, X: Array) -> Array:
        both = namespace(X).astype(self.taken, X.dtype)
        half = both.shape[1] // 2
        b, a = both[:, :half], both[:, half:]
        found: Array = a @ (a.T @ X) - b @ (b.T @ X)
        return found

    def dense(self) -> DenseOperator:
        """The same as a matrix, of a base that is one."""
        if not isinstance(self.base, DenseOperator):
            raise ArgumentError("base", "a matrix", type(self.base).__name__)
        C = to_host(self.base.matrix) / self.mass - self._taken(np.eye(self.n_sites))
        C = C * self.factors[np.ix_(self.label, self.label)]
        m = to_host(self.mean)
        C += np.diag(to_host(self.diagonal)) + m[:, None] * m
        matrix = like(C * self.mass, self.base.matrix)
        return DenseOperator(self.n_sites, self.mass, self.sum_sq_weights, matrix)

    @property
    def nbytes(self) -> int:  # noqa: D102
        return int(self.base.nbytes + 8 * self.n_sites * (2 + self.taken.shape[1] // 2))
