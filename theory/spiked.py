"""Spikes at finite size: exact draws at any strength, in O(N^(1/3)) per draw.

Rows ``x ~ N(0, I + kappa_1 u_1 u_1^T + ... )`` of unit noise, N columns and M rows. Householder
reflections from the left, and from the right on columns K + 1 .. N alone, leave a band of K + 1
diagonals with independent entries: chi of M, M - 1, ... on the diagonal, chi of N - K, N - K - 1,
... on the last one, normal ones between. The first K coordinates are never mixed, so the first K
entries of a right singular vector are its products with the spikes. The top of the spectrum
depends on the first ``c (M N)^(1/3) / (sqrt M + sqrt N)^(2/3)`` rows alone.

Exact for Gaussian noise and orthogonal spikes, whether the signal is Gaussian or fixed; +-1 noise
has the same limit, and at finite size an edge moved by `1 + k4 / sqrt(M N)`. Far above the
threshold and apart from each other, spikes follow `spikes`; near it those laws are wrong by more
than a deviation, and two near spikes repel.

Sources: I. Dumitriu, A. Edelman, J. Math. Phys. 43 (2002) 5830; A. Bloemendal, B. Virag, Probab.
Theory Relat. Fields 156 (2013) 795 and Ann. Probab. 44 (2016) 2726; theory/NOTES.md, "Through the
transition".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hopfed.errors import ArgumentError

from . import _check

REACH = 24.0  # rows kept, in widths of the top state, which decays as exp(-2/3 x^(3/2))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction for K spikes, the largest first, from `size` exact draws.

    Attributes
    ----------
    eigenvalue, eigenvalue_sd : (K,) mean and deviation of the K leading eigenvalues.
    overlap, overlap_sd : (K, K) mean and deviation of the squared cosine of sample eigenvector k
        and spike j.
    span, span_sd : (K,) the same for the part of sample eigenvector k in the span of the spikes.
    power : (K,) share of the draws whose k-th eigenvalue passes the test; NaN without a test.
    size : number of draws: the error of a mean is the deviation over ``sqrt(size)``.

    >>> found = predict([2.0, 1.5], N=200, M=400, size=400)
    >>> found.overlap.diagonal().round(1).tolist(), found.size
    ([0.6, 0.5], 400)
    """

    eigenvalue: np.ndarray
    eigenvalue_sd: np.ndarray
    overlap: np.ndarray
    overlap_sd: np.ndarray
    span: np.ndarray
    span_sd: np.ndarray
    power: np.ndarray
    size: int


def predict(
    kappa: ArrayLike,
    N: int,
    M: int,
    variance: float = 1.0,
    false_alarm: float | None = None,
    exposures: ArrayLike | None = None,
    size: int = 2000,
    seed: int = 0,
) -> Prediction:
    """Predict eigenvalues, overlaps and power of spikes at, below and above the threshold.

    Parameters
    ----------
    kappa : (K,) or a number, strengths in units of the noise variance, at least 0.
    N, M : columns and rows, above K.
    variance : of the noise, above 0.
    false_alarm : rate of the Tracy-Widom test of the next eigenvalue, in (0, 1); None for no test.
    exposures : (K,) shares of the M rows that carry each spike, in (0, 1], for a mixture: their
        numbers are drawn, and only the noise is Gaussian. None for a Gaussian signal.
    size, seed : number of draws, and their seed.

    >>> found = predict(0.2, N=100, M=400, size=400)  # far below the threshold of .5
    >>> found.eigenvalue.round(2).tolist(), bool(found.eigenvalue_sd[0] > 0.03)
    ([2.2], True)
    """
    rng, mixture = np.random.default_rng([seed, N, M]), exposures is not None
    if exposures is not None:
        shares = np.atleast_1d(_check.fraction("exposures", exposures))
        _check.together(kappa=np.atleast_1d(kappa), exposures=shares)
        if shares.sum() > 1 + 1e-9:
            raise ArgumentError("exposures", "shares that sum to at most 1", shares.sum())
        rows = rng.multinomial(M, [*shares, max(1 - shares.sum(), 0)], size)[:, :-1]
        kappa = np.atleast_1d(kappa) * rows / (M * shares)
    values, overlaps = draws(kappa, N, M, size, rng, fixed=mixture)
    power = np.full(values.shape[1], np.nan)
    if false_alarm is not None:
        from . import tracy_widom

        alarm = _check.scalar("false_alarm", false_alarm, _check.probability)
        level = float(tracy_widom.isf(alarm))
        k = np.arange(values.shape[1])
        centre, scale = tracy_widom.wishart_scaling(M - k, N - k)
        power = (values * M > centre + scale * level).mean(axis=0)
    s2 = _check.scalar("variance", variance, _check.positive)
    parts = {"eigenvalue": s2 * values, "overlap": overlaps, "span": overlaps.sum(axis=2)}
    means = {name: part.mean(axis=0) for name, part in parts.items()}
    spreads = {f"{name}_sd": part.std(axis=0) for name, part in parts.items()}
    return Prediction(**means, **spreads, power=power, size=len(values))


