"""Graded classes in rounds by answers with noise: what a server learns of a row is bounded.

Source: `noisy` for what noise hides a row, and `hopfed.privacy.concentrated` for all of a round.

A round looks a few times for classes. Each look asks for *pairs*, the sums and the second moments
of each class: where the residuals of a class vary along a direction more than rows and noise let
expect, it is two, and where those of two together do not, they are one. Then come a few *sums*,
steps of a fit, of which all but the first are averaged: their noise is as of one answer with all
their budget. Last come the pairs once more, only to join. Every row is in the batch of one round,
so rounds do not add up for it; the questions of a round do, and share the budget.

What the server makes of noisy answers about classes.

How large the noise is is public, so it is taken off wherever it matters: means are drawn to those
of the columns as far as noise could have made them differ, a class is split only where its
residuals vary by more than rows and noise let expect, and classes that noise alone may tell apart
are joined. Owners are pooled by `robust`.

Between exchanges the server keeps, by name: `asked` (means, shares, and which remembered class each
is), `total` (the sums of the steps that are averaged, and how many these are), and `best`, sums
over the classes that would be remembered if nobody answered any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hopfed._lib.settings import check_types, require
from hopfed.errors import DataError
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Message, Spec, below
from hopfed.hopfield.flat import flatten, unflatten
from hopfed.hopfield.graded.memory import STRANGER, Memory
from hopfed.hopfield.graded.noisy import NUMBERS, PARTS, UNITS, ClassNoise
from hopfed.hopfield.graded.noisy_sums import Look, NoisySums
from hopfed.hopfield.graded.robust import clients_left_out, trimmed
from hopfed.hopfield.liars.claims import median_bound, wary
from hopfed.hopfield.robust import loss
from hopfed.hopfield.settings import Served, Source
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.tables.examples import as_examples

WIDEST = 0.95  # magnitude of a mean of a class that is guessed

Answer = tuple[State, Mapping[int, Message], Metrics]


def hear(
    method: PrivateClasses, state: State, messages: Mapping[int, Message], context: Context
) -> Answer:
    """Answer the clients, in any exchange of a round."""
    exchange, memory = context.exchange, unflatten(Memory, below(state, "memory"))
    noise, now, metrics = state["noise"], dict(below(state, "now")), Metrics()
    held = _remembered(memory, noise).times(method.discount)
    if exchange == 0:
        # What was said of the classes of an earlier round says nothing of those of this one.
        messages = {c: m for c, m in messages.items() if not context.ages.get(c)}
        now = {**_asking(*_known(held), np.arange(memory.size)), "quiet": np.array(False)}
    if messages and not now["quiet"]:
        sums = pooled(method, messages)
        metrics["examples"] = float(_bounds(method, messages)[1].sum())  # counts have noise
        if method.round_steps[exchange] == "pairs":
            look = look_at(method, sums, messages, now["asked/parent"])
            now = _searched(method, now, look, exchange)
        else:
            now = _fitted(method, now, sums, held, exchange)
    if exchange + 1 < method.exchanges:
        quiet = not messages or bool(now["quiet"])
        told = {n: now[f"asked/{n}"].astype(np.float32) for n in ("means", "shares")}
        metrics["classes"] = len(now["asked/means"])
        return (
            flatten(None, memory=memory, noise=noise, now=now),
            {EVERYONE: {} if quiet else told},
            metrics,
        )
    if "best/counts" in now:
        memory, noise = _closed(
            memory, unflatten(NoisySums, below(now, "best")), now["best/parent"], held
        )
    told = {"means": memory.means.astype(np.float32), "shares": memory.shares.astype(np.float32)}
    return (
        flatten(None, memory=memory, noise=noise, now={}),
        {EVERYONE: told},
        metrics | {"classes": memory.size},
    )


def pooled(method: PrivateClasses, messages: Mapping[int, Message]) -> NoisySums:
    """Sums of all owners, each within its bound."""
    said = list(messages.values())
    rows, weights, cut = _bounds(method, messages)
    # An owner's mean has the noise of its sums over its rows.
    noise = float(((weights / rows) ** 2).sum()) * loss(cut / len(rows))
    variance = np.full(len(said[0]["counts"]), noise * method.noise.scale("signed") ** 2)
    counts, signed, seen = (
        _pooled(said, n, rows, weights, cut) for n in ("counts", "signed", "seen")
    )
    return NoisySums(counts, signed, seen, variance)


def look_at(
    method: PrivateClasses, sums: NoisySums, messages: Mapping[int, Message], parent: np.ndarray
) -> Look:
    """What a look for classes goes by, from answers with products of columns."""
    said = list(messages.values())
    bounds = _bounds(method, messages)
    each = [[{"pairs": m["pairs"][k]} for m in said] for k in range(len(parent))]
    pairs = np.array([_pooled(one, "pairs", *bounds) for one in each])
    unit = method.noise.scale("pairs") / method.noise.scale("signed")
    groups = [np.array([k]) for k in range(len(parent))]
    return Look(sums, pairs, parent, unit, groups, said, bounds[2])


def _bounds(
    method: PrivateClasses, messages: Mapping[int, Message]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows that owners claim, rows that they count for, and how many are left out at either end."""
    rows = np.array([float(m["examples"]) for m in messages.values()])
    weights = np.minimum(rows, median_bound(rows.tolist(), method.claim))
    return rows, weights, clients_left_out(method.liars, len(rows))


