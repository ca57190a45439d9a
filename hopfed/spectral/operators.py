"""The Hebbian operator of a set of binary examples, in two forms behind one interface.

An operator is a weighted sum of outer products of examples, ``S = sum_m w_m eta_m eta_m^T``,
kept with its mass ``sum w`` and ``sum w^2``. Sums of operators pool their examples exactly, and
``C = S / mass`` is the second-moment matrix that random-matrix theory speaks of (``N J`` of
arXiv:2603.19902, eqs. (5), (27), (28)). With equal weights the mass is the number of examples M;
otherwise ``n_examples = mass^2 / sum w^2`` is the number that carries the same noise.

- `FactorOperator`: rows and weights; exact while the rows are the examples, low rank otherwise.
- `DenseOperator`: the N x N matrix of sums, for few sites and many examples.

`PooledOperator` is the sum of operators that do not travel: only products with it are exchanged.

Operators whose columns are centred and scaled, in their own form where that holds numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows
from hopfed.spectral.reread_rows import read_before
from hopfed.spectral.rows import (
    Examples,
    array_beside,
    batches,
    concatenate,
    packed,
    squared_lengths,
    times,
    transposed_times,
)

__all__ = [
    "DenseOperator",
    "FactorOperator",
    "HebbianOperator",
    "PooledOperator",
    "explicit",
    "pool",
]


@dataclass(frozen=True, eq=False)
class HebbianOperator(ABC):
    """What every form has: size, mass, addition, scaling, products with thin matrices.

    ``S = sum_m w_m eta_m eta_m^T`` over `n_sites` sites, `mass` the sum of the weights w,
    `sum_sq_weights` that of their squares; ``C = S / mass``.

    >>> first, second = (FactorOperator.from_examples([[x]]) for x in ([1, 1, -1], [1, -1, -1]))
    >>> both = first + 3 * second
    >>> both.mass, both.n_examples, both.matmat(np.eye(3)[:, :1]).ravel().tolist()
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
        """An array that lives where products are made: `matmat` takes matrices of its kind."""

    @property
    def trace(self) -> float:
        """Trace of C; N for +-1 examples, whatever they are, less where entries are missing."""
        raise ArgumentError("operator", "one whose diagonal is known", type(self).__name__)

    def _added(self, other: Self) -> Self:
        raise ArgumentError("operators", "added before they are scaled", type(other).__name__)

    def __mul__(self, weight: float) -> Self:
        raise ArgumentError("operator", "rows or a matrix to be weighted", type(self).__name__)

    @property
    def n_examples(self) -> float:
        """Effective number of examples M, ``mass^2 / sum w^2``."""
        return self.mass**2 / self.sum_sq_weights

    def __add__(self, other: Self) -> Self:
        self._check_addable(other)
        return self._added(other)

    def _check_addable(self, other: HebbianOperator) -> None:
        if type(self) is not type(other):
            got = f"{type(self).__name__} and {type(other).__name__}"
            raise ArgumentError("operators", "of one form to be added", got)
        if self.n_sites != other.n_sites:
            got = f"{self.n_sites} and {other.n_sites} sites"
            raise ArgumentError("operators", "over the same sites to be added", got)

    def __rmul__(self, weight: float) -> Self:
        return self * weight

    def _scaled(self, weight: float) -> dict[str, Any]:
        if not (np.isfinite(weight) and weight > 0):
            raise ArgumentError("weight", "a positive number", weight)
        return {"mass": self.mass * weight, "sum_sq_weights": self.sum_sq_weights * weight**2}


