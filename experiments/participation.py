"""Archetypes found with late clients, beside predictions of theory ("Partial participation")."""

from typing import Annotated, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

from hopfed._lib.random import derive, stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Federated, Floats, at_least, like
from hopfed.experiments.shared.hopfield_variants import More, make_federation, play_variants
from hopfed.experiments.shared.statistics import first_round, share_of_hits
from hopfed.federation.contract import Engine, Fault
from hopfed.federation.rounds import Participation
from hopfed.figures.kinds import Panel, line_plot
from hopfed.hopfield.channel import rademacher
from hopfed.theory import spikes, tracy_widom
from hopfed.theory.covariance import Population, noise_threshold
from hopfed.theory.profile import profile_spikes

BAND = 2.0  # within this number of fluctuations a prediction is uncertain
CLEAR = 30.0  # strength over the phase boundary from which no test can miss a spike
FADED = 1e-4  # a batch with a smaller weight, relative to the largest, is left out


QUALITY, DISCOUNT, ALPHA = 0.5, 0.8, 1e-3  # r; evidence left after a round; level of the count
SHARES = np.array([1.0, 0.5, 0.25, 0.125, 0.06, 0.03, 0.015, 0.008])  # before normalising
HELD, DELAY = 4, 3  # archetypes that a client sees; longest delay in rounds


class Config(Federated):
    clients: Annotated[int, at_least(2)]
    rates: Annotated[Floats, "rates of participation, by variant"]
    late: Annotated[Floats, like("rates"), "shares of late clients"]

    @property
    def variants(self) -> dict[str, Participation]:
        """Name of a variant -> its participation."""
        return {
            f"{rate:.0%}" + f", {late:.0%} late" * (late > 0): Participation(rate, late, DELAY)
            for rate, late in zip(self.rates, self.late, strict=True)
        }


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    xi = rademacher(len(SHARES), config.N, stream(seed, "participation"))
    seen = SHARES / SHARES.sum() * draw_supports(config.clients, derive(seed, "participation"))
    mixtures = np.tile(seen / seen.sum(axis=1, keepdims=True), (config.rounds, 1, 1))
    how: dict[str, Any] = {"discount": DISCOUNT, "alpha": ALPHA, "persistence": 2}
    method = make_federation(config, xi, seed, mixtures, quality=QUALITY, **how)
    arrays, at = dict[str, Any](), (seed, config, engine)
    for name, participation in config.variants.items():
        arrays |= play_variants(
            {name: method}, xi, at, make_predictor(), participation=participation
        )
    return arrays


def draw_supports(clients: int, seed: int) -> np.ndarray:
    """Draw participation: archetypes that each client can see, bool (clients, K), together all."""
    held = np.zeros((clients, len(SHARES)), dtype=bool)
    deck = stream(seed, "supports", "deal").permutation(len(SHARES))
    for c in range(clients):
        held[c, deck[c::clients]] = True
        others = stream(seed, "supports", c).permutation(np.flatnonzero(~held[c]))
        held[c, others[: HELD - held[c].sum()]] = True
    return held


def make_predictor() -> More:
    """Experiment `participation`: function to predict variants in turn, by labels of batches."""
    held: list[np.ndarray] = []  # batches so far: examples of each archetype, and weights

    def foreseen(method: Any, t: int, before: Any, played: Any) -> Arrays:
        source, channel, K = method.source, method.channel, len(method.source.archetypes)
        rows, old = held if t else (np.zeros((0, K)), np.zeros(0))
        # Labels of the batches that reached the server in this round.
        now, weight = played.faults.codes == Fault.NONE, played.client_metrics["weight"]
        sent = [(t, int(c), float(weight[c])) for c in np.flatnonzero(now)]
        for c, late in sorted(before.late.items() if before is not None else ()):
            when, due = late[""].tolist()  # round in which it was sent, and in which it counts
            if due <= t:
                sent.append((when, c, float(late["weight"]) * channel.discount ** (t - when)))
        counts = [np.bincount(source.labels(s, c), minlength=K) for s, c, _ in sent]
        rows = np.concatenate([rows, np.reshape(counts, (-1, K))])
        weights = np.array([*(old * channel.discount), *(w for _, _, w in sent)])
        kept = weights > FADED * weights.max(initial=0.0)
        held[:] = rows[kept], weights[kept]
        about = source.archetypes, rows[kept], weights[kept]
        return predict_found(*about, float(source.qualities[0]), channel.alpha)

    return foreseen


