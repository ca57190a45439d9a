"""Whether the noise eigenvalues are those of the channel.

Source: theory/NOTES.md, "Goodness of fit".
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.random import stream
from hopfed.spectral.eigenpairs import Spectrum, eigenpairs
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rank import RankEstimate
from hopfed.theory import marchenko_pastur

REPLICAS = 4  # tables drawn from the fitted channel
RARE = 100.0  # flips of a row or a column, whichever is shorter, above which the law holds
LARGEST = 10**8  # entries of such a table
BATCH = 4_096  # rows drawn at once
FINE = 1e-9  # eigenvalues closer than that are one: sparse flips leave many at 0


def bulk_distance(spectrum: Spectrum, rank: RankEstimate) -> float:
    """Kolmogorov distance of the noise eigenvalues from their Marchenko-Pastur law.

    0 where it cannot be told: part of the spectrum only, owners of different noise, a tiny bulk.
    """
    bulk = _bulk(spectrum, rank)
    if not len(bulk):
        return 0.0
    k, N, M = rank.n_detected, spectrum.n_sites, spectrum.n_examples
    q = (N - k) / (M - k)
    atom = float(marchenko_pastur.atom(q))
    law = marchenko_pastur.cdf(np.maximum(bulk, 1e-12) * M / (M - k), q, rank.variance)
    law = (law - atom) / (1 - atom)
    steps = np.arange(len(bulk) + 1) / len(bulk)
    return float(max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max()))


def replica_distance(
    spectrum: Spectrum, rank: RankEstimate, patterns: np.ndarray, weights: np.ndarray, seed: int
) -> float:
    """Kolmogorov distance of the noise eigenvalues from those of tables of the fitted channel.

    The law of Marchenko and Pastur takes every entry's noise for small beside the sum of all. Where
    r is near 1 flips are rare, few to a row or a column, and the bulk is another one: of the fitted
    patterns, shares and r it is drawn. What such tables are apart from each other is subtracted.

    Parameters
    ----------
    spectrum, rank : as in `bulk_distance`.
    patterns, weights : (K, N) and (K,), what was found and its shares, up to a factor.
    seed : of the tables.

    Returns
    -------
    Distance; that of `bulk_distance` where flips are not rare, or the table is too large to draw.
    """
    bulk, M = _bulk(spectrum, rank), round(spectrum.n_examples)
    rare = (1 - rank.quality) / 2 * min(M, spectrum.n_sites) < RARE
    drawable = len(patterns) > 0 and weights.sum() > 0 and M * spectrum.n_sites <= LARGEST
    if not (len(bulk) and rare and drawable):
        return bulk_distance(spectrum, rank)
    rng, shares = stream(seed, "replicas"), weights / weights.sum()
    drawn = []
    for _ in range(REPLICAS):
        kinds = rng.choice(len(patterns), size=M, p=shares)
        batches = (patterns[kinds[a : a + BATCH]] for a in range(0, M, BATCH))
        flipped = (np.where(rng.random(b.shape) < (1 - rank.quality) / 2, -b, b) for b in batches)
        operator = FactorOperator.from_examples(flipped)
        drawn.append(_bulk(eigenpairs(operator, 0), rank))
    apart = max(_apart(one, np.concatenate(drawn)) for one in drawn)
    return max(_apart(bulk, np.concatenate(drawn)) - apart, 0.0)


def _bulk(spectrum: Spectrum, rank: RankEstimate) -> np.ndarray:
    """Noise eigenvalues, ascending, zeros included; none where they do not tell."""
    k, N, M = rank.n_detected, spectrum.n_sites, spectrum.n_examples
    size = int(min(N, round(M)))
    if not spectrum.complete or rank.unequal or size - k < 16:
        return np.zeros(0)
    bulk = np.zeros(size - k)
    values = spectrum.values[k:size]
    bulk[len(bulk) - len(values) :] = values[::-1]
    return bulk


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of the empirical distribution functions of two sets."""
    a, b = (np.sort(np.round(x / FINE)) for x in (a, b))
    at = np.concatenate([a, b])
    parts = [np.searchsorted(x, at, side="right") / len(x) for x in (a, b)]
    return float(np.abs(parts[0] - parts[1]).max())
