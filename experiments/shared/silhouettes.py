"""Pictures as archetypes: Caltech-101 silhouettes, or letters without the file (5.3).

The 26 capital letters are drawn with the font that matplotlib brings along. The file is an ``.npz``
with ``images`` (n, side, side) of object = 0 and background = 1, ``labels`` (n,), ``split`` (n,) of
words, and ``class_names``. One picture stands for its class.
"""

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError
from hopfed.hopfield.channel import draw_examples

PAPER_CLASSES = ("anchor", "Motorbikes 16", "bass")
SIDE = 28  # pixels of a side of letters and silhouettes
ALIKE = 0.8  # above this |overlap| two pictures count as one
LETTERS = string.ascii_uppercase
CLIENTS, EACH, QUALITY, SUBSET = 5, 1_200, 0.5, 14  # settings of `hopfed demo`


def render_letters(size: int = 48) -> np.ndarray:
    """Draw letters as silhouettes, ink +1, paper -1, `size` pixels a side: int8 (26, size^2)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    images = []
    for letter in LETTERS:
        figure = Figure(figsize=(1, 1), dpi=size)
        canvas, path = FigureCanvasAgg(figure), TextPath((0, 0), letter, size=1)
        box = path.get_extents()
        place = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
        place = place.scale(0.86 / max(box.width, box.height)).translate(0.5, 0.5)
        figure.add_artist(PathPatch(path, transform=place + figure.transFigure, color="black"))
        canvas.draw()
        images.append(np.asarray(canvas.buffer_rgba())[..., 0].ravel() < 128)
    return np.where(images, 1, -1).astype(np.int8)


def letters_over_clients(seed: int, size: int) -> tuple[np.ndarray, list[np.ndarray], list[str]]:
    """Silhouettes of letters for `hopfed demo`, examples of clients, and the letters of each."""
    letters = render_letters(size)
    order = stream(seed, "demo", "deal").permutation(len(LETTERS))
    subsets = [np.sort(np.roll(order, -c * len(order) // CLIENTS)[:SUBSET]) for c in range(CLIENTS)]
    examples = [
        draw_examples(letters[own], EACH, QUALITY, stream(seed, "demo", "client", c))[0]
        for c, own in enumerate(subsets)
    ]
    return letters, examples, ["".join(LETTERS[k] for k in own) for own in subsets]


def choose_patterns(patterns: np.ndarray, K: int) -> np.ndarray:
    """Choose K silhouettes of `patterns` (n, N) evenly, no two alike; ArgumentError for too few."""
    n, picks = len(patterns), list[int]()
    step, near = max(1, round(n / K)), np.abs(pattern_overlaps(patterns)) > ALIKE
    for i in range(K):
        order = np.roll(np.arange(n), -i * step)
        free = order[~near[picks][:, order].any(axis=0)]
        require(len(free) > 0, "K", f"at most {i} for overlaps up to {ALIKE}", K)
        picks.append(int(free[0]))
    return patterns[picks]


def load_silhouettes(path: str | Path = "", classes: Sequence[str] = PAPER_CLASSES) -> np.ndarray:
    """Load silhouettes, the first training picture of each class: int8 (K, side^2), object +1."""
    if not str(path):
        letters = render_letters(SIDE)
        return choose_patterns(letters, len(classes)) if classes else letters
    images, labels, split, held = read_pictures(path, "class_names")
    if not np.isin(images, (0, 1)).all():
        raise DataError(f"{path}: silhouettes must be squares of 0 and 1")
    picks: list[int] = []
    with guard_reading(path):  # names may not be texts
        names = [str(name).lower() for name in np.atleast_1d(held)]
    for word in [name.lower() for name in classes] or names:
        place = names.index(word) if word in names else np.nan
        pairs = zip(np.ravel(labels).tolist(), np.ravel(split).tolist(), strict=False)
        own = [k for k, pair in enumerate(pairs) if pair == (place, "train")]
        require(len(own) > 0, "classes", "of the file, with a picture to train on", repr(word))
        picks.append(own[0])
    if not picks:
        raise DataError(f"{path}: there is no class in it")
    return np.where(images[picks].reshape(len(picks), -1) == 0, 1, -1).astype(np.int8)


def pattern_overlaps(patterns: np.ndarray) -> np.ndarray:
    """Overlaps ``<xi_mu, xi_nu> / N`` of silhouettes (K, N) with one another: float64 (K, K)."""
    return patterns @ patterns.T.astype(np.float64) / patterns.shape[1]


def decorrelate(patterns: np.ndarray, target: float, seed: int) -> np.ndarray:
    """Flip random pixels until no two silhouettes (K, N) overlap by over `target`, either sign.

    The paper gives no method. Here one pixel is flipped at a time, in either pattern of the pair
    that overlaps most, among pixels that add to it: 10.3 +- .2% of the paper's three, for .1.
    """
    rng, xi = stream(seed, "decorrelate"), patterns.copy()
    for _ in range(xi.size):
        common = xi.astype(np.float64) @ xi.T.astype(np.float64)  # N times the overlaps
        np.fill_diagonal(common, 0)
        pair = np.unravel_index(np.abs(common).argmax(), common.shape)
        if abs(common[pair]) <= target * xi.shape[1]:
            return xi
        k, alike = rng.choice(pair), np.prod(xi[list(pair)], axis=0)
        xi[k, rng.choice(np.flatnonzero(alike == np.sign(common[pair])))] *= -1
    raise ArgumentError("target", f"larger: {xi.size} flips do not reach it", target)


def read_pictures(path: str | Path, *more: str) -> list[np.ndarray]:
    """Read silhouettes, ``images`` (n, side, side), ``labels``, ``split``, `more`, from an .npz."""
    with open_file(path) as file, guard_reading(path), np.load(file) as archive:
        names = ("images", "labels", "split", *more)  # bytes if not a .npy
        images, labels, split, *others = (np.asarray(archive[name]) for name in names)
    square = images.ndim == 3 and images.shape[1] == images.shape[2]
    if not (square and labels.shape == split.shape == images.shape[:1]):
        raise DataError(f"{path}: pictures must be squares, each with a label and a split")
    return [images, labels, split, *others]
