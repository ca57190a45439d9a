"""Partial and late participation: the archetypes found are those that the heard clients show.

Thirty clients hold half of eight archetypes each, of very unequal exposure. A round asks a cohort;
in some variants half of it answers up to three rounds late, with the weight that it would have by
then. `foresee` predicts the count from the labels of the clients heard: effective exposures, the
actual archetypes, and the law of decreasing weights (`hopfed.theory.profile`), as distances from
the level of the test in units of its fluctuation. Labels and archetypes are used only to score.
Source: arXiv:2603.19902, Section 6; theory/NOTES.md, "Partial participation".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Settings, above, at_least, within
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd, with_spread
from hopfed.federation.engines import Engine
from hopfed.federation.faults import Fault
from hopfed.federation.participation import Participation
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.guard import Guard
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.schedules import Fixed
from hopfed.hopfield.stream import ArchetypeStream, client_mixtures, supports
from hopfed.theory import spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.profile import profile_spikes

FOUND = 0.95  # magnetisation from which an archetype is found
BAND = 2.0  # within this number of fluctuations a prediction is uncertain
CLEAR = 30.0  # strength over the phase boundary from which no test can miss a spike
FADED = 1e-4  # a batch with a smaller weight, relative to the largest, is left out


@dataclass(frozen=True)
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
    late: Annotated[Floats, "share of late clients"] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5)
    delay: Annotated[int, "longest delay in rounds"] = 3
    discount: Annotated[float, within("(0, 1]"), "evidence left after a round"] = 0.8
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 1e-3
    seeds: int = 5

    def validate(self) -> None:
        """Refuse variants of one name."""
        self.same_length("rates", "late")
        distinct = len(self.variants) == len(self.rates)
        require(distinct, "rates", "different, or with different shares late", self.rates)

    @property
    def variants(self) -> dict[str, Participation]:
        """Name of a variant -> its participation."""
        return {
            f"{rate:.0%}" + f", {late:.0%} late" * (late > 0): Participation(rate, late, self.delay)
            for rate, late in zip(self.rates, self.late, strict=True)
        }


PRESETS = {
    "quick": {
        "N": 120, "clients": 20, "rounds": 5, "rates": (0.2, 1.0, 0.4), "late": (0.0, 0.0, 0.5),
        "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 20},
}  # fmt: skip
MINUTES = {"quick": 0.1, "default": 1, "paper": 2.5}
COMPARED = {
    "agree": ("detected as foreseen, beyond 2 sd of the level", "", "1"),
    "agree_within": "detected as foreseen, within 2 sd",
    "calibration": ("mean gap to the foreseen chance of detection", "", "<= .05"),
    "on_time": ("first detected in the round foreseen, +- 1", "", "1"),
    "found_least": "found at the end, lowest rate",
    "foreseen_least": "foreseen by then, lowest rate",
    "megabytes_least": "megabytes up, lowest rate",
    "found_most": "found at the end, highest rate",
    "foreseen_most": "foreseen by then, highest rate",
    "megabytes_most": "megabytes up, highest rate",
    "blurred": ("patterns at the end with no m >= .9, worst variant", "", "0"),
}


def measure_round(
    seed: int, config: Config, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays]:
    """Play one round of every variant."""
    xi = rademacher(len(config.exposures), config.N, stream(seed, "participation"))
    source = _source(config, xi, seed)
    channel = Patterns(Encoding(config.N), discount=config.discount, alpha=config.alpha)
    method = HopfieldFederation(source, channel, guard=Guard(persistence=2))
    arrays: Arrays = {}
    after: Arrays = {}
    for name, participation in config.variants.items():
        at = seed, config, t, state, engine
        played, left = play_variants({name: method}, xi, at, participation=participation)
        seen = Labelled.before(state, name, len(xi)).faded(config.discount)
        seen = seen.add(*heard(played, state, name, source, t, config.discount))
        foreseen = foresee(xi, seen, config.quality, config.alpha)
        arrays |= played | {f"{name}/{key}": value for key, value in foreseen.items()}
        after |= left | seen.state(name)
    return arrays, after


def _source(config: Config, xi: np.ndarray, seed: int) -> ArchetypeStream:
    """Every client holds a share of the archetypes, in proportion to their exposures."""
    mixture = Fixed(config.exposures).mixture(len(xi), config.rounds, seed)
    held = supports(len(xi), config.clients, config.share, derive(seed, "participation"))
    mixtures = client_mixtures(mixture, held, seed=seed)
    return ArchetypeStream(xi, mixtures, config.examples, config.quality, seed)


@dataclass(frozen=True)
class Labelled:
    """The evidence by its labels: batches, their weights and their archetypes."""

    counts: np.ndarray
    weights: np.ndarray

    @classmethod
    def before(cls, state: Arrays | None, name: str, K: int) -> Labelled:
        """Read the evidence of the variant `name` from `state`."""
        if state is None:
            return cls(np.zeros((0, K)), np.zeros(0))
        return cls(state[f"labelled/{name}/counts"], state[f"labelled/{name}/weights"])

    def state(self, name: str) -> Arrays:
        """Return the arrays that `before` reads."""
        at = f"labelled/{name}"
        return {f"{at}/counts": self.counts, f"{at}/weights": self.weights}

    def faded(self, discount: float) -> Labelled:
        """Return the batches after a round in which `discount` of their weight is left."""
        return Labelled(self.counts, self.weights * discount)

    def add(self, counts: np.ndarray, weights: np.ndarray) -> Labelled:
        """Add batches; batches with negligible weights are left out."""
        both = np.concatenate([self.weights, weights])
        keep = both > FADED * both.max(initial=0.0)
        return Labelled(np.concatenate([self.counts, counts])[keep], both[keep])


def heard(
    played: Arrays, state: Arrays | None, name: str, source: ArchetypeStream, t: int, left: float
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the batches that reached the server in round t: counts (B, K), weights (B,)."""
    now = np.flatnonzero(played[f"{name}/faults/code"] == Fault.NONE)
    sent = [(t, int(c), float(played[f"{name}/client/weight"][c])) for c in now]
    for c in range(source.clients):
        under_way = f"{name}/late/{c}"
        if state is not None and f"{under_way}/when" in state:
            began, due = state[f"{under_way}/when"]
            if due <= t:
                w = state[f"{under_way}/message/weight"] * left ** (t - began)
                sent.append((int(began), c, float(w)))
    K = len(source.archetypes)
    counts = [np.bincount(source.labels(s, c), minlength=K) for s, c, _ in sent]
    return np.reshape(counts, (-1, K)), np.array([w for _, _, w in sent])


