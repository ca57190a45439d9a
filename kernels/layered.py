"""Updates of the L-layer associative memory on a low-rank coupling ``J = W W^T`` (6)-(12).

With the coefficients ``A_a = W^T sigma_a`` of layer a, the field of a layer is ``W c_a + H cue``,

    linear (6):       c_a = A_a - lambda sum_{b != a} A_b
    quadratic (8-11): c_a = A_a - (lambda / N) sum_{b != a} (A_b . A_a) A_b

and a spin becomes ``sign(tanh(beta h) + noise u)``, u uniform on [-1, 1] (12). Without noise a
field of zero leaves the spin unchanged, where the paper sets +1: opposite states stay opposite. The
field of a spin on itself, ``|W_i|^2 sigma_i``, is removed unless `self_field` is set.

Energies (theory/NOTES.md, "Energies of the layered memory"): ``-sum_a |A_a|^2 + lambda sum_{a != b}
A_a . A_b - H sum_a cue . sigma_a`` (6), or with ``(lambda / N) sum_{a != b} (A_a . A_b)^2`` in the
middle (arXiv:2603.19902, eq. (8)). As in the paper, the field omits factors of the gradient: serial
updates at zero noise never increase the energy with 2 H instead of H and, if quadratic, lambda / 2
instead of lambda.

Randomness is as in `heatbath`: layer a of block s is chain ``s L + a``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError
from hopfed.kernels.coupling import TIE, Layout, check_factor, check_spins, lay_out, schedule
from hopfed.kernels.dispatch import array_library, check_beside, find_kernel
from hopfed.kernels.philox import split_seed, threshold_table

COUPLINGS = ("linear", "quadratic")


class LayeredUpdate(NamedTuple):
    """Result of `layered_step`, for the state after the last update.

    Attributes
    ----------
    state : (S, L, N) int8.
    energy : (S,) float64, the Hamiltonian of each block.
    changed : (S,) int64, number of spins that the last update changed.
    updates : (S,) int64, number of updates, fewer than requested if the block came to rest.

    >>> state = np.array([[[1, -1, 1]]], np.int8)
    >>> found = layered_step(state, np.ones((3, 1)), beta=1.0, noise=0.0, updates=5, serial=True)
    >>> found.changed.tolist(), found.energy.tolist(), found.updates.tolist()
    ([0], [-9.0], [2])
    """

    state: np.ndarray
    energy: np.ndarray
    changed: np.ndarray
    updates: np.ndarray


def layered_step(
    state: np.ndarray,
    W: np.ndarray,
    *,
    beta: ArrayLike,
    noise: ArrayLike = 1.0,
    updates: int = 1,
    coupling: str = "quadratic",
    repulsion: float = 0.2,
    field: float = 0.0,
    cue: np.ndarray | None = None,
    self_field: bool = False,
    seed: int = 0,
    first_update: int = 0,
    tie: float = TIE,
    serial: bool = False,
) -> LayeredUpdate:
    """Update layers of a layered memory `updates` times, in S independent blocks, on CPU or GPU.

    Spins are updated all at once, or, if `serial`, one at a time: site by site, and layer by layer
    at each site. Without the self-field the field of a spin is then exactly the change of the
    energy (see the module), including the repulsion's own part: at noise 1 this is the heat bath of
    that energy, at noise 0 a descent.

    Parameters
    ----------
    state : (S, L, N) int8 of +-1, on the host or a device; it is not changed.
    W : (N, R) real, on the same host or device, converted to float32.
    beta, noise : a number each, or (updates,) for annealing.
    coupling, repulsion : "linear" or "quadratic", and lambda, at least 0.
    field, cue : H and the external pattern, int8 of +-1 that broadcasts to (S, L, N).
    self_field : keep the field of a spin on itself.
    seed, first_update : counter of the draws.
    tie : above 0; without noise a field of at most this size leaves the spin unchanged.
    serial : whether spins are updated one at a time.

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (2, 400))
    >>> start = np.where(rng.random((3, 1, 400)) < 0.9, xi[0], -xi[0]).astype(np.int8)
    >>> after = layered_step(start, xi.T / 20, beta=5.0, noise=0.1, updates=3)
    >>> bool((after.state == xi[0]).all()), after.changed.tolist()
    (True, [0, 0, 0])
    """
    state = check_spins("state", state, 3)
    layout = lay_out(check_factor(W, state))
    betas, lookup, level, still = _temperatures(beta, noise, updates, tie)
    call = Call(
        layout,
        layout.diagonal * np.float32(0) if self_field else layout.diagonal,
        betas,
        lookup,
        level,
        still,
        (*split_seed(seed), int(first_update)),
        _cue(cue, field, state),
        coupling == "quadratic",
        float(repulsion),
        float(field),
    )
    return find_kernel(state, "run_layers")(state, call, serial)


class Call(NamedTuple):
    """Prepared arguments of a call; `layout`, `diagonal` and `cue` are on the state's device."""

    layout: Layout
    diagonal: Any
    betas: np.ndarray
    lookup: np.ndarray
    level: np.ndarray
    still: np.ndarray
    counters: tuple
    cue: Any
    quadratic: bool
    repulsion: float
    field: float


def _temperatures(
    beta: ArrayLike, noise: ArrayLike, updates: int, tie: float
) -> tuple[np.ndarray, ...]:
    """Return betas, thresholds by noise level, level of each update, whether no noise follows."""
    betas = schedule(beta, (updates,))
    noises = schedule(noise, (updates,))
    levels, level = np.unique(noises, return_inverse=True)
    lookup = np.stack([threshold_table(float(x)) for x in levels])
    lookup[levels == 0] = max(tie, TIE)
    silent = (noises == 0) & (betas > 0)
    betas = np.where(silent, np.float32(1), betas)
    still = np.logical_and.accumulate(silent[::-1])[::-1].copy()
    return betas, lookup, level, still


def _cue(cue: Any, field: float, state: Any) -> Any:
    """Return the cue with three axes, the first two possibly of length 1; zeros without field."""
    if field == 0:
        return array_library(state).zeros((1, 1, 1), np.int8)
    if cue is None:
        raise ArgumentError("cue", "given when field is not 0", cue)
    cue = check_beside("cue", cue, state)
    cue = check_spins("cue", cue, cue.ndim)
    wide = cue.reshape((1,) * (3 - cue.ndim) + cue.shape)
    fits = all(a in (1, b) for a, b in zip(wide.shape, state.shape, strict=False))
    if wide.ndim != 3 or wide.shape[2] != state.shape[2] or not fits:
        rule = f"int8 of +-1 that broadcasts to {state.shape}"
        raise ArgumentError("cue", rule, f"shape {cue.shape}")
    return wide.copy()
