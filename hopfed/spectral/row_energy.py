"""How much noise rows hold: power sums of their residual energy, which owners can add up.

Classes differ in the noise of their columns, owners in what they observe, rows in their quality.
Where rows hold unequal noise the edge lies higher than that of white noise, and a few leading
eigenvalues of nothing but noise pass it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.kernels import PackedBits
from hopfed.spectral.operators import FactorOperator, HebbianOperator, PooledOperator
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import SITES, times, transposed_times

SURE = 3.0  # standard errors by which the spread of the rows' noise must exceed its chance value


@dataclass(frozen=True)
class RowEnergies:
    """Power sums of the rows' residual energy per column, in whitened coordinates.

    Attributes
    ----------
    sums : (5,) number of rows, and sums of the first four powers.

    Examples
    --------
    >>> even, uneven = np.ones(400), np.repeat([0.5, 1.5], 200)
    >>> spread = [RowEnergies.of(e).spread(chance=0.01) for e in (even, uneven)]
    >>> np.round(spread, 3).tolist()
    [0.0, 0.49]
    """

    sums: np.ndarray

    @classmethod
    def of(cls, energies: np.ndarray) -> RowEnergies:
        """Sum the powers of the `energies` (R,) of rows."""
        e = np.asarray(energies, dtype=np.float64)
        return cls(np.array([(e**k).sum() for k in range(5)]))

    def __add__(self, other: RowEnergies) -> RowEnergies:
        return RowEnergies(self.sums + other.sums)

    def spread(self, chance: float) -> float:
        """Standard deviation of the rows' noise variance over its mean; 0 where it may be chance.

        Parameters
        ----------
        chance : variance over rows that energies have where all hold the same noise.
        """
        m, first, second, third, fourth = self.sums
        mean = first / m
        if m < 8 or mean <= 0:
            return 0.0
        variance = second / m - mean**2
        central = fourth / m - 4 * mean * third / m + 6 * mean**2 * second / m - 3 * mean**4
        error = np.sqrt(max(central - variance**2, 0.0) / m)
        excess = variance / mean**2 - chance
        if excess <= SURE * error / mean**2:
            return 0.0
        return float(min(np.sqrt(excess), 0.95))


def row_energies(
    operator: HebbianOperator, scale: np.ndarray, mean: np.ndarray, vectors: Array
) -> RowEnergies | None:
    """Residual energies of an operator's rows; None where it does not hold the rows.

    Parameters
    ----------
    operator : in factor form, its rows the examples; or the pool of such operators.
    scale : (N,) of the columns, 0 where a column is left out.
    mean : (N,) of the zero-filled rows.
    vectors : (N, K) directions of signal in whitened coordinates.

    Examples
    --------
    >>> op = FactorOperator.from_examples(np.array([[1, 1, -1], [1, -1, 1]]))
    >>> row_energies(op, np.ones(3), np.zeros(3), np.eye(3)[:, :1]).sums.tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    if isinstance(operator, PooledOperator):
        parts = [row_energies(op, scale, mean, vectors) for op in operator.parts]
        known = [p for p in parts if p is not None]
        return sum(known[1:], known[0]) if len(known) == len(parts) else None
    if not isinstance(operator, FactorOperator):
        return None
    if isinstance(operator.rows, Reread):
        return operator.rows.total(
            lambda part: _energies(FactorOperator.from_examples(part), scale, mean, vectors)
        )
    return _energies(operator, scale, mean, vectors)


def _energies(
    operator: FactorOperator, scale: np.ndarray, mean: np.ndarray, vectors: Array
) -> RowEnergies:
    s = like(scale, operator.home)[:, None]
    m = like(mean, operator.home)[:, None]
    U = like(to_host(vectors), operator.home) * s
    inner = times(operator.rows, namespace(U).concat([U, m * s**2], axis=1))
    inside = inner[:, :-1] - m.T @ U
    energy = _squares(operator.rows, s**2) - 2 * inner[:, -1] + float((m**2 * s**2).sum())
    energy = energy - (inside**2).sum(axis=1)
    return RowEnergies.of(to_host(energy) / max(int((scale > 0).sum()) - vectors.shape[1], 1))


def _squares(rows: PackedBits | Array, weights: Array) -> Array:
    """(R,) sums over columns of squared entries times `weights` (N, 1)."""
    if isinstance(rows, PackedBits):
        return weights.sum()
    presence = getattr(rows, "presence", None)  # of rows with gaps: 1 where there is an entry
    if presence is not None:
        return times(presence, weights)[:, 0]
    total = 0.0
    for a in range(0, rows.shape[1], SITES):
        total = total + times(rows[:, a : a + SITES] ** 2, weights[a : a + SITES])[:, 0]
    return total


def diagonal_and_mean(operator: FactorOperator) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the diagonal of C and the mean row, (N,) both.

    The mean is None where the rows are no examples of -1, 0 and +1.

    Examples
    --------
    >>> gaps = FactorOperator(2, 2.0, 2.0, np.array([[1.0, 0.0], [-1.0, 1.0]]), np.ones(2))
    >>> [x.tolist() for x in diagonal_and_mean(gaps)]
    [[1.0, 0.5], [0.0, 0.5]]
    """
    rows: Array = operator.rows
    if isinstance(rows, Reread):
        return rows.totals.seen / operator.mass, rows.totals.sums / operator.mass
    weights = operator.weights[:, None] / operator.mass
    n = operator.n_sites
    if not hasattr(rows, "dtype"):
        presence = getattr(rows, "presence", None)
        if presence is None:
            return np.full(n, float(weights.sum())), _sums(rows, weights)
        return _sums(presence, weights), _sums(rows, weights)
    xp = namespace(rows)
    seen, mean, signs = np.empty(n), np.empty(n), True
    for a in range(0, n, SITES):
        part = xp.astype(rows[:, a : a + SITES], xp.float64)
        seen[a : a + SITES] = to_host(xp.sum(part**2 * weights, axis=0))
        mean[a : a + SITES] = to_host(xp.sum(part * weights, axis=0))
        signs &= bool(xp.all((part == 0) | (xp.abs(part) == 1)))
    return seen, mean if signs else None


def _sums(rows: PackedBits | Array, weights: Array) -> np.ndarray:
    return to_host(transposed_times(rows, weights))[:, 0]
