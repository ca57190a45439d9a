"""Clients of different qualities: noise whose variance depends on the sample, not on the site.

A sample of a client with quality r has noise variance `v = 1 - r^2`, so the noise matrix is
`diag(sqrt v) Z`. Its spectrum is that of the generalised Marchenko-Pastur law on the sample side,
aspect `M / N` and population law of v over the samples, scaled by `q = N / M`. With
`mu = -q m(lambda)`, m the resolvent trace,

    lambda(mu) = q / mu + E[v / (1 - mu v)],

and the edge is its minimum over (0, 1 / v_max). An archetype with quality r_c and exposure pi_c at
client c has the signal `E[a^2 / (1 - mu v)]` with `a_c^2 = r_c^2 pi_c`, and its outlier
is where `(N / q) mu E[a^2 / (1 - mu v)] = 1`.

Parameters
----------
qualities : (C,) quality of each client, in [0, 1).
exposures : (C, K) share of each client's examples that come from each archetype.
N, M, q : sites, examples of all clients together, N / M.
weights : (C,) share of the examples of each client; equal by default.

Sources: the edge as in `covariance`; outlier and overlap from the rank-one formulas of
F. Benaych-Georges, R. R. Nadakuditi, J. Multivariate Anal. 111 (2012) 120, with the deterministic
equivalent of a matrix with row variances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check
from ._solve import increasing_root
from .covariance import Edge, Population, upper_edge


@dataclass(frozen=True, eq=False)
class ProfileSpikes:
    """Prediction for archetypes in the pooled data of clients of different qualities.

    Attributes
    ----------
    edge : upper edge of the noise bulk.
    margin : (K,) left side of the outlier equation at the edge: detectable above 1.
    outliers : (K,) predicted sample eigenvalues, the edge where not detectable.
    overlaps : (K,) predicted squared cosine of sample eigenvector and archetype, else 0.

    >>> found = profile_spikes([0.8, 0.2], [[0.5, 0.0], [0.5, 0.01]], N=400, M=800)
    >>> found.margin.round(2), bool(found.outliers[1] == found.edge)
    (array([88.84,  0.16]), True)
    """

    edge: float
    margin: np.ndarray
    outliers: np.ndarray
    overlaps: np.ndarray


def profile_edge(qualities: ArrayLike, q: float, weights: ArrayLike | None = None) -> Edge:
    """Upper edge of the noise pooled from a profile of clients, each with its own quality.

    Returns
    -------
    Edge, with its scale for `M^(2/3) (lambda_1 - location) / scale`; `critical` refers to the
    sample side and is 1 / mu at the edge.

    >>> round(profile_edge([0.6, 0.6], 0.25).location, 12)
    1.44
    """
    variances, shares, ratio = _clients(qualities, q, weights)
    dual = upper_edge(Population(variances, shares), 1 / ratio)
    # The dual matrix has N instead of M: its fluctuations are in units of N^(-2/3).
    return Edge(
        location=ratio * dual.location,
        scale=float(np.cbrt(ratio)) * dual.scale,
        critical=dual.critical,
    )


def profile_spikes(
    qualities: ArrayLike, exposures: ArrayLike, N: int, M: int, weights: ArrayLike | None = None
) -> ProfileSpikes:
    """Predict the outliers and overlaps of archetypes pooled from clients of different qualities.

    >>> p = profile_spikes([0.8, 0.2, 0.2], [[0.5, 0.1], [0.5, 0.1], [0.5, 0.1]], 400, 1200)
    >>> p.outliers.round(3), p.overlaps.round(3)
    (array([48.907, 10.526]), array([0.997, 0.983]))
    """
    sites, samples = _check.scalar("N", N, _check.count), _check.scalar("M", M, _check.count)
    q = sites / samples
    r = np.atleast_1d(_check.real("qualities", qualities))
    variances, shares, _ = _clients(qualities, q, weights)
    exposure = _check.share("exposures", exposures)
    if exposure.ndim != 2 or exposure.shape[0] != r.size:
        raise ArgumentError("exposures", f"of shape ({r.size}, K)", f"shape {exposure.shape}")
    if (exposure.sum(axis=1) > 1 + 1e-9).any():
        raise ArgumentError(
            "exposures", "at most 1 in sum over each row", exposure.sum(axis=1).max()
        )
    signal = (shares * r**2) @ exposure
    share_of_signal = (shares * r**2)[:, None] * exposure

    edge = profile_edge(qualities, q, weights)
    top = 1 / edge.critical

    def left_side(mu: np.ndarray) -> np.ndarray:
        return sites / q * mu * np.sum(share_of_signal / (1 - mu * variances[:, None]), axis=0)

    margin = left_side(np.full(signal.shape, top))
    found = margin > 1
    mu = np.full(signal.shape, top)
    if found.any():
        root = increasing_root(
            lambda m: left_side(np.where(found, m, top)) - 1, np.zeros(signal.shape), mu
        )
        mu = np.where(found, root, top)
    outliers = q / mu + (shares * variances) @ (1 / (1 - np.outer(variances, mu)))
    overlaps = _overlap(mu, q, sites, variances, shares, share_of_signal)
    return ProfileSpikes(
        edge=edge.location,
        margin=margin,
        outliers=np.where(found, outliers, edge.location),
        overlaps=np.where(found, overlaps, 0.0),
    )


def _overlap(
    mu: np.ndarray,
    q: float,
    sites: float,
    variances: np.ndarray,
    shares: np.ndarray,
    share_of_signal: np.ndarray,
) -> np.ndarray:
    """`(mu / q) (-lambda'(mu)) / F'(mu)`, F the left side of the outlier equation."""
    resolvent = 1 / (1 - np.outer(variances, mu))
    fall = q / mu**2 - (shares * variances**2) @ resolvent**2
    # F = (N / q) sum a^2 mu / (1 - mu v), and (mu / (1 - mu v))' = 1 / (1 - mu v)^2.
    rise = sites / q * np.sum(share_of_signal * resolvent**2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # an archetype without examples: 0 / 0
        return mu / q * fall / rise


def _clients(
    qualities: ArrayLike, q: ArrayLike, weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Noise variances and example shares of the clients, and the aspect ratio."""
    r = np.atleast_1d(_check.below_one("qualities", qualities))
    if r.ndim != 1 or not r.size:
        raise ArgumentError("qualities", "a list of at least one number", f"shape {r.shape}")
    w = np.ones_like(r) if weights is None else _check.positive("weights", weights)
    if w.shape != r.shape:
        raise ArgumentError("weights", f"of shape {r.shape}, one per client", f"shape {w.shape}")
    return (1 - r) * (1 + r), w / w.sum(), _check.scalar("q", q, _check.positive)


_check.guard(__name__)
