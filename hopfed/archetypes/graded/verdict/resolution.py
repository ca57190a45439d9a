"""How near classes are to the true ones, as far as their own rows say.

Rows can show that a class is there long before they show what it is like in every column. What is
known of its means is their posterior: a mean m with the standard error e, so ``m^2 + e^2`` is
expected of the square of the true one.

- In the symmetric channel a class is a pattern of signs. ``m = r E[xi]``, and ``E[xi]^2`` is
  ``m^2 / (m^2 + e^2)``: the overlap of the signs with the true ones is expected to be the mean of
  ``|E[xi_j]|`` over columns.
- In the others it is a profile: how the means differ from those of all rows. The cosine between the
  profile and the true one is expected to be ``sqrt(S / (S + E))``, with S and E the sums of the
  squared differences and of their squared errors.

That holds if there are no more classes than were found. But rows of classes below the threshold lie
in those that were found, and nothing in the table can tell. A class of the same kind whose rows all
lie in class k adds, where it just fails to show in the spectrum, a part ``1 / t^2`` to the squared
errors, t being the length of the profile in units of the noise of a row; and a fit misses classes
somewhat above that. It is much where single rows say little of their class, and nothing where they
are sure. The squared errors of every class are taken for so much larger.

Source: theory/NOTES.md, "Resolution".
"""

from __future__ import annotations

import numpy as np

from hopfed.archetypes.status import rounded
from hopfed.theory.resolution import OPTIMISM, RESOLVED, majority_needed, sure_level

TINY = 1e-300
MISSED = 2.0  # times the squared strength of the weakest spike that a class may have and be missed
LEAST = 1e-3  # variance within classes below which that of a column is not taken
SUREST = 1 - 1e-12


def expected_overlaps(
    means: np.ndarray,
    errors: np.ndarray,
    shares: np.ndarray,
    channel: str,
    observed: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Overlaps (K,) with the true classes to expect: of signs, or of profiles.

    Parameters
    ----------
    means, errors : (K, N) means of the classes and their standard errors.
    shares : (K,) of the rows.
    channel : "symmetric", "by column" or "graded".
    observed : (N,) part of the entries of each column that is observed; all where not given.

    Examples
    --------
    >>> sure, error = np.array([[0.8, -0.8]]), np.zeros((1, 2))
    >>> expected_overlaps(sure, error, np.ones(1), "symmetric").tolist()
    [1.0]
    >>> means, errors = np.tile([[0.4, -0.4], [-0.4, 0.4]], 200), np.full((2, 400), 0.3)
    >>> expected_overlaps(means, errors, np.full(2, 0.5), "graded").round(3).tolist()
    [0.881, 0.881]
    """
    signal, noise = _profile(means, errors, shares)
    more = 1 + hidden(means, shares, observed)
    if channel == "symmetric":
        sign = np.abs(means) / np.sqrt(np.maximum(means**2 + errors**2, TINY))
        odds = np.arctanh(np.minimum(sign, SUREST)) / more[:, None]
        return np.asarray(np.where(errors > 0, np.tanh(odds), sign).mean(axis=1))
    return np.asarray(np.sqrt(signal / np.maximum(signal + more * noise, TINY)))


def hidden(means: np.ndarray, shares: np.ndarray, observed: np.ndarray | float = 1.0) -> np.ndarray:
    """Squared errors (K,) that a class below the threshold may add, over those of the means.

    Parameters
    ----------
    means, shares, observed : as in `expected_overlaps`.

    Examples
    --------
    >>> means = 0.5 * np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
    >>> hidden(means, np.full(2, 0.5)).tolist()  # t^2 = 4 * 0.25 / 0.75
    [1.5, 1.5]
    """
    if len(means) == 1:  # all rows, which differ from nothing
        return np.zeros(1)
    weights = shares / shares.sum()
    noise = np.maximum(weights @ (1 - means**2), LEAST)
    lengths = (observed * (means - weights @ means) ** 2 / noise).sum(axis=1)
    return np.asarray(MISSED / np.maximum(lengths, TINY))


def unresolved(
    means: np.ndarray,
    errors: np.ndarray,
    shares: np.ndarray,
    channel: str,
    rows: float,
    observed: np.ndarray | float = 1.0,
) -> str | None:
    """What is to be said of classes that may be less near to the true ones than `RESOLVED`.

    Parameters
    ----------
    means, errors, shares, channel, observed : as in `expected_overlaps`.
    rows : number of all rows.

    Returns
    -------
    A sentence, or None where all are near.

    Examples
    --------
    >>> means, errors = np.tile([[0.4, -0.4], [-0.4, 0.4]], 200), np.full((2, 400), 0.3)
    >>> unresolved(means, errors / 30, np.full(2, 0.5), "graded", 90_000)
    >>> print(unresolved(means, errors, np.full(2, 0.5), "graded", 100))
    2 classes were found, but too few rows describe 2 of them: an overlap of 0.88 with the true \
ones is expected of the least sure, and 0.92 is needed to be sure of 0.9. About 160 rows like \
these would resolve all.
    """
    N = means.shape[1]
    overlaps = expected_overlaps(means, errors, shares, channel, observed)
    level = float(sure_level(N)) if channel == "symmetric" else profile_level(N)
    blurred = np.flatnonzero(overlaps < level)
    if not len(blurred):
        return None
    if channel == "symmetric":
        quality = float(np.sqrt((means**2 + errors**2).max()))
        now = [majority_needed(float(overlaps[k]), quality) for k in blurred]
        factor = majority_needed(level, quality) / np.array(now)
    else:
        short = 1 / np.maximum(overlaps[blurred], 1e-6) ** 2 - 1
        factor = short * level**2 / (1 - level**2)
    needed = rounded(max(float(factor.max()), 1.01) * rows)
    return (
        f"{len(overlaps)} classes were found, but too few rows describe {len(blurred)} of them: an "
        f"overlap of {overlaps.min():.2f} with the true ones is expected of the least sure, and "
        f"{level:.2f} is needed to be sure of {RESOLVED:g}. About {needed} rows like these would "
        "resolve all."
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
    """Sums over columns (K,) of squared differences from the mean of all rows, and of errors."""
    apart = np.eye(len(means)) - shares / shares.sum()
    return ((apart @ means) ** 2).sum(axis=1), apart**2 @ (errors**2).sum(axis=1)
