"""Check of the symmetric channel: is every row a pattern with equally likely flips in each column?

Second moments cannot tell noisy patterns from blocks of correlated columns, a trait, or a chain:
sums of such moments look like patterns as well. The rows can. Under the channel the overlap of a
row with its pattern has the variance ``(1 - r^2) / N``, and the agreement of a column with the
patterns, over the n rows of one pattern, differs from column to column by ``(1 - r^2) / n`` only.

Source: theory/NOTES.md, "Check of the symmetric channel".

Are rows copies of others: do more of them equal an earlier one than rows of the patterns would?

Two rows of one pattern, whose columns are flipped with probability ``(1 - r) / 2`` each, agree in a
column with probability ``(1 + r^2) / 2``; rows of two patterns that differ in d columns agree with
``(1 - r^2) / 2`` in those. So the number of pairs of equal rows is known, and no more rows than
that equal an earlier one. Copies satisfy every other check of the symmetric channel: a table in
which each row is there twice has the same patterns, of half as many rows.

Source: proposed here (theory/NOTES.md, "Check of the symmetric channel").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

DEVIATIONS = 6.0  # standard errors above what is expected that chance may reach
BELOW = 2.0  # and below: rows that choose their pattern lie closer than chance
WIDE = 0.15  # part by which the variance of overlaps may differ from that of flips
UNEVEN = 0.05  # standard deviation over columns of the agreement that is let pass
UNSURE = 1e9  # variance that stands for a ratio of which nothing is known
CLEAR = 4.0  # standard deviations of noise: the mean overlap of rows that resemble patterns
FEW = 5  # rows of a pattern at a client from which its columns are compared


@dataclass(frozen=True)
class Agreement:
    """Sums over the rows of one client, each with the pattern that it resembles most.

    Attributes
    ----------
    counts : (K,) rows of each pattern.
    first, second : (K,) over columns the sum of the agreements ``c_j``, and of their squares;
        ``c_j`` is the sum over those rows of ``x_j xi_j``.
    overlaps : (3,) number of rows, and sums of their overlaps ``m = x . xi / N`` and ``m^2``.
    repeats : of how many rows an equal one came before.
    """

    counts: np.ndarray
    first: np.ndarray
    second: np.ndarray
    overlaps: np.ndarray
    repeats: float = 0.0


def check_channel(answers: list[Agreement], n_sites: int) -> bool:
    """Whether nothing in the agreement of rows and patterns speaks against the symmetric channel.

    The overlaps of each client are compared with its own mean, so each may have a quality r of its
    own, and then those of all together, since a small client says little; one whose rows are noise
    says nothing beside others.
    """
    resembling = [a for a in answers if _resembles(a.overlaps, n_sites)] or answers
    breadths = [_breadth(a.overlaps, n_sites) for a in resembling]
    broad = any(b.off for b in breadths) or _together(breadths).off
    excess, error = _excess(answers, n_sites)
    uneven = excess > max(UNEVEN**2, DEVIATIONS * error)
    return not (broad or uneven)


def is_covered(answers: list[Agreement]) -> bool:
    """Whether most rows are of patterns that have enough of them at a client to be compared."""
    counts = np.concatenate([a.counts for a in answers])
    return bool(counts[counts >= FEW].sum() >= counts.sum() / 2)


def summed(
    patterns: np.ndarray,
    moments: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    equal: np.ndarray | None = None,
) -> Agreement:
    """The answer of a client from its sums.

    Parameters
    ----------
    patterns : (K, N) of +-1.
    moments : (3,) number of rows, sum of their largest products, and of the squares.
    counts, sums : (K,) rows of each pattern, and (K, N) their sums.
    equal : (2,) of how many rows an equal one came before, and how many have no equal.
    """
    overlaps = moments / patterns.shape[1] ** np.arange(3)
    along = np.einsum("kn,kn->k", sums, patterns)  # whole numbers, in any order
    repeats = 0.0 if equal is None else float(equal[0])
    return Agreement(counts, along, np.einsum("kn,kn->k", sums, sums), overlaps, repeats)


def _resembles(overlaps: np.ndarray, n_sites: int) -> bool:
    """Whether rows resemble their patterns more than noise does, which any row does somewhat."""
    m, first, _ = overlaps
    return bool(first > CLEAR / np.sqrt(n_sites) * max(m, 1))


class _Breadth(NamedTuple):
    """Variance of overlaps over what flips alone make of it, and the variance of this ratio."""

    ratio: float
    variance: float

    @property
    def off(self) -> bool:
        """Whether the ratio is more, or less, than chance allows."""
        error = np.sqrt(self.variance)
        return not 1 - WIDE - BELOW * error <= self.ratio <= 1 + WIDE + DEVIATIONS * error


def _together(breadths: list[_Breadth]) -> _Breadth:
    """Mean of clients, each as sure as it is."""
    weights = np.array([1 / b.variance for b in breadths])
    ratios = np.array([b.ratio for b in breadths])
    return _Breadth(float(weights @ ratios / weights.sum()), float(1 / weights.sum()))


def _breadth(overlaps: np.ndarray, n_sites: int) -> _Breadth:
    m, first, second = overlaps
    if m < 2:
        return _Breadth(1.0, UNSURE)
    r = min(first / m, 1.0)
    flips = n_sites * (1 - r) / 2  # of a row, on average; Poisson where few
    if flips * m < FEW:
        return _Breadth(1.0, UNSURE)
    breadth = max(second / m - r**2, 0.0) / ((1 - r**2) / n_sites)
    return _Breadth(float(breadth), float((2 + 1 / flips) / m))


def _excess(answers: list[Agreement], n_sites: int) -> tuple[float, float]:
    """Variance over columns of the agreement beyond chance, and its standard error."""
    n = np.concatenate([a.counts for a in answers]).astype(np.float64)
    first, second = (np.concatenate([getattr(a, k) for a in answers]) for k in ("first", "second"))
    enough = n >= FEW
    if not enough.any():
        return 0.0, 0.0
    n, first, second = n[enough], first[enough], second[enough]
    mean = first / (n * n_sites)
    found = second / (n**2 * n_sites) - mean**2
    chance = np.maximum(1 - mean**2, 1 / n_sites) / n
    weights = n / n.sum()
    error = np.sqrt((weights**2 * chance**2 * 2 / n_sites).sum())
    return float((weights * (found - chance)).sum()), float(error)


COPIED = 4.0  # standard deviations above what is expected that chance may reach
TWICE = 0.02  # of the rows, which may have been entered twice by mistake


def equal_pairs(answer: Agreement, patterns: np.ndarray) -> float:
    """Return how many pairs of equal rows are expected of one client.

    Parameters
    ----------
    patterns : (K, N) of +-1.
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
    """
    rows = sum(float(answer.overlaps[0]) for answer in answers)
    expected = sum(equal_pairs(answer, patterns) for answer in answers)
    repeats = sum(answer.repeats for answer in answers)
    return bool(repeats > expected + max(COPIED * np.sqrt(expected), TWICE * rows))
