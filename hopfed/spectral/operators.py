"""The Hebbian operator of a set of binary examples, in three forms behind one interface.

An operator is a weighted sum of outer products of examples, ``S = sum_m w_m eta_m eta_m^T``,
kept with its mass ``sum w`` and ``sum w^2``. `pool` adds the examples of operators exactly, and
``C = S / mass`` is the second-moment matrix of random-matrix theory (``N J`` of
arXiv:2603.19902, eqs. (5), (27), (28)). With equal weights the mass is the number of examples M;
otherwise ``n_examples = mass^2 / sum w^2`` is the number with the same noise.

- `FactorOperator`: rows and weights; exact while the rows are the examples, low rank otherwise.
- `DenseOperator`: the N x N matrix of sums, for few sites and many examples.
- `PooledOperator`: a sum of operators that stay in place; only products are exchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import earlier_totals
from hopfed.spectral.rows import pack_rows, squared_lengths, stack_rows, times, transposed_times

__all__ = [
    "DenseOperator", "FactorOperator", "HebbianOperator", "PooledOperator", "explicit", "pool",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class HebbianOperator(ABC):
    """What every form has: size, mass, products with thin matrices.

    ``S = sum_m w_m eta_m eta_m^T`` over `n_sites` sites, `mass` the sum of the weights w,
    `sum_sq_weights` the sum of their squares; ``C = S / mass``.

    >>> both = [FactorOperator.from_examples([x]) for x in ([1, 1, -1], [1, -1, -1])]
    >>> found = pool(both, [1.0, 3.0])
    >>> found.mass, found.n_examples, found.matmat(np.eye(3)[:, :1]).ravel().tolist()
    (4.0, 1.6, [1.0, -0.5, -1.0])
    """

    n_sites: int
    mass: float
    sum_sq_weights: float

    @abstractmethod
    def matmat(self, X: Array) -> Array:
        """Return ``C X`` for X of shape (N, k): the normalised operator on a thin matrix."""

    @property
    @abstractmethod
    def home(self) -> Array:
        """An array of the library and device that `matmat` requires."""

    @property
    def trace(self) -> float:
        """Trace of C: N for +-1 examples, less if entries are missing."""
        raise ArgumentError("operator", "a form with a known diagonal", type(self).__name__)

    @property
    def n_examples(self) -> float:
        """Effective number of examples M, ``mass^2 / sum w^2``."""
        return self.mass**2 / self.sum_sq_weights

    def _pooled(self, every: Sequence[Self], weights: Sequence[float]) -> Self:  # noqa: ARG002
        """Return an operator of this form with the weighted examples of several."""
        raise ArgumentError("operators", "rows or matrices, to be pooled", type(self).__name__)


@dataclass(frozen=True, eq=False)
class FactorOperator(HebbianOperator):
    """``S = rows^T diag(weights) rows``, rows (R, N) packed bits or an array, weights (R,).

    Rows of bits may have gaps: a missing entry adds 0. Rows that are not held in memory are read
    again for every product; their weights are 1.

    >>> op = FactorOperator.from_examples(np.array([[1, 1, -1], [1, -1, -1]]))
    >>> op.rows.shape, op.weights.tolist(), op.matmat(np.ones((3, 1))).ravel().tolist()
    ((2, 3), [1.0, 1.0], [0.0, 1.0, 0.0])
    """

    rows: Rows | Array = field(repr=False)
    weights: Array = field(repr=False)

    @classmethod
    def from_examples(cls, examples: Any) -> Self:
        """Build the exact operator of `examples`: its rows are the examples, packed to bits.

        Examples are (M, N) of +-1, 0/1 or booleans, with gaps or without, or rows of bits. With
        gaps the mass is still the number of rows: M samples, with 0 for missing entries.
        """
        rows = pack_rows(examples)
        if rows.counts is None:
            m, xp = len(rows), namespace(rows.home)
            ones = xp.ones(m, dtype=xp.float64) if rows.held else np.broadcast_to(1.0, m)
            return cls(rows.n, float(m), float(m), rows, ones)
        mass = float(rows.counts.sum())  # survey weights have the same sum as their squares
        return cls(rows.n, mass, mass, rows, like(rows.weights, rows.home))

    @property
    def held(self) -> bool:
        """Whether the rows are in memory; otherwise products with them are slow."""
        return not isinstance(self.rows, Rows) or self.rows.held

    def matmat(self, X: Array) -> Array:  # noqa: D102
        if not self.held:
            return self.rows.total(lambda p: transposed_times(p, times(p, X))) / self.mass
        inner = times(self.rows, X)
        xp = namespace(inner)
        inner = inner * xp.astype((self.weights / self.mass)[:, None], inner.dtype)
        return transposed_times(self.rows, inner)

    @property
    def home(self) -> Array:  # noqa: D102
        return getattr(self.rows, "home", self.rows)

    @property
    def trace(self) -> float:  # noqa: D102
        if (read := earlier_totals(self.rows)) is not None:
            return float(read.seen.sum()) / self.mass
        if isinstance(self.rows, Rows) and not self.rows.gaps:
            return float(self.weights.sum()) * self.n_sites / self.mass
        return float((self.weights * squared_lengths(self.rows)).sum()) / self.mass

    def _pooled(self, every: Sequence[Self], weights: Sequence[float]) -> Self:
        parts = [op.weights * w for op, w in zip(every, weights, strict=True)]
        joined = namespace(*parts).concat(parts)
        return replace(self, rows=stack_rows([op.rows for op in every]), weights=joined)


@dataclass(frozen=True, eq=False)
class DenseOperator(HebbianOperator):
    """``S`` as a `matrix` (N, N) float64; sums of +-1 products are integers and stay exact.

    A float32 matrix is used in single precision.

    >>> DenseOperator.from_examples(np.array([[1, 1, -1], [1, -1, -1]])).matrix.tolist()
    [[2.0, 0.0, -2.0], [0.0, 2.0, 0.0], [-2.0, 0.0, 2.0]]
    """

    matrix: Array = field(repr=False)

    @classmethod
    def from_examples(cls, examples: Any) -> Self:
        """Return ``sum_m eta_m eta_m^T`` of `examples`, as for a factor, in exact integers."""
        rows = pack_rows(examples)
        mass = float(len(rows) if rows.counts is None else rows.counts.sum())
        if (read := earlier_totals(rows)) is not None and read.products is not None:
            return cls(rows.n, mass, mass, read.products)
        return cls(rows.n, mass, mass, rows.total(_products))

    def matmat(self, X: Array) -> Array:  # noqa: D102
        return namespace(self.matrix, X).matmul(self.matrix, X) / self.mass

    @property
    def home(self) -> Array:  # noqa: D102
        return self.matrix

    @property
    def trace(self) -> float:  # noqa: D102
        return float(self.matrix.trace()) / self.mass

    def _pooled(self, every: Sequence[Self], weights: Sequence[float]) -> Self:
        pairs = zip(every, weights, strict=True)
        parts = [op.matrix if w == 1 else op.matrix * w for op, w in pairs]
        return replace(self, matrix=sum(parts[1:], start=parts[0]))


def _products(part: Rows) -> Array:
    often = None if part.counts is None else like(part.counts, part.home)
    return kernels.second_moment(part, often).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PooledOperator(HebbianOperator):
    """Sum of `parts` that stay in place: every product is one exchange with all of them.

    >>> owners = [FactorOperator.from_examples(np.array([x])) for x in ([1, 1], [1, -1])]
    >>> PooledOperator.over(owners).matmat(np.ones((2, 1))).ravel().tolist()
    [1.0, 1.0]
    """

    parts: tuple[HebbianOperator, ...] = field(repr=False)

    @classmethod
    def over(cls, parts: Sequence[HebbianOperator]) -> Self:
        """Pool `parts`, all over the same sites."""
        sites = {op.n_sites for op in parts}
        rule = "at least one, all over the same sites"
        require(len(sites) == 1, "operators", rule, sites or "none")
        mass, sum_sq_weights = sum(op.mass for op in parts), sum(op.sum_sq_weights for op in parts)
        return cls(sites.pop(), mass, sum_sq_weights, tuple(parts))

    def matmat(self, X: Array) -> Array:  # noqa: D102
        each = (op.matmat(X) * (op.mass / self.mass) for op in self.parts)
        return sum(each, start=next(each))

    @property
    def home(self) -> Array:  # noqa: D102
        return self.parts[0].home


def pool(
    operators: Sequence[HebbianOperator], weights: Sequence[float] | None = None
) -> HebbianOperator:
    """Pool all examples: the sample-weighted mean of the clients' `operators`, of one form.

    `weights` are the weights of the examples of each operator, above 0, by default 1. Raises
    ArgumentError for operators of different forms or sizes.

    Source: theory/NOTES.md, "Pooling operators".

    >>> few, many = np.ones((1, 2)), np.array([[1, -1]] * 3)
    >>> owners = [FactorOperator.from_examples(x) for x in (few, many)]
    >>> pool(owners).matmat(np.eye(2)).tolist()
    [[1.0, -0.5], [-0.5, 1.0]]
    >>> pool(owners, [3.0, 1.0]).mass
    6.0
    """
    require(len(operators) > 0, "operators", "at least one", 0)
    forms, sites = {type(op).__name__ for op in operators}, {op.n_sites for op in operators}
    require(len(forms) == 1, "operators", "of one form to be pooled", " and ".join(sorted(forms)))
    require(len(sites) == 1, "operators", "over the same sites to be pooled", sorted(sites))
    each = [1.0] * len(operators) if weights is None else list(weights)
    for w in each:
        require(0 < w < np.inf, "weight", "a positive number", w)
    mass = sum(op.mass * w for op, w in zip(operators, each, strict=True))
    squares = sum(op.sum_sq_weights * w**2 for op, w in zip(operators, each, strict=True))
    return replace(operators[0]._pooled(operators, each), mass=mass, sum_sq_weights=squares)


def explicit(operator: HebbianOperator) -> Array:
    """Return a Hebbian operator, in dense or factor form, as a matrix C (N, N) float64.

    >>> explicit(FactorOperator.from_examples(np.array([[1, -1], [1, 1]]))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(operator, DenseOperator):
        return operator.matrix / operator.mass
    if not isinstance(operator, FactorOperator):
        raise ArgumentError("route", "krylov for an operator that can only be applied", "dense")
    if not operator.held:
        return DenseOperator.from_examples(operator.rows).matrix / operator.mass
    if not hasattr(operator.rows, "dtype"):
        # If the weights and their squares both sum to the number of rows, all weights are 1.
        ones = operator.mass == operator.sum_sq_weights == operator.rows.shape[0]
        weights = None if ones else operator.weights
        return kernels.second_moment(operator.rows, weights) / operator.mass
    xp = namespace(operator.rows)
    rows = xp.astype(operator.rows, xp.float64)
    return (rows.T * (operator.weights / operator.mass)) @ rows


@dataclass(frozen=True, eq=False)
class ScaledOperator(HebbianOperator):
    """``diag(s) (S - mass m m^T) diag(s)`` as products with `base`; s and m (N,) are beside it."""

    base: HebbianOperator = field(repr=False)
    scale: Array = field(repr=False)
    mean: Array = field(repr=False)

    def matmat(self, X: Array) -> Array:
        xp = namespace(X)
        s, m = (xp.astype(x, X.dtype)[:, None] for x in (self.scale, self.mean))
        inner = s * X
        return s * (self.base.matmat(inner) - m * (m.T @ inner))

    @property
    def home(self) -> Array:
        return self.base.home


def scale_operator(
    operator: HebbianOperator, scale: np.ndarray | float = 1.0, mean: np.ndarray | float = 0.0
) -> HebbianOperator:
    """Return operator ``diag(scale) (S - mass mean mean^T) diag(scale)``, in S's form or products.

    Rows that are numbers must be the examples themselves if a `mean` (N,) is subtracted.
    """
    s, m = (like(np.broadcast_to(x, operator.n_sites) + 0.0, operator.home) for x in (scale, mean))
    if isinstance(operator, DenseOperator):
        s, m = (namespace(s).astype(x, operator.matrix.dtype) for x in (s, m))
        about = operator.matrix - operator.mass * m[:, None] * m[None, :]
        return replace(operator, matrix=about * s[:, None] * s[None, :])
    if isinstance(operator, FactorOperator) and hasattr(operator.rows, "dtype"):  # no bits
        s, m = (namespace(s).astype(x, operator.rows.dtype) for x in (s, m))
        return replace(operator, rows=(operator.rows - m[None, :]) * s[None, :])
    masses = operator.mass, operator.sum_sq_weights
    return ScaledOperator(operator.n_sites, *masses, operator, s, m)
