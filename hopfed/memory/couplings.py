"""Couplings ``J = gain U^T U`` of stored patterns in factor form.

With ``X`` (K, N), the patterns over ``sqrt N``, each weighed by the root of its weight, the dreamed
couplings are (theory/NOTES.md, Closed form of dreaming)

    J(t) = (1 + t) X^T (1 + t X X^T)^-1 X = gain X^T (X X^T + ridge)^-1 X,   ridge = 1 / t,

and the projector is ``ridge = 0, gain = 1``. With the Cholesky factor ``L L^T = X X^T + ridge`` the
rows ``U = L^-1 X`` give ``J = gain U^T U``: K vectors in place of an N x N matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

DEPENDENT = 1e-8  # relative residual below which a pattern lies in the span of the others
NEARLY = 1e-3  # the same in the Gram matrix, below which its factor has lost digits
LEAST = 1e-300  # dreaming time: one over a shorter one is no number


class Couplings(NamedTuple):
    """``J = gain rows^T rows``."""

    rows: np.ndarray  # (R, N), of which no eigenvalue is above 1
    gain: float
    ridge: float

    def dense(self) -> np.ndarray:
        """J itself (N, N), for tests and small N."""
        return self.gain * self.rows.T @ self.rows


def build(X: np.ndarray, time: float) -> Couplings:
    """Return the couplings of patterns X (K, N) after dreaming `time`, above 0 or infinite."""
    ridge = 0.0 if np.isinf(time) else 1 / max(time, LEAST)
    gram, values = X @ X.T, np.ones(1)
    if ridge == 0:
        values = np.linalg.eigvalsh(gram)
        if values[0] <= DEPENDENT * values[-1]:
            Q, R, _ = scipy.linalg.qr(X.T, mode="economic", pivoting=True)
            rank = int((np.abs(np.diag(R)) > DEPENDENT * np.abs(R[0, 0])).sum())
            return Couplings(np.ascontiguousarray(Q[:, :rank].T), 1.0, 0.0)
    try:
        lower = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    except np.linalg.LinAlgError:  # the ridge is lost in the rounding of the Gram matrix
        return build(X, np.inf)
    rows = scipy.linalg.solve_triangular(lower, X, lower=True)
    if ridge == 0 and values[0] <= NEARLY * values[-1]:  # a second pass makes rows orthonormal
        again = np.linalg.cholesky(rows @ rows.T)
        rows = scipy.linalg.solve_triangular(again, rows, lower=True)
    return Couplings(rows, 1 + ridge, ridge)
