"""Pictures as archetypes: Caltech-101 silhouettes, or letters where the file is not at hand (5.3).

The file is an ``.npz`` with ``images`` (n, side, side) of object = 0 and background = 1, ``labels``
(n,), ``split`` (n,) of words, and ``class_names``. One picture stands for its class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError
from hopfed.experiments.shared.letters import LETTERS, render_letters
from hopfed.tables.arrays import Npz

PAPER_CLASSES = ("anchor", "Motorbikes", "bass")
SIDE = 28  # of the letters, as of the silhouettes
ALIKE = 0.8  # above this |overlap| two pictures count as one

_KEYS = ("images", "labels", "split", "class_names")


@dataclass(frozen=True, eq=False)
class Pictures:
    """Binary pictures with names: int8 (K, side^2), object +1, and what they are, for titles."""

    patterns: np.ndarray = field(repr=False)
    names: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return len(self.names)

    @property
    def images(self) -> np.ndarray:
        """The same as (K, side, side)."""
        side = round(self.patterns.shape[1] ** 0.5)
        return self.patterns.reshape(-1, side, side)

    def take(self, picks: Sequence[int]) -> Pictures:
        """Return the pictures at the indices `picks`, in that order."""
        names = tuple(self.names[i] for i in picks)
        return Pictures(self.patterns[list(picks)], names, self.source)

    def spread(self, K: int, *, cut: float = ALIKE) -> Pictures:
        """Choose K pictures evenly spread over all, none nearer than `cut` to another.

        Every ``round(n / K)``-th picture is taken, going round; one with |overlap| above `cut` to
        a chosen one gives way to the next. ArgumentError where fewer than K are left.
        """
        n = len(self)
        require(1 <= K <= n, "K", f"in 1 .. {n}", K)
        require(0 < cut < 1, "cut", "in (0, 1)", cut)
        step = max(1, round(n / K))
        near = np.abs(overlaps(self.patterns)) > cut
        barred = np.zeros(n, dtype=bool)
        picks: list[int] = []
        for i in range(K):
            order = np.roll(np.arange(n), -i * step)
            free = order[~barred[order]]
            if not len(free):
                raise ArgumentError("K", f"at most {i} for overlaps up to {cut} in this order", K)
            picks.append(int(free[0]))
            barred |= near[free[0]]
        return self.take(picks)


def load_silhouettes(
    path: str | Path = "", classes: Sequence[str] = PAPER_CLASSES, *, example: int = 0
) -> Pictures:
    """Load one silhouette of each class; without a path, letters stand in.

    Parameters
    ----------
    path : the file; "" for as many capital letters as classes are named, spread over the alphabet
        (all 26 when none is). `Pictures.source` tells which it was.
    classes : names, or their beginnings where only one class begins so; () for all classes.
    example : which picture of each class, counted from 0 in the order of the training split.
    """
    require(example >= 0, "example", "at least 0", example)
    if not str(path):
        letters = Pictures(render_letters(SIDE), tuple(LETTERS), "letters")
        return letters.spread(len(classes)) if classes else letters
    images, labels, split, names = _read(Path(path))
    chosen = _find_classes(names, classes) if classes else list(range(len(names)))
    picks = []
    for c in chosen:
        own = np.flatnonzero((labels == c) & (split == "train"))
        most = f"below {len(own)}, the training pictures of {names[c]}"
        require(example < len(own), "example", most, example)
        picks.append(own[example])
    patterns = np.where(images[picks].reshape(len(picks), -1) == 0, 1, -1).astype(np.int8)
    return Pictures(patterns, tuple(names[c] for c in chosen), "Caltech-101 silhouettes")


def overlaps(patterns: np.ndarray) -> np.ndarray:
    """Overlaps ``<xi_mu, xi_nu> / N`` of patterns (K, N) with one another: float64 (K, K)."""
    return patterns @ patterns.T.astype(np.float64) / patterns.shape[1]


def decorrelate(patterns: np.ndarray, target: float, seed: int) -> np.ndarray:
    """Flip random pixels until no two patterns (K, N) overlap by more than `target`, either sign.

    The paper's figures use decorrelated silhouettes and its text does not say how; this is our
    reading. One pixel is flipped at a time, in either pattern of the pair that overlaps most, drawn
    among the pixels that make them overlap. For the paper's three and a target of .1 that changes
    10.3 +- .2% of the pixels (10 seeds); pixels drawn among all would take 28 +- 2%.
    """
    require(0 < target < 1, "target", "in (0, 1)", target)
    rng = stream(seed, "decorrelate")
    xi = patterns.copy()
    common = xi.astype(np.int64) @ xi.T.astype(np.int64)  # N times the overlaps, 0 on the diagonal
    np.fill_diagonal(common, 0)
    for _ in range(xi.size):
        pair = np.unravel_index(np.abs(common).argmax(), common.shape)
        product = common[pair]
        if abs(product) <= target * xi.shape[1]:
            return xi
        k = rng.choice(pair)
        site = rng.choice(np.flatnonzero(np.prod(xi[list(pair)], axis=0) == np.sign(product)))
        xi[k, site] *= -1
        common[k] += 2 * xi[k, site] * xi[:, site].astype(np.int64)
        common[k, k] = 0
        common[:, k] = common[k]
    rule = f"larger: {xi.size} flips left an |overlap| of {np.abs(common).max() / xi.shape[1]:.3g}"
    raise ArgumentError("target", rule, target)


def deflate(patterns: np.ndarray) -> np.ndarray:
    """Decorrelate patterns (K, N) in their order, as the programs of arXiv:2603.19902 do.

    ``xi_mu = sgn(xihat_mu - sum_{nu < mu} (xi_nu . xihat_mu / N) xi_nu)``, sgn(0) = +1. A pixel
    turns only where the projections add up to more than 1, so the paper's three silhouettes stay
    as they are; 13 and 25 of them become more alike, their largest overlap rises from .76 and .79
    to .98.
    """
    xi = patterns.copy()
    for k in range(1, len(xi)):
        projections = xi[:k].astype(np.float64) @ xi[k] / xi.shape[1]
        xi[k] = np.where(xi[k] - projections @ xi[:k] >= 0, 1, -1)
    return xi


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    with Npz(path) as archive:
        missing = [key for key in _KEYS if key not in archive]
        if missing:
            reason = f"it must be an .npz with {', '.join(_KEYS)}, and has no {missing[0]}"
            raise DataError(f"{path}: cannot be read as silhouettes: {reason}")
        images, labels, split, names = (archive[key] for key in _KEYS)
    square = images.ndim == 3 and images.shape[1] == images.shape[2]
    rows = labels.shape == split.shape == images.shape[:1] and names.ndim == 1 and len(names) > 0
    if not (square and rows):
        raise DataError(f"{path}: silhouettes must be square, with a label and a split for each")
    if not np.isin(images, (0, 1)).all():
        raise DataError(f"{path}: silhouettes must hold 0 for the object and 1 for the background")
    return images, labels, split, [str(name) for name in names]


def _find_classes(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the index of the class that each wanted word names or begins."""
    low = [name.lower() for name in names]
    found = []
    for word in map(str.lower, wanted):
        hits = [low.index(word)] if word in low else []
        hits = hits or [i for i, name in enumerate(low) if name.startswith(word)]
        if len(hits) != 1:
            near = [names[i] for i in hits or map(low.index, get_close_matches(word, low))]
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise ArgumentError("classes", f"names of one class each{hint}", repr(word))
        found.append(hits[0])
    require(len(set(found)) == len(found), "classes", "different from one another", tuple(wanted))
    return found
