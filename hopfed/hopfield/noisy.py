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
terms is not seen to here but by the ledger of `hopfed.hopfield.site.budget`.

*Who lies.* A release is held to what its examples with that noise can give: with the number of
examples M on the diagonal it is a matrix of eigenvalues from 0 to M N, and noise whose norm is
known but for a chance of 10^-9. Entry by entry alone the noise would leave room for an archetype of
any strength. A claim counts for some medians at most: a release that is scaled has the noise of its
scale. And a pattern is told only where the releases of a round show it without its strongest
supporters: along one direction noise is little, however much it hides in the whole. What cannot be
had is the exact check of clean operators (parities, and columns that fit the counts): noise takes
every whole number to every other. So a client may say anything about as many rows as it claims.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.client import checked, pack_patterns
from hopfed.hopfield.encoding import MOST_EXAMPLES, lower, symmetric
from hopfed.hopfield.liars.agreement import agreed
from hopfed.hopfield.liars.claims import median_bound, suspects, wary
from hopfed.hopfield.liars.impossible_messages import semidefinite
from hopfed.hopfield.memory.blending import Counted
from hopfed.hopfield.memory.channel_fit import misfit, typical
from hopfed.hopfield.memory.support import dual_directions
from hopfed.hopfield.settings import Served, Source
from hopfed.kernels import PackedBits
from hopfed.privacy.discrete_gaussian import DiscreteGaussian
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.privacy.recover import private_spectrum, recover_private
from hopfed.spectral.operators import DenseOperator

CHANCE = 1e-9  # that an honest release is refused


@dataclass(frozen=True)
class _Release:
    """A release as it counts: its examples, what it was scaled by, and its counts."""

    examples: float
    scale: float
    counts: np.ndarray


