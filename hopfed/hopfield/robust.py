"""Aggregates of the clients' operators, plain and robust against clients that lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hopfed.aggregate import trimmed_mean
from hopfed.config import require
from hopfed.errors import ArgumentError
from hopfed.federation.messages import Message
from hopfed.hopfield.evidence import Batch
from hopfed.operators import DenseOperator, HebbianOperator

KINDS = ("mean", "trimmed", "median")

EVERYBODY = -1  # owner of an operator that is no single client's


@dataclass(frozen=True)
class Robust:
    """How operators of one round are brought together.

    Attributes
    ----------
    kind : "mean" adds them; "trimmed" and "median" work entry by entry on the matrices of the
        clients, which must come as counts, and leave out the extremes: a spike that a few clients
        put in goes, and so does an archetype that only a few clients see.
    share : of the clients left out at either end, by "trimmed".
    """

    kind: str = "mean"
    share: float = 0.1

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        require(0 <= self.share < 0.5, "share", "in [0, 1/2)", self.share)

    def pooled(
        self,
        operators: Mapping[int, HebbianOperator],
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Iterator[Batch]:
        """Yield (owner, operator, column sums, weight) of what joins the evidence."""
        heard = [c for c in operators if weights[c] > 0]
        if self.kind == "mean" or len(heard) < 3:
            for c in heard:
                yield c, operators[c], messages[c]["columns"].astype(np.float64), weights[c]
            return
        dense = [operators[c] for c in heard]
        if not all(isinstance(op, DenseOperator) for op in dense):
            raise ArgumentError("kind", "mean unless operators travel as counts", self.kind)
        yield self._one(dense, heard, messages, weights)

    def _one(
        self,
        dense: list[HebbianOperator],
        heard: list[int],
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Batch:
        share = 0.5 if self.kind == "median" else self.share
        matrices = [op.matrix / op.mass for op in dense]  # type: ignore[attr-defined]
        mass = sum(op.mass for op in dense)
        matrix = trimmed_mean(matrices, share) * mass
        columns = np.sum([messages[c]["columns"] for c in heard], axis=0).astype(np.float64)
        # The median of L normal values has the variance of the mean of about 2 L / pi of them.
        lost = 1 + (np.pi / 2 - 1) * 2 * share
        operator = DenseOperator(dense[0].n_sites, mass, mass * lost, matrix)
        return EVERYBODY, operator, columns, float(np.mean([weights[c] for c in heard]))
