"""How much less rows say of the classes where they are unsure which one they are of.

Sums over classes count a row by its responsibilities, as if each part of it were sure of its class.
But a row that may be of one class as well as of another does not tell the two apart. Of column j,
which a part ``f_j`` of the rows has, the information about the means of all classes is not
``f_j diag(n)`` but ``f_j S``: S is the sum over rows of the products of two responsibilities. With
a prior that weighs c rows, Laplace's method adds to the evidence of the sums

    1/2 sum_j [log det(c + f_j diag(n)) - log det(c + f_j S)],

which is 0 where rows are sure. With it classes whose rows have few entries are found. It also
keeps c, which is fitted to the same sums, from running away: without it classes are shrunk towards
each other, their rows are less sure, and the next sums look as if classes differed less still.

By the same information the variance of a mean is that of sure rows times ``(c + f_j n_k)`` times
element k of the diagonal of ``(c + f_j S)^-1``.

Source: theory/NOTES.md, "Starting the classes", "Resolution".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.kernels.mixtures import log_ratios

ALIKE = 1.0  # nats for a class that do not count: one that is like another would cost nothing


@dataclass(frozen=True)
class Unsure:
    """What the evidence needs to know of the responsibilities.

    Attributes
    ----------
    counts : (K,) rows of each class, were they sure.
    told : (K,) eigenvalues of S: the rows that tell along the directions of class space.
    observed : (N,) part of the entries of each column that is observed.
    weights : (N,) of the columns: one, and less for the levels of a variable.

    Examples
    --------
    >>> column = np.ones(1)
    >>> sure = Unsure.of(np.array([3.0, 5.0]), np.diag([3.0, 5.0]), column, column)
    >>> sure.evidence(2.0)
    0.0
    >>> rows = np.array([[0.5, 0.5]] * 8)  # of either class alike: both means are their sum
    >>> coins = Unsure.of(rows.sum(axis=0), rows.T @ rows, column, column)
    >>> float(np.exp(2 * coins.evidence(2.0)).round(9)) == (2 + 4) ** 2 / (2 * (2 + 4))
    True
    """

    counts: np.ndarray
    told: np.ndarray
    observed: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls, counts: np.ndarray, pairs: np.ndarray, observed: np.ndarray, weights: np.ndarray
    ) -> Unsure:
        """Take counts (K,) and S (K, K)."""
        return cls(counts, directions_told(pairs), observed, weights)

    def at(self, columns: np.ndarray) -> Unsure:
        """The same of some columns (indices)."""
        return replace(self, observed=self.observed[columns], weights=self.weights[columns])

    def evidence(self, c: float, paid: np.ndarray | None = None) -> float:
        """What is added to the evidence of the sums, in nats.

        Parameters
        ----------
        c : rows that the prior weighs.
        paid : (N,) nats that the means of all classes cost in each column. Where entries hardly
            vary that is less than Laplace's method says, and as much less is given back.
        """
        added = log_ratios(self.counts, self.told, self.observed, c) / 2
        if paid is not None and not np.isinf(c):
            cost = np.log1p(np.outer(self.counts, self.observed) / c).sum(axis=0) / 2
            added = added * np.clip(paid / np.maximum(cost, 1e-12), 0.0, 1.0)
        return float(added @ self.weights)


def directions_told(pairs: np.ndarray) -> np.ndarray:
    """Eigenvalues (K,) of S: the rows that tell along the directions of class space."""
    found: np.ndarray = np.maximum(np.linalg.eigvalsh(pairs), 0.0)
    return found


def loss(counts: np.ndarray, pairs: np.ndarray, observed: np.ndarray, c: float) -> np.ndarray:
    """(K, N) by which the variance of each mean is above that of sure rows: at least 1.

    Parameters
    ----------
    counts, pairs : (K,) rows of each class, and S (K, K).
    observed : (N,) part of the entries of each column that is observed.
    c : rows that the prior weighs, above 0.

    Examples
    --------
    >>> loss(np.array([3.0, 5.0]), np.diag([3.0, 5.0]), np.ones(1), 2.0).tolist()
    [[1.0], [1.0]]
    >>> rows = np.array([[0.5, 0.5]] * 8)  # of either class alike
    >>> loss(rows.sum(axis=0), rows.T @ rows, np.ones(1), 2.0).round(3).tolist()
    [[2.0], [2.0]]
    """
    told, directions = np.linalg.eigh(pairs)
    told = np.maximum(told, 0.0)
    found = directions**2 @ (1 / (c + np.outer(told, observed)))
    return np.asarray(np.maximum(found * (c + np.outer(counts, observed)), 1.0))
