"""Clients: they answer a server's questions about patterns, or about classes.

A server describes a client to another machine in a `Recipe`: JSON, which holds no code.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

import hopfed.hopfield.class_questions as questions
import hopfed.hopfield.operator_messages as encoding
from hopfed import kernels
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import check_types, from_plain, require, to_plain
from hopfed.archetypes.patterns import group_projections
from hopfed.errors import DataError, HopfedError, safe_line
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, require_form
from hopfed.hopfield.example_sources import BatchSource, Blocks, RemoteSource, Source, SummedAnswer
from hopfed.hopfield.noise import NUMBERS, STEPS, UNITS, ClassNoise, Noise, add_noise
from hopfed.hopfield.plasticity import Broadcast, Fixed, Rule
from hopfed.kernels import Rows
from hopfed.kernels.examples import as_examples
from hopfed.privacy.integer_noise import noise_bound
from hopfed.spectral.operators import DenseOperator
from hopfed.spectral.rows import times, transposed_times
from hopfed.theory.discrete_gaussian import least_variance

LIMITS: dict[str, tuple[float, float]] = {
    **{"n_sites": (1, 2**24), "rounds": (1, 2**63 - 1), "looks": (1, 100), "groups": (0, 2**13)},
    **{"factors": (0, 2**24), "epsilon": (0, math.inf), "delta": (0, 1)},
}
MOST_NUMBERS = 2**22  # most numbers in an answer about groups
MOST_PATTERNS, LARGEST = 50, 2**23  # patterns of any width; of more, entries of all patterns
FRESH = Fixed(1.0)  # the rule of clients on other machines
SPREADS = 4.0  # standard deviations by which the overlap of a voting example may be below its mean


def vote(rows: Rows, memory: Broadcast, sure: np.ndarray) -> Message:
    """A client's answer with its votes: sums of the examples nearest to each remembered pattern."""
    K, N = memory.patterns.shape
    if K == 0:
        return {"votes": np.zeros((0, N), np.int32), "voters": np.zeros(0, np.int32)}
    patterns = memory.patterns.T.astype(np.float32)
    r = np.clip(memory.quality * sure, 0.0, 1.0)
    floor = np.maximum(r - SPREADS * np.sqrt((1 - r * r) / N), r / 2)

    def of_block(part: Rows) -> SummedAnswer:
        overlap = times(part, patterns) / N
        nearest = np.abs(overlap).argmax(axis=1)
        at = np.arange(len(nearest)), nearest
        chosen = np.zeros_like(overlap)
        chosen[at] = np.where(np.abs(overlap[at]) >= floor[nearest], np.sign(overlap[at]), 0.0)
        votes = np.rint(transposed_times(part, chosen)).T.astype(np.int32)
        return SummedAnswer(votes=votes, voters=np.abs(chosen).sum(axis=0).astype(np.int32))

    return dict(Blocks(**vars(rows), each=32 * K).total(of_block))


@dataclass(frozen=True)
class Recipe:
    """Settings by which a server describes its clients to another machine, as JSON."""

    n_sites: int
    graded: bool = False  # sums over classes in place of operators
    rounds: int = 1  # number of parts into which clients divide their rows
    epsilon: float = math.inf  # epsilon, delta: of the noise on all answers; infinite for none
    delta: float = 1e-5
    groups: int = 0  # groups, votes: of a `hopfed.hopfield.clients.PatternClient`
    votes: bool = False
    factors: int = 0
    looks: int = 1  # of a `hopfed.hopfield.clients.ClassClient`

    def __post_init__(self) -> None:
        check_types(self)
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            require(least <= value <= most, name, f"from {least:g} to {most:g}", value)


@dataclass(frozen=True)
class Client:
    """Common part of the clients for patterns and for classes: their rows, and the recipe."""

    source: Source  # the rows of each round
    n_sites: int  # columns N

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """Return an empty state: a client has none before its first round."""
        return {}

    @property
    def recipe(self: Any) -> str:
        """Recipe from which another machine makes this client, with rows of its own."""
        if not isinstance(self.source, RemoteSource) or getattr(self, "rule", FRESH) != FRESH:
            raise DataError(f"{type(self).__name__}: it cannot be sent to another machine")
        names = ("groups", "votes", "factors", "looks")
        own = {n: getattr(self, n) for n in names if hasattr(self, n)}
        own |= {n: getattr(self.noise, n) for n in ("epsilon", "delta") if self.noise is not None}
        graded = isinstance(self, ClassClient)
        return json.dumps(to_plain(Recipe(self.n_sites, graded, self.source.rounds, **own)))


