"""Where clients' examples come from: tables dealt out over the rounds, or draws of archetypes.

Source: arXiv:2603.19902, eqs. (22) to (26); theory/NOTES.md, "Mixture channel and exposure".

A schedule is a round mixture, an array (rounds, K) whose rows lie on the simplex: `sequential`,
`cyclic`, `novelty_ramp`. It is dealt to clients by `supports` and `client_mixtures`. An
`ArchetypeStream` then draws the examples of any client and round from the seed alone, so that
neither the order of calls nor the process changes them. Labels are for scores only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from hopfed._lib.cache import Recent
from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import DataError
from hopfed.hopfield.channel import draw_examples
from hopfed.kernels import Rows

__all__ = ["ArchetypeStream", "client_mixtures"]

# Federations that are compared on the same examples ask for them one after the other.
_DRAWN = Recent(1 << 26, lambda drawn: sum(array.nbytes for array in drawn))


class Source(Protocol):
    """Where clients' examples come from; it is sent to worker processes with the method."""

    def examples(self, t: int, client: int) -> Any:
        """Examples (M, N) of a client in round t: +-1, 0/1, booleans, or packed bits."""
        ...


@dataclass(frozen=True)
class Batches:
    """Owners' examples in as many random parts as there are rounds, each example in one."""

    # examples of each client, with gaps or without; a single set is that of whoever asks
    owners: tuple[Rows, ...]
    rounds: int = 1  # number of parts, which differ by at most one example
    outcomes: tuple[Any, ...] = ()  # what each owner holds beside its examples (`relate.Column`)

    def __post_init__(self) -> None:
        check_types(self)
        require(len(self.owners) >= 1, "owners", "at least one", 0)
        least = min(rows.shape[0] for rows in self.owners)
        rule = f"1 to {least // 2}, half the examples of the smallest owner"
        require(1 <= self.rounds <= least // 2, "rounds", rule, self.rounds)

    def examples(self, t: int, client: int) -> Rows:
        """Examples of a client in round t."""
        require(0 <= t < self.rounds, "round", f"in 0 .. {self.rounds - 1}", t)
        rows = self.everything(client)[0]
        if self.rounds == 1:
            return rows
        # Files are often sorted: their first rows are not like their last.
        order = stream(0, "batches").permutation(rows.shape[0])
        return rows[np.sort(np.array_split(order, self.rounds)[t])]

    def everything(self, client: int) -> tuple[Rows, Any]:
        """Examples of a client for all rounds, and what it holds beside them."""
        here = client if len(self.owners) > 1 else 0
        return self.owners[here], self.outcomes[here] if self.outcomes else None


@dataclass(frozen=True)
class Elsewhere:
    """Stands for examples that are on other machines, in batches for so many `rounds`."""

    rounds: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        require(self.rounds >= 1, "rounds", "at least 1", self.rounds)

    def examples(self, t: int, client: int) -> Rows:
        """Fail: the server has no examples of `client` in round `t`."""
        raise DataError(f"the examples of client {client} in round {t} are not on this machine")


@dataclass(frozen=True, eq=False)
class ArchetypeStream:
    """Noisy examples of archetypes for L clients over T rounds.

    It holds what the draws need and no examples, so it is cheap to build and to send to a worker
    process, where it draws the same.

    Parameters
    ----------
    archetypes : int8 (K, N) of +-1.
    mixtures : (T, L, K) mixtures ``pi[t, c, :]``, rows sum to 1.
    sample_sizes : examples ``M_c^t`` of each client in each round: a number, or int (T, L).
    qualities : r_c of each client in [0, 1], 0 for pure noise: a number, or (L,).
    seed : of all draws.

    Examples
    --------
    >>> xi = np.array([[1, 1, 1], [1, -1, -1]], dtype=np.int8)
    >>> data = ArchetypeStream(xi, np.full((4, 2, 2), 0.5), 3, (1.0, 0.5), seed=0)
    >>> data.rounds, data.clients, data.examples(0, 1).shape
    (4, 2, (3, 3))
    >>> bool((data.examples(2, 0) == xi[data.labels(2, 0)]).all())
    True
    """

    archetypes: np.ndarray = field(repr=False)
    mixtures: np.ndarray = field(repr=False)
    sample_sizes: Any = field(repr=False)
    qualities: Any
    seed: int

    def __post_init__(self) -> None:
        archetypes, mixtures = self.archetypes, self.mixtures
        sizes, r = np.asarray(self.sample_sizes), np.asarray(self.qualities, dtype=np.float64)
        fits = archetypes.ndim == 2 and archetypes.dtype == np.int8 and archetypes.size > 0
        fits = fits and bool((np.abs(archetypes) == 1).all())
        require(fits, "archetypes", "int8 (K, N) of +-1", f"{archetypes.dtype} {archetypes.shape}")
        fits = mixtures.ndim == 3 and mixtures.shape[2] == len(archetypes) and mixtures.size > 0
        require(fits, "mixtures", f"of shape (T, L, {len(archetypes)})", mixtures.shape)
        simplex = np.allclose(mixtures.sum(axis=2), 1, rtol=0, atol=1e-8) and mixtures.min() >= 0
        require(bool(simplex), "mixtures", "rows of shares, at least 0, that sum to 1", "others")
        cells = mixtures.shape[:2]
        rule = f"whole and at least 0, one for each of {cells[0]} rounds and {cells[1]} clients"
        fits = sizes.dtype.kind in "iu" and sizes.shape in ((), cells) and bool((sizes >= 0).all())
        require(fits, "sample_sizes", rule, sizes)
        rule = f"a number in [0, 1], or one for each of {cells[1]} clients"
        fits = r.shape in ((), cells[1:]) and bool(((r >= 0) & (r <= 1)).all())
        require(fits, "qualities", rule, r)
        object.__setattr__(self, "sample_sizes", np.broadcast_to(sizes, cells).astype(np.int64))
        object.__setattr__(self, "qualities", np.broadcast_to(r, cells[1:]).copy())
        object.__setattr__(self, "seed", check_seed(self.seed))

    @property
    def rounds(self) -> int:
        """T."""
        return self.mixtures.shape[0]

    @property
    def clients(self) -> int:
        """L."""
        return self.mixtures.shape[1]

    def examples(self, round: int, client: int) -> np.ndarray:  # noqa: A002
        """Draw the batch of `client` in `round`: int8 (M, N), read-only."""
        return self._draw(round, client, self.archetypes)[0]

    def labels(self, round: int, client: int) -> np.ndarray:  # noqa: A002
        """Return the archetype of each example of the same draw, (M,): for scores only."""
        # Labels come before flips, so they are the same on no sites at all, and cheap.
        return self._draw(round, client, self.archetypes[:, :0])[1]

    def pooled_exposures(self, round: int) -> np.ndarray:  # noqa: A002
        """Return the fractions of all the round's examples, clients weighed by M_c: (K,)."""
        labels = np.concatenate([self.labels(round, c) for c in range(self.clients)])
        counts = np.bincount(labels, minlength=len(self.archetypes))
        return np.asarray(counts / max(len(labels), 1))

    def _draw(self, t: int, c: int, archetypes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        require(0 <= t < self.rounds, "round", f"in 0 .. {self.rounds - 1}", t)
        require(0 <= c < self.clients, "client", f"in 0 .. {self.clients - 1}", c)
        M, r, mixture = int(self.sample_sizes[t, c]), float(self.qualities[c]), self.mixtures[t, c]
        where = self.seed, "examples", int(t), int(c)

        def draw() -> tuple[np.ndarray, np.ndarray]:
            drawn = draw_examples(archetypes, M, r, stream(*where), exposures=mixture)
            for array in drawn:
                array.flags.writeable = False
            return drawn

        which = blake2b(archetypes.tobytes(), digest_size=16).digest()
        key = *where, M, r, mixture.tobytes(), archetypes.shape, which
        found: tuple[np.ndarray, np.ndarray] = _DRAWN.get(key, draw)
        return found


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

    Parameters
    ----------
    mixture : (T, K) rows on the simplex.
    supports : bool (L, K), at least one archetype each.

    Examples
    --------
    >>> held = np.array([[True, True, False], [False, True, True]])
    >>> client_mixtures(np.array([[0.5, 0.5, 0.0]]), held)
    array([[[0.5, 0.5, 0. ],
            [0. , 1. , 0. ]]])
    """
    require(mixture.ndim == 2, "mixture", "of shape (T, K)", mixture.shape)
    rule = f"bool of shape (L, {mixture.shape[1]})"
    fits = supports.dtype == bool and supports.shape[1:] == mixture.shape[1:]
    require(fits, "supports", rule, f"{supports.dtype} {supports.shape}")
    require(bool(supports.any(axis=1).all()), "supports", "nonempty for each client", "none")
    held = mixture[:, None, :] * supports
    held = np.where(held.any(axis=2, keepdims=True), held, supports)
    return np.asarray(held / held.sum(axis=2, keepdims=True))
