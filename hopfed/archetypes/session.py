"""A session of owners of rows, and how a server asks them: questions, and answers that add up.

A question is a pure function of an owner and a message, so it can be asked here or over a network.
An owner remembers the classes that it was last asked about, and its rows' responsibilities; neither
rows nor responsibilities are ever part of an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.errors import ArgumentError
from hopfed.federation.messages import Message, Traffic
from hopfed.kernels import Rows
from hopfed.kernels.bits import WORD
from hopfed.spectral.rows import merge_where_it_pays, pack_rows, times, transposed_times
from hopfed.spectral.skips import deciding_columns, find_skips

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes
    from hopfed.archetypes.verdict import Residual


@dataclass(frozen=True, eq=False)
class Variables:
    """Columns that are levels of one variable: a row has one, multinomial in each class."""

    label: np.ndarray  # (N,) number of the variable of each column; -1 for a column of its own
    # columns that are thresholds of one ordered answer, each seen above all before it
    steps: Sequence[Sequence[int]] = ()

    @classmethod
    def of(
        cls, groups: Sequence[Sequence[int]], n: int, steps: Sequence[Sequence[int]] = ()
    ) -> Variables:
        """Variables of groups of column numbers, among n columns."""
        label = np.full(n, -1)
        for k, group in enumerate(groups):
            label[list(group)] = k
        return cls(label, steps)

    @cached_property
    def inside(self) -> np.ndarray:
        """(N,) whether a column is a level."""
        return np.asarray(self.label >= 0)

    @cached_property
    def part(self) -> np.ndarray:
        """(N,) 1 / L for a level of a variable of L levels; 0 for a column of its own."""
        sizes = np.bincount(self.label[self.inside], minlength=1)
        return np.asarray(np.where(self.inside, 1 / np.maximum(sizes, 1)[self.label], 0.0))

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Both columns of every ordered pair of different levels of one variable."""
        found = [(a, b) for group in self.groups for a in group for b in group if a != b]
        a, b = np.array(found, dtype=int).reshape(-1, 2).T
        return a, b

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """Column numbers of each variable of several columns."""
        return [np.flatnonzero(self.label == k) for k in range(self.label.max(initial=-1) + 1)]

    def sums(self, x: np.ndarray) -> np.ndarray:
        """(K, N) of numbers added up over the columns of a variable, at each of them."""
        whole = x.astype(np.float64)
        for group in self.groups:
            whole[..., group] = x[..., group].sum(axis=-1, keepdims=True)
        return whole

    def normalised(self, rates: np.ndarray) -> np.ndarray:
        """(K, N) rates of +1, those of the levels of a variable adding up to one."""
        if not self.groups:
            return rates
        return np.where(self.inside, rates / np.maximum(self.sums(rates), 1e-12), rates)

    def within(self, means: np.ndarray, seen: np.ndarray, w: np.ndarray) -> np.ndarray:
        """(K, N) terms that take the covariance of levels, ``-4 p_a p_b``, out of products by w."""
        if not self.groups:
            return np.zeros(())
        p = self.normalised((1 + means) / 2)
        return np.where(self.inside, 4 * seen * p * (self.sums(p * w) - p * w), 0.0)


NONE = Variables(np.array(-1))  # every column is a variable of its own, for any number of columns


def step_gaps(up: np.ndarray, gone: np.ndarray, steps: Sequence[Sequence[int]]) -> np.ndarray:
    """(M, N) gaps of a session's rows, and thresholds of an ordered answer beyond its first -1."""
    found = gone.copy()
    for group in steps:
        ends = np.cumsum(~up[:, group[:-1]], axis=1) > 0
        found[:, group[1:]] = ends | gone[:, group[:1]]
    return found


ONE_THREAD = 1 << 18  # entries up to which threads of BLAS would wait for each other
SUREST = 1 - 1e-6  # size of a mean at most: messages are in single precision


