"""Spikes: eigenvalue and eigenvector alignment of an archetype, and the inverse.

For examples of quality r the population second moment is `s2 I + N r^2 sum_mu pi_mu u_mu u_mu^T`
with `s2 = 1 - r^2` and `u = xi / sqrt N`, so archetype mu is a spike of strength
`kappa = N r^2 pi_mu / (1 - r^2)` in units of the bulk variance. All functions take `q = N / M`,
broadcast over their arguments and return a NumPy scalar for scalar arguments.

Parameters
----------
kappa : spike strength in units of the bulk variance, above 0.
q : aspect ratio N / M, above 0.
variance : bulk variance, above 0.
eigenvalue : sample eigenvalue of `(1/M) X^T X`.
r : quality of the examples, in (0, 1); functions of the noise alone accept 0.
exposure : share pi of the examples that come from the archetype, in [0, 1].
N, M : number of sites and of examples.
kurtosis : k4, the excess kurtosis of the noise.
false_alarm : probability of a larger noise eigenvalue, in (0, 1).

Sources: J. Baik, G. Ben Arous, S. Peche, Ann. Probab. 33 (2005) 1643; D. Paul, Statist. Sinica 17
(2007) 1617; F. Benaych-Georges, R. R. Nadakuditi, Adv. Math. 227 (2011) 494. Numbers in brackets
are equations of arXiv:2603.19902.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check, covariance


def threshold(q: ArrayLike) -> np.ndarray:
    """Strength above which a spike leaves the bulk, `sqrt q` (D2).

    >>> float(threshold(0.25))
    0.5
    """
    return np.sqrt(_check.positive("q", q))[()]


def outlier(kappa: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Sample eigenvalue of a spike, `variance (1 + kappa)(1 + q / kappa)` (41).

    The limit for large tables: up to the threshold the spike stays in the bulk, and the result is
    the upper edge. For finite tables near the threshold, and for close spikes, see `spiked`.

    >>> float(outlier(2.0, 0.5)), float(outlier(0.1, 0.25))
    (3.75, 2.25)
    """
    above = np.maximum(_check.positive("kappa", kappa), threshold(q))
    return (_check.positive("variance", variance) * (1 + above) * (1 + np.asarray(q) / above))[()]


def overlap(kappa: ArrayLike, q: ArrayLike) -> np.ndarray:
    """Squared cosine of a sample eigenvector and its spike, `(1 - q/kappa^2) / (1 + q/kappa)` (42).

    The limit for large tables, 0 up to the threshold; for finite tables see `spiked`.

    >>> float(overlap(2.0, 0.5)), float(overlap(0.1, 0.25))
    (0.7, 0.0)
    """
    kappa = _check.positive("kappa", kappa)
    ratio = np.minimum(threshold(q) / kappa, 1.0)
    # As a product of differences, so that nothing cancels just above the threshold.
    return ((1 - ratio) * (1 + ratio) / (1 + np.asarray(q) / kappa))[()]


def strength(eigenvalue: ArrayLike, q: ArrayLike, variance: ArrayLike = 1.0) -> np.ndarray:
    """Strength of the spike behind a sample eigenvalue, the inverse (60) of :func:`outlier`.

    NaN below the upper edge, where no strength gives that eigenvalue.

    >>> float(strength(3.75, 0.5)), float(strength(1.0, 0.5))
    (2.0, nan)
    """
    x = _check.real("eigenvalue", eigenvalue) / _check.positive("variance", variance)
    root = threshold(q)
    distance = x - (1 + root) ** 2
    return np.where(distance >= 0, strength_at(distance, root), np.nan)[()]


def strength_from_cosine(gamma: ArrayLike, q: ArrayLike) -> np.ndarray:
    """Strength kappa of a spike at which the sample eigenvector has squared cosine gamma.

    Inverse of :func:`overlap`: the positive root of
    ``(1 - gamma) kappa^2 - gamma q kappa - q = 0``.

    >>> round(float(strength_from_cosine(overlap(3.0, 0.5), 0.5)), 12)
    3.0
    """
    g, q = np.asarray(gamma, dtype=np.float64), _check.positive("q", q)
    left = np.maximum(1 - g, 1e-12)
    return ((g * q + np.sqrt((g * q) ** 2 + 4 * left * q)) / (2 * left))[()]


def strength_at(distance: np.ndarray, root: np.ndarray | float) -> np.ndarray:
    """Strength of a spike with its outlier `distance` above the edge of unit noise; root sqrt(q).

    >>> float(strength_at(np.array(1.0), 1.0).round(3))
    2.618
    """
    # With b = x - 1 - q = 2 sqrt q + d, b^2 - 4 q = d (d + 4 sqrt q), without cancellation.
    above = np.maximum(distance, 0)
    return np.asarray(root + (above + np.sqrt(above * (above + 4 * root))) / 2)


