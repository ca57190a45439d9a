"""What clients answer: about patterns and about classes.

A server tells another machine what to answer in a `Recipe`: JSON, in which nothing is code. Its
fields are all that a server may set, each within its range.

Source: theory/NOTES.md, "Hebbian operators", "Plasticity", "Latent class channel".
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from hopfed import kernels
from hopfed._lib.settings import check_types, from_plain, require, to_plain
from hopfed.archetypes.factorize import group_projections
from hopfed.errors import ArgumentError, DataError, HopfedError, shown
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, require_form
from hopfed.hopfield.class_questions import (
    RELATED,
    answer,
    answer_spec,
    asked,
    check_question,
    first_question,
)
from hopfed.hopfield.encoding import MOST_EXAMPLES, MOST_PATTERNS, Encoding, lower, unpack_patterns
from hopfed.hopfield.noise import NUMBERS, UNITS, ClassNoise, Noise, hidden
from hopfed.hopfield.plasticity import Broadcast, Fixed, Rule
from hopfed.hopfield.stream import Batches, Elsewhere, Source
from hopfed.kernels import Rows
from hopfed.privacy.discrete_gaussian import reach
from hopfed.spectral.operators import DenseOperator
from hopfed.spectral.rows import times, transposed_times
from hopfed.tables.examples import as_examples
from hopfed.theory.discrete_gaussian import least_variance

SHOWN = 120  # characters of an error about a recipe
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("n_sites", "width"), (1, 2**24)),
    **dict.fromkeys(("looks", "steps"), (1, 100)),
    **dict.fromkeys(("weight", "ema", "delta"), (0, 1)),
    "rounds": (1, 2**63 - 1),
    "groups": (0, 2**20),
    "epsilon": (0, math.inf),
}
MOST_NUMBERS = 2**26  # in an answer about groups
SPREADS = 4.0  # standard deviations by which the overlap of a voting example may be below its mean


def broadcast_of(down: Message, n_sites: int) -> Broadcast:
    """Read what the server says it remembers; nothing before the first broadcast."""
    if "patterns" not in down:
        return Broadcast(np.zeros((0, n_sites), np.int8), 1.0)
    patterns = unpack_patterns(down["patterns"], n_sites)
    return Broadcast(patterns, float(np.clip(down["quality"], 1e-3, 1.0)))


def vote(rows: Rows, memory: Broadcast, sure: np.ndarray) -> Message:
    """Sums of the examples nearest to each remembered pattern."""
    K, N = memory.patterns.shape
    if K == 0:
        return {"votes": np.zeros((0, N), np.int32), "voters": np.zeros(0, np.int32)}
    overlap = times(rows, memory.patterns.T.astype(np.float32)) / N
    r = np.clip(memory.quality * sure, 0.0, 1.0)
    floor = np.maximum(r - SPREADS * np.sqrt((1 - r * r) / N), r / 2)
    nearest = np.abs(overlap).argmax(axis=1)
    at = np.arange(len(nearest)), nearest
    chosen = np.zeros_like(overlap)
    chosen[at] = np.where(np.abs(overlap[at]) >= floor[nearest], np.sign(overlap[at]), 0.0)
    votes = np.rint(transposed_times(rows, chosen)).T
    return {"votes": votes.astype(np.int32), "voters": np.abs(chosen).sum(axis=0).astype(np.int32)}


@dataclass(frozen=True)
class Recipe:
    """Settings of clients; of those of patterns or of classes the others do not count."""

    n_sites: int
    graded: bool = False  # sums over classes, and no operators
    rounds: int = 1  # parts that clients deal their rows out to
    epsilon: float = math.inf  # epsilon, delta: of the noise on all answers; none where infinite
    delta: float = 1e-5
    form: str = "counts"  # form, width: of operators, see `hopfed.hopfield.encoding`
    width: int = 1
    groups: int = 0  # groups, votes, weight, ema: of a `hopfed.hopfield.clients.PatternClient`
    votes: bool = False
    weight: float = 1.0
    ema: float = 1.0
    looks: int = 1  # looks, steps: of a `hopfed.hopfield.clients.ClassClient`
    steps: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            require(least <= value <= most, name, f"from {least:g} to {most:g}", value)
        Encoding(self.n_sites, self.form, self.width)  # checks these


@dataclass(frozen=True)
class StartingClient:
    """A client that has no state before its first round."""

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def _recipe(self: Any, **own: Any) -> str:
        """It as another machine makes it, whose rows it asks for; its `own` settings beside."""
        if not isinstance(self.source, Elsewhere):
            raise DataError(f"a {type(self.source).__name__} cannot be sent to another machine")
        noise = self.noise
        own |= {} if noise is None else {"epsilon": noise.epsilon, "delta": noise.delta}
        return json.dumps(to_plain(Recipe(self.n_sites, rounds=self.source.rounds, **own)))


@dataclass(frozen=True)
class PatternClient(StartingClient):
    """What a client of a federation of patterns does, and all that it knows of the settings."""

    source: Source  # its examples
    encoding: Encoding  # how operators travel
    # rule, ema: plasticity of a client, its weight w on fresh examples, and how fast it follows
    rule: Rule = field(default_factory=lambda: Fixed(1.0))
    ema: float = 1.0
    groups: int = 4  # random groups of its rows, whose projections it tells; 0 for none
    votes: bool = True  # whether it votes
    # on its operators, and nothing else is told then; None for exact ones
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            _ = self.variance  # checks the budget

    @property
    def n_sites(self) -> int:
        """N."""
        return self.encoding.n_sites

    @cached_property
    def variance(self) -> int:
        """Parameter of the noise on each count, where there is any."""
        noise = cast(Noise, self.noise)
        return least_variance(noise.epsilon, noise.delta, self.n_sites)

    @property
    def recipe(self) -> str:
        """What another machine makes it of."""
        if not isinstance(self.rule, Fixed):
            raise DataError(f"a {type(self.rule).__name__} cannot be sent to another machine")
        how: Any = {"form": self.encoding.form, "width": self.encoding.width, "ema": self.ema}
        return self._recipe(weight=self.rule.weight, groups=self.groups, votes=self.votes, **how)

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of a round's exchanges."""
        if self.noise is not None:
            return ("operators",)
        return ("operators", *(("projections",) * (self.groups > 0)), *(("votes",) * self.votes))

    @property
    def exchanges(self) -> int:
        """Exchanges of a round."""
        return len(self.steps)

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of a client's answer; an honest one with noise is refused once in 10^9."""
        N, step = self.n_sites, self.steps[context.exchange]
        if self.noise is not None:
            numbers = N * (N - 1) // 2
            room = reach(self.variance, numbers)
            counts = Field((numbers,), "i", within="examples", beyond=room)
            return {"counts": counts, "examples": Field((), "iu", least=2, most=MOST_EXAMPLES)}
        if step == "operators":
            columns = Field((N,), "iu", within="examples")
            weight = Field((), "f", least=0.0, most=1 + 1e-9)
            return {**self.encoding.spec, "columns": columns, "weight": weight}
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
        step, client = self.steps[context.exchange], context.client
        self._check_question(step, down)
        rows = self.source.examples(context.round, 0 if client is None else client)
        rows = rows if isinstance(rows, Rows) else kernels.pack(np.asarray(rows))
        require(not rows.gaps, "examples", "complete where patterns are looked for", "gaps")
        if rows.shape[1] != self.n_sites:
            rule = f"over the {self.n_sites} sites of the federation"
            raise ArgumentError("examples", rule, rows.shape)
        if self.noise is not None:
            return state, self._released(self.noise, rows, context), {}
        if step == "operators":
            return self._operator(state, rows, down, context)
        if step == "projections":
            seed = context.derive("projections")
            return state, self._projected(rows, down["basis"], seed, client or 0), {}
        return state, vote(rows, broadcast_of(down, self.n_sites), down["sure"]), {}

    def _operator(
        self, state: State, rows: Rows, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """The operator of a batch, with the weight that its plasticity gives it."""
        known = broadcast_of(down, self.n_sites)
        reading = self.rule(rows, known, seed=context.derive("plasticity"))
        before = float(state.get("plasticity", reading.weight))
        smooth = np.array(before + self.ema * (reading.weight - before))
        columns = kernels.column_sums(rows).astype(np.int32)
        message = self.encoding.encode(rows) | {"columns": columns, "weight": smooth}
        metrics = {
            "weight": float(smooth),
            "reading": reading.weight,
            "agreement": reading.agreement,
            "novelty": reading.novelty,
        }
        return {**state, "plasticity": smooth}, message, metrics

    def _projected(self, rows: Rows, basis: np.ndarray, seed: int, client: int) -> Message:
        """``V^T eta^T eta V`` of random groups for a basis V (N, K): their lower triangles."""
        K, filled = basis.shape[1], min(self.groups, max(1, rows.shape[0]))
        sums = np.zeros((self.groups, K * (K + 1) // 2), np.float32)
        counts = np.zeros(self.groups, np.int32)
        basis = basis.astype(np.float64)
        full, sizes = group_projections(rows, basis, filled, seed, client, np.float32)
        sums[:filled], counts[:filled] = full[:, np.tri(K, dtype=bool)], sizes
        return {"groups": sums, "sizes": counts}

    def _released(self, noise: Noise, rows: Rows, context: Context) -> Message:
        """The operator of a batch with noise."""
        exact = lower(np.asarray(DenseOperator.from_examples(rows).matrix))
        key = noise.key(rows, context, f"sites {self.n_sites} budget {noise.words}")
        counts = hidden(np.rint(exact).astype(np.int64), self.variance, len(rows), key)
        return {"counts": counts, "examples": np.array(len(rows))}

    def _check_question(self, step: str, down: Message) -> None:
        """Fail unless a message from the server is of the form that the step reads."""
        if self.noise is not None or (step == "operators" and not down):
            return
        N = self.n_sites
        if step == "projections":
            require_form(down, {"basis": Field((N, None), "f")})
            K = down["basis"].shape[1]
            many = N < K or self.groups * K * (K + 1) // 2 > MOST_NUMBERS
        else:
            packed = {"patterns": Field(("patterns", -(-N // 8)), "u", most=255)}
            known = {"sure": Field(("patterns",), "f"), "quality": Field((), "f")}
            require_form(down, packed | known)
            K = len(down["patterns"])
            many = MOST_PATTERNS * N < K  # unpacked they would fill the memory
        if many:
            what = "directions" if step == "projections" else "patterns"
            raise DataError(f"{K:,} {what} of {N:,} columns, which are too many")


@dataclass(frozen=True)
class ClassClient(StartingClient):
    """What a client of a federation of classes does, and all that it knows of the settings."""

    source: Source  # its rows of each round; entries may be missing
    n_sites: int  # columns N
    noise: Noise | None = None  # on its sums; None for exact ones
    # looks, steps: of a round of sums with noise, see `hopfed.hopfield.noisy_classes`: they are
    # what the budget is divided into
    looks: int = 2
    steps: int = 3

    def __post_init__(self) -> None:
        if self.noise is not None:
            _ = self.hiding  # checks the budget

    @property
    def recipe(self) -> str:
        """What another machine makes it of."""
        return self._recipe(graded=True, looks=self.looks, steps=self.steps)

    @property
    def round_steps(self) -> tuple[str, ...]:
        """Names of the exchanges of a round of sums with noise."""
        return ("pairs", *(("sums",) * self.steps)) * self.looks + ("pairs",)

    @property
    def exchanges(self) -> int:
        """Exchanges of a round, at most."""
        return 100_000 if self.noise is None else len(self.round_steps)

    @property
    def units(self) -> int:
        """Units of the budget that a round may spend."""
        return sum(UNITS[step] for step in self.round_steps)

    @cached_property
    def hiding(self) -> ClassNoise:
        """What adds the noise, where there is any."""
        noise = cast(Noise, self.noise)
        return ClassNoise(self.n_sites, noise.epsilon, noise.delta, self.units)

    def expects(self, down: Message, context: Context) -> Spec:
        """Form of the answer to a question, and the most that rows of +-1 can give."""
        if context.exchange and not down:
            return {}
        if self.noise is not None:
            K = len(down["means"]) if down else 1
            return self.hiding.spec(self.round_steps[context.exchange], K)
        return answer_spec(down or first_question(self.n_sites), self.n_sites)

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server from the rows of this round."""
        if context.exchange and not down:  # nothing is left to ask in this round
            return state, {}, {}
        down = self.question(down)
        client = 0 if context.client is None else context.client
        relates, outcome = self.noise is None and asked(down) in RELATED, None
        if ("every" in down or relates) and isinstance(self.source, Batches):  # of any round
            given, outcome = self.source.everything(client)
        else:
            given = self.source.examples(context.round, client)
        rows = as_examples(given, gaps=True, least=1)
        if rows.shape[1] != self.n_sites:
            raise DataError(f"examples have {rows.shape[1]} columns, not {self.n_sites}")
        if self.noise is not None:
            step, about = self._charged(self.noise, down, context)
            key = self.noise.key(rows, context, about, "classes ")
            return state, self.hiding.answer(step, rows, down, key), {}
        return state, answer(rows, down, client, outcome if relates else None), {}

    def question(self, down: Message) -> Message:
        """Return what is asked; fail unless a message from the server is a question."""
        down = down or first_question(self.n_sites)
        check_question(down, self.n_sites, self.noise is None)
        return down

    def _charged(self, noise: Noise, down: Message, context: Context) -> tuple[str, str]:
        """Kind of a question, and what its noise is made of, once it is charged to a ledger."""
        step, (K, N) = self.round_steps[context.exchange], down["means"].shape
        numbers = 1 + K * (2 * N + 1) + (K * (N * (N - 1) // 2) if step == "pairs" else 0)
        if numbers > NUMBERS:
            raise DataError(f"{K:,} classes of {N:,} columns, which are too many for one answer")
        found = hashlib.sha256(f"{step} {(K, N)}".encode())  # of all that an answer depends on
        for part in ("means", "shares"):
            array = np.ascontiguousarray(down[part], dtype="<f8") + 0.0  # -0.0 is no other number
            found.update(array.tobytes())
        name = found.hexdigest()
        if noise.spend is not None:
            noise.spend(context.round, name, UNITS[step])
        return step, f"budget {noise.words} {self.units} question {name}"


def client_of(recipe: str) -> PatternClient | ClassClient:
    """What a server asks for in a recipe, whoever sent it, of rows that are elsewhere."""
    try:
        how = from_plain(Recipe, json.loads(recipe))
    except (HopfedError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"not a recipe of this hopfed: {shown(error, SHOWN)}") from None
    source = Elsewhere(how.rounds)
    noise = None if how.epsilon == np.inf else Noise(how.epsilon, how.delta)
    if how.graded:
        return ClassClient(source, how.n_sites, noise, how.looks, how.steps)
    sent, rule = Encoding(how.n_sites, how.form, how.width), Fixed(how.weight)
    return PatternClient(source, sent, rule, how.ema, how.groups, how.votes, noise)
