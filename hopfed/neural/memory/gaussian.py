"""Gaussian process classification in closed form (Milios et al., 2018).

Labels become targets of a regression in which each example has its own noise. The logarithm of a
Gamma variable of shape ``a = EPSILON + [y = c]`` is approximately normal, which gives

    noise s2 = log(1/a + 1),    target t = log a - s2 / 2.

Each class c has its own process around the mean of its targets. The kernel for features of
dimension d is ``scale exp(-|z - z'|^2 / (2 d length^2))``. Evidence and posterior are those of
ordinary Gaussian process regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from hopfed.neural.training.losses import masked_mean

EPSILON = 0.01  # shape of the Gamma variable of each class other than the example's own


def dirichlet_targets(labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return targets and noise variances, both (classes, n)."""
    shape = EPSILON + one_hot(labels, classes).T
    noise = (1 / shape + 1).log()
    return shape.log() - noise / 2, noise


def kernel(a: Tensor, b: Tensor, log_length: Tensor, log_scale: Tensor) -> Tensor:
    """Return the covariance of the features (n, d) and (m, d): (n, m)."""
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    width = 2 * a.shape[1] * (2 * log_length).exp()
    return log_scale.exp() * (-squared.clamp(min=0) / width).exp()


def log_evidence(
    features: Tensor,
    labels: Tensor,
    classes: int,
    log_length: Tensor,
    log_scale: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Log marginal likelihood of a batch, a Gaussian process a class; per example and class."""
    real = torch.ones_like(features[:, 0]) if mask is None else mask
    targets, noise = dirichlet_targets(labels, classes)
    mean = (targets * real).sum(1, keepdim=True) / real.sum().clamp(min=1)
    off = (targets - mean) * real
    covariance = kernel(features, features, log_length, log_scale) * real[:, None] * real
    covariance = covariance + torch.diag_embed(noise * real + (1 - real))
    factor = torch.linalg.cholesky(covariance)
    half = torch.linalg.solve_triangular(factor, off[..., None], upper=False)[..., 0]
    log_root = factor.diagonal(dim1=-2, dim2=-1).log()
    each = -(half**2) / 2 - log_root - math.log(2 * math.pi) / 2
    return masked_mean(each.mean(0), mask)


@dataclass(frozen=True, eq=False)
class Process:
    """The posterior given a client's examples, in float64: the mean of a Gaussian regression.

    Attributes
    ----------
    weights, mean : (classes, n) and (classes, 1): the latent mean at z is ``mean + weights @
        kernel(features, z)``.
    """

    features: Tensor = field(repr=False)  # (n, d) of the examples
    weights: Tensor = field(repr=False)
    mean: Tensor
    scales: tuple[Tensor, Tensor]  # the logarithms of length and scale of the kernel
    nbytes: int  # bytes of the stored features and labels

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.features)

    def __call__(self, features: Tensor) -> Tensor:
        """Return log-probabilities (Q, classes): the softmax of the latent means."""
        with torch.no_grad():
            near = kernel(self.features, features.double(), *self.scales)
            return (self.mean + self.weights @ near).T.log_softmax(dim=1)


def process(
    features: Tensor, labels: Tensor, classes: int, log_length: Tensor, log_scale: Tensor
) -> Process:
    """Return the posterior given examples (n, d) with labels (n,)."""
    x, scales = features.double(), (log_length.double(), log_scale.double())
    targets, noise = (t.double() for t in dirichlet_targets(labels, classes))
    mean = targets.mean(dim=1, keepdim=True)
    covariance = kernel(x, x, *scales) + torch.diag_embed(noise)
    weights = torch.linalg.solve(covariance, (targets - mean)[..., None])[..., 0]
    size = features.numel() * features.element_size() + labels.numel()
    return Process(x, weights, mean, scales, size)
