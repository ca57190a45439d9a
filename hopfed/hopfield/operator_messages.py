"""Encoding of operators, patterns, projections and votes as messages, and checks of these.

An operator travels as counts, the strict lower triangle of ``sum_m eta_m eta_m^T``, or low-rank as
factors, its leading eigenpairs (theory/NOTES.md, "Low-rank forms"). Every sum has the parity of the
number of examples M; two columns are both +1 in ``(M + c_i + c_j + S_ij) / 4`` rows, a whole
number, and likewise for the other pairs of signs; ``S - c c^T / M`` has no negative eigenvalue;
groups of rows add up to the operator, and an example votes once.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from hopfed._lib.arrays import blas_threads
from hopfed.federation.messages import Field, Message
from hopfed.kernels import Rows
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator

MOST_EXAMPLES = 2**40  # of a batch, so that their sums stay exact, without overflow
EXAMPLES = Field((), "iu", least=1, most=MOST_EXAMPLES)
MOST_PATTERNS = 10  # most patterns in a server's message, for each column
WIRE = 1e-2  # error of factors in single precision, relative to what rows can give
LOOSE = 1e-4  # error of sums in single precision, relative to the largest that rows can give
NEGATIVE = 1e-6  # part of the diagonal by which rounding may push an eigenvalue below 0
ROWS = 32  # of a matrix at a time, which stay in the cache of a core
EXACT = 2**24  # single precision holds all whole numbers up to here


def encode(rows: Rows, factors: int = 0) -> Message:
    """Encode the operator of examples, `rows` (M, N), as a message: counts, or `factors`."""
    message = {"examples": np.asarray(rows.shape[0])}
    if factors:
        found = leading_factors(FactorOperator.from_examples(rows), factors)
        message["values"], message["vectors"] = found
    else:
        whole = np.int16 if np.iinfo(np.int16).max >= rows.shape[0] else np.int32
        message["counts"] = lower_triangle(DenseOperator.from_examples(rows).matrix).astype(whole)
    return message


def decode(message: Message, n_sites: int) -> HebbianOperator:
    """Decode the operator of a client's `message`; its mass is the number of examples."""
    M = float(message["examples"])
    if "counts" in message:
        return DenseOperator(n_sites, M, M, symmetric_matrix(message["counts"], n_sites, M))
    values = np.maximum(message["values"].astype(np.float64), 0.0)
    return FactorOperator(n_sites, M, M, message["vectors"], values * M)


def leading_factors(operator: FactorOperator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return factors for an operator's message: leading eigenvalues (k,), eigenvectors (k, N)."""
    pairs = eigenpairs(operator, min(width, *operator.rows.shape))
    columns = np.ascontiguousarray(pairs.vectors.T, dtype=np.float32)
    return pairs.values[: len(columns)].astype(np.float32), columns


def pack_patterns(patterns: np.ndarray) -> np.ndarray:
    """Encode patterns of +-1, (K, N), for operator messages: as bytes (K, ceil(N / 8))."""
    return np.packbits(patterns > 0, axis=1)


def unpack_patterns(packed: np.ndarray, n_sites: int) -> np.ndarray:
    """Decode the `packed` patterns of operator messages, from bytes to int8 (K, N) of +-1."""
    bits = np.unpackbits(packed.astype(np.uint8, copy=False), axis=1, count=n_sites)
    return 2 * bits.astype(np.int8) - np.int8(1)


def lower_triangle(matrix: np.ndarray) -> np.ndarray:
    """Encode an operator's matrix in a message: strict lower triangle by rows, (N (N - 1) / 2,)."""
    return matrix[np.tri(len(matrix), k=-1, dtype=bool)]


def symmetric_matrix(triangle: np.ndarray, n: int, diagonal: float) -> np.ndarray:
    """Decode an operator's matrix from a message: triangle and `diagonal` to (n, n) float64."""
    matrix, start = np.empty((n, n)), 0
    for i in range(n):
        matrix[i, :i] = matrix[:i, i] = triangle[start : start + i]
        start += i
    np.fill_diagonal(matrix, diagonal)
    return matrix


def unfold_triangles(triangles: np.ndarray) -> np.ndarray:
    """Decode projections of operator messages, triangles (G, K (K + 1) / 2), to (G, K, K)."""
    K = int(np.sqrt(2 * triangles.shape[1]))
    full = np.zeros((len(triangles), K, K))
    full[:, np.tri(K, dtype=bool)] = triangles
    return full + full.transpose(0, 2, 1) * (1 - np.eye(K))


def operator_complaint(message: Message, factors: int, check: bool) -> str | None:
    """Say why no rows can give the operator in a client's `message`; None if some can."""
    M, c = int(message["examples"]), message["columns"].astype(np.int64)
    if factors and len(message["values"]) > (most := min(factors, M)):
        return f"values are {len(message['values'])}, more than {most}"
    if factors:
        values = np.maximum(message["values"].astype(np.float64), 0.0)
        if (values @ message["vectors"].astype(np.float64) ** 2).max(initial=0.0) > 1 + 10 * LOOSE:
            return "values and vectors give a column more than its examples"
    if factors or not check:
        return None
    if ((c - M) & 1).any():
        return "columns are not of the parity of examples"
    if message["counts"].dtype.kind not in "iu":
        return "counts are not whole numbers"
    N = len(c)
    S = symmetric_matrix(message["counts"], N, M)
    for i in range(0, N, ROWS):
        end = min(i + ROWS, N)
        part, a, b = S[i:end, :end].astype(np.int64), c[i:end, None], c[:end]
        both, unequal = part + b + (a + M), M - part - np.abs(a - b)
        if (both & 3).any() or both.min() < 0 or unequal.min() < 0:
            return "counts and columns are not those of any examples"
    centred = S - np.outer(c, c / M)
    return None if semidefinite(centred, 0.0, M) else "counts have a negative eigenvalue"


def semidefinite(S: np.ndarray, shift: float, size: float) -> bool:
    """Whether an operator's S (N, N) in a message has no eigenvalue below -`shift` and rounding."""
    A = S + (shift + NEGATIVE * size) * np.eye(len(S))
    with blas_threads(1):
        return bool(lapack.dpotrf(A.T, lower=0, overwrite_a=1, clean=0)[1] == 0)


def projections_complaint(
    message: Message, examples: int, n_sites: int, expected: np.ndarray | None, check: bool
) -> str | None:
    """Say why no rows can give the projections of operator messages; None if some can."""
    sizes, groups = message["sizes"], message["groups"].astype(np.float64)
    if sizes.size and (int(sizes.min()) < 0 or int(sizes.max()) > examples):
        return "sizes are below 0 or above examples"  # or their sum could overflow
    if int(sizes.sum()) != examples:
        return f"sizes add up to {int(sizes.sum())}, not to {examples} examples"
    largest = float(examples) * n_sites
    if np.abs(groups).max(initial=0.0) > largest * (1 + LOOSE):
        return "groups are larger than those of any examples"
    if not check or not groups.size:
        return None
    full = unfold_triangles(groups)
    most = sizes.astype(np.float64) * n_sites
    if (np.trace(full, axis1=1, axis2=2) > most * (1 + LOOSE)).any():
        return "groups have a larger trace than those of any examples"
    if (np.linalg.eigvalsh(full)[:, 0] < -LOOSE * most).any():
        return "groups have a negative eigenvalue"
    if expected is not None and np.abs(full.sum(axis=0) - expected).max() > LOOSE * largest:
        return "groups do not add up to the operator"
    return None


def votes_complaint(message: Message, examples: int) -> str | None:
    """Say why no rows can give the votes among a client's operator messages; None if some can."""
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
