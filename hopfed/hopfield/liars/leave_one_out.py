"""Archetypes that clients agree on: found with all of them, and without each in turn.

The sum of all operators does not say which patterns it is made of: to archetypes a client that lies
adds a product or a majority of them, and the sum is as well that of others, each half of every one
of these. No honest client is made of those. So archetypes are also looked for without each client,
and those count by which all clients but so many liars, whoever these are, are explained best: the
least trimmed squares of P. J. Rousseeuw, J. Amer. Statist. Assoc. 79 (1984) 871. Those of all
clients stay unless others are better by more than noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from hopfed._lib.arrays import blas_threads
from hopfed.archetypes.factorize import Archetypes
from hopfed.hopfield.memory.blending import Counted
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.spectral.operators import HebbianOperator

LEFT_OUT = 12  # clients that are left out in turn; of more, each has little weight
FEWEST = 16  # directions that may always be searched


@dataclass(frozen=True)
class Views:
    """What the operator of each client holds along the leading eigenvectors of all.

    Attributes
    ----------
    vectors : V (N, K).
    seen : (L, K, K) ``V^T C_c V`` without noise, and divided by its own scale.
    scales : (L, K) roots of what an operator holds along each eigenvector.
    examples : (L,) of each.
    """

    vectors: np.ndarray
    seen: np.ndarray
    scales: np.ndarray
    examples: np.ndarray

    @classmethod
    def of(cls, operators: Mapping[int, HebbianOperator], counted: Counted) -> Views:
        """Look at the operators of clients along a counted spectrum."""
        V = counted.spectrum.vectors[:, : counted.rank.n_detected].astype(np.float64)
        held = np.stack([V.T @ op.matmat(V) for op in operators.values()])
        noise = [counted.variances.get(c, counted.rank.variance) for c in operators]
        floor = 1e-3 * counted.rank.variance
        scales = np.maximum(np.diagonal(held, axis1=1, axis2=2), floor)
        added = [op.noise / op.mass for op in operators.values() if isinstance(op, PrivateOperator)]
        if added:  # an entry scatters by that as well
            scales = scales + np.sqrt(added)[:, None]
        scales = np.sqrt(scales)
        signal = held - np.asarray(noise)[:, None, None] * np.eye(V.shape[1])
        seen = signal / (scales[:, :, None] * scales[:, None, :])
        return cls(V, seen, scales, np.array([op.n_examples for op in operators.values()]))

    def misfits(self, patterns: np.ndarray) -> np.ndarray:
        """What patterns (C, N) with any shares leave of each view: (L,).

        One for each number of a view where the patterns are those of the client, by the law of
        Wishart: an entry of a view scatters by the root of 1 over the examples.
        """
        return np.array([view.fit()[1] for view in self._shown(patterns)])

    def lost(self, patterns: np.ndarray) -> np.ndarray:
        """How much worse each view is explained without each of the patterns (C, N): (C, L)."""
        lost = np.zeros((len(patterns), len(self.seen)))
        for c, view in enumerate(self._shown(patterns)):
            shares, whole = view.fit()
            for k in map(int, np.flatnonzero(shares)):  # the others take no part
                lost[k, c] = view.fit(k)[1] - whole
        return lost

    def _shown(self, patterns: np.ndarray) -> list[_Shown]:
        a = patterns.astype(np.float64) @ self.vectors
        each = zip(self.seen, self.scales, self.examples, strict=True)
        with blas_threads(1):  # many small ones
            return [_Shown.of(seen, a / scale, examples) for seen, scale, examples in each]


@dataclass(frozen=True)
class _Shown:
    """Least squares of a view S by shares of patterns b: ``|S - sum_k x_k b_k b_k^T|^2 / 2``.

    Of K directions S has K^2 entries, but the squares need no more of them than ``b_k^T S b_k``,
    beside ``(b_k . b_l)^2``. Of 153 patterns along as many directions they are fitted in .001 s;
    fitted to all entries, in 9 s.

    Attributes
    ----------
    root : (D, C) whose product with itself is half of ``(b_k . b_l)^2``.
    target : (D,) what shares are to give.
    rest : what no shares explain.
    examples : that the view is over.
    """

    root: np.ndarray
    target: np.ndarray
    rest: float
    examples: float

    @classmethod
    def of(cls, seen: np.ndarray, b: np.ndarray, examples: float) -> _Shown:
        """Prepare for a view (K, K) and patterns (C, K) along its directions."""
        whole = np.square(seen).sum() / 2
        if not len(b):
            return cls(np.zeros((0, 0)), np.zeros(0), whole, examples)
        values, E = np.linalg.eigh(np.square(b @ b.T) / 2)
        keep = values > 1e-13 * values[-1]
        roots, E = np.sqrt(values[keep]), E[:, keep]
        target = np.einsum("ck,ck->c", b @ seen, b) / 2 @ E / roots
        return cls(roots[:, None] * E.T, target, whole - target @ target, examples)

    def fit(self, but: int | None = None) -> tuple[np.ndarray, float]:
        """Shares of the patterns, all of them or all but one, and what they leave of the view."""
        root = self.root if but is None else np.delete(self.root, but, axis=1)
        shares, left = nnls(root, self.target) if root.size else (np.zeros(0), 0.0)
        if not root.size:
            left = float(np.linalg.norm(self.target))
        return shares, float(self.examples * max(left**2 + self.rest, 0.0))


def agreed(
    found: Archetypes,
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    liars: int,
    level: float,
    without: Callable[[Sequence[int]], Archetypes],
    most: float = np.inf,
) -> Archetypes:
    """Return the archetypes by which all clients but some are explained best.

    Parameters
    ----------
    found, counted : archetypes and spectrum of all clients.
    operators : of the clients.
    liars : clients whose view does not count, for each answer those that it explains worst.
    level : standard deviations by which another answer must be better.
    without : archetypes of all clients but these.
    most : directions of all these answers together, after which no other is looked for.
    """
    if not 0 < liars < len(operators) - 1 or counted.rank.n_detected == 0:
        return found
    views, clients = Views.of(operators, counted), list(operators)
    best, misfits = found, views.misfits(found.patterns)
    least = _score(misfits, liars)
    K = views.vectors.shape[1]
    if least <= (len(clients) - liars) * (K * (K + 1) / 2 - len(found)) + level:
        return found  # all is explained but for noise
    least -= level**2
    order = np.argsort(-misfits, kind="stable")  # who lies with others is fitted as they are
    starts = [order[i : i + liars] for i in range(0, len(order), liars)][:LEFT_OUT]
    tried: set[tuple[int, ...]] = set()
    looked = 0
    while starts and looked < most:
        out = tuple(sorted(map(int, starts.pop(0))))
        if out in tried:
            continue
        tried.add(out)
        answer = without([clients[c] for c in out])
        looked += answer.n_detected
        misfits = views.misfits(answer.patterns)
        if (score := _score(misfits, liars)) < least:
            best, least = answer, score
            starts.append(np.argsort(-misfits, kind="stable")[:liars])
    return best


def _score(misfits: np.ndarray, liars: int) -> float:
    """What is left of all views (L,) but the worst."""
    return float(np.sort(misfits)[: len(misfits) - liars].sum())


def searched(
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    weights: Mapping[int, float],
    liars: int,
) -> tuple[int, float]:
    """How many directions others show than the clients with most, and how many may be searched.

    One client can bring hundreds of directions, in which the search finds what is told to nobody,
    or nothing. Where it brings more than all others show, the search is bounded by theirs.

    Parameters
    ----------
    counted : spectrum of all clients.
    operators, weights : of the clients; weights are per example.
    liars : clients left out.

    Returns
    -------
    shown : directions that the others show together.
    most : twice as many, and 16 at least; inf where no more are counted.
    """
    K = counted.rank.n_detected
    if K == 0 or not 0 < liars < len(operators):
        return K, np.inf
    V = counted.spectrum.vectors[:, :K].astype(np.float64)
    noise = np.array([counted.variances.get(c, counted.rank.variance) for c in operators])
    held = np.stack([V.T @ op.matmat(V) for op in operators.values()])
    held -= noise[:, None, None] * np.eye(K)
    examples = np.array([op.n_examples for op in operators.values()], dtype=float)

    def above(signal: np.ndarray, variance: float, examples: float) -> int:
        edge = variance * ((1 + np.sqrt(len(V) / max(examples, 1.0))) ** 2 - 1)
        return int((np.linalg.eigvalsh(signal) > edge).sum())

    alone = [above(*each) for each in zip(held, noise, examples, strict=True)]
    kept = np.argsort(alone, kind="stable")[: len(alone) - liars]
    mass = np.array([weights[c] for c in operators])[kept] * examples[kept]
    if mass.sum() <= 0:
        return K, np.inf
    share = mass / mass.sum()
    pooled = np.tensordot(share, held[kept], 1), float(share @ noise[kept])
    shown = above(*pooled, 1 / float((share**2 / examples[kept]).sum()))
    most = max(FEWEST, 2 * shown)
    return shown, most if most < K else np.inf


def needed(
    patterns: np.ndarray,
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    liars: int,
    level: float,
) -> np.ndarray:
    """Which patterns (K,) others than their strongest supporters cannot be explained without.

    A pattern may be a sum of others: of three archetypes a majority is, beside another one. Then no
    direction is its own, and it is asked what the views lose without it.

    Parameters
    ----------
    patterns : (K, N).
    counted : spectrum of all clients.
    operators : of the clients.
    liars : clients left out, for every pattern those that need it most.
    level : standard deviations that are a need.
    """
    K, kept = len(patterns), len(operators) - liars
    if counted.rank.n_detected == 0:
        return np.zeros(K, dtype=bool)
    views = Views.of(operators, counted)
    needs = np.sort(views.lost(patterns), axis=1)[:, :kept].sum(axis=1)
    return np.asarray(needs > level**2 + kept)