def predict_found(
    archetypes: np.ndarray, counts: np.ndarray, weights: np.ndarray, r: float, alpha: float
) -> Arrays:
    """Experiment `participation`: predict finds in batches of `counts` (B, K), `weights` (B,)."""
    K, N = archetypes.shape
    distance, place = np.full(K, -np.inf), np.arange(K)
    sizes = counts.sum(axis=1)
    if (weights @ sizes) > 0:
        fractions = counts / sizes[:, None]
        # Batches' weights over their mean, and shares of the examples.
        gains, shares = weights * sizes.sum() / (weights @ sizes), sizes / sizes.sum()
        exposures = (gains * shares) @ fractions  # effective exposures
        exposed = np.flatnonzero(exposures > 0)
        units = archetypes[exposed] / np.sqrt(N)
        scaled = np.sqrt(exposures[exposed])[:, None] * units
        _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
        aligned, noise = (directions @ units.T) ** 2, (N, r, int(sizes.sum()), gains, shares)
        for k, mu in zip(*linear_sum_assignment(-aligned), strict=True):
            along, at = fractions[:, exposed] @ aligned[k], exposed[mu]
            distance[at] = _distance(int(k), singular**2, along, noise, alpha)
            place[at] = k
        unseen = np.setdiff1d(np.arange(K), exposed)
        place[unseen] = len(exposed) + np.arange(len(unseen))
    return {"foreseen/distance": distance, "foreseen/place": place}


def _distance(
    k: int, spike: np.ndarray, along: np.ndarray, noise: tuple[Any, ...], alpha: float
) -> float:
    """Distance of spike k, `along` which batches have parts, from the level of the test, in sd."""
    N, r, M, gains, shares = noise  # batches' weights over their mean, and shares
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


def reached_archetypes(arrays: Arrays, name: str) -> np.ndarray:
    """Experiment `participation`: whether the count reaches each archetype, bool (S, T, K)."""
    return arrays[f"{name}/n_detected"][..., None] > arrays[f"{name}/foreseen/place"]


def _both(config: Config, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Predicted distances, and whether the count reaches archetypes, (S, variants, T, K)."""
    distance = [arrays[f"{n}/foreseen/distance"] for n in config.variants]
    return np.stack(distance, axis=1), np.stack(
        [reached_archetypes(arrays, n) for n in config.variants], 1
    )


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    distance, seen = _both(config, arrays)
    right, near = seen == (distance > 0), np.abs(distance) < BAND
    due, found = (first_round(x, axis=2) for x in (distance > 0, seen))
    return {
        "agree": share_of_hits(right, np.isfinite(distance) & ~near),
        "agree_within": share_of_hits(right, near),
        "on_time": share_of_hits(np.abs(found - due) <= 1, due < config.rounds - 1),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    distance, seen = _both(config, arrays)
    middle = np.arange(-3.25, 5, 0.5)
    inside = [seen[np.abs(distance - x) < 0.25] for x in middle]
    part = np.array([hits.mean() if len(hits) else np.nan for hits in inside])
    spread = np.sqrt(part * (1 - part) / np.maximum([len(hits) for hits in inside], 1))
    lines, words = {"measured": (part, spread)}, "foreseen above the test's level, in sd"
    theory = {"foreseen": ndtr(middle)}
    return [line_plot("part detected", middle, lines, theory, xlabel=words, points=True)]
