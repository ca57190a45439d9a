"""Updates of the layered memory on a device; see `hopfed.kernels.layered`.

An update is four launches for each piece of the sites: mixed coefficients (with the energy
of the state), fields by cuBLAS, decisions, new coefficients by cuBLAS. Pieces are small enough for
the fields to stay in the second-level cache. Draws are those of the CPU; trajectories differ as
described in `heatbath`.

Coefficients are recomputed at every update, so rounding errors do not accumulate. Each block stops
when it can no longer change; the CPU stops groups of blocks, so `updates` may be smaller here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.kernels.coupling import SITES, Layout
from hopfed.kernels.cuda.device import device_of, grid_of_blocks
from hopfed.kernels.layered import Call, LayeredUpdate

LOOK_EVERY = 16  # updates between two checks whether any block is still active
THREADS = 128
PIECE_BYTES = 16 << 20  # bytes of fields held at a time, well within the second-level cache


def run_layers(state: Any, call: Call, serial: bool) -> LayeredUpdate:
    """Layered memory on a GPU: synchronous updates; serial ones run on the faster host."""
    if serial:
        from hopfed.kernels.cpu.layered import run_layers as on_host

        xp = device_of("state", state).xp
        parts = (Layout(*map(to_host, call.layout)), to_host(call.diagonal))
        here = call._replace(layout=parts[0], diagonal=parts[1], cue=to_host(call.cue))
        return LayeredUpdate(*map(xp.asarray, on_host(state.get(), here, serial)))
    run = _Run(state, call)
    if not run.shape[0]:
        return run.result()
    run.update(0)  # no block is active yet, so this only computes the coefficients
    run.active.fill(1)
    for update in range(len(call.betas)):
        run.update(update)
        looked = (update + 1) % LOOK_EVERY == 0 and call.still[update]
        if looked and not bool(run.active.any()):
            break
    return run.result()


class _Run:
    """State of the memory during a call, with its work space."""

    def __init__(self, state: Any, call: Call):
        self.device, self.call = device_of("state", state), call
        self.shape = n_blocks, n_layers, n = state.shape
        xp = self.device.xp
        self.betas, self.lookup = xp.asarray(call.betas), xp.asarray(call.lookup)
        self.level = xp.asarray(call.level.reshape(-1).astype(np.int64))
        self.counters = tuple(np.uint32(int(x)) for x in call.counters)
        self.r = call.layout.columns.shape[1]
        self.spins = xp.ones((n_blocks * n_layers, len(call.layout.rows)), np.int8)
        self.spins[:, :n] = state.reshape(n_blocks * n_layers, n)
        # Coefficients, fields of a piece of the sites, counts and results.
        rows, rank = len(self.spins), self.call.layout.rows.shape[1]
        self.a, self.c = xp.zeros((rows, rank), np.float32), xp.zeros((rows, rank), np.float32)
        self.q = xp.zeros((n_blocks, n_layers, n_layers), np.float64)
        self.active = xp.zeros(n_blocks, np.uint32)
        self.moved, self.along = xp.zeros(n_blocks, np.uint64), xp.zeros(n_blocks, np.int64)
        self.energy = xp.zeros(n_blocks)
        self.changed, self.used = xp.zeros(n_blocks, np.int64), xp.zeros(n_blocks, np.int64)
        width = max(SITES, PIECE_BYTES // (4 * max(rows, 1)) // SITES * SITES)
        self.width = min(width, self.spins.shape[1])
        self.h = xp.zeros(rows * self.width, np.float32)

    def _mix(self) -> None:
        """Compute the coefficients of the fields, and the energy of the state."""
        (n_blocks, n_layers, n), call = self.shape, self.call
        args = (
            self.a, np.int32(n_layers), np.int32(self.a.shape[1]), np.int64(n),
            np.int32(call.quadratic), np.float64(call.repulsion), np.float64(call.field), self.q,
            self.c, self.along, self.energy,
        )  # fmt: skip
        self.device.launch("layered", "layered_mix", (n_blocks, 1), args, THREADS)

    def update(self, t: int) -> None:
        """Update number `t` of the active blocks, and the coefficients of all."""
        self._mix()
        n_rows, n_sites = self.spins.shape
        call, (n_blocks, n_layers, n) = self.call, self.shape
        for first in range(0, n_sites, self.width):
            width = min(self.width, n_sites - first)
            h = self.h[: n_rows * width].reshape(n_rows, width)
            rows = call.layout.rows[first : first + width]
            if self.r:
                self.device.gemm(self.c, rows, h, ta=False, tb=True, add=False)
            else:
                h.fill(0)
            pieces = -(-width // (8 * THREADS))
            args = (
                h, np.int64(first), np.int64(width), np.int64(pieces), self.spins,
                np.int64(n_sites), np.int64(n), np.int32(n_layers), call.diagonal, call.cue,
                np.int64(call.cue.shape[0]), np.int64(call.cue.shape[1]), np.float32(call.field),
                self.betas, self.lookup, self.level, np.int32(t), *self.counters, self.active,
                self.moved, self.along,
            )  # fmt: skip
            self.device.launch("layered", "layered_update", (n_rows * pieces, 1), args, THREADS)
            if self.r:
                self.device.gemm(h, rows, self.a, ta=False, tb=False, add=first > 0)
        still = np.int32(len(call.still) > t and call.still[t])
        args = np.int64(n_blocks), still, self.active, self.used, self.moved, self.changed
        self.device.launch("layered", "layered_advance", grid_of_blocks(n_blocks), args)

    def result(self) -> LayeredUpdate:
        """Return the result of the call, with the energy of the last state."""
        if self.shape[0]:
            self._mix()
        state = self.spins[:, : self.shape[2]].reshape(self.shape).copy()
        return LayeredUpdate(state, self.energy, self.changed, self.used)
