"""The resolvent G of noise in all directions, and distances of eigenvalues beyond its edges.

Beside m, the Stieltjes transform of the Marchenko-Pastur law: the largest ``|a^T G b - m a . b|``
over unit vectors ("law"); ``||U^T G U - m Gram||`` for archetypes U ("lemma"); the "band" (40).
"""

from typing import Annotated, Any

import numpy as np
from scipy.optimize import linprog

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Rule, Settings, at_least, within
from hopfed.experiments.shared.statistics import bootstrap_seeds, stack_cells
from hopfed.figures.kinds import Panel, line_plot, split_axis
from hopfed.hopfield.channel import rademacher
from hopfed.theory import marchenko_pastur

SEVERAL = Rule(lambda v: len(set(v)) > 1, "two values at least", whole=True)
PLACES = ("z above the support", "z below it", "z over its middle")
NULLS, DELTA = 10, 0.05  # noise matrices of each size, ratio and seed; chance to leave the band


class Config(Settings):
    N: Annotated[Ints, at_least(30), SEVERAL, "sites"]
    ratios: Annotated[Floats, lambda s: within(f"(0, {min(s.N) / 8}]"), "q; first for law, lemma"]
    K: Annotated[Ints, lambda s: within(f"[1, {min(s.N)}]"), "archetypes of the lemma"]


def _noise(N: int, q: float, rng: np.random.Generator) -> np.ndarray:
    """Second moment (N, N) of +-1 noise."""
    rows = rademacher(round(N / q), N, rng).astype(np.float64)
    return np.asarray(rows.T @ rows / len(rows))


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `isotropic`: errors of law (N, z), lemma (N, K); widths (N, ratios, nulls)."""

    def size(N: int) -> dict[str, Any]:
        q, rng = config.ratios[0], stream(seed, "isotropic", N)
        values, vectors = np.linalg.eigh(_noise(N, q, rng))
        V = np.hstack([rademacher(N - N // 2, N, rng).T / np.sqrt(N), np.eye(N)[:, : N // 2]])
        inner, along = V.T @ V, vectors.T @ V
        lower, upper = marchenko_pastur.edges(N / round(N / q))
        # Above the support, below it, and over its middle, all at a distance.
        z = np.array([upper + 0.5, min(float(lower), 0.0) - 0.5, (lower + upper) / 2 + 0.5j])
        m = marchenko_pastur.stieltjes(z, N / round(N / q))
        law = [
            np.abs((along.T / (values - x)) @ along - g * inner).max()
            for x, g in zip(z, m, strict=True)
        ]
        lemma, widths = [], []
        for K in config.K:
            U = rademacher(K, N, rng).T / np.sqrt(N)
            seen = vectors.T @ U
            left = (seen.T / (values - z[0].real)) @ seen - m[0].real * (U.T @ U)
            lemma.append(np.linalg.norm(left, 2))
        for ratio in config.ratios:  # distance of nonzero eigenvalues of noise beyond the edges
            rng, M = stream(seed, "isotropic", "band", N, f"{ratio:g}"), round(N / ratio)
            lower, upper = marchenko_pastur.edges(N / M)
            spectra = (np.linalg.eigvalsh(_noise(N, ratio, rng)) for _ in range(NULLS))
            widths.append([max(s[-1] - upper, lower - s[-min(N, M)], 0.0) for s in spectra])
        return {"law/error": law, "lemma/error": lemma, "band/width": widths}

    return stack_cells([size(N) for N in config.N])


def _band_terms(config: Config) -> np.ndarray:
    """Factors (2, N, ratios) of C and C' in (40)."""
    N = np.array(config.N, dtype=float)[:, None]
    first = np.sqrt((np.log(1 / DELTA) + np.log(N)) / np.round(N / np.array(config.ratios)))
    return np.stack(np.broadcast_arrays(first, np.log(N) ** 2 / N ** (2 / 3)))


def _quantile(widths: np.ndarray) -> np.ndarray:
    """The 1 - delta quantile (N, ratios) of widths, over seeds and nulls."""
    return np.quantile(widths, 1 - DELTA, axis=(0, 3), method="higher")


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    law, lemma, widths = arrays["law/error"], arrays["lemma/error"], arrays["band/width"]
    n, N, terms = len(law), np.array(config.N, dtype=float), _band_terms(config)

    def slopes(errors: np.ndarray) -> Any:
        return np.polyfit(np.log(N), np.log(errors.mean(axis=0)), 1)[0]

    first, rows = max(1, n // 3), terms.reshape(2, -1)
    needed = _quantile(widths[:first]).ravel()  # the narrowest band, on average over sizes
    C = linprog(rows.mean(axis=1), A_ub=-rows.T, b_ub=-needed, bounds=(0, None)).x
    held = widths[min(first, n - 1) :] <= np.tensordot(C, terms, 1)[..., None]
    plain = law / np.sqrt(np.log(N))[:, None]
    return {
        "law_slope": bootstrap_seeds(lambda errors: slopes(errors).max(), plain),
        "lemma_slope": bootstrap_seeds(lambda errors: slopes(errors).mean(), lemma),
        "band_constants": f"{C[0]:.3f}, {C[1]:.4f}",
        "band_coverage": f"{held.mean():.3f}, {held.mean(axis=(0, -1)).min():.2f}",
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    rate, made = np.sqrt(np.log(config.N) / np.array(config.N)), []
    words: dict[str, Any] = {"xlabel": "N", "ylabel": "largest error", "log": "xy"}
    for title, name, labels in (
        ("Theorem 3", "law", PLACES),
        ("Lemma 1", "lemma", [f"K = {k}" for k in config.K]),
    ):
        error = arrays[f"{name}/error"]
        guide = {"law": rate * 1.4 * error.mean(axis=0).max() / rate[0]}
        made.append(line_plot(title, config.N, split_axis(labels, error, -1), guide, **words))
    names, C = [f"q = {q:g}" for q in config.ratios], summary["band_constants"].split(",")
    wide = split_axis(names, _quantile(arrays["band/width"]), 1)
    bands = split_axis(names, np.tensordot(np.array(C, float), _band_terms(config), 1), 1)
    words |= {"ylabel": f"{1 - DELTA:.0%} quantile", "log": "x", "points": True}
    return [*made, line_plot("beyond the edges: band (40)", config.N, wide, bands, **words)]
