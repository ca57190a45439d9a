"""What the owner of a file of examples agrees to answer, whatever the server asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import prod

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, digest, malformed, not_finite
from hopfed.hopfield.batches import Batches, Elsewhere
from hopfed.hopfield.client import MOST_PATTERNS
from hopfed.hopfield.graded.consent import AgreedClasses, AgreedNoise
from hopfed.hopfield.graded.method import GradedFederation
from hopfed.hopfield.graded.private import PrivateClasses
from hopfed.hopfield.leaks.broken_relations import broken_by
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.rare_values import given_away
from hopfed.hopfield.method import HopfieldFederation
from hopfed.hopfield.noisy import PrivateFederation
from hopfed.hopfield.plasticity.rules import Fixed
from hopfed.hopfield.site.agreed import AgreedMethod
from hopfed.hopfield.site.budget import Ledger, R, Terms
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Allowance, Question, Released
from hopfed.kernels import MaskedBits, PackedBits

NO_QUESTIONS = (
    "this client answers no questions, only operators (join --questions N, with --trust-server)"
)
NO_TRUST = (
    "answers about classes can be combined so that single rows are left: this client gives them to "
    "nobody whom its owner does not trust with rows (join --classes N, with --epsilon E for "
    "answers with noise, or with --trust-server)"
)


@dataclass(frozen=True)
class Owner:
    """The owner of a file of examples.

    Attributes
    ----------
    rows : the examples.
    secret : of what only the owner knows: the names of states, and noise without a ledger.
    epsilon, delta : the most that a release may tell about one example; None agrees to releases
        without noise, and to no others.
    ledger : the privacy budget, charged before anything noisy is sent.
    limits : what any server may ask.
    released : remembers what was answered.
    """

    rows: PackedBits | MaskedBits
    secret: int
    epsilon: float | None = None
    delta: float = 1e-5
    ledger: Ledger | None = None
    limits: Limits = field(default_factory=Limits)
    released: Released = field(default_factory=Released)

    def __post_init__(self) -> None:
        bounded = self.epsilon is None or self.epsilon > 0
        require(bounded, "epsilon", "above 0", self.epsilon)
        require(self.secret > 0, "secret", "a number above 0", "0")

    def adapt(self, method: Method) -> Agreed | AgreedClasses | AgreedNoise:
        """Put the examples into a method, if their owner agrees to it.

        Raises
        ------
        DataError : the method is another one, asks for more than agreed, or for other columns.
        """
        if not isinstance(
            method, (HopfieldFederation, PrivateFederation, GradedFederation, PrivateClasses)
        ):
            raise DataError(f"this client does not take part in {type(method).__name__}")
        if method.n_sites != self.rows.shape[1]:
            raise DataError(f"the federation has {method.n_sites} columns, my file another number")
        if not isinstance(method.source, Elsewhere):
            raise DataError("the federation does not leave the examples where they are")
        source = self._dealt(method.source.rounds)
        if isinstance(method, GradedFederation):
            return self._classes(method, source)
        if isinstance(method, PrivateClasses):
            return self._noisy_classes(method, source)
        if isinstance(self.rows, MaskedBits):
            raise DataError(
                "these rows have gaps, of which operators take no account: serve --graded"
            )
        return self._operators(method, source, self.rows)

    def require_no_budget(self) -> None:
        """Fail where some of the rows left with noise: they do not leave without it.

        Raises
        ------
        DataError : as said, by the ledger or by the record.
        """
        left = self.ledger is not None and self.ledger.released(self.rows)
        if left or self.released.terms is not None:
            raise DataError("these examples have a privacy budget: join --epsilon")

    def _operators(
        self, method: HopfieldFederation | PrivateFederation, source: Batches, rows: PackedBits
    ) -> Agreed:
        """Release operators of complete rows, with noise or without, and answer on these."""
        if isinstance(method, PrivateFederation):
            self._check_budget(method)
            return self._noisy(method, source, rows)
        if self.epsilon is not None:
            raise DataError("this client releases operators with noise only: serve --epsilon")
        self.require_no_budget()
        if not (isinstance(method.rule, Fixed) or self.limits.weight):
            asked = type(method.rule).__name__
            raise DataError(f"this client weighs its examples by Fixed, not by {asked}")
        mine = replace(
            method,
            source=source,
            smallest_group=self.limits.group,
            smallest_vote=self.limits.smallest_vote,
        )
        if not self.limits.sets:  # whatever is asked later, a round is over with its operator
            mine = replace(mine, groups=0, votes=False)
        return self._agreed(mine, source)

    def _classes(self, method: GradedFederation, source: Batches) -> AgreedClasses:
        """Answer about classes, if so many exchanges are agreed to."""
        if self.epsilon is not None:
            raise DataError("this client answers with noise only: serve --graded --epsilon")
        self.require_no_budget()
        self._check_exchanges(method)
        if not self.limits.trust_server:
            raise DataError(NO_TRUST)
        mine = replace(method, source=source, smallest=self.limits.smallest_vote)
        return AgreedClasses(mine, source, self.limits, self.released, self.secret)

    def _noisy_classes(self, method: PrivateClasses, source: Batches) -> AgreedNoise:
        """Answer about classes with noise: what all answers tell of a row is charged at once."""
        self._check_budget(method)
        self._check_exchanges(method)
        if self.ledger is None:
            raise DataError("this client keeps no ledger, without which no question is counted")
        terms = Terms(method.epsilon, method.delta, source.rounds, method.units)
        rows, secret = self._charged(self.rows, terms)
        source = Batches((rows,), source.rounds)
        mine = replace(method, source=source, secret=secret)
        return AgreedNoise(
            mine, source, self.limits, self.released, self.secret, terms, self.ledger
        )

    def _check_exchanges(self, method: GradedFederation | PrivateClasses) -> None:
        asked, own = method.exchanges, self.limits.classes
        if asked > own:
            raise DataError(
                f"a round has {asked} exchanges about classes, and this client answers {own} "
                "(join --classes)"
            )

    def _check_budget(self, method: PrivateFederation | PrivateClasses) -> None:
        if self.epsilon is None:  # its terms are not for a server to set
            raise DataError("this client agreed to no epsilon: join --epsilon, or no noise")
        if method.epsilon > self.epsilon or method.delta > self.delta:
            raise DataError("the federation asks for more than this client's epsilon and delta")

    def _noisy(self, method: PrivateFederation, source: Batches, rows: PackedBits) -> Agreed:
        """Charge the budget; rows come back in the order in which they were released first."""
        rows, secret = self._charged(rows, Terms(method.epsilon, method.delta, source.rounds))
        source = Batches((rows,), source.rounds)
        return self._agreed(replace(method, source=source, secret=secret), source)

    def _charged(self, rows: R, terms: Terms) -> tuple[R, int]:
        """Charge the budget, and record the noise a second time; return what the ledger does.

        Before the charge the record is asked: a ledger that is older than the last release would
        charge other terms, which no release could follow.
        """
        self.released.require_noise(str(terms))
        secret, first = self.secret, True
        if self.ledger is not None:
            first = self.released.terms is not None or self.ledger.terms(rows) is None
            rows, secret = self.ledger.charge(rows, terms)
        mark = blake2b(f"noise {secret}".encode(), digest_size=16).hexdigest()
        self.released.promise(str(terms), mark, terms.rounds, first)
        return rows, secret

    def _dealt(self, rounds: int) -> Batches:
        """Deal the examples out, if no batch gets too small."""
        M, N = self.rows.shape
        fewest, own = self.limits.batch(N), self.limits.rounds
        if own and rounds != own:
            raise DataError(
                f"this client deals its rows over {own} round(s), not over {rounds}: needs serve "
                f"--rounds {own}"
            )
        if M // rounds < fewest:
            raise DataError(
                f"takes {M // fewest} round(s) at most: {rounds} would leave batches of fewer than "
                f"the {fewest} rows it asks for"
            )
        return Batches((self.rows,), rounds)

    def _agreed(self, method: HopfieldFederation | PrivateFederation, batches: Batches) -> Agreed:
        return Agreed(method, batches, self.limits, self.released, self.secret)


@dataclass(frozen=True)
class Agreed(AgreedMethod):
    """A federation of operators, with noise or without, and of questions about the same rows."""

    method: HopfieldFederation | PrivateFederation

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """Answer the server, if the answer is within the limits.

        Raises
        ------
        DataError : one line, and nothing is to be sent.
        """
        if context.exchange > 0 and not self.limits.sets:
            raise DataError(NO_QUESTIONS)
        exchange = self.check_exchange(context)
        step = self._steps()[exchange]
        rows = self.batches.examples(context.round, 0)
        if not isinstance(rows, PackedBits):
            raise DataError("rows with gaps have no operator that may leave")
        self.deal()
        if exchange and not np.array_equal(state.get("rows", ()), rows.words):
            raise DataError(f"{step} of a batch that is not that of this round")
        if isinstance(self.method, HopfieldFederation):  # the other one does not read it
            _check_down(step, down, self.method.n_sites)
        most = self._numbers(self.method.expects(down, context))
        if isinstance(self.method, HopfieldFederation) and step == "operators":
            self._check_apart(rows)
        question = self._question(step, state, down, context, most)
        return self.answer(state, down, context, question, self._allowance())

    def _check_apart(self, rows: PackedBits) -> None:
        """Fail where the operator of a batch would give single rows away.

        The words name no rows and no columns: a server reads them.
        """
        if set_apart(rows, self.limits.smallest_set):
            raise DataError(
                f"a column or two set fewer than {self.limits.smallest_set} rows of this batch "
                "apart from the others (--smallest-set)"
            )
        if given_away(rows, self.limits.smallest_set):
            raise DataError("rare values give rows of this batch away (--smallest-set)")
        if len(broken_by(rows, self.limits.smallest_set)):
            raise DataError("rows of this batch break relations of its columns (--smallest-set)")

    def _steps(self) -> tuple[str, ...]:
        return ("operators",) if isinstance(self.method, PrivateFederation) else self.method.steps

    def _allowance(self) -> Allowance:
        each = {"projections": self.limits.sets, "votes": self.limits.sets}
        return Allowance(self.limits.numbers(self.method.n_sites), each)

    def _numbers(self, spec: Spec) -> int:
        """Numbers in an answer, at most."""
        width, N = 0, self.method.n_sites
        if isinstance(self.method, HopfieldFederation):
            width = self.method.encoding.width
            if "counts" in spec and "vectors" in spec:  # one of both, and the counts at most
                return N * (N - 1) // 2 + N + 2
        fields = [[n if isinstance(n, int) else width for n in f.shape] for f in spec.values()]
        return sum(map(prod, fields))

    def _question(
        self, step: str, state: State, down: Message, context: Context, numbers: int
    ) -> Question:
        """Name the question by all that the answer depends on, beside the rows of the batch."""
        method, told, drawn = self.method, down, (context.seed, context.client)
        if isinstance(method, PrivateFederation):
            settings: tuple[object, ...] = method.epsilon, method.delta
        elif step == "operators":
            settings = method.encoding, method.rule, method.smoothing
            if isinstance(method.rule, Fixed):
                told = {}
            else:
                settings = *settings, *drawn
                told = {**down, "before": np.asarray(state.get("plasticity", ()))}
        else:
            settings = (method.groups, *drawn) if step == "projections" else ()
        name = digest({"settings": np.frombuffer(repr(settings).encode(), np.uint8), **told})
        return Question(self.batches.rounds, context.round, step, name.hex(), numbers)


def _check_down(step: str, down: Message, n_sites: int) -> None:
    """Fail unless a message from the server is of the form that the step reads."""
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
    if wrong is not None:
        raise DataError(f"a malformed message from the server: {wrong}")
