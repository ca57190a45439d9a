"""Examples as integers: features in steps around their thresholds, or only the side as a bit.

Source: theory/NOTES.md, "One-shot Hebbian read-out". Features of images are responses of random
filters of whitened patches, pooled over fields (Coates, Ng and Lee, AISTATS 2011, with random
instead of learned filters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, unfold

from hopfed._lib.random import stream
from hopfed.neural.data.tensors import Tensors

FLAT = 0.0025  # added to the variance of a patch, in units of the images': 10 / 255^2 in pixels
SMALL = 0.1  # added to the eigenvalues of the patches' second moment, whose diagonal is about 1
STEP = 3  # pixels between the patches in moments
DEAD = 0.5  # a filter's response up to this size counts as 0
BATCH = 64  # images in a batch
IMAGES = 400  # number of random images that decide public filters
# Steps of a code per spread of the features; 0 for a bit, the side of the threshold.
CODES = {"bits": 0, "bytes": 16, "roots": 16, "coarse": 3, "floats": 1 << 12}
REACH = {"floats": 256}  # range of a code around the threshold, in spreads; 8 for other codes
ROOTED = ("roots", "coarse")  # codes of square roots

Moments = tuple[np.ndarray, np.ndarray, float]  # sum, sum of outer products, and number of patches
Examples = tuple[np.ndarray, np.ndarray]  # bits (n, D) and labels (n,)
Features = Callable[[Tensor], Tensor]  # inputs (B, ...) -> (B, length) float32, before thresholds


def cut_patches(x: Tensor, size: int, step: int = 1) -> Tensor:
    """For codes of images (B, ...): patches (B, P, d) of `size` x `size` pixels, standardised."""
    u = unfold(x, size, stride=step).transpose(1, 2)
    u = u - u.mean(dim=2, keepdim=True)
    return u / torch.sqrt(u.var(dim=2, unbiased=False, keepdim=True) + FLAT)


def patch_moments(batches: Iterable[Tensor], size: int) -> Moments:
    """For codes of images: sum (d,), sum of outer products (d, d) and number of the patches."""
    cut = (cut_patches(x, size, STEP).flatten(0, 1).double().cpu() for x in batches)
    parts: list[Any] = [(u.sum(dim=0).numpy(), (u.T @ u).numpy(), len(u)) for u in cut]
    total, squares, count = map(sum, zip(*parts, strict=True))
    return total, squares, count


def draw_filters(seen: Moments, number: int, seed: int) -> dict[str, np.ndarray]:
    """For codes of images: random filters `kernel` (d, number), whitened, and patches' `mean`."""
    total, squares, count = seen
    mean = total / count
    covariance = squares / count - np.outer(mean, mean)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    whitening = (vectors / np.sqrt(np.maximum(values, 0.0) + SMALL)) @ vectors.T
    drawn = stream(seed, "filters").standard_normal((len(mean), number))
    kernel = whitening @ (drawn / np.linalg.norm(drawn, axis=0))
    return {"kernel": kernel.astype(np.float32), "mean": mean.astype(np.float32)}


def filter_responses(
    x: Tensor, kernel: np.ndarray, mean: np.ndarray, size: int, fields: int
) -> Tensor:
    """For codes of images (B, ...): features (B, D), mean responses of filters in fields."""
    weights, middle = (torch.as_tensor(a, device=x.device) for a in (kernel, mean))
    shape = [n - size + 1 for n in x.shape[-2:]]
    parts = []
    for piece in x.split(BATCH):
        maps = ((cut_patches(piece, size) - middle) @ weights).transpose(1, 2).unflatten(2, shape)
        both = torch.cat([maps - DEAD, -maps - DEAD], dim=1).clamp_(min=0)
        parts.append(adaptive_avg_pool2d(both, fields).flatten(1))
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class Bits:
    """Function from inputs to bits, by features and their thresholds."""

    features: Features  # function from inputs to features
    thresholds: np.ndarray = field(repr=False)  # (D - 1,) float32
    mirror: bool = False  # whether an image and its mirror image are two examples
    code: str = "bits"  # one of `CODES`
    spread: float = 1.0  # common spread of the features, the unit of steps
    group: int = 1  # number of bits with products, see `multiply_bit_groups`

    def __call__(self, x: Tensor) -> Tensor:
        """Return codes (B, D) float32 of inputs (B, ...); with `mirror`, a mean over two images."""
        parts = self._each(x)
        return sum(parts[1:], parts[0]) / len(parts)

    def of(self, data: Tensors, rows: np.ndarray, learn: bool = False) -> Examples:
        """Return bits (n, D) float32 and labels (n,) of the examples `rows`."""
        found = [
            (bits.cpu().numpy(), y.cpu().numpy())
            for x, y in data.batches(rows)
            for bits in (self._each(x) if learn else [self(x)])
        ]
        bits, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return bits, labels

    def _each(self, x: Tensor) -> list[Tensor]:
        """Return codes of inputs, and with `mirror` of mirror images; the last code is constant."""
        found = []
        for image in [x, x.flip(-1)] if self.mirror else [x]:
            z = self.features(image)
            one = z.new_ones((len(z), 1))
            limits = torch.as_tensor(self.thresholds, dtype=z.dtype, device=z.device)
            if steps := CODES[self.code]:
                most = largest_integer(self.code)
                z = ((z - limits) * (steps / self.spread)).round_().clamp_(-most, most)
            else:
                z = torch.where(z >= limits, one, -one)
            z = z if self.group == 1 else multiply_bit_groups(z, self.group)
            found.append(torch.cat([z, one * max(steps, 1)], dim=1))
        return found


def largest_integer(code: str) -> int:
    """Return the largest integer of a code of features."""
    return max(REACH.get(code, 8) * CODES[code] - 1, 1)


def project_randomly(x: Tensor, number: int, seed: int) -> Tensor:
    """For codes of features: projections (B, number) of x (B, d) on random directions."""
    length = x.shape[1]
    drawn = stream(seed, "random features").standard_normal((length, number)) / np.sqrt(length)
    return x @ torch.as_tensor(drawn, dtype=x.dtype, device=x.device)


def multiply_bit_groups(bits: Tensor, size: int) -> Tensor:
    """For codes: products (B, ...) of sets of +-1 bits in groups of `size` neighbours."""
    after = [bits.roll(-k, dims=1) for k in range(size)]
    sets = [
        torch.stack([after[0], *(after[k] for k in range(1, size) if chosen >> k & 1)]).prod(dim=0)
        for chosen in range(0, 1 << size, 2)
    ]
    return torch.cat(sets, dim=1)


def draw_waves(shape: tuple[int, ...], number: int, seed: int) -> Tensor:
    """For codes of images: draw random waves (number, channels, height, width) from 0 to 1.

    Their power falls as 1 / f^2 in the spatial frequency f, as in photographs (D. J.
    Field, JOSA A 4 (1987) 2379); channels share three quarters of their variance.
    """
    rng, (height, width) = stream(seed, "waves"), shape[1:]
    steps = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.fftfreq(width)[None] ** 2
    amplitude = 1 / np.sqrt(np.maximum(steps, 1 / max(height, width) ** 2))
    white = rng.standard_normal((2, number, *shape))
    mixed = np.sqrt(3) * white[0, :, :1] + white[1]
    images = np.fft.ifft2(np.fft.fft2(mixed) * amplitude).real
    low, high = (f(images, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return torch.as_tensor((images - low) / (high - low), dtype=torch.float32)
