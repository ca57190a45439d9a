"""Bits that no client's data decide: filters and thresholds from synthetic images.

Where filters and thresholds are sums over clients, as in `hopfed.neural.methods.hebbian` by
default, the bits of all examples depend on every client. Then no client can leave without a trace,
and the exchanges that agree on them would need noise of their own to be private. Here both come
from images of random waves, whose power falls as 1 / f^2 in the spatial frequency f, as that of
photographs does (D. J. Field, JOSA A 4 (1987) 2379): everybody can draw them from the seed.
"""

from __future__ import annotations

import numpy as np
import torch

from hopfed._lib.random import stream
from hopfed.neural.readouts.bits import Filters, Patches

IMAGES = 400


def waves(channels: int, height: int, width: int, number: int, seed: int) -> torch.Tensor:
    """Draw images (number, channels, height, width) float32 of random waves, from 0 to 1.

    Channels share three quarters of their variance, as colours do.

    Examples
    --------
    >>> drawn = waves(3, 8, 8, 5, seed=0)
    >>> drawn.shape, float(drawn.min()), float(drawn.max())
    (torch.Size([5, 3, 8, 8]), 0.0, 1.0)
    """
    rng = stream(seed, "waves")
    steps = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.fftfreq(width)[None] ** 2
    amplitude = 1 / np.sqrt(np.maximum(steps, 1 / max(height, width) ** 2))
    white = rng.standard_normal((2, number, channels, height, width))
    mixed = np.sqrt(3) * white[0, :, :1] + white[1]
    images = np.fft.ifft2(np.fft.fft2(mixed) * amplitude).real
    low, high = (f(images, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return torch.as_tensor((images - low) / (high - low), dtype=torch.float32)


def public_bits(
    patches: Patches, number: int, fields: int, seed: int
) -> tuple[Filters, np.ndarray]:
    """Return filters on `fields` x `fields` fields, and thresholds, that the seed alone decides.

    Examples
    --------
    >>> filters, thresholds = public_bits(Patches(1, 8, 8, 3), 16, 2, seed=0)
    >>> filters(torch.rand(5, 1, 8, 8)).shape, thresholds.shape
    (torch.Size([5, 128]), (128,))
    """
    images = waves(patches.channels, patches.height, patches.width, IMAGES, seed)
    moments = patches.moments(iter([images]))
    filters = Filters.drawn(patches, moments, number, fields, stream(seed, "filters"))
    return filters, filters(images).mean(dim=0).numpy().astype(np.float32)
