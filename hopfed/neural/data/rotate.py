"""Domains made by rotating the images of one dataset, as in Rotated MNIST.

Source: arXiv:2101.11296, Section IV; theory/NOTES.md, "Domains and public data".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset

PER_CLASS = 100  # images per class in each domain of Rotated MNIST


def rotated(
    dataset: Dataset,
    angles: tuple[float, ...],
    per_class: int | None,
    seed: int,
    *,
    same: bool = False,
) -> Dataset:
    """Return a dataset with one domain per angle; all classes have equally many images.

    Parameters
    ----------
    angles : degrees, clockwise; pixels from outside of the image are 0.
    per_class : images of a class in a domain; None means 100, or all if there are fewer.
    same : whether all domains show the same images, as in the FedH2L paper; by default they show
        different images. In both cases `group` is the number of the image that a row shows.

    Raises
    ------
    ArgumentError : no angles, one of them twice, or more images per class than there are.
    DataError : the dataset holds no images.

    Examples
    --------
    >>> from hopfed.neural.data.sources import digits
    >>> turned = rotated(digits(), (0, 90), per_class=3, seed=0)
    >>> len(turned), turned.domain_names
    (60, ('0°', '90°'))
    """
    if not dataset.is_images:
        raise DataError(f"{dataset.name}: only images can be rotated")
    turns = [angle % 360 for angle in angles]
    distinct = 0 < len(turns) == len(set(turns))
    require(distinct, "angles", "one or more different angles", angles)
    counts = np.bincount(dataset.labels, minlength=dataset.classes)
    most = int(counts[counts > 0].min()) // (1 if same else len(angles))
    per_class = min(PER_CLASS, most) if per_class is None else per_class
    require(1 <= per_class <= most, "images per class", f"from 1 to {most}", per_class)
    rng = stream(seed, "partition", "rotation")
    orders = [rng.permutation(np.flatnonzero(dataset.labels == k)) for k in range(dataset.classes)]
    blocks = [
        np.concatenate([o[per_class * (0 if same else j) :][:per_class] for o in orders])
        for j in range(len(angles))
    ]
    images = [turn(dataset.inputs[b], angle) for b, angle in zip(blocks, angles, strict=True)]
    base = np.concatenate(blocks)
    return replace(
        dataset.take(base),
        inputs=np.concatenate(images),
        group=base,
        domain=np.repeat(np.arange(len(angles)), [len(b) for b in blocks]),
        domain_names=tuple(f"{angle:g}°" for angle in angles),
    )


def turn(images: np.ndarray, angle: float) -> np.ndarray:
    """Rotate images (n, channels, height, width) clockwise by `angle` degrees, bilinearly."""
    from scipy.ndimage import rotate

    if angle % 360 == 0:
        return images
    turned = rotate(images.astype(np.float32), -angle, axes=(3, 2), reshape=False, order=1)
    if images.dtype == np.uint8:
        turned = np.rint(turned)
    return turned.astype(images.dtype)