def draws(
    kappa: ArrayLike,
    N: int,
    M: int,
    size: int,
    rng: np.random.Generator,
    beta: int = 1,
    fixed: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the K leading eigenvalues of ``X^T X / M``, and their squared products with the spikes.

    Parameters
    ----------
    kappa : (K,) or a number, or (size, K) for strengths that differ between draws.
    N, M : as in :func:`predict`.
    fixed : False for a Gaussian signal, True for a fixed signal, where only noise fluctuates.
    size, rng : number of draws, and their generator.
    beta : 1, 2 or 4 for real, complex and quaternion entries; 2 and 4 with one spike.

    Returns
    -------
    (size, K) eigenvalues, descending, and (size, K, K) squared cosines of eigenvector k and spike
    j.

    >>> values, overlaps = draws([2.0, 0.1], 50, 100, 3, np.random.default_rng(0))
    >>> values.shape, overlaps.shape
    ((3, 2), (3, 2, 2))
    """
    from scipy.linalg import eig_banded, eigh_tridiagonal

    count = int(_check.scalar("size", size, _check.count))
    given = np.atleast_1d(_check.nonnegative("kappa", kappa))
    if given.ndim > 2 or (given.ndim == 2 and len(given) != count):
        raise ArgumentError("kappa", "a number, or of shape (K,) or (size, K)", given.shape)
    strengths = np.broadcast_to(given, (count, given.shape[-1]))
    K = strengths.shape[1]
    n, m = (int(_check.scalar(name, x, _check.count)) for name, x in (("N", N), ("M", M)))
    if min(n, m) <= K or (fixed and m < 2 * K):
        rule = f"above the number of spikes, {K}" + ", and M twice it where given" * fixed
        raise ArgumentError("N and M", rule, (n, m))
    if _check.one_of("beta", beta, (1, 2, 4)) != 1 and K > 1:
        raise ArgumentError("beta", "1 for several spikes", beta)
    width = (m * n) ** (1 / 3) / (np.sqrt(m) + np.sqrt(n)) ** (2 / 3)
    keep = int(min(n, m, np.ceil(REACH * width) + 8 * K))
    rows = np.arange(keep)
    values = np.empty((count, K))
    overlaps = np.empty((len(values), K, K))
    band = np.empty((K + 1, keep))  # row j: entries (i, i + j) of the bidiagonal-like factor
    for draw in range(len(values)):
        band[0] = np.sqrt(_check.generator(rng).chisquare(beta * (m - rows)) / beta)
        band[1:K] = rng.standard_normal((max(K - 1, 0), keep))
        band[K] = np.sqrt(rng.chisquare(beta * np.maximum(n - K - rows, 1e-9)) / beta)
        _with_spikes(band, strengths[draw], m, fixed, beta, rng)
        square = _squared(band) / m
        top = {"select": "i", "select_range": (keep - K, keep - 1)}
        if K == 1:
            found, vectors = eigh_tridiagonal(square[0], square[1, :-1], **top)
        else:
            found, vectors = eig_banded(square, lower=True, **top)
        values[draw], overlaps[draw] = found[::-1], vectors[:K, ::-1].T ** 2
    return values, overlaps


def _with_spikes(
    band: np.ndarray, strengths: np.ndarray, m: int, fixed: bool, beta: int,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Put the spikes into the first K columns of the factor, whose rows are those of `band`."""
    K = len(strengths)
    block = np.zeros((K, K))
    for j in range(K):
        block[np.arange(K - j), np.arange(j, K)] = band[j, : K - j]
    if fixed:  # K rows hold the signal, all others hold noise only
        rest = np.triu(rng.standard_normal((K, K)), 1)
        rest[np.diag_indices(K)] = np.sqrt(rng.chisquare(beta * (m - K - np.arange(K))) / beta)
        top = rng.standard_normal((K, K)) / np.sqrt(beta) + np.diag(np.sqrt(m * strengths))
        if beta > 1:  # one spike: add the imaginary parts of its entry
            rest = np.sqrt(rest**2 + rng.chisquare(beta - 1) / beta)
        block[:] = np.linalg.qr(np.concatenate([top, rest])).R
    else:
        block = block * np.sqrt(1 + strengths)
    for j in range(K):
        band[j, : K - j] = block[np.arange(K - j), np.arange(j, K)]


def _squared(band: np.ndarray) -> np.ndarray:
    """Lower band of ``B^T B`` for B with its upper diagonals in `band`."""
    K, keep = len(band) - 1, band.shape[1]
    found = np.zeros_like(band)
    for j in range(K + 1):  # entry (c + j, c) is a sum over the rows r of both columns
        for i in range(K + 1 - j):  # B[r, c] is on diagonal i, B[r, c + j] on diagonal i + j
            count = keep - i - j
            found[j, i : i + count] += band[i, :count] * band[i + j, :count]
    return found
