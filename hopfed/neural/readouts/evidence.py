"""Ridge and rank of a read-out from the spectrum of the pooled operator, without validation.

Source: theory/NOTES.md, "Ridge and privacy of the read-out".

Two criteria for the ridge follow exactly from the eigenvalues l of ``A / n``, ``b = V^T B / n`` and
the class counts:

- *evidence*: the likelihood if weights and noise are Gaussian and ``rho n`` is the ratio of the
  variances of noise and weights. C targets with one variance of the noise have
  ``-n C / 2 log s2 - C / 2 sum log(1 + l / rho)``, ``s2 = (n - n sum b^2 / (l + rho)) / (n C)``;
- *gcv*, generalised cross-validation: the squared error of a further example, from that of the
  examples and the degrees of freedom, ``n RSS / (n - df)^2`` with ``df = sum l / (l + rho)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from hopfed.neural.readouts.ridge import Spectrum
from hopfed.spectral.noise import Sample
from hopfed.spectral.rank import MarchenkoPastur, RankRule, TracyWidom

LEAST, MOST = 1e-4, 1e3  # range of the ridges
STEPS = 43  # ridges of the grid between these; then the best is refined

RANKS: dict[str, RankRule] = {"marchenko-pastur": MarchenkoPastur(), "tracy-widom": TracyWidom()}


def log_evidence(spectrum: Spectrum, ridge: float) -> float:
    """Log marginal likelihood of the labels of the examples, for one ridge above 0.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> from hopfed.neural.readouts.ridge import Sums
    >>> z, y = np.array([[1, 1], [1, -1], [1, 1], [1, -1]]), np.array([0, 1, 0, 1])
    >>> found = Spectrum.of(Sums.of(pack(z), y, 2))
    >>> log_evidence(found, 0.01) > log_evidence(found, 10.0)  # the bits say it all
    True
    """
    n, C = spectrum.examples, spectrum.inside.shape[1]
    shrunk = spectrum.values + ridge
    left = n - n * float((spectrum.inside**2 / shrunk[:, None]).sum())
    variance = max(left, n * 1e-12) / (n * C)
    spread = float(np.log1p(spectrum.values / ridge).sum())
    return -0.5 * C * (n * (math.log(2 * math.pi * variance) + 1) + spread)


def predicted_error(spectrum: Spectrum, ridge: float) -> float:
    """Squared error of a further example, summed over classes: generalised cross-validation.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> from hopfed.neural.readouts.ridge import Sums
    >>> rng = np.random.default_rng(0)
    >>> z = np.where(rng.random((4000, 30)) < 0.5, 1, -1)
    >>> y = (z[:, 0] * np.where(rng.random(4000) < 0.9, 1, -1) > 0).astype(int)
    >>> seen = Spectrum.of(Sums.of(pack(z[:200]), y[:200], 2))
    >>> errors = z[200:] @ seen.readouts((0.1,))[0] - np.eye(2)[y[200:]]
    >>> bool(abs(predicted_error(seen, 0.1) / (errors**2).sum(axis=1).mean() - 1) < 0.1)
    True
    """
    n, values = spectrum.examples, spectrum.values
    shrunk, squares = values + ridge, (spectrum.inside**2).sum(axis=1)
    residual = n * (1 - 2 * float(squares @ (1 / shrunk)) + float(squares @ (values / shrunk**2)))
    free = n - float((values / shrunk).sum())
    return n * max(residual, 0.0) / max(free, 1e-9 * n) ** 2 if n else float("nan")


RULES: dict[str, Callable[[Spectrum, float], float]] = {
    "evidence": lambda spectrum, ridge: -log_evidence(spectrum, ridge),
    "gcv": predicted_error,
}


def best_ridge(spectrum: Spectrum, rule: str) -> float:
    """Ridge that a rule, "evidence" or "gcv", finds best; 1 without examples.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> from hopfed.neural.readouts.ridge import Sums
    >>> rng = np.random.default_rng(0)
    >>> z = np.where(rng.random((400, 30)) < 0.5, 1, -1)
    >>> z[:, -1] = 1  # the constant bit
    >>> clear = Spectrum.of(Sums.of(pack(z), (z[:, 0] > 0).astype(int), 2))
    >>> noise = Spectrum.of(Sums.of(pack(z), rng.integers(2, size=400), 2))
    >>> 10 * best_ridge(clear, "gcv") < best_ridge(noise, "gcv")
    True
    """
    if not spectrum.examples:
        return 1.0
    loss = RULES[rule]
    grid = np.linspace(np.log(LEAST), np.log(MOST), STEPS)
    at = int(np.argmin([loss(spectrum, float(np.exp(x))) for x in grid]))
    bounds = grid[max(at - 1, 0)], grid[min(at + 1, STEPS - 1)]
    found = minimize_scalar(
        lambda x: loss(spectrum, float(np.exp(x))), bounds=bounds, method="bounded"
    )
    return float(np.exp(found.x))


def count(spectrum: Spectrum, rule: str) -> int:
    """Number of directions that a rank rule of `hopfed.spectral.rank` counts, at least 1.

    The rules are for examples around archetypes with independent noise. Bits of neighbouring
    filters are not independent, and a read-out needs more directions than the rules count.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> from hopfed.neural.readouts.ridge import Sums
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(0)
    >>> z = draw_examples(rademacher(2, 40, rng), 400, 0.7, rng)[0]
    >>> count(Spectrum.of(Sums.of(pack(z), rng.integers(2, size=400), 2)), "tracy-widom")
    2
    """
    sample = Sample(spectrum.values, len(spectrum.vectors), spectrum.examples)
    return max(RANKS[rule](sample).n_detected, 1) if spectrum.examples else 0
