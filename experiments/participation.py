"""Archetypes found with partial and late participation, beside what the heard clients show.

Clients hold half of eight archetypes of very unequal exposure. `foresee` predicts the count from
the labels of those heard, as distances from the level of the test in units of its fluctuation; see
theory/NOTES.md, "Partial participation".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, above, at_least, like, within
from hopfed.experiments.shared.federation import More, hopfield, play
from hopfed.experiments.shared.statistics import first_round, with_spread
from hopfed.federation.contract import Engine, Fault
from hopfed.federation.rounds import Participation
from hopfed.figures.kinds import Panel, by_round, over
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.stream import ArchetypeStream, client_mixtures, supports
from hopfed.theory import spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.profile import profile_spikes

BAND = 2.0  # within this number of fluctuations a prediction is uncertain
CLEAR = 30.0  # strength over the phase boundary from which no test can miss a spike
FADED = 1e-4  # a batch with a smaller weight, relative to the largest, is left out


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(64), "sites"] = 300
    clients: Annotated[int, at_least(1)] = 30
    examples: Annotated[int, at_least(1), "of each client in a round"] = 20
    rounds: Annotated[int, at_least(1)] = 12
    quality: Annotated[float, within("(0, 1)"), "r of the examples"] = 0.5
    exposures: Annotated[Floats, above(0), "shares before normalising"] = (
        1.0, 0.5, 0.25, 0.125, 0.06, 0.03, 0.015, 0.008,
    )  # fmt: skip
    share: Annotated[float, within("(0, 1]"), "part of the archetypes that a client holds"] = 0.5
    rates: Annotated[Floats, "of participation, by variant"] = (0.1, 0.2, 0.4, 0.7, 1.0, 0.4, 1.0)
    late: Annotated[Floats, like("rates"), "shares late"] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5)
    delay: Annotated[int, "longest delay in rounds"] = 3
    discount: Annotated[float, within("(0, 1]"), "evidence left after a round"] = 0.8
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 1e-3
    seeds: int = 5

    @property
    def variants(self) -> dict[str, Participation]:
        """Name of a variant -> its participation."""
        return {
            f"{rate:.0%}" + f", {late:.0%} late" * (late > 0): Participation(rate, late, self.delay)
            for rate, late in zip(self.rates, self.late, strict=True)
        }


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every variant."""
    K = len(config.exposures)
    xi = rademacher(K, config.N, stream(seed, "participation"))
    shares = np.array(config.exposures)
    mixture = np.tile(shares / shares.sum(), (config.rounds, 1))
    held = supports(K, config.clients, config.share, derive(seed, "participation"))
    mixtures = client_mixtures(mixture, held)
    source = ArchetypeStream(xi, mixtures, config.examples, config.quality, seed)
    method = hopfield(source, config.N, discount=config.discount, alpha=config.alpha, persistence=2)
    arrays: Arrays = {}
    for name, participation in config.variants.items():
        how = {name: method}
        at = seed, config, engine
        arrays |= play(how, xi, at, follow(how), participation=participation)
    return arrays


class Labelled(NamedTuple):
    """Evidence by its labels: examples of each archetype in batches (B, K), and weights (B,)."""

    counts: np.ndarray
    weights: np.ndarray


def follow(methods: dict[str, HopfieldFederation]) -> More:
    """Foresee variants after each round, in their order, from the labels of what a server holds."""
    held: dict[str, Labelled] = {}

    def foreseen(name: str, t: int, before: Any, played: Any) -> Arrays:
        method = methods[name]
        source, channel = cast(Any, method.source), cast(Patterns, method.channel)
        K = len(source.archetypes)
        old = held.get(name, Labelled(np.zeros((0, K)), np.zeros(0)))
        # Labels of the batches that reached the server in this round.
        now, weight = played.faults.codes == Fault.NONE, played.client_metrics["weight"]
        sent = [(t, int(c), float(weight[c])) for c in np.flatnonzero(now)]
        for c, late in sorted(before.late.items() if before is not None else ()):
            if late.due <= t:
                w = float(late.message["weight"]) * channel.discount ** (t - late.sent)
                sent.append((late.sent, c, w))
        counts = [np.bincount(source.labels(s, c), minlength=K) for s, c, _ in sent]
        new = Labelled(np.reshape(counts, (-1, K)), np.array([w for _, _, w in sent]))
        weights = np.concatenate([old.weights * channel.discount, new.weights])
        kept = weights > FADED * weights.max(initial=0.0)
        held[name] = Labelled(np.concatenate([old.counts, new.counts])[kept], weights[kept])
        return foresee(source.archetypes, held[name], float(source.qualities[0]), channel.alpha)

    return foreseen


def foresee(archetypes: np.ndarray, seen: Labelled, r: float, alpha: float) -> Arrays:
    """Predict which archetypes the count finds in evidence with these labels."""
    K, N = archetypes.shape
    distance, place = np.full(K, -np.inf), np.arange(K)
    sizes = seen.counts.sum(axis=1)
    if (seen.weights @ sizes) > 0:
        gains = seen.weights * sizes.sum() / (seen.weights @ sizes)
        law = _Law(N, r, int(sizes.sum()), gains, sizes / sizes.sum())
        fractions = seen.counts / sizes[:, None]
        exposures = (gains * law.shares) @ fractions  # effective ones
        exposed = np.flatnonzero(exposures > 0)
        units = archetypes[exposed] / np.sqrt(N)
        scaled = np.sqrt(exposures[exposed])[:, None] * units
        _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
        aligned = (directions @ units.T) ** 2
        spike, mu = linear_sum_assignment(-aligned)
        for k, who in zip(spike, exposed[mu], strict=True):
            along = fractions[:, exposed] @ aligned[k]
            distance[who], place[who] = law.distance(int(k), along, singular**2, alpha), k
        unseen = np.setdiff1d(np.arange(K), exposed)
        place[unseen] = len(exposed) + np.arange(len(unseen))
    return {"foreseen/distance": distance, "foreseen/place": place}


