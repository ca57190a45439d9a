"""Retrieval of pictures over their exposure, beside the prediction of theory for each."""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import DataError
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.silhouettes import LETTERS, SIDE, read_pictures, render_letters
from hopfed.experiments.shared.statistics import bootstrap_seeds, stack_cells
from hopfed.figures.kinds import UNIT, Panel, scatter
from hopfed.hopfield.channel import draw_examples
from hopfed.recovery.recover import recover
from hopfed.theory import planning, spikes
from hopfed.theory.resolution import expected_overlap

SEEN = 0.5  # overlap from which an archetype counts as seen


class Config(Settings):
    data: Annotated[str, "an .npz with pictures; empty for letters"]
    pictures: Annotated[int, within(f"[2, {len(LETTERS)}]"), "number of pictures"]
    M: Annotated[Ints, at_least(50), "numbers of examples"]
    tilts: Annotated[Floats, at_least(1), "largest over smallest share"]
    quality: Annotated[float, within("(0, 1)"), "r of the examples"]


_read = lru_cache(maxsize=2)(read_pictures)


def gini(shares: np.ndarray) -> float:
    """Gini index of exposures (K,), as shares: 0 for equal ones, 1 - 1/K for a single one."""
    K = len(shares)
    return float(np.sort(shares) @ (2 * np.arange(1, K + 1) - K - 1) / (K * shares.sum()))


def predict_overlaps(xi: np.ndarray, exposures: np.ndarray, r: float, M: int) -> np.ndarray:
    """Overlap (K,) by `exposures`, outside heavier archetypes; 0 where the test misses it."""
    N = xi.shape[1]
    order = np.argsort(-exposures, kind="stable")
    own = np.empty(len(xi))
    own[order] = np.diag(np.linalg.qr(xi[order].T / np.sqrt(N), mode="r")) ** 2
    kappa = np.maximum(spikes.spike_strength(r, exposures, N) * own, 1e-12)
    above = spikes.outlier(kappa, N / M, 1 - r**2) > planning.noise_threshold(r, N, M)
    overlaps = expected_overlap(spikes.finite_size(xi, exposures, r, M).scores)
    return np.where(above, overlaps, 0.0)


def measure(seed: int, config: Config) -> Arrays:
    """Experiment `exposure`: overlaps, predictions, exposures (tilts, M, K); scores (tilts, M)."""
    K, r, xi = config.pictures, config.quality, render_letters(SIDE)[: config.pictures]
    if config.data:  # a picture of each class
        images, labels, split = _read(config.data)
        classes = np.unique(labels[split == "train"])[:K]
        if len(classes) < K:
            raise DataError(f"{config.data}: has {len(classes)} classes, not {K}")
        rng, train = stream(seed, "exposure", "pictures"), np.flatnonzero(split == "train")
        rows = [train[rng.choice(np.flatnonzero(labels[train] == c))] for c in classes]
        xi = np.where(images[rows].reshape(K, -1) > 127, 1, -1).astype(np.int8)

    def cell(tilt: float, M: int) -> dict[str, Any]:
        rng = stream(seed, "exposure", f"{tilt:g}", M)
        shares = rng.permutation(np.geomspace(tilt, 1.0, K))
        examples, labels = draw_examples(xi, M, r, rng, exposures=shares / shares.sum())
        realised, estimated = np.bincount(labels, minlength=K) / M, np.full(K, np.nan)
        found = recover(examples, seed=seed, channel="symmetric")
        score = retrieval(found.patterns, xi)
        for pattern, estimate in zip(score.best, found.exposures, strict=True):
            estimated[pattern] = np.nansum([estimated[pattern], estimate])
        return {
            "matched": score.matched,
            "false": score.false_discoveries,
            "foreseen": predict_overlaps(xi, realised, r, M),
            "exposure": realised,
            "estimated": estimated,
            "gini": gini(realised),
            "gini_estimated": gini(np.nan_to_num(estimated)) if len(found) else np.nan,
        }

    return stack_cells([[cell(tilt, M) for M in config.M] for tilt in config.tilts])


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    seen, foreseen = arrays["matched"] >= SEEN, arrays["foreseen"] >= SEEN
    whole = seen.all(axis=-1)
    ratio = (arrays["estimated"] / np.maximum(arrays["exposure"], 1e-12))[whole]
    off = np.abs(arrays["gini_estimated"] - arrays["gini"])[whole]
    return {
        "source": Path(config.data).name if config.data else "letters (no data=PATH)",
        "agree": bootstrap_seeds(np.mean, seen == foreseen),
        "against": float((seen & ~foreseen).mean()),
        "false": int(arrays["false"].max()),
        "exposure": float(np.nanmean(ratio)) if whole.any() else None,
        "gini": float(np.nanmean(off)) if whole.any() else None,
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    seen, lines = {}, {}
    for j, M in enumerate(config.M):
        held = np.stack([arrays[n][:, :, j].ravel() for n in ("exposure", "matched", "foreseen")])
        held = held[:, np.argsort(held[0])]
        x, m, theory = held[:, held[0] > 0]
        seen[f"M = {M}"] = x, m
        parts = np.array_split(np.arange(len(x)), min(25, len(x)))
        lines[f"M = {M}"] = [[v[p].mean() for p in parts] for v in (x, theory)]
    words: dict[str, Any] = {"xlabel": "exposure", "log": "x", "lines": lines, "diagonal": False}
    return [scatter("overlap; line: foreseen", seen, **words | UNIT)]
