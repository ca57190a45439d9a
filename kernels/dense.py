"""Serial dynamics on energies of pattern overlaps: the dense and the exponential memory.

With ``a_mu = xi_mu . s`` the energies of K patterns (K, N) of +-1 with weights w are

    power n:          E(s) = -(N / n) sum_mu w_mu (a_mu / N)^n
    exponential beta: E(s) = -(1 / beta) log sum_mu w_mu exp(beta a_mu)

(theory/NOTES.md, Recall energies). Sites are visited in order. The field of a spin is half of the
rise in energy if the spin flips from +1 to -1, so it does not depend on the spin itself; a spin
becomes ``sign(h)``, keeps its value if h is 0, or is drawn by the heat bath.

Chains are updated together, on the host. A field takes one sum over the patterns: the terms that
depend on overlaps alone are kept in a table, recomputed for chains that flip. For integer n and
unit weights all terms are whole numbers, so that up to 2^53 the fields, and with them the states at
temperature 0, are exact; in the exponential, a field below 1e-11 of its terms is a tie of patterns
of equal overlap.

Randomness is as in `heatbath`: a draw is determined by chain c, sweep t and site i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.coupling import Relaxed, check_spins, held_sites, schedule
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.philox import draw_thresholds

CLOSE = 1e-11  # a float64 sum below this fraction of its terms is a structural tie
HIGHEST = 30  # largest power n: N^n must not overflow float64
COLDEST = 300.0  # largest beta of the exponential, for the range of exp(-2 beta) in float64
FARTHEST = 2_000.0  # bound of the log ratio of two sums, beyond which the result is the same


def dense_sweep(
    state: np.ndarray,
    patterns: np.ndarray,
    *,
    energy: str = "power",
    parameter: float,
    weights: np.ndarray | None = None,
    beta: ArrayLike | None = None,
    sweeps: int = 100,
    seed: int = 0,
    first_sweep: int = 0,
    held: np.ndarray | None = None,
) -> Relaxed:
    """Sweep a dense memory, on the CPU, `sweeps` times, or, without noise, until nothing changes.

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (200, 100))  # a load of 2
    >>> cue = np.where(rng.random((1, 100)) < 0.8, xi[0], -xi[0]).astype(np.int8)
    >>> bool((dense_sweep(cue, xi, parameter=3).state == xi[0]).all())
    True
    """
    state, patterns, mass = _checked(state, patterns, weights)
    free = ~held_sites(False if held is None else held, state.shape)
    betas = schedule(0 if beta is None else beta, (len(state), sweeps))
    xi = np.array(patterns.T, np.float64, order="C")
    rule = energy == "exponential", float(parameter)
    out = Relaxed(state.copy(), np.zeros(len(state), np.int64), np.zeros(len(state), np.bool_))
    scale = 1.0 if rule[0] else len(xi) / (2 * parameter) / float(len(xi)) ** parameter
    live, noise = np.arange(len(state)), None
    for sweep in range(sweeps if len(live) else 0):
        s, moved = out.state[live].astype(np.float64), np.zeros(len(live), np.bool_)
        a = s @ xi
        table, own = _table(a, mass, *rule)
        if beta is not None:
            noise = draw_thresholds(seed, len(state), first_sweep + sweep, len(xi))
        for i, column in enumerate(xi):
            h = _fields(table, own, column, s[:, i], *rule, noise is None) * scale
            if noise is None:
                up = np.where(h == 0, s[:, i], h) > 0
            else:
                up = betas[:, sweep] * h >= noise[:, i]
            flips = np.flatnonzero((up != (s[:, i] > 0)) & free[live, i])
            if len(flips):
                s[flips, i] *= -1
                a[flips] += 2 * s[flips, i, None] * column
                table[flips], own[flips] = _table(a[flips], mass, *rule)
                moved[flips] = True
        out.state[live] = s
        out.sweeps[live] += 1
        if noise is None:
            out.settled[live], live = ~moved, live[moved]
            if not len(live):
                break
    return out


def _checked(
    state: np.ndarray, patterns: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the checked states, patterns and weights."""
    if on_device(state) or on_device(patterns):
        raise BackendError("sweeps of the dense energies run on the CPU only")
    state, patterns = check_spins("state", state, 2), check_spins("patterns", patterns, 2)
    if patterns.shape[1] != state.shape[1] or not len(patterns):
        rule = f"of at least one row and {state.shape[1]} sites"
        raise ArgumentError("patterns", rule, f"shape {patterns.shape}")
    mass = np.ones(len(patterns)) if weights is None else np.asarray(weights, np.float64)
    return state, patterns, mass


def _table(
    a: np.ndarray, mass: np.ndarray, exponential: bool, parameter: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the terms of patterns in fields from overlaps a (S, K), and the spin's factor (S,).

    Power: ``(D(a - 1) + D(a + 1)) / 2`` and the sum of ``(D(a - 1) - D(a + 1)) / 2`` with ``D(c) =
    (c + 1)^n - (c - 1)^n``. Exponential: ``exp(beta (a - max a))``, and 0.
    """
    if exponential:
        terms = np.exp(parameter * (a - a.max(axis=1, keepdims=True)))
        return mass * terms, np.zeros(len(a))
    low, here, high = np.ones_like(a), np.ones_like(a), np.ones_like(a)
    for _ in range(int(parameter)):
        low, here, high = low * (a - 2), here * a, high * (a + 2)
    return mass * (high - low) / 2, (2 * here - low - high) @ mass / 2


def _fields(
    table: np.ndarray, own: np.ndarray, column: np.ndarray, s: np.ndarray, exponential: bool,
    parameter: float, cold: bool,
) -> np.ndarray:  # fmt: skip
    """Return the fields (S,) of spins s (S,); if cold, the exponential has only the right signs.

    The sums over patterns that are up at the site and over the others are computed separately,
    without a difference: one may be far below the rounding of the other.
    """
    if not exponential:
        return table @ column + s * own
    up = 0.5 + 0.5 * column
    with np.errstate(divide="ignore"):
        x = np.log(table @ up) - np.log(table @ (1 - up)) - 2 * parameter * s
    x = np.where(np.abs(x) <= 2 * CLOSE, 0.0, np.clip(x, -FARTHEST, FARTHEST))
    if cold:
        return x
    ends = np.logaddexp(x + parameter, -parameter), np.logaddexp(x - parameter, parameter)
    return np.asarray((ends[0] - ends[1]) / (2 * parameter))