def outlier_sd(
    kappa: ArrayLike,
    q: ArrayLike,
    M: ArrayLike,
    variance: ArrayLike = 1.0,
    exposure: ArrayLike | None = None,
) -> np.ndarray:
    """Standard deviation of an outlier far above the threshold over draws of M examples.

    0 up to the threshold, where the eigenvalue fluctuates as a noise eigenvalue does (`spiked`).

    With `g = 1 - q/kappa^2` it is `variance (1 + kappa) sqrt(g (2 + k4 g) / M)`, where k4 is the
    excess kurtosis of an example's projection on the spike (Z. Bai, J. Yao, Ann. IHP 44 (2008)
    447, their general form specialised to one spike). A Gaussian signal has k4 = 0. In a mixture
    an example carries the archetype with probability pi or not at all, so
    `k4 = (1/pi - 3) kappa^2 / (1 + kappa)^2`; far above the threshold the Gaussian factor 2
    becomes 1/pi - 1.

    Parameters
    ----------
    kappa, q, variance : as in :func:`outlier`.
    M : number of examples.
    exposure : None for a Gaussian signal; pi in (0, 1] for a mixture that draws the archetype
        with probability pi; 1.0 when kappa was computed from the exposures of this draw, so that
        only the noise fluctuates.

    >>> round(float(outlier_sd(10.0, 0.25, 1600)), 4)
    0.3884
    >>> round(float(outlier_sd(10.0, 0.25, 1600, exposure=0.5)), 4)
    0.2978
    """
    kappa = _check.positive("kappa", kappa)
    ratio = np.minimum(threshold(q) / kappa, 1.0)
    gap = (1 - ratio) * (1 + ratio)
    excess: ArrayLike = 0.0
    if exposure is not None:
        excess = (1 / _check.fraction("exposure", exposure) - 3) * (kappa / (1 + kappa)) ** 2
    spread = np.sqrt(gap * (2 + excess * gap) / _check.count("M", M))
    return (_check.positive("variance", variance) * (1 + kappa) * spread)[()]


def spike_strength(r: ArrayLike, exposure: ArrayLike, N: ArrayLike) -> np.ndarray:
    """Strength of an archetype, `kappa = N r^2 pi / (1 - r^2)` (33)(34); N is for unit vectors.

    >>> round(float(spike_strength(0.6, 0.5, 400)), 12)
    112.5
    """
    r = _check.probability("r", r)
    exposure = _check.share("exposure", exposure)
    return (_check.count("N", N) * r**2 * exposure / ((1 - r) * (1 + r)))[()]


def excess_kurtosis(r: ArrayLike) -> np.ndarray:
    """Excess kurtosis of the +-1 noise around an archetype, `(6 r^2 - 2) / (1 - r^2)`, r in [0, 1).

    >>> float(excess_kurtosis(0.0)), round(float(excess_kurtosis(0.8)), 12)
    (-2.0, 5.111111111111)
    """
    r = _check.below_one("r", r)
    return ((6 * r**2 - 2) / ((1 - r) * (1 + r)))[()]


def small_table_shift(kurtosis: ArrayLike, M: ArrayLike, N: ArrayLike) -> np.ndarray:
    """Return the factor `1 + k4 / sqrt(M N)` in a form that also holds for small tables.

    It is `1 / (1 - k4 / sqrt(M N))` where `k4` is below 0: the same to first order and never
    negative. In simulated +-1 tables of 4 x 4 or more the false-alarm rate is right within a factor
    of two; with the first-order form it is six times too high at 5 x 5.

    >>> small_table_shift([-2.0, 4.0], 4, 9).round(3)
    array([0.75 , 1.667])
    """
    first = np.asarray(kurtosis) / np.sqrt(_check.count("M", M) * _check.count("N", N))
    return np.where(first < 0, 1 / (1 + np.abs(first)), 1 + first)[()]


