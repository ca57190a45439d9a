"""How much the operators of a round speak for a pattern, beyond other patterns and noise.

A pattern is tried along its own direction d, the part of it that is orthogonal to all the others:
``d^T C_c d`` is the mean of M_c squared projections. Noise alone gives ``s2_c (1 +- sqrt(2/M_c))``
and an archetype adds its spike.

Patterns corrected site by site by what clients' operators say, without the extremes.

A client whose rows are nearly the archetypes, some of their sites turned in all rows alike, blurs
the pool: with as few as one such client of five, a tenth of the sites of a pattern can be wrong.
Votes mend that where there are some. Without them, every client's operator C_c, tried along the
direction d of a pattern, says of every site i what its rows hold of it there: ``(C_c d)_i`` is
about ``w r^2 (xi . d) xi_i`` beside noise of variance ``d^T C_c d / M_c``. The extremes of these
are left out, and a site is turned where the others contradict it by more than noise does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinvh

from hopfed._lib.random import stream
from hopfed.federation.aggregate import trimmed_mean
from hopfed.hopfield.memory.blending import along
from hopfed.spectral.operators import HebbianOperator


def dual_directions(patterns: np.ndarray) -> np.ndarray:
    """Unit vectors (N, K), each the part of a pattern that is orthogonal to all the others."""
    # The pseudo-inverse by way of the K x K overlaps: patterns have many more sites than there are.
    xi = patterns.astype(np.float64)
    dual = xi.T @ pinvh(xi @ xi.T) if len(xi) else xi.T
    return dual / np.maximum(np.linalg.norm(dual, axis=0), 1e-300)


def random_groups(clients: int, groups: int, secret: int, t: int) -> list[np.ndarray]:
    """Indices of clients in at most `groups` random groups, drawn anew in each round t.

    Under a `secret` that only the server has: a client that knew its group, or those of others,
    could choose whom to lie with.
    """
    order = stream(int(secret), "groups of clients", t).permutation(clients)
    return np.array_split(order, min(groups, clients))


@dataclass(frozen=True)
class Support:
    """What each client's operator holds along each pattern.

    Attributes
    ----------
    held : (L, K) ``d_k^T C_c d_k``.
    examples, weights, variances : (L,) of the clients: M_c, weight per example, s2_c.
    rest : (L,) what each operator holds, in the mean, along a direction outside of the patterns:
        s2_c on data that hold nothing but the patterns and noise, more on others. s2_c where that
        was not measured.
    reach : (K,) ``(xi_k . d_k)^2``, what an example of the pattern holds along its direction.
    n_sites : N; 0 where patterns were not chosen by these operators.
    """

    held: np.ndarray
    examples: np.ndarray
    weights: np.ndarray
    variances: np.ndarray
    rest: np.ndarray
    reach: np.ndarray
    n_sites: int = 0

    @classmethod
    def of(
        cls,
        operators: Sequence[HebbianOperator],
        patterns: np.ndarray,
        weights: Sequence[float],
        variances: Sequence[float],
        careful: bool = False,
    ) -> Support:
        """Measure the support that `operators`, one for each client, give to `patterns` (K, N)."""
        d = dual_directions(patterns)
        held, noise = np.zeros((len(operators), len(patterns))), np.asarray(variances, float)
        for c, op in enumerate(operators):
            held[c] = along(op, d)
        rest = np.maximum(noise, _outside(operators, patterns)) if careful else noise
        examples = np.array([op.n_examples for op in operators])
        reach = (patterns * d.T).sum(axis=1) ** 2
        N = patterns.shape[1] if careful else 0
        return cls(held, examples, np.asarray(weights, float), noise, rest, reach, N)

    def scores(self, clients: np.ndarray | None = None) -> np.ndarray:
        """Standard scores (K,) of the operators of `clients` pooled; of all when left out."""
        chosen = slice(None) if clients is None else clients
        mass = (self.weights * self.examples)[chosen]
        total = mass.sum()
        if total <= 0:
            return np.zeros(self.held.shape[1])
        excess = mass @ (self.held - self.variances[:, None])[chosen] / total
        variance = (mass**2 * 2 * self.variances[chosen] ** 2 / self.examples[chosen]).sum()
        return excess / np.sqrt(max(variance, 1e-300)) * total

    def alone(self) -> np.ndarray:
        """Standard scores (L, K) of each client's operator by itself, beside what else it holds."""
        noise = self.rest[:, None]
        return (self.held - noise) / (noise * np.sqrt(2 / self.examples)[:, None])

    def doubted(self, liars: int) -> np.ndarray:
        """Standard scores (K,) of the pooled operators without the strongest supporters of each.

        An archetype that only so many clients show, or that so many made up, has no score left.
        What a client holds along a pattern is compared with what it holds along any direction:
        data that are not archetypes and noise hold something everywhere.
        """
        noise = self.rest[:, None]
        mass = (self.weights * self.examples)[:, None]
        gain = mass * (self.held - noise)
        spread = (mass * noise) ** 2 * 2 / self.examples[:, None]
        kept = np.argsort(gain, axis=0, kind="stable")[: len(gain) - liars]
        excess, variance = (np.take_along_axis(x, kept, axis=0).sum(axis=0) for x in (gain, spread))
        scores = excess / np.sqrt(np.maximum(variance, 1e-300))
        return np.where(excess > self._by_choice(kept), scores, 0.0)

    def _by_choice(self, kept: np.ndarray) -> np.ndarray:
        """What noise alone adds up to, at most, along a pattern that was chosen for it: (K,).

        Patterns are read off the sum of the same operators. A client that lies can lift any
        direction of the noise of the others above the threshold; their noise is at its largest
        along an eigenvector at the edge, of which the signs have a squared cosine of 2 / pi.
        """
        mass = (self.weights * self.examples)[:, None]
        noise, squares = mass * self.rest[:, None], mass * self.weights[:, None]
        total, held, spread = (
            np.take_along_axis(np.broadcast_to(x, self.held.shape), kept, axis=0).sum(axis=0)
            for x in (mass, noise, squares)
        )
        aspect = self.n_sites * spread / np.maximum(total, 1e-300) ** 2
        return np.asarray(2 / np.pi * held * ((1 + np.sqrt(aspect)) ** 2 - 1))

    def behind(self, quality: float, liars: int = 0) -> np.ndarray:
        """Weighted examples (K,) of each pattern, but those of its strongest supporters.

        A share w of examples of quality r adds ``w r^2 (xi . d)^2`` to what an operator holds.
        """
        share = (self.held - self.rest[:, None]) / np.maximum(quality**2 * self.reach, 1e-300)
        each = np.clip(share, 0.0, 1.0) * (self.weights * self.examples)[:, None]
        return np.asarray(np.sort(each, axis=0)[: len(each) - liars].sum(axis=0))

    def agreement(self, groups: Sequence[np.ndarray], level: float = 3.0) -> np.ndarray:
        """Share of the `groups` of clients, index arrays, that support each pattern: (K,).

        An archetype shows wherever it is exposed; a spike that a few clients put in, in few.
        """
        return np.mean([self.scores(np.asarray(g)) > level for g in groups], axis=0)


