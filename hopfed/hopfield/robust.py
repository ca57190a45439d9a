"""Aggregates of the clients' operators, plain and robust against clients that lie.

Entry by entry, a share e of lying clients moves a median of values of scatter s by about
``1.25 e s``. That is little, but a spike of +-1 entries adds it up over all sites: it keeps an
eigenvalue of ``1.25 e s N``, which for many sites is above every threshold. Agreement across groups
of clients (`hopfed.hopfield.memory.support`) looks along a pattern and not at entries, and does not
suffer from that; `hopfed run byzantine` compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.aggregate import trimmed_mean
from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import lower, symmetric
from hopfed.spectral.noise import noise_variance
from hopfed.spectral.operators import DenseOperator, HebbianOperator

KINDS = ("mean", "trimmed", "median")

EVERYBODY = -1  # stands for the client of an operator that is of all clients

QUARTILES = 1.349  # distance of the quartiles of a normal law, in standard deviations


@dataclass(frozen=True)
class Robust:
    """How operators of one round are brought together.

    Attributes
    ----------
    kind : "mean" adds them; "trimmed" and "median" work entry by entry on the matrices of the
        clients, which must come as counts, and leave out the extremes: no client moves an entry
        further than its neighbours allow, and an archetype that only a few clients see is lost.
    share : of the clients left out at either end, by "trimmed".

    Raises
    ------
    ArgumentError : another kind, or a share outside [0, 1/2).

    Examples
    --------
    >>> honest, liar = np.full((3, 3), 100.0), np.full((3, 3), -100.0)
    >>> sent = dict(enumerate(DenseOperator(3, 100.0, 100.0, S) for S in (honest, liar, honest)))
    >>> columns = {c: {"columns": np.zeros(3)} for c in sent}
    >>> [(_, op, _, _)] = Robust("median").pooled(sent, columns, dict.fromkeys(sent, 1.0))
    >>> (op.matrix / op.mass)[0].round(1).tolist()
    [1.0, 1.0, 1.0]
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
    ) -> Iterator[tuple[int, HebbianOperator, np.ndarray, float]]:
        """Yield (owner, operator, column sums, weight) of what joins the evidence.

        Parameters
        ----------
        operators, messages, weights : by client; messages hold "columns", (N,).
        """
        heard = [c for c in operators if weights[c] > 0]
        if self.kind == "mean" or len(heard) < 3:
            for c in heard:
                yield c, operators[c], messages[c]["columns"].astype(np.float64), weights[c]
            return
        dense = [op for c in heard if isinstance(op := operators[c], DenseOperator)]
        if len(dense) < len(heard):
            raise ArgumentError("kind", "mean unless operators travel as counts", self.kind)
        columns = [messages[c]["columns"] for c in heard]
        yield EVERYBODY, *self._one(dense, columns), float(np.mean([weights[c] for c in heard]))

    def _one(
        self, dense: list[DenseOperator], columns: list[np.ndarray]
    ) -> tuple[DenseOperator, np.ndarray]:
        """Robust means of the matrices, the columns and the numbers of examples."""
        share = 0.5 if self.kind == "median" else self.share
        N, masses = dense[0].n_sites, np.array([op.mass for op in dense])
        triangles = np.array([lower(op.matrix) / op.mass for op in dense])
        # The numbers of examples that clients claim are theirs to lie about, too.
        typical = float(trimmed_mean(list(masses), share))
        entries = _spread(triangles, 1 / typical)
        matrix = symmetric(trimmed_mean(list(entries), share), N, 1.0)
        scatter = _scatter(entries) / len(dense)
        examples = _worth(matrix, len(dense) * typical, loss(share), scatter)
        means = trimmed_mean([s / m for s, m in zip(columns, masses, strict=True)], share)
        return DenseOperator(N, examples, examples, matrix * examples), means * examples


def _worth(matrix: np.ndarray, examples: float, loss: float, variance: float) -> float:
    """Return the number of examples whose mean has the noise of a robust mean.

    The noise of a mean of N x N matrices has the variance ``s2^2 / M`` per entry beside the
    signal, to which what signal and noise share adds directions of the signal only. What a robust
    mean adds of its own, ``loss - 1`` times the `variance` of the entries of a mean, is white.
    """
    N = len(matrix)
    values = np.linalg.eigvalsh(matrix)[::-1]
    edge = 1 + 2 * np.sqrt(N * loss * variance)
    s2 = noise_variance(values[values > edge], N, N / examples)
    return 1 / (1 / examples + (loss - 1) * variance / s2**2)


def _scatter(entries: np.ndarray) -> float:
    """Mean variance between clients of sorted entries (L, P), by their quartiles."""
    low, high = (entries[round(q * (len(entries) - 1))] for q in (0.25, 0.75))
    return float(((high - low) ** 2).mean()) / QUARTILES**2


def _spread(entries: np.ndarray, cell: float) -> np.ndarray:
    """Sort the entries (L, P), equal ones spread evenly over `cell` to either side.

    A mean of M products of signs is a multiple of 2 / M apart from the next. The median of such
    values jumps from one to the next as their mean moves, which is far from linear; with each
    spread over its cell, 1 / M to either side, it is the median of grouped data, and follows.
    """
    rows = np.sort(np.ascontiguousarray(entries.T), axis=1)
    L = rows.shape[1]
    place = np.arange(L, dtype=np.int32)
    border = np.ones((len(rows), L + 1), dtype=bool)
    border[:, 1:-1] = rows[:, 1:] != rows[:, :-1]
    first = np.maximum.accumulate(np.where(border[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(border[:, 1:], place, L)[:, ::-1], axis=1)[:, ::-1]
    return (rows + cell * (2 * place - first - last) / (last - first + 1)).T


def loss(share: float) -> float:
    """Variance of a trimmed mean of normal values over that of their mean.

    Parameters
    ----------
    share : of the values left out at either end; 1/2 leaves the median.

    Examples
    --------
    >>> loss(0.0), round(loss(0.1), 3), round(loss(0.5), 3)
    (1.0, 1.06, 1.571)
    """
    if share == 0:
        return 1.0
    if share >= 0.5:
        return np.pi / 2
    z = float(ndtri(1 - share))
    inside = 1 - 2 * share
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return float((inside - 2 * z * density + 2 * share * z**2) / inside**2)
