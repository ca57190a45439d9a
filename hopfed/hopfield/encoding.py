"""Operators as messages: counts of the N x N matrix, or leading factors.

Source: theory/NOTES.md, "Low-rank forms" and "Bytes on the wire".

- "counts": the strict lower triangle of ``sum_m eta_m eta_m^T``, exact integers; the diagonal is
  the number of examples. For few sites.
- "factors": the `width` leading eigenpairs. What they leave out is noise, and archetypes that only
  the pool could show.

What a client claims is held to what its number of examples could give: factors as operators,
counts entry by entry only, so that a liar's counts may take away from an archetype what
as many honest examples would add. `hopfed.hopfield.possible` asks for more, where
it may.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    return (2 * np.unpackbits(packed, axis=1, count=n_sites).astype(np.int8) - 1).astype(np.int8)


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