@dataclass(frozen=True, eq=False)
class FactorOperator(HebbianOperator):
    """``S = rows^T diag(weights) rows``, rows (R, N) packed bits or an array, weights (R,).

    Rows of bits may have gaps: a missing entry adds nothing. Rows that are not held are read again
    for every product; their weights are 1.

    >>> op = FactorOperator.from_examples(np.array([[1, 1, -1], [1, -1, -1]]))
    >>> op.rows.shape, op.weights.tolist(), op.matmat(np.ones((3, 1))).ravel().tolist()
    ((2, 3), [1.0, 1.0], [0.0, 1.0, 0.0])
    """

    rows: Rows | Array = field(repr=False)
    weights: Array = field(repr=False)

    @classmethod
    def from_examples(cls, examples: Examples) -> Self:
        """Build the exact operator of `examples`: its rows are the examples, packed to bits.

        With gaps the mass is still the number of rows: M samples, in which what is missing is 0.
        """
        parts = [packed(p) for p in batches(examples)]
        rows = parts[0] if len(parts) == 1 else concatenate(parts)
        if rows.counts is None:
            m, xp = len(rows), namespace(rows.home)
            ones = xp.ones(m, dtype=xp.float64) if rows.held else np.broadcast_to(1.0, m)
            return cls(rows.n, float(m), float(m), rows, ones)
        mass = float(rows.counts.sum())  # of a survey they add up to what their squares do
        return cls(rows.n, mass, mass, rows, like(rows.weights, rows.home))

    @property
    def held(self) -> bool:
        """Whether the rows are in memory: else products with them are dear."""
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
        return array_beside(self.rows)

    @property
    def trace(self) -> float:  # noqa: D102
        if (read := read_before(self.rows)) is not None:
            return float(read.seen.sum()) / self.mass
        if isinstance(self.rows, Rows) and not self.rows.gaps:
            return float(self.weights.sum()) * self.n_sites / self.mass
        return float((self.weights * squared_lengths(self.rows)).sum()) / self.mass

    def _added(self, *others: Self) -> Self:
        every = (self, *others)
        mass, squares = sum(op.mass for op in every), sum(op.sum_sq_weights for op in every)
        weights = namespace(*(op.weights for op in every)).concat([op.weights for op in every])
        rows = concatenate([op.rows for op in every])
        return type(self)(self.n_sites, mass, squares, rows, weights)

    def __mul__(self, weight: float) -> Self:
        return replace(self, weights=self.weights * weight, **self._scaled(weight))


@dataclass(frozen=True, eq=False)
class DenseOperator(HebbianOperator):
    """``S`` itself, `matrix` (N, N) float64; sums of +-1 products are integers and stay exact.

    A float32 matrix is worked on in single precision.

    >>> DenseOperator.from_examples(np.array([[1, 1, -1], [1, -1, -1]])).matrix.tolist()
    [[2.0, 0.0, -2.0], [0.0, 2.0, 0.0], [-2.0, 0.0, 2.0]]
    """

    matrix: Array = field(repr=False)

    @classmethod
    def from_examples(cls, examples: Examples) -> Self:
        """Accumulate ``sum_m eta_m eta_m^T`` of `examples`, batch by batch; exact integers."""
        if (read := read_before(examples)) is not None and read.products is not None:
            return cls(len(read.sums), float(read.rows), float(read.rows), read.products)
        total: Any = 0.0
        count = 0.0
        for rows in map(packed, batches(examples)):
            total = total + rows.total(_products)
            count += len(rows) if rows.counts is None else float(rows.counts.sum())
        return cls(total.shape[0], count, count, total)

    def matmat(self, X: Array) -> Array:  # noqa: D102
        return namespace(self.matrix, X).matmul(self.matrix, X) / self.mass

    @property
    def home(self) -> Array:  # noqa: D102
        return self.matrix

    @property
    def trace(self) -> float:  # noqa: D102
        return float(self.matrix.trace()) / self.mass

    def _added(self, other: Self) -> Self:
        squares = self.sum_sq_weights + other.sum_sq_weights
        return type(self)(self.n_sites, self.mass + other.mass, squares, self.matrix + other.matrix)

    def __mul__(self, weight: float) -> Self:
        return replace(self, matrix=self.matrix * weight, **self._scaled(weight))


