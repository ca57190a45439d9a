"""Archetypes found with partial and late participation, beside what the heard clients show.

`foresee` predicts the count from the labels of those heard, as distances from the level of the test
in units of its fluctuation; see theory/NOTES.md, "Partial participation".
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Federated, Floats, above, like, within
from hopfed.experiments.shared.federation import More, hopfield, play
from hopfed.experiments.shared.schedules import client_mixtures, supports
from hopfed.experiments.shared.statistics import first_round, share
from hopfed.federation.contract import Engine, Fault
from hopfed.federation.rounds import Participation
from hopfed.figures.kinds import Panel, over
from hopfed.hopfield.channel import rademacher
from hopfed.theory import spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.profile import profile_spikes

BAND = 2.0  # within this number of fluctuations a prediction is uncertain
CLEAR = 30.0  # strength over the phase boundary from which no test can miss a spike
FADED = 1e-4  # a batch with a smaller weight, relative to the largest, is left out


class Config(Federated):
    quality: Annotated[float, within("(0, 1)"), "r of the examples"]
    exposures: Annotated[Floats, above(0), "shares before normalising"]
    share: Annotated[float, within("(0, 1]"), "part of the archetypes that a client holds"]
    rates: Annotated[Floats, "of participation, by variant"]
    late: Annotated[Floats, like("rates"), "shares late"]
    delay: Annotated[int, "longest delay in rounds"]
    discount: Annotated[float, within("(0, 1]"), "evidence left after a round"]
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"]

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
    how: dict[str, Any] = {"discount": config.discount, "alpha": config.alpha, "persistence": 2}
    method = hopfield(config, xi, seed, client_mixtures(mixture, held), **how)
    arrays: Arrays = {}
    for name, participation in config.variants.items():
        at = seed, config, engine
        arrays |= play({name: method}, xi, at, follow(), participation=participation)
    return arrays


class Labelled(NamedTuple):
    """Evidence by its labels: examples of each archetype in batches (B, K), and weights (B,)."""

    counts: np.ndarray
    weights: np.ndarray


def follow() -> More:
    """Foresee variants, one after the other, from the labels of what a server holds by a round."""
    held: list[Labelled] = []  # by the last round

    def foreseen(method: Any, t: int, before: Any, played: Any) -> Arrays:
        source, channel, K = method.source, method.channel, len(method.source.archetypes)
        old = held[-1] if t else Labelled(np.zeros((0, K)), np.zeros(0))
        # Labels of the batches that reached the server in this round.
        now, weight = played.faults.codes == Fault.NONE, played.client_metrics["weight"]
        sent = [(t, int(c), float(weight[c])) for c in np.flatnonzero(now)]
        for c, late in sorted(before.late.items() if before is not None else ()):
            when, due = late[""].tolist()  # the round it was sent in, and that it counts in
            if due <= t:
                sent.append((when, c, float(late["weight"]) * channel.discount ** (t - when)))
        counts = [np.bincount(source.labels(s, c), minlength=K) for s, c, _ in sent]
        rows = np.concatenate([old.counts, np.reshape(counts, (-1, K))])
        weights = np.array([*(old.weights * channel.discount), *(w for _, _, w in sent)])
        kept = weights > FADED * weights.max(initial=0.0)
        held[:] = [Labelled(rows[kept], weights[kept])]
        return foresee(source.archetypes, held[0], float(source.qualities[0]), channel.alpha)

    return foreseen


def foresee(archetypes: np.ndarray, seen: Labelled, r: float, alpha: float) -> Arrays:
    """Predict which archetypes the count finds in evidence with these labels."""
    K, N = archetypes.shape
    distance, place = np.full(K, -np.inf), np.arange(K)
    sizes = seen.counts.sum(axis=1)
    if (seen.weights @ sizes) > 0:
        fractions = seen.counts / sizes[:, None]
        # Batches' weights over their mean, and shares of the examples.
        gains, shares = seen.weights * sizes.sum() / (seen.weights @ sizes), sizes / sizes.sum()
        exposures = (gains * shares) @ fractions  # effective ones
        exposed = np.flatnonzero(exposures > 0)
        units = archetypes[exposed] / np.sqrt(N)
        scaled = np.sqrt(exposures[exposed])[:, None] * units
        _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
        aligned = (directions @ units.T) ** 2
        noise = N, r, int(sizes.sum()), gains, shares
        for k, mu in zip(*linear_sum_assignment(-aligned), strict=True):
            along, at = fractions[:, exposed] @ aligned[k], exposed[mu]
            distance[at] = _distance(int(k), singular**2, along, noise, alpha)
            place[at] = k
        unseen = np.setdiff1d(np.arange(K), exposed)
        place[unseen] = len(exposed) + np.arange(len(unseen))
    return {"foreseen/distance": distance, "foreseen/place": place}


def _distance(
    k: int,
    spike: np.ndarray,
    along: np.ndarray,
    noise: tuple[int, float, int, Any, Any],
    alpha: float,
) -> float:
    """Distance of spike k, whose parts of the batches are `along`, from the level of the test.

    Spikes have parts of all rows. `noise` is N, r, M, batches' weights over their mean, and shares.
    """
    N, r, M, gains, shares = noise
    s2 = 1 - r**2
    # Examples of equal weight whose noise has the same second moment.
    equal = M / float(shares @ gains**2)
    q, strength = N / equal, N * r**2 * spike[k] / s2
    if strength > CLEAR * spikes.threshold(q):
        return np.inf
    scale, n, m = gains.max(), N - k, M - k
    # Profiles are for +-1 data, variance 1 - r^2 and signal r^2, times the largest weight.
    own = s2 * gains / scale
    signal = np.minimum(r**2 * gains / scale * along * M / m / (1 - own), 1.0)
    profile = profile_spikes(np.sqrt(1 - own), signal[:, None], n, m, shares)
    outlier = float(profile.outliers[0]) * scale * m / M
    # The law of the noise is that of the examples, which take the place of the sites.
    law = Population(s2 * gains, shares)
    level, median = (n / M * noise_threshold(law, m, n, a) for a in (alpha, 0.5))
    width = tracy_widom.critical_value(alpha) - tracy_widom.critical_value(0.5)
    spread = (level - median) / width * float(np.sqrt(tracy_widom.moments(1).variance))
    level *= 1 + spikes.excess_kurtosis(r) / np.sqrt(equal * N)
    # The trace includes archetypes that are not yet found as noise.
    level *= (1 - r**2 * spike[:k].sum()) / s2
    sd = spikes.outlier_sd(strength, q, round(equal), s2, exposure=1.0)
    return (outlier - level) / max(float(sd), spread)


def detected(arrays: Arrays, name: str) -> np.ndarray:
    """Whether the count reaches each archetype, bool (S, T, K)."""
    return arrays[f"{name}/n_detected"][..., None] > arrays[f"{name}/foreseen/place"]


def _both(config: Config, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Distances that are foreseen, and whether the count reaches (S, variants, T, K)."""
    distance = [arrays[f"{n}/foreseen/distance"] for n in config.variants]
    return np.stack(distance, axis=1), np.stack([detected(arrays, n) for n in config.variants], 1)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    distance, seen = _both(config, arrays)
    right, near = seen == (distance > 0), np.abs(distance) < BAND
    due, found = (first_round(x, axis=2) for x in (distance > 0, seen))
    return {
        "agree": share(right, np.isfinite(distance) & ~near),
        "agree_within": share(right, near),
        "on_time": share(np.abs(found - due) <= 1, due < config.rounds - 1),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    distance, seen = _both(config, arrays)
    middle = np.arange(-3.25, 5, 0.5)
    inside = [seen[np.abs(distance - x) < 0.25] for x in middle]
    part = np.array([hits.mean() if len(hits) else np.nan for hits in inside])
    spread = np.sqrt(part * (1 - part) / np.maximum([len(hits) for hits in inside], 1))
    lines, theory = {"measured": (part, spread)}, {"foreseen": ndtr(middle)}
    label = "foreseen above the test's level, in sd"
    return [over("part detected", middle, lines, theory, xlabel=label, points=True)]
