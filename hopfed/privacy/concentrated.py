"""Budgets of several noisy answers about the same rows: zero-concentrated differential privacy.

Integer answers whose entries change by D_i where one row is replaced, with independent discrete
Gaussian noise of parameters V_i, are rho-concentrated for ``rho = sum_i D_i^2 / (2 V_i)``. The rho
of answers add up, also where each question is chosen by the answers before it, and rho gives

    delta = inf over alpha > 1 of  exp((alpha - 1) (alpha rho - epsilon)) / (alpha - 1)
                                   * (1 - 1 / alpha)^alpha.

Sources: M. Bun, T. Steinke, TCC 2016, arXiv:1605.02065 (lemma 7: composition); C. Canonne, G.
Kamath, T. Steinke, NeurIPS 2020, arXiv:2004.00010 (theorem 14: noise; corollary 13: delta).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from hopfed._lib.settings import require


def concentrated_delta(epsilon: float, rho: float) -> float:
    """Delta that rho-concentrated answers guarantee at an epsilon."""
    return float(np.exp(min(_log_delta(epsilon, rho), 0.0)))


def concentrated_rho(epsilon: float, delta: float) -> float:
    """Largest rho of answers that are (epsilon, delta)-private together."""
    require(0 < epsilon < np.inf, "epsilon", "a finite number above 0", epsilon)
    require(0 < delta < 1, "delta", "a number in (0, 1)", delta)
    level = float(np.log(delta))
    low = 1e-12 * min(epsilon**2, 1.0) / -level
    high = epsilon + 1.0
    if _log_delta(epsilon, high) <= level:
        return high
    rho = float(brentq(lambda r: _log_delta(epsilon, r) - level, low, high, xtol=1e-15, rtol=1e-12))
    return rho * (1 - 1e-9)  # within the budget, whatever the rounding


def _log_delta(epsilon: float, rho: float) -> float:
    """Log of the bound at the best alpha; any alpha is a bound."""

    def value(log_a: float) -> float:
        a = float(np.exp(log_a))  # alpha - 1
        return a * ((a + 1) * rho - epsilon) - np.log(a) - (a + 1) * np.log1p(1 / a)

    found = minimize_scalar(value, bounds=(-14.0, 14.0), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)
