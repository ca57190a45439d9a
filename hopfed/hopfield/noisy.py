"""A federation whose clients release their operators with noise, and nothing else.

Source: theory/NOTES.md, "Privacy noise".

One exchange: counts with noise up, patterns down. Column sums, projections and votes would be
further releases of the same examples, so the search works on the pooled operator alone, and
which of a pattern and its negative the examples point at stays open.

*What is released.* In each round the counts ``sum_m eta_mi eta_mj``, i < j, of the examples of that
round, with independent discrete Gaussian noise (`hopfed.privacy.discrete_gaussian`), as integers;
and how many examples these are, which counts as public. Every example is in the batch of one round,
so what all rounds together tell of it is (epsilon, delta)-private: rounds compose in parallel.

*What is repeated.* The noise is drawn from a key made of the client's secret, the round, the budget
and the batch, whatever the order of its rows. Who asks for the same again gets the same bits; equal
batches in two rounds get independent noise. That the same examples are not asked for on other
terms is not seen to here but by the ledger of `hopfed.hopfield.budget`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hopfed._lib.settings import require
from hopfed.archetypes.factorize import Archetypes
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.client import checked, pack_patterns
from hopfed.hopfield.encoding import lower, symmetric
from hopfed.hopfield.settings import Source
from hopfed.kernels import PackedBits
from hopfed.privacy.discrete_gaussian import DiscreteGaussian
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.privacy.recover import recover_private
from hopfed.spectral.operators import DenseOperator

MOST = 10.0  # medians of all claims from which a claim to hold examples is not believed


@dataclass(frozen=True)
class PrivateFederation:
    """The private federation on the common contract.

    Attributes
    ----------
    source : the clients' examples; every example must be in the batch of one round only.
    n_sites : N.
    epsilon, delta : what a release may tell about one example, see `hopfed.privacy.mechanism`.
    alpha : false-alarm rate of the count.
    support : estimated number of examples that a pattern must have to be broadcast: one that few
        examples support is a person, not a prototype.
    secret : of the noise, known to the client alone; 0, in simulations, draws from the run's seed,
        which everybody knows.

    Examples
    --------
    >>> from hopfed.data.channel import rademacher
    >>> from hopfed.data.stream import ArchetypeStream
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> xi = rademacher(2, 100, np.random.default_rng(0))
    >>> source = ArchetypeStream(xi, np.full((1, 3, 2), 0.5), 2000, 0.7, seed=0)
    >>> method = PrivateFederation(source, 100, epsilon=2.0)
    >>> played = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    >>> played.server_metrics["n_detected"], len(played.state.server["memory/patterns"])
    (2, 2)
    """

    source: Source
    n_sites: int
    epsilon: float
    delta: float = 1e-5
    alpha: float = 1e-3
    support: float = 50.0
    secret: int = 0

    exchanges = 1
    fresh = True

    def __post_init__(self) -> None:
        require(0 < self.alpha < 1, "alpha", "a false-alarm rate in (0, 1)", self.alpha)
        require(0 <= self.support < np.inf, "support", "a finite number", self.support)
        require(self.secret >= 0, "secret", "a number of at least 0", "a negative one")
        self.mechanism  # noqa: B018  (checks the rest)

    @cached_property
    def mechanism(self) -> DiscreteGaussian:
        """What adds the noise."""
        return DiscreteGaussian(self.n_sites, self.epsilon, self.delta)

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        return {}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Form of a client's answer; an honest one is refused once in 10^9 releases."""
        triangle = (self.n_sites * (self.n_sites - 1) // 2,)
        counts = Field(triangle, "i", within="examples", beyond=self.mechanism.reach())
        return {"counts": counts, "examples": Field((), "iu", least=2)}

    def client_step(
        self,
        state: State,
        down: Message,  # noqa: ARG002
        context: Context,
    ) -> tuple[State, Message, Metrics]:
        """Release the operator of this round's examples."""
        who = -1 if context.client is None else context.client
        rows = checked(self.source.examples(context.round, who), self.n_sites)
        exact = lower(np.asarray(DenseOperator.from_examples(rows).matrix))
        noise = self.mechanism.noise(self._key(rows, context, who), len(exact))
        counts = np.rint(exact).astype(np.int64) + noise
        # By what is public: the noise is never beyond 102 standard deviations.
        narrow = rows.shape[0] + 102 * self.mechanism.scale < 2**31
        released = counts.astype(np.int32) if narrow else counts
        return state, {"counts": released, "examples": np.array(rows.shape[0])}, {}

    def _key(self, rows: PackedBits, context: Context, who: int) -> bytes:
        """Key of the noise: the secret, and everything that makes a release another one."""
        # A client that has a secret is alone with it, whatever its number in a federation.
        source = f"secret {self.secret}" if self.secret else f"seed {context.seed} client {who}"
        budget = f"{float(self.epsilon).hex()} {float(self.delta).hex()}"
        asked = f"{source} round {context.round} sites {self.n_sites} budget {budget} rows "
        in_order = rows.words[np.lexsort(rows.words.T)]
        return asked.encode() + hashlib.sha256(in_order.tobytes()).digest()

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Add the releases to those of earlier rounds, and recover what they show."""
        N, heard = self.n_sites, _believed(messages)
        mass = float(state.get("mass", 0.0)) + sum(float(m["examples"]) for m in heard.values())
        releases = int(state.get("releases", 0)) + len(heard)
        sums = [np.asarray(m["counts"], dtype=np.float64) for m in heard.values()]
        total = np.sum([state.get("sums", np.zeros(N * (N - 1) // 2)), *sums], axis=0)
        state = {"mass": np.array(mass), "releases": np.array(releases), "sums": total}
        found = self._recovered(state, context.derive("recover")) if releases else None
        patterns, quality = np.zeros((0, N), np.int8), 0.0
        if found is not None:
            patterns = found.patterns[found.exposures * mass >= self.support]
            quality = found.quality
        state["memory/patterns"] = patterns
        down = {"patterns": pack_patterns(patterns), "quality": np.asarray(quality, np.float32)}
        metrics = {
            "n_detected": 0 if found is None else found.n_detected,
            "archetypes": len(patterns),
            "unsupported": 0 if found is None else len(found) - len(patterns),
            "examples": mass,
            "quality": quality,
            "disbelieved": np.array(sorted(set(messages) - set(heard)), dtype=np.int64),
        }
        return state, {EVERYONE: down}, metrics

    def _recovered(self, state: State, seed: int) -> Archetypes:
        N, mass = self.n_sites, float(state["mass"])
        noise = float(int(state["releases"]) * self.mechanism.variance)
        pooled = PrivateOperator(N, mass, mass, symmetric(state["sums"], N, mass), noise=noise)
        return recover_private(pooled, seed=seed, alpha=self.alpha)


def _believed(messages: Mapping[int, Message]) -> dict[int, Message]:
    """Releases whose number of examples is not absurd beside those of the others.

    A release cannot be scaled down as a clean operator can: its noise would be no longer the
    mechanism's.
    """
    claims = {c: float(m["examples"]) for c, m in messages.items()}
    most = MOST * float(np.median(list(claims.values()))) if claims else 0.0
    return {c: m for c, m in messages.items() if claims[c] <= most}
