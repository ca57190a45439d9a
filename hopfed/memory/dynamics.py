"""Dynamics of recall: relax states to fixed points, for each kind of energy and both orders.

Every function takes states (S, N) int8 and returns (states, updates, settled): the number of
updates of each state, and whether a step without noise would leave it unchanged. The temperatures
of a schedule have one value for each update and never rise; at 0 there is no noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import check_seed
from hopfed._lib.settings import require
from hopfed.kernels.coupling import TIE
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.philox import draw_thresholds
from hopfed.memory.cues import as_array
from hopfed.memory.energies import NEAR, fields, overlap_sums, sure_fields
from hopfed.memory.rules import Exponential, Layered, Overlapping

Outcome = tuple[Array, np.ndarray, np.ndarray]

COLDEST = 1e-30  # a lower temperature counts as 0: its inverse may overflow in single precision
PIECE = 1 << 22  # number of fields computed at a time


@dataclass(frozen=True)
class Schedule:
    """Temperatures of the updates, and the seed of their noise."""

    temperatures: np.ndarray
    seed: int

    @classmethod
    def of(cls, temperature: Any, updates: int, seed: int) -> Schedule:
        """Return the schedule of one temperature, or of a temperature for each update."""
        whole = isinstance(updates, Integral) and not isinstance(updates, bool)
        require(whole and updates >= 1, "updates", "a whole number, at least 1", updates)
        rule = f"a number, at least 0, or {updates} such numbers that never rise"
        given = as_array(temperature, "temperature", rule)
        holds = given.shape in ((), (updates,)) and given.dtype.kind in "biuf"
        require(
            holds and bool((np.isfinite(given) & (given >= 0)).all()),
            "temperature",
            rule,
            temperature,
        )
        T = np.broadcast_to(np.where(given < COLDEST, 0.0, given), (updates,))
        require(not (np.diff(T) > 0).any(), "temperature", rule, temperature)
        return cls(T, check_seed(seed))

    @property
    def hot(self) -> int:
        """Number of updates with noise; updates without noise come last."""
        return int((self.temperatures > 0).sum())

    @property
    def cold(self) -> int:
        """Number of updates without noise."""
        return len(self.temperatures) - self.hot

    @property
    def betas(self) -> np.ndarray:
        """Inverse temperatures of the updates with noise."""
        return 1 / self.temperatures[: self.hot]


def relax_serially(states: Array, hot: Any, cold: Any, times: Schedule) -> Outcome:
    """Serial dynamics of recall: sweep with noise, then without; check for a fixed point."""
    used = np.zeros(len(states), np.int64)
    if times.hot:
        states = hot(states)
        used += times.hot
        if not times.cold:
            return states, used, to_host(cold(states, 1).settled)
    found = cold(states, times.cold)
    return found.state, used + to_host(found.sweeps), to_host(found.settled)


def relax_quadratic(
    states: Array, W: Array, scale: float, times: Schedule, order: str, held: np.ndarray | None,
    tie: float = 0.0,
) -> Outcome:  # fmt: skip
    """Dynamics of recall on ``J = scale W W^T`` without diagonal; fields up to `tie` count as 0."""
    tie = max(tie, TIE)
    if order == "serial":
        hot = partial(
            kernels.heat_bath, W=W, beta=scale * times.betas, sweeps=times.hot, seed=times.seed,
            held=held,
        )  # fmt: skip
        cold = partial(kernels.descend, W=W, held=held, tie=tie)
        return relax_serially(
            states, lambda s: hot(s).state, lambda s, n: cold(s, max_sweeps=n), times
        )

    def step(now: Array, update: int, T: float, _: Array) -> Array:
        return kernels.layered_step(
            now[:, None, :], W, beta=scale / T if T else 1.0, noise=float(T > 0), seed=times.seed,
            first_update=update, tie=tie,
        ).state[:, 0]  # fmt: skip

    if held is None and not times.hot:  # one call, so that the kernel keeps its coefficients
        out = kernels.layered_step(
            states[:, None, :], W, beta=1.0, noise=0.0, updates=times.cold, tie=tie
        )
        return out.state[:, 0], to_host(out.updates), to_host(out.changed) == 0
    return repeat_until_fixed(states, step, times, held)


def continue_in_float64(
    found: Outcome, W: np.ndarray, times: Schedule, order: str, held: np.ndarray | None
) -> Outcome:
    """Continue recall's dynamics in float64, W (N, R), where float32 rounded small fields to 0."""
    states, used, settled = found
    tie = rounding_error(W, np.float64, float(np.linalg.norm(W)))
    factor, own = like(W, states), like((W * W).sum(axis=1), states)
    xp, moving, step = namespace(states), settled.copy(), max(1, PIECE // states.shape[1])
    for at in range(0, len(states), step):
        s = xp.astype(states[at : at + step], xp.float64)
        turns = s * (xp.matmul(xp.matmul(s, factor), factor.T) - own * s) < -tie
        if held is not None:
            turns &= ~like(held[at : at + step], states)
        moving[at : at + step] &= to_host(xp.any(turns, axis=1))
    left = times.cold - int((used[moving] - times.hot).min(initial=times.cold))
    if not moving.any() or not left:
        return states, used, settled & ~moving
    (rows,) = np.nonzero(moving)
    colder, kept = Schedule(np.zeros(left), times.seed), None if held is None else held[rows]
    at = like(rows, states)
    update = partial(_exact, W=factor, own=own, order=order, tie=tie)
    more = repeat_until_fixed(states[at], update, colder, kept)
    states = xp.asarray(states, copy=True)
    states[at], settled[rows] = more[0], more[2]
    used[rows] += more[1]
    return states, used, settled


def _exact(
    now: Array, _: int, __: float, kept: Array, W: Array, own: Array, order: str, tie: float
) -> Array:
    """One update on ``J = W W^T`` in float64, without noise; `own` is the diagonal of J."""
    xp = namespace(now)
    s = xp.astype(now, xp.float64)
    A = xp.matmul(s, W)
    if order == "synchronous":
        return xp.astype(align_with_fields(xp.matmul(A, W.T) - own * s, s, tie), now.dtype)
    for i in range(now.shape[1]):
        spin = s[:, i]
        turned = align_with_fields(xp.matmul(A, W[i, :]) - own[i] * spin, spin, tie)
        turned = turned if kept is None else xp.where(kept[:, i], spin, turned)
        A += (turned - spin)[:, None] * W[i, :]
        s[:, i] = turned
    return xp.astype(s, now.dtype)


def rounding_error(W: np.ndarray, kind: Any, norm: float) -> float:
    """Rounding error of a field ``W_i . W^T s`` in dynamics of recall; `norm` bounds W's norm."""
    longest = float(np.sqrt(np.einsum("nr,nr->n", W, W).max(initial=0)))
    return float(NEAR * np.finfo(kind).eps * longest * norm * len(W) ** 0.5)


def relax_layers(
    states: Array, W: Array, rule: Layered, times: Schedule, order: str, tie: float
) -> Outcome:
    """Dynamics of recall of L layers that all start at the same cue; the result is (S, L, N)."""
    shape = (len(states), rule.layers, states.shape[1])
    blocks = namespace(states).broadcast_to(states[:, None, :], shape)
    run = partial(
        kernels.layered_step, serial=order == "serial", coupling=rule.coupling,
        repulsion=rule.repulsion if rule.layers > 1 else 0.0, tie=max(tie, TIE),
    )  # fmt: skip
    T = times.temperatures
    beta, noise = 1 / np.where(T > 0, T, 1), (T > 0).astype(float)
    out = run(blocks, W, beta=beta, noise=noise, updates=len(T), seed=times.seed)
    rest = to_host(out.changed) == 0
    if not times.cold:
        rest = to_host(run(out.state, W, beta=1.0, noise=0.0).changed) == 0
    return out.state, to_host(out.updates), rest


def relax_by_overlaps(
    states: Array, patterns: Array, weights: np.ndarray, rule: Overlapping, times: Schedule,
    order: str, held: np.ndarray | None,
) -> Outcome:  # fmt: skip
    """Dynamics of recall on the dense or the exponential energy."""
    if on_device(states):  # the compiled loops run on the host
        host = relax_by_overlaps(to_host(states), patterns, weights, rule, times, order, held)
        return like(host[0], states), *host[1:]
    if order == "serial":
        energy = ("exponential", rule.beta) if isinstance(rule, Exponential) else ("power", rule.n)
        cold = partial(
            kernels.dense_sweep, patterns=patterns, energy=energy[0], parameter=energy[1],
            weights=weights, held=held,
        )  # fmt: skip
        hot = partial(cold, sweeps=times.hot, beta=times.betas, seed=times.seed)
        return relax_serially(states, lambda s: hot(s).state, lambda s, n: cold(s, sweeps=n), times)
    xi = patterns.astype(np.float32)

    def step(now: np.ndarray, update: int, T: float, _: Array) -> np.ndarray:
        real = now.astype(np.float32)
        if not T:
            return align_with_fields(sure_fields(real, xi, rule, weights), now).astype(np.int8)
        h = fields(real, overlap_sums(real, xi), xi, rule, weights)
        drawn = draw_thresholds(times.seed, len(now), update, now.shape[1])
        return np.where(h / T >= drawn, 1, -1).astype(np.int8)

    return repeat_until_fixed(states, step, times, held)


def repeat_until_fixed(
    states: Array, step: Any, times: Schedule, held: np.ndarray | None = None
) -> Outcome:
    """Repeat a step of recall's dynamics until no state changes, or to the schedule's end."""
    xp, sites = namespace(states), tuple(range(1, states.ndim))
    kept = None if held is None else like(np.broadcast_to(held, states.shape), states)

    def stepped(now: Array, update: int, T: float, keep: Array) -> tuple[Array, np.ndarray]:
        new = step(now, update, T, keep)
        new = new if keep is None else xp.where(keep, now, new)
        return new, ~to_host(xp.any(new != now, axis=sites))

    states = xp.asarray(states, copy=True)
    used, settled = np.zeros(len(states), np.int64), np.zeros(len(states), np.bool_)
    for update, T in enumerate(times.temperatures.tolist()):
        live = np.flatnonzero(~settled)  # all states while there is noise
        at = like(live, states)
        new, same = stepped(states[at], update, T, kept if kept is None else kept[at])
        states[at], settled[live] = new, same & (T == 0)
        used[live] += 1
        if settled.all():
            break
    return states, used, settled if times.cold else stepped(states, 0, 0.0, kept)[1]


def align_with_fields(h: Array, spins: Array, tie: float = 0.0) -> Array:
    """Signs of fields `h`, a step of recall's dynamics; with a field up to `tie`, spins stay."""
    xp = namespace(h)
    return xp.where(xp.abs(h) <= tie, xp.astype(spins, h.dtype), xp.sign(h))


def layers_energy(states: np.ndarray, W: np.ndarray, rule: Layered) -> np.ndarray:
    """Energy (S,) of layers (S, L, N) on the host, without a field, beside their dynamics.

    ``-sum_a g_aa q_aa - sum_{a != b} g_ab q_ab``, or with ``q_ab^2 / N`` in the second sum where
    the coupling is quadratic, ``q_ab = s_a^T J s_b``.
    """
    A = np.einsum("sln,nr->slr", states.astype(np.float64), W.astype(np.float64))
    q = np.einsum("slr,smr->slm", A, A)
    g, layers = rule.matrix, np.arange(rule.layers)
    pairs = q**2 / states.shape[2] if rule.coupling == "quadratic" else q.copy()
    pairs[:, layers, layers] = q[:, layers, layers]
    return -(g * pairs).sum(axis=(1, 2))
