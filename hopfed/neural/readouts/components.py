"""Components of a kernel between features and rows drawn from sums: a basis common to clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy.linalg
import torch
from scipy.special import ndtr
from torch import Tensor

from hopfed._lib.random import stream
from hopfed.neural.readouts.ridge import Sums, within_classes

DIRECTIONS = 512  # number of principal components for distances
TELLING = 60  # largest number of directions of Fisher's discriminant
SHRUNK = 0.1  # added to the covariance within classes for these, relative to its mean eigenvalue
LEAST = 1e-3  # added to the kernel of the rows, whose diagonal is 1
LEVELS = np.linspace(-4, 8, 1201)  # means of normal variables of variance 1 before rectification


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
    density = np.exp(-(LEVELS**2) / 2) / np.sqrt(2 * np.pi)
    first = LEVELS * ndtr(LEVELS) + density
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
