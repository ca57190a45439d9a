"""State of the layered memory on a device during a call of `layered_step` or `layered_sweep`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError
from hopfed.kernels.cuda.device import device_of, same_device, shrinking
from hopfed.kernels.cuda.layout import check_factor, check_spins, host, lay_out, shared_bytes
from hopfed.kernels.layered import LayeredUpdate, check_options, schedule
from hopfed.kernels.layout import SITES, TIE, check_counters

THREADS = 128
PIECE_BYTES = 16 << 20  # of fields held at a time, well within the second-level cache


class LayeredRun:
    """Arguments of one call, checked and laid out, with its work space; used by `layered` alone."""

    def __init__(
        self,
        state: Any,
        W: Any,
        beta: ArrayLike,
        noise: ArrayLike = 1.0,
        updates: int = 1,
        coupling: str = "quadratic",
        repulsion: float = 0.2,
        field: float = 0.0,
        cue: Any = None,
        self_field: bool = False,
        seed: int = 0,
        stream: int = 0,
        first_update: int = 0,
        first_block: int = 0,
        tie: float = TIE,
    ):
        state = check_spins("state", state, "(blocks, layers, sites)", 3)
        self.device, self.updates = device_of("state", state), updates
        self.shape = n_blocks, n_layers, n = state.shape
        if n_layers == 0:
            raise ArgumentError("state", "of at least one layer", state.shape)
        W = check_factor(self.device, W, n)
        check_options(updates, coupling, repulsion, field)
        self.quadratic = np.int32(coupling == "quadratic")
        self.repulsion, self.field = float(repulsion), float(field)
        xp = self.device.xp
        betas, lookup, level, self.quiet = schedule(host(beta), host(noise), updates, tie)
        self.betas, self.lookup = xp.asarray(betas), xp.asarray(lookup)
        self.still = xp.asarray(self.quiet.astype(np.uint8))
        self.level = xp.asarray(level.reshape(-1).astype(np.int64))
        steps = ("first_update", first_update, updates)
        chains = ("first_chain", first_block * n_layers, n_blocks * n_layers)
        self.counters = tuple(
            np.uint32(int(x)) for x in check_counters(seed, stream, steps, chains)
        )
        self.cue = self._cue(cue)
        self.r, self.layout = W.shape[1], lay_out(W)
        d = self.layout.diagonal
        self.diagonal = xp.zeros_like(d) if self_field else d
        self.spins = xp.ones((n_blocks * n_layers, len(self.layout.rows)), np.int8)
        self.spins[:, :n] = state.reshape(n_blocks * n_layers, n)
        self._scratch()

    def _cue(self, cue: Any) -> Any:
        """Return the cue with three axes, the first two possibly of length 1; empty without."""
        if self.field == 0:
            return self.device.xp.zeros((1, 1, 1), np.int8)
        if cue is None:
            raise ArgumentError("cue", "given when field is not 0", cue)
        same_device(self.device, cue=cue)
        cue = check_spins("cue", cue, "(..., sites)", cue.ndim)
        wide = cue.reshape((1,) * (3 - cue.ndim) + cue.shape)
        ok = all(a in (1, b) for a, b in zip(wide.shape, self.shape, strict=False))
        if wide.ndim != 3 or wide.shape[2] != self.shape[2] or not ok:
            rule = f"int8 of +-1 that broadcasts to {self.shape}"
            raise ArgumentError("cue", rule, f"shape {cue.shape}")
        return wide.copy()

    def _scratch(self) -> None:
        """Allocate coefficients, fields of a piece of the sites, counts and results."""
        xp, (n_blocks, n_layers, _) = self.device.xp, self.shape
        rows, rank = len(self.spins), self.layout.rows.shape[1]
        self.a, self.c = xp.zeros((rows, rank), np.float32), xp.zeros((rows, rank), np.float32)
        self.q = xp.zeros((n_blocks, n_layers, n_layers), np.float64)
        self.step, self.n_active = xp.zeros(1, np.int32), xp.ones(1, np.uint32)
        self.active = xp.zeros(n_blocks, np.uint32)
        self.moved, self.along = xp.zeros(n_blocks, np.uint64), xp.zeros(n_blocks, np.int64)
        self.energy, self.score = xp.zeros(n_blocks), xp.zeros((n_blocks, n_layers))
        self.changed, self.used = xp.zeros(n_blocks, np.int64), xp.zeros(n_blocks, np.int64)
        most = self.spins.shape[1]
        width = max(SITES, PIECE_BYTES // (4 * max(rows, 1)) // SITES * SITES)
        self.h = shrinking(
            self.device, "fields of the layered memory", min(width, most), SITES,
            lambda sites: xp.zeros(rows * (-(-sites // SITES) * SITES), np.float32),
        )  # fmt: skip
        self.width = len(self.h) // max(rows, 1) if rows else most

    def _mix(self) -> None:
        """Coefficients of the fields, energy and score of the state."""
        n_blocks, n_layers, n = self.shape
        args = (
            self.a, np.int32(n_layers), np.int32(self.a.shape[1]), np.int64(n), self.quadratic,
            np.float64(self.repulsion), np.float64(self.field), self.q, self.c, self.along,
            self.energy, self.score,
        )  # fmt: skip
        self.device.launch("layered", "layered_mix", (n_blocks, 1), args, THREADS)

    def _update(self) -> None:
        """One update of the active blocks, and the coefficients of all."""
        self._mix()
        n_rows, n_sites = self.spins.shape
        for first in range(0, n_sites, self.width):
            width = min(self.width, n_sites - first)
            h = self.h[: n_rows * width].reshape(n_rows, width)
            rows = self.layout.rows[first : first + width]
            if self.r:
                self.device.gemm(self.c, rows, h, ta=False, tb=True, add=False)
            else:
                h.fill(0)
            self._decide(h, first)
            if self.r:
                self.device.gemm(h, rows, self.a, ta=False, tb=False, add=first > 0)

    def _decide(self, h: Any, first: int) -> None:
        n_layers, n = self.shape[1:]
        width = h.shape[1]
        pieces = -(-width // (8 * THREADS))
        args = (
            h, np.int64(first), np.int64(width), np.int64(pieces), self.spins,
            np.int64(self.spins.shape[1]), np.int64(n), np.int32(n_layers), self.diagonal, self.cue,
            np.int64(self.cue.shape[0]), np.int64(self.cue.shape[1]), np.float32(self.field),
            self.betas, self.lookup, self.level, self.step, *self.counters, self.active,
            self.moved, self.along,
        )  # fmt: skip
        self.device.launch(
            "layered", "layered_update", (len(self.spins) * pieces, 1), args, THREADS
        )

    def _advance(self) -> None:
        args = (
            np.int64(self.shape[0]), self.step, self.active, self.still, self.used, self.moved,
            self.changed, self.n_active,
        )  # fmt: skip
        self.device.launch("layered", "layered_advance", (1, 1), args)

    def start(self) -> None:
        """Make the first coefficients, and capture one update as a graph."""
        if not self.shape[0]:
            self.replay = lambda: None
            return
        self._first()
        self.replay = self.device.capture(self._one)

    def _one(self) -> None:
        self._update()
        self._advance()

    def _first(self) -> None:
        """Update with no block active: it changes nothing but makes the coefficients."""
        self._one()
        self.step.fill(0)
        self.active.fill(1)

    def may_stop(self, update: int) -> bool:
        """Tell whether blocks may have come to rest by this update, without asking the device."""
        return bool(self.quiet[min(update, self.updates - 1)])

    def finished(self) -> bool:
        """Tell whether no block is active; waits for the device."""
        return not self.shape[0] or int(self.n_active[0]) == 0

    def sweep(self) -> None:
        """Make all serial updates in one launch, then the coefficients of the outcome."""
        n_blocks, n_layers, n = self.shape
        if not n_blocks:
            return
        rank = self.layout.rows.shape[1]
        small = n_layers * n_layers * 2 + n_layers * (3 * SITES + 1)  # q, and what lanes hold
        shared = shared_bytes(self.device, n_layers * rank + small)
        args = (
            self.spins, np.int64(self.spins.shape[1]), np.int64(n), np.int32(n_layers),
            *self.layout[:3], self.diagonal, np.int32(rank), np.int32(self.r), self.cue,
            np.int64(self.cue.shape[0]), np.int64(self.cue.shape[1]), np.float32(self.field),
            self.betas, self.lookup, self.level, self.still, np.int32(self.updates),
            self.quadratic, np.float64(self.repulsion), *self.counters, self.used, self.changed,
        )  # fmt: skip
        self.device.launch("sweep", "layered_sweep", (n_blocks, 1), args, THREADS, shared)
        self._update()  # no block is active: coefficients only

    def result(self) -> LayeredUpdate:
        """Energy and score of the last state, and everything else."""
        if self.shape[0]:
            self._mix()
        state = self.spins[:, : self.shape[2]].reshape(self.shape).copy()
        return LayeredUpdate(state, self.energy, self.changed, self.score, self.used)
