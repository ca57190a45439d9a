"""Standard errors of exposures and quality estimated from a spectrum.

The spikes of an operator estimate how many examples came from each archetype. They differ from the
shares of the mixture for two reasons: the counts of a draw follow a multinomial law, and the noise
of the examples moves the spikes. The second part is the variance of an outlier
(`spikes.outlier_sd`) less that of the counts, and holds in every direction of the signal.

Source: theory/NOTES.md, "Exposure fit".

Parameters
----------
exposures : (K,) shares, each in [0, 1]; estimates from a spectrum may add up to more than 1.
r : quality of the examples, in (0, 1].
N, M : number of sites and of examples.
overlaps : (K, K) overlaps of the archetypes, ``xi_mu . xi_nu / N``; by default orthogonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check

LEAST = 1e-12  # smallest noise variance, and share, that is not treated as 0


class Errors(NamedTuple):
    """Standard errors of estimates from a spectrum.

    Attributes
    ----------
    exposures : (K,) standard errors of the shares, as estimates of those of the mixture.
    quality : standard error of r.

    >>> Errors(np.array([0.1]), 0.01).quality
    0.01
    """

    exposures: np.ndarray
    quality: float


def errors(
    exposures: ArrayLike, r: float, N: int, M: float, overlaps: ArrayLike | None = None
) -> Errors:
    """Return the standard errors of exposures fitted to the trace, and of the quality.

    >>> far = errors([0.5, 0.5], 0.9, N=1000, M=100)  # the multinomial law is all there is
    >>> far.exposures.round(3), round(far.quality, 5), round((0.19 / (1000 * 100)) ** 0.5, 5)
    (array([0.05, 0.05]), 0.00138, 0.00138)
    >>> errors([0.5, 0.5], 0.2, N=1000, M=100).exposures.round(3)
    array([0.053, 0.053])
    """
    e = _check.share("exposures", np.atleast_1d(np.asarray(exposures, np.float64)))
    r = _check.scalar("r", r, _check.fraction)
    N, M = int(_check.scalar("N", N, _check.count)), _check.scalar("M", M, _check.positive)
    G = np.eye(len(e)) if overlaps is None else np.asarray(overlaps, np.float64)
    if G.shape != (len(e), len(e)):
        raise ArgumentError("overlaps", f"of shape {(len(e), len(e))}", G.shape)
    noise = _noise(e, r, N, M, G)
    of_quality = float(np.sqrt(max(noise.sum(), 0.0))) / (2 * r)
    total = max(e.sum(), LEAST)
    keep = np.eye(len(e)) - e[:, None] / total  # a common factor of all shares goes into r
    moved = keep @ noise @ keep.T / r**4
    counted = e * (1 - np.minimum(e, 1)) / M
    return Errors(np.sqrt(counted + np.maximum(np.diag(moved), 0)), of_quality)


def _noise(e: np.ndarray, r: float, N: int, M: float, G: np.ndarray) -> np.ndarray:
    """Covariance (K, K) of the fitted ``e r^2`` over the noise, with the counts fixed."""
    # Measures u^T C u have the covariance (2 / M) ((u_c . S u_d + s2 u_c . u_d)^2 / g - (u_c . S
    # u_d)^2), S the signal; the least-squares fit divides by the squared overlaps.
    s2 = max((1 - r) * (1 + r), LEAST)
    signal = N * r**2 * (G * e) @ G
    kappa = np.maximum(np.diag(signal) / s2, LEAST)
    root = np.sqrt(N / M)
    gap = np.maximum(1 - (root / np.maximum(kappa, root)) ** 2, N ** (-1 / 3))
    spread = (signal + s2 * G) ** 2 / np.sqrt(np.outer(gap, gap)) - signal**2
    inverse = np.linalg.pinv(G**2, hermitian=True)
    return inverse @ (2 / M * spread) @ inverse / N**2


def interval(share: ArrayLike, error: ArrayLike, level: float = 0.95) -> np.ndarray:
    """Return confidence intervals (..., 2) of exposures in (0, 1), made on the logit scale.

    Parameters
    ----------
    share : shares, or a quality, in [0, 1]; at 0 and 1 the interval is the point.
    error : standard errors, at least 0.
    level : in (0, 1), probability that an interval holds the true value.

    >>> interval([0.5, 0.02], [0.05, 0.01]).round(3).tolist()
    [[0.403, 0.597], [0.007, 0.053]]
    """
    from scipy.special import expit, logit, ndtri

    x, sd = np.broadcast_arrays(np.asarray(share, np.float64), np.asarray(error, np.float64))
    width = ndtri((1 + _check.probability("level", level)) / 2)
    inside = (x > LEAST) & (x < 1 - LEAST)
    middle = np.where(inside, x, 0.5)
    step = width * sd / (middle * (1 - middle))
    ends = expit(logit(middle)[..., None] + np.stack([-step, step], axis=-1))
    return np.where(inside[..., None], ends, x[..., None])


_check.guard(__name__)
