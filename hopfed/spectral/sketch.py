"""Linear sketches of a Hebbian operator: what clients send where whole operators are too large."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Self

import numpy as np

from hopfed._lib.arrays import Array, like, to_host
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import FactorOperator, HebbianOperator
from hopfed.spectral.rows import Examples, batches

ROUNDING = 1e-5  # of single precision, in sums

__all__ = ["SketchOperator", "sketch_matrix"]


@dataclass(frozen=True, eq=False)
class SketchOperator(HebbianOperator):
    """`sketch` ``Y = S Omega`` (N, k), Omega the orthonormal test matrix that `seed` names.

    With `trace_sum`, the trace of S; only sketches of one seed can be added. A sketch is what
    travels: it is made where the examples are, and kept on the host.

    Examples
    --------
    >>> rows = np.ones((5, 4)) - 2 * np.eye(5, 4)
    >>> exact = FactorOperator.from_examples(rows[:2])  # of rank 2, as wide as the sketch
    >>> sketch = SketchOperator.from_examples(rows[:2], width=2, seed=0)
    >>> bool(np.allclose(sketch.matmat(np.eye(4)), exact.matmat(np.eye(4))))
    True
    """

    sketch: Array = field(repr=False)
    trace_sum: float
    seed: int

    @classmethod
    def from_examples(cls, examples: Examples, *, width: int, seed: int) -> Self:
        """Sketch `examples` to `width` columns, batch by batch; no N x N array is made."""
        exact: list[FactorOperator] = [FactorOperator.from_examples(p) for p in batches(examples)]
        return reduce(lambda a, b: a + b, (cls.of(op, width=width, seed=seed) for op in exact))

    @classmethod
    def of(cls, operator: HebbianOperator, *, width: int, seed: int) -> Self:
        """Sketch an operator of any form to `width` columns, from 1 to N."""
        n = operator.n_sites
        if not 1 <= width <= n:
            raise ArgumentError("width", f"between 1 and the {n} sites", width)
        Omega = like(sketch_matrix(n, width, seed), operator.home)
        Y = to_host(operator.matmat(Omega)) * operator.mass
        trace = operator.trace * operator.mass
        return cls(n, operator.mass, operator.sum_sq_weights, Y, trace, seed)

    def factors(self) -> FactorOperator:
        """Return the shifted Nystrom approximation ``Y (Omega^T Y)^+ Y^T`` in factor form.

        Source: theory/NOTES.md, "Linear sketches".

        The shift makes the Cholesky factor of ``Omega^T Y`` exist in finite precision and is
        taken off the eigenvalues again. It starts at the rounding of float64 and grows where Y was
        rounded more coarsely, as on the wire.
        """
        Y = np.asarray(to_host(self.sketch), dtype=np.float64) / self.mass
        Omega = sketch_matrix(self.n_sites, Y.shape[1], self.seed)
        shift = np.sqrt(self.n_sites) * np.finfo(Y.dtype).eps * max(np.linalg.norm(Y), 1e-300)
        root = None
        while root is None:
            inner = Omega.T @ Y + shift * np.eye(Y.shape[1])
            try:
                root = np.linalg.cholesky((inner + inner.T) / 2)
            except np.linalg.LinAlgError:
                shift *= 100
        shifted = Y + shift * Omega
        U, s, _ = np.linalg.svd(np.linalg.solve(root, shifted.T).T, full_matrices=False)
        values = np.maximum(s**2 - shift, 0.0)
        return FactorOperator(self.n_sites, self.mass, self.sum_sq_weights, U.T, values * self.mass)

    def possible(self) -> Self:
        """Return the sketch itself if examples can have it, else one of those that can.

        Examples have ``B = Omega^T Y`` positive semi-definite, and ``Y B^+ Y^T``, which is at most
        S, has at most its trace. Of what breaks this, that operator is kept with B made so, and
        scaled to the trace: a client can add nothing that its number of examples could not.

        Examples
        --------
        >>> honest = SketchOperator.from_examples(np.ones((5, 4)), width=2, seed=0)
        >>> honest.possible() is honest
        True
        >>> float(abs(replace(honest, sketch=-honest.sketch).possible().sketch).max())
        0.0
        """
        Y = np.asarray(to_host(self.sketch), dtype=np.float64)
        Omega = sketch_matrix(self.n_sites, Y.shape[1], self.seed)
        least = ROUNDING * float(np.linalg.norm(Y)) + np.finfo(float).tiny
        B = Omega.T @ Y
        values, U = np.linalg.eigh((B + B.T) / 2)
        root = Y @ U / np.sqrt(np.maximum(values, 0.0) + least)  # S is at least root @ root.T
        trace = float((root**2).sum())
        most = self.trace_sum * (1 + ROUNDING)
        if values[0] >= -least and np.linalg.norm(B - B.T) <= least and trace <= most:
            return self
        known = values > least
        root = root[:, known]
        trace = float((root**2).sum())
        scale = min(1.0, self.trace_sum / trace) if known.any() else 0.0
        return replace(self, sketch=scale * root @ (root.T @ Omega))

    def matmat(self, X: Array) -> Array:  # noqa: D102
        return self.factors().matmat(X)

    @property
    def home(self) -> Array:  # noqa: D102
        return to_host(self.sketch)

    @property
    def trace(self) -> float:  # noqa: D102
        return self.trace_sum / self.mass

    @property
    def nbytes(self) -> int:  # noqa: D102
        return int(4 * self.sketch.size + 8)

    def _added(self, other: Self) -> Self:
        if self.seed != other.seed or self.sketch.shape != other.sketch.shape:
            got = f"seeds {self.seed} and {other.seed}, widths {self.sketch.shape[1]} and "
            raise ArgumentError(
                "sketches", "of one seed and width", got + f"{other.sketch.shape[1]}"
            )
        return replace(
            self,
            sketch=self.sketch + other.sketch,
            trace_sum=self.trace_sum + other.trace_sum,
            **self._masses(other),
        )

    def __mul__(self, weight: float) -> Self:
        return replace(
            self,
            sketch=self.sketch * weight,
            trace_sum=self.trace_sum * weight,
            **self._scaled(weight),
        )


def sketch_matrix(n: int, width: int, seed: int) -> np.ndarray:
    """Return the common (n, width) orthonormal test matrix of the sketches under `seed`.

    Examples
    --------
    >>> Omega = sketch_matrix(5, 2, seed=0)
    >>> Omega.shape, abs(Omega.T @ Omega).round(12).tolist()
    ((5, 2), [[1.0, 0.0], [0.0, 1.0]])
    """
    return np.linalg.qr(stream(seed, "sketch", n).standard_normal((n, width)))[0]