def foresee(archetypes: np.ndarray, seen: Labelled, r: float, alpha: float) -> Arrays:
    """Predict which archetypes the count finds in evidence with these labels."""
    K, N = archetypes.shape
    distance, place = np.full(K, -np.inf), np.arange(K)
    sizes = seen.counts.sum(axis=1)
    if (seen.weights @ sizes) > 0:
        law = _Law.of(seen, N, r)
        exposed = np.flatnonzero(law.exposures > 0)
        units = archetypes[exposed] / np.sqrt(N)
        scaled = np.sqrt(law.exposures[exposed])[:, None] * units
        _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
        aligned = (directions @ units.T) ** 2
        spike, mu = linear_sum_assignment(-aligned)
        for k, who in zip(spike, exposed[mu], strict=True):
            along = law.fractions[:, exposed] @ aligned[k]
            distance[who], place[who] = law.distance(int(k), along, singular**2, alpha), k
        unseen = np.setdiff1d(np.arange(K), exposed)
        place[unseen] = len(exposed) + np.arange(len(unseen))
    return {"foreseen/distance": distance, "foreseen/place": place}


@dataclass(frozen=True)
class _Law:
    """Noise of weighted batches: `gains` are weights over their mean, `shares` sum to 1."""

    N: int
    r: float
    M: int
    gains: np.ndarray
    shares: np.ndarray
    fractions: np.ndarray

    @classmethod
    def of(cls, seen: Labelled, N: int, r: float) -> _Law:
        sizes = seen.counts.sum(axis=1)
        M = sizes.sum()
        gains = seen.weights * M / (seen.weights @ sizes)
        return cls(N, r, int(M), gains, sizes / M, seen.counts / sizes[:, None])

    @property
    def exposures(self) -> np.ndarray:
        """(K,) effective exposures."""
        return (self.gains * self.shares) @ self.fractions

    @property
    def n_examples(self) -> float:
        """Examples of equal weight whose noise has the same second moment."""
        return self.M / float(self.shares @ self.gains**2)

    def distance(self, k: int, along: np.ndarray, shares: np.ndarray, alpha: float) -> float:
        """Distance of spike k with the parts `along` (A,) of the batches, `shares[k]` of all."""
        q = self.N / self.n_examples
        strength = self.N * self.r**2 * shares[k] / (1 - self.r**2)
        if strength > CLEAR * spikes.threshold(q):
            return np.inf
        variance, scale = 1 - self.r**2, self.gains.max()
        n, m = self.N - k, self.M - k
        # Profiles are for +-1 data, variance 1 - r^2 and signal r^2, times the largest weight.
        own = variance * self.gains / scale
        signal = self.r**2 * self.gains / scale * along * self.M / m
        profile = profile_spikes(
            np.sqrt(1 - own), np.minimum(signal / (1 - own), 1.0)[:, None], n, m, self.shares
        )
        outlier = float(profile.outliers[0]) * scale * m / self.M
        level, spread = self._test(n, m, alpha)
        # The trace includes archetypes that are not yet found as noise.
        level *= (1 - self.r**2 * shares[:k].sum()) / variance
        sd = spikes.outlier_sd(strength, q, round(self.n_examples), variance, exposure=1.0)
        return (outlier - level) / max(float(sd), spread)

    def _test(self, n: int, m: int, alpha: float) -> tuple[float, float]:
        """Level of the test, and standard deviation of the largest eigenvalue of noise."""
        law = Population((1 - self.r**2) * self.gains, self.shares)
        # The law is that of the examples, which take the place of the sites.
        level, median = (n / self.M * noise_threshold(law, m, n, a) for a in (alpha, 0.5))
        width = tracy_widom.critical_value(alpha) - tracy_widom.critical_value(0.5)
        shift = 1 + spikes.excess_kurtosis(self.r) / np.sqrt(self.n_examples * self.N)
        tw_sd = float(np.sqrt(tracy_widom.moments(1).variance))
        return level * shift, (level - median) / width * tw_sd


