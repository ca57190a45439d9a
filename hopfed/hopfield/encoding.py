"""Operators as messages: counts of the N x N matrix, or leading factors.

Source: theory/NOTES.md, "Low-rank forms".

- "counts": the strict lower triangle of ``sum_m eta_m eta_m^T``, exact integers; the diagonal is
  the number of examples. For few sites.
- "factors": the `width` leading eigenpairs. What they leave out is noise, and archetypes that only
  the pool could show.

What a client claims is held to what its number of examples could give: factors as operators,
counts entry by entry only, so that a liar's counts may take away from an archetype what
as many honest examples would add. Where `hopfed.hopfield.guard.Guard.check` asks for more, what no
rows of +-1 give is refused. Of M rows every sum has the parity of M and is at most M in magnitude,
and two columns agree in ``(M + c_i + c_j + S_ij) / 4`` rows that are both +1, a whole number, and
likewise for the other three pairs of signs. The centred matrix ``S - c c^T / M`` has no negative
eigenvalue. A group of m rows has a trace of at most m N along any directions, the groups of a
client add up to its operator, and an example votes once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from hopfed._lib.arrays import blas_threads
from hopfed._lib.cache import Recent
from hopfed._lib.settings import check_types, require
from hopfed.federation.messages import Field, Message, Spec, digest, nbytes
from hopfed.kernels import Rows
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator

__all__ = ["Encoding"]

FORMS = ("counts", "factors")
MOST_EXAMPLES = 2**40  # of a batch: whatever adds them up stays exact, and below any overflow
MOST_PATTERNS = 10  # for each column that a server may name; more are refused
ROUNDING = 1e-5  # of single precision, in sums
WIRE = 1e-2  # how far single precision may discount factors beyond what rows can give
LOOSE = 1e-4  # of sums in single precision, relative to the largest that rows can give
NEGATIVE = 1e-6  # of the diagonal: how far rounding may push an eigenvalue of 0 below it
ROWS = 32  # of a matrix at a time, which stay in the cache of a core
EXACT = 2**24  # whole numbers of single precision
# Rules that are compared on the same examples encode them one after the other.
_ENCODED = Recent(1 << 26, nbytes)


@dataclass(frozen=True)
class Encoding:
    """How operators travel.

    Attributes
    ----------
    n_sites : N.
    form : "counts" or "factors".
    width : eigenpairs of the last, at most N; of no account for the others.

    Raises
    ------
    ArgumentError : another form, or a width outside of that.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> rows = pack(np.sign(np.random.default_rng(0).standard_normal((50, 40))))
    >>> for form in FORMS:
    ...     sent = Encoding(40, form, width=8).encode(rows)
    ...     print(form, sum(array.nbytes for array in sent.values()), "bytes")
    counts 1568 bytes
    factors 1320 bytes
    """

    n_sites: int
    form: str = "counts"
    width: int = 64

    def __post_init__(self) -> None:
        check_types(self)
        require(self.form in FORMS, "form", f"one of {', '.join(FORMS)}", self.form)
        require(self.n_sites >= 1, "n_sites", "at least 1", self.n_sites)
        most = np.inf if self.exact else self.n_sites
        rule = f"between 1 and the {self.n_sites} sites"
        require(1 <= self.width <= most, "width", rule, self.width)

    @property
    def exact(self) -> bool:
        """Whether the server gets the whole operator."""
        return self.form == "counts"

    @property
    def spec(self) -> Spec:
        """Arrays of an encoded operator."""
        N, slack = self.n_sites, 1 + WIRE
        examples = {"examples": Field((), "iu", least=1, most=MOST_EXAMPLES)}
        if self.exact:
            return {"counts": Field((N * (N - 1) // 2,), "fi", within="examples"), **examples}
        values = Field(("factors",), "f", least=-WIRE, most=N * slack)
        vectors = Field(("factors", N), "f", least=-slack, most=slack)
        return {"values": values, "vectors": vectors, **examples}

    def encode(self, rows: Rows) -> Message:
        """Encode the operator of packed examples, `rows` (M, N); the arrays are read-only."""
        key = self, rows.shape, digest({"rows": rows.signs})
        return dict(_ENCODED.get(key, lambda: self._encoded(rows)))

    def _encoded(self, rows: Rows) -> Message:
        message = {"examples": np.asarray(rows.shape[0])}
        if self.exact:
            whole = np.int16 if np.iinfo(np.int16).max >= rows.shape[0] else np.int32
            message["counts"] = lower(DenseOperator.from_examples(rows).matrix).astype(whole)
        else:
            factors = leading_factors(FactorOperator.from_examples(rows), self.width)
            message["values"], message["vectors"] = factors
        for array in message.values():
            array.flags.writeable = False
        return message

    def decode(self, message: Message) -> HebbianOperator:
        """Rebuild the operator of a `message`; its mass is the number of examples."""
        N, M = self.n_sites, float(message["examples"])
        if self.exact:
            return DenseOperator(N, M, M, symmetric(message["counts"], N, M))
        weights = _possible(message["values"], message["vectors"]) * M
        return FactorOperator(N, M, M, message["vectors"], weights)


def _possible(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Shrink values of factors that no examples have: none negative, their trace at most N."""
    values = np.maximum(values.astype(np.float64), 0.0)
    squares = np.einsum("kn,kn->k", vectors, vectors, dtype=np.float64)
    trace, most = float(values @ squares), vectors.shape[1]
    return values * (most / trace) if trace > most * (1 + ROUNDING) else values