def _outside(operators: Sequence[HebbianOperator], patterns: np.ndarray) -> np.ndarray:
    """What each operator holds, in the mean, along a direction outside of the patterns: (L,)."""
    basis = np.linalg.qr(patterns.T.astype(np.float64))[0]
    inside = np.array([along(op, basis).sum() for op in operators])
    N, K = basis.shape
    return np.asarray((N - inside) / max(N - K, 1))


def corrected(
    patterns: np.ndarray,
    operators: Sequence[HebbianOperator],
    weights: Sequence[float],
    liars: int,
    level: float,
) -> np.ndarray:
    """Turn those sites of the patterns, int8 (K, N), that the operators contradict."""
    L, cut = len(operators), min(liars, (len(operators) - 1) // 2)
    if cut <= 0 or len(patterns) == 0:
        return patterns
    d, masses = dual_directions(patterns), [op.n_examples for op in operators]
    said = np.stack([np.asarray(op.matmat(d)).T for op in operators])  # (L, K, N)
    held = np.einsum("lkn,nk->lk", said, d)
    scale = np.asarray(weights, float) * masses
    share, kept = (cut + 0.5) / L, L - 2 * cut
    fixed = patterns.copy()
    for k in range(len(patterns)):
        middle = trimmed_mean([scale[c] * said[c, k] for c in range(L)], share)
        noise = np.sqrt(np.median(scale**2 * held[:, k] / np.asarray(masses)) / kept)
        fixed[k, patterns[k] * middle < -level * noise] *= -1
    return fixed
