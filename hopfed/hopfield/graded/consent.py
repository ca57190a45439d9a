"""What the owner of a file agrees to answer about classes that a server names.

Sums over the rows of a class tell of it what its rows have in common. But classes are the server's
own choice, and sums over two sets of classes can be subtracted: a server that is not honest chooses
them so that a single row is the difference, and the steps of an honest one differ in few rows, too.
No check of single answers prevents it, so an owner has to trust whoever runs the server with rows
(`Limits.trust_server`), and says in how many exchanges a batch answers at all. What the checks are
for is that no single answer shows a row by accident: no sum is over fewer rows than a vote may be,
and rows of a class of fewer count in the others. What was answered is recorded like everything else
(`hopfed.hopfield.site.released`).

Answers with noise (`noisy`) need no trust. They are charged to the privacy budget of the rows
before they leave, and no word of these decides whether there is an answer: a refusal would tell of
a row what the noise hides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import prod

import numpy as np

from hopfed._lib.settings import require
from hopfed.data.batches import Batches
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, digest, malformed, not_finite
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.noisy import NUMBERS, UNITS
from hopfed.hopfield.graded.private import PrivateClasses, first_question, question_name
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.limits import CLASSES, Limits
from hopfed.hopfield.site.released import Allowance, Question, Released

LONGEST = 1e4  # a direction's entry: that of an honest server has length 1 after scaling


@dataclass(frozen=True)
class AgreedClasses:
    """A federation of graded classes whose clients' steps are checked before, and recorded after.

    Attributes
    ----------
    method : holds the rows.
    batches : the rows.
    limits, released : of the owner of the rows.
    secret : of the owner.
    """

    method: GradedFederation
    batches: Batches
    limits: Limits
    released: Released
    secret: int = field(repr=False)

    def client_start(self, client: int, seed: int) -> State:
        """State of a client, by which no guess of its rows can be confirmed."""
        return {**self.method.client_start(client, seed), "salt": _salt(self.secret)}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server, if the answer is within the limits; metrics stay here.

        Raises
        ------
        DataError : one line, and nothing is to be sent.
        """
        exchange = context.exchange
        require(0 <= exchange < self.method.exchanges, "exchange", "one of the round", exchange)
        self.released.deal(self.batches.rounds, own=self.limits.rounds > 0)
        if exchange and not down:
            return state, {}, {}
        step = self.method.round_steps[exchange]
        _check_down(step, down, self.method.n_sites)
        spec = self.method.expects(down, context)
        numbers = sum(prod(n for n in f.shape if isinstance(n, int)) for f in spec.values())
        # The settings of a server change nothing in an answer, but for the step.
        name = digest({"step": np.frombuffer(step.encode(), np.uint8), **down}).hex()
        question = Question(self.batches.rounds, context.round, "classes", name, numbers)
        most = self.limits.numbers(self.method.n_sites)
        allowance = Allowance(most, {"classes": self.limits.classes})
        self.released.check(question, allowance)
        state, up, _ = self.method.client_step(state, down, context)
        exact = replace(question, numbers=sum(int(np.size(array)) for array in up.values()))
        self.released.add(exact, allowance, digest(up).hex())
        return state, up, {}


@dataclass(frozen=True)
class AgreedNoise:
    """A federation of graded classes whose clients' answers have noise, and are charged before.

    Attributes
    ----------
    method : holds the rows, and the secret of their noise.
    batches : the rows, in the order in which they are dealt out.
    terms : of their release.
    ledger : the privacy budget.
    limits, released : of the owner of the rows.
    secret : of the owner.
    """

    method: PrivateClasses
    batches: Batches
    terms: Terms
    ledger: Ledger
    limits: Limits
    released: Released
    secret: int = field(repr=False)

    def client_start(self, client: int, seed: int) -> State:
        """State of a client, by which no guess of its rows can be confirmed."""
        return {**self.method.client_start(client, seed), "salt": _salt(self.secret)}

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Charge the question, and answer it with noise; metrics stay here.

        Raises
        ------
        DataError : one line, and nothing is to be sent.
        """
        exchange, t, method = context.exchange, context.round, self.method
        require(0 <= exchange < method.exchanges, "exchange", "one of the round", exchange)
        require(0 <= t < self.batches.rounds, "round", f"below {self.batches.rounds}", t)
        self.released.deal(self.batches.rounds, own=self.limits.rounds > 0)
        if exchange and not down:
            return state, {}, {}
        step, N = method.round_steps[exchange], method.n_sites
        asked = down or first_question(N)
        _check_down("sums", asked, N)
        K = len(asked["means"])
        numbers = 1 + K * (2 * N + 1) + (K * (N * (N - 1) // 2) if step == "pairs" else 0)
        if numbers > NUMBERS:
            raise DataError(f"{K:,} classes of {N:,} columns, which are too many for one answer")
        name = question_name(step, asked)
        question = Question(self.batches.rounds, t, "classes", name, numbers)
        allowance = Allowance(self.limits.noisy_numbers(N), {"classes": self.limits.classes})
        self.released.check(question, allowance)
        self.ledger.spend(self.batches.owners[0], self.terms, t, name, UNITS[step])
        state, up, _ = method.client_step(state, asked, context)
        self.released.add(question, allowance, digest(up).hex())
        return state, up, {}


def _salt(secret: int) -> np.ndarray:
    return np.frombuffer(blake2b(f"state {secret}".encode(), digest_size=16).digest(), np.uint8)


def _check_down(step: str, down: Message, n_sites: int) -> None:
    """Fail unless a message from the server is of the form that the step reads."""
    if step == "sums" and not down:
        return
    spec: dict[str, Field] = {
        "means": Field(("classes", n_sites), "f", least=-1.0, most=1.0),
        "shares": Field(("classes",), "f", least=0.0, most=1.0 + 1e-6),
    }
    if step != "sums":
        spec["directions"] = Field(("classes", n_sites), "f", least=-LONGEST, most=LONGEST)
    wrong = malformed(down, spec) or not_finite(down)
    if wrong is None and not 1 <= len(down["means"]) <= CLASSES:
        wrong = f"{len(down['means']):,} classes, of {CLASSES} at most"
    if wrong is None and not abs(float(down["shares"].sum(dtype=np.float64)) - 1) < 1e-3:
        wrong = "shares that do not add up to one"
    if wrong is not None:
        raise DataError(f"a malformed message from the server: {wrong}")
