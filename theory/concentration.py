"""Non-asymptotic bounds on the deviation of the operator from its mean, and of the bulk's edges.

The operator is `J = (1/(N M)) eta^T eta = (1/M) sum x x^T` with unit vectors `x = eta / sqrt N`,
M independent examples, possibly of many clients and mixtures; `S` is its mean. The
increments `(x x^T - E x x^T) / M` have norm at most `range = 1/M` (a difference of two positive
semidefinite matrices of norm at most 1; the paper uses 2/M), and since `(x x^T)^2 = x x^T` their
squares add up to at most `(S - S^2) / M`: the variance proxy is
`v / M`, `v = max lambda (1 - lambda)` over the spectrum of S, never above `1/4`.

Parameters
----------
N, M : sites, examples.
deviation : u, in the norm of J; above 0.
level, delta : probabilities in (0, 1).
constant, constants : c, or (c, C), not given by the paper.
variance : the proxy v, in [0, 1/4]; in `bulk_band` the bulk variance.

Sources: J. A. Tropp, Found. Comput. Math. 12 (2012) 389, theorem 1.4; arXiv:2603.19902 ("the
paper"), theorem 1 and eqs. (35) to (40). The bounds are for J, of trace 1; in the scale of `N J`,
where the bulk variance is `1 - r^2`, multiply deviations by N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import _check, marchenko_pastur

_proxy = _check.checker("a number in [0, 1/4]", lambda a: (a >= 0) & (a <= 0.25))
FITTED = (0.29, 0.0)  # C and C' of `bulk_band`, fitted to noise of 100 to 800 sites


def variance_proxy(r: ArrayLike, N: ArrayLike, exposures: ArrayLike | None = None) -> np.ndarray:
    """Variance proxy of Bernstein's bound, `v = max lambda (1 - lambda)` over E J's spectrum.

    With orthogonal archetypes of exposures `pi` that spectrum is `r^2 pi_mu + (1 - r^2) / N` and,
    off the archetypes, `(1 - r^2) / N`. Without exposures, returns the bound for all archetypes and
    mixtures, whose spectrum ends at `r^2 + (1 - r^2) / N`.

    Parameters
    ----------
    r : quality, in (0, 1].
    N : number of sites.
    exposures : (..., K) share of the examples of each archetype, over the last axis.

    >>> float(variance_proxy(0.8, 100)), round(float(variance_proxy(0.5, 100, [0.6, 0.4])), 6)
    (0.25, 0.132694)
    """
    square = _check.fraction("r", r) ** 2
    floor = (1 - square) / _check.count("N", N)
    if exposures is None:
        top = np.minimum(square + floor, 0.5)
        return (top * (1 - top))[()]
    shares = _check.share("exposures", exposures)
    floor = np.broadcast_to(floor, np.broadcast_shapes(floor.shape, shares.shape[:-1]))[..., None]
    signal = np.minimum(square[..., None] * shares + floor, 1.0)
    spectrum = np.concatenate([signal, floor], axis=-1)
    found = np.max(spectrum * (1 - spectrum), axis=-1)[()]
    return found


def bernstein_deviation(
    level: ArrayLike, N: ArrayLike, M: ArrayLike, variance: ArrayLike = 0.25
) -> np.ndarray:
    """Bernstein's bound: deviation that `||J - E J||` exceeds with probability at most `level`.

    Matrix Bernstein with explicit constants: the bound `2 N exp(-M u^2 / (2 v + 2 u / 3))` of
    Tropp, with variance `v / M` and range `1 / M`, once for each sign, is `level` at
    `u = L / (3 M) + sqrt((L / (3 M))^2 + 2 v L / M)`, `L = log(2 N / level)`.

    >>> round(float(bernstein_deviation(0.05, 400, 10_000)), 6)
    0.022325
    """
    log_ratio = np.log(2 * _check.count("N", N) / _check.probability("level", level))
    rate = log_ratio / _check.count("M", M)
    return (rate / 3 + np.sqrt((rate / 3) ** 2 + 2 * _proxy("variance", variance) * rate))[()]


def paper_deviation(
    level: ArrayLike,
    N: ArrayLike,
    M: ArrayLike,
    variance: ArrayLike = 0.25,
    constants: tuple[ArrayLike, ArrayLike] = (0.375, 1.0),
) -> np.ndarray:
    """Deviation of the paper's form (38), `2 exp(-c M min(u^2 / v, u) + C log N) = level`.

    The paper does not give c and C: they are the `constants`. C = 1 is its form (36), for which
    Bernstein's bound gives c = 3/8: `2 v + 2 u / 3 <= (8/3) max(v, u)`. (38) has v = 1/4.

    >>> round(float(paper_deviation(0.05, 400, 10_000)), 4)
    0.0254
    >>> round(float(paper_deviation(0.05, 400, 10_000, constants=(0.375, 0.5))), 4)
    0.0211
    """
    first, second = (_check.positive("constants", c) for c in constants)
    rate = np.log(2 / _check.probability("level", level)) + second * np.log(_check.count("N", N))
    rate = rate / (first * _check.count("M", M))
    return np.maximum(np.sqrt(_proxy("variance", variance) * rate), rate)[()]


def bulk_band(
    N: ArrayLike,
    M: ArrayLike,
    delta: ArrayLike = 0.05,
    variance: ArrayLike = 1.0,
    constants: tuple[float, float] = FITTED,
) -> tuple[np.ndarray, np.ndarray]:
    """Concentration band (39) of all but the outlying eigenvalues, of probability `1 - delta`.

    The Marchenko-Pastur edges, widened by eq. (40)
    `C sqrt((log(1/delta) + log N) / M) + C' log(N)^2 / N^(2/3)`, in units of the bulk variance.
    The paper does not give C and C': they are the `constants`, by default the smallest that hold
    simulated noise (`hopfed run isotropic`). The lower end is cut at 0.

    >>> lower, upper = bulk_band(400, 1600)
    >>> round(float(lower), 4), round(float(upper), 4)
    (0.2283, 2.2717)
    """
    sites, samples = _check.count("N", N), _check.count("M", M)
    delta = _check.probability("delta", delta)
    first, second = _check.nonnegative("constants", constants)
    width = first * np.sqrt((np.log(1 / delta) + np.log(sites)) / samples)
    width = width + second * np.log(sites) ** 2 / sites ** (2 / 3)
    lower, upper = marchenko_pastur.edges(sites / samples, variance)
    scale = np.asarray(variance, dtype=np.float64)
    return np.maximum(lower - scale * width, 0.0)[()], (upper + scale * width)[()]


_check.guard(__name__)