@dataclass(frozen=True)
class PatternClient(Client):
    """Client of a federation of patterns: answers with operators, projections and votes."""

    # rule, ema: plasticity of a client, its weight w on fresh examples, and how fast w changes
    rule: Rule = FRESH
    ema: float = 1.0
    groups: int = 4  # random groups of its rows, whose projections it sends; 0 for none
    votes: bool = True  # whether it votes
    noise: Noise | None = None  # on its operators; then it sends nothing else
    factors: int = 0  # number of leading eigenpairs that it sends; 0 for exact counts

    def __post_init__(self) -> None:
        require(self.n_sites >= 1, "n_sites", "at least 1", self.n_sites)
        fits = 0 <= self.factors <= self.n_sites
        require(fits, "factors", f"0 to the {self.n_sites} columns", self.factors)
        _ = self.variance  # checks the budget

    @cached_property
    def variance(self) -> int:
        """Parameter of the noise on each count; 0 without."""
        of = self.noise
        return 0 if of is None else least_variance(of.epsilon, of.delta, self.n_sites)

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of a round's exchanges."""
        if self.noise is not None:
            return ("operators",)
        return ("operators", *(("projections",) * (self.groups > 0)), *(("votes",) * self.votes))

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's answer; an honest answer with noise is refused once in 10^9."""
        N, step = self.n_sites, self.steps[context.exchange]
        if self.noise is not None:
            numbers = N * (N - 1) // 2
            room = noise_bound(self.variance, numbers)
            counts = Field((numbers,), "i", within="examples", beyond=room)
            return {"counts": counts, "examples": replace(encoding.EXAMPLES, least=2)}
        if step == "operators":
            columns = Field((N,), "iu", within="examples")
            weight = Field((), "f", least=0.0, most=1 + 1e-9)
            own = {"examples": encoding.EXAMPLES, "columns": columns, "weight": weight}
            if not self.factors:
                return {"counts": Field((N * (N - 1) // 2,), "fi", within="examples"), **own}
            slack = 1 + encoding.WIRE
            values = Field(("factors",), "f", least=-encoding.WIRE, most=N * slack)
            vectors = Field(("factors", N), "f", least=-slack, most=slack)
            return {"values": values, "vectors": vectors, **own}
        if step == "projections":
            K = down["basis"].shape[1]
            triangles = Field((self.groups, K * (K + 1) // 2), "f")
            return {"groups": triangles, "sizes": Field((self.groups,), "iu")}
        K = len(down["patterns"])
        return {"votes": Field((K, N), "iu"), "voters": Field((K,), "iu")}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the examples of this round."""
        step, client = self.check(down, context), context.client or 0
        rows = self.source.examples(context.round, client)
        rows = rows if isinstance(rows, Rows) else kernels.pack(np.asarray(rows))
        fits = rows.shape[1] == self.n_sites and not rows.gaps
        require(fits, "examples", f"complete, of {self.n_sites} columns", rows.shape)
        if self.noise is not None:
            exact = encoding.lower_triangle(np.asarray(DenseOperator.from_examples(rows).matrix))
            key = self.noise.key(rows, context, f"sites {self.n_sites} budget {self.noise.words}")
            counts = add_noise(np.rint(exact).astype(np.int64), self.variance, len(rows), key)
            return state, {"counts": counts, "examples": np.array(len(rows))}, {}
        if step == "projections":
            V, seed = down["basis"], context.derive("projections")
            blocks, K = Blocks(**vars(rows), each=16 * V.shape[1]), V.shape[1]
            full, sizes = group_projections(blocks, V, self.groups, seed, client, np.float32)
            sums = full[:, np.tri(K, dtype=bool)].astype(np.float32)  # lower triangles
            return state, {"groups": sums, "sizes": sizes.astype(np.int32)}, {}
        known = Broadcast(np.zeros((0, self.n_sites), np.int8), 1.0)
        if down:  # the server's memory; there is none before the first broadcast
            patterns = encoding.unpack_patterns(down["patterns"], self.n_sites)
            known = Broadcast(patterns, float(np.clip(down["quality"], 1e-3, 1.0)))
        if step == "votes":
            return state, vote(rows, known, down["sure"]), {}
        seed = context.derive("plasticity")
        weight = self.rule(rows, known, seed) if len(known.patterns) else 1.0
        before = float(state.get("plasticity", weight))
        smooth = np.array(before + self.ema * (weight - before))
        columns = kernels.column_sums(rows).astype(np.int32)
        message = encoding.encode(rows, self.factors) | {"columns": columns, "weight": smooth}
        return {**state, "plasticity": smooth}, message, {"weight": float(smooth)}

    def check(self, down: Message, context: Context) -> str:
        """Return the name of the step; fail unless the server's message has the step's form."""
        step, N = self.steps[context.exchange], self.n_sites
        if step == "operators":  # a server may ask for more than memory holds
            require_memory(24 * N * (self.factors or N), "operators")
        if self.noise is not None or (step == "operators" and not down):
            return step
        if step == "projections":
            require_form(down, {"basis": Field((N, None), "f")})
            K = down["basis"].shape[1]
            many, kind = N < K or self.groups * K * (K + 1) // 2 > MOST_NUMBERS, "directions"
        else:
            packed = {"patterns": Field(("patterns", -(-N // 8)), "u", most=255)}
            known = {"sure": Field(("patterns",), "f"), "quality": Field((), "f")}
            require_form(down, packed | known)
            K = len(down["patterns"])  # unpacked they would fill the memory
            most = max(MOST_PATTERNS, LARGEST // N)
            many, kind = min(most, encoding.MOST_PATTERNS * N) < K, "patterns"
        if many:
            raise DataError(f"{K:,} {kind} of {N:,} columns, which are too many")
        return step


@dataclass(frozen=True)
class ClassClient(Client):
    """Client of a federation of classes: answers with sums over classes, exact or with noise."""

    noise: Noise | None = None  # on its sums; None for exact sums
    looks: int = 2  # searches in a round with noise, which share the budget

    def __post_init__(self) -> None:
        _ = self.noise and self.hiding  # checks the budget

    @property
    def round_steps(self) -> tuple[str, ...]:
        """Names of the exchanges of a round with noise."""
        return ("pairs", *(("sums",) * STEPS)) * self.looks + ("pairs",)

    @property
    def units(self) -> int:
        """Units of the budget that a round may spend."""
        return sum(UNITS[step] for step in self.round_steps)

    @cached_property
    def hiding(self) -> ClassNoise:
        """Mechanism that adds the noise."""
        noise = cast(Noise, self.noise)
        return ClassNoise(self.n_sites, noise.epsilon, noise.delta, self.units)

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of the answer to a question, within bounds that all rows obey."""
        if self.noise is not None:
            K = len(down["means"]) if down else 1
            return self.hiding.spec(self.round_steps[context.exchange], K)
        return questions.answer_spec(down or questions.first_question(self.n_sites), self.n_sites)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the rows of this round."""
        down, client = self.check(down, context), context.client or 0
        relates, outcome = self.noise is None and questions.asked(down) in questions.RELATED, None
        if ("every" in down or relates) and isinstance(self.source, BatchSource):  # of any round
            given, outcome = self.source.everything(client)
        else:
            given = self.source.examples(context.round, client)
        rows = as_examples(given, gaps=True, least=1)
        if rows.shape[1] != self.n_sites:
            raise DataError(f"examples have {rows.shape[1]} columns, not {self.n_sites}")
        if self.noise is None:
            return state, questions.answer(rows, down, client, outcome if relates else None), {}
        step, shape = self.round_steps[context.exchange], down["means"].shape
        found = hashlib.sha256(f"{step} {shape}".encode())  # of all that an answer depends on
        for part in ("means", "shares"):
            array = np.ascontiguousarray(down[part], dtype="<f8") + 0.0  # -0.0 becomes 0.0
            found.update(array.tobytes())
        name = found.hexdigest()
        if self.noise.spend is not None:
            self.noise.spend(context.round, name, UNITS[step])
        about = f"budget {self.noise.words} {self.units} question {name}"
        key = self.noise.key(rows, context, about, "classes ")
        return state, self.hiding.answer(step, rows, down, key), {}

    def check(self, down: Message, context: Context) -> Message:
        """Return the question in a server's message; fail if it is none."""
        down = down or questions.first_question(self.n_sites)
        questions.check_question(down, self.n_sites, self.noise is None)
        if self.noise is not None:
            pairs, (K, N) = self.round_steps[context.exchange] == "pairs", down["means"].shape
            if 1 + K * (2 * N + 1 + pairs * N * (N - 1) // 2) > NUMBERS:
                raise DataError(f"{K:,} classes of {N:,} columns: too many for one answer")
        return down


def client_from_recipe(recipe: str) -> PatternClient | ClassClient:
    """Return the client that a server's recipe describes; DataError if it is malformed."""
    try:
        how = from_plain(Recipe, json.loads(recipe))
    except (HopfedError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"not a recipe of this hopfed: {safe_line(error, 120)}") from None
    source = RemoteSource(how.rounds)
    noise = None if how.epsilon == np.inf else Noise(how.epsilon, how.delta)
    if how.graded:
        return ClassClient(source, how.n_sites, noise, how.looks)
    own: Any = {name: getattr(how, name) for name in ("groups", "votes", "factors")}
    return PatternClient(source, how.n_sites, noise=noise, **own)
