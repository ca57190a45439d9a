"""Scores of candidate patterns, removal of duplicates, and the sign that sigma and -sigma share.

The score of a pattern on an orthonormal basis V is ``(1/N) |V^T sigma|^2``, 1 inside its span
(theory/NOTES.md, "Score and acceptance"). sigma and -sigma solve the same problem, so overlaps
count in absolute value, and the better of two candidates that are too close is kept: best first,
not in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, PackedBits, pack
from hopfed.kernels.cpu.threads import spans
from hopfed.kernels.dispatch import with_twin
from hopfed.kernels.moments import cross_gram
from hopfed.kernels.products import matmat

_CHUNK = 1024  # candidates compared with those already kept at a time

Patterns = Any  # PackedBits, or a (C, N) array that pack() takes
Near = Callable[[Any, Any], np.ndarray]


@with_twin("scoring")
def scores(patterns: Patterns, V: np.ndarray) -> np.ndarray:
    """Return ``(1/N) |V^T sigma_c|^2`` for each of C patterns, (C,) float64.

    Parameters
    ----------
    patterns : (C, N), packed or an array of +-1.
    V : (N, K), orthonormal columns; products are float32 when V is.

    Examples
    --------
    >>> V = np.full((4, 1), 0.5)
    >>> scores(np.array([[1, 1, 1, 1], [1, 1, 1, -1]], np.int8), V).tolist()
    [1.0, 0.25]
    """
    p = _packed("patterns", patterns)
    projections = matmat(p, V).astype(np.float64)
    if projections.ndim != 2:
        raise ArgumentError("V", f"of shape ({p.n}, K)", f"shape {np.shape(V)}")
    return np.einsum("ck,ck->c", projections, projections) / max(p.n, 1)


@with_twin("scoring")
def distinct(
    patterns: Patterns,
    score: np.ndarray,
    *,
    overlap: float = 0.9,
    known: Patterns | None = None,
) -> np.ndarray:
    """Return the indices of the patterns to keep, best first, int64.

    Going down in `score` (ties: in order of index), a pattern is kept when its overlap
    ``|<sigma, sigma'>| / N`` with every one kept before, and with every `known` one, is at most
    `overlap`. Genuine archetypes may resemble each other, so `overlap` should not be far below
    0.9 (theory/NOTES.md, "Duplicates").

    Parameters
    ----------
    patterns : (C, N), packed or an array of +-1.
    score : (C,) real numbers, none of them NaN.
    overlap : in [0, 1].
    known : (K, N), packed or an array of +-1.

    Examples
    --------
    >>> patterns = np.array([[1, 1, 1, 1], [-1, -1, -1, -1], [1, 1, -1, -1]], np.int8)
    >>> distinct(patterns, np.array([0.5, 0.9, 0.4])).tolist()
    [1, 2]
    """
    p, beside = _packed("patterns", patterns), None if known is None else _packed("known", known)

    def near(a: PackedBits, b: PackedBits) -> np.ndarray:
        close: np.ndarray = np.abs(cross_gram(a, b)) > overlap * p.n
        return close

    def close(a: PackedBits, b: PackedBits) -> np.ndarray:
        return np.asarray(near(a, b).any(axis=1))

    return distinct_packed(p, np.asarray(score), overlap, beside, near, close, _CHUNK)


def distinct_packed(
    p: Any, score: np.ndarray, overlap: float, known: Any, near: Near, close: Near, chunk: int
) -> np.ndarray:
    """Return what `distinct` does, of patterns that are packed anywhere: best first, one by one.

    Parameters
    ----------
    p, known : packed patterns; known may be None.
    near, close : from (A, N) and (B, N) of them to whether they are close, all pairs (A, B), and
        whether any of the second is close (A,); on the host.
    chunk : patterns compared with those already kept at a time.
    """
    if score.shape != (len(p),) or score.dtype.kind not in "biuf" or np.isnan(score).any():
        got = f"{score.dtype} of shape {score.shape}"
        raise ArgumentError("score", f"{len(p)} real numbers, none of them NaN", got)
    if not 0 <= overlap <= 1:
        raise ArgumentError("overlap", "in [0, 1]", overlap)
    order = np.argsort(-score.astype(np.float64), kind="stable")
    if known is not None:
        order = order[~close(p[order], known)]
    kept = np.zeros(0, np.int64)
    for start, stop in spans(len(order), chunk):
        next_ones = order[start:stop]
        next_ones = next_ones[~close(p[next_ones], p[kept])]
        among = near(p[next_ones], p[next_ones])
        keep: list[int] = []
        for i in range(len(next_ones)):
            if not among[i, keep].any():
                keep.append(i)
        kept = np.concatenate([kept, next_ones[keep]])
    return kept


@with_twin("scoring")
def canonical_sign(patterns: Patterns) -> Patterns:
    """Return the patterns, each multiplied by +-1 so that its first entry is +1; same kind out.

    Examples
    --------
    >>> canonical_sign(np.array([[-1, 1], [1, -1]], np.int8)).tolist()
    [[1, -1], [1, -1]]
    """
    if not isinstance(patterns, PackedBits):
        pack(patterns)  # for its checks
        patterns = np.asarray(patterns)
        if patterns.dtype.kind not in "if" or patterns.shape[1] == 0 or (patterns == 0).any():
            got = f"{patterns.dtype} of shape {patterns.shape}"
            raise ArgumentError("patterns", "signed +-1 with at least one column", got)
        return patterns * patterns[:, :1]
    if patterns.n == 0:
        raise ArgumentError("patterns", "of at least one column", patterns.shape)
    words = patterns.words.copy()
    turn = (words[:, 0] & np.uint64(1)) == 0
    words[turn] = ~words[turn]
    if patterns.n % WORD:
        words[:, -1] &= np.uint64((1 << patterns.n % WORD) - 1)
    return PackedBits(words, patterns.n)


def _packed(name: str, patterns: Patterns) -> PackedBits:
    if isinstance(patterns, PackedBits):
        return patterns
    if np.ndim(patterns) != 2:
        rule = "a PackedBits or a two-dimensional array of +-1"
        raise ArgumentError(name, rule, f"shape {np.shape(patterns)}")
    return pack(patterns)
