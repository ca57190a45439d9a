"""Patterns corrected site by site by what clients' operators say, without the extremes.

A client whose rows are nearly the archetypes, some of their sites turned in all rows alike, blurs
the pool: with as few as one such client of five, a tenth of the sites of a pattern can be wrong.
Votes mend that where there are some. Without them, every client's operator C_c, tried along the
direction d of a pattern, says of every site i what its rows hold of it there: ``(C_c d)_i`` is
about ``w r^2 (xi . d) xi_i`` beside noise of variance ``d^T C_c d / M_c``. The extremes of these
are left out, and a site is turned where the others contradict it by more than noise does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.federation.aggregate import trimmed_mean
from hopfed.hopfield.memory.support import dual_directions
from hopfed.spectral.operators import HebbianOperator


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