def rare_flip_edge(r: float, M: int, N: int, false_alarm: float) -> float:
    """Largest noise eigenvalue from a column, or a row, with many flips when flips are rare.

    A column of `d` flips among M rows has the noise variance
    ``(d/M) (1 + r)^2 + (1 - d/M) (1 - r)^2``; if the ratio l to the other columns' variance is
    above ``1 + sqrt q``, it gives an outlier at ``l (1 + q / (l - 1))`` in units of ``1 - r^2``.
    Rows follow with q inverted. `d` is the quantile of the largest of N binomial counts.

    Source: theory/NOTES.md, "Kurtosis correction of the edge".

    Returns
    -------
    The eigenvalue, in units of C; 0 where no column or row stands out.

    >>> round(rare_flip_edge(0.99, 400, 400, 1e-3), 4), rare_flip_edge(0.5, 400, 400, 1e-3)
    (0.1333, 0.0)
    """
    from scipy.special import bdtrc, bdtrik

    p, variance = (1 - r) / 2, (1 - r) * (1 + r)
    edge = 0.0
    for length, other, scale in ((M, N, 1.0), (N, M, N / M)):
        flips = np.ceil(bdtrik(1 - false_alarm / other, length, p))
        flips -= bdtrc(flips - 1, length, p) <= false_alarm / other  # the quantile was an integer
        share = max(flips, 0.0) / length
        ratio = (share * (1 + r) ** 2 + (1 - share) * (1 - r) ** 2) / variance
        q = other / length
        if ratio > 1 + np.sqrt(q):
            edge = max(edge, scale * variance * ratio * (1 + q / (ratio - 1)))
    return float(edge)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction for archetypes or classes from M rows; spikes in falling order, R of them.

    Attributes
    ----------
    q : aspect ratio N / M.
    edge : upper edge of the bulk.
    strengths : (R,) spikes of the population, in units of the bulk variance.
    margins : (R,) strength over the threshold: detectable above 1.
    outliers : (R,) sample eigenvalues, the edge where not detectable.
    alignments : (R,) part of sample eigenvector k that lies in the span of the signals.
    overlaps : (R, K) squared cosine of sample eigenvector k and archetype, or signal of class, mu.

    >>> xi = np.sign(np.random.default_rng(0).standard_normal((2, 400)))
    >>> found = finite_size(xi, [0.5, 0.001], r=0.5, M=400)
    >>> found.detectable.tolist(), found.rank, found.scores.round(2)
    ([True, False], 1, array([0.99, 0.  ]))
    """

    q: float
    edge: float
    strengths: np.ndarray
    margins: np.ndarray
    outliers: np.ndarray
    alignments: np.ndarray
    overlaps: np.ndarray

    @property
    def detectable(self) -> np.ndarray:
        """(R,) whether the spike leaves the bulk."""
        return self.margins > 1

    @property
    def rank(self) -> int:
        """Number of eigenvalues above the bulk."""
        return int(self.detectable.sum())

    @property
    def scores(self) -> np.ndarray:
        """(K,) part of each archetype or class in the span of the leading `rank` eigenvectors."""
        return self.overlaps.sum(axis=0)


def finite_size(
    archetypes: np.ndarray, exposures: ArrayLike, r: float, M: int, radius: float = 0.0
) -> Prediction:
    """Predict the outliers and overlaps of one draw from its exposures and archetypes.

    The spikes are the squared singular values of `diag(sqrt e) U` (U the unit archetypes), exact in
    the archetypes' mutual overlaps and the exposures of this draw; only the noise is treated by
    asymptotic formulas.

    Parameters
    ----------
    archetypes : (K, N) array of -1 and +1.
    exposures : (K,) share of the M examples that came from each archetype, summing to at most 1.
    r : quality, in (0, 1).
    M : number of examples.
    radius : radius of the semicircle of privacy noise (`private.noise_radius`).

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice([-1, 1], size=(2, 400))
    >>> prediction = finite_size(xi, [0.75, 0.25], r=0.3, M=1600)
    >>> prediction.rank, prediction.outliers.round(2), prediction.scores.round(3)
    (2, array([28.15, 10.16]), array([0.991, 0.973]))
    >>> finite_size(xi, [0.75, 0.25], r=0.3, M=1600, radius=10.0).scores.round(3)
    array([0.958, 0.686])
    """
    patterns = _check.real(
        "archetypes", archetypes, "-1 or +1 in every entry", lambda x: np.abs(x) == 1
    )
    if patterns.ndim != 2 or 0 in patterns.shape:
        raise ArgumentError("archetypes", "a (K, N) array", f"shape {patterns.shape}")
    K, N = patterns.shape
    shares = _check.share("exposures", exposures)
    if shares.shape != (K,):
        raise ArgumentError("exposures", f"of shape ({K},), one per archetype", shares.shape)
    if shares.sum() > 1 + 1e-9:
        raise ArgumentError("exposures", "shares that sum to at most 1", shares.sum())
    quality = _check.scalar("r", r, _check.probability)
    q = N / _check.scalar("M", M, _check.count)
    variance = (1 - quality) * (1 + quality)

    units = patterns / np.sqrt(N)
    _, singular, directions = np.linalg.svd(np.sqrt(shares)[:, None] * units, full_matrices=False)
    kappas = N * quality**2 * singular**2 / variance
    law = covariance.Population.flat(variance), q, radius
    edge = covariance.upper_edge(*law)
    # An archetype without examples gives kappa = 0, which the laws do not accept; the floor is far
    # below every threshold.
    ell = variance * (1 + np.maximum(kappas, np.sqrt(q) * 1e-9))
    outliers, gammas = covariance.outlier(ell, *law), covariance.overlap(ell, *law)
    margins = kappas / (edge.critical / variance - 1)
    overlaps = gammas[:, None] * (directions @ units.T) ** 2
    return Prediction(q, edge.location, kappas, margins, outliers, gammas, overlaps)


_check.guard(__name__)
