"""Serial heat bath and descent on a device; `hopfed.kernels.heatbath` has the meaning.

Of few chains each is a block of threads; of thousands four are a warp, with the same result to the
bit, so that it does not depend on how chains are grouped into calls.

Draws and the order of visits are those of the CPU. Fields are summed in another order, so a
trajectory departs from the CPU's only where a draw falls between two roundings of a field: with
rounding errors of ``eps sqrt(R) |W_i| |a|`` (eps = 6e-8) that is a fraction of about ``eps sqrt(R)
beta |W_i| |a|`` of the visits at most. Where the fields are exact in float32 the two are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError
from hopfed.kernels.cuda.device import blocks, device_of
from hopfed.kernels.cuda.layout import check_factor, check_spins, host, lay_out, shared_bytes
from hopfed.kernels.heatbath import Descent, HeatBath
from hopfed.kernels.layout import TIE, check_counters, check_held, check_schedule, check_tie
from hopfed.kernels.philox import thresholds

THREADS = 128  # of a block, as in heatbath.cu
TOGETHER = 4  # chains of a warp where there are many, as in heatbath.cu
MANY = 4 * TOGETHER  # chains for each processor from which as many fill it with warps of their own
ROOM = 24 << 10  # bytes of shared memory with which nine such warps fit a processor


def heat_bath(
    state: Any,
    W: Any,
    *,
    beta: ArrayLike,
    sweeps: int,
    seed: int,
    stream: int = 0,
    first_sweep: int = 0,
    first_chain: int = 0,
    stop_score: float | None = None,
    score_weights: Any = None,
    held: Any = None,
) -> HeatBath:
    """Run serial heat-bath sweeps on the chains of device array `state`, (S, N) int8 of +-1.

    Parameters and result are those of `hopfed.kernels.heat_bath`; the arrays of the result are on
    the device. Schedules and weights may be on either side.
    """
    state = check_spins("state", state, "(chains, sites)", 2)
    W = check_factor(device_of("state", state), W, state.shape[1])
    if sweeps < 0:
        raise ArgumentError("sweeps", "at least 0", sweeps)
    betas = check_schedule("beta", host(beta), (len(state), sweeps))
    counters = check_counters(
        seed, stream, ("first_sweep", first_sweep, sweeps), ("first_chain", first_chain, len(state))
    )
    weights = np.ones(W.shape[1]) if score_weights is None else np.asarray(host(score_weights))
    if weights.shape != (W.shape[1],) or weights.dtype.kind not in "biuf":
        got = f"{weights.dtype} of shape {weights.shape}"
        raise ArgumentError("score_weights", f"{W.shape[1]} real numbers", got)
    stop = np.inf if stop_score is None else float(stop_score)
    kept = check_held(None if held is None else host(held), state.shape)
    return HeatBath(*_run(state, W, betas, counters, weights, stop, kept, 0.0)[:3])


def descend(
    state: Any, W: Any, max_sweeps: int = 100, held: Any = None, tie: float = TIE
) -> Descent:
    """Set ``s_i = sign(h_i)`` serially until nothing changes; see `hopfed.kernels.descend`."""
    state = check_spins("state", state, "(chains, sites)", 2)
    W = check_factor(device_of("state", state), W, state.shape[1])
    if max_sweeps < 0:
        raise ArgumentError("max_sweeps", "at least 0", max_sweeps)
    betas = np.ones((len(state), max_sweeps), np.float32)
    counters = check_counters(0, 0, ("first_sweep", 0, 0), ("first_chain", 0, 0))
    kept = check_held(None if held is None else host(held), state.shape)
    out = _run(state, W, betas, counters, np.ones(W.shape[1]), np.inf, kept, check_tie(tie))
    return Descent(out[0], out[1], out[3])


def _run(
    state: Any, W: Any, betas: np.ndarray, counters: tuple, weights: np.ndarray, stop: float,
    held: np.ndarray, cold: float,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Lay W out and run a block of threads for each chain, or for four of many."""
    device = device_of("state", state)
    xp = device.xp
    state = state.copy()
    n_chains, n = state.shape
    used, score = xp.zeros(n_chains, np.int64), xp.zeros(n_chains, np.float64)
    settled = xp.zeros(n_chains, np.uint32)
    if betas.size == 0:  # nothing to do but the score
        if W.size and n_chains:
            coefficients = xp.matmul(state.astype(np.float64), W.astype(np.float64))
            score = (coefficients**2 * xp.asarray(weights, np.float64)).sum(axis=1) / n
        return state, used, score, settled.astype(np.bool_)
    layout = lay_out(W)
    rank = layout.rows.shape[1]
    padded = np.zeros(rank, np.float32)
    padded[: len(weights)] = weights
    k0, k1, stream, first_sweep, first_chain = (np.uint32(int(x)) for x in counters)
    # A kernel takes no empty array: where nothing is held it gets one byte that it does not read.
    kept = xp.asarray(held.astype(np.int8) if held.size else np.zeros(1, np.int8))
    args = (
        state, np.int64(n), *layout, np.int32(rank), np.int32(W.shape[1]), xp.asarray(betas),
        np.int32(betas.shape[1]), xp.asarray(thresholds()), k0, k1, stream, first_sweep,
        first_chain, xp.asarray(padded), np.float32(stop), np.float32(cold),
        kept, np.float32(np.inf if held.size else 0), used, score, settled,
    )  # fmt: skip
    if n_chains >= MANY * device.processors and 4 * TOGETHER * rank <= ROOM:
        grid, room = blocks(n_chains, TOGETHER), shared_bytes(device, rank, TOGETHER)
        device.launch("heatbath", "heat_baths", grid, (*args, np.int64(n_chains)), 32, room)
    else:
        room = shared_bytes(device, rank)
        device.launch("heatbath", "heat_bath", (n_chains, 1), args, THREADS, room)
    return state, used, score, settled.astype(np.bool_)
