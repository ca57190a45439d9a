"""Couplings ``J = gain W W^T`` of stored patterns in factor form, and their updates.

With ``X`` (K, N), the patterns over ``sqrt N``, each weighed by the root of its weight, the dreamed
couplings are (theory/NOTES.md, Closed form of dreaming)

    J(t) = (1 + t) X^T (1 + t X X^T)^-1 X = gain X^T (X X^T + ridge)^-1 X,   ridge = 1 / t,

and the projector is ``ridge = 0, gain = 1``. With the Cholesky factor ``L L^T = X X^T + ridge`` the
rows ``U = L^-1 X`` give ``J = gain U^T U``: K vectors in place of an N x N matrix.

A pattern more is one more row of L and of U, a step of Gram and Schmidt, O(K N). A pattern less
takes K rotations of two rows each, O(K N) too. Both are checked afterwards against the patterns;
what has drifted is built anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

DEPENDENT = 1e-8  # relative residual below which a pattern lies in the span of the others
NEARLY = 1e-3  # the same in the Gram matrix, below which its factor has lost digits
LEAST = 1e-300  # dreaming time: one over a shorter one is no number
DRIFT = 1e-9  # relative defect of the factor from which it is built anew


@dataclass(frozen=True, eq=False)
class Couplings:
    """``J = gain rows^T rows`` of patterns, with what is needed to change them."""

    X: np.ndarray = field(repr=False)  # (K, N) float64, the weighed patterns
    # ridge, gain: see the module
    ridge: float
    gain: float
    # (K, R), ``lower lower^T = X X^T + ridge``; lower triangular if R = K
    lower: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)  # (R, N), ``lower rows = X``

    @property
    def full(self) -> bool:
        """Whether no pattern depends on the others."""
        return self.lower.shape[0] == self.lower.shape[1]

    def dense(self) -> np.ndarray:
        """J itself (N, N), for tests and small N."""
        return self.gain * self.rows.T @ self.rows

    def add(self, x: np.ndarray) -> Couplings:
        """Return the couplings with one more pattern x (N,)."""
        along = self.rows @ x
        rest = x - along @ self.rows
        if self.ridge == 0:  # the rows are orthonormal: a second pass makes the rest so, too
            again = self.rows @ rest
            along, rest = along + again, rest - again @ self.rows
            length = float(np.linalg.norm(rest))
        else:
            length = float(np.sqrt(max(x @ x + self.ridge - along @ along, 0.0)))
        X = np.concatenate([self.X, x[None]])
        if length <= DEPENDENT * np.linalg.norm(x):
            return replace(self, X=X, lower=np.concatenate([self.lower, along[None]]))
        lower = np.zeros((len(X), len(self.rows) + 1))
        lower[:-1, :-1], lower[-1] = self.lower, [*along, length]
        rows = np.concatenate([self.rows, rest[None] / length])
        return replace(self, X=X, lower=lower, rows=rows)._sound()

    def remove(self, k: int) -> Couplings:
        """Return the couplings without pattern k."""
        X = np.delete(self.X, k, axis=0)
        if not self.full:
            return _built(X, self.ridge, self.gain)
        lower, rows = np.delete(self.lower, k, axis=0), self.rows.copy()
        for j in range(k, len(lower)):  # rotate columns j and j + 1 until the last is zero
            r = np.hypot(lower[j, j], lower[j, j + 1])
            turn = np.array([[lower[j, j], lower[j, j + 1]], [-lower[j, j + 1], lower[j, j]]]) / r
            lower[j:, j : j + 2] = lower[j:, j : j + 2] @ turn.T
            rows[j : j + 2] = turn @ rows[j : j + 2]
        return replace(self, X=X, lower=lower[:, :-1].copy(), rows=rows[:-1])._sound()

    def _sound(self) -> Couplings:
        """Return itself, or the same built anew where rounding has added up."""
        if not len(self.X):
            return self
        probe = np.cos(np.arange(len(self.X)))  # any vector that no pattern is orthogonal to
        sites = self.X.T @ probe
        gram = self.X @ sites
        off = self.lower @ (self.rows @ sites) - gram
        defect = self.lower @ (self.lower.T @ probe) - gram - self.ridge * probe
        if max(np.linalg.norm(off), np.linalg.norm(defect)) <= DRIFT * np.linalg.norm(gram):
            return self
        return _built(self.X, self.ridge, self.gain)


def build(X: np.ndarray, time: float) -> Couplings:
    """Return the couplings of patterns X (K, N) after dreaming `time`, above 0 or infinite."""
    ridge = 0.0 if np.isinf(time) else 1 / max(time, LEAST)
    return _built(np.asarray(X, np.float64), ridge, 1 + ridge)


def _built(X: np.ndarray, ridge: float, gain: float) -> Couplings:
    """Factor from the Gram matrix; from the patterns themselves where they depend on each other."""
    gram = X @ X.T
    if ridge == 0:
        values = np.linalg.eigvalsh(gram) if len(gram) else np.ones(1)
        if values[0] <= DEPENDENT * values[-1]:
            Q, R, _ = scipy.linalg.qr(X.T, mode="economic", pivoting=True)
            rank = int((np.abs(np.diag(R)) > DEPENDENT * np.abs(R[0, 0])).sum())
            rows = np.ascontiguousarray(Q[:, :rank].T)
            return Couplings(X, ridge, gain, X @ rows.T, rows)
    try:
        lower = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    except np.linalg.LinAlgError:  # the ridge is lost in the rounding of the Gram matrix
        return _built(X, 0.0, 1.0)
    rows = scipy.linalg.solve_triangular(lower, X, lower=True)
    if ridge == 0 and values[0] <= NEARLY * values[-1]:  # a second pass makes rows orthonormal
        again = np.linalg.cholesky(rows @ rows.T)
        rows, lower = scipy.linalg.solve_triangular(again, rows, lower=True), lower @ again
    return Couplings(X, ridge, gain, lower, rows)