@dataclass(frozen=True)
class PrivateFederation(Served):
    """The private federation on the common contract.

    Attributes
    ----------
    source : the clients' examples; every example must be in the batch of one round only.
    n_sites : N.
    epsilon, delta : what a release may tell about one example, see `hopfed.privacy.mechanism`.
    alpha : false-alarm rate of the count.
    support : estimated number of examples that a pattern must have to be broadcast: one that few
        examples support is a person, not a prototype.
    claim : examples that a client may claim in a round, in medians of all claims; it counts for no
        more, see `hopfed.hopfield.liars.claims`.
    liars, level : share of the clients, rounded up, whose word alone is not enough, and the
        standard score from which the others' releases of a round show a pattern.
    secret : of the noise, known to the client alone; 0, in simulations, draws from the run's seed,
        which everybody knows.

    Examples
    --------
    >>> from hopfed.hopfield.channel import rademacher
    >>> from hopfed.hopfield.stream import ArchetypeStream
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
    claim: float = 10.0
    liars: float = 0.0
    level: float = 3.0
    secret: int = 0

    exchanges = 1

    def __post_init__(self) -> None:
        self._check_ranges()
        self.mechanism  # noqa: B018  (checks the rest)

    @cached_property
    def mechanism(self) -> DiscreteGaussian:
        """What adds the noise."""
        return DiscreteGaussian(self.n_sites, self.epsilon, self.delta)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Form of a client's answer; an honest one is refused once in 10^9 releases."""
        triangle = (self.n_sites * (self.n_sites - 1) // 2,)
        counts = Field(triangle, "i", within="examples", beyond=self.mechanism.reach(CHANCE))
        return {"counts": counts, "examples": Field((), "iu", least=2, most=MOST_EXAMPLES)}

    def complaint(self, state: State, message: Message, context: Context) -> str | None:  # noqa: ARG002
        """Say why no examples with the noise of the mechanism give this answer; None if some may.

        An honest one is refused once in 10^9 releases.

        Parameters
        ----------
        state : of the server.
        message : the answer.
        context : who answered, and in which round.
        """
        N, M = self.n_sites, float(message["examples"])
        room = self.mechanism.norm(CHANCE)
        released = symmetric(message["counts"], N, M)
        if not semidefinite(released, room, M + room):
            return "counts have an eigenvalue below those of examples and noise"
        if not semidefinite(-released, N * M + room, N * M + room):
            return "counts have an eigenvalue above those of examples and noise"
        return None

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
        return wary(self, len(messages), context.asked)._added(state, messages, context)

    def _added(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        N, heard = self.n_sites, self._heard(messages)
        mass = float(state.get("mass", 0.0)) + sum(r.examples for r in heard.values())
        releases = float(state.get("releases", 0.0)) + sum(r.scale**2 for r in heard.values())
        total = state.get("sums", np.zeros(N * (N - 1) // 2))
        total = np.sum([total, *(r.counts for r in heard.values())], axis=0)
        state = {"mass": np.array(mass), "releases": np.array(releases), "sums": total}
        found = None
        if releases:
            found = self._recovered(state, heard, context.derive("recover"))
        patterns, quality = np.zeros((0, N), np.int8), 0.0
        enough = shown = np.zeros(0, dtype=bool)
        alone = np.zeros((len(heard), 0))
        if found is not None:
            quality, enough = found.quality, found.exposures * mass >= self.support
            alone, shown = self._shown(found.patterns, list(heard.values()))
            patterns = found.patterns[enough & shown]
        state["memory/patterns"] = patterns
        down = {"patterns": pack_patterns(patterns), "quality": np.asarray(quality, np.float32)}
        said = (alone > self.level).sum(axis=1)
        metrics = {
            "n_detected": 0 if found is None else found.n_detected,
            "archetypes": len(patterns),
            "unconfirmed": int((~shown).sum()),
            "unsupported": int((shown & ~enough).sum()),
            "examples": mass,
            "quality": quality,
            "misfit": self._misfit(list(heard.values()), None if found is None else found.patterns),
            "claims": np.array([[c, r.examples / r.scale, r.examples] for c, r in heard.items()]),
            "supports": np.array([[c, n] for c, n in zip(heard, said, strict=True)]),
        }
        return state, {EVERYONE: down}, metrics

    def _misfit(self, heard: list[_Release], patterns: np.ndarray | None) -> float:
        """Misfit of the patterns to half of the releases, beside their noise; above 1 there is."""
        found = np.zeros((0, self.n_sites)) if patterns is None else patterns
        operators = [self._operator(release) for release in heard if release.examples > 0]
        each = [misfit(op, found, variance=op.noise / op.mass**2) for op in operators]
        return typical(np.array(each))

    def _heard(self, messages: Mapping[int, Message]) -> dict[int, _Release]:
        """Releases as far as their number of examples is believed."""
        claims = {c: float(m["examples"]) for c, m in messages.items()}
        limit = median_bound(list(claims.values()), self.claim)
        scales = {c: min(1.0, limit / claim) for c, claim in claims.items()}
        return {
            c: _Release(scales[c] * claims[c], scales[c], scales[c] * m["counts"].astype(float))
            for c, m in messages.items()
        }

    def _shown(self, patterns: np.ndarray, heard: list[_Release]) -> tuple[np.ndarray, np.ndarray]:
        """Scores (L, K) of each release along each pattern, and which (K,) are shown by enough.

        What a release holds along a pattern is compared with what it holds along any direction
        outside of the patterns; that of all of them together is known from the trace.
        """
        N, K = self.n_sites, len(patterns)
        cut, d = suspects(self.liars, len(heard)), dual_directions(patterns)
        basis = np.linalg.qr(patterns.T.astype(np.float64))[0]
        gains, spread = np.zeros((len(heard), K)), np.zeros((len(heard), 1))
        for i, release in enumerate(heard):
            held = symmetric(release.counts, N, release.examples)
            rest = (N * release.examples - np.vdot(basis, held @ basis)) / max(N - K, 1)
            gains[i] = np.einsum("nk,nk->k", d, held @ d) - rest
            rows = 2 * release.scale * max(rest, 0.0) ** 2 / release.examples
            spread[i] = 2 * release.scale**2 * self.mechanism.variance + rows
        alone = gains / np.sqrt(np.maximum(spread, 1e-300))
        if cut == 0:
            return alone, np.ones(len(patterns), dtype=bool)
        kept = np.argsort(gains, axis=0, kind="stable")[: len(heard) - cut]
        excess = np.take_along_axis(gains, kept, axis=0).sum(axis=0)
        # Patterns are read off the same releases: along one that was chosen for it, noise adds up
        # to 2 / pi of what it has at its edge, as of the signs of an eigenvector.
        chosen = 4 / np.pi * np.sqrt(N / 2)
        return alone, excess > max(self.level, chosen) * np.sqrt(spread[kept, 0].sum(axis=0))

    def _recovered(self, state: State, heard: Mapping[int, _Release], seed: int) -> Archetypes:
        """Archetypes of the releases so far."""
        N, mass = self.n_sites, float(state["mass"])
        noise = float(state["releases"]) * self.mechanism.variance
        pooled = PrivateOperator(N, mass, mass, symmetric(state["sums"], N, mass), noise=noise)
        parts = {c: self._operator(release) for c, release in heard.items()}
        liars = suspects(self.liars, len(heard))
        among = list(parts.values()) if liars else []
        found = recover_private(pooled, seed=seed, alpha=self.alpha, parts=among)
        if not liars:
            return found

        def alone(clients: Sequence[int]) -> Archetypes:
            some = [parts[c] for c in clients]
            rest: PrivateOperator = sum(some[1:], some[0])
            return recover_private(rest, seed=seed, alpha=self.alpha, parts=some)

        counted = Counted(*private_spectrum(pooled, self.alpha), {})
        return agreed(found, counted, parts, liars, self.level, alone)

    def _operator(self, release: _Release) -> PrivateOperator:
        """Return a release as an operator."""
        N, M = self.n_sites, release.examples
        noise = release.scale**2 * self.mechanism.variance
        return PrivateOperator(N, M, M, symmetric(release.counts, N, M), noise=noise)
