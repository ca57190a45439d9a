"""Recall as dynamics: from states to rest states, for each kind of energy and both orders.

Every function takes states (S, N) int8 and returns (states, updates, settled): updates made by
each, and whether a step without noise would leave it as it is. The schedule of temperatures has one
value for each update and never rises; where it is 0 there is no noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.philox import key, philox4x32, thresholds
from hopfed.memory.energies import fields, overlap_sums, settle_near_ties
from hopfed.memory.rules import Exponential, Layered, Rule

Outcome = tuple[Array, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Schedule:
    """Temperatures of the updates, and the place of their draws.

    Attributes
    ----------
    temperatures : (updates,), at least 0, never rising.
    seed, first : seed of the draws, number of the first update.

    Examples
    --------
    >>> Schedule.of([0.5, 0.2, 0.0], 3, seed=0, first=0).hot
    2
    """

    temperatures: np.ndarray
    seed: int
    first: int

    @classmethod
    def of(cls, temperature: Any, updates: int, seed: int, first: int) -> Schedule:
        """Check and broadcast a temperature, or one for each update."""
        if isinstance(updates, bool) or updates != int(updates) or updates < 1:
            raise ArgumentError("updates", "a whole number, at least 1", updates)
        given = np.asarray(temperature, np.float64)
        rule = f"a number, at least 0, or {updates} such numbers that never rise"
        if given.shape not in ((), (updates,)) or not (np.isfinite(given) & (given >= 0)).all():
            raise ArgumentError("temperature", rule, temperature)
        T = np.broadcast_to(given, (int(updates),))
        if (np.diff(T) > 0).any():
            raise ArgumentError("temperature", rule, temperature)
        return cls(T, seed, first)

    @property
    def hot(self) -> int:
        """Number of updates with noise; those without come last."""
        return int((self.temperatures > 0).sum())

    @property
    def cold(self) -> int:
        """Number of updates without noise."""
        return len(self.temperatures) - self.hot

    @property
    def betas(self) -> np.ndarray:
        """Inverse temperatures of the updates with noise."""
        return 1 / self.temperatures[: self.hot]


def serial(states: Array, hot: Any, cold: Any, times: Schedule) -> Outcome:
    """Sweep with noise, then without, and look whether the end is a rest state.

    Parameters
    ----------
    states : (S, N).
    hot : states to an outcome with `state`, with noise.
    cold : (states, sweeps) to an outcome with `state`, `sweeps` and `settled`.
    times : the schedule.
    """
    used = np.zeros(len(states), np.int64)
    if times.hot:
        states = hot(states).state
        used += times.hot
        if not times.cold:
            return states, used, to_host(cold(states, 1).settled)
    found = cold(states, times.cold)
    return found.state, used + to_host(found.sweeps), to_host(found.settled)


def quadratic(
    states: Array, W: Array, scale: float, times: Schedule, order: str, held: np.ndarray | None
) -> Outcome:
    """Relax on ``J = scale W W^T`` without its diagonal."""
    if order == "serial":
        hot = partial(
            kernels.heat_bath, W=W, beta=scale * times.betas, sweeps=times.hot, seed=times.seed,
            first_sweep=times.first, held=held,
        )  # fmt: skip
        return serial(states, hot, lambda s, n: kernels.descend(s, W, n, held=held), times)

    def step(now: Array, update: int, T: float) -> Array:
        return kernels.layered_step(
            now[:, None, :], W, beta=scale / T if T else 1.0, noise=float(T > 0), seed=times.seed,
            first_update=times.first + update,
        ).state[:, 0]  # fmt: skip

    if held is None and not times.hot:  # one call: coefficients stay with the kernel
        out = kernels.layered_step(
            states[:, None, :], W, beta=1.0, noise=0.0, updates=times.cold, seed=times.seed
        )
        return out.state[:, 0], to_host(out.updates), to_host(out.changed) == 0
    return synchronous(states, step, times, held)


def layered(states: Array, W: Array, rule: Layered, times: Schedule, order: str) -> Outcome:
    """Relax L layers that all start at the same cue; the states are (S, L, N)."""
    run = kernels.layered_sweep if order == "serial" else kernels.layered_step
    blocks = namespace(states).broadcast_to(
        states[:, None, :], (len(states), rule.layers, states.shape[1])
    )
    T = times.temperatures
    repulsion = rule.repulsion if rule.layers > 1 else 0.0
    options: dict[str, Any] = {"coupling": rule.coupling, "repulsion": repulsion}
    out = run(
        blocks, W, beta=1 / np.where(T > 0, T, 1), noise=(T > 0).astype(float), updates=len(T),
        seed=times.seed, first_update=times.first, **options,
    )  # fmt: skip
    rest = to_host(out.changed) == 0
    if not times.cold:
        rest = to_host(run(out.state, W, beta=1.0, noise=0.0, **options).changed) == 0
    return out.state, to_host(out.updates), rest


def overlapping(
    states: Array, patterns: Array, weights: np.ndarray, rule: Rule, times: Schedule, order: str,
    held: np.ndarray | None,
) -> Outcome:  # fmt: skip
    """Relax on an energy of pattern overlaps: the dense or the exponential one."""
    if order == "serial":
        exponential = isinstance(rule, Exponential)
        run = partial(
            kernels.dense_sweep, patterns=patterns,
            energy="exponential" if exponential else "power",
            parameter=rule.beta if exponential else rule.n,  # type: ignore[attr-defined]
            weights=weights, held=held,
        )  # fmt: skip
        hot = partial(
            run, beta=times.betas, sweeps=times.hot, seed=times.seed, first_sweep=times.first
        )
        return serial(states, hot, lambda s, n: run(s, sweeps=n), times)
    xi, mass = like(to_host(patterns).astype(np.float32), states), like(weights, states)

    def step(now: Array, update: int, T: float) -> Array:
        xp = namespace(now)
        real = xp.astype(now, xp.float32)
        a = overlap_sums(real, xi)
        h, B, own = fields(real, a, xi, rule, mass)
        if T:
            return _signs(h / float(T) >= _limits(now, times.first + update, times.seed))
        if isinstance(h, np.ndarray):
            h = settle_near_ties(h, real, xi, B, own)
        return _signs(h >= 0)

    return synchronous(states, step, times, held)


def synchronous(states: Array, step: Any, times: Schedule, held: np.ndarray | None) -> Outcome:
    """Update all spins at once until nothing changes, or to the end of the schedule.

    Parameters
    ----------
    states : (S, N).
    step : (states, number of the update, temperature) to new spins.
    times : the schedule.
    held : (S, N) bool, sites that keep their spin.
    """
    xp = namespace(states)
    keep = None if held is None else like(np.broadcast_to(held, states.shape), states)

    def stepped(now: Array, update: int, T: float) -> Array:
        new = step(now, update, T)
        return new if keep is None else xp.where(keep, now, new)

    used, settled = np.zeros(len(states), np.int64), np.zeros(len(states), np.bool_)
    for update, T in enumerate(times.temperatures.tolist()):
        new = stepped(states, update, T)
        used += ~settled
        if T == 0:
            settled |= ~to_host(xp.any(new != states, axis=1))
        states = new
        if settled.all():
            break
    if not times.cold:
        settled = ~to_host(xp.any(stepped(states, 0, 0.0) != states, axis=1))
    return states, used, settled


def _signs(up: Array) -> Array:
    """Spins int8 that are +1 where `up`; in bytes throughout."""
    xp = namespace(up)
    return 2 * xp.astype(up, xp.int8) - 1


def _limits(states: Array, update: int, seed: int) -> Array:
    """Thresholds (S, N) of the heat bath: the draws of the kernels, named alike."""
    chains, n = states.shape
    block = np.broadcast_to(np.arange(-(-n // 8), dtype=np.uint64), (chains, -(-n // 8)))
    chain = np.broadcast_to(np.arange(chains, dtype=np.uint64)[:, None], block.shape)
    when, stream = np.full_like(block, update), np.zeros_like(block)
    words = np.stack(philox4x32(block, when, chain, stream, *key(seed)), axis=-1)
    halves = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], axis=-1)
    limits = thresholds()[halves.reshape(chains, -1)[:, :n].astype(np.int64)]
    return limits if not on_device(states) else like(limits, states)
