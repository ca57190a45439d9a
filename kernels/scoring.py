"""Scores of candidate patterns, and removal of duplicates.

The score of a pattern on an orthonormal basis V is ``(1/N) |V^T sigma|^2``, 1 inside its span
(theory/NOTES.md, "Score and acceptance"). sigma and -sigma solve the same problem, so overlaps
count in absolute value, and the better of two candidates that are too close is kept: best first,
not in order of arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.bits import PackedBits, pack
from hopfed.kernels.cpu.threads import spans
from hopfed.kernels.moments import cross_gram
from hopfed.kernels.products import matmat

_CHUNK = 1024  # candidates compared with those already kept at a time

Patterns = Any  # PackedBits, or a (C, N) array that pack() takes


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
        raise ArgumentError("V", f"of shape ({p.n}, K)", f"shape {V.shape}")
    found: np.ndarray = (projections * projections).sum(axis=1) / max(p.n, 1)
    return found


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
    patterns : (C, N), packed or an array of +-1, on the host or a device.
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
    score = to_host(score)
    if score.shape != (len(p),) or score.dtype.kind not in "biuf" or np.isnan(score).any():
        got = f"{score.dtype} of shape {score.shape}"
        raise ArgumentError("score", f"{len(p)} real numbers, none of them NaN", got)
    if not 0 <= overlap <= 1:
        raise ArgumentError("overlap", "in [0, 1]", overlap)

    def near(a: PackedBits, b: PackedBits) -> Any:
        return abs(cross_gram(a, b)) > overlap * p.n

    def clear(order: np.ndarray, b: PackedBits) -> np.ndarray:
        """Those of `order` that are near none of b."""
        if not len(order) or not len(b):
            return order
        return order[~to_host(near(p[order], b).any(axis=1))]

    order = np.argsort(-score.astype(np.float64), kind="stable")
    if beside is not None:
        order = clear(order, beside)
    kept = np.zeros(0, np.int64)
    for start, stop in spans(len(order), _CHUNK):
        next_ones = clear(order[start:stop], p[kept])
        among = to_host(near(p[next_ones], p[next_ones]))
        keep: list[int] = []
        for i in range(len(next_ones)):
            if not among[i, keep].any():
                keep.append(i)
        kept = np.concatenate([kept, next_ones[keep]])
    return kept


def _packed(name: str, patterns: Patterns) -> PackedBits:
    if isinstance(patterns, PackedBits):
        return patterns
    shape = patterns.shape if hasattr(patterns, "shape") else np.shape(patterns)
    if len(shape) != 2:
        raise ArgumentError(
            name, "a PackedBits or a two-dimensional array of +-1", f"shape {shape}"
        )
    return pack(patterns)
