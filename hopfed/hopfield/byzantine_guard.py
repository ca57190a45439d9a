"""Guard of a server whose clients may lie: checks, and robust sums of their answers.

A client counts for at most a multiple of the round's lower median. An archetype is broadcast only
if clients besides its strongest supporters show it. Of sums over classes, on one scale, the highest
and lowest values of each entry are left out, as many at either end as clients may lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from hopfed._lib.settings import check_types, require
from hopfed.federation.messages import Message

__all__ = ["Guard"]

MOST_BYZANTINE = 0.4999  # share of the clients
LEVEL = 3.0  # standard score from which operators support a pattern
PATIENCE = 3  # rounds that a pattern may wait for support
CLAIM = 10.0  # medians of all claims
CLIENT_GROUPS = 10  # random groups of clients
SUMS = ("counts", "columns")  # arrays of a message that grow with the examples


@dataclass(frozen=True)
class Guard:
    """Checks of a server before it believes its clients; the defaults believe nearly all.

    Attributes
    ----------
    byzantine : share of the clients, rounded up, that may lie together. As many are left out: the
        strongest supporters of a pattern when it is tested on fresh operators, the largest and
        smallest votes at each site, and the extremes of each sum over classes.
    claim : most examples that a client counts for in a round, in medians of all claims; left out:
        10 where clients may lie, without a bound where none does.
    support : least number of examples behind an archetype that is broadcast; 5 or more of classes.
    check : refuse messages that no examples of +-1 can give.
    persistence : rounds whose fresh operators must support a pattern before it is broadcast; it may
        miss PATIENCE of them. The round that finds a pattern counts: 1 asks for nothing.
    quorum : share of random groups of clients that must support a pattern; 0 asks for none.

    A setting outside of its range is an ArgumentError.

    Examples
    --------
    >>> [Guard(byzantine=0.1).suspects(heard) for heard in (1, 2, 10, 11, 30)]
    [0, 1, 1, 2, 3]
    """

    byzantine: float = 0.0
    claim: float | None = None
    support: float = 0.0
    check: bool = False
    persistence: int = 1
    quorum: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.persistence >= 1, "persistence", "at least 1", self.persistence)
        require(0 <= self.byzantine < 0.5, "byzantine", "in [0, 1/2)", self.byzantine)
        require(self.claim is None or self.claim >= 1, "claim", "at least 1", self.claim)
        require(self.support >= 0, "support", "at least 0", self.support)
        require(0 <= self.quorum <= 1, "quorum", "in [0, 1]", self.quorum)

    def bound(self, claims: Sequence[float]) -> float:
        """Most that a client counts for, of the `claims` of all: a multiple of the lower median."""
        most = self.claim or (CLAIM if self.byzantine else np.inf)
        bounded = len(claims) > 0 and most < np.inf
        return most * sorted(claims)[(len(claims) - 1) // 2] if bounded else np.inf

    def suspects(self, heard: int) -> int:
        """Number of clients that may lie, of so many `heard`; one is always believed."""
        return max(min(ceil(self.byzantine * heard - 1e-9), heard - 1), 0)

    def cut(self, heard: int) -> int:
        """Number of clients to leave out at either end, of so many `heard`; never all."""
        return min(self.suspects(heard), max((heard - 1) // 2, 0))

    def with_absent(self, heard: int, asked: int) -> Guard:
        """Return a guard for the clients `heard`, as if all liars of those `asked` were heard."""
        if not 0 < heard < asked or self.byzantine == 0:
            return self
        share = min(self.suspects(asked) / heard, MOST_BYZANTINE)
        return replace(self, byzantine=max(self.byzantine, share))


def bound_claims(messages: Mapping[int, Message], guard: Guard) -> dict[int, Message]:
    """Bound clients' claims by a guard: scale down messages of more examples."""
    limit = guard.bound([float(m["examples"]) for m in messages.values()])
    found = dict(messages)
    for c, m in messages.items():
        if (claim := float(m["examples"])) > limit:
            sums = {k: m[k] * (limit / claim) for k in SUMS if k in m}
            found[c] = {**m, **sums, "examples": np.asarray(limit)}
    return found


def trimmed_mean(values: np.ndarray, weights: np.ndarray | float, cut: int) -> np.ndarray:
    """Trimmed means over clients (L, ...): the `cut` highest and lowest of each entry left out."""
    w = np.asarray(weights, dtype=np.float64)
    w = np.broadcast_to(w.reshape(*w.shape, *([1] * (values.ndim - w.ndim))), values.shape)
    order = np.argsort(np.where(w > 0, values, np.inf), axis=0, kind="stable")
    x, w = (np.take_along_axis(a, order, axis=0) for a in (values, w))
    heard = (w > 0).sum(axis=0)
    gone = np.minimum(cut, np.maximum(heard - 1, 0) // 2)
    place = np.arange(len(x)).reshape(-1, *([1] * (values.ndim - 1)))
    w = np.where((place >= gone) & (place < heard - gone), w, 0.0)
    total = w.sum(axis=0)
    found: np.ndarray = np.where(w > 0, x * w, 0.0).sum(axis=0) / np.where(total > 0, total, 1.0)
    return found
