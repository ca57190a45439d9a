"""Serial dynamics on energies of pattern overlaps: the dense and the exponential memory.

With ``a_mu = xi_mu . s`` the energies of K patterns (K, N) of +-1 with weights w are

    power n:          E(s) = -(N / n) sum_mu w_mu (a_mu / N)^n
    exponential beta: E(s) = -(1 / beta) log sum_mu w_mu exp(beta a_mu)

(theory/NOTES.md, Recall energies). Sites are visited in order. The field of a spin is half of what
the energy would rise by if the spin went from +1 to -1, all others as they are, so the spin's own
part is never in it; a spin becomes ``sign(h)``, ``sign(0) = +1``, or is drawn by the heat bath.

A field takes one sum over the patterns: what depends on the overlaps alone is kept in a table that
changes only where a spin flips. For integer n and unit weights all terms are whole numbers, so that
up to 2^53 the fields, and with them the states at temperature 0, are exact.

Randomness is that of `heatbath`: chain c, sweep t and site i name the draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.cpu.threads import for_each
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.layout import check_counters, check_held, check_schedule, check_spins
from hopfed.kernels.philox import thresholds

ENERGIES = ("power", "exponential")
HIGHEST = 30  # power n: N^n must stay a float64
COLDEST = 300.0  # beta of the exponential: a gap of 2 must not vanish beside 1


class DenseSweep(NamedTuple):
    """Outcome of `dense_sweep`.

    Attributes
    ----------
    state : (S, N) int8.
    sweeps : (S,) int64, sweeps made, the one that found nothing to change included.
    settled : (S,) bool, whether the last sweep, without noise, changed nothing.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1, -1]], np.int8)
    >>> found = dense_sweep(np.array([[1, -1, 1, -1]], np.int8), xi, parameter=3)
    >>> found.state.tolist(), found.sweeps.tolist(), found.settled.tolist()
    ([[1, 1, 1, -1]], [2], [True])
    """

    state: np.ndarray
    sweeps: np.ndarray
    settled: np.ndarray


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
) -> DenseSweep:
    """Visit all sites `sweeps` times, or without noise until nothing changes.

    Parameters
    ----------
    state : (S, N) int8 of +-1; it is not changed.
    patterns : (K, N) int8 of +-1.
    energy, parameter : "power" with a whole n in 2 .. 30, or "exponential" with beta in (0, 300].
    weights : (K,) above 0; 1 when left out.
    beta : inverse temperature, broadcasts to (S, sweeps); None for temperature 0.
    sweeps : most sweeps.
    seed, stream, first_sweep, first_chain : place of the draws.
    held : bool, broadcasts to (S, N): sites that keep their spin, and none without.

    Raises
    ------
    ArgumentError : wrong dtypes, shapes or ranges.
    BackendError : arrays on a device.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (200, 100))  # a load of 2
    >>> cue = np.where(rng.random((1, 100)) < 0.8, xi[0], -xi[0]).astype(np.int8)
    >>> bool((dense_sweep(cue, xi, parameter=3).state == xi[0]).all())
    True
    """
    if on_device(state) or on_device(patterns):
        raise BackendError("the serial order of the dense energies runs on the CPU only")
    state = check_spins("state", state, "(chains, sites)", 2)
    patterns = check_spins("patterns", patterns, "(patterns, sites)", 2)
    if patterns.shape[1] != state.shape[1] or not len(patterns):
        rule = f"of at least one row and {state.shape[1]} sites"
        raise ArgumentError("patterns", rule, f"shape {patterns.shape}")
    _check_energy(energy, parameter)
    mass = np.ones(len(patterns)) if weights is None else np.asarray(weights, np.float64)
    if mass.shape != (len(patterns),) or not (np.isfinite(mass) & (mass > 0)).all():
        raise ArgumentError("weights", f"{len(patterns)} numbers above 0", weights)
    if sweeps < 0:
        raise ArgumentError("sweeps", "at least 0", sweeps)
    kept = check_held(held, state.shape)
    betas = check_schedule("beta", 0 if beta is None else beta, (len(state), sweeps))
    counters = check_counters(
        seed, stream, ("first_sweep", first_sweep, sweeps), ("first_chain", first_chain, len(state))
    )
    out = DenseSweep(state.copy(), np.zeros(len(state), np.int64), np.zeros(len(state), np.bool_))
    if sweeps == 0:
        return out
    from hopfed.kernels.cpu.dense import run_chain

    columns = np.ascontiguousarray(patterns.T)
    lookup = thresholds().copy()  # writable, as the type that the loops are compiled for

    def task(chain: int) -> None:
        run_chain(
            chain, *out, columns, mass, energy == "exponential", float(parameter), betas,
            beta is None, lookup, kept, *counters, _scratch(*columns.shape),
        )  # fmt: skip

    for_each(task, range(len(state)))
    return out


def _check_energy(energy: str, parameter: float) -> None:
    """Raise for an energy that there is not."""
    if energy not in ENERGIES:
        raise ArgumentError("energy", f"one of {', '.join(ENERGIES)}", repr(energy))
    if energy == "power" and not (2 <= parameter <= HIGHEST and parameter == int(parameter)):
        raise ArgumentError("parameter", f"a whole number in 2 .. {HIGHEST}", parameter)
    if energy == "exponential" and not 0 < parameter <= COLDEST:
        raise ArgumentError("parameter", f"in (0, {COLDEST:g}]", parameter)


def _scratch(n: int, count: int) -> tuple[np.ndarray, ...]:
    """Work space of one chain: overlaps, table, thresholds, draws, the same by 16 bits."""
    padded = -(-n // 8) * 8
    bits = np.zeros(padded // 2, np.uint32)
    limits = np.zeros((1, padded), np.float32)
    return np.zeros(count), np.zeros(count), limits, bits, bits.view(np.uint16)
