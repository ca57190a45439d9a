"""The channel of patterns: archetypes of +-1, of which rows are noisy copies.

1. Clients send operators. Weighted by plasticity, they join the evidence, whose spectrum is
   counted; with noise the server asks for nothing else. It sends a basis.
2. Clients send projections: joint diagonalisation, search and exposure fit find archetypes; new
   ones are remembered, and less certain ones renewed. The server sends the archetypes.
3. Clients send votes: sums of the examples nearest to each archetype, which make patterns exact.

Source: arXiv:2603.19902, Sections 2.2 and 3; theory/NOTES.md, "Hebbian operators", "Counting",
"Factorisation", "Plasticity", "Privacy noise". If clients may lie, archetypes that explain all but
some clients are found by a step of least trimmed squares from each of some groups (P. J. Rousseeuw,
J. Amer. Statist. Assoc. 79 (1984) 871).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

import hopfed.hopfield.operator_evidence as backing
import hopfed.hopfield.operator_messages as encoding
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.patterns import Groups, Method, Search, factorize
from hopfed.archetypes.votes import orient_patterns
from hopfed.federation.contract import EVERYONE, Metrics, State
from hopfed.federation.messages import Message, flatten, part_of
from hopfed.federation.rounds import Session, Step
from hopfed.hopfield.announcement import STATUS
from hopfed.hopfield.byzantine_guard import LEVEL, PATIENCE, Guard, bound_claims, trimmed_mean
from hopfed.hopfield.class_verdict import FITTING, UNFIT
from hopfed.hopfield.clients import PatternClient
from hopfed.hopfield.example_sources import Source
from hopfed.hopfield.noise import Noise
from hopfed.hopfield.operator_evidence import MEMORIES, Counted, Evidence
from hopfed.hopfield.pattern_memory import PatternMemory, gets_own_votes, sum_votes
from hopfed.hopfield.plasticity import Fixed, Rule
from hopfed.privacy.integer_noise import norm_bound
from hopfed.privacy.private_operator import PrivateOperator
from hopfed.privacy.private_spectrum import PRIVATE_SEARCH
from hopfed.spectral.operators import DenseOperator, HebbianOperator

__all__ = ["Patterns"]

FEWEST = 5  # least examples of a pattern among clients without its strongest supporters
LIGHTEST = 1e-9  # weight below which a client does not count
EFFORT = 5e6  # most steps of a search that is bounded, for each direction
COUNTED = 2_048  # columns up to which clients send counts; of more, leading factors
FACTORS = 64  # number of leading factors
TOP = 16  # leading eigenvalues that the metrics of a round keep


@dataclass(frozen=True)
class Patterns:
    """Channel of patterns: archetypes of +-1, found and remembered over rounds.

    Attributes
    ----------
    n_sites : columns N.
    rule : plasticity of a client, its weight w on fresh examples.
    ema : share a, in (0, 1], of ``w + a (w_new - w)`` from round to round (eq. (52)).
    memory : "separate" or "common", see `hopfed.hopfield.operator_evidence`.
    discount : share of the evidence that is left after a round, in [0, 1].
    alpha : false-alarm rate of each round's count.
    groups : random groups of each client for joint diagonalisation; 0 leaves that exchange out.
    votes : whether clients vote on the patterns, one more exchange; a pattern without a single
        vote is dropped. Votes count where examples can be separated.
    search : settings of the search.
    factoriser : method that finds patterns, one of `hopfed.archetypes.patterns.METHODS`, or a
        baseline such as `hopfed.experiments.shared.paper_factorisation.published_patterns`.
    factors : number of leading eigenpairs that a client sends, at most N; 0 for exact counts of
        pairs of columns, as with noise. By default 0 up to 2,048 columns, 64 beyond.

    A setting outside of its range is an ArgumentError.

    Examples
    --------
    >>> Patterns(100, groups=0).memory
    'separate'
    """

    n_sites: int
    rule: Rule = field(default_factory=lambda: Fixed(1.0))
    ema: float = 1.0
    memory: str = "separate"
    discount: float = 0.5
    alpha: float = 1e-3
    groups: int = 4
    votes: bool = True
    search: Search | None = None
    factoriser: Method = "auto"
    factors: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        require(callable(self.rule), "rule", "a rule of plasticity", repr(self.rule))
        require(self.memory in MEMORIES, "memory", f"one of {', '.join(MEMORIES)}", self.memory)
        require(0 < self.ema <= 1, "ema", "in (0, 1]", self.ema)
        require(0 <= self.discount <= 1, "discount", "in [0, 1]", self.discount)
        require(0 < self.alpha < 1, "alpha", "in (0, 1)", self.alpha)
        require(self.groups >= 0, "groups", "at least 0", self.groups)

    def client(self, source: Source, noise: Noise | None) -> PatternClient:
        """Return a client of the federation, with rows of a `source` and `noise` on its answers."""
        if noise is not None:
            return PatternClient(source, self.n_sites, noise=noise)
        usual = 0 if self.n_sites <= COUNTED else FACTORS
        factors = usual if self.factors is None else self.factors
        own = self.rule, self.ema, self.groups, self.votes
        return PatternClient(source, self.n_sites, *own, factors=factors)

    def start(self) -> State:
        """State of the server before the first round: no pattern is remembered."""
        return flatten(PatternMemory.of(np.zeros((0, self.n_sites)), np.zeros(0), 0), "memory")

    def play(self, state: State, session: Session, client: PatternClient, guard: Guard) -> Step:
        """Play a round from a `state`: ask the clients of a `session`, checked by a `guard`."""
        heard = session.ask(check=lambda _, m: _operator_complaint(client, guard, m))
        round_ = _Round(self, state, heard, session, client, guard)
        groups = round_.projected(session) if "projections" in client.steps else None
        memory = round_.remembered(groups, session.context.derive("factorize"))
        if "votes" in client.steps:
            down, claims = {EVERYONE: round_.broadcast(memory)}, round_.claims
            votes = session.ask(down, lambda c, m: encoding.votes_complaint(m, claims.get(c, 0)))
            memory = round_.voted(memory, votes)
        return round_.closed(memory)


def _operator_complaint(client: PatternClient, guard: Guard, message: Message) -> str | None:
    """Say why no rows, even with noise, can give a client's operator; None if some can."""
    if client.noise is None:
        return encoding.operator_complaint(message, client.factors, guard.check)
    N, M = client.n_sites, float(message["examples"])
    room = norm_bound(client.variance, N)
    released = encoding.symmetric_matrix(message["counts"], N, M)
    if not encoding.semidefinite(released, room, M + room):
        return "counts have an eigenvalue below those of examples and noise"
    if not encoding.semidefinite(-released, N * M + room, N * M + room):
        return "counts have an eigenvalue above those of examples and noise"
    return None


