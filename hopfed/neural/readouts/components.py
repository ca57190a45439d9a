"""Components of a Gaussian kernel between inputs and rows that are drawn from sums.

A read-out of the components is kernel ridge regression on the span of the drawn rows. Source:
Williams and Seeger, NIPS 2000, with the range finder of Halko, Martinsson and Tropp, SIAM Review
53 (2011) 217. Proposed here: the rows are drawn from class means and the covariance within classes
in place of examples, which nobody shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from hopfed._lib.random import stream
from hopfed.neural.readouts.ridge import Sums, within_classes

ROWS = 2  # drawn for each component
LEAST = 1e-4  # added to the kernel's eigenvalues, whose mean is 1


@dataclass(frozen=True, eq=False)
class Components:
    """Components of features; over the drawn rows they have mean 0 and, on average, variance 1."""

    rows: np.ndarray = field(repr=False)  # (L, d) float32
    basis: np.ndarray = field(repr=False)  # (L, N) float32
    centre: np.ndarray = field(repr=False)  # (N,) float32
    size: float  # mean squared distance of two examples

    @classmethod
    def of(cls, sums: Sums, step: float, number: int, seed: int) -> Self:
        """Components that follow from sums of features in so many steps for 1, and a constant."""
        means, within = within_classes(sums)
        means, within = means / step, (within - np.eye(len(within)) / 12) / step**2
        shares = sums.counts / sums.examples
        size = 2 * (np.trace(within) + shares @ ((means - shares @ means) ** 2).sum(axis=1))
        rng = stream(seed, "synthetic rows")
        values, vectors = scipy.linalg.eigh(within)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T.astype(np.float32)
        classes = rng.choice(len(shares), ROWS * number, p=shares)
        drawn = rng.standard_normal((len(classes), len(root)), dtype=np.float32) @ root
        rows = (means[classes] + drawn).astype(np.float32)
        if (means >= 0).all():  # as of features that are never below 0
            rows = np.maximum(rows, 0)
        kernel = _kernel(torch.as_tensor(rows), rows, size).numpy()
        kernel[np.diag_indices_from(kernel)] += LEAST
        draw = rng.standard_normal((len(rows), number), dtype=np.float32)
        span = np.linalg.qr(kernel @ draw)[0]
        lower = np.linalg.cholesky(span.T @ (kernel @ span))
        turned = np.linalg.qr(rng.standard_normal((number, number), dtype=np.float32))[0]
        basis = span @ scipy.linalg.solve_triangular(lower, turned, lower=True, trans="T")
        found = kernel @ basis
        spread = float(np.sqrt(found.var(axis=0).mean()))
        return cls(rows, basis / spread, found.mean(axis=0) / spread, size)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.rows.nbytes + self.basis.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Return the components (B, N) of features (B, d)."""
        basis, centre = (torch.as_tensor(a, device=x.device) for a in (self.basis, self.centre))
        return _kernel(x, self.rows, self.size) @ basis - centre


def _kernel(x: Tensor, rows: np.ndarray, size: float) -> Tensor:
    """``exp(-|x - r|^2 / size)`` of features (B, d) and rows (L, d)."""
    r = torch.as_tensor(rows, device=x.device)
    squares = (x**2).sum(dim=1)[:, None] + (r**2).sum(dim=1) - 2 * x @ r.T
    return torch.exp(squares.clamp_(min=0) / -size)
