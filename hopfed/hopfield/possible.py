"""What rows of +-1 can give: a message that none can is refused before the server works with it.

Of M rows of +-1 every sum has the parity of M and is at most M in magnitude, and two columns agree
in ``(M + c_i + c_j + S_ij) / 4`` rows that are both +1, a whole number, and likewise for the other
three pairs of signs. The centred matrix ``S - c c^T / M`` has no negative eigenvalue. A group of m
rows has a trace of at most m N along any directions, the groups of a client add up to its operator,
and an example votes once. What takes time is asked for by `hopfed.hopfield.guard.Guard.check`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from hopfed._lib.arrays import blas_threads
from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import Encoding, symmetric

ROUNDING = 1e-4  # of sums in single precision, relative to the largest that rows can give
NEGATIVE = 1e-6  # of the diagonal: how far rounding may push an eigenvalue of 0 below it
ROWS = 32  # of a matrix at a time, which stay in the cache of a core
EXACT = 2**24  # whole numbers of single precision


def operator_complaint(encoding: Encoding, message: Message, check: bool) -> str | None:
    """Say why no rows have the operator of a `message`; None if some may have it."""
    if encoding.form == "factors":
        most = min(encoding.width, int(message["examples"])) if check else encoding.width
        if len(message["values"]) > most:
            return f"values are {len(message['values'])}, more than {most}"
    if not check:
        return None
    M = int(message["examples"])
    if ((message["columns"].astype(np.int64) - M) & 1).any():
        return "columns are not of the parity of examples"
    if encoding.exact:
        return _counts_complaint(encoding.n_sites, message, M)
    values = np.maximum(message["values"].astype(np.float64), 0.0)
    diagonal = values @ message["vectors"].astype(np.float64) ** 2
    if diagonal.max(initial=0.0) > 1 + 10 * ROUNDING:
        return "values and vectors give a column more than its examples"
    return None


def _counts_complaint(n_sites: int, message: Message, M: int) -> str | None:
    if message["counts"].dtype.kind not in "iu":
        return "counts are not whole numbers"
    S, c = symmetric(message["counts"], n_sites, M), message["columns"].astype(np.int64)
    for i in range(0, n_sites, ROWS):
        end = min(i + ROWS, n_sites)
        part, a, b = S[i:end, :end].astype(np.int64), c[i:end, None], c[:end]
        both, one = part + b + (a + M), M - part - np.abs(a - b)
        if (both & 3).any() or both.min() < 0 or one.min() < 0:
            return "counts and columns are not those of any examples"
    centred = S - np.outer(c, c / M)
    return None if semidefinite(centred, 0.0, M) else "counts have a negative eigenvalue"


def semidefinite(S: np.ndarray, shift: float, size: float) -> bool:
    """Whether no eigenvalue of S (N, N) is below -`shift`, but for rounding."""
    for dtype, factorise, slack in (
        (np.float32, lapack.spotrf, 1e-3),
        (np.float64, lapack.dpotrf, NEGATIVE),
    ):
        A: np.ndarray = S.astype(dtype)
        A[np.diag_indices(len(A))] += shift + slack * size
        with blas_threads(1):
            if factorise(A.T, lower=0, overwrite_a=1, clean=0)[1] == 0:
                return True
    return False


def projections_complaint(
    message: Message, examples: int, n_sites: int, expected: np.ndarray | None, check: bool
) -> str | None:
    """Say why no groups of a client's rows have these projections; None if some may have them."""
    sizes, groups = message["sizes"], message["groups"].astype(np.float64)
    if sizes.size and (int(sizes.min()) < 0 or int(sizes.max()) > examples):
        return "sizes are below 0 or above examples"
    if int(sizes.sum()) != examples:
        return f"sizes add up to {int(sizes.sum())}, not to {examples} examples"
    largest = float(examples) * n_sites
    if np.abs(groups).max(initial=0.0) > largest * (1 + ROUNDING):
        return "groups are larger than those of any examples"
    if not check or not groups.size:
        return None
    full = unfolded(groups)
    most = sizes.astype(np.float64) * n_sites
    if (np.trace(full, axis1=1, axis2=2) > most * (1 + ROUNDING)).any():
        return "groups have a larger trace than those of any examples"
    if (np.linalg.eigvalsh(full)[:, 0] < -ROUNDING * most).any():
        return "groups have a negative eigenvalue"
    if expected is not None and np.abs(full.sum(axis=0) - expected).max() > ROUNDING * largest:
        return "groups do not add up to the operator"
    return None


def votes_complaint(message: Message, examples: int) -> str | None:
    """Say why no rows of +-1 vote like that, each once; None if some do."""
    votes, voters = message["votes"], message["voters"]
    if voters.size and (int(voters.min()) < 0 or int(voters.max()) > examples):
        return "voters are below 0 or above examples"
    if int(voters.sum()) > examples:
        return f"voters are {int(voters.sum())}, of {examples} examples"
    most = voters.astype(np.int64)[:, None]
    # Compared, not negated: the least whole number has no negative.
    if ((votes > most) | (votes < -most)).any():
        return "votes are more than their voters"
    counted = most[:, 0] < EXACT
    if ((votes[counted].astype(np.int64) - most[counted]) & 1).any():
        return "votes are not of the parity of their voters"
    return None


def unfolded(triangles: np.ndarray) -> np.ndarray:
    """Return the symmetric (G, K, K) matrices of lower triangles (G, K (K + 1) / 2)."""
    K = int(np.sqrt(2 * triangles.shape[1]))
    full = np.zeros((len(triangles), K, K))
    full[:, np.tri(K, dtype=bool)] = triangles
    return full + full.transpose(0, 2, 1) * (1 - np.eye(K))
