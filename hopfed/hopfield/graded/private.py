"""Graded classes in rounds by answers with noise: what a server learns of a row is bounded.

Source: `noisy` for what noise hides a row, and `hopfed.privacy.concentrated` for all of a round.

A round looks a few times for classes. Each look asks for *pairs*, the sums and the second moments
of each class: where the residuals of a class vary along a direction more than rows and noise let
expect, it is two, and where those of two together do not, they are one. Then come a few *sums*,
steps of a fit, of which all but the first are averaged: their noise is as of one answer with all
their budget. Last come the pairs once more, only to join. Every row is in the batch of one round,
so rounds do not add up for it; the questions of a round do, and share the budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hopfed._lib.settings import check_types, require
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Message, Spec
from hopfed.hopfield.graded import private_server
from hopfed.hopfield.graded.memory import Memory
from hopfed.hopfield.graded.noisy import UNITS, ClassNoise
from hopfed.hopfield.liars.claims import wary
from hopfed.hopfield.settings import Source
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.tables.examples import as_examples


@dataclass(frozen=True)
class PrivateClasses:
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

    fresh = True  # repeated sums would count their rows twice

    def __post_init__(self) -> None:
        check_types(replace(self, secret=0) if self.secret else self)  # a word names no secret
        require(0 <= self.discount <= 1, "discount", "in [0, 1]", self.discount)
        require(self.claim >= 1, "claim", "at least 1", self.claim)
        require(0 <= self.liars < 0.5, "liars", "in [0, 1/2)", self.liars)
        require(0 <= self.support < np.inf, "support", "a finite number", self.support)
        require(self.secret >= 0, "secret", "a number of at least 0", "a negative one")
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

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client, which remembers nothing."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        start = {f"memory/{k}": v for k, v in Memory.start(self.n_sites).flatten().items()}
        return {**start, "noise": np.array(0.0)}

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
        return private_server.hear(method, state, messages, context)


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
