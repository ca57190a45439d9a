"""Examples as integers: features in steps around their thresholds, or only the side as a bit.

Source: theory/NOTES.md, "One-shot Hebbian read-out". Features of images are responses of random
filters of whitened patches, pooled over fields (Coates, Ng and Lee, AISTATS 2011, with random
instead of learned filters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
import scipy.linalg
import torch
from scipy.special import ndtr
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, unfold

from hopfed._lib.random import stream
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.readouts.ridge import Sums, within_classes

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
DIRECTIONS = 512  # number of principal components for distances
TELLING = 60  # largest number of directions of Fisher's discriminant
SHRUNK = 0.1  # added to the covariance within classes for these, relative to its mean eigenvalue
LEAST = 1e-3  # added to the kernel of the rows, whose diagonal is 1
LEVELS = np.linspace(-4, 8, 1201)  # means of normal variables of variance 1 before rectification

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
    return cast(Moments, tuple(map(sum, zip(*parts, strict=True))))


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
    images = np.fft.ifft2(np.fft.fft2(np.sqrt(3) * white[0, :, :1] + white[1]) * amplitude).real
    low, high = (f(images, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return torch.as_tensor((images - low) / (high - low), dtype=torch.float32)


@dataclass(frozen=True, eq=False)
class Components:
    """Components of a Gaussian kernel between features and rows that are drawn from sums.

    Their linear read-out is kernel ridge regression on the span of the rows (Williams and Seeger,
    NIPS 2000). Proposed here: as no examples are shared, rows are drawn from class means and the
    covariance within classes, as rectified normal variables with these moments if no class mean is
    negative; distances use the largest principal components, with double weight on the directions
    of Fisher's discriminant. Over the rows components have mean 0 and, on average, variance 1.
    """

    metric: np.ndarray = field(repr=False)  # (d, k) float32: distances are between x @ metric
    rows: np.ndarray = field(repr=False)  # (N, k) float32
    basis: np.ndarray = field(repr=False)  # (N, N) float32
    centre: np.ndarray = field(repr=False)  # (N,) float32
    size: float  # mean squared distance of two examples

    @classmethod
    def of(cls, sums: Sums, step: float, number: int, seed: int) -> Self:
        """Return components from sums of features in units of 1 / `step`, and of a constant."""
        means, within = within_classes(sums)
        means, within = means / step, (within - np.eye(len(within)) / 12) / step**2
        shares, rng = sums.counts / sums.examples, stream(seed, "synthetic rows")
        metric = _metric(means, within, shares)
        found = _draw_rows(means, within, rng.choice(len(shares), number, p=shares), rng)
        rows = (found @ metric).astype(np.float32)
        means, within = means @ metric, metric.T @ within @ metric
        size = 2 * (np.trace(within) + shares @ ((means - shares @ means) ** 2).sum(axis=1))
        kernel = _kernel(torch.as_tensor(rows), rows, size).numpy()
        kernel[np.diag_indices_from(kernel)] += LEAST
        turned = np.linalg.qr(rng.standard_normal((number, number), dtype=np.float32))[0]
        lower = np.linalg.cholesky(kernel)
        basis = scipy.linalg.solve_triangular(lower, turned, lower=True, trans="T")
        found = kernel @ basis
        spread = np.sqrt(found.var(axis=0).mean())
        return cls(metric.astype(np.float32), rows, basis / spread, found.mean(0) / spread, size)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.metric.nbytes + self.rows.nbytes + self.basis.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Return the components (B, N) of features (B, d)."""
        arrays = self.metric, self.basis, self.centre
        metric, basis, centre = (torch.as_tensor(a, device=x.device) for a in arrays)
        return _kernel(x @ metric, self.rows, self.size) @ basis - centre


def _metric(means: np.ndarray, within: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return principal directions (d, k); directions of Fisher's discriminant count twice."""
    apart = means - shares @ means
    total = within + (apart * shares[:, None]).T @ apart
    axes = scipy.linalg.eigh(total)[1][:, ::-1][:, :DIRECTIONS]
    inside = axes.T @ within @ axes
    inside[np.diag_indices_from(inside)] += SHRUNK * max(np.trace(inside), 1e-300) / len(inside)
    telling = scipy.linalg.svd(np.linalg.solve(inside, (apart @ axes).T), full_matrices=False)[0]
    telling = telling[:, : min(len(shares) - 1, TELLING)]
    return np.asarray(axes + (axes @ telling) @ telling.T)


def _draw_rows(
    means: np.ndarray, within: np.ndarray, classes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw rows (N, d) of the `classes` (N,), rectified if no class mean is negative."""
    spread = np.sqrt(np.maximum(np.diag(within), 1e-12))
    values, vectors = scipy.linalg.eigh(within / np.outer(spread, spread))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = rng.standard_normal((len(classes), len(root))) @ root.T
    if means.min() < 0:
        return np.asarray(means[classes] + normal * spread)
    first = LEVELS * ndtr(LEVELS) + np.exp(-(LEVELS**2) / 2) / np.sqrt(2 * np.pi)
    second = np.sqrt(ndtr(LEVELS) + LEVELS * first)
    size = np.sqrt(means**2 + spread**2)  # root mean squares (C, d), which rectification keeps
    level = np.interp(means / size, first / second, LEVELS)
    scale = size / np.interp(level, LEVELS, second)
    return np.maximum((level[classes] + normal) * scale[classes], 0.0)


def _kernel(x: Tensor, rows: np.ndarray, size: float) -> Tensor:
    """Return ``exp(-|x - r|^2 / size)`` for features (B, k) and rows (N, k)."""
    r = torch.as_tensor(rows, device=x.device)
    squares = (x**2).sum(dim=1)[:, None] + (r**2).sum(dim=1) - 2 * x @ r.T
    return torch.exp(squares.clamp_(min=0) / -size)
