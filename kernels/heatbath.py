"""Serial heat-bath (Glauber) dynamics of many independent chains on a low-rank coupling.

The energy is ``E(s) = -1/2 sum_{i != j} J_ij s_i s_j`` with ``J = W W^T``, W (N, R): the diagonal,
a self-field that would freeze the spins, is left out (theory/NOTES.md, "Heat bath and
self-field"). Sites are visited in order; with the coefficients ``a = W^T s`` kept up to date the
field ``h_i = W_i . a - |W_i|^2 s_i`` costs R multiplications instead of N.

Randomness. Site i of chain c in sweep t takes the 16-bit number in lane i % 8 of the Philox block
with counter (i // 8, t, c, stream) and the seed as key, so a result depends neither on threads
nor on how chains are grouped into calls. The spin is set up with probability
``(1 + tanh(beta h)) / 2`` to a resolution of 2^-16, by comparing ``beta h`` with
`philox.thresholds`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import at
from hopfed.kernels.layout import (
    TIE,
    check_counters,
    check_factor,
    check_held,
    check_schedule,
    check_spins,
    check_tie,
    host,
)


class HeatBath(NamedTuple):
    """Outcome of `heat_bath`.

    Attributes
    ----------
    state : (S, N) int8.
    sweeps : (S,) int64, sweeps made by each chain.
    score : (S,) float64, ``sum_k score_weights_k a_k^2 / N`` of the final state.

    Examples
    --------
    >>> state = np.array([[1, 1, 1], [-1, 1, -1]], np.int8)
    >>> found = heat_bath(state, np.ones((3, 1)), beta=50.0, sweeps=3, seed=0)
    >>> found.state.tolist(), found.sweeps.tolist(), found.score.tolist()
    ([[1, 1, 1], [1, 1, 1]], [3, 3], [3.0, 3.0])
    """

    state: np.ndarray
    sweeps: np.ndarray
    score: np.ndarray


class Descent(NamedTuple):
    """Outcome of `descend`.

    Attributes
    ----------
    state : (S, N) int8.
    sweeps : (S,) int64, sweeps made, the one that found nothing to change included.
    settled : (S,) bool, whether the state is a fixed point (else `max_sweeps` ran out).

    Examples
    --------
    >>> found = descend(np.array([[1, -1, 1]], np.int8), np.ones((3, 1)))
    >>> found.state.tolist(), found.sweeps.tolist(), found.settled.tolist()
    ([[1, 1, 1]], [2], [True])
    """

    state: np.ndarray
    sweeps: np.ndarray
    settled: np.ndarray


def heat_bath(
    state: np.ndarray,
    W: np.ndarray,
    *,
    beta: ArrayLike,
    sweeps: int,
    seed: int,
    stream: int = 0,
    first_sweep: int = 0,
    first_chain: int = 0,
    stop_score: float | None = None,
    score_weights: np.ndarray | None = None,
    held: np.ndarray | None = None,
) -> HeatBath:
    """Run serial heat-bath sweeps at inverse temperature `beta` on the chains of `state`.

    Parameters
    ----------
    state : (S, N) int8 of +-1, on the host or a device; it is not changed.
    W : (N, R) real, at the same place, converted to float32; the couplings are ``W W^T`` without
        its diagonal.
    beta : anything that broadcasts to (S, sweeps): a number, (sweeps,) for annealing, (S, 1) for
        one temperature per chain.
    sweeps : number of sweeps at most.
    seed, stream, first_sweep, first_chain : place of the draws; chain c of this call is chain
        ``first_chain + c``. Continuing with ``first_sweep`` advanced repeats one longer run up to
        the rounding of the coefficients.
    stop_score : a chain stops once its score, looked at every 4 sweeps, exceeds this.
    score_weights : (R,) weights of the score, 1 by default.
    held : bool, broadcasts to (S, N): sites that keep their spin, and none without.

    Raises
    ------
    ArgumentError : wrong dtypes or shapes, values not finite, or counters out of range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (2, 300))
    >>> start = np.where(rng.random((4, 300)) < 0.8, xi[0], -xi[0]).astype(np.int8)
    >>> run = heat_bath(start, xi.T / np.sqrt(300), beta=4.0, sweeps=20, seed=1)
    >>> bool((np.abs(run.state @ xi[0].astype(int)) > 290).all())
    True
    """
    state = check_spins("state", state, "(chains, sites)", 2)
    W = check_factor(W, state)
    if sweeps < 0:
        raise ArgumentError("sweeps", "at least 0", sweeps)
    betas = check_schedule("beta", beta, (len(state), sweeps))
    counters = check_counters(
        seed, stream, ("first_sweep", first_sweep, sweeps), ("first_chain", first_chain, len(state))
    )
    weights = np.ones(W.shape[1]) if score_weights is None else np.asarray(host(score_weights))
    if weights.shape != (W.shape[1],) or weights.dtype.kind not in "biuf":
        got = f"{weights.dtype} of shape {weights.shape}"
        raise ArgumentError("score_weights", f"{W.shape[1]} real numbers", got)
    stop = np.inf if stop_score is None else float(stop_score)
    kept, run = check_held(held, state.shape), at(state, "run_chains")
    return HeatBath(*run(state, W, betas, counters, weights, stop, kept, 0.0)[:3])


def descend(
    state: np.ndarray,
    W: np.ndarray,
    max_sweeps: int = 100,
    held: np.ndarray | None = None,
    tie: float = TIE,
) -> Descent:
    """Set ``s_i = sign(h_i)`` serially until nothing changes; the energy never increases.

    Parameters
    ----------
    state, W, held : as in `heat_bath`.
    max_sweeps : most sweeps over all sites.
    tie : above 0; a field of at most this size leaves the spin as it is.

    Examples
    --------
    >>> W = np.array([[1.0], [1.0], [-1.0]])
    >>> descend(np.array([[1, 1, 1]], np.int8), W).state.tolist()
    [[1, 1, -1]]
    """
    state = check_spins("state", state, "(chains, sites)", 2)
    W = check_factor(W, state)
    if max_sweeps < 0:
        raise ArgumentError("max_sweeps", "at least 0", max_sweeps)
    betas = np.ones((len(state), max_sweeps), np.float32)
    counters = check_counters(0, 0, ("first_sweep", 0, 0), ("first_chain", 0, 0))
    kept, run = check_held(held, state.shape), at(state, "run_chains")
    out = run(state, W, betas, counters, np.ones(W.shape[1]), np.inf, kept, check_tie(tie))
    return Descent(out[0], out[1], out[3])