@dataclass
class Owner:
    """An owner: rows, and their responsibilities for the classes that it was last asked about."""

    # (M, N), with gaps or without. Rows with counts are summed in double precision. Rows that are
    # not held give only sums over columns and classes.
    rows: Rows
    index: int = 0  # number of the owner, which names its random streams
    variables: Variables = NONE  # which columns are levels of one variable
    deciding: np.ndarray | None = None  # columns that decide which others are blank, where known
    # Of the classes last asked about, (K, N) means and (K,) shares; (M, K) responsibilities of
    # rows and their (M,) log-likelihood; (M, S) likelihood ratios of the points last offered.
    means: np.ndarray = field(init=False, repr=False)
    shares: np.ndarray = field(init=False, repr=False)
    posterior: Array = field(init=False, repr=False)
    log_densities: Array = field(init=False, repr=False)
    ratios: Array = field(init=False, repr=False)
    residuals: Any = field(init=False, repr=False, default=None)
    votes: Any = field(init=False, repr=False, default=((), {}))  # the last question, and answer
    _weights: Array = field(init=False, repr=False, default=None)

    @cached_property
    def planes(self) -> Rows:
        """Rows as bits of +1 entries, complete; with gaps, bits of -1 entries beside them."""
        signs, seen = self.rows.signs, self.rows.seen
        if seen is None:
            return Rows(signs, self.rows.n)
        words = namespace(signs).concat([signs, seen & ~signs], axis=1)
        return Rows(words, WORD * words.shape[1])

    @property
    def precision(self) -> type:
        """Type of products with rows: a rounding counts as often as its row does."""
        return np.float32 if self.rows.counts is None else np.float64

    @cached_property
    def often(self) -> Array:
        """(M,) how often each row occurs, where the rows are."""
        counts = self.rows.counts
        return like(np.ones(len(self.rows)) if counts is None else counts, self.rows.home)

    def added(self, x: Array) -> Array:
        """Sum of an array along its first axis, the rows, each as often as it occurs."""
        return x.sum(axis=0) if self.rows.counts is None else self.often @ x

    def along(self, by_sign: np.ndarray, by_seen: np.ndarray, which: Any = None) -> Array:
        """(M, K) sums over the entries of each row: `by_sign` times the sign, and `by_seen`."""
        planes, N = self.planes if which is None else self.planes[which], self.rows.n
        each = by_sign
        if self.rows.gaps:  # half of it where a bit is set, and taken off where it is not
            each = np.zeros((len(by_seen), 2, planes.n // 2))
            each[:, 0, :N], each[:, 1, :N] = (by_seen + by_sign) / 2, (by_seen - by_sign) / 2
            each = each.reshape(len(each), -1)
        found = times(planes, like(each.T.astype(self.precision), planes.home))
        return found + like(by_seen.sum(axis=1), found)

    def sums(self, weights: Array) -> tuple[Array, Array, Array]:
        """Counts (K,) of rows with weights (M, K), signed sums and numbers (K, N) of entries."""
        xp, N = namespace(weights), self.rows.n
        found = transposed_times(self.planes, weights).T
        counts = xp.sum(weights, axis=0, dtype=xp.float64)  # single loses digits row by row
        counts = xp.astype(counts, weights.dtype)
        if not self.rows.gaps:
            return counts, found, xp.repeat(counts[:, None], N, axis=1)
        plus, minus = found[:, :N], found[:, self.planes.n // 2 :][:, :N]
        return counts, (plus - minus) / 2, (plus + minus) / 2 + counts[:, None]

    @cached_property
    def free(self) -> np.ndarray:
        """(N,) booleans: columns of whose entries no gap of another column tells anything."""
        if self.deciding is None:
            self.deciding = deciding_columns(find_skips(self.rows))
        found = np.ones(self.rows.shape[1], bool)
        found[self.deciding] = False
        for group in self.variables.steps:
            found[list(group)] = True
        return found

    def learn(self, means: np.ndarray, shares: np.ndarray) -> None:
        """Compute the responsibilities of classes (K, N) of shares (K,) for the rows."""
        self.means, self.shares = means_inside(means), np.asarray(shares, np.float64)
        self.residuals = None
        self._weights = None
        logs = self.along(*log_odds(self.means, self.variables)).T
        xp = namespace(logs)
        logs = logs.astype(xp.float64, order="C")  # or each row is summed up by itself
        logs = logs + like(np.log(np.maximum(self.shares, 1e-300))[:, None], logs)
        top = xp.max(logs, axis=0)
        each = xp.exp(logs - top)
        whole = xp.sum(each, axis=0)
        self.posterior, self.log_densities = (each / whole).T, top + xp.log(whole)

    @property
    def weights(self) -> Array:
        """(M, K) responsibilities as often as rows occur, in the precision of products."""
        if self._weights is None:
            xp = namespace(self.posterior)
            if self.rows.counts is None:
                self._weights = xp.astype(self.posterior, xp.float32)
            else:
                self._weights = self.posterior * self.often[:, None]
        return self._weights


def means_inside(means: np.ndarray) -> np.ndarray:
    """Means of classes in a session, in double precision; none excludes an entry, as +-1 would."""
    return np.clip(np.asarray(means, np.float64), -SUREST, SUREST)


def log_odds(means: np.ndarray, variables: Variables = NONE) -> tuple[np.ndarray, np.ndarray]:
    """Terms (K, N) of an entry in a session's log-likelihood of rows: by its sign, and constant."""
    plain, each = np.arctanh(means), np.log1p(-(means**2)) / 2 - np.log(2)
    if not variables.groups:
        return plain, each
    half = np.log(variables.normalised((1 + means) / 2)) / 2  # only the level that is +1 counts
    return tuple(np.where(variables.inside, half, x) for x in (plain, each))


Question = Callable[[Owner, Message], Message]


def by_blocks(question: Question) -> Question:
    """Make a session's question, whose answers are sums over rows, work on them block by block."""

    @wraps(question)
    def asked(owner: Owner, sent: Message) -> Message:
        if owner.rows.held:
            return question(owner, sent)
        index, variables = owner.index, owner.variables

        def of_block(part: Rows) -> _Sums:
            answer = asked(Owner(part, index, variables), sent)
            arrays = {name: np.asarray(x) for name, x in answer.items()}
            return _Sums({name: (x.astype(np.float64), x.dtype) for name, x in arrays.items()})

        found = owner.rows.total(of_block)
        return {name: x.astype(kind) for name, (x, kind) in found.items()}

    return asked


class _Sums(dict[str, Any]):
    """An owner's answers for blocks, added up in double precision, with types of their messages."""

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums({name: (x + other[name][0], kind) for name, (x, kind) in self.items()})


class Session(ABC):
    """A session of owners of rows, wherever these are: estimators ask it for sums."""

    seed: int  # of all that owners draw
    n_columns: int  # N
    exchanges: int = 0  # times the server asked
    heard: Any = None  # the classes that all were last asked about
    variables: Variables = NONE  # which columns are levels of one variable
    columns: np.ndarray | None = None  # numbers of the columns, where they are some of more

    @property
    @abstractmethod
    def sizes(self) -> np.ndarray:
        """(L,) rows of each owner."""

    @property
    def n_rows(self) -> float:
        """M, the number of rows of all owners."""
        return float(self.sizes.sum())

    @property
    def held(self) -> bool:
        """Whether rows cost no reading."""
        return True

    @property
    @abstractmethod
    def means(self) -> np.ndarray:
        """(K, N) means of the classes that all were last asked about, as these know them."""

    @abstractmethod
    def ask(self, question: Question, shared: Message, own: Message | None = None) -> list[Message]:
        """Ask every owner one question, with `shared` arguments and its `own`: one exchange."""

    def once(self, question: Question) -> list[Message]:
        """Ask a question, and keep the answers, so that it is asked once."""
        kept = self.__dict__.setdefault("_kept", {})
        if question not in kept:
            kept[question] = self.ask(question, {})
        return list(kept[question])

    def made_of(self, make: Callable[[int, Owner], Owner], how: Message) -> Session:  # noqa: ARG002
        """A session of tables that owners make from their own: by `make`, or elsewhere by `how`."""
        raise ArgumentError("session", "one whose owners make tables", type(self).__name__)

    def forget(self) -> None:  # noqa: B027 - others forget by themselves
        """Let owners drop what they keep while they are asked about residuals."""


@dataclass
class Owners(Session):
    """A session of owners in this process, and the traffic of their messages."""

    members: list[Owner]  # the owners
    seed: int
    traffic: Traffic  # bytes and numbers each way, by owner
    ordered: bool = True  # whether rows lie in their first order

    def __post_init__(self) -> None:
        for owner in self.members[:1]:  # no owner is left where patterns explain all rows
            self.variables, self.n_columns = owner.variables, owner.rows.n

    @classmethod
    def of(cls, rows: Sequence[Any], seed: int, groups: Any = (), steps: Any = ()) -> Owners:
        """Take the rows of each owner, all with the same columns; equal rows are merged."""
        members = []
        for i, given in enumerate(map(pack_rows, rows)):
            one = Variables.of(groups, given.n, steps) if groups or steps else NONE
            merged = merge_where_it_pays(given)
            as_given = merged is given or not given.held
            deciding = None if as_given else deciding_columns(find_skips(given))
            members.append(Owner(merged, i, one, deciding))
        return cls(members, seed, Traffic(len(members)))

    @classmethod
    def over(cls, rows: Sequence[Any], seed: int, ordered: bool = True) -> Owners:
        """Take the rows of each owner as they are."""
        members = [Owner(pack_rows(part), i) for i, part in enumerate(rows)]
        return cls(members, seed, Traffic(len(members)), ordered=ordered)

    @property
    def sizes(self) -> np.ndarray:  # noqa: D102
        return np.array([owner.rows.size for owner in self.members])

    @property
    def held(self) -> bool:  # noqa: D102
        return all(owner.rows.held for owner in self.members)

    @property
    def means(self) -> np.ndarray:  # noqa: D102
        return self.members[0].means

    def ask(
        self, question: Question, shared: Message, own: Message | None = None, there: bool = False
    ) -> list[Message]:
        """Ask every owner one question; answers stay `there`, where rows are, or come here."""
        answers: list[Message] = []
        for i, owner in enumerate(self.members):
            message = {**shared, **{name: array[i] for name, array in (own or {}).items()}}
            answer = question(owner, message)
            if not there:
                answer = {name: np.asarray(to_host(a)) for name, a in answer.items()}
            self.traffic.count("down", owner.index, message)
            self.traffic.count("up", owner.index, answer)
            answers.append(answer)
        self.exchanges += 1
        return answers

    def made_of(self, make: Callable[[int, Owner], Owner], how: Message) -> Owners:  # noqa: ARG002, D102
        return Owners(list(map(make, count(), self.members)), self.seed, self.traffic)

    def forget(self) -> None:  # noqa: D102
        for owner in self.members:
            owner.residuals = None


def total(answers: Sequence[Message], name: str) -> np.ndarray:
    """Sum of one array over the answers of a session's owners, in double precision."""
    if len(answers) == 1:
        return np.asarray(answers[0][name], np.float64)
    return np.asarray(np.sum([a[name] for a in answers], axis=0, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Recovery:
    """Result of an estimator's fit to a session: archetypes, spectrum, residual and traffic."""

    archetypes: Archetypes  # with their verdict
    eigenvalues: np.ndarray = field(repr=False)  # leading ones of the pooled operator, descending
    threshold: float  # the value above which an eigenvalue counts
    rule: str  # the rank rule in words
    constant_columns: np.ndarray  # columns that hold one value over all clients, or none
    layers: int = 1  # layers of patterns: more than 1 where one spectrum was too crowded
    final: bool = True  # whether no other estimator needs to be tried
    residual: Residual | None = field(default=None, repr=False)  # of fitted classes
    log_likelihood: float = np.nan  # of fitted classes, in nats for each observed entry
    likeliest: Any = None  # numbers of the likeliest classes, where their number was given
    # bytes and numbers each way, by client
    traffic: Traffic = field(default_factory=lambda: Traffic(0), repr=False)
    exchanges: int = 0  # times the server heard from the clients
    n_examples: list[int] = field(default_factory=list)  # examples of each client
    raw_nbytes: list[int] = field(default_factory=list)  # of the rows of each client in bits
    readings: int = 1  # times that the examples were read: more where they do not fit into memory
