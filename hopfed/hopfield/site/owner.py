"""What the owner of a file of examples answers: exact sums to a server that is trusted, or noise.

With `epsilon` every sum has discrete Gaussian noise, and the ledger is charged before it is sent.
Without, whoever runs the server may learn single rows: it names the classes, and subtracts answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.messages import Field, Message, malformed, not_finite
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.client import MOST_PATTERNS
from hopfed.hopfield.graded.client import CLASSES, asked
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.noisy import NUMBERS, UNITS
from hopfed.hopfield.graded.private import PrivateClasses, first_question, question_name
from hopfed.hopfield.method import HopfieldFederation
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.kernels import MaskedBits, PackedBits

Served = HopfieldFederation | PrivateFederation | GradedFederation | PrivateClasses
MOST_NUMBERS = 2**26  # in an answer about groups
LONGEST = 1e4  # a direction's entry: that of an honest server has length 1 after scaling


@dataclass(frozen=True)
class Owner:
    """The owner of a file of examples.

    Attributes
    ----------
    rows : the examples.
    secret : of what only the owner knows: the names of states, and noise without a ledger.
    epsilon, delta : the most that all answers may tell about one example; None trusts the server
        with exact sums.
    ledger : the privacy budget, charged before anything noisy is sent.
    """

    rows: PackedBits | MaskedBits
    secret: int
    epsilon: float | None = None
    delta: float = 1e-5
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        bounded = self.epsilon is None or self.epsilon > 0
        require(bounded, "epsilon", "above 0", self.epsilon)
        require(self.secret > 0, "secret", "a number above 0", "0")

    def adapt(self, method: Method) -> Answering:
        """Put the examples into a method, if their owner takes part in it."""
        if not isinstance(method, Served):
            raise DataError(f"this client does not take part in {type(method).__name__}")
        if method.n_sites != self.rows.shape[1]:
            raise DataError(f"the federation has {method.n_sites} columns, my file another number")
        if not isinstance(method.source, Elsewhere):
            raise DataError("the federation does not leave the examples where they are")
        operators = isinstance(method, (HopfieldFederation, PrivateFederation))
        if operators and isinstance(self.rows, MaskedBits):
            raise DataError(
                "these rows have gaps, of which operators take no account: serve --graded"
            )
        batches = Batches((self.rows,), method.source.rounds)
        if isinstance(method, (PrivateFederation, PrivateClasses)):
            return self._with_noise(method, batches)
        if self.epsilon is not None:
            raise DataError("this client answers with noise only: serve --epsilon")
        self.require_no_budget()
        return Answering(replace(method, source=batches), batches, self.secret)

    def require_no_budget(self) -> None:
        """Fail where some of the rows left with noise: they do not leave without it."""
        if self.ledger is not None and self.ledger.released(self.rows):
            raise DataError("these examples have a privacy budget: join --epsilon")

    def _with_noise(
        self, method: PrivateFederation | PrivateClasses, batches: Batches
    ) -> Answering:
        """Charge the budget; rows come in the order in which they were released first."""
        if self.epsilon is None:  # its terms are not for a server to set
            raise DataError("this client agreed to no epsilon: join --epsilon, or serve without")
        if method.epsilon > self.epsilon or method.delta > self.delta:
            raise DataError("the federation asks for more than this client's epsilon and delta")
        units = method.units if isinstance(method, PrivateClasses) else 0
        if units and self.ledger is None:
            raise DataError("this client keeps no ledger, without which no question is counted")
        terms = Terms(method.epsilon, method.delta, batches.rounds, units)
        rows, secret = self.rows, self.secret
        if self.ledger is not None:
            rows, secret = self.ledger.charge(rows, terms)
        batches = Batches((rows,), batches.rounds)
        mine = replace(method, source=batches, secret=secret)
        return Answering(mine, batches, self.secret, terms, self.ledger)


@dataclass(frozen=True)
class Answering:
    """A method that holds the rows of an owner, and answers what a server may ask.

    Attributes
    ----------
    method : holds the rows.
    batches : the rows, as they are dealt out over the rounds.
    secret : of the owner.
    terms, ledger : of answers with noise.
    """

    method: Served
    batches: Batches
    secret: int = field(repr=False)
    terms: Terms | None = None
    ledger: Ledger | None = None

    @property
    def exchanges(self) -> int:
        """Exchanges of a round."""
        return int(self.method.exchanges)

    def client_start(self, client: int, seed: int) -> State:
        """State of a client before its first round.

        The server knows a state by a digest of it. With a number in it that only the owner knows,
        nobody can find out by the digest whether a guess of the rows is right.
        """
        salt = blake2b(f"state {self.secret}".encode(), digest_size=16).digest()
        return {**self.method.client_start(client, seed), "salt": np.frombuffer(salt, np.uint8)}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server; metrics stay here."""
        exchange, method = context.exchange, self.method
        require(0 <= exchange < self.exchanges, "exchange", "one of the round", exchange)
        rows = self.batches.examples(context.round, 0)  # fails where there is no such round
        graded = isinstance(method, (GradedFederation, PrivateClasses))
        if graded and exchange and not down:  # nothing is left to ask in this round
            return state, {}, {}
        if isinstance(method, PrivateClasses):
            down = down or first_question(method.n_sites)
            _check_classes("sums", down, method.n_sites)
            self._spend(method.round_steps[exchange], down, context.round)
        elif isinstance(method, GradedFederation):
            _check_classes(asked(down), down, method.n_sites)
        elif isinstance(method, HopfieldFederation):
            step = method.steps[exchange]
            if exchange and not np.array_equal(state.get("rows", ()), _words(rows)):
                raise DataError(f"{step} of a batch that is not that of this round")
            _check_patterns(step, down, method)
        state, up, _ = method.client_step(state, down, context)
        return state, up, {}

    def _spend(self, step: str, down: Message, t: int) -> None:
        """Charge a question about classes to the batch of round t."""
        K, N = down["means"].shape
        numbers = 1 + K * (2 * N + 1) + (K * (N * (N - 1) // 2) if step == "pairs" else 0)
        if numbers > NUMBERS:
            raise DataError(f"{K:,} classes of {N:,} columns, which are too many for one answer")
        if self.ledger is not None and self.terms is not None:
            name = question_name(step, down)
            self.ledger.spend(self.batches.owners[0], self.terms, t, name, UNITS[step])


def _words(rows: PackedBits | MaskedBits) -> np.ndarray:
    return rows.words if isinstance(rows, PackedBits) else rows.signs.words


def _check_patterns(step: str, down: Message, method: HopfieldFederation) -> None:
    """Fail unless a message from the server is of the form that the step reads."""
    n_sites = method.n_sites
    if step == "projections":
        spec: Mapping[str, Field] = {"basis": Field((n_sites, None), "f")}
    elif step == "operators" and not down:
        spec = {}
    else:
        patterns = Field((None, -(-n_sites // 8)), "u")
        spec = {"patterns": patterns, "sure": Field((None,), "f"), "quality": Field((), "f")}
    wrong = malformed(down, spec) or not_finite(down)
    if wrong is None and "patterns" in down:
        K, kind = len(down["patterns"]), down["patterns"].dtype
        if kind != np.uint8 or down["sure"].shape != (K,):
            wrong = f"patterns are of dtype {kind}, and sure is of shape {down['sure'].shape}"
        elif MOST_PATTERNS * n_sites < K:  # unpacked they would fill the memory
            wrong = f"{K:,} patterns of {n_sites:,} columns, which are too many"
    if wrong is None and "basis" in down:
        K = down["basis"].shape[1]
        if n_sites < K or method.groups * K * (K + 1) // 2 > MOST_NUMBERS:
            wrong = f"{K:,} directions of {method.groups:,} groups, which are too many"
    if wrong is not None:
        raise DataError(f"a malformed message from the server: {wrong}")


def _check_classes(step: str, down: Message, n_sites: int) -> None:
    """Fail unless a message from the server names classes, in the form that the step reads."""
    if step == "sums" and not down:
        return
    spec: dict[str, Field] = {
        "means": Field(("classes", n_sites), "f", least=-1.0, most=1.0),
        "shares": Field(("classes",), "f", least=0.0, most=1.0 + 1e-6),
    }
    if step != "sums":
        along = "directions" if step == "products" else "halves"
        spec[along] = Field(("classes", n_sites), "f", least=-LONGEST, most=LONGEST)
    wrong = malformed(down, spec) or not_finite(down)
    if wrong is None and not 1 <= len(down["means"]) <= CLASSES:
        wrong = f"{len(down['means']):,} classes, of {CLASSES} at most"
    if wrong is None and not abs(float(down["shares"].sum(dtype=np.float64)) - 1) < 1e-3:
        wrong = "shares that do not add up to one"
    if wrong is not None:
        raise DataError(f"a malformed message from the server: {wrong}")