class _Law(NamedTuple):
    """Noise of M weighted rows: `gains` are batches' weights over their mean, `shares` sum to 1."""

    N: int
    r: float
    M: int
    gains: np.ndarray
    shares: np.ndarray

    def distance(self, k: int, along: np.ndarray, shares: np.ndarray, alpha: float) -> float:
        """Distance of spike k with the parts `along` (A,) of the batches, `shares[k]` of all."""
        s2 = 1 - self.r**2
        # Examples of equal weight whose noise has the same second moment.
        equal = self.M / float(self.shares @ self.gains**2)
        q, strength = self.N / equal, self.N * self.r**2 * shares[k] / s2
        if strength > CLEAR * spikes.threshold(q):
            return np.inf
        scale, n, m = self.gains.max(), self.N - k, self.M - k
        # Profiles are for +-1 data, variance 1 - r^2 and signal r^2, times the largest weight.
        own = s2 * self.gains / scale
        signal = self.r**2 * self.gains / scale * along * self.M / m
        profile = profile_spikes(
            np.sqrt(1 - own), np.minimum(signal / (1 - own), 1.0)[:, None], n, m, self.shares
        )
        outlier = float(profile.outliers[0]) * scale * m / self.M
        # The law of the noise is that of the examples, which take the place of the sites.
        noise = Population(s2 * self.gains, self.shares)
        level, median = (n / self.M * noise_threshold(noise, m, n, a) for a in (alpha, 0.5))
        width = tracy_widom.critical_value(alpha) - tracy_widom.critical_value(0.5)
        spread = (level - median) / width * float(np.sqrt(tracy_widom.moments(1).variance))
        level *= 1 + spikes.excess_kurtosis(self.r) / np.sqrt(equal * self.N)
        # The trace includes archetypes that are not yet found as noise.
        level *= (1 - self.r**2 * shares[:k].sum()) / s2
        sd = spikes.outlier_sd(strength, q, round(equal), s2, exposure=1.0)
        return (outlier - level) / max(float(sd), spread)


def detected(arrays: Arrays, name: str) -> np.ndarray:
    """Whether the count reaches each archetype, bool (S, T, K)."""
    return arrays[f"{name}/n_detected"][..., None] > arrays[f"{name}/foreseen/place"]


def agreement(
    arrays: Arrays, names: Sequence[str], inside: bool = False
) -> tuple[float, float | None]:
    """Share of the counts of archetypes that are as predicted, and its spread.

    Of predictions outside of the band of uncertainty, or of those inside.
    """
    agrees, asked = [], []
    for name in names:
        distance = arrays[f"{name}/foreseen/distance"]
        agrees.append(detected(arrays, name) == (distance > 0))
        asked.append(np.isfinite(distance) & ((np.abs(distance) < BAND) == inside))
    return share(agrees, asked)


def share(hits: Sequence[np.ndarray], asked: Sequence[np.ndarray]) -> tuple[float, float | None]:
    """Share of `hits` among `asked`, pooled over arrays (S, ...), and its spread."""
    pairs = [(h & a, a) for h, a in zip(hits, asked, strict=True)]
    num, den = (sum(p[i].reshape(len(p[i]), -1).sum(axis=1) for p in pairs) for i in (0, 1))
    if not np.sum(den):
        return np.nan, None
    return with_spread(lambda hit, asked: hit.sum() / max(asked.sum(), 1), num, den)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Agreement of detection and prediction."""
    names, T = list(config.variants), config.rounds
    distance = np.stack([arrays[f"{n}/foreseen/distance"] for n in names], axis=1)
    seen = np.stack([detected(arrays, n) for n in names], axis=1)
    first = [first_round(x, axis=2) for x in (distance > 0, seen)]
    return {
        "agree": agreement(arrays, names),
        "agree_within": agreement(arrays, names, inside=True),
        "on_time": share([np.abs(first[1] - first[0]) <= 1], [first[0] < T - 1]),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Detection over its prediction, and archetypes over rounds."""
    gap = {n: arrays[f"{n}/foreseen/distance"] for n in config.variants}
    seen = {n: detected(arrays, n) for n in config.variants}
    distance, counted = (np.concatenate([*map(np.ravel, v.values())]) for v in (gap, seen))
    middle = np.arange(-3.25, 5, 0.5)
    inside = [counted[np.abs(distance - x) < 0.25] for x in middle]
    part = np.array([hits.mean() if len(hits) else np.nan for hits in inside])
    spread = np.sqrt(part * (1 - part) / np.maximum([len(hits) for hits in inside], 1))
    lines, theory = {"measured": (part, spread)}, {"foreseen": ndtr(middle)}
    label = "foreseen above the test's level, in sd"
    made = [over("part detected", middle, lines, theory, xlabel=label, points=True)]
    so_far = {n: np.logical_or.accumulate(v, axis=1).sum(axis=2) for n, v in seen.items()}
    due = {n: np.logical_or.accumulate(v > 0, axis=1).sum(axis=2) for n, v in gap.items()}
    due = {n: v.mean(axis=0) for n, v in due.items()}
    made.append(by_round("archetypes detected so far", so_far, due))
    return made
