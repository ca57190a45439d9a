"""Serial heat bath and descent on a device; see `hopfed.kernels.heatbath`.

Draws and the order of visits are those of the CPU. Fields are summed in another order, so a
trajectory differs from the CPU's only where a draw falls between two roundings of a field: with
rounding errors of ``eps sqrt(R) |W_i| |a|`` (eps = 6e-8) that is a fraction of about ``eps sqrt(R)
beta |W_i| |a|`` of the visits at most. Where the fields are exact in float32 the two are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import BackendError
from hopfed.kernels.coupling import lay_out
from hopfed.kernels.cuda.device import device_of, grid_of_blocks
from hopfed.kernels.philox import threshold_table

TOGETHER = 4  # chains of a warp, as in heatbath.cu
MOST = 32  # chains of a block
TABLES = 16384  # bytes of other shared memory, with a margin
PARTS = 4  # parts of a sum, as in heatbath.cu


def run_chains(
    state: Any, W: Any, betas: np.ndarray, counters: tuple, weights: np.ndarray, stop: float,
    held: np.ndarray, cold: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Heat bath on a GPU: prepare W and run a block for up to 32 chains."""
    device = device_of("state", state)
    xp = device.xp
    state = state.copy()
    n_chains, n = state.shape
    used, settled = xp.zeros(n_chains, np.int64), xp.zeros(n_chains, np.uint32)
    if betas.size == 0:
        return state, used, settled.astype(np.bool_)
    layout = lay_out(W)
    rank = layout.rows.shape[1]
    columns = xp.pad(layout.columns, ((0, 0), (0, -W.shape[1] % PARTS), (0, 0)))
    padded = np.zeros(rank, np.float32)
    padded[: len(weights)] = weights
    k0, k1, first_sweep = (np.uint32(int(x)) for x in counters)
    # A kernel cannot take an empty array: if no site is held it gets one byte that it never reads.
    kept = xp.asarray(held.astype(np.int8) if held.size else np.zeros(1, np.int8))
    args = (
        state, np.int64(n), layout.rows, columns, *layout[2:], np.int32(rank),
        np.int32(columns.shape[1]), xp.asarray(betas),
        np.int32(betas.shape[1]), xp.asarray(threshold_table()),
        k0, k1, first_sweep, xp.asarray(padded), np.float32(stop), np.float32(cold), kept,
        np.int32(held.size > 0), np.float32(np.inf), used, settled, np.int64(n_chains),
    )  # fmt: skip
    bytes_of_chain = 4 * max(rank, 1)
    most = (device.shared_limit - TABLES) // bytes_of_chain
    if most < TOGETHER:
        fits = (device.shared_limit - TABLES) // (4 * TOGETHER)
        fault = f"a rank of {rank} does not fit the shared memory of {device.name}: at most {fits}"
        raise BackendError(fault)
    together = MOST
    while together > most or (together > TOGETHER and together * device.processors >= n_chains):
        together //= 2
    grid, threads = grid_of_blocks(n_chains, together), 32 * (1 + together // TOGETHER)
    device.launch("heatbath", "heat_bath", grid, args, threads, bytes_of_chain * together)
    return state, used, settled.astype(np.bool_)
