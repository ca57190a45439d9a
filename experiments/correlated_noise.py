"""Counts of archetypes in fitted noise: at the white or generalised edge, or after whitening."""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy.linalg import toeplitz

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Settings, at_least, within
from hopfed.experiments.shared.statistics import mean_and_sd, stack_cells
from hopfed.figures.kinds import Panel, line_plot, split_axis
from hopfed.hopfield.channel import rademacher
from hopfed.spectral.rank import noise_variance, white_edge
from hopfed.theory import covariance as cov
from hopfed.theory import spikes
from hopfed.theory.covariance import Population

METHODS = ("classical", "generalised", "whitened")
ALPHA = 0.01  # false-alarm rate of every test
MIXTURE = (0.5, 0.3, 0.2)  # shares of the archetypes
RHOS = (0.3, 0.6)  # lag-one correlations
BLOCKS = (0.4, 0.8, 1.8)  # relative variances of the last noise
FITS = 10  # largest number of fits and counts; two or three usually suffice

# Fit to second moments (N, N): the nearest covariance (N, N) of a family, and its spectrum.
Family: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, Population]]


class Config(Settings):
    N: Annotated[int, at_least(20), "sites"]
    qualities: Annotated[Floats, within("[0, 1)"), "r of the examples; 0 is the null"]


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `correlated_noise`: counts and predictions of a seed, axes (noise, quality)."""
    N, M, K = config.N, 2 * config.N, len(MIXTURE)
    parts = np.array_split(np.ones(N), len(BLOCKS))
    variances = np.concatenate([p * b for p, b in zip(parts, BLOCKS, strict=True)])
    noises: list[tuple[Family, np.ndarray]] = [
        *((_fit_autoregressive, toeplitz(rho ** np.arange(N))) for rho in RHOS),
        (_fit_blocks, np.diag(variances / variances.mean())),
    ]

    def cell(i: int, r: float) -> dict[str, Any]:
        rng, (family, covariance) = stream(seed, "correlated_noise", i, str(r)), noises[i]
        xi = rademacher(K, N, rng)
        labels = rng.choice(K, size=M, p=MIXTURE)
        noise = (1 - r**2) * covariance
        root = np.linalg.cholesky(noise)
        x = r * xi[labels] + rng.standard_normal((M, N)) @ root.T
        moment = x.T @ x / M
        values, vectors = np.linalg.eigh(moment)
        counted, fitted = _fit_noise(moment, values[::-1], vectors[:, ::-1], M, family)
        half = np.linalg.inv(np.linalg.cholesky(fitted))
        whitened = np.linalg.eigvalsh(half @ moment @ half.T)
        white, white_fitted = (count_white(v[::-1], N, M, ALPHA) for v in (values, whitened))
        foreseen = [0, 0]
        if r > 0:  # predictions from the truth
            signal = r * np.sqrt(np.bincount(labels, minlength=K) / M) * xi.T  # (N, K)
            law = Population(np.linalg.eigvalsh(noise))
            ell, _ = cov.population_spike(np.linalg.svd(signal, compute_uv=False) ** 2, law)
            seen = cov.outlier(ell, law, N / M) > cov.noise_threshold(law, N, M, ALPHA)
            kappa = np.linalg.svd(np.linalg.solve(root, signal), compute_uv=False) ** 2
            left = spikes.outlier(kappa, N / M) > white_edge(M, N, ALPHA) / M
            foreseen = [int(seen.sum()), int(left.sum())]
        return {"n_detected": (white, counted, white_fitted), "foreseen": foreseen}

    return stack_cells([[cell(i, r) for r in config.qualities] for i in range(len(noises))])


def count_white(values: np.ndarray, N: int, M: int, alpha: float, widening: float = 1.0) -> int:
    """Count spikes as if correlated noise were white, by Tracy-Widom tests one after another."""
    scale = values.sum() / N
    for k in range(len(values) - 1):
        variance = scale * noise_variance(values[:k] / scale, N, N / M)
        threshold = variance * white_edge(M - k, N - k, alpha) / M * widening
        if values[k] <= threshold:
            return k
    return len(values) - 1


def _fit_autoregressive(moments: np.ndarray) -> tuple[np.ndarray, Population]:
    """Fit ``variance rho^|i - j|`` to the means of the diagonal and of the first off-diagonal."""
    variance = float(np.mean(np.diag(moments)))
    rho = float(np.clip(np.mean(np.diag(moments, 1)) / variance, -0.99, 0.99))
    return toeplitz(variance * rho ** np.arange(len(moments))), Population.ar1(rho, variance)


def _fit_blocks(moments: np.ndarray) -> tuple[np.ndarray, Population]:
    """Fit independent sites in blocks of consecutive ones, one variance per block."""
    parts = np.array_split(np.diag(moments), len(BLOCKS))
    variances = np.concatenate([np.full(len(p), max(p.mean(), 1e-12)) for p in parts])
    return np.diag(variances), Population(variances)


def _fit_noise(
    moment: np.ndarray, values: np.ndarray, vectors: np.ndarray, M: int, family: Family
) -> tuple[int, np.ndarray]:
    """Fit noise and count spikes in turn until the count settles; (count, covariance)."""
    N, n_detected = len(moment), 0
    covariance, population = family(moment)
    for _ in range(FITS):
        before = n_detected
        n_detected = int((values > cov.noise_threshold(population, N, M, ALPHA)).sum())
        if n_detected == before:
            break
        ell = cov.population_eigenvalue(values[:n_detected], population, N / M)
        gap = np.maximum(ell[:, None] - population.eigenvalues, 0.0)
        with np.errstate(divide="ignore"):  # the inverse of `covariance.population_spike`
            strengths = np.nan_to_num(1 / (population.weights / gap).sum(axis=1))
        V = vectors[:, :n_detected]
        covariance, population = family(moment - (V * strengths) @ V.T)
    return n_detected, covariance


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    n_detected, foreseen = arrays["n_detected"], arrays["foreseen"]  # last axis: methods
    null = np.array(config.qualities) == 0
    summary: dict[str, Any] = {}
    if null.any():
        summary["false_classical"] = mean_and_sd(n_detected[:, 0, null, 0].ravel())
        for k, method in enumerate(("classical_all", *METHODS[1:])):
            summary[f"false_{method}"] = mean_and_sd(n_detected[:, :, null, k].ravel())
    for k, method in enumerate(METHODS[1:]):
        whole = foreseen[..., k] == len(MIXTURE)
        if whole.any():
            summary[f"kept_{method}"] = mean_and_sd(n_detected[..., k + 1][whole])
        if not null.all():
            same = (n_detected[..., k + 1] == foreseen[..., k])[:, :, ~null]
            summary[f"agree_{method}"] = mean_and_sd(same.mean(axis=(1, 2)))
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    words: dict[str, Any] = {"points": True, "yscale": "symlog"}
    counted, foreseen = arrays["n_detected"], arrays["foreseen"].mean(axis=0)
    titles = (*(rf"AR(1), $\rho$ = {rho:g}" for rho in RHOS), "blocks")
    return [
        line_plot(
            f"counted, {title}", config.qualities, split_axis(METHODS, counted[:, i], -1),
            split_axis(METHODS[1:], foreseen[i], -1), xlabel="quality r", **words,
        )
        for i, title in enumerate(titles)
    ]  # fmt: skip
