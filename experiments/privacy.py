"""Differentially private operators: privacy noise hides the weakest archetypes first.

Clients release their operators once, with Gaussian noise; the server counts above the edge of the
free convolution of the Marchenko-Pastur law with the noise's semicircle. Predictions take the
archetypes and exposures of the draw; see theory/NOTES.md, "Semicircle beside the bulk".
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed.archetypes.factorize import factorize
from hopfed.archetypes.overlap import FALSE_BELOW, retrieval
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Mixed, above, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd, stacked, with_spread
from hopfed.figures.kinds import UNIT, Panel, by, over
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.privacy.mechanism import GaussianMechanism, PrivateOperator, noisy
from hopfed.privacy.recover import PRIVATE_SEARCH, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.theory import private, spikes


class Config(Mixed):
    """Settings."""

    N: Annotated[int, at_least(20), "sites"] = 256
    M: Annotated[int, at_least(2), "examples of each client"] = 512
    clients: Annotated[int, at_least(1)] = 50
    quality: Annotated[float, within("(0, 1)"), "r of the examples"] = 0.4
    exposures: Annotated[Floats, above(0), "of the archetypes"] = (0.4, 0.27, 0.18, 0.1, 0.05)
    epsilons: Annotated[Floats, above(0), "budgets; inf is no noise"] = (
        0.5, 1.0, 2.0, 4.0, 8.0, math.inf,
    )  # fmt: skip
    delta: Annotated[float, within("(0, 1)"), "of every budget"] = 1e-5
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"] = 0.01
    seeds: int = 10

    @property
    def n_examples(self) -> int:
        """Number of examples of all clients together."""
        return self.M * self.clients


def measure(seed: int, config: Config) -> Arrays:
    """Results of one draw at every epsilon, which is the first axis."""
    rng = stream(seed, "privacy", "examples")
    K, M = len(config.exposures), config.n_examples
    xi = rademacher(K, config.N, rng)
    examples, labels = draw_examples(xi, M, config.quality, rng, exposures=config.mixture)
    coins = rademacher(M, config.N, stream(seed, "privacy", "coins"))  # quality 0
    exposures = np.bincount(labels, minlength=K) / M
    own, nulls = (
        [DenseOperator.from_examples(part) for part in np.split(rows, config.clients)]
        for rows in (examples, coins)
    )
    cells = []
    for epsilon in config.epsilons:
        null = private_spectrum(_release(config, nulls, epsilon, seed, "null"), config.alpha)[1]
        released = _release(config, own, epsilon, seed, "noise")
        cells.append(_cell(config, released, xi, exposures, seed) | {"null": null.n_detected})
    return stacked(cells)


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
    search: dict[str, Any] = {"method": "layered", "search": PRIVATE_SEARCH, "seed": seed}
    patterns = factorize(spectrum, rank, **search).patterns
    found = retrieval(patterns, xi)
    cosines = (eigenpairs(released, K).vectors.T @ xi.T) ** 2 / N

    theory = spikes.finite_size(xi, exposures, config.quality, M, released.radius)
    directions = np.linalg.svd(np.sqrt(exposures / N)[:, None] * xi, full_matrices=False)[2]
    partner = ((directions @ xi.T) ** 2).argmax(axis=0)  # eigenvector by archetype
    seen, own = 0, np.arange(K)  # predicted outliers that pass the sequential test
    test = 1 - config.quality**2, N, M, released.radius, config.alpha
    while seen < K and theory.outliers[seen] > private.noise_threshold(*test, stronger=seen):
        seen += 1
    return {
        "n_detected": rank.n_detected,
        "magnetisation": found.magnetisation,
        "overlap": cosines[partner, own],
        "foreseen/n_detected": seen,
        "foreseen/overlap": theory.overlaps[partner, own],
        "foreseen/magnetisation": _magnetisations(theory.alignments[:seen], directions[:seen], xi),
    }


def _magnetisations(gamma: np.ndarray, p: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """(K,) predicted `|<xihat, xi>| / N` of patterns from eigenvectors along directions p.

    The part of an archetype that lies in their span is a field of independent Gaussian sites.
    """
    a = p @ xi.T  # (rank, K)
    signal = (gamma[:, None] * a).T @ p  # (K, N)
    noise = (gamma * (1 - gamma)) @ a**2 / xi.shape[1]
    return np.mean(xi * erf(signal / np.sqrt(2 * np.maximum(noise, 1e-300))[:, None]), axis=1)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Measurements and predictions, over all draws and at each epsilon."""
    n_detected, foreseen = arrays["n_detected"], arrays["foreseen/n_detected"]  # (seeds, epsilons)
    overlap, overlap_foreseen = arrays["overlap"], arrays["foreseen/overlap"]
    m, m_foreseen = arrays["magnetisation"], arrays["foreseen/magnetisation"]
    recovered, expected = ((a >= FALSE_BELOW).sum(axis=-1) for a in (m, m_foreseen))
    shares = sorted(config.mixture.tolist(), reverse=True)
    N, M, r, alpha = config.N, config.n_examples, config.quality, config.alpha
    means = np.zeros(len(config.epsilons))  # sums of each archetype's chance to pass the test
    for i, epsilon in enumerate(config.epsilons):
        z = private.noise_multiplier(epsilon, config.delta)
        told = N, M, float(private.noise_radius(z, N, M, config.clients)), alpha
        means[i] = sum(private.detection_power(r, s, *told, k) for k, s in enumerate(shares))
    summary: dict[str, Any] = {
        "count_agrees": mean_and_sd((n_detected == foreseen).mean(axis=1)),
        "count_gap": with_spread(lambda x: np.abs(x.mean(axis=0) - means).max(), n_detected),
        "false_alarms": mean_and_sd((arrays["null"] > 0).mean(axis=1)),
        "overlap_gap": with_spread(np.median, np.abs(overlap - overlap_foreseen)),
    }
    for i, epsilon in enumerate(config.epsilons):
        summary[f"n_detected_{epsilon:g}"] = mean_and_sd(n_detected[:, i])
        summary[f"n_detected_{epsilon:g}_foreseen"] = float(means[i])
        summary[f"recovered_{epsilon:g}"] = mean_and_sd(recovered[:, i])
        summary[f"recovered_{epsilon:g}_foreseen"] = mean_and_sd(expected[:, i])
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    """Archetypes counted and recovered over epsilon, and each one's overlap; lines are theory."""
    at = ["none" if math.isinf(e) else f"{e:g}" for e in config.epsilons]
    keys = [f"{e:g}" for e in config.epsilons]
    whole = "recovered, |m| >= .9"
    lines = {
        "counted": arrays["n_detected"],
        whole: (arrays["magnetisation"] >= FALSE_BELOW).sum(axis=-1),
    }
    theory = {
        "counted": [summary[f"n_detected_{k}_foreseen"] for k in keys],
        whole: [summary[f"recovered_{k}_foreseen"][0] for k in keys],
    }
    words: dict[str, Any] = {"points": True, "band": "sd"}
    words |= {"xlabel": r"privacy budget $\varepsilon$"}
    made = [over("archetypes", at, lines, theory, **words)]
    names = [rf"$\pi$ = {e:g}" for e in config.exposures]
    for title, name in (("overlap", "overlap"), ("magnetisation |m|", "magnetisation")):
        guess = by(names, arrays[f"foreseen/{name}"].mean(axis=0), -1)
        made.append(over(title, at, by(names, arrays[name], -1), guess, **words | UNIT))
    return made
