"""Recall of graded patterns: Bayes' rule in the latent class channel.

A graded pattern gives each site a mean in (-1, 1); given the pattern, sites are independent. A cue
holds +1, -1, and 0 where nothing was observed. What is recalled is the mean of every site given
what was observed, patterns weighed by their responsibilities (theory/NOTES.md, Responsibilities and
completion). It is one step of the exponential memory with beta = 1 whose keys are the log-odds
``artanh(Theta)`` and whose values are the means.
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.settings import require
from hopfed.memory.energies import log_sum_exp

SUREST = 1 - 1e-9  # means nearer to +-1 are taken for this: no observation is impossible


def log_likelihoods(cues: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return ``log p(x_observed | mu)`` (S, K)."""
    means = np.clip(np.asarray(means, np.float64), -SUREST, SUREST)
    require(means.ndim == 2, "means", "of shape (K, N)", means.shape)
    x = np.asarray(cues, np.float64)
    seen = (x != 0).astype(np.float64)
    even = (np.log1p(means) + np.log1p(-means)) / 2 - np.log(2)
    return seen @ even.T + x @ np.arctanh(means).T


def complete(
    cues: np.ndarray, means: np.ndarray, weights: np.ndarray, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected sites (S, N), responsibilities (S, K), ``-log p(x_observed) / beta`` (S,)."""
    logs = beta * log_likelihoods(cues, means) + np.log(weights / np.sum(weights))
    total = log_sum_exp(logs)
    shares = np.exp(logs - total[:, None])
    return shares @ means, shares, -total / beta
