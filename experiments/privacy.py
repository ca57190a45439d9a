"""Differentially private operators: privacy noise hides the weakest archetypes first.

The server counts above the edge of the Marchenko-Pastur law convolved with the noise's semicircle;
see theory/NOTES.md, "Semicircle beside the bulk".
"""

import math
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import FALSE_BELOW, retrieval
from hopfed.archetypes.patterns import factorize
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Mixed, above, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd, stacked, with_spread
from hopfed.figures.kinds import UNIT, Panel, by, over
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.privacy.mechanism import GaussianMechanism, noisy
from hopfed.privacy.recover import PRIVATE_SEARCH, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.theory import private, spikes


class Config(Mixed):
    N: Annotated[int, at_least(20), "sites"]
    M: Annotated[int, at_least(2), "examples of each client"]
    clients: Annotated[int, at_least(1)]
    quality: Annotated[float, within("(0, 1)"), "r of the examples"]
    exposures: Annotated[Floats, above(0), "of the archetypes"]
    epsilons: Annotated[Floats, above(0), "budgets; inf is no noise"]
    delta: Annotated[float, within("(0, 1)"), "of every budget"]
    alpha: Annotated[float, within("(0, 1)"), "false-alarm rate of the count"]


def measure(seed: int, config: Config) -> Arrays:
    """Results of one draw at every epsilon, which is the first axis."""
    rng, K = stream(seed, "privacy", "examples"), len(config.exposures)
    N, M = config.N, config.M * config.clients
    xi = rademacher(K, N, rng)
    examples, labels = draw_examples(xi, M, config.quality, rng, exposures=config.mixture)
    exposures = np.bincount(labels, minlength=K) / M
    rows = {"noise": examples, "null": rademacher(M, N, stream(seed, "privacy", "coins"))}
    clients = {
        name: [DenseOperator.from_examples(part) for part in np.split(held, config.clients)]
        for name, held in rows.items()
    }
    directions = np.linalg.svd(np.sqrt(exposures / N)[:, None] * xi, full_matrices=False)[2]
    partner, each = ((directions @ xi.T) ** 2).argmax(axis=0), np.arange(K)  # eigenvectors
    cells = []
    for epsilon in config.epsilons:
        mechanism = GaussianMechanism(epsilon, config.delta)
        pooled: dict[str, Any] = {}
        for name, held in clients.items():
            at = "privacy", name, str(epsilon)
            noised = [noisy(own, mechanism, stream(seed, *at, c)) for c, own in enumerate(held)]
            pooled[name] = pool(noised)
        released = pooled["noise"]
        spectrum, rank = private_spectrum(released, config.alpha)
        search: dict[str, Any] = {"method": "layered", "search": PRIVATE_SEARCH, "seed": seed}
        patterns = factorize(spectrum, rank, **search).patterns
        cosines = (eigenpairs(released, K).vectors.T @ xi.T) ** 2 / N

        theory = spikes.finite_size(xi, exposures, config.quality, M, released.radius)
        test = 1 - config.quality**2, N, M, released.radius, config.alpha
        passed = [theory.outliers[k] > private.noise_threshold(*test, stronger=k) for k in range(K)]
        seen = np.logical_and.accumulate(passed).sum()
        cells.append(
            {
                "n_detected": rank.n_detected,
                "null": private_spectrum(pooled["null"], config.alpha)[1].n_detected,
                "magnetisation": retrieval(patterns, xi).magnetisation,
                "overlap": cosines[partner, each],
                "foreseen/n_detected": seen,
                "foreseen/overlap": theory.overlaps[partner, each],
                "foreseen/magnetisation": _magnetisations(
                    theory.alignments[:seen], directions[:seen], xi
                ),
            }
        )
    return stacked(cells)


def _magnetisations(gamma: np.ndarray, p: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """(K,) predicted `|<xihat, xi>| / N` of patterns from eigenvectors along directions p.

    The part of an archetype that lies in their span is a field of independent Gaussian sites.
    """
    a = p @ xi.T  # (rank, K)
    signal = (gamma[:, None] * a).T @ p  # (K, N)
    noise = (gamma * (1 - gamma)) @ a**2 / xi.shape[1]
    return np.mean(xi * erf(signal / np.sqrt(2 * np.maximum(noise, 1e-300))[:, None]), axis=1)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    n_detected, foreseen = arrays["n_detected"], arrays["foreseen/n_detected"]  # (seeds, epsilons)
    gaps = np.abs(arrays["overlap"] - arrays["foreseen/overlap"])
    recovered, expected = (
        (arrays[name] >= FALSE_BELOW).sum(axis=-1)
        for name in ("magnetisation", "foreseen/magnetisation")
    )
    shares = sorted(config.mixture.tolist(), reverse=True)
    N, M, r, alpha = config.N, config.M * config.clients, config.quality, config.alpha
    means = np.zeros(len(config.epsilons))  # sums of each archetype's chance to pass the test
    for i, epsilon in enumerate(config.epsilons):
        z = private.noise_multiplier(epsilon, config.delta)
        about = N, M, float(private.noise_radius(z, N, M, config.clients)), alpha
        means[i] = sum(private.detection_power(r, s, *about, k) for k, s in enumerate(shares))
    summary: dict[str, Any] = {
        "count_agrees": mean_and_sd((n_detected == foreseen).mean(axis=1)),
        "count_gap": with_spread(lambda x: np.abs(x.mean(axis=0) - means).max(), n_detected),
        "false_alarms": mean_and_sd((arrays["null"] > 0).mean(axis=1)),
        "overlap_gap": with_spread(np.median, gaps),
    }
    for i, epsilon in enumerate(config.epsilons):
        summary[f"n_detected_{epsilon:g}"] = mean_and_sd(n_detected[:, i])
        summary[f"n_detected_{epsilon:g}_foreseen"] = float(means[i])
        summary[f"recovered_{epsilon:g}"] = mean_and_sd(recovered[:, i])
        summary[f"recovered_{epsilon:g}_foreseen"] = mean_and_sd(expected[:, i])
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    at = ["none" if math.isinf(e) else f"{e:g}" for e in config.epsilons]
    recovered, whole = (arrays["magnetisation"] >= FALSE_BELOW).sum(axis=-1), "recovered, |m| >= .9"
    lines = {"counted": arrays["n_detected"], whole: recovered}
    theory = {
        "counted": [summary[f"n_detected_{e:g}_foreseen"] for e in config.epsilons],
        whole: [summary[f"recovered_{e:g}_foreseen"][0] for e in config.epsilons],
    }
    words: dict[str, Any] = {"points": True, "xlabel": r"privacy budget $\varepsilon$"}
    names = [rf"$\pi$ = {e:g}" for e in config.exposures]
    held, guess = by(names, arrays["overlap"], -1), arrays["foreseen/overlap"].mean(axis=0)
    return [
        over("archetypes", at, lines, theory, **words),
        over("overlap", at, held, by(names, guess, -1), **words | UNIT),
    ]
