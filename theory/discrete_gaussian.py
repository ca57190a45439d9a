"""Guarantee of discrete Gaussian noise on the counts of +-1 examples.

The discrete Gaussian of variance parameter `s` is the law on the integers with probabilities
proportional to ``exp(-y^2 / (2 s))``. A client adds an independent draw to each of the
``N (N - 1) / 2`` counts ``S_ij = sum_m eta_mi eta_mj``, i < j. The noise of `hopfed.theory.private`
is continuous; the proof below shows that discrete noise needs hardly more variance.

*One dimension.* Replace an example x by y, and let a be the number of sites at which they differ.
Then ``k = a (N - a)`` counts change, each by 2 up or down. The likelihood ratio of the two releases
depends on the noise T summed over these counts (with signs) alone, so the smallest delta is that
between the integers T and ``T + 2 k``.

*T is discrete Gaussian, of parameter* ``tau^2 = k s``, up to a total variation below 1e-100 for
s >= 64. By Poisson summation the characteristic function of one draw is ``exp(-s w^2 / 2)`` up to
``6 exp(-pi^2 s / 2)``, so that of T is ``exp(-k s w^2 / 2)`` up to k times that, and so is that of
the discrete Gaussian. Summed over the integers within 30 tau of 0, with sub-Gaussian tails beyond,
the difference is less than 1e-100 for all k and s up to 2^48.

*Sum and integral.* With ``g(x) = exp(-x^2 / (2 tau^2))`` delta is at most the sum over the integers
of ``h(x) = max(0, g(x) - e^epsilon g(x - 2 k))`` over ``tau sqrt(2 pi)``. The integral of h in its
place is the delta of continuous noise, `private.gaussian_delta` with multiplier
``z = tau / (2 k) = sqrt(s / (4 k))``. A sum and an integral of h differ by at most an eighth of the
total variation of h' (the Peano kernel of the midpoint rule). h is above 0 for x below
``-w tau``, ``w = epsilon z - 1 / (2 z)``, which is ``y tau``, ``y = epsilon z + 1 / (2 z)``, away
from 2 k, and ``e^epsilon g(x - 2 k) <= g(x)`` there. The variation of h' is that of the two terms
and the jump at the end: at most ``(5.1 + 2 y) / tau``, and for w >= 1, where the derivatives are
monotone, ``2 (w + y) exp(-w^2 / 2) / tau``; both are below
``(8.5 + 4 y) exp(-max(w, 0)^2 / 2) / tau``. Hence

    delta <= max over a of  gaussian_delta(epsilon, z)
                            + (0.5 + 0.2 y) exp(-max(w, 0)^2 / 2) / (k s) + 1e-50.

`N` is the number of sites throughout.

Sources: C. Canonne, G. Kamath, T. Steinke, NeurIPS 2020, arXiv:2004.00010 (the law, and theorem 7,
which is the second step for one count); P. Kairouz, Z. Liu, T. Steinke, ICML 2021, arXiv:2102.06387
(sums of discrete Gaussians); B. Balle, Y.-X. Wang, ICML 80 (2018) 394 (continuous noise).
"""

from __future__ import annotations

import numpy as np

from hopfed.errors import ArgumentError

from . import _check, private

LEAST, MOST = 64, 1 << 48  # range of variance parameters in the proof and in 64-bit arithmetic
_within = _check.checker(f"a number of at least {LEAST}", lambda s: s >= LEAST)
_sites = _check.checker("a whole number of at least 2", lambda n: (n >= 2) & (n == np.floor(n)))
EPSILON = 100.0  # a larger epsilon counts as this: the proof multiplies 1e-100 by e^epsilon


def delta_bound(epsilon: float, variance: float, N: int) -> float:
    """Delta guaranteed by discrete Gaussian noise of parameter `variance` on all counts.

    Parameters
    ----------
    epsilon : of the guarantee, at least 0; a value above 100 counts as 100.
    variance : s, at least 64.
    N : sites, at least 2.

    >>> bound, continuous = delta_bound(1.0, 90_000, 80), private.gaussian_delta(1.0, 300 / 80)
    >>> f"{bound:.5e} {continuous:.5e}"
    '9.17266e-06 9.17265e-06'
    """
    epsilon = min(_check.scalar("epsilon", epsilon, _check.nonnegative), EPSILON)
    s = _check.scalar("variance", variance, _within)
    N = int(_check.scalar("N", N, _sites))
    a = np.arange(1, N // 2 + 1, dtype=np.float64)
    k = a * (N - a)
    z = np.sqrt(s / (4 * k))
    w, y = np.maximum(epsilon * z - 1 / (2 * z), 0.0), epsilon * z + 1 / (2 * z)
    continuous = np.exp(private._log_delta(epsilon, z))
    return float(np.max(continuous + (0.5 + 0.2 * y) * np.exp(-(w**2) / 2) / (k * s)) + 1e-50)


def least_variance(epsilon: float, delta: float, N: int) -> int:
    """Smallest integer variance of discrete Gaussian noise that is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon, delta : of the guarantee: above 0, in (0, 1).
    N : sites, at least 2.

    >>> s = least_variance(1.0, 1e-5, 256)
    >>> s, round(s**0.5 / 256, 6), round(private.noise_multiplier(1.0, 1e-5), 6)
    (912106, 3.730634, 3.730632)
    """
    epsilon = _check.scalar("epsilon", epsilon, _check.positive)
    delta = _check.scalar("delta", delta, _check.probability)
    low, high = LEAST - 1, LEAST
    while high <= MOST and delta_bound(epsilon, high, N) > delta:
        low, high = high, 2 * high
    if high > MOST:
        rule = f"larger: at delta {delta:g} it needs noise beyond 2^24 on {N} sites"
        raise ArgumentError("epsilon", rule, epsilon)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if delta_bound(epsilon, middle, N) <= delta else (middle, high)
    return high + high // 10**9 + 1  # beyond the rounding of the bound