def detected(arrays: Arrays, name: str) -> np.ndarray:
    """Whether the count reaches each archetype, bool (S, T, K)."""
    return arrays[f"{name}/n_detected"][..., None] > arrays[f"{name}/foreseen/place"]


def agreement(
    arrays: Arrays, names: Sequence[str], archetypes: slice, *, inside: bool = False
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Whether counts are as predicted, and whether the prediction is outside or inside its band."""
    agrees, asked = [], []
    for name in names:
        distance = arrays[f"{name}/foreseen/distance"][..., archetypes]
        agrees.append(detected(arrays, name)[..., archetypes] == (distance > 0))
        asked.append(np.isfinite(distance) & ((np.abs(distance) < BAND) == inside))
    return agrees, asked


def share(hits: Sequence[np.ndarray], asked: Sequence[np.ndarray]) -> tuple[float, float | None]:
    """Share of `hits` among `asked`, pooled over arrays (S, ...), and its spread."""
    pairs = [(h & a, a) for h, a in zip(hits, asked, strict=True)]
    num, den = (sum(p[i].reshape(len(p[i]), -1).sum(axis=1) for p in pairs) for i in (0, 1))
    if not np.sum(den):
        return np.nan, None
    return with_spread(lambda i: num[i].sum() / max(den[i].sum(), 1), len(num))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Agreement of detection and prediction, and the archetypes found at each rate."""
    names, everyone = list(config.variants), slice(None)
    distance = np.stack([arrays[f"{n}/foreseen/distance"] for n in names], axis=1)
    seen = np.stack([detected(arrays, n) for n in names], axis=1)
    rounds = [_first(x, config.rounds) for x in (distance > 0, seen)]
    asked = rounds[0] < config.rounds - 1
    summary: dict[str, Any] = {
        "agree": share(*agreement(arrays, names, everyone)),
        "agree_within": share(*agreement(arrays, names, everyone, inside=True)),
        "calibration": _calibration(distance, seen),
        "on_time": share([np.abs(rounds[1] - rounds[0]) <= 1], [asked]),
    }
    least, most = names[np.argmin(config.rates)], names[np.argmax(config.rates)]
    for key, name in (("least", least), ("most", most)):
        last = arrays[f"{name}/magnetisation"][:, -1] >= FOUND
        foreseen = (arrays[f"{name}/foreseen/distance"] > 0).any(axis=1)
        summary |= {
            f"found_{key}": mean_and_sd(last.sum(axis=1)),
            f"foreseen_{key}": mean_and_sd(foreseen.sum(axis=1)),
            f"megabytes_{key}": mean_and_sd(arrays[f"{name}/traffic/up"].sum(axis=(1, 2)) / 1e6),
        }
    summary["blurred"] = max(float(arrays[f"{n}/false"][:, -1].mean()) for n in names)
    return summary


def _first(events: np.ndarray, rounds: int) -> np.ndarray:
    """First round of events (S, V, T, K); `rounds` for events that do not happen."""
    return np.where(events.any(axis=2), events.argmax(axis=2), rounds)


def _calibration(distance: np.ndarray, seen: np.ndarray) -> float:
    """Mean gap between the detected share and its predicted chance, over bins of one sd."""
    gaps = []
    for low in np.arange(-3.0, 4.0):
        inside = (distance >= low) & (distance < low + 1)
        if inside.any():
            gaps.append(abs(seen[inside].mean() - ndtr(distance[inside]).mean()))
    return float(np.mean(gaps)) if gaps else np.nan
