"""Votes of rows for patterns, and which rows a set of patterns explains.

An owner's rows vote for the pattern that they resemble most, of either sign; the sums over rows are
integers that add up over owners. A row that resembles a pattern as much as the pattern's own rows
do is explained by it.

Source: theory/NOTES.md, "Peeling".
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from hopfed._lib.arrays import like, namespace, to_host
from hopfed.archetypes.selection import SAME, SPREADS
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import Bits, array_beside, parts, times, total, transposed_times
from hopfed.theory.resolution import expected_overlap

FEW = 5  # rows that support a pattern: a sum over fewer resembles its rows more than an archetype
BLOCK = 8_192  # rows whose products with all patterns are held at once
HALF = 0.5  # overlap of the majority of three patterns with each; rows of a pattern must exceed it
CLEAR = 2.0  # standard deviations of a row's overlap beyond that
OWN = 5.0  # standard deviations that the overlap of a row with its own pattern may fall short
CHANCE = 0.01  # that a row comes as near to a pattern that is not its own
SMALLEST = 20  # rows that tell an owner what their overlap with their patterns is


@dataclass(frozen=True)
class Votes:
    """Sums over the rows of one owner, or of all of them.

    Attributes
    ----------
    counts : (P,) rows that vote for each pattern.
    signs : (P,) sums of the signs of their overlaps.
    sums : (P, N) of those rows, each with that sign.
    moments : (2,) number of rows that vote, and the sum of their overlaps.
    """

    counts: np.ndarray
    signs: np.ndarray
    sums: np.ndarray
    moments: np.ndarray

    def __add__(self, other: Votes) -> Votes:
        both = (getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        return Votes(*both)

    @property
    def quality(self) -> float:
        """Mean overlap of the rows that vote: r where the patterns are right."""
        return float(self.moments[1] / max(self.moments[0], 1.0))


def count_votes(rows: Bits | Reread, patterns: np.ndarray, least: float) -> Votes:
    """Sum the rows by the pattern that they resemble most, as far as they resemble it.

    Parameters
    ----------
    rows : (M, N) of one owner.
    patterns : (P, N) of +-1.
    """
    return total(rows, partial(_votes, patterns=patterns, least=least))


def _votes(rows: Bits, patterns: np.ndarray, least: float) -> Votes:
    """What one block of rows votes."""
    counts, signs = np.zeros((2, len(patterns)))
    sums = np.zeros(patterns.shape)
    moments = np.zeros(2)
    columns = like(np.ascontiguousarray(patterns.T, np.float32), array_beside(rows))
    identity = like(np.eye(len(patterns), dtype=np.float32), array_beside(rows))
    for block in parts(rows, BLOCK):
        products = times(block, columns)
        xp = namespace(products)
        choice = xp.argmax(xp.abs(products), axis=1)
        signed = xp.take_along_axis(products, choice[:, None], axis=1)
        signed = xp.where(xp.abs(signed) > least * patterns.shape[1], signed, 0 * signed)
        ballots = identity[choice] * xp.sign(signed)
        counts += to_host(xp.abs(ballots).sum(axis=0))
        signs += to_host(ballots.sum(axis=0))
        sums += to_host(transposed_times(block, ballots)).T
        overlaps = to_host(xp.abs(signed)).astype(np.float64) / patterns.shape[1]
        moments += np.array([(overlaps > 0).sum(), overlaps.sum()])
    return Votes(counts, signs, sums, moments)


def overlap_counts(rows: Bits | Reread, patterns: np.ndarray) -> np.ndarray:
    """Count complete rows by their best overlap with a pattern: (N + 1,), of 0, 1 / N, ..., 1."""
    return total(rows, partial(_overlap_counts, patterns=patterns))


def _overlap_counts(rows: Bits, patterns: np.ndarray) -> np.ndarray:
    N = patterns.shape[1]
    best = np.rint(best_overlaps(rows, patterns) * N).astype(np.int64)
    return np.bincount(best, minlength=N + 1)


def best_overlaps(rows: Bits, patterns: np.ndarray) -> np.ndarray:
    """Largest overlap of each row with a pattern, of either sign: (M,), in [0, 1]."""
    columns = like(np.ascontiguousarray(patterns.T, np.float32), array_beside(rows))
    best = [
        to_host(namespace(columns).abs(times(block, columns)).max(axis=1))
        for block in parts(rows, BLOCK)
    ]
    found: np.ndarray = np.concatenate(best) / patterns.shape[1]
    return found


def least_overlap(quality: float, n_patterns: int, n_sites: int) -> float:
    """Overlap above which a row may vote, at quality `quality` of the rows.

    Below it lie rows of other archetypes, whose largest overlap with P patterns exceeds
    ``sqrt(2 log(2 P / .01) / N)`` in one of a hundred, and rows of which the pattern is a mixture
    of three.
    """
    chance = np.sqrt(2 * np.log(2 * max(n_patterns, 1) / CHANCE) / n_sites)
    mixture = HALF * quality + CLEAR * np.sqrt((1 - quality**2) / n_sites)
    return float(max(chance, mixture))


def own_level(counts: np.ndarray, least: float, quality: float) -> float:
    """Overlap from which on a pattern explains a row of an owner, from its rows' best overlaps.

    The quality r is that of the owner's own rows, the median of those above `least`; of few rows
    nothing can be said, and `quality` stands for it. Then ``r - 5 sqrt((1 - r^2) / N)``.

    Parameters
    ----------
    counts : (N + 1,) of the owner's rows (`overlap_counts`).
    least : overlap below which a row may be of another pattern.
    """
    n_sites = len(counts) - 1
    overlaps = np.arange(n_sites + 1, dtype=np.float32) / n_sites
    near = np.cumsum(np.where(overlaps > least, counts, 0))
    r, rows = quality, int(near[-1])
    if rows >= SMALLEST:
        middle = np.searchsorted(near, [(rows - 1) // 2, rows // 2], side="right")
        r = float(overlaps[middle].mean())
    return float(max(least, r - OWN * np.sqrt(max(1 - r**2, 0.0) / n_sites)))


def sureness(counts: np.ndarray, quality: float) -> np.ndarray:
    """Squared cosine of a sum of n rows with their archetype, ``n r^2 / (n r^2 + 1 - r^2)``."""
    signal = counts * quality**2
    found: np.ndarray = signal / (signal + max(1 - quality**2, 1e-12))
    return found


@dataclass(frozen=True)
class Elected:
    """Patterns that enough rows vote for, heaviest first.

    Attributes
    ----------
    patterns : (K, N) int8 of +-1, as their rows have them; they point as most of these do.
    counts : (K,) rows of each.
    scores : (K,) squared cosine of each with the sum of its rows.
    quality : mean overlap of the rows that voted.
    """

    patterns: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    quality: float

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def predicted_scores(self) -> np.ndarray:
        """(K,) what theory expects of the scores."""
        return sureness(self.counts, self.quality)


def elected(votes: Votes, patterns: np.ndarray) -> Elected:
    """Patterns of at least `FEW` rows, as these have them, without duplicates.

    Two patterns are one if they are as alike as two estimates of one archetype, from as many rows,
    would be.
    """
    order = np.argsort(-votes.counts, kind="stable")
    order = order[votes.counts[order] >= FEW]
    sums, counts = votes.sums[order], votes.counts[order]
    fresh = np.where(sums == 0, patterns[order], np.sign(sums))
    fresh = (fresh * np.where(votes.signs[order] < 0, -1, 1)[:, None]).astype(np.int8)
    N = patterns.shape[1]
    sure = expected_overlap(sureness(counts, votes.quality))
    both = np.outer(sure, sure)
    limit = np.minimum(SAME, both - SPREADS * np.sqrt(np.maximum(1 - both**2, 0.0) / N))
    x = fresh.astype(np.float32)
    alike = np.abs(x @ x.T) / N >= limit
    kept: list[int] = []
    for i in range(len(fresh)):
        if not alike[i, kept].any():
            kept.append(i)
    scores = np.abs(sums).sum(axis=1) ** 2 / np.maximum(N * (sums**2).sum(axis=1), 1.0)
    return Elected(fresh[kept], counts[kept], scores[kept], votes.quality)