class _Round:
    """A round of patterns at the server, after the operators: evidence, count and metrics."""

    def __init__(
        self,
        channel: Patterns,
        state: State,
        heard: Mapping[int, Message],
        session: Session,
        client: PatternClient,
        guard: Guard,
    ):
        self.channel, self.t, self.state = channel, session.t, state
        self.guard = guard.with_absent(len(heard), session.asked)
        self.claims = {c: int(m["examples"]) for c, m in heard.items()}
        self.heard = bound_claims(heard, guard)
        self.operators, self.weights = dict[int, HebbianOperator](), dict[int, float]()
        self.factors = client.factors
        for c, m in self.heard.items():
            operator = encoding.decode(m, channel.n_sites)
            if client.noise is not None:
                noise = (float(m["examples"]) / self.claims[c]) ** 2 * client.variance
                operator = PrivateOperator(**vars(operator), noise=noise)
            claimed = float(np.clip(m.get("weight", 1.0), 0.0, 1.0))
            claimed *= claimed >= LIGHTEST  # below it, shares of examples are no numbers
            self.operators[c] = operator
            self.weights[c] = claimed * channel.discount ** session.ages.get(c, 0)
        held = Evidence.unflatten(channel.n_sites, part_of(state, "evidence"), self.factors)
        held = held.discounted(channel.discount)
        self.evidence = held.extend(self.operators, self.heard, self.weights)
        self.before = PatternMemory(**part_of(state, "memory"))
        self.how = channel.alpha, channel.memory, self.before.patterns
        self.counted = Counted.of(self.evidence, self.operators, self.weights, *self.how)
        usual = self.counted.rank.variance
        self.noise = [self.counted.variances.get(c, usual) for c in self.operators]
        self.quality = float(state.get("quality", 0.0))
        known = sorted(v for c, v in self.counted.variances.items() if c in self.weights)
        if self.counted.rank.n_detected:
            self.quality = self.counted.rank.quality
            if self.guard.byzantine > 0 and known:  # if some may lie, the median client's
                self.quality = float(np.sqrt(max(1.0 - known[len(known) // 2], 0.0)))
        self.known = {name: state[name] for name in ("secret",) if name in state}
        if self.counted.rank.n_detected or "quality" in state:
            self.known["quality"] = np.array(self.quality)
        self.silent = False  # whether clients that claimed examples did not vote
        values, rank = np.full(TOP, np.nan), self.counted.rank
        values[: len(self.counted.spectrum.values)] = self.counted.spectrum.values[:TOP]
        claims = [[c, self.claims[c], float(m["examples"])] for c, m in self.heard.items()]
        self.metrics: Metrics = {"n_detected": rank.n_detected, "quality": rank.quality}
        self.metrics |= {"eigenvalues": values, "examples": self.evidence.n_examples}
        self.metrics["claims"] = np.array(claims)

    def projected(self, session: Session) -> Groups | None:
        """Ask for group projections, and bring each to the common noise variance."""
        basis, N = self.counted.spectrum.vectors.astype(np.float32), self.channel.n_sites

        def complaint(c: int, message: Message) -> str | None:
            claim, expected, check = self.claims[c], None, self.guard.check
            if check and not self.factors:
                expected = claim * (basis.T @ self.operators[c].matmat(basis))
            return encoding.projections_complaint(message, claim, N, expected, check)

        answers = session.ask({EVERYONE: {"basis": basis}}, complaint)
        K, common = self.counted.rank.n_detected, self.counted.rank.variance
        sums, counts = [], []
        for c, message in answers.items() if K else ():
            weight = self.weights[c] * float(self.heard[c]["examples"]) / self.claims[c]
            sizes = message["sizes"].astype(np.float64)
            excess = self.counted.variances.get(c, common) - common
            full = encoding.unfold_triangles(message["groups"])
            sums.append((full - sizes[:, None, None] * excess * np.eye(K)) * weight)
            counts.append(sizes * weight)
        return Groups(np.concatenate(sums), np.concatenate(counts)) if sums else None

    def remembered(self, groups: Groups | None, seed: int) -> PatternMemory:
        """Factor the spectrum, and bring the remembered archetypes up to date."""
        memory, rank = self.before, self.counted.rank
        found = self._agreed(self._factored(self.counted, groups, seed), seed)
        matches, sure = found.matches, found.expected_overlaps
        if self.channel.memory == "separate":
            memory = memory.renew(found.patterns, sure, matches)
        elif rank.n_detected:  # the paper's memory is the operator: forget unmatched patterns
            memory = memory.select(matches >= 0)
        new = np.setdiff1d(np.arange(len(found)), matches)
        memory = memory.learn(found.patterns[new], sure[new], self.t)
        if self.evidence.columns.any():  # new patterns get the sign of the mean example
            usual = self.evidence.columns / cast(HebbianOperator, self.evidence.operator).mass
            if cut := self.guard.cut(len(self.heard)):  # the mean of this round without extremes
                sums = [m["columns"] / float(m["examples"]) for m in self.heard.values()]
                usual = trimmed_mean(np.array(sums), 1.0, cut)
            turned, new = orient_patterns(memory.patterns, usual), memory.voters == 0
            memory = replace(memory, patterns=np.where(new[:, None], turned, memory.patterns))
        fits = []
        for c, op in () if self.factors else self.operators.items():
            m = self.heard[c]
            mean = m["columns"] / float(m["examples"]) if "columns" in m else None
            fits.append(backing.misfit(cast(DenseOperator, op), memory.patterns, mean))
        # The median client's: a few liars do not decide.
        typical = float(np.sort(fits)[len(fits) // 2]) if fits else np.nan
        self.metrics |= {"misfit": typical, "status": found.status, "advice": found.advice}
        return self._confirmed(memory) if len(memory) and self.heard else memory

    def _factored(self, counted: Counted, groups: Groups | None, seed: int) -> Archetypes:
        """Find archetypes in a counted spectrum."""
        private = isinstance(self.evidence.operator, PrivateOperator)
        search = PRIVATE_SEARCH if private else self.channel.search
        if self.guard.byzantine > 0:  # a liar can add many directions
            most = EFFORT * max(counted.rank.n_detected, 1)
            search = replace(search or Search(), most=most)
        how: Any = {"groups": groups, "method": self.channel.factoriser, "search": search}
        how |= {"known": self.before.patterns, "sure": self.before.sure}
        return factorize(counted.spectrum, counted.rank, seed=seed, **how)

    def _agreed(self, found: Archetypes, seed: int) -> Archetypes:
        """Return `found`, or archetypes that explain all but the suspects much better."""
        clients, K, N = list(self.operators), self.counted.rank.n_detected, self.channel.n_sites
        byzantine = self.guard.suspects(len(clients))
        kept = len(clients) - byzantine
        if byzantine == 0 or kept < 2 or K == 0:
            return found

        def explained(patterns: np.ndarray) -> tuple[list[int], float]:
            """Clients whose operators patterns explain best, and the rest of these operators."""
            about = self.operators.values(), self.counted.spectrum.vectors, self.noise
            left = backing.fit_operators(*about, patterns)[1]
            order = np.argsort(left, kind="stable")[:kept]
            return [clients[i] for i in order], float(left[order].sum())

        def factored(some: Sequence[int]) -> Archetypes:
            """Archetypes in the fresh operators of some clients."""
            part, fresh = {c: self.operators[c] for c in some}, Evidence(N, self.factors)
            fresh = fresh.extend(part, self.heard, self.weights)
            return self._factored(Counted.of(fresh, part, self.weights, *self.how), None, seed)

        number = kept * max(K * (K + 1) / 2 - len(found), 1.0)
        left = explained(found.patterns)[1]
        if left <= number + LEVEL * np.sqrt(2 * number):
            return found
        for part in np.array_split(np.array(clients), min(2 * byzantine + 1, len(clients))):
            others = factored(explained(factored(part.tolist()).patterns)[0])
            if (less := explained(others.patterns)[1]) < left - LEVEL**2:
                found, left = others, less
        return found

    def _confirmed(self, memory: PatternMemory) -> PatternMemory:
        """Note which patterns the operators of this round support; drop unsupported patterns."""
        operators, each = list(self.operators.values()), list(self.weights.values())
        byzantine = self.guard.suspects(len(operators))
        fixed = backing.correct_patterns(memory.patterns, operators, each, byzantine)
        unasked = (memory.voters == 0)[:, None]
        memory = replace(memory, patterns=np.where(unasked, fixed, memory.patterns))
        own, held = np.ones(len(memory), dtype=bool), np.zeros(len(memory))
        if byzantine:  # beside spare directions, an archetype may have no direction of its own
            basis = np.linalg.qr(memory.patterns.T.astype(np.float64))[0]
            weights, _ = backing.fit_operators(operators, basis, self.noise, memory.patterns)
            rows = np.array([op.n_examples for op in operators])
            needed = np.sort(rows[:, None] * weights, axis=0)[:-byzantine].sum(axis=0)
            sway = np.sqrt(2 * rows**2 @ [*map(backing.added_noise, operators)])
            own = needed >= FEWEST * self.quality**2 + LEVEL * sway / self.channel.n_sites
        support = backing.Support.of(operators, memory.patterns[own], each, self.noise)
        shown = own.copy()
        shown[own], held[own] = support.scores() > LEVEL, support.behind(self.quality)
        if byzantine:
            shown[own] &= support.doubted(byzantine) > LEVEL
        if self.guard.quorum > 0:
            groups = backing.random_groups(len(operators), int(self.state["secret"]), self.t)
            shown[own] &= support.agreement(groups) >= self.guard.quorum
        memory = memory.confirm(shown, self.t)
        memory = replace(memory, held=memory.held * self.channel.discount + held)
        kept = (memory.rounds >= self.guard.persistence) | (self.t - memory.seen < PATIENCE)
        every = backing.Support.of(operators, memory.patterns, each, self.noise)
        supported = (every.alone() > LEVEL)[:, kept].sum(axis=1)
        self.metrics["supports"] = np.column_stack([list(self.heard), supported])
        return memory.select(kept)

    def voted(self, memory: PatternMemory, answers: Mapping[int, Message]) -> PatternMemory:
        """Add the votes of a round to the patterns that were broadcast."""
        public = np.flatnonzero(self.published(memory))
        examples = {c: float(m["examples"]) for c, m in self.heard.items()}
        shape, byzantine = (len(public), self.channel.n_sites), self.guard.suspects(len(answers))
        votes = sum_votes(answers, self.weights, examples, shape, byzantine)
        clear = gets_own_votes(memory.sure[public], self.quality, self.channel.n_sites)
        memory = memory.vote([each[clear] for each in votes], self.quality, public[clear])
        asked = np.isin(np.arange(len(memory)), public[clear])
        # Rows of clients that claim examples and do not vote are like no pattern.
        self.silent = bool(set(self.heard) - {c for c, m in answers.items() if m["voters"].any()})
        if not self.silent:  # a pattern without votes then is noise above the edge
            memory = memory.select((memory.voters > 0) | ~asked)
        return memory.merged()

    def published(self, memory: PatternMemory) -> np.ndarray:
        """Whether patterns are broadcast, bool (K,): confirmed often enough, by enough examples."""
        behind = np.where(memory.voters > 0, memory.voters, memory.held)
        behind = np.maximum(behind, memory.held) if self.silent else behind
        return (memory.rounds >= self.guard.persistence) & (behind >= self.guard.support)

    def broadcast(self, memory: PatternMemory) -> Message:
        """Return the message to all clients: the published patterns, as bits."""
        public = self.published(memory)
        quality = np.asarray(self.known.get("quality", 1.0), dtype=np.float32)
        sure = memory.sure[public].astype(np.float32)
        patterns = encoding.pack_patterns(memory.patterns[public])
        return {"patterns": patterns, "sure": sure, "quality": quality}

    def closed(self, memory: PatternMemory) -> Step:
        """Return the state after the round, the message to all, and metrics with the verdict."""
        public, metrics = self.published(memory), self.metrics
        confirmed = memory.rounds >= self.guard.persistence
        metrics["unconfirmed"] = int((~confirmed).sum())
        metrics["unsupported"] = int((confirmed & ~public).sum())
        withheld, good = metrics["n_detected"] - int(public.sum()), metrics["status"] == "ok"
        if metrics["misfit"] > 1:
            metrics |= {"status": "poor fit", "advice": UNFIT}
        elif good and withheld > 0:
            more = f"{withheld} more were found, and are not broadcast."
            metrics |= {"status": "incomplete", "advice": more}
        elif good and (self.factors or isinstance(self.evidence.operator, PrivateOperator)):
            metrics |= {"status": STATUS, "advice": FITTING}
        state = self.known | flatten(memory, "memory")
        if self.channel.discount > 0:  # at 0 the next round does not use it
            state |= {f"evidence/{k}": v for k, v in self.evidence.flatten().items()}
        return state, {EVERYONE: self.broadcast(memory)}, metrics
