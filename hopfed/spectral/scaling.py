"""Operators whose columns are centred and scaled, in their own form where that holds numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from hopfed._lib.arrays import Array, like, namespace
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator


@dataclass(frozen=True, eq=False)
class DerivedOperator(HebbianOperator):
    """Products with `base` and with what is made of them: neither added nor of a known diagonal."""

    base: HebbianOperator = field(repr=False)
    made: ClassVar[str]  # what was done to the base

    @property
    def home(self) -> Array:  # noqa: D102
        return self.base.home

    @property
    def trace(self) -> float:  # noqa: D102
        raise ArgumentError("operator", "one whose diagonal is known", f"a {self.made} operator")

    def _added(self, other: Self) -> Self:
        got = f"{type(self).__name__} and {type(other).__name__}"
        raise ArgumentError("operators", f"added before they are {self.made}", got)

    def __mul__(self, weight: float) -> Self:
        return replace(self, base=self.base * weight, **self._scaled(weight))


@dataclass(frozen=True, eq=False)
class ScaledOperator(DerivedOperator):
    """``diag(s) (S - mass m m^T) diag(s)`` as products with `base`; s and m (N,) where it lives.

    Examples
    --------
    >>> base = FactorOperator.from_examples(np.array([[1, -1]]))
    >>> twice = ScaledOperator(2, 1.0, 1.0, base, np.array([1.0, 2.0]), np.zeros(2))
    >>> twice.matmat(np.eye(2)).tolist()
    [[1.0, -2.0], [-2.0, 4.0]]
    """

    made = "scaled"
    scale: Array = field(repr=False)
    mean: Array = field(repr=False)

    def matmat(self, X: Array) -> Array:  # noqa: D102
        xp = namespace(X)
        s, m = (xp.astype(x, X.dtype)[:, None] for x in (self.scale, self.mean))
        inner = s * X
        return s * (self.base.matmat(inner) - m * (m.T @ inner))

    @property
    def nbytes(self) -> int:  # noqa: D102
        return self.base.nbytes + 4 * self.n_sites


def centred(operator: HebbianOperator, mean: np.ndarray) -> HebbianOperator:
    """``S - mass m m^T``: the second moment about the `mean` (N,) of the examples.

    Rows that are numbers must be the examples themselves.

    Examples
    --------
    >>> x = np.array([[1.0, 1.0, -1.0], [1.0, 0.0, 1.0]])
    >>> plain = FactorOperator(3, 2.0, 2.0, x, np.ones(2))
    >>> centred(plain, x.mean(axis=0)).matmat(np.eye(3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.25, -0.5], [0.0, -0.5, 1.0]]
    """
    m = like(mean, operator.home)
    if isinstance(operator, DenseOperator):
        m = namespace(operator.matrix).astype(m, operator.matrix.dtype)
        return replace(operator, matrix=operator.matrix - operator.mass * m[:, None] * m[None, :])
    if isinstance(operator, FactorOperator) and hasattr(operator.rows, "dtype"):  # no bits
        m = namespace(operator.rows).astype(m, operator.rows.dtype)
        return replace(operator, rows=operator.rows - m[None, :])
    one = like(np.ones(operator.n_sites), operator.home)
    return ScaledOperator(
        operator.n_sites, operator.mass, operator.sum_sq_weights, operator, one, m
    )


def scaled(operator: HebbianOperator, scale: np.ndarray) -> HebbianOperator:
    """``diag(scale) S diag(scale)`` in the operator's own form, or as products with it.

    Parameters
    ----------
    operator : of any form.
    scale : (N,), at least 0.

    Examples
    --------
    >>> x = np.array([[1.0, 1.0, -1.0], [1.0, 0.0, 1.0]])
    >>> half = scaled(FactorOperator(3, 2.0, 2.0, x, np.ones(2)), np.array([1.0, 2.0, 0.5]))
    >>> half.matmat(np.eye(3)).tolist()
    [[1.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 0.25]]
    """
    s = like(scale, operator.home)
    if isinstance(operator, DenseOperator):
        s = namespace(operator.matrix).astype(s, operator.matrix.dtype)
        return replace(operator, matrix=operator.matrix * s[:, None] * s[None, :])
    if isinstance(operator, FactorOperator) and hasattr(operator.rows, "dtype"):  # no bits
        s = namespace(operator.rows).astype(s, operator.rows.dtype)
        return replace(operator, rows=operator.rows * s[None, :])
    return ScaledOperator(
        operator.n_sites, operator.mass, operator.sum_sq_weights, operator, s, 0 * s
    )
