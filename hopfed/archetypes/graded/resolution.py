"""How near classes are to the true ones, as far as their own rows say.

Rows can show that a class is there long before they show what it is like in every column. What is
known of its means is their posterior: a mean m with the standard error e, so ``m^2 + e^2`` is
expected of the square of the true one.

- In the symmetric channel a class is a pattern of signs. ``m = r E[xi]``, and ``E[xi]^2`` is
  ``m^2 / (m^2 + e^2)``: the overlap of the signs with the true ones is expected to be the mean of
  ``|E[xi_j]|`` over columns.
- In the others it is a profile: how the means differ from those of all rows. The cosine between the
  profile and the true one is expected to be ``sqrt(S / (S + E))``, with S and E the sums of the
  squared differences and of the squared errors.

Source: theory/NOTES.md, "Resolution".
"""

from __future__ import annotations

import numpy as np

from hopfed.archetypes.status import rounded
from hopfed.theory.resolution import OPTIMISM, RESOLVED, majority_needed, sure_level

TINY = 1e-300


def expected_overlaps(
    means: np.ndarray, errors: np.ndarray, shares: np.ndarray, channel: str
) -> np.ndarray:
    """Overlaps (K,) with the true classes to expect: of signs, or of profiles.

    Parameters
    ----------
    means, errors : (K, N) means of the classes and their standard errors.
    shares : (K,) of the rows.
    channel : "symmetric", "by column" or "graded".

    Examples
    --------
    >>> sure, error = np.array([[0.8, -0.8]]), np.zeros((1, 2))
    >>> expected_overlaps(sure, error, np.ones(1), "symmetric").tolist()
    [1.0]
    >>> means, errors = np.array([[0.4, -0.4], [-0.4, 0.4]]), np.full((2, 2), 0.3)
    >>> expected_overlaps(means, errors, np.full(2, 0.5), "graded").round(3).tolist()
    [0.8, 0.8]
    """
    if channel == "symmetric":
        signs = np.abs(means) / np.sqrt(np.maximum(means**2 + errors**2, TINY))
        return np.asarray(signs.mean(axis=1))
    signal, noise = _profile(means, errors, shares)
    return np.asarray(np.sqrt(signal / np.maximum(signal + noise, TINY)))


def unresolved(
    means: np.ndarray, errors: np.ndarray, shares: np.ndarray, channel: str, rows: float
) -> str | None:
    """What is to be said of classes that may be less near to the true ones than `RESOLVED`.

    Parameters
    ----------
    means, errors, shares, channel : as in `expected_overlaps`.
    rows : number of all rows.

    Returns
    -------
    A sentence, or None where all are near.

    Examples
    --------
    >>> means, errors = np.array([[0.4, -0.4], [-0.4, 0.4]]), np.full((2, 2), 0.3)
    >>> unresolved(means, errors / 30, np.full(2, 0.5), "graded", 90_000)
    >>> print(unresolved(means, errors, np.full(2, 0.5), "graded", 100))
    2 classes were found, but 2 of them are not sure to have an overlap of 0.9 with the true \
ones: 0.80 is expected of the least sure. About 6,300 rows like these would resolve all.
    """
    N = means.shape[1]
    overlaps = expected_overlaps(means, errors, shares, channel)
    level = float(sure_level(N)) if channel == "symmetric" else profile_level(N)
    blurred = np.flatnonzero(overlaps < level)
    if not len(blurred):
        return None
    if channel == "symmetric":
        quality = float(np.sqrt((means**2 + errors**2).max()))
        own = np.maximum(shares * rows, 1.0)
        factor = majority_needed(level, quality) / own[blurred]
    else:
        signal, noise = _profile(means, errors, shares)
        short = noise[blurred] / np.maximum(signal[blurred], TINY)
        factor = short * level**2 / (1 - level**2)
    needed = rounded(max(float(factor.max()), 1.01) * rows)
    return (
        f"{len(overlaps)} classes were found, but {len(blurred)} of them are not sure to have an "
        f"overlap of {RESOLVED:g} with the true ones: {overlaps.min():.2f} is expected of the "
        f"least sure. About {needed} rows like these would resolve all."
    )


def profile_level(N: int) -> float:
    """Expected cosine from which a profile of N columns is sure to have `RESOLVED`, or nearly so.

    The squared errors of N columns add up to their expectation within a part ``sqrt(2 / N)``.

    Examples
    --------
    >>> round(profile_level(50), 3)
    0.927
    """
    return RESOLVED + OPTIMISM + RESOLVED * (1 - RESOLVED**2) / 2 * float(np.sqrt(2 / N))


def _profile(
    means: np.ndarray, errors: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over columns (K,) of the squared differences from the mean of all, and of errors."""
    signal = ((means - shares @ means / shares.sum()) ** 2).sum(axis=1)
    return signal, (errors**2).sum(axis=1)
