"""What the rounds have shown so far: one weighted operator, and the law of its noise.

Source: theory/NOTES.md, "Evidence over rounds".

Operators of clients and rounds are added with weights; older ones fade by `discount` each round.
The sum is a second-moment matrix of weighted examples, so the thresholds of random-matrix theory
hold for it, with the law of the weights on the side of the examples
(`hopfed.spectral.noise.NoiseProfile`). A matrix blended with remembered archetypes would have no
such law.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import Encoding, leading_factors, lower, symmetric
from hopfed.spectral.noise import NoiseProfile, Sample
from hopfed.spectral.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    pool,
)

Batch = tuple[int, HebbianOperator, np.ndarray, float]  # client, operator, column sums, weight

PILED, KEPT = 8, 4  # times the width: rows from which factors are compressed, and to how many
FORGOTTEN = 1e-4  # weight, relative to the largest, from which a batch no longer counts in the law


@dataclass(frozen=True)
class Evidence:
    """Weighted operators of batches.

    Attributes
    ----------
    encoding : their form.
    operator : the weighted sum; None before the first batch.
    columns : (N,) weighted sum of the examples themselves, which orients patterns.
    counts, weights, clients : (A,) examples, weight and client of each batch.
    """

    encoding: Encoding
    operator: HebbianOperator | None = None
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    clients: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def mass(self) -> float:
        """Sum of the weights of all examples."""
        return 0.0 if self.operator is None else self.operator.mass

    @property
    def n_examples(self) -> float:
        """Examples of equal weight whose noise has the same second moment."""
        return 0.0 if self.operator is None else self.operator.n_examples

    def faded(self, discount: float) -> Evidence:
        """Return the evidence with every weight multiplied by `discount`."""
        if discount == 0 or self.operator is None:
            return Evidence(self.encoding)
        weights = self.weights * discount
        return replace(
            self,
            operator=self.operator * discount,
            columns=self.columns * discount,
            weights=weights,
        )

    def extend(self, batches: Iterable[Batch]) -> Evidence:
        """Return the evidence with more batches: (client, operator, column sums, weight) each."""
        operators = [] if self.operator is None else [self.operator]
        weights = [1.0] * len(operators)
        sums = self.columns if self.operator is not None else np.zeros(self.encoding.n_sites)
        atoms = self.counts, self.weights, self.clients
        for client, operator, columns, weight in batches:
            operators.append(operator)
            weights.append(weight)
            sums = sums + columns * weight
            atoms = _with(*atoms, (operator.mass, weight, client))
        if not operators:
            return self
        pooled = _bounded(pool(operators, weights), self.encoding)
        return Evidence(self.encoding, pooled, sums, *atoms)

    def profile(self, captured: Mapping[int, np.ndarray] | None = None) -> NoiseProfile:
        """Law of the noise, from what each client's trace holds along the leading eigenvectors."""
        total = self.counts.sum()
        gains = self.weights * total / float(self.counts @ self.weights)
        known = None
        if captured:
            mean = np.mean(list(captured.values()), axis=0)
            known = np.array([captured.get(int(c), mean) for c in self.clients])
        return NoiseProfile(known, self.counts / total, self.encoding.n_sites, gains, float(total))

    def sample(
        self,
        values: np.ndarray,
        complete: bool,
        quality: float | None = None,
        captured: Mapping[int, np.ndarray] | None = None,
    ) -> Sample:
        """Describe the evidence to a rank rule; equal weights need no law of their own."""
        equal = captured is None and np.ptp(self.weights) <= 1e-9 * self.weights.max()
        return Sample(
            values,
            self.encoding.n_sites,
            self.n_examples,
            complete and self.encoding.exact,
            quality,
            profile=None if equal else self.profile(captured),
        )

    def flatten(self) -> Message:
        """Return the evidence as named arrays."""
        if self.operator is None:
            return {}
        op = self.operator
        arrays: Message = {
            "mass": np.array([op.mass, op.sum_sq_weights]),
            "columns": self.columns,
            "atoms": np.array([self.counts, self.weights, self.clients]),
        }
        if isinstance(op, DenseOperator):
            return arrays | {"triangle": lower(op.matrix)}
        if isinstance(op, FactorOperator):
            return arrays | {"rows": np.asarray(op.rows), "weights": op.weights}
        raise TypeError(type(op))

    @classmethod
    def unflatten(cls, encoding: Encoding, arrays: Message) -> Evidence:
        """Rebuild the evidence from its named arrays."""
        if not arrays:
            return cls(encoding)
        N, (mass, sum_sq_weights) = encoding.n_sites, arrays["mass"].tolist()
        operator: HebbianOperator
        if encoding.exact:
            matrix = symmetric(arrays["triangle"], N, mass)
            operator = DenseOperator(N, mass, sum_sq_weights, matrix)
        else:
            operator = FactorOperator(N, mass, sum_sq_weights, arrays["rows"], arrays["weights"])
        counts, weights, clients = arrays["atoms"]
        return cls(encoding, operator, arrays["columns"], counts, weights, clients.astype(np.int64))


def _with(
    counts: np.ndarray, weights: np.ndarray, clients: np.ndarray, new: tuple[float, float, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add a batch to the law; batches of one client with one weight are one."""
    count, weight, client = new
    same = (clients == client) & (np.abs(weights - weight) <= 1e-9 * weight)
    keep = ~same & (weights > FORGOTTEN * max(weights.max(initial=0.0), weight))
    count += float(counts[same].sum())
    return (
        np.append(counts[keep], count),
        np.append(weights[keep], weight),
        np.append(clients[keep], client),
    )


def _bounded(operator: HebbianOperator, encoding: Encoding) -> HebbianOperator:
    """Compress factors that have piled up over rounds to their leading part."""
    if not isinstance(operator, FactorOperator):
        return operator
    if len(operator.weights) <= PILED * encoding.width:
        return operator
    values, rows = leading_factors(operator, KEPT * encoding.width)
    return replace(operator, rows=rows, weights=values.astype(np.float64) * operator.mass)
