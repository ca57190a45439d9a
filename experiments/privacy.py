"""Differentially private operators: privacy noise hides the weakest archetypes first.

Source: arXiv:2603.19902, supplement; theory/NOTES.md, "Semicircle beside the bulk".

Fifty clients hold M = 512 examples each (q = N / M = .5 at a client, as in the supplement) of five
archetypes of unequal exposure. Each client releases its operator once, with Gaussian noise that
makes it (epsilon, delta)-private towards everyone, including the server, under replacement of one
of its examples (`hopfed.privacy.mechanism`). The server pools the noisy operators. It counts the
eigenvalues above the edge of the free convolution of the Marchenko-Pastur law with the noise's
semicircle, and searches for archetypes in their eigenvectors. The results are compared with the
predictions of `hopfed.theory.private` for the draw. These use its archetypes and exposures, which
are otherwise used only to score.

q is .5 at a client and not for the pool, for this reason. In the pooled operator the semicircle has
the radius ``2 z N^(3/2) / (M sqrt(clients))`` with the noise multiplier z. With q = .5 for the
pool, a client would hold 10 examples, and the radius at epsilon = 8 would be 70, above every
archetype here.

Measured (paper preset, 50 seeds, delta = 1e-5; predictions in brackets). Counted are 1.72 +- .45
archetypes at epsilon = .5 (1.90), 3.00 at 1 (3.02), 4.02 +- .14 at 2 (4.01), all 5 from 4 on. In
95% of the draws the count equals the prediction for the draw (72% at .5, where the second archetype
lies at the test level). Overlaps: median gap .0049 +- .0003, R^2 .985 +- .002; outliers .7% off; 2
false alarms on 300 nulls at a nominal 1%. A counted archetype is not always recovered: near its
threshold it is blurred, as predicted (mean gap of |m| .018 +- .002). So |m| >= .9 holds for .74 +-
.44 at .5 (1), 2.06 at 1 (2), 3.22 at 2 (3), 4 at 4 and 5 at 8. At .5 the strongest has |m| = .918
+- .028, predicted .927, which is close to the limit .9. The aim of no strays is missed: 4 patterns
in 300 draws resemble no archetype at |m| >= .5. Three are the second archetype at .5, blurred to
.44 - .48; one comes from an eigenvalue 1% above the test level.

By the same theory a single client would see all 5 without privacy and none at epsilon = 1. With
noise added once, to the sum, all 5 would be seen at every epsilon here, but then someone sees the
sum.

Run it with ``hopfed run privacy --preset paper --out privacy.h5``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.factorize import factorize
from hopfed.archetypes.overlap import FALSE_BELOW, retrieval
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.statistics import mean_and_sd, r_squared, with_spread
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.privacy.mechanism import GaussianMechanism, PrivateOperator, noisy
from hopfed.privacy.recover import PRIVATE_SEARCH, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.theory import private

KEPT = 20  # leading eigenvalues stored from each spectrum
STRAY_BELOW = 0.5  # a pattern with lower overlaps is not even a blurred archetype


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    N : sites.
    M : examples of each client.
    clients : number of clients.
    quality : r of the examples, in (0, 1).
    exposures : shares of the archetypes, before normalising.
    epsilons : privacy budgets, above 0; inf means no noise.
    delta : delta of every budget, in (0, 1).
    alpha : false-alarm rate of the count.
    seeds : draws.
    """

    N: int = 256
    M: int = 512
    clients: int = 50
    quality: float = 0.4
    exposures: tuple[float, ...] = (0.4, 0.27, 0.18, 0.1, 0.05)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
    delta: float = 1e-5
    alpha: float = 0.01
    seeds: int = 10

    def __post_init__(self) -> None:
        check_types(self)
        require(self.N >= KEPT, "N", f"at least {KEPT}", self.N)
        require(self.M >= 2, "M", "at least 2", self.M)
        require(self.clients >= 1, "clients", "at least 1", self.clients)
        require(0 < self.quality < 1, "quality", "in (0, 1)", self.quality)
        require(min(self.exposures) > 0, "exposures", "above 0", self.exposures)
        require(len(self.exposures) <= KEPT, "exposures", f"at most {KEPT}", self.exposures)
        require(min(self.epsilons) > 0, "epsilons", "above 0", self.epsilons)
        require(0 < self.delta < 1, "delta", "in (0, 1)", self.delta)
        require(0 < self.alpha < 1, "alpha", "in (0, 1)", self.alpha)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)

    @property
    def n_examples(self) -> int:
        """Number of examples of all clients together."""
        return self.M * self.clients

    @property
    def mixture(self) -> np.ndarray:
        """(K,) normalised exposures."""
        return np.array(self.exposures) / sum(self.exposures)


