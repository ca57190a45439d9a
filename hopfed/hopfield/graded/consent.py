"""What the owner of a file agrees to answer about classes that a server names.

Sums over the rows of a class tell of it what its rows have in common. But classes are the server's
own choice, and sums over two sets of classes can be subtracted: a server that is not honest chooses
them so that a single row is the difference, and the steps of an honest one differ in few rows, too.
No check of single answers prevents it, so an owner has to trust whoever runs the server with rows
(`Limits.trust_server`), and says in how many exchanges a batch answers at all; what each of these
asks for, sums, products or sides, is the server's choice. What the checks are for is that no single
answer shows a row by accident: no sum is over fewer rows than a vote may be, and rows of a class of
fewer count in the others. What was answered is recorded like everything else
(`hopfed.hopfield.site.released`).

Answers with noise (`noisy`) need no trust. They are charged to the privacy budget of the rows
before they leave, and no word of these decides whether there is an answer: a refusal would tell of
a row what the noise hides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Field, Message, digest, malformed, not_finite
from hopfed.hopfield.graded.client import asked as asked_for
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.noisy import NUMBERS, UNITS
from hopfed.hopfield.graded.private import PrivateClasses, first_question, question_name
from hopfed.hopfield.site.agreed import AgreedMethod
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.hopfield.site.limits import CLASSES
from hopfed.hopfield.site.released import Allowance, Question

LONGEST = 1e4  # a direction's entry: that of an honest server has length 1 after scaling


@dataclass(frozen=True)
class AgreedClasses(AgreedMethod):
    """A federation of graded classes whose clients' answers are exact sums."""

    method: GradedFederation

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server, if the answer is within the limits.

        Raises
        ------
        DataError : one line, and nothing is to be sent.
        """
        exchange = self.check_exchange(context)
        self.deal()
        if exchange and not down:
            return state, {}, {}
        step = asked_for(down)
        _check_down(step, down, self.method.n_sites)
        spec = self.method.expects(down, context)
        numbers = sum(prod(n for n in f.shape if isinstance(n, int)) for f in spec.values())
        # The settings of a server change nothing in an answer, but for the step.
        name = digest({"step": np.frombuffer(step.encode(), np.uint8), **down}).hex()
        question = Question(self.batches.rounds, context.round, "classes", name, numbers)
        most = self.limits.numbers(self.method.n_sites)
        allowance = Allowance(most, {"classes": self.limits.classes})
        return self.answer(state, down, context, question, allowance)


@dataclass(frozen=True)
class AgreedNoise(AgreedMethod):
    """A federation of graded classes whose clients' answers have noise, and are charged before.

    Attributes
    ----------
    method : holds the rows in the order in which they are dealt out, and the secret of their noise.
    terms : of their release.
    ledger : the privacy budget.
    """

    method: PrivateClasses
    terms: Terms
    ledger: Ledger

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Charge the question, and answer it with noise.

        Raises
        ------
        DataError : one line, and nothing is to be sent.
        """
        exchange, t, method = self.check_exchange(context), context.round, self.method
        require(0 <= t < self.batches.rounds, "round", f"below {self.batches.rounds}", t)
        self.deal()
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
        self.released.check(question, allowance)  # what will not be answered is not charged
        self.ledger.spend(self.batches.owners[0], self.terms, t, name, UNITS[step])
        return self.answer(state, asked, context, question, allowance)


def _check_down(step: str, down: Message, n_sites: int) -> None:
    """Fail unless a message from the server is of the form that the step reads."""
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
