"""Count of spikes above white Gaussian noise of unknown variance, in data that are not +-1.

The rules of `hopfed.spectral.rank` are for +-1 data: their trace is N, and the kurtosis of their
noise shifts the edge. This count scales any data to trace N and uses the edge of Gaussian noise.
"""

from __future__ import annotations

import numpy as np

from hopfed.spectral.noise import noise_variance
from hopfed.theory import tracy_widom


def white_threshold(N: int, M: int, alpha: float) -> float:
    """Eigenvalue that white noise of variance 1 exceeds with probability `alpha`.

    Examples
    --------
    >>> round(white_threshold(100, 400, 0.05), 6)
    2.283374
    """
    centre, scale = tracy_widom.wishart_scaling(M, N)
    return float((centre + scale * tracy_widom.isf(alpha)) / M)


def white_mean(N: int, M: int) -> float:
    """Mean of the largest eigenvalue of white noise of variance 1.

    Examples
    --------
    >>> round(white_mean(100, 400), 4)
    2.1963
    """
    centre, scale = tracy_widom.wishart_scaling(M, N)
    return float((centre + scale * tracy_widom.moments(1).mean) / M)


def count_white(
    values: np.ndarray, N: int, M: int, alpha: float, *, widening: float = 1.0
) -> tuple[int, float]:
    """Sequential Tracy-Widom test; the noise variance is the trace without the debiased spikes.

    Parameters
    ----------
    values : eigenvalues of a second-moment matrix, descending; all that are not 0.
    alpha : false-alarm rate of a test, in (0, 1).
    widening : factor of the threshold, for estimators whose bulk is a little wider than the law.

    Returns
    -------
    The number of spikes, and the threshold that the next eigenvalue did not exceed.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((400, 100))
    >>> count_white(np.linalg.eigvalsh(x.T @ x / 400)[::-1], 100, 400, 0.01)[0]
    0
    """
    scale = values.sum() / N
    threshold = 0.0
    for k in range(len(values) - 1):
        variance = scale * noise_variance(values[:k] / scale, N, N / M)
        threshold = variance * white_threshold(N - k, M - k, alpha) * (M - k) / M
        threshold *= widening
        if values[k] <= threshold:
            return k, threshold
    return len(values) - 1, threshold
