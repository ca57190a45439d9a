"""Domains of rotated images, which the partition `rotation` divides among clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset

PER_CLASS = 100  # images per class in each domain of Rotated MNIST


def rotate_domains(
    data: Dataset, rng: np.random.Generator, words: str, each: str | None, same: str | None
) -> Dataset:
    """Return a domain of rotated images, or of the `same`, per angle (arXiv:2101.11296, IV)."""
    from scipy.ndimage import rotate

    if not data.is_images or data.shape[1:] == (1, 1):
        raise DataError(f"{data.name}: only images can be rotated")
    angles = [float(angle) for angle in words.split(",")]
    distinct = len({angle % 360 for angle in angles}) == len(angles)
    require(distinct, "angles", "one or more different angles", angles)
    counts = np.bincount(data.labels, minlength=data.classes)
    most = int(counts[counts > 0].min()) // (1 if same else len(angles))
    size = min(PER_CLASS, most) if each is None else int(each)
    require(1 <= size <= most, "images per class", f"from 1 to {most}", size)
    orders = [rng.permutation(np.flatnonzero(data.labels == k)) for k in range(data.classes)]
    starts = [0 if same else size * j for j in range(len(angles))]
    shown = [np.concatenate([order[i : i + size] for order in orders]) for i in starts]
    images = [data.inputs[rows] for rows in shown]
    for j, angle in enumerate(angles):
        if angle % 360:
            block = images[j].astype(np.float32)
            turned = rotate(block, -angle, axes=(3, 2), reshape=False, order=1)
            images[j] = np.rint(turned) if data.inputs.dtype == np.uint8 else turned
    base, domain = np.concatenate(shown), np.arange(len(angles)).repeat(len(shown[0]))
    inputs, names = np.concatenate(images), tuple(f"{angle:g}°" for angle in angles)
    new: dict[str, Any] = {"inputs": inputs.astype(data.inputs.dtype), "group": base}  # per image
    return replace(data.take(base), **new, domain=domain, domain_names=names)