PRESETS = {
    "quick": Config(epsilons=(0.5, 1.0, 4.0, math.inf), seeds=2),
    "default": Config(),
    "paper": Config(seeds=50),
}

RECORD = Record(
    claim="privacy noise hides the weak archetypes first, at the epsilon that theory predicts",
    source="hopfield federation, supplement and open directions",
    minutes={"quick": 0.1, "default": 0.5, "paper": 2.0},
    measures={
        "count_agrees": Measure("draws with the foreseen count", aim=">= .9"),
        "count_gap": Measure("largest gap of a mean count to the expected one", aim="<= .2"),
        "false_alarms": Measure("false alarms on nulls, nominal alpha", aim="alpha"),
        "outlier_error": Measure("median relative error of foreseen outliers", aim="<= .01"),
        "overlap_gap": Measure("median overlap gap", aim="<= .01"),
        "overlap_r2": Measure("R^2 of the overlaps", aim=">= .98"),
        "magnetisation_gap": Measure("mean magnetisation gap where foreseen", aim="<= .02"),
        "recovered_least": Measure("recovered at the least epsilon"),
        "foreseen_least": Measure("foreseen at the least epsilon"),
        "recovered_most": Measure("recovered at the largest epsilon"),
        "foreseen_most": Measure("foreseen at the largest epsilon"),
        "false_patterns": Measure("patterns below |m| = .9 of each draw"),
        "foreseen_false": Measure("foreseen: counted, but blurred below .9"),
        "strays": Measure("patterns below |m| = .5 of each draw", aim="0"),
    },
)


def run(config: Config, seed: int) -> Arrays:
    """Results of one draw at every epsilon, which is the first axis."""
    rng = stream(seed, "privacy", "examples")
    K, M = len(config.exposures), config.n_examples
    xi = rademacher(K, config.N, rng)
    examples, labels = draw_examples(xi, M, config.quality, rng, exposures=config.mixture)
    coins = rademacher(M, config.N, stream(seed, "privacy", "coins"))  # quality 0
    exposures = np.bincount(labels, minlength=K) / M
    clients, nulls = (
        [_sums(config, x, c) for c in range(config.clients)] for x in (examples, coins)
    )
    cells = []
    for epsilon in config.epsilons:
        null = private_spectrum(_release(config, nulls, epsilon, seed, "null"), config.alpha)[1]
        released = _release(config, clients, epsilon, seed, "noise")
        cells.append(_cell(config, released, xi, exposures, seed) | {"null": null.n_detected})
    return {name: np.array([cell[name] for cell in cells]) for name in cells[0]}


def _sums(config: Config, examples: np.ndarray, client: int) -> DenseOperator:
    return DenseOperator.from_examples(examples[client * config.M : (client + 1) * config.M])


def _release(
    config: Config, clients: list[DenseOperator], epsilon: float, seed: int, name: str
) -> PrivateOperator:
    """Pool the clients' operators, each with its own noise."""
    mechanism = GaussianMechanism(epsilon, config.delta)
    streams = (stream(seed, "privacy", name, str(epsilon), c) for c in range(len(clients)))
    released = [noisy(own, mechanism, rng) for own, rng in zip(clients, streams, strict=True)]
    return pool(released)  # type: ignore[return-value]


def _cell(
    config: Config, released: PrivateOperator, xi: np.ndarray, exposures: np.ndarray, seed: int
) -> dict[str, Any]:
    K, N, M = len(xi), config.N, config.n_examples
    spectrum, rank = private_spectrum(released, config.alpha)
    patterns = factorize(
        spectrum, rank, method="layered", search=PRIVATE_SEARCH, seed=seed
    ).patterns
    found = retrieval(patterns, xi)
    leading = eigenpairs(released, K).vectors
    cosines = (leading.T @ xi.T) ** 2 / N

    theory = private.finite_size(xi, exposures, config.quality, M, released.radius)
    aligned = (theory.directions @ xi.T) ** 2 / N
    partner = aligned.argmax(axis=0)  # the eigenvector closest to each archetype
    foreseen = _count(theory, config, released.radius)
    own = np.arange(K)
    return {
        "radius": released.radius,
        "eigenvalues": spectrum.values[:KEPT],
        "threshold": rank.threshold,
        "n_detected": rank.n_detected,
        "magnetisation": found.magnetisation,
        "false": found.false_discoveries,
        "matched": found.matched,
        "frobenius": found.frobenius,
        "stray": (np.abs(patterns @ xi.T.astype(float)).max(axis=1) < STRAY_BELOW * N).sum(),
        "overlap": cosines[partner, own],
        "foreseen/n_detected": foreseen,
        "foreseen/outliers": theory.outliers,
        "foreseen/overlap": theory.overlaps[partner, own],
        "foreseen/magnetisation": theory.magnetisations(xi, foreseen),
        "foreseen/seen": partner < foreseen,
        "foreseen/kappa": theory.kappas[partner],
        "foreseen/alignment": aligned[partner, own],
    }


