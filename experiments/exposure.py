"""Retrieval against exposure: pictures that some examples come from more often than from others.

Source: arXiv:2603.19902, Section 4.1 ("the role of exposure") and its structured data.

The archetypes are pictures, one of each class of a file such as MNIST or Fashion-MNIST, dark pixels
+1. M examples come from them by shares that fall geometrically, from equal ones to a ratio of the
largest to the smallest of some hundred; the Gini index measures how unequal they are. For every
archetype the overlap of its pattern is shown over its exposure, beside what theory foresees from
the pictures and the realised exposures (`foreseen`). Estimated exposures and their Gini index are
compared with those of the draw.

Measured (default preset, MNIST, seeds 100 to 109; pictures overlap by .62 on average):

- .88 of the archetypes are seen or not as foreseen (.79 / .90 / .95 at M = 300 / 1,000 / 3,000).
  The errors are of one side: .4% are seen against the forecast, 12% are not found although their
  own direction is above the threshold, most of them where few examples show several pictures at
  once. Where both agree the overlap is less than foreseen by .002;
- so the mean overlap falls with the Gini index of the exposures: from 1.00 at .06 to .95 at .38,
  .68 at .61 and .51 at .72 with M = 3,000, from .68 to .31 with M = 300;
- estimated exposures are 1.001 of the realised ones where all are seen, and their Gini index is off
  by .005. Where some are not seen the others are given their shares;
- one false pattern in one of the 120 draws.

Run it with ``hopfed run exposure --preset paper --set data=mnist.npz --out exposure.h5``. Without a
file (``images``, ``labels`` and ``split``, as for `hopfed run fl`) letters stand in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.archetypes.overlap import retrieval
from hopfed.errors import DataError
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.letters import LETTERS, render_letters
from hopfed.experiments.shared.statistics import r_squared, with_spread
from hopfed.hopfield.channel import draw_examples
from hopfed.recovery.recover import recover
from hopfed.tables.arrays import Npz
from hopfed.theory import planning, spikes
from hopfed.theory.resolution import expected_overlap

SIDE = 28  # of the letters
SEEN = 0.5  # overlap from which an archetype counts as seen


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    data : path of an .npz with pictures; empty for letters instead.
    pictures : number of classes, the first ones of the file.
    M : numbers of examples.
    tilts : ratios of the largest to the smallest share, at least 1.
    quality : r of the examples.
    seeds : draws; each takes other pictures of the classes.
    """

    data: str = ""
    pictures: int = 10
    M: tuple[int, ...] = (300, 1000, 3000)
    tilts: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    quality: float = 0.4
    seeds: int = 10

    def __post_init__(self) -> None:
        check_types(self)
        most = len(LETTERS)
        require(2 <= self.pictures <= most, "pictures", f"2 to {most}", self.pictures)
        require(min(self.M) >= 50, "M", "at least 50 each", self.M)
        require(min(self.tilts) >= 1, "tilts", "at least 1 each", self.tilts)
        require(0 < self.quality < 1, "quality", "in (0, 1)", self.quality)
        require(self.seeds >= 1, "seeds", "at least 1", self.seeds)


PRESETS = {
    "quick": Config(pictures=6, M=(300, 1000), tilts=(1.0, 100.0), seeds=3),
    "default": Config(),
    "paper": Config(seeds=30),
}

RECORD = Record(
    claim="exposure decides what is retrieved, as theory foresees it for each picture",
    source="hopfield federation, Sec. 4.1",
    minutes={"quick": 0.05, "default": 0.5, "paper": 1.5},
    measures={
        "source": Measure("pictures"),
        "agree": Measure("archetypes seen or not, as foreseen", aim=">= .95"),
        "against": Measure("archetypes seen against the forecast", aim="0"),
        "r2": Measure("overlaps explained by theory, R^2"),
        "gap": Measure("overlap less that foreseen, mean of those foreseen above .5", aim="0"),
        "false": Measure("false discoveries, most in a draw", aim="0"),
        "exposure": Measure("estimated exposure over realised, where all are seen", aim="1"),
        "gini": Measure("Gini index of estimated less that of realised exposures", aim="0"),
    },
)


def run(config: Config, seed: int) -> Arrays:
    """Overlaps, foreseen ones and exposures (tilts, M, K), and scores (tilts, M)."""
    xi = pictures(config.data, config.pictures, seed)
    cells = [[_cell(config, xi, tilt, M, seed) for M in config.M] for tilt in config.tilts]
    names = cells[0][0]
    return {name: np.array([[cell[name] for cell in row] for row in cells]) for name in names}


