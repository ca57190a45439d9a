"""Sources of clients' examples in each round: tables, or draws (arXiv:2603.19902, (22) to (26))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import DataError
from hopfed.hopfield.channel import draw_examples
from hopfed.kernels import Rows

__all__ = ["ArchetypeStream"]

# An object with `examples(t, client)`, examples of a client in round t: (M, N) of +-1, 0/1,
# booleans, or packed bits. It is sent to worker processes with the method.
Source = Any
ROOM = 1 << 27  # bytes of memory that a question may need at once


@dataclass(frozen=True)
class BatchSource:
    """Source of owners' examples, divided at random among rounds, each example into one."""

    # examples of each client, with gaps or without; a single set serves every client
    owners: tuple[Rows, ...]
    rounds: int = 1  # number of parts, which differ by at most one example
    outcomes: tuple[Any, ...] = ()  # outcome of each owner's examples (`relate.Column`)

    def __post_init__(self) -> None:
        check_types(self)
        least = min(rows.shape[0] for rows in self.owners)
        rule = f"1 to {least // 2}, half the examples of the smallest owner"
        require(1 <= self.rounds <= least // 2, "rounds", rule, self.rounds)

    def examples(self, t: int, client: int) -> Rows:
        """Examples of a client in round t."""
        require(0 <= t < self.rounds, "round", f"in 0 .. {self.rounds - 1}", t)
        rows = self.everything(client)[0]
        if self.rounds == 1:
            return rows
        order = stream(0, "batches").permutation(rows.shape[0])  # files are often sorted
        return rows[np.sort(np.array_split(order, self.rounds)[t])]

    def everything(self, client: int) -> tuple[Rows, Any]:
        """Examples of a client for all rounds, and its outcome."""
        here = client if len(self.owners) > 1 else 0
        return self.owners[here], self.outcomes[here] if self.outcomes else None


@dataclass(frozen=True, eq=False)
class Blocks(Rows):
    """A client's rows in blocks, so small that a question about a block fits into memory."""

    each: int = 0  # bytes of memory that the question needs for a row

    def parts(self) -> Iterator[Rows]:
        """Yield all rows once, a block at a time."""
        step = max(1, ROOM // max(self.each, 1))
        return (self[first : first + step] for first in range(0, max(len(self), 1), step))


class SummedAnswer(dict[str, Any]):
    """Answer to a question about a block of rows; answers add up, array by array."""

    def __add__(self, other: SummedAnswer) -> SummedAnswer:
        return SummedAnswer({name: x + other[name] for name, x in self.items()})


@dataclass(frozen=True)
class RemoteSource:
    """Source of examples that are on other machines, in batches for so many `rounds`."""

    rounds: int = 1

    def examples(self, t: int, client: int) -> Rows:
        """Fail: the server has no examples of `client` in round `t`."""
        raise DataError(f"the examples of client {client} in round {t} are not on this machine")


@dataclass(frozen=True, eq=False)
class ArchetypeStream:
    """Source of noisy examples of archetypes for L clients over T rounds, drawn on request.

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
        xi, pi, r = self.archetypes, self.mixtures, np.asarray(self.qualities, np.float64)
        fits = xi.ndim == 2 and xi.dtype == np.int8 and xi.size > 0 and (np.abs(xi) == 1).all()
        require(bool(fits), "archetypes", "int8 (K, N) of +-1", f"{xi.dtype} {xi.shape}")
        fits = pi.ndim == 3 and pi.shape[2] == len(xi) and pi.size > 0 and pi.min() >= 0
        fits = fits and np.allclose(pi.sum(axis=2), 1, rtol=0, atol=1e-8)
        require(bool(fits), "mixtures", f"rows of shares, of shape (T, L, {len(xi)})", pi.shape)
        sizes, (T, L) = np.asarray(self.sample_sizes), pi.shape[:2]
        fits = sizes.dtype.kind in "iu" and sizes.shape in ((), (T, L)) and bool((sizes >= 0).all())
        require(fits, "sample_sizes", f"whole and at least 0: a number, or of shape {T, L}", sizes)
        fits = r.shape in ((), (L,)) and bool(((r >= 0) & (r <= 1)).all())
        require(fits, "qualities", f"a number in [0, 1], or one for each of {L} clients", r)
        object.__setattr__(self, "sample_sizes", np.broadcast_to(sizes, (T, L)).astype(np.int64))
        object.__setattr__(self, "qualities", np.broadcast_to(r, L).copy())
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
        """Draw the batch of `client` in `round`: int8 (M, N)."""
        return self._draw(round, client, self.archetypes)[0]

    def labels(self, round: int, client: int) -> np.ndarray:  # noqa: A002
        """Return the archetype of each example of the same draw, (M,): for scores only."""
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
        rng = stream(self.seed, "examples", int(t), int(c))
        return draw_examples(archetypes, M, r, rng, exposures=mixture)
