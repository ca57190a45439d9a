"""Serial heat-bath (Glauber) dynamics of many independent chains on a low-rank coupling.

The energy is ``E(s) = -1/2 sum_{i != j} J_ij s_i s_j`` with ``J = W W^T``, W (N, R): the diagonal,
a self-field that would freeze the spins, is left out (theory/NOTES.md, "Heat bath and
self-field"). Sites are visited in order; with the coefficients ``a = W^T s`` kept up to date the
field ``h_i = W_i . a - |W_i|^2 s_i`` takes R multiplications instead of N.

Randomness. Site i of chain c in sweep t uses the 16-bit number in lane i % 8 of the Philox block
with counter (i // 8, t, c, 0) and the seed as key, so a result depends neither on threads
nor on the grouping of chains into calls. The spin is set up with probability
``(1 + tanh(beta h)) / 2`` to a resolution of 2^-16, by comparing ``beta h`` with
`philox.thresholds`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hopfed._lib.arrays import to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.coupling import TIE, Relaxed, check_factor, check_spins, held_sites, schedule
from hopfed.kernels.dispatch import find_kernel
from hopfed.kernels.philox import split_seed


def heat_bath(
    state: np.ndarray,
    W: np.ndarray,
    *,
    beta: ArrayLike,
    sweeps: int,
    seed: int,
    first_sweep: int = 0,
    stop_score: float | None = None,
    score_weights: np.ndarray | None = None,
    held: np.ndarray | None = None,
) -> Relaxed:
    """Run the serial heat bath at inverse temperature `beta` on chains of `state`, on CPU or GPU.

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (2, 300))
    >>> start = np.where(rng.random((4, 300)) < 0.8, xi[0], -xi[0]).astype(np.int8)
    >>> run = heat_bath(start, xi.T / np.sqrt(300), beta=4.0, sweeps=20, seed=1)
    >>> bool((np.abs(run.state @ xi[0].astype(int)) > 290).all())
    True
    """
    state = check_spins("state", state, 2)
    W = check_factor(W, state)
    betas = schedule(beta, (len(state), sweeps))
    place = (*split_seed(seed), int(first_sweep))
    weights = np.ones(W.shape[1]) if score_weights is None else to_host(score_weights)
    stop = np.inf if stop_score is None else float(stop_score)
    kept, run = held_sites(held, state.shape), find_kernel(state, "run_chains")
    return Relaxed(*run(state, W, betas, place, weights, stop, kept, 0.0))


def descend(
    state: np.ndarray,
    W: np.ndarray,
    max_sweeps: int = 100,
    held: np.ndarray | None = None,
    tie: float = TIE,
) -> Relaxed:
    """Heat bath without noise: serial ``s_i = sign(h_i)`` while energy falls, on CPU or GPU.

    >>> W = np.array([[1.0], [1.0], [-1.0]])
    >>> descend(np.array([[1, 1, 1]], np.int8), W).state.tolist()
    [[1, 1, -1]]
    """
    state = check_spins("state", state, 2)
    W = check_factor(W, state)
    if not TIE <= tie < np.inf:
        raise ArgumentError("tie", f"a finite number, at least {TIE:g}", tie)
    betas, place = schedule(1.0, (len(state), max_sweeps)), (*split_seed(0), 0)
    kept, run = held_sites(held, state.shape), find_kernel(state, "run_chains")
    return Relaxed(*run(state, W, betas, place, np.ones(W.shape[1]), np.inf, kept, float(tie)))
