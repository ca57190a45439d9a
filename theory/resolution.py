"""How many examples tell an archetype apart, entry by entry, and not only that it is there.

A pattern is read off the signs of a vector whose squared cosine with the archetype is gamma; its
overlap with the archetype is then ``erf sqrt(gamma / (2 (1 - gamma)))`` (theory/NOTES.md, "Score
and acceptance"). gamma grows with the examples as `spikes.overlap` says.

Source: theory/NOTES.md, "Resolution".

Parameters
----------
gamma : squared cosine of a pattern's vector with the archetype, in [0, 1].
q : aspect ratio N / M, above 0.
r : quality of the examples, in [0, 1].
overlap : wanted of a pattern with its archetype, in (0, 1).
rows : of an archetype, whole numbers, 0 or more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import _check

RESOLVED = 0.9  # overlap with its archetype that every pattern has under "ok"
OPTIMISM = 0.01  # by which the expected overlap is too high near the threshold
SPREADS = 1.0  # standard deviations of a pattern's overlap


def expected_overlap(gamma: ArrayLike) -> np.ndarray:
    """Overlap of a pattern with its archetype, by the squared cosine of what it was read off.

    >>> expected_overlap([0.0, 0.5, 0.9]).round(3)
    array([0.   , 0.683, 0.997])
    """
    from scipy.special import erf

    g = np.clip(np.asarray(gamma, dtype=np.float64), 0.0, 1 - 1e-12)
    return np.asarray(erf(np.sqrt(g / (1 - g) / 2)))


def sure_level(N: ArrayLike) -> np.ndarray:
    """Expected overlap from which a pattern of N sites is sure to have `RESOLVED`, or nearly so.

    The overlap of a pattern spreads by ``sqrt((1 - m^2) / N)`` around what is expected, and just
    above the threshold the squared cosine is read too high: what is too low is not seen.

    >>> round(float(sure_level(1900)), 12)
    0.92
    """
    spread = np.sqrt((1 - RESOLVED**2) / _check.count("N", N))
    return np.minimum(RESOLVED + OPTIMISM + SPREADS * spread, 0.99)[()]


def strength_from_cosine(gamma: ArrayLike, q: ArrayLike) -> np.ndarray:
    """Spike strength kappa whose sample eigenvector has the squared cosine gamma.

    Inverse of `spikes.overlap`: the positive root of
    ``(1 - gamma) kappa^2 - gamma q kappa - q = 0``.

    >>> from hopfed.theory.spikes import overlap
    >>> round(float(strength_from_cosine(overlap(3.0, 0.5), 0.5)), 12)
    3.0
    """
    g, q = np.asarray(gamma, dtype=np.float64), _check.positive("q", q)
    left = np.maximum(1 - g, 1e-12)
    return ((g * q + np.sqrt((g * q) ** 2 + 4 * left * q)) / (2 * left))[()]


def resolving_samples(kappa: ArrayLike, N: ArrayLike, overlap: ArrayLike = 0.9) -> np.ndarray:
    """Examples from which the pattern of a spike has the overlap with its archetype; a real number.

    Parameters
    ----------
    kappa : spike strength, above 0; it does not change with the examples.
    N : sites.
    overlap : expected of the pattern, in (0, 1).

    >>> from hopfed.theory.spikes import overlap, spike_strength
    >>> kappa = spike_strength(0.2, 0.1, 400)
    >>> M = resolving_samples(kappa, 400, 0.9)
    >>> round(float(M)), round(float(expected_overlap(overlap(kappa, 400 / M))), 6)
    (1183, 0.9)
    """
    from scipy.special import erfinv

    x = 2 * erfinv(_check.probability("overlap", overlap)) ** 2
    kappa, g = _check.positive("kappa", kappa), x / (1 + x)  # inverse of `expected_overlap`
    # gamma = (1 - q / kappa^2) / (1 + q / kappa), solved for q = N / M.
    q = (1 - g) / (1 / kappa**2 + g / kappa)
    return (_check.count("N", N) / q)[()]


def majority_overlap(rows: ArrayLike, r: ArrayLike) -> np.ndarray:
    """Overlap with its archetype of the majority of so many of its examples, ties by a fair coin.

    No pattern is known better than that. An even number is as good as one less.

    >>> majority_overlap([0, 1, 2, 3, 9], 0.8).round(3).tolist()
    [0.0, 0.8, 0.8, 0.944, 0.998]
    """
    from scipy.special import betainc

    n = np.floor(np.asarray(rows, dtype=np.float64))
    half = np.maximum(np.ceil(n / 2), 1.0)  # of the odd number n or n - 1: votes that win
    right = betainc(half, half, (1 + np.asarray(r, dtype=np.float64)) / 2)
    return np.where(n > 0, 2 * right - 1, 0.0)[()]


def majority_needed(overlap: float, r: float, most: int = 1 << 20) -> float:
    """Smallest number of examples whose majority has the overlap; infinite above `most`.

    >>> majority_needed(0.9, 0.8), majority_needed(0.9, 0.2)
    (3.0, 67.0)
    """
    low, high = 0, most  # in pairs: 2 n + 1 examples
    if not majority_overlap(2 * high + 1, r) >= overlap:
        return float(np.inf)
    while low < high:
        middle = (low + high) // 2
        enough = majority_overlap(2 * middle + 1, r) >= overlap
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(2 * low + 1)


_check.guard(__name__)
