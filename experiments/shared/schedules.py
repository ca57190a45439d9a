"""Schedules: which archetypes dominate in which round, and which of them each client sees.

A schedule is a round mixture, an array (rounds, K) whose rows lie on the simplex. It is dealt to
clients by `supports` and `client_mixtures`, for a `hopfed.hopfield.stream.ArchetypeStream`.

Source: arXiv:2603.19902, eqs. (22), (23), Section 5.2.
"""

from __future__ import annotations

import math

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require


def sequential(K: int, rounds: int, overlap: float = 0.5) -> np.ndarray:
    """Archetypes dominate one after the other, in stages of equal length.

    `overlap` is the part of a stage over which dominance passes linearly to the next, half before
    the border and half behind; the rest of the stage is a plateau. 0 switches at once.
    """
    require(rounds >= K, "rounds", f"at least one for each of {K} stages", rounds)
    return _lead((np.arange(rounds) + 0.5) * K / rounds, K, overlap, cyclic=False)


def cyclic(K: int, rounds: int, period: int, overlap: float = 0.5) -> np.ndarray:
    """Archetypes dominate in turn, each once in `period` rounds, with an `overlap` as above."""
    require(period >= K, "period", f"at least K = {K}", period)
    return _lead((np.arange(rounds) % period + 0.5) * K / period, K, overlap, cyclic=True)


def novelty_ramp(old: int, K: int, rounds: int, at: int, ramp: int) -> np.ndarray:
    """The first `old` archetypes in equal shares; then the others ramp up until all K are equal.

    A new archetype has the share ``min(1, (t - at + 1) / ramp) / K`` from round `at` on (5.2); a
    `ramp` of 1 introduces all of them at once.
    """
    require(old < K, "old", f"below K = {K}, so that some are new", old)
    require(at < rounds, "at", f"below the number of rounds, {rounds}", at)
    progress = np.clip((np.arange(rounds)[:, None] - at + 1) / ramp, 0, 1)
    before = (np.arange(K) < old) / old
    return (1 - progress) * before + progress / K


def _lead(position: np.ndarray, stages: int, overlap: float, *, cyclic: bool) -> np.ndarray:
    """Weight of each stage at positions (T,) in [0, stages): 1 on plateaus, linear between."""
    require(0 <= overlap <= 1, "overlap", "in [0, 1]", overlap)
    stage = position.astype(int)
    after = position - stage
    border = np.minimum(after, 1 - after)  # distance to the nearer border
    half = np.full_like(border, 0.5)
    own = 0.5 + np.divide(border, overlap, out=half, where=border < overlap / 2)
    other = np.where(after < 0.5, stage - 1, stage + 1)
    other = other % stages if cyclic else np.clip(other, 0, stages - 1)
    rows = np.arange(len(position))
    lead = np.zeros((len(position), stages))
    lead[rows, stage] = own
    lead[rows, other] += 1 - own
    return lead


def supports(K: int, clients: int, share: float, seed: int) -> np.ndarray:
    """Draw which archetypes each client can see: bool (clients, K), together all of them."""
    size = math.ceil(share * K - 1e-9)  # .7 of 10 is 7, whatever the last bit says
    covers = f"large enough for {clients} clients of {size} to cover K = {K} archetypes"
    require(size * clients >= K, "share", covers, share)
    held = np.zeros((clients, K), dtype=bool)
    deck = stream(seed, "supports", "deal").permutation(K)
    for c in range(clients):
        held[c, deck[c::clients]] = True
        others = stream(seed, "supports", c).permutation(np.flatnonzero(~held[c]))
        held[c, others[: size - held[c].sum()]] = True
    return held


def client_mixtures(mixture: np.ndarray, supports: np.ndarray) -> np.ndarray:
    """Restrict the round mixture to each client's support: ``pi[t, c, :]``, (T, L, K) (22).

    Their mean over clients (arXiv:2603.19902, eq. (23)) is the round mixture itself only where
    every support is whole. A client that holds none of a round's archetypes sees its own support in
    equal shares.

    Examples
    --------
    >>> held = np.array([[True, True, False], [False, True, True]])
    >>> client_mixtures(np.array([[0.5, 0.5, 0.0]]), held)
    array([[[0.5, 0.5, 0. ],
            [0. , 1. , 0. ]]])
    """
    held = mixture[:, None, :] * supports
    held = np.where(held.any(axis=2, keepdims=True), held, supports)
    return np.asarray(held / held.sum(axis=2, keepdims=True))