def pictures(data: str, K: int, seed: int) -> np.ndarray:
    """One picture of each of K classes, int8 (K, N) of +-1; each seed takes others.

    Letters have one picture each.

    Raises
    ------
    DataError : the file holds no pictures with labels, or too few classes.

    Examples
    --------
    >>> pictures("", 5, seed=0).shape
    (5, 784)
    """
    if not data:
        return render_letters(SIDE)[:K]
    images, labels = _load(data)
    classes = np.unique(labels)
    if len(classes) < K:
        raise DataError(f"{data}: has {len(classes)} classes, not {K}")
    rng = stream(seed, "exposure", "pictures")
    rows = [rng.choice(np.flatnonzero(labels == c)) for c in classes[:K]]
    dark = images[rows].reshape(K, -1) > 127
    return np.where(dark, 1, -1).astype(np.int8)


@lru_cache(maxsize=2)
def _load(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and labels of the training split."""
    with Npz(Path(data)) as archive:
        missing = [key for key in ("images", "labels") if key not in archive]
        if missing:
            raise DataError(f"{data}: it must be an .npz with images and labels: no {missing[0]}")
        images, labels = archive["images"], archive["labels"]
        train = archive["split"] == "train" if "split" in archive else np.ones(len(labels), bool)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{data}: images must be (n, side, side), with a label for each")
    return images[train], labels[train]


def gini(shares: np.ndarray) -> np.ndarray:
    """Gini index (...,) of shares (..., K): 0 for equal ones, 1 - 1/K if one has all.

    Examples
    --------
    >>> gini(np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0]])).tolist()
    [0.0, 0.75]
    """
    K = shares.shape[-1]
    ranks = 2 * np.arange(1, K + 1) - K - 1
    found: np.ndarray = np.sort(shares, axis=-1) @ ranks / (K * shares.sum(axis=-1))
    return found


def foreseen(xi: np.ndarray, exposures: np.ndarray, r: float, M: int) -> np.ndarray:
    """Overlap (K,) to expect of each archetype; 0 where the test does not show it.

    Pictures are alike, and an archetype that lies in the directions of heavier ones cannot be told
    from them. So it is asked whether its own direction, what those leave of it, is a spike above
    the threshold of the count; if it is, the overlap is that of its score.

    Examples
    --------
    >>> xi = np.sign(np.random.default_rng(0).standard_normal((2, 400)))
    >>> foreseen(xi, np.array([0.995, 0.005]), 0.5, 800).round(2).tolist()
    [1.0, 0.0]
    """
    N = xi.shape[1]
    order = np.argsort(-exposures, kind="stable")
    corner = np.linalg.qr(xi[order].T / np.sqrt(N), mode="r")
    own = np.empty(len(xi))
    own[order] = np.diag(corner) ** 2
    kappa = np.maximum(spikes.spike_strength(r, exposures, N) * own, 1e-12)
    above = spikes.outlier(kappa, N / M, 1 - r**2) > planning.noise_threshold(r, N, M)
    overlaps = expected_overlap(spikes.finite_size(xi, exposures, r, M).scores)
    return np.where(above, overlaps, 0.0)


def _cell(config: Config, xi: np.ndarray, tilt: float, M: int, seed: int) -> dict[str, Any]:
    K, r = len(xi), config.quality
    rng = stream(seed, "exposure", f"{tilt:g}", M)
    shares = rng.permutation(np.geomspace(tilt, 1.0, K))
    examples, labels = draw_examples(xi, M, r, rng, exposures=shares / shares.sum())
    realised = np.bincount(labels, minlength=K) / M
    found = recover(examples, seed=seed, channel="symmetric")
    score = retrieval(found.patterns, xi)
    told = np.full(K, np.nan)
    for pattern, estimate in zip(score.best, found.exposures, strict=True):
        told[pattern] = np.nansum([told[pattern], estimate])
    return {
        "magnetisation": score.magnetisation,
        "matched": score.matched,
        "frobenius": score.frobenius,
        "false": score.false_discoveries,
        "foreseen": foreseen(xi, realised, r, M),
        "exposure": realised,
        "estimated": told,
        "gini": gini(realised),
        "gini_estimated": gini(np.nan_to_num(told)) if len(found) else np.nan,
    }


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """How well exposures and theory foresee what is retrieved."""
    m, foreseen, n = arrays["matched"], arrays["foreseen"], len(arrays["matched"])
    seen, told = m >= SEEN, foreseen >= SEEN
    ratio = arrays["estimated"] / np.maximum(arrays["exposure"], 1e-12)
    whole = np.broadcast_to(seen.all(axis=-1, keepdims=True), ratio.shape)
    off = arrays["gini_estimated"] - arrays["gini"]
    shown = whole[..., 0]
    return {
        "source": Path(config.data).name if config.data else "letters (no data=PATH)",
        "agree": with_spread(lambda i: float((seen == told)[i].mean()), n),
        "against": float((seen & ~told).mean()),
        "r2": with_spread(lambda i: float(r_squared(m[i].ravel(), foreseen[i].ravel())), n),
        "gap": with_spread(lambda i: float((m - foreseen)[i][told[i]].mean()), n),
        "false": int(arrays["false"].max()),
        "exposure": float(np.nanmean(ratio[whole])) if whole.any() else None,
        "gini": float(np.nanmean(np.abs(off[shown]))) if shown.any() else None,
    }
