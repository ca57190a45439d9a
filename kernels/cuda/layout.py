"""Checks and layouts of the dynamics on a device; `hopfed.kernels.layout` is their model."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels.cuda.device import device_of, same_device
from hopfed.kernels.layout import LANES, SITES, Layout


def lay_out(W: Any) -> Layout:
    """Return the layout of a float32 factor, its arrays on the device of W."""
    xp = device_of("W", W).xp
    n, r = W.shape
    rows = xp.zeros((-(-n // SITES) * SITES, -(-r // LANES) * LANES), np.float32)
    rows[:n, :r] = W
    blocks = rows.reshape(len(rows) // SITES, SITES, rows.shape[1])[:, :, :r]
    columns = xp.ascontiguousarray(blocks.transpose(0, 2, 1))
    shape = (len(blocks), SITES, SITES)
    overlaps = xp.matmul(blocks, columns) if r else xp.zeros(shape, np.float32)
    overlaps = xp.ascontiguousarray(overlaps)
    diagonal = xp.ascontiguousarray(xp.diagonal(overlaps, axis1=1, axis2=2)).ravel()
    return Layout(rows, columns, overlaps, diagonal)


def check_spins(name: str, state: Any, shape: str, ndim: int) -> Any:
    """Return `state` as a C-contiguous int8 device array of +-1 with `ndim` axes."""
    xp = device_of(name, state).xp
    if state.dtype != np.int8 or state.ndim != ndim or state.shape[-1] == 0:
        got = f"{state.dtype} of shape {state.shape}"
        raise ArgumentError(name, f"int8 of shape {shape}", got)
    state = xp.ascontiguousarray(state)
    wrong = (state != 1) & (state != -1)
    if bool(wrong.any()):
        raise ArgumentError(name, "all +-1", state[wrong][0].item())
    return state


def check_factor(device: Any, W: Any, n: int) -> Any:
    """Return W on `device` as C-contiguous float32, checked to be real, finite, of shape (n, R)."""
    same_device(device, W=W)
    if W.ndim != 2 or W.shape[0] != n or W.dtype.kind not in "biuf":
        raise ArgumentError("W", f"a real array of shape ({n}, R)", f"{W.dtype} {W.shape}")
    W = device.xp.ascontiguousarray(W, np.float32)
    if not bool(device.xp.isfinite(W).all()):
        raise ArgumentError("W", "finite in float32", W[~device.xp.isfinite(W)][0].item())
    return W


def host(x: Any) -> Any:
    """Return a schedule or weights as a host array; numbers and lists pass through."""
    return x.get() if hasattr(x, "get") else x


def shared_bytes(device: Any, rank: int, vectors: int = 1) -> int:
    """Bytes of shared memory for `vectors` float32 vectors of length `rank`.

    Raises
    ------
    BackendError : more than a block may have on this device.
    """
    wanted = 4 * rank * vectors
    limit = device.shared_limit - 16384  # what the kernels have beside it, with a margin
    if wanted > limit:
        most = limit // (4 * vectors)
        raise BackendError(
            f"a rank of {rank} does not fit the shared memory of {device.name}: at most {most}"
        )
    return wanted
