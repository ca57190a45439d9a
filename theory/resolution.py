"""Number of examples that recovers an archetype entry by entry, beyond detecting it.

A pattern holds the signs of a vector with squared cosine gamma to the archetype; its overlap with
the archetype is then ``erf sqrt(gamma / (2 (1 - gamma)))`` (theory/NOTES.md, "Score and
acceptance"). gamma grows with the number of examples as in `spikes.overlap`.

Source: theory/NOTES.md, "Resolution".

Parameters
----------
gamma : squared cosine of a pattern's vector with the archetype, in [0, 1].
q : aspect ratio N / M, above 0.
r : quality of the examples, in [0, 1].
overlap : required overlap of a pattern with its archetype, in (0, 1).
rows : number of examples of an archetype, a whole number of at least 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import _check

RESOLVED = 0.9  # overlap with its archetype that status "ok" requires of every pattern
OPTIMISM = 0.01  # bias of the expected overlap near the threshold
SPREADS = 1.0  # safety margin, in standard deviations of a pattern's overlap


def expected_overlap(gamma: ArrayLike) -> np.ndarray:
    """Overlap of a pattern with its archetype, from the squared cosine of the pattern's vector.

    >>> expected_overlap([0.0, 0.5, 0.9]).round(3)
    array([0.   , 0.683, 0.997])
    """
    from scipy.special import erf

    g = np.clip(np.asarray(gamma, dtype=np.float64), 0.0, 1 - 1e-12)
    return np.asarray(erf(np.sqrt(g / (1 - g) / 2)))


def sure_level(N: ArrayLike) -> np.ndarray:
    """Expected overlap above which a pattern of N sites has overlap `RESOLVED` almost surely.

    The overlap m of a pattern has standard deviation ``sqrt((1 - m^2) / N)``, and just above the
    threshold squared cosines are estimated too high, since lower ones are not detected.

    >>> round(float(sure_level(1900)), 12)
    0.92
    """
    spread = np.sqrt((1 - RESOLVED**2) / _check.count("N", N))
    return np.minimum(RESOLVED + OPTIMISM + SPREADS * spread, 0.99)[()]


def resolving_samples(kappa: ArrayLike, N: ArrayLike, overlap: ArrayLike = 0.9) -> np.ndarray:
    """Number of examples, a real number, at which a pattern has an overlap with its archetype.

    Parameters
    ----------
    kappa : spike strength, above 0; independent of the number of examples.
    N : number of sites.
    overlap : required expected overlap, in (0, 1).

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
    """Overlap with an archetype of the majority vote of `rows` examples, ties broken at random.

    It bounds the overlap of any estimated pattern. An even number is as good as one less.

    >>> majority_overlap([0, 1, 2, 3, 9], 0.8).round(3).tolist()
    [0.0, 0.8, 0.8, 0.944, 0.998]
    """
    from scipy.special import betainc

    n = np.floor(np.asarray(rows, dtype=np.float64))
    half = np.maximum(np.ceil(n / 2), 1.0)  # votes for a majority of the odd number n or n - 1
    right = betainc(half, half, (1 + np.asarray(r, dtype=np.float64)) / 2)
    return np.where(n > 0, 2 * right - 1, 0.0)[()]


def majority_needed(overlap: float, r: float, most: int = 1 << 20) -> float:
    """Smallest number of examples with a majority of this overlap; infinite above 2 `most` + 1.

    >>> majority_needed(0.9, 0.8), majority_needed(0.9, 0.2)
    (3.0, 67.0)
    """
    low, high = 0, most  # n stands for 2 n + 1 examples
    if not majority_overlap(2 * high + 1, r) >= overlap:
        return float(np.inf)
    while low < high:
        middle = (low + high) // 2
        enough = majority_overlap(2 * middle + 1, r) >= overlap
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(2 * low + 1)


_check.guard(__name__)
