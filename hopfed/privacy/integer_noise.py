"""Discrete Gaussian noise from a secret key: exact integers, reproducible for the same key.

Draws are made by rejection with integers alone, so that rounding leaks nothing about the data;
the bits come from SHAKE-256 in counter mode, keyed by the caller. Source:
C. Canonne, G. Kamath, T. Steinke, NeurIPS 2020, arXiv:2004.00010, algorithms 1 to 3.

Integer answers whose entries change by D_i when one row is replaced, with independent noise of
parameters V_i, are rho-concentrated for ``rho = sum_i D_i^2 / (2 V_i)``. The rho of answers add up,
also if each question depends on earlier answers. Sources: M. Bun, T. Steinke, TCC 2016,
arXiv:1605.02065 (lemma 7); arXiv:2004.00010 (theorem 14, corollary 13).
"""

from __future__ import annotations

import hashlib
from math import isqrt

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from hopfed._lib.settings import require
from hopfed.theory.discrete_gaussian import LEAST, MOST

BLOCK = 1 << 20  # proposals at a time
CHANCE = 1e-9  # probability that an honest release is rejected
_TOP = 2**64 - 1


def noise_bound(variance: int, numbers: float) -> float:
    """Magnitude that `numbers` draws of integer noise exceed at probability at most `CHANCE`."""
    return float(np.sqrt(2 * variance * np.log(2 * numbers / CHANCE)))


def norm_bound(variance: int, n_sites: int) -> float:
    """Norm that an (N, N) matrix of integer noise exceeds with probability at most `CHANCE`."""
    tail = 2 * np.sqrt(np.log(2 / CHANCE))  # from 2 exp(-t^2 / (4 s)) above the mean's bound
    return float(np.sqrt(variance) * (2 * np.sqrt(n_sites) + tail))


def discrete_gaussian(variance: int, size: int, key: bytes) -> np.ndarray:
    """Draw integer noise y of probability proportional to ``exp(-y^2 / (2 variance))``, exactly.

    A proposal is ``u + t v`` with a random sign: u uniform below t, the square root of the variance
    rounded up, and v geometric, ``exp(-v)``. It is accepted with probability
    ``exp(-((u + t v)^2 - 2 s v + s) / (2 s))``, s the variance; minus zero is rejected.
    """
    require(LEAST <= variance <= MOST, "variance", f"{LEAST} to {MOST}", variance)
    require(size >= 0, "size", "at least 0", size)
    coins, s, t = Coins(key), int(variance), isqrt(int(variance) - 1) + 1
    parts, missing = [np.zeros(0, np.int64)], size
    while missing > 0:
        n = min(BLOCK, missing * 9 // 4 + 64)  # a little under one half is accepted
        u, v = coins.below(np.full(n, t)), coins.geometric(n)
        negative = coins.below(np.full(n, 2)) == 1
        x = u + t * v
        taken = coins.exp(x * x - 2 * s * v + s, np.full(n, 2 * s)) & ~(negative & (x == 0))
        found = np.where(negative, -x, x)[taken][:missing]
        parts.append(found)
        missing -= len(found)
    return np.concatenate(parts)


class Coins:
    """Random integers and events of exact probability, from a key."""

    def __init__(self, key: bytes):
        self._key = hashlib.sha256(key).digest()
        self._calls = 0

    def words(self, n: int) -> np.ndarray:
        """Return the next n words of 64 uniform bits, uint64."""
        block = hashlib.shake_256(self._key + self._calls.to_bytes(8, "little"))
        self._calls += 1
        return np.frombuffer(block.digest(8 * n), dtype="<u8").astype(np.uint64)

    def below(self, limits: np.ndarray) -> np.ndarray:
        """Draw a uniform integer in [0, limit) for each of `limits`, positive int64."""
        m = np.asarray(limits, dtype=np.uint64)
        # Words above the last multiple of m would make small numbers more likely.
        most = np.uint64(_TOP) - (np.uint64(_TOP) % m + np.uint64(1)) % m
        drawn = self.words(len(m))
        while len(again := np.flatnonzero(drawn > most)):
            drawn[again] = self.words(len(again))
        return (drawn % m).astype(np.int64)

    def standard_normal(self, n: int) -> np.ndarray:
        """Draw n standard normal numbers by quantiles, each from 53 uniform bits."""
        uniform = ((self.words(n) >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
        return np.asarray(ndtri(uniform))

    def exp(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Draw booleans, True with probability ``exp(-a / b)``; int64, a >= 0, b > 0."""
        whole, rest = np.divmod(a, b)
        shown = self._exp_below_one(rest, b)
        left = np.flatnonzero(shown & (whole > 0))
        while len(left):  # a factor exp(-1) for each whole b in a
            held = self._exp_minus_one(len(left))
            shown[left[~held]] = False
            whole[left] -= 1
            left = left[held & (whole[left] > 0)]
        return shown

    def geometric(self, n: int) -> np.ndarray:
        """Draw n numbers v with probabilities proportional to ``exp(-v)``, at most 100; int64."""
        v, going = np.zeros(n, np.int64), np.arange(n)
        for _ in range(100):
            going = going[self._exp_minus_one(len(going))]
            v[going] += 1
        return v

    def _exp_minus_one(self, n: int) -> np.ndarray:
        one = np.ones(n, np.int64)
        return self._exp_below_one(one, one)

    def _exp_below_one(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Algorithm 1 of the source, for a <= b."""
        shown, going, k = np.zeros(len(a), bool), np.arange(len(a)), 1
        while len(going):
            held = self.below(b[going] * k) < a[going]
            shown[going[~held]] = k % 2 == 1
            going, k = going[held], k + 1
        return shown


def concentrated_rho(epsilon: float, delta: float) -> float:
    """Largest total rho with which answers with integer noise are (epsilon, delta)-private."""
    require(0 < epsilon < np.inf, "epsilon", "a finite number above 0", epsilon)
    require(0 < delta < 1, "delta", "a number in (0, 1)", delta)
    level = float(np.log(delta))
    low = 1e-12 * min(epsilon**2, 1.0) / -level
    high = epsilon + 1.0
    if _log_delta(epsilon, high) <= level:
        return high
    rho = float(brentq(lambda r: _log_delta(epsilon, r) - level, low, high, xtol=1e-15, rtol=1e-12))
    return rho * (1 - 1e-9)  # within the budget despite rounding


def _log_delta(epsilon: float, rho: float) -> float:
    """Log of ``e^((a - 1) (a rho - epsilon)) (1 - 1 / a)^a / (a - 1)``, least over a > 1."""

    def value(log_a: float) -> float:
        a = float(np.exp(log_a))  # alpha - 1
        return a * ((a + 1) * rho - epsilon) - np.log(a) - (a + 1) * np.log1p(1 / a)

    found = minimize_scalar(value, bounds=(-14.0, 14.0), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)
