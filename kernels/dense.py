"""Serial dynamics on energies of pattern overlaps: the dense and the exponential memory.

With ``a_mu = xi_mu . s`` the energies of K patterns (K, N) of +-1 with weights w are

    power n:          E(s) = -(N / n) sum_mu w_mu (a_mu / N)^n
    exponential beta: E(s) = -(1 / beta) log sum_mu w_mu exp(beta a_mu)

(theory/NOTES.md, Recall energies). Sites are visited in order. The field of a spin is half of what
the energy would rise by if the spin went from +1 to -1, all others as they are, so the spin's own
part is never in it; a spin becomes ``sign(h)``, stays where h is 0, or is drawn by the heat bath.

A field takes one sum over the patterns: what depends on the overlaps alone is kept in a table that
changes only where a spin flips, and then is looked up. For integer n and unit weights all terms are
whole numbers, so that up to 2^53 the fields, and with them the states at temperature 0, are exact;
in the exponential, a field below 1e-11 of its terms is a tie of patterns of equal overlap.

Randomness is that of `heatbath`: chain c, sweep t and site i name the draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.cpu.threads import for_each
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.layout import Relaxed, check_spins, counters, held_sites, schedule
from hopfed.kernels.philox import thresholds

VECTOR = 32  # patterns that a sum takes at a time
CLOSE = 1e-11  # part of its terms below which a float64 sum is a structural tie
HIGHEST = 30  # power n: N^n must stay a float64
COLDEST = 300.0  # beta of the exponential: a gap of 2 must not vanish beside 1

Rule = tuple[bool, float, np.ndarray, np.ndarray]


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
    stream: int = 0,
    first_sweep: int = 0,
    first_chain: int = 0,
    held: np.ndarray | None = None,
) -> Relaxed:
    """Visit all sites `sweeps` times, or without noise until nothing changes.

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (200, 100))  # a load of 2
    >>> cue = np.where(rng.random((1, 100)) < 0.8, xi[0], -xi[0]).astype(np.int8)
    >>> bool((dense_sweep(cue, xi, parameter=3).state == xi[0]).all())
    True
    """
    state, patterns, mass = _checked(state, patterns, weights)
    kept = held_sites(held, state.shape)
    betas = schedule(0 if beta is None else beta, (len(state), sweeps))
    place = counters(seed, stream, first_sweep, first_chain)
    out = Relaxed(state.copy(), np.zeros(len(state), np.int64), np.zeros(len(state), np.bool_))
    if sweeps == 0:
        return out
    from hopfed.kernels.cpu.dense import run_chain

    columns, mass = _columns(patterns, mass)
    rule = energy_rule(energy, float(parameter), len(columns))
    lookup = thresholds().copy()  # writable, as the type that the loops are compiled for

    def task(chain: int) -> None:
        run_chain(
            chain, *out, columns, mass, rule, betas, beta is None, lookup, kept, *place,
            _scratch(*columns.shape),
        )  # fmt: skip

    for_each(task, range(len(state)))
    return out


def _checked(
    state: np.ndarray, patterns: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return states, patterns and weights, or raise."""
    if on_device(state) or on_device(patterns):
        raise BackendError("the compiled loops of the dense energies run on the CPU only")
    state, patterns = check_spins("state", state, 2), check_spins("patterns", patterns, 2)
    if patterns.shape[1] != state.shape[1] or not len(patterns):
        rule = f"of at least one row and {state.shape[1]} sites"
        raise ArgumentError("patterns", rule, f"shape {patterns.shape}")
    mass = np.ones(len(patterns)) if weights is None else np.asarray(weights, np.float64)
    return state, patterns, mass


def _columns(patterns: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patterns by site, and weights; empty ones, which add nothing, fill the last vector."""
    empty = -len(patterns) % VECTOR
    columns = np.pad(patterns.T, ((0, 0), (0, empty)))
    return np.ascontiguousarray(columns), np.pad(mass, (0, empty))


def energy_rule(energy: str, parameter: float, n: int) -> Rule:
    """Return the energy as the compiled loops take it.

    (exponential, parameter, values, owns): what a pattern adds to a field by its level 0 .. N, and
    to the factor of the spin itself. Power: ``(D(a - 1) + D(a + 1)) / 2`` and ``(D(a - 1) - D(a +
    1)) / 2`` with ``D(c) = (c + 1)^n - (c - 1)^n``. Exponential: ``exp(beta (a - N))``, and the
    same.
    """
    a = 2.0 * np.arange(n + 1) - n
    if energy == "exponential":
        values = np.exp(parameter * (a - n))
        return True, parameter, values, values
    low, here, high = np.ones(n + 1), np.ones(n + 1), np.ones(n + 1)
    for _ in range(int(parameter)):
        low, here, high = low * (a - 2), here * a, high * (a + 2)
    return False, parameter, (high - low) / 2, (2 * here - low - high) / 2


def _scratch(n: int, count: int) -> tuple[np.ndarray, ...]:
    """Work space of one chain: levels, table, thresholds, draws twice."""
    padded = -(-n // 8) * 8
    bits = np.zeros(padded // 2, np.uint32)
    limits = np.zeros((1, padded), np.float32)
    return np.zeros(count, np.int32), np.zeros(count), limits, bits, bits.view(np.uint16)
