"""Checks and memory layouts shared by the dynamics on a low-rank coupling ``J = W W^T``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed._lib.arrays import to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import array_library, check_beside, on_device

LANES = 16  # rows of the factor are padded to a multiple of this
SITES = 32  # sites whose fields are computed together
TIE = 1e-30  # a field up to this size counts as 0 and leaves the spin unchanged


class Relaxed(NamedTuple):
    """Result of `heat_bath`, `descend` and `dense_sweep`.

    Attributes
    ----------
    state : (S, N) int8.
    sweeps : (S,) int64, number of sweeps or updates, including the last without a change.
    settled : (S,) bool, whether the last sweep was without noise and changed nothing.

    >>> from hopfed.kernels import descend
    >>> found = descend(np.array([[1, -1, 1]], np.int8), np.ones((3, 1)))
    >>> found.state.tolist(), found.sweeps.tolist(), found.settled.tolist()
    ([[1, 1, 1]], [2], [True])
    """

    state: np.ndarray
    sweeps: np.ndarray
    settled: np.ndarray


class Layout(NamedTuple):
    """W (N, R) laid out for blocks of SITES sites, padded with zeros to N' and R'."""

    rows: np.ndarray  # (N', R') float32, N' a multiple of SITES and R' of LANES
    columns: np.ndarray  # (N' / SITES, R, SITES), each block of rows transposed
    overlaps: np.ndarray  # (N' / SITES, SITES, SITES), the couplings inside each block
    diagonal: np.ndarray  # (N',), ``J_ii = |W_i|^2``


def lay_out(W: Any) -> Layout:
    """Return the memory layout of the float32 factor W of dynamics, on its host or device."""
    xp = array_library(W)
    n, r = W.shape
    rows = xp.zeros((-(-n // SITES) * SITES, -(-r // LANES) * LANES), np.float32)
    rows[:n, :r] = W
    blocks = rows.reshape(len(rows) // SITES, SITES, rows.shape[1])[:, :, :r]
    columns = xp.ascontiguousarray(blocks.transpose(0, 2, 1))
    shape = (len(blocks), SITES, SITES)
    overlaps = xp.ascontiguousarray(xp.matmul(blocks, columns) if r else xp.zeros(shape, "f4"))
    diagonal = xp.ascontiguousarray(xp.diagonal(overlaps, axis1=1, axis2=2)).ravel()
    return Layout(rows, columns, overlaps, diagonal)


def check_spins(name: str, state: Any, ndim: int) -> Any:
    """Return spins of dynamics as C-contiguous int8 of +-1 with `ndim` axes, the sites last."""
    xp, state = array_library(state), state if on_device(state) else np.asarray(state)
    if state.dtype != np.int8 or state.ndim != ndim or state.shape[-1] == 0:
        got = f"{state.dtype} of shape {state.shape}"
        raise ArgumentError(name, f"int8 of {ndim} axes, the sites last", got)
    state = xp.ascontiguousarray(state)
    wrong = (state != 1) & (state != -1)
    if bool(wrong.any()):
        raise ArgumentError(name, "all +-1", state[wrong][0].item())
    return state


def check_factor(W: Any, state: Any) -> Any:
    """Return the factor W of dynamics as float32, checked: finite, (n, R), where `state` lies."""
    W, n = check_beside("W", W, state), state.shape[-1]
    if W.ndim != 2 or W.shape[0] != n or W.dtype.kind not in "biuf":
        raise ArgumentError("W", f"a real array of shape ({n}, R)", f"{W.dtype} {W.shape}")
    xp = array_library(W)
    with np.errstate(over="ignore"):
        W = xp.ascontiguousarray(W, np.float32)
    if not bool(xp.isfinite(W).all()):
        raise ArgumentError("W", "finite in float32", "infinite or NaN entries")
    return W


def held_sites(held: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return `held` sites of dynamics broadcast to `shape` as bool, or (0, 0) if none is held."""
    if held is None:
        return np.zeros((0, 0), np.bool_)
    return np.ascontiguousarray(np.broadcast_to(np.asarray(to_host(held), np.bool_), shape))


def schedule(value: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return `value` for all sweeps of dynamics, such as beta, broadcast to `shape` as float32."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(to_host(value), np.float32), shape))