def _count(theory: private.PrivateFiniteSize, config: Config, radius: float) -> int:
    """Number of predicted outliers that pass the sequential test."""
    for k, outlier in enumerate(theory.outliers):
        s2, M = theory.variance, config.n_examples
        if outlier <= private.noise_threshold(s2, config.N, M, radius, config.alpha, stronger=k):
            return k
    return len(theory.outliers)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Measurements and predictions, over all draws and at each epsilon."""
    n_detected, foreseen = arrays["n_detected"], arrays["foreseen/n_detected"]  # (seeds, epsilons)
    n, K = len(n_detected), len(config.exposures)
    m, m_foreseen = arrays["magnetisation"], arrays["foreseen/magnetisation"]
    overlap, overlap_foreseen = arrays["overlap"], arrays["foreseen/overlap"]
    outside = np.arange(K) < foreseen[..., None]
    recovered, expected = ((a >= FALSE_BELOW).sum(axis=-1) for a in (m, m_foreseen))
    blurred = foreseen - np.minimum(expected, foreseen)
    seen, everywhere = arrays["foreseen/seen"], np.ones_like(overlap, dtype=bool)
    m_gap, overlap_gap = np.abs(m - m_foreseen), np.abs(overlap - overlap_foreseen)
    error = np.abs(arrays["eigenvalues"][..., :K] / arrays["foreseen/outliers"] - 1)

    means = _expected_counts(config)

    def gap_of_counts(i: np.ndarray) -> float:
        return float(np.abs(n_detected[i].mean(axis=0) - means).max())

    def overlap_r2(i: np.ndarray) -> float:
        return float(r_squared(overlap[i], overlap_foreseen[i]))

    least, most = int(np.argmin(config.epsilons)), int(np.argmax(config.epsilons))
    summary: dict[str, Any] = {
        "count_agrees": mean_and_sd((n_detected == foreseen).mean(axis=1)),
        "count_gap": with_spread(gap_of_counts, n),
        "false_alarms": mean_and_sd((arrays["null"] > 0).mean(axis=1)),
        "outlier_error": with_spread(partial(_typical, np.median, error, outside), n),
        "overlap_gap": with_spread(partial(_typical, np.median, overlap_gap, everywhere), n),
        "overlap_r2": with_spread(overlap_r2, n),
        "magnetisation_gap": with_spread(partial(_typical, np.mean, m_gap, seen), n),
        "recovered_least": mean_and_sd(recovered[:, least]),
        "foreseen_least": mean_and_sd(expected[:, least]),
        "recovered_most": mean_and_sd(recovered[:, most]),
        "foreseen_most": mean_and_sd(expected[:, most]),
        "false_patterns": mean_and_sd(arrays["false"].mean(axis=1)),
        "foreseen_false": mean_and_sd(blurred.mean(axis=1)),
        "strays": mean_and_sd(arrays["stray"].mean(axis=1)),
    }
    for i, epsilon in enumerate(config.epsilons):
        summary[f"n_detected_{epsilon:g}"] = mean_and_sd(n_detected[:, i])
        summary[f"n_detected_{epsilon:g}_foreseen"] = float(means[i])
        summary[f"recovered_{epsilon:g}"] = mean_and_sd(recovered[:, i])
        summary[f"recovered_{epsilon:g}_foreseen"] = mean_and_sd(expected[:, i])
    return summary


def _expected_counts(config: Config) -> np.ndarray:
    """Mean counts (epsilons,): sums of each archetype's chance to pass the test."""
    shares = sorted(config.mixture.tolist(), reverse=True)
    N, M, counts = config.N, config.n_examples, []
    for epsilon in config.epsilons:
        z = private.noise_multiplier(epsilon, config.delta)
        radius = float(private.noise_radius(z, N, M, config.clients))
        chances = (
            private.detection_power(config.quality, share, N, M, radius, config.alpha, k)
            for k, share in enumerate(shares)
        )
        counts.append(sum(chances))
    return np.array(counts)


def _typical(statistic: Any, values: np.ndarray, where: np.ndarray, seeds: np.ndarray) -> float:
    """Mean or median of `values` of some seeds where `where` is True; NaN if there are none."""
    chosen = values[seeds][where[seeds]]
    return float(statistic(chosen)) if chosen.size else math.nan
