"""Private operators: noise hides the weakest archetypes first (theory/NOTES.md, Semicircle)."""

import math
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import FALSE_BELOW, retrieval
from hopfed.archetypes.patterns import factorize
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Settings, above, at_least
from hopfed.experiments.shared.statistics import bootstrap_seeds, mean_and_sd, stack_cells
from hopfed.figures.kinds import UNIT, Panel, line_plot, split_axis
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.privacy.private_operator import privatise_operator
from hopfed.privacy.private_spectrum import PRIVATE_SEARCH, private_spectrum
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import DenseOperator, pool
from hopfed.theory import private, spikes

QUALITY, ALPHA, DELTA = 0.4, 0.01, 1e-5  # r, level of the count, delta of every budget
MIXTURE = np.array([0.4, 0.27, 0.18, 0.1, 0.05])  # shares of the archetypes
PICKED = "recovered, |m| >= .9"


class Config(Settings):
    N: Annotated[int, at_least(20), "sites"]
    M: Annotated[int, at_least(2), "examples of each client"]
    clients: Annotated[int, at_least(1)]
    epsilons: Annotated[Floats, above(0), "budgets; inf is no noise"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `privacy`: results of one draw at every epsilon, which is the first axis."""
    rng, K = stream(seed, "privacy", "examples"), len(MIXTURE)
    N, M = config.N, config.M * config.clients
    xi = rademacher(K, N, rng)
    examples, labels = draw_examples(xi, M, QUALITY, rng, exposures=MIXTURE)
    exposures = np.bincount(labels, minlength=K) / M
    rows = {"noise": examples, "null": rademacher(M, N, stream(seed, "privacy", "coins"))}
    clients = {
        name: [DenseOperator.from_examples(part) for part in np.split(held, config.clients)]
        for name, held in rows.items()
    }
    directions = np.linalg.svd(np.sqrt(exposures / N)[:, None] * xi, full_matrices=False)[2]
    partner, each = ((directions @ xi.T) ** 2).argmax(axis=0), np.arange(K)  # nearest eigenvectors
    search: dict[str, Any] = {"method": "layered", "search": PRIVATE_SEARCH, "seed": seed}
    cells = []
    for epsilon in config.epsilons:
        scale = private.noise_multiplier(epsilon, DELTA) * N
        pooled = dict[str, Any]()
        for name, held in clients.items():
            at = "privacy", name, str(epsilon)
            noised = [
                privatise_operator(own, scale, stream(seed, *at, c)) for c, own in enumerate(held)
            ]
            pooled[name] = pool(noised)
        released = pooled["noise"]
        spectrum, rank = private_spectrum(released, ALPHA)
        patterns = factorize(spectrum, rank, **search).patterns
        cosines = (eigenpairs(released, K).vectors.T @ xi.T) ** 2 / N
        theory = spikes.finite_size(xi, exposures, QUALITY, M, released.radius)
        test = 1 - QUALITY**2, N, M, released.radius, ALPHA
        passed = [theory.outliers[k] > private.noise_threshold(*test, stronger=k) for k in range(K)]
        seen = np.logical_and.accumulate(passed).sum()
        made = _magnetisations(theory.alignments[:seen], directions[:seen], xi)
        cell = {
            "n_detected": rank.n_detected,
            "null": private_spectrum(pooled["null"], ALPHA)[1].n_detected,
            "magnetisation": retrieval(patterns, xi).magnetisation,
            "overlap": cosines[partner, each],
            "foreseen/n_detected": seen,
            "foreseen/overlap": theory.overlaps[partner, each],
            "foreseen/magnetisation": made,
        }
        cells.append(cell)
    return stack_cells(cells)


def _magnetisations(gamma: np.ndarray, p: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """(K,) predicted |m| of patterns from eigenvectors along directions p; sites are Gaussian."""
    a = p @ xi.T  # (rank, K)
    signal = (gamma[:, None] * a).T @ p  # (K, N)
    noise = (gamma * (1 - gamma)) @ a**2 / xi.shape[1]
    return np.mean(xi * erf(signal / np.sqrt(2 * np.maximum(noise, 1e-300))[:, None]), axis=1)


def _recovered(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of archetypes, recovered and predicted: (seeds, epsilons)."""
    names = "magnetisation", "foreseen/magnetisation"
    recovered, foreseen = ((arrays[name] >= FALSE_BELOW).sum(axis=-1) for name in names)
    return recovered, foreseen


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    n_detected, (recovered, expected) = arrays["n_detected"], _recovered(arrays)
    N, M = config.N, config.M * config.clients
    means = np.zeros(len(config.epsilons))  # expected counts: sums of chances to pass the test
    for i, epsilon in enumerate(config.epsilons):
        z = private.noise_multiplier(epsilon, DELTA)
        about = N, M, float(private.noise_radius(z, N, M, config.clients)), ALPHA
        means[i] = sum(
            private.detection_power(QUALITY, s, *about, k) for k, s in enumerate(MIXTURE)
        )
    gaps = np.abs(arrays["overlap"] - arrays["foreseen/overlap"])
    summary: dict[str, Any] = {
        "count_agrees": mean_and_sd((n_detected == arrays["foreseen/n_detected"]).mean(axis=1)),
        "count_gap": bootstrap_seeds(lambda x: np.abs(x.mean(axis=0) - means).max(), n_detected),
        "false_alarms": mean_and_sd((arrays["null"] > 0).mean(axis=1)),
        "overlap_gap": bootstrap_seeds(np.median, gaps),
    }
    for i, epsilon in enumerate(config.epsilons):
        summary[f"n_detected_{epsilon:g}"] = mean_and_sd(n_detected[:, i])
        summary[f"n_detected_{epsilon:g}_foreseen"] = float(means[i])
        summary[f"recovered_{epsilon:g}"] = mean_and_sd(recovered[:, i])
        summary[f"recovered_{epsilon:g}_foreseen"] = mean_and_sd(expected[:, i])
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    at = ["none" if math.isinf(e) else f"{e:g}" for e in config.epsilons]
    recovered, expected = _recovered(arrays)
    counts = [summary[f"n_detected_{e:g}_foreseen"] for e in config.epsilons]
    lines = {"counted": arrays["n_detected"], PICKED: recovered}
    theory = {"counted": counts, PICKED: expected.mean(axis=0)}
    words: dict[str, Any] = {"points": True, "xlabel": r"privacy budget $\varepsilon$"}
    names = [rf"$\pi$ = {e:g}" for e in MIXTURE]
    held, guess = split_axis(names, arrays["overlap"], -1), arrays["foreseen/overlap"].mean(axis=0)
    return [
        line_plot("archetypes", at, lines, theory, **words),
        line_plot("overlap", at, held, split_axis(names, guess, -1), **words | UNIT),
    ]