def _pooled(
    said: Sequence[Message], name: str, rows: np.ndarray, weights: np.ndarray, cut: int
) -> np.ndarray:
    each = [m[name].astype(np.float64) / (PARTS * r) for m, r in zip(said, rows, strict=True)]
    return np.asarray(weights.sum() * trimmed(np.array(each), weights, cut))


def _searched(method: PrivateClasses, now: Message, look: Look, exchange: int) -> Message:
    """Join classes that are one, and split those that are two; the last look only joins."""
    before_join, look = len(look.parent), look.joined()
    sums, parent = look.sums, look.parent
    found = [look.one(k).residuals() for k in range(len(parent))]
    ratios, ways = np.array([r.ratio for r in found]), np.array([r.way for r in found])
    order = np.argsort(-ratios * sums.rows, kind="stable")
    most = min(method.most, NUMBERS // ((method.n_sites + 2) ** 2 // 2))
    room = max(most - len(found), 0) if exchange + 1 < method.exchanges else 0
    chosen = np.array([k for k in order[:room] if ratios[k] > 1], dtype=int)
    alike = len(parent) == before_join
    if exchange == 0 or not alike:
        now = {**now, **flatten(None, best=sums), "best/parent": parent}
    stay, T, p = np.setdiff1d(np.arange(len(found)), chosen), sums.means(), sums.shares()
    halves = np.concatenate([T[chosen] + ways[chosen], T[chosen] - ways[chosen]])
    means = np.concatenate([T[stay], np.clip(halves, -WIDEST, WIDEST)])
    shares = np.concatenate([p[stay], p[chosen] / 2, p[chosen] / 2])
    new = np.full(2 * len(chosen), STRANGER)
    over = not len(chosen) and alike and (exchange > 0 or len(found) == 1)
    return {
        **now,
        **_asking(means, shares, np.concatenate([parent[stay], new])),
        "quiet": np.array(over),
    }


def _fitted(
    method: PrivateClasses, now: Message, sums: NoisySums, held: NoisySums, exchange: int
) -> Message:
    """Take a step of the fit; after the last one of a look, see which classes are there."""
    steps, parent = int(now["asked/steps"]) + 1, now["asked/parent"]
    # The first step after a search is thrown away: its classes were guesses.
    total = unflatten(NoisySums, below(now, "total")) + sums if steps > 2 else sums
    now = {**now, **flatten(None, total=total), "asked/steps": np.array(steps)}
    fresh = total.times(1 / max(steps - 1, 1))
    whole = fresh + before(held, parent)
    over = method.round_steps[exchange + 1 : exchange + 2] != ("sums",)
    if over:
        kept = whole.supported(method.support)
        whole, fresh, parent = whole.select(kept), fresh.select(kept), parent[kept]
        now |= _asking(whole.means(), whole.shares(), parent)
        return {**now, **flatten(None, best=fresh), "best/parent": parent}
    now |= {"asked/means": whole.means(), "asked/shares": whole.shares()}
    return now


def before(held: NoisySums, parent: np.ndarray) -> NoisySums:
    """What is remembered of classes with these parents (K,); nothing of those that are new."""
    found, known = held.select(np.maximum(parent, 0)), parent != STRANGER
    each = (found.counts, found.signed, found.seen, found.noise)
    return NoisySums(*(np.where(known.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0) for a in each))


def _closed(
    memory: Memory, fresh: NoisySums, parent: np.ndarray, held: NoisySums
) -> tuple[Memory, np.ndarray]:
    """Remember the classes of a round, and the noise on what is remembered."""
    total, known = fresh + before(held, parent), parent != STRANGER
    numbers = np.where(known, memory.numbers[np.maximum(parent, 0)], 0)
    numbers[~known] = memory.used + np.arange((~known).sum())
    nothing = np.zeros(len(parent), np.int64)
    new = Memory(
        means=total.means(),
        signed=total.signed,
        seen=total.seen,
        clients=np.array([STRANGER]),  # all of them: whose rows are of which class is not kept
        counts=np.maximum(total.counts, 0.0)[None],
        numbers=numbers,
        born=nothing,
        loud=nothing,
        used=memory.used + (~known).sum(),
    )
    return new, total.noise


def _remembered(memory: Memory, noise: np.ndarray) -> NoisySums:
    return NoisySums(memory.rows, memory.signed, memory.seen, noise + np.zeros(memory.size))


def _known(held: NoisySums) -> tuple[np.ndarray, np.ndarray]:
    """Means and shares of what is remembered; of nothing, those of a single class."""
    if held.counts.any():
        return held.means(), held.shares()
    return np.zeros_like(held.signed), np.full(len(held.counts), 1 / len(held.counts))


def _asking(means: np.ndarray, shares: np.ndarray, parent: np.ndarray) -> Message:
    return flatten(None, asked={"means": means, "shares": shares, "parent": parent, "steps": 0})


@dataclass(frozen=True)
class PrivateClasses(Served):
    """The private federation of graded classes on the common contract.

    Attributes
    ----------
    source : the clients' rows; every row must be in the batch of one round only.
    n_sites : columns N.
    epsilon, delta : what all answers of a round may tell about one row.
    discount : share of the sums of earlier rounds that is left after a round, in [0, 1].
    looks : searches for new classes in a round; each can at most double their number.
    steps : steps of the fit after each search, of which all but the first are averaged.
    most : classes at most.
    claim : medians of all clients' rows that one client may stand for.
    liars : share of the clients that may lie together, see `robust`.
    support : rows that a class must have to be remembered, at least.
    secret : of the noise, known to the client alone; 0, in simulations, draws from the run's seed,
        which everybody knows.

    Examples
    --------
    >>> from hopfed.hopfield.batches import Batches
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> rng = np.random.default_rng(0)
    >>> T = rng.uniform(-1, 1, (3, 60))
    >>> x = np.where(rng.random((9000, 60)) < (1 + T[rng.integers(3, size=9000)]) / 2, 1, -1)
    >>> x[rng.random(x.shape) < 0.2] = 0
    >>> owners = tuple(as_examples(part, gaps=True) for part in (x[:5000], x[5000:]))
    >>> method = PrivateClasses(Batches(owners), 60, epsilon=4.0)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.server_metrics["classes"], played.state.server["memory/means"].shape
    (3, (3, 60))
    """

    source: Source
    n_sites: int
    epsilon: float
    delta: float = 1e-5
    discount: float = 1.0
    looks: int = 2
    steps: int = 3
    most: int = 50
    claim: float = 3.0
    liars: float = 0.0
    support: float = 50.0
    secret: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        check_types(replace(self, secret=0) if self.secret else self)  # a word names no secret
        self._check_ranges()
        for name in ("looks", "steps", "most"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        self.noise  # noqa: B018  (checks the rest)

    @cached_property
    def noise(self) -> ClassNoise:
        """What adds the noise."""
        return ClassNoise(self.n_sites, self.epsilon, self.delta, self.units)

    @property
    def round_steps(self) -> tuple[str, ...]:
        """Names of a round's exchanges."""
        return ("pairs", *(("sums",) * self.steps)) * self.looks + ("pairs",)

    @property
    def exchanges(self) -> int:
        """Exchanges of a round."""
        return len(self.round_steps)

    @property
    def units(self) -> int:
        """Units of the budget that a round may spend."""
        return sum(UNITS[step] for step in self.round_steps)

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        return flatten(None, memory=Memory.start(self.n_sites), noise=0.0)

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's answer; an honest one is refused once in 10^9 answers."""
        if context.exchange and not down:
            return {}
        K = len(down["means"]) if down else 1
        return self.noise.spec(self.round_steps[context.exchange], K)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the rows of this round, with noise."""
        if context.exchange and not down:  # nothing is left to ask in this round
            return state, {}, {}
        who = -1 if context.client is None else context.client
        rows = as_examples(self.source.examples(context.round, max(who, 0)), gaps=True)
        if rows.shape[1] != self.n_sites:
            raise DataError(f"examples have {rows.shape[1]} columns, not {self.n_sites}")
        step = self.round_steps[context.exchange]
        asked = down or first_question(self.n_sites)
        key = self._key(rows, question_name(step, asked), context, who)
        return state, self.noise.answer(step, rows, asked, key), {}

    def _key(
        self, rows: PackedBits | MaskedBits, question: str, context: Context, who: int
    ) -> bytes:
        """Key of the noise: the secret, and everything that makes an answer another one."""
        # A client that has a secret is alone with it, whatever its number in a federation.
        source = f"secret {self.secret}" if self.secret else f"seed {context.seed} client {who}"
        budget = f"{float(self.epsilon).hex()} {float(self.delta).hex()} {self.units}"
        asked = f"classes {source} round {context.round} budget {budget} question {question} rows "
        words = rows.words if isinstance(rows, PackedBits) else rows.signs.words
        if isinstance(rows, MaskedBits):
            words = np.hstack([words, rows.seen.words])
        in_order = words[np.lexsort(words.T)]
        return asked.encode() + hashlib.sha256(in_order.tobytes()).digest()

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer the clients."""
        method = wary(self, len(messages), context.asked)
        return hear(method, state, messages, context)


def first_question(n_sites: int) -> Message:
    """What is asked where nothing is known: of a single class."""
    return {"means": np.zeros((1, n_sites), np.float32), "shares": np.ones(1, np.float32)}


def question_name(step: str, down: Message) -> str:
    """Name a question by all that an answer depends on, beside the rows."""
    found = hashlib.sha256(f"{step} {down['means'].shape}".encode())
    for name in ("means", "shares"):
        numbers = np.ascontiguousarray(down[name], dtype="<f8") + 0.0  # -0.0 is no other number
        found.update(numbers.tobytes())
    return found.hexdigest()
