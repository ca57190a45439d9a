"""Cost of privacy: Gaussian noise on the operator, and spikes that are still seen beside it.

Source: theory/NOTES.md, "Privacy noise".

*Noise.* Replacing one of a client's +-1 examples x by y changes its sums of products
`S = eta^T eta` by `y y^T - x x^T`, of Frobenius norm at most `sqrt(2) N`, so the vector of the
entries above the diagonal moves by at most `N`; the diagonal is always M. Symmetric noise of
standard deviation `z N` on those entries, z the noise multiplier, makes S (epsilon,
delta)-differentially private (`hopfed.privacy.private_operator` adds it).

*Cost.* In the operator pooled over L clients, `C = sum S / M`, the noise is a semicircle of radius
`2 z N^(3/2) sqrt(L) / M`. The bulk becomes the free convolution of the Marchenko-Pastur law with
it, and the phase boundary `kappa = sqrt q` becomes `(kappa^2 - q)(kappa + q)^2 = kappa^2 t`, t the
variance of the semicircle (a quarter of its radius squared) in units of the bulk variance squared.
Outliers, overlaps and edges are computed by `covariance`.

Parameters
----------
r, exposure, N, M, power, false_alarm, stronger : as in `planning`; M of all clients together.
epsilon, delta, rounds : privacy budget, and the number of releases that share it.
multiplier : z, noise of a client over its sensitivity, at least 0.
radius, clients : radius of the semicircle, at least 0; number L of clients, each adding noise.
Source: B. Balle, Y.-X. Wang, ICML 80 (2018) 394; for the spectra see `covariance`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import _check, covariance, planning, spikes
from ._solve import increasing_root, smallest_count
from .covariance import Population


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """Smallest delta for which Gaussian noise on operators is (epsilon, delta)-private.

    `Phi(1/(2z) - epsilon z) - e^epsilon Phi(-1/(2z) - epsilon z)` (Balle and Wang, theorem 8).

    Gaussian mechanisms compose exactly: T releases with z equal one release with `z / sqrt T`.

    >>> f"{gaussian_delta(1.0, 3.730631634816):.6e}"
    '1.000000e-05'
    """
    epsilon = _check.scalar("epsilon", epsilon, _check.nonnegative)
    return float(
        np.exp(_log_delta(epsilon, _check.scalar("multiplier", multiplier, _check.positive)))
    )


def noise_multiplier(epsilon: float, delta: float, rounds: int = 1) -> float:
    """Smallest noise multiplier with which `rounds` releases are (epsilon, delta)-private.

    Returns 0 for an infinite epsilon, which means no privacy.

    >>> round(noise_multiplier(1.0, 1e-5), 9), noise_multiplier(np.inf, 1e-5)
    (3.730631635, 0.0)
    """
    from scipy.optimize import brentq

    delta = _check.scalar("delta", delta, _check.probability)
    releases = _check.scalar("rounds", rounds, _check.count)
    if epsilon == np.inf:
        return 0.0
    epsilon = _check.scalar("epsilon", epsilon, _check.positive)

    def excess(log_z: float) -> float:
        return float(_log_delta(epsilon, np.exp(log_z)) - np.log(delta))

    # delta is 1 to rounding once z epsilon << 1 / z, and below 1 / (z sqrt(2 pi)) at any epsilon.
    low = high = -np.log(100 * (1 + np.sqrt(epsilon)))
    while excess(high) >= 0:
        low, high = high, high + 1
    return float(np.exp(brentq(excess, low, high, xtol=1e-14)) * np.sqrt(releases))


def gaussian_epsilon(multiplier: float, delta: float, rounds: int = 1) -> float:
    """Epsilon of `rounds` releases with a noise multiplier, inverse of :func:`noise_multiplier`.

    Infinite without noise.

    >>> round(gaussian_epsilon(3.730631634816, 1e-5), 9)
    1.0
    """
    from scipy.optimize import brentq

    z = _check.scalar("multiplier", multiplier, _check.nonnegative)
    delta = _check.scalar("delta", delta, _check.probability)
    z /= np.sqrt(_check.scalar("rounds", rounds, _check.count))
    if z == 0:
        return np.inf
    if _log_delta(0.0, z) <= np.log(delta):
        return 0.0
    high = 1.0
    while _log_delta(high, z) > np.log(delta):
        high *= 2
    level = float(np.log(delta))
    return float(brentq(lambda e: float(_log_delta(e, z)) - level, 0.0, high, xtol=1e-14))


def noise_radius(
    multiplier: ArrayLike, N: ArrayLike, M: ArrayLike, clients: ArrayLike = 1
) -> np.ndarray:
    """Radius of the semicircle in the pooled operator, `2 z N^(3/2) sqrt(L) / M`.

    Use `clients=1` when a trusted party adds noise once, to the sum.

    >>> round(float(noise_radius(3.730631635, 256, 50 * 512, clients=50)), 6)
    8.441456
    """
    z, size = _check.nonnegative("multiplier", multiplier), _check.count("N", N)
    pooled, owners = _check.count("M", M), _check.count("clients", clients)
    return (2 * z * size**1.5 * np.sqrt(owners) / pooled)[()]


def noise_threshold(
    variance: float,
    N: int,
    M: int,
    radius: float = 0.0,
    false_alarm: float = planning.FALSE_ALARM,
    stronger: int = 0,
) -> float:
    """Eigenvalue that noise of rows and of privacy exceeds with probability `false_alarm`.

    The threshold of `covariance` for white noise with two shifts of order 1/N, both due to the
    diagonal, which has no noise. First, the diagonal of +-1 examples is constant: their excess
    kurtosis `k4` gives the factor `1 + k4 / sqrt(M N)` of the notes at radius 0. Second, privacy
    noise is not added to the diagonal, so its edge is that of a full Gaussian matrix of `N - 5/2`
    sites (1/2 as in Ma's scaling). Without the second shift a nominal 5% is 2% at N = 256.

    Parameters
    ----------
    variance : bulk variance `1 - r^2`, in (0, 1].
    stronger : number of larger spikes; each takes one site and one example.

    >>> round(noise_threshold(0.84, 256, 25_600, 8.4414, 0.01), 4)
    9.4528
    """
    s2 = _check.scalar("variance", variance, _check.fraction)
    n, m, wide = _without_stronger(N, M, radius, stronger)
    white = Population.flat(s2)
    finite = wide * np.sqrt(max(n - 2.5, 0.5) / n)
    level = covariance.noise_threshold(white, n, m, false_alarm, finite)
    q, kappa = n / m, covariance.upper_edge(white, n / m, wide).critical / s2 - 1
    shift = (4 - 6 * s2) * (1 + q / kappa) ** 2 / (m * kappa)  # s2 k4 = 6 r^2 - 2
    return float((level + shift) * m / M)


def minimal_samples(
    r: ArrayLike, exposure: ArrayLike, N: ArrayLike, multiplier: ArrayLike, clients: ArrayLike = 1
) -> np.ndarray:
    """Fewest examples of all clients that show an archetype despite noise of privacy.

    From `(kappa^2 - N/M)(kappa M + N)^2 = kappa^2 z^2 N^3 L / (1 - r^2)^2`: where privacy noise
    dominates, M grows as `z`, not as its square, and as `sqrt L`.

    >>> minimal_samples(0.5, [0.0075, 0.1], 400, [0.0, 3.73]).round()
    array([ 400., 2955.])
    """
    kappa, z, N = np.broadcast_arrays(
        spikes.spike_strength(r, _check.fraction("exposure", exposure), N),
        _check.nonnegative("multiplier", multiplier) * np.sqrt(_check.count("clients", clients)),
        np.asarray(N, dtype=np.float64),
    )
    t = N**3 * (z / (1 - np.asarray(r, dtype=np.float64) ** 2)) ** 2

    def defect(M: np.ndarray) -> np.ndarray:
        return (1 - N / (M * kappa**2)) * (kappa * M + N) ** 2 - t

    least = N / kappa**2  # the boundary without noise
    most = 2 * least + np.sqrt(2 * t) / kappa  # there the defect is at least 0
    return np.where(t > 0, increasing_root(defect, least, most), least)[()]


def detection_power(
    r: float,
    exposure: float,
    N: int,
    M: int,
    radius: float,
    false_alarm: float = planning.FALSE_ALARM,
    stronger: int = 0,
) -> float:
    """Power despite noise of privacy: chance that an archetype's eigenvalue is above the threshold.

    As `planning.detection_power`, for single numbers. An eigenvalue a of the operator without
    noise moves to b with it, and fluctuates by `(db/da)^2 Var(a) + (db/da) radius^2 / (2 N)`.

    >>> round(detection_power(0.3, 0.1, 200, 300, 0.0), 2)
    0.97
    >>> round(detection_power(0.3, 0.1, 200, 3000, 2.5), 2)
    0.77
    """
    from scipy.special import ndtr

    quality = _check.scalar("r", r, _check.probability)
    exposure = _check.scalar("exposure", exposure, _check.fraction)
    n, m, wide = _without_stronger(N, M, radius, stronger)
    s2, q, white = 1 - quality**2, n / m, Population.flat(1 - quality**2)
    shares, weights = planning.binomial_shares(np.array([exposure]), np.array([float(M)]))
    kappa = N * quality**2 * shares / s2 * (M / m) * (n / N)

    law = covariance._law_of(white, q, wide)
    critical = covariance._upper_distance(law)
    maps = law.above(np.maximum(s2 * kappa, critical))  # spikes in the bulk: at the edge
    eigenvalue, edge = law.value(maps), law.value(law.above(np.array(critical)))[0]
    outside = s2 * kappa > critical
    rate = outside * law.slope(maps) / np.where(outside, maps.z1, 1.0)  # db / da
    sampled = spikes.outlier_sd(np.maximum(kappa, np.sqrt(q)), q, m, s2, exposure=1.0)
    sd = np.sqrt((rate * sampled) ** 2 + rate * wide**2 / (2 * n))

    level = max(noise_threshold(s2, N, M, radius, false_alarm, stronger) * M / m, edge)
    passes = outside * ndtr((eigenvalue - level) / np.where(outside, sd, 1.0))
    missed = float(np.sum(weights * (1 - passes)))
    return 1 - (1 - false_alarm) * min(max(missed, 0.0), 1.0)


def plan(
    r: float,
    exposure: ArrayLike,
    N: int,
    multiplier: float,
    clients: int = 1,
    power: float = 0.9,
    false_alarm: float = planning.FALSE_ALARM,
    stronger: int = 0,
) -> planning.Plan:
    """Return the smallest number of examples that detects an exposure from private operators.

    Parameters
    ----------
    exposure : a number or an array; all other arguments are single numbers.
    clients : number of clients, with equally many examples each.

    Returns
    -------
    Plan, with the `samples` of all clients together, a multiple of L.

    >>> p = plan(r=0.3, exposure=0.1, N=200, multiplier=noise_multiplier(1.0, 1e-5), clients=10)
    >>> int(p.samples), round(float(p.power), 2), round(float(p.overlap), 2)
    (28260, 0.9, 0.57)
    """
    shares = _check.fraction("exposure", exposure)
    target = _check.scalar("power", power, _check.probability)
    owners = int(_check.scalar("clients", clients, _check.count))
    sites = _check.scalar("N", N, _check.count)
    least = np.array(max(stronger + 1, np.ceil(planning.SMALLEST_TABLE / sites)))
    rows = []
    for share in shares.ravel().tolist():

        def reached(each: float, share: float = share) -> float:
            M = owners * int(each)
            radius = float(noise_radius(multiplier, N, M, owners))
            return detection_power(r, share, N, M, radius, false_alarm, stronger)

        each = smallest_count(
            lambda m: np.array(reached(float(m)) >= target), least, 2.0**50 / owners
        )
        M, s2 = owners * int(each), 1 - r**2
        law = Population.flat(s2), N / M, float(noise_radius(multiplier, N, M, owners))
        kappa = float(spikes.spike_strength(r, share, N))
        ell = s2 * (1 + kappa)
        rows.append(
            (
                float(M) if each < 2.0**50 / owners else np.inf,
                reached(float(each)),
                noise_threshold(s2, N, M, law[2], false_alarm),
                float(covariance.outlier(ell, *law)),
                float(covariance.overlap(ell, *law)),
                kappa / (covariance.upper_edge(*law).critical / s2 - 1),
            )
        )
    return planning.Plan(*(np.reshape(c, shares.shape)[()] for c in zip(*rows, strict=True)))


def _log_delta(epsilon: float, z: ArrayLike) -> np.ndarray:
    """Logarithm of :func:`gaussian_delta`, which itself may underflow."""
    from scipy.special import log_ndtr

    z = np.asarray(z, dtype=np.float64)
    first = log_ndtr(1 / (2 * z) - epsilon * z)
    second = epsilon + log_ndtr(-1 / (2 * z) - epsilon * z)
    with np.errstate(invalid="ignore"):  # -inf - (-inf), replaced below
        found = first + np.log(-np.expm1(np.minimum(second - first, -1e-300)))
    return np.where(first == -np.inf, -np.inf, found)


def _without_stronger(N: int, M: int, radius: float, stronger: int) -> tuple[int, int, float]:
    """Sites and examples without the `stronger` spikes, and the radius rescaled to that size."""
    sites, samples = _check.scalar("N", N, _check.count), _check.scalar("M", M, _check.count)
    width = _check.scalar("radius", radius, _check.nonnegative)
    k = planning._check_stronger(stronger, np.minimum(sites, samples))
    n, m = int(sites - k), int(samples - k)
    return n, m, float(width * np.sqrt(n / sites) * samples / m)


_check.guard(__name__)
