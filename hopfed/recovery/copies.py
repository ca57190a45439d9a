"""Are rows copies of others: do more of them equal an earlier one than rows of the patterns would?

Two rows of one pattern, whose columns are flipped with probability ``(1 - r) / 2`` each, agree in a
column with probability ``(1 + r^2) / 2``; rows of two patterns that differ in d columns agree with
``(1 - r^2) / 2`` in those. So the number of pairs of equal rows is known, and no more rows than
that equal an earlier one. Copies satisfy every other check of the symmetric channel: a table in
which each row is there twice has the same patterns, of half as many rows.

Source: proposed here (theory/NOTES.md, "Check of the symmetric channel").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.recovery.symmetric import Agreement

DEVIATIONS = 4.0  # standard deviations above what is expected that chance may reach
FEW = 0.02  # of the rows, which may have been entered twice by mistake


def equal_pairs(answer: Agreement, patterns: np.ndarray) -> float:
    """Return how many pairs of equal rows are expected of one client.

    Parameters
    ----------
    answer : what its rows say of the patterns.
    patterns : (K, N) of +-1.

    Examples
    --------
    >>> xi = np.ones((1, 10), np.int8)
    >>> noise = Agreement(np.array([1000.0]), np.zeros(1), np.zeros(1), np.array([1000.0, 0, 0]))
    >>> round(equal_pairs(noise, xi), 1)  # of 499,500 pairs, of coins
    487.8
    """
    n, N = answer.counts, patterns.shape[1]
    r = min(max(float(answer.overlaps[1] / max(answer.overlaps[0], 1.0)), 0.0), 1.0)
    differ = (N - patterns.astype(np.float64) @ patterns.T) / 2
    agree = np.log((1 + r**2) / 2) * (N - differ)
    agree += np.log(max((1 - r**2) / 2, 1e-300)) * differ
    pairs = (np.outer(n, n) - np.diag(n)) / 2
    return float((pairs * np.exp(agree)).sum())


def are_copies(answers: Sequence[Agreement], patterns: np.ndarray) -> bool:
    """Whether more rows equal an earlier one of their client than rows of the patterns would.

    Parameters
    ----------
    answers : what the rows of each client say of the patterns.
    patterns : (K, N) of +-1.

    Examples
    --------
    >>> xi = np.ones((1, 100), np.int8)
    >>> sums = np.array([500.0]), np.zeros(1), np.zeros(1), np.array([500.0, 100, 40])
    >>> are_copies([Agreement(*sums, repeats=5)], xi), are_copies([Agreement(*sums, 50)], xi)
    (False, True)
    """
    rows = sum(float(answer.overlaps[0]) for answer in answers)
    expected = sum(equal_pairs(answer, patterns) for answer in answers)
    repeats = sum(answer.repeats for answer in answers)
    return bool(repeats > expected + max(DEVIATIONS * np.sqrt(expected), FEW * rows))