def leading_factors(operator: FactorOperator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues (k,) of C and eigenvectors (k, N), float32, k at most `width`."""
    pairs = eigenpairs(operator, min(width, *operator.rows.shape))
    columns = np.ascontiguousarray(pairs.vectors.T, dtype=np.float32)
    return pairs.values[: len(columns)].astype(np.float32), columns


def pack_patterns(patterns: np.ndarray) -> np.ndarray:
    """Pack patterns of +-1, (K, N), to bytes (K, ceil(N / 8)): the form in which they travel."""
    return np.packbits(patterns > 0, axis=1)


def unpack_patterns(packed: np.ndarray, n_sites: int) -> np.ndarray:
    """Undo `pack_patterns`: int8 (K, N)."""
    bits = np.unpackbits(packed.astype(np.uint8, copy=False), axis=1, count=n_sites)
    return 2 * bits.astype(np.int8) - np.int8(1)


def lower(matrix: np.ndarray) -> np.ndarray:
    """Strict lower triangle of (N, N), row by row: (N (N - 1) / 2,)."""
    return matrix[np.tri(len(matrix), k=-1, dtype=bool)]


def symmetric(triangle: np.ndarray, n: int, diagonal: float) -> np.ndarray:
    """Symmetric (n, n) float64 matrix of a strict lower triangle and a diagonal value."""
    matrix, start = np.empty((n, n)), 0
    for i in range(n):
        matrix[i, :i] = matrix[:i, i] = triangle[start : start + i]
        start += i
    np.fill_diagonal(matrix, diagonal)
    return matrix


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
    if diagonal.max(initial=0.0) > 1 + 10 * LOOSE:
        return "values and vectors give a column more than its examples"
    return None


def _counts_complaint(n_sites: int, message: Message, M: int) -> str | None:
    if message["counts"].dtype.kind not in "iu":
        return "counts are not whole numbers"
    S, c = symmetric(message["counts"], n_sites, M), message["columns"].astype(np.int64)
    for i in range(0, n_sites, ROWS):
        end = min(i + ROWS, n_sites)
        part, a, b = S[i:end, :end].astype(np.int64), c[i:end, None], c[:end]
        both, unequal = part + b + (a + M), M - part - np.abs(a - b)
        if (both & 3).any() or both.min() < 0 or unequal.min() < 0:
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
    if np.abs(groups).max(initial=0.0) > largest * (1 + LOOSE):
        return "groups are larger than those of any examples"
    if not check or not groups.size:
        return None
    full = unfolded(groups)
    most = sizes.astype(np.float64) * n_sites
    if (np.trace(full, axis1=1, axis2=2) > most * (1 + LOOSE)).any():
        return "groups have a larger trace than those of any examples"
    if (np.linalg.eigvalsh(full)[:, 0] < -LOOSE * most).any():
        return "groups have a negative eigenvalue"
    if expected is not None and np.abs(full.sum(axis=0) - expected).max() > LOOSE * largest:
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
