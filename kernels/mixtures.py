"""Sums of exponentials and beta functions over the classes of a mixture, on the CPU.

Those over rows are one pass over their arrays, with exponentials that are vector instructions.
"""

from __future__ import annotations

import numpy as np


def responsibilities(
    logs: np.ndarray, shifts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how much of each row each class has, where ``logs[k, m] + shifts[k]`` is its log.

    Of logs (K, M) and shifts (K,): responsibilities (K, M) in float64 and in float32, and the log
    of the sum over classes (M,).
    """
    from hopfed.kernels.cpu.elementary import normalise

    K, M = logs.shape
    whole, single = np.empty((K, M)), np.empty((K, M), np.float32)
    totals, tops = np.empty(M), np.empty(M)
    normalise(np.ascontiguousarray(logs), shifts, whole, single, totals, tops)
    return whole, single, tops + np.log(totals)


def mixed(logs: np.ndarray, shifts: np.ndarray, parts: np.ndarray, highest: float) -> np.ndarray:
    """Return ``sum_k parts[k, m] exp(min(logs[s, k, m] + shifts[s, k], highest))``, (S, M).

    Of logs (S, K, M), shifts (S, K) and parts (K, M); `highest` is 700 or less.
    """
    from hopfed.kernels.cpu.elementary import mix

    found = np.empty((logs.shape[0], logs.shape[2]))
    mix(logs, shifts, np.ascontiguousarray(parts), highest, found)
    return found


def beta_gains(
    plus: np.ndarray, minus: np.ndarray, rates: np.ndarray, concentration: float
) -> np.ndarray:
    """``log B(a + plus, b + minus) / B(a, b)``, (K, N): averaged likelihoods of columns.

    plus and minus (K, N) are numbers of +1 and -1, rates (N,) in (0, 1); ``a = c rates``,
    ``b = c (1 - rates)`` with the concentration c.
    """
    from scipy.special import betaln

    a, b = concentration * rates, concentration * (1 - rates)
    return betaln(a + plus, b + minus) - betaln(a, b)


def spent(plus: np.ndarray, minus: np.ndarray, rates: np.ndarray) -> float:
    """Return the sum of ``plus log(rates) + minus log(1 - rates)``, all (K, N)."""
    return float((plus * np.log(rates) + minus * np.log1p(-rates)).sum())


def log_ratios(above: np.ndarray, below: np.ndarray, parts: np.ndarray, least: float) -> np.ndarray:
    """``sum_k log((least + above_k parts_j) / (least + below_k parts_j))``, (N,)."""
    found = np.zeros(len(parts))
    for up, down in zip(above, below, strict=True):  # no matrix of all
        found += np.log((least + up * parts) / (least + down * parts))
    return found