def _products(part: Rows) -> Array:
    often = None if part.counts is None else like(part.counts, part.home)
    return kernels.second_moment(part, often).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PooledOperator(HebbianOperator):
    """The sum of `parts` that stay where they are: every product is one exchange with all.

    >>> owners = [FactorOperator.from_examples(np.array([x])) for x in ([1, 1], [1, -1])]
    >>> PooledOperator.over(owners).matmat(np.ones((2, 1))).ravel().tolist()
    [1.0, 1.0]
    """

    parts: tuple[HebbianOperator, ...] = field(repr=False)

    @classmethod
    def over(cls, parts: Sequence[HebbianOperator]) -> Self:
        """Pool `parts`, all over the same sites."""
        sites = {op.n_sites for op in parts}
        if len(sites) != 1:
            raise ArgumentError(
                "operators", "at least one, all over the same sites", sites or "none"
            )
        mass, sum_sq_weights = sum(op.mass for op in parts), sum(op.sum_sq_weights for op in parts)
        return cls(sites.pop(), mass, sum_sq_weights, tuple(parts))

    def matmat(self, X: Array) -> Array:  # noqa: D102
        total = self.parts[0].matmat(X) * (self.parts[0].mass / self.mass)
        for op in self.parts[1:]:
            total = total + op.matmat(X) * (op.mass / self.mass)
        return total

    @property
    def home(self) -> Array:  # noqa: D102
        return self.parts[0].home

    @property
    def trace(self) -> float:  # noqa: D102
        return sum(op.trace * op.mass for op in self.parts) / self.mass


def pool(
    operators: Sequence[HebbianOperator], weights: Sequence[float] | None = None
) -> HebbianOperator:
    """Pool all examples: the sample-weighted mean of the clients' `operators`, of one form.

    `weights` are those of the examples of each operator, above 0; 1 when left out.

    Source: theory/NOTES.md, "Pooling operators".

    >>> few, many = np.ones((1, 2)), np.array([[1, -1]] * 3)
    >>> owners = [FactorOperator.from_examples(x) for x in (few, many)]
    >>> pool(owners).matmat(np.eye(2)).tolist()
    [[1.0, -0.5], [-0.5, 1.0]]
    >>> pool(owners, [3.0, 1.0]).mass
    6.0
    """
    if not operators:
        raise ArgumentError("operators", "at least one", 0)
    for op in operators[1:]:
        operators[0]._check_addable(op)
    weights = [1.0] * len(operators) if weights is None else list(weights)
    scaled = [op if w == 1 else op * w for op, w in zip(operators, weights, strict=True)]
    if isinstance(scaled[0], FactorOperator):
        # One copy of all rows, not one for each sum.
        return scaled[0]._added(*(op for op in scaled[1:] if isinstance(op, FactorOperator)))
    return reduce(lambda a, b: a + b, scaled)


def explicit(operator: HebbianOperator) -> Array:
    """Return C itself, (N, N) float64, of an operator in dense or factor form.

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
        # Where they and their squares add up to the number of rows, all weights are 1.
        ones = operator.mass == operator.sum_sq_weights == operator.rows.shape[0]
        weights = None if ones else operator.weights
        return kernels.second_moment(operator.rows, weights) / operator.mass
    xp = namespace(operator.rows)
    rows = xp.astype(operator.rows, xp.float64)
    return (rows.T * (operator.weights / operator.mass)) @ rows


@dataclass(frozen=True, eq=False)
class ScaledOperator(HebbianOperator):
    """``diag(s) (S - mass m m^T) diag(s)`` as products with `base`; s and m (N,) where it lives."""

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


def scaled(
    operator: HebbianOperator, scale: np.ndarray | float = 1.0, mean: np.ndarray | float = 0.0
) -> HebbianOperator:
    """``diag(scale) (S - mass mean mean^T) diag(scale)`` in its own form, or as products.

    Rows that are numbers must be the examples themselves where a `mean` (N,) is taken off.
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
