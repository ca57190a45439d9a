"""What a server believes of clients that may lie, and how it brings their sums together.

The number of examples is a client's weight and the yardstick of its answers, and nobody can check
it: nobody counts for more than a multiple of the round's lower median. What is told to all must be
shown by others than its strongest supporters. Sums over classes are brought to one scale, the rows
that they are over; the highest and the lowest values of every entry are left out, as many at either
end as may lie, and the others averaged by their rows.

A share e of lying clients moves a median of values of scatter s by about ``1.25 e s``, entry by
entry; a spike of +-1 entries adds that up over all sites, so `Robust` means of operators bear liars
less well than the agreement of groups of clients does (`hopfed run byzantine`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from numbers import Integral, Real

import numpy as np
from scipy.special import ndtri

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.aggregate import trimmed_mean
from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import lower, symmetric
from hopfed.spectral.noise import noise_variance
from hopfed.spectral.operators import DenseOperator, HebbianOperator

__all__ = ["Guard", "Robust"]

KINDS = ("mean", "trimmed", "median")
MOST_LIARS = 0.4999  # share of the clients
EVERYBODY = -1  # stands for the client of an operator that is of all clients
QUARTILES = 1.349  # distance of the quartiles of a normal law, in standard deviations
SUMS = ("counts", "columns")  # arrays of a message that grow with the examples


@dataclass(frozen=True)
class Robust:
    """How operators of one round are brought together.

    Attributes
    ----------
    kind : "mean" adds them; "trimmed" and "median" work entry by entry on the matrices of the
        clients, which must come as counts, and leave out the extremes: no client moves an entry
        further than its neighbours allow, and an archetype that only a few clients see is lost.
    share : of the clients left out at either end, by "trimmed".

    Raises
    ------
    ArgumentError : another kind, or a share outside [0, 1/2).

    Examples
    --------
    >>> honest, liar = np.full((3, 3), 100.0), np.full((3, 3), -100.0)
    >>> sent = dict(enumerate(DenseOperator(3, 100.0, 100.0, S) for S in (honest, liar, honest)))
    >>> columns = {c: {"columns": np.zeros(3)} for c in sent}
    >>> [(_, op, _, _)] = Robust("median").pooled(sent, columns, dict.fromkeys(sent, 1.0))
    >>> (op.matrix / op.mass)[0].round(1).tolist()
    [1.0, 1.0, 1.0]
    """

    kind: str = "mean"
    share: float = 0.1

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        require(0 <= self.share < 0.5, "share", "in [0, 1/2)", self.share)

    def pooled(
        self,
        operators: Mapping[int, HebbianOperator],
        messages: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Iterator[tuple[int, HebbianOperator, np.ndarray, float]]:
        """Yield (client, operator, column sums, weight) of what joins the evidence.

        Parameters
        ----------
        operators, messages, weights : by client; messages hold "columns", (N,), or nothing of them.
        """
        heard = [c for c in operators if weights[c] > 0]
        columns = {c: messages[c].get("columns", np.zeros(operators[c].n_sites)) for c in heard}
        if self.kind == "mean" or len(heard) < 3:
            for c in heard:
                yield c, operators[c], columns[c].astype(np.float64), weights[c]
            return
        dense = [op for c in heard if isinstance(op := operators[c], DenseOperator)]
        if len(dense) < len(heard):
            raise ArgumentError("kind", "mean unless operators travel as counts", self.kind)
        weight = float(np.mean([weights[c] for c in heard]))
        yield EVERYBODY, *self._one(dense, list(columns.values())), weight

    def _one(
        self, dense: list[DenseOperator], columns: list[np.ndarray]
    ) -> tuple[DenseOperator, np.ndarray]:
        """Robust means of the matrices, the columns and the numbers of examples."""
        share = 0.5 if self.kind == "median" else self.share
        N, masses = dense[0].n_sites, np.array([op.mass for op in dense])
        triangles = np.array([lower(op.matrix) / op.mass for op in dense])
        # The numbers of examples that clients claim are theirs to lie about, too.
        typical = float(trimmed_mean(list(masses), share))
        entries = _spread(triangles, 1 / typical)
        matrix = symmetric(trimmed_mean(list(entries), share), N, 1.0)
        low, high = (entries[round(q * (len(dense) - 1))] for q in (0.25, 0.75))
        scatter = float(((high - low) ** 2).mean()) / QUARTILES**2 / len(dense)
        examples = _worth(matrix, len(dense) * typical, loss(share), scatter)
        means = trimmed_mean([s / m for s, m in zip(columns, masses, strict=True)], share)
        return DenseOperator(N, examples, examples, matrix * examples), means * examples


def _worth(matrix: np.ndarray, examples: float, loss: float, variance: float) -> float:
    """Return the number of examples whose mean has the noise of a robust mean."""
    N = len(matrix)
    values = np.linalg.eigvalsh(matrix)[::-1]
    edge = 1 + 2 * np.sqrt(N * loss * variance)
    s2 = noise_variance(values[values > edge], N, N / examples)
    return 1 / (1 / examples + (loss - 1) * variance / s2**2)


def _spread(entries: np.ndarray, cell: float) -> np.ndarray:
    """Sort the entries (L, P), equal ones spread evenly over `cell` to either side."""
    rows = np.sort(np.ascontiguousarray(entries.T), axis=1)
    L = rows.shape[1]
    place = np.arange(L, dtype=np.int32)
    border = np.ones((len(rows), L + 1), dtype=bool)
    border[:, 1:-1] = rows[:, 1:] != rows[:, :-1]
    first = np.maximum.accumulate(np.where(border[:, :-1], place, 0), axis=1)
    last = np.minimum.accumulate(np.where(border[:, 1:], place, L)[:, ::-1], axis=1)[:, ::-1]
    return (rows + cell * (2 * place - first - last) / (last - first + 1)).T


def loss(share: float) -> float:
    """Variance of a mean of normal values without a `share` at either end, over that of all."""
    if share == 0:
        return 1.0
    if share >= 0.5:
        return np.pi / 2
    z = float(ndtri(1 - share))
    inside = 1 - 2 * share
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return float((inside - 2 * z * density + 2 * share * z**2) / inside**2)


@dataclass(frozen=True)
class Guard:
    """What a server asks before it believes its clients; the defaults believe nearly all.

    Attributes
    ----------
    liars : share of the clients, rounded up, whose word alone is not enough: the strongest
        supporters of a pattern are left out when it is asked whether fresh operators support it
        (with five examples at least), the largest and smallest votes at every site, and as many of
        the highest and of the lowest of every sum over classes.
    claim : examples that a client may claim in a round, in medians of all claims; it counts for no
        more. Clients that do hold more are cut, too; inf believes all.
    support : examples that must stand behind an archetype before it is told; fewer may be a person.
        Of classes, 5 at least.
    check : refuse messages that no examples of +-1 can give, exactly where it is exact
        (`hopfed.hopfield.possible`), not only those that could stop the server.
    robust : aggregate of operators.
    persistence : rounds whose fresh operators must support a pattern before it is told. The round
        that bore it is one of them, and supports what it bore: 1 asks for nothing.
    patience : rounds that a pattern may wait for that.
    quorum, client_groups : share of groups of clients that must support a pattern, and their
        number; a quorum of 0 asks for none. The server draws the groups under a secret.
    level : standard score from which operators support a pattern.

    Raises
    ------
    ArgumentError : a setting outside of its range.

    Examples
    --------
    >>> [Guard(liars=0.1).suspects(heard) for heard in (1, 2, 10, 11, 30)]
    [0, 1, 1, 2, 3]
    """

    liars: float = 0.0
    claim: float = 10.0
    support: float = 0.0
    check: bool = False
    robust: Robust = field(default_factory=Robust)
    persistence: int = 1
    patience: int = 3
    quorum: float = 0.0
    client_groups: int = 10
    level: float = 3.0

    def __post_init__(self) -> None:
        for name in ("persistence", "patience", "client_groups"):
            value = getattr(self, name)
            require(isinstance(value, Integral), name, "a whole number", repr(value))
            require(value >= 1, name, "at least 1", value)
        for name in ("liars", "claim", "support", "quorum", "level"):
            value = getattr(self, name)
            holds = isinstance(value, Real) and value == value  # NaN is no number
            require(holds, name, "a number", repr(value))
        require(isinstance(self.check, bool), "check", "true or false", repr(self.check))
        require(isinstance(self.robust, Robust), "robust", "a Robust", repr(self.robust))
        require(0 <= self.liars < 0.5, "liars", "in [0, 1/2)", self.liars)
        require(self.claim >= 1, "claim", "at least 1", self.claim)
        require(0 <= self.support < inf, "support", "at least 0, and finite", self.support)
        require(0 <= self.quorum <= 1, "quorum", "in [0, 1]", self.quorum)

    def suspects(self, heard: int) -> int:
        """Clients of so many `heard` whose word alone is not enough; one is always believed."""
        return suspects(self.liars, heard)

    def cut(self, heard: int) -> int:
        """Clients of so many `heard` that are left out at either end; never all of them."""
        return min(self.suspects(heard), max((heard - 1) // 2, 0))

    def wary(self, heard: int, asked: int) -> Guard:
        """Return a guard for which all that may lie of those `asked` are among those `heard`.

        Who lies is never late: counted from those heard, liars would be more than are reckoned with
        as soon as others are missing. It stays below one half, where nobody can know who lies.
        """
        if not 0 < heard < asked or self.liars == 0:
            return self
        share = min(self.suspects(asked) / heard, MOST_LIARS)
        return replace(self, liars=max(self.liars, share))


def suspects(liars: float, heard: int) -> int:
    """Clients of so many `heard` that may lie together, of a share of all; never all of them."""
    return max(min(ceil(liars * heard - 1e-9), heard - 1), 0)


def bounded(messages: Mapping[int, Message], most: float) -> dict[int, Message]:
    """Messages in which nobody claims more than `most` times the median number of examples."""
    limit = median_bound([float(m["examples"]) for m in messages.values()], most)
    return {c: _scaled(m, limit) for c, m in messages.items()}


def median_bound(claims: Sequence[float], most: float) -> float:
    """Return `most` times the lower median of the claims; 0 of none."""
    return most * sorted(claims)[(len(claims) - 1) // 2] if claims else 0.0


def _scaled(message: Message, limit: float) -> Message:
    claim = float(message["examples"])
    if claim <= limit:
        return message
    sums = {k: message[k] * (limit / claim) for k in SUMS if k in message}
    return {**message, **sums, "examples": np.asarray(limit)}


def trimmed(values: np.ndarray, weights: np.ndarray, cut: int) -> np.ndarray:
    """Weighted means over clients (L, ...) without the `cut` highest and lowest of every entry."""
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


def capped(rows: np.ndarray, cut: int) -> np.ndarray:
    """Rows (L, ...) of clients, of whom `cut` may lie: nobody has more than an honest one may have.

    A cap at the median would take a class away that fewer than half of the clients hold.
    """
    return np.asarray(np.minimum(rows, np.sort(rows, axis=0)[-1 - cut]))
