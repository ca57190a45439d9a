"""A federation whose clients release their operators with noise, and nothing else (A10).

One exchange: counts with Gaussian noise up, patterns down. Column sums, projections and votes would
be further releases of the same examples, so the search works on the pooled operator alone, and
which of a pattern and its negative the examples point at stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hopfed.config import require
from hopfed.factorize import Archetypes
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec, digest
from hopfed.hopfield.client import checked, pack_patterns
from hopfed.hopfield.encoding import lower, symmetric
from hopfed.hopfield.settings import Source
from hopfed.operators import DenseOperator
from hopfed.privacy import GaussianMechanism, PrivateOperator, noisy
from hopfed.private_recovery import recover_private
from hopfed.rng import stream

MOST = 10.0  # medians of all claims from which a claim to hold examples is not believed


@dataclass(frozen=True)
class PrivateFederation:
    """The private federation on the common contract.

    Attributes
    ----------
    source : the clients' examples; every example must be in the batch of one round only.
    n_sites : N.
    epsilon, delta : what a release may tell about one example, see `hopfed.privacy`.
    alpha : false-alarm rate of the count.
    secret : of the noise, known to the client alone; 0, in simulations, draws from the run's seed,
        which everybody knows. The same examples get the same noise, so that an answer that is
        repeated tells nothing new.

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
    >>> played.server_metrics["khat"], len(played.state.server["memory/patterns"])
    (2, 2)
    """

    source: Source
    n_sites: int
    epsilon: float
    delta: float = 1e-5
    alpha: float = 1e-3
    secret: int = 0

    exchanges = 1
    fresh = True

    def __post_init__(self) -> None:
        require(self.n_sites >= 2, "n_sites", "at least 2", self.n_sites)
        require(0 < self.epsilon < np.inf, "epsilon", "a finite number above 0", self.epsilon)
        require(self.secret >= 0, "secret", "a number of at least 0", "a negative one")
        GaussianMechanism(self.epsilon, self.delta)  # checks the rest

    @property
    def mechanism(self) -> GaussianMechanism:
        """What adds the noise."""
        return GaussianMechanism(self.epsilon, self.delta)

    def client_start(self, client: int, seed: int) -> State:  # noqa: ARG002
        """State of a client before its first round."""
        return {}

    def server_start(self, seed: int) -> State:  # noqa: ARG002
        """State of the server before the first round."""
        return {}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Form of a client's answer."""
        N = self.n_sites
        return {"counts": Field((N * (N - 1) // 2,), "f"), "examples": Field((), "iu", least=2)}

    def client_step(
        self,
        state: State,
        down: Message,  # noqa: ARG002
        context: Context,
    ) -> tuple[State, Message, Metrics]:
        """Release the operator of this round's examples."""
        who = -1 if context.client is None else context.client
        rows = checked(self.source.examples(context.round, who), self.n_sites)
        told = digest({"rows": rows.words, "budget": np.array([self.epsilon, self.delta])}).hex()
        # A client that has a secret is alone with it, whatever its number in a federation.
        source = (self.secret,) if self.secret else (context.seed, who)
        rng = stream(source[0], "privacy noise", told, *source[1:])
        released = noisy(DenseOperator.from_examples(rows), self.mechanism, rng)
        counts = lower(np.asarray(released.matrix)).astype(np.float32)
        return state, {"counts": counts, "examples": np.array(rows.shape[0])}, {}

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Add the releases to those of earlier rounds, and recover what they show."""
        N, heard = self.n_sites, _believed(messages)
        mass = float(state.get("mass", 0.0)) + sum(float(m["examples"]) for m in heard)
        releases = int(state.get("releases", 0)) + len(heard)
        sums = [np.asarray(m["counts"], dtype=np.float64) for m in heard]
        total = np.sum([state.get("sums", np.zeros(N * (N - 1) // 2)), *sums], axis=0)
        state = {"mass": np.array(mass), "releases": np.array(releases), "sums": total}
        found = self._recovered(state, context.derive("recover")) if releases else None
        patterns = np.zeros((0, N), np.int8) if found is None else found.patterns
        quality = 0.0 if found is None else found.quality
        state["memory/patterns"] = patterns
        down = {"patterns": pack_patterns(patterns), "quality": np.asarray(quality, np.float32)}
        metrics = {
            "khat": 0 if found is None else found.khat,
            "archetypes": len(patterns),
            "examples": mass,
            "quality": quality,
        }
        return state, {EVERYONE: down}, metrics

    def _recovered(self, state: State, seed: int) -> Archetypes:
        N, mass = self.n_sites, float(state["mass"])
        noise = int(state["releases"]) * self.mechanism.scale(N) ** 2
        pooled = PrivateOperator(N, mass, mass, symmetric(state["sums"], N, mass), noise=noise)
        return recover_private(pooled, seed=seed, alpha=self.alpha)


def _believed(messages: Mapping[int, Message]) -> list[Message]:
    """Releases whose number of examples is not absurd beside those of the others.

    A release cannot be scaled down as a clean operator can: its noise would be no longer the
    mechanism's.
    """
    claims = {c: float(m["examples"]) for c, m in messages.items()}
    most = MOST * float(np.median(list(claims.values()))) if claims else 0.0
    return [m for c, m in messages.items() if claims[c] <= most]
