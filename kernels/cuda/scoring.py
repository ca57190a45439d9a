"""Scores, duplicates and signs of candidates on a device; see `hopfed.kernels.scoring`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD
from hopfed.kernels.cuda.bits import DevicePacked, pack
from hopfed.kernels.cuda.device import device_of
from hopfed.kernels.cuda.gram import cross_gram
from hopfed.kernels.cuda.products import matmat
from hopfed.kernels.scoring import distinct_packed

_CHUNK = 4096  # candidates compared with those already kept at a time

Patterns = Any  # DevicePacked, or a (C, N) device array that pack() takes


def scores(patterns: Patterns, V: Any) -> Any:
    """Return ``(1/N) |V^T sigma_c|^2`` for each of C patterns, (C,) float64 on the device."""
    p = _packed("patterns", patterns)
    projections = matmat(p, V).astype(np.float64)
    if projections.ndim != 2:
        raise ArgumentError("V", f"of shape ({p.n}, K)", f"shape {V.shape}")
    return (projections * projections).sum(axis=1) / max(p.n, 1)


def distinct(
    patterns: Patterns, score: Any, *, overlap: float = 0.9, known: Patterns | None = None
) -> np.ndarray:
    """Return the indices of the patterns to keep, best first: int64, on the host.

    score : (C,) real numbers, none of them NaN, on the device or on the host. Overlaps are made
    on the device, the greedy choice on the host.
    """
    p, beside = _packed("patterns", patterns), None if known is None else _packed("known", known)

    def beyond(a: DevicePacked, b: DevicePacked) -> Any:
        return abs(cross_gram(a, b, "popcount")) > overlap * p.n

    def near(a: DevicePacked, b: DevicePacked) -> np.ndarray:
        return beyond(a, b).get()

    def close(a: DevicePacked, b: DevicePacked) -> np.ndarray:
        if not len(a) or not len(b):
            return np.zeros(len(a), np.bool_)
        return beyond(a, b).any(axis=1).get()

    score = np.asarray(score.get() if hasattr(score, "get") else score)
    return distinct_packed(p, score, overlap, beside, near, close, _CHUNK)


def canonical_sign(patterns: Patterns) -> Patterns:
    """Return the patterns, each multiplied by +-1 so that its first entry is +1; same kind out."""
    if not isinstance(patterns, DevicePacked):
        pack(patterns)  # for its checks
        if patterns.dtype.kind not in "if" or patterns.shape[1] == 0 or bool((patterns == 0).any()):
            got = f"{patterns.dtype} of shape {patterns.shape}"
            raise ArgumentError("patterns", "signed +-1 with at least one column", got)
        return patterns * patterns[:, :1]
    if patterns.n == 0:
        raise ArgumentError("patterns", "of at least one column", patterns.shape)
    xp = patterns.device.xp
    turn = (patterns.words[:, :1] & np.uint64(1)) == 0
    words = xp.where(turn, ~patterns.words, patterns.words)
    if patterns.n % WORD:
        words[:, -1] &= np.uint64((1 << patterns.n % WORD) - 1)
    return DevicePacked(words, patterns.n)


def _packed(name: str, patterns: Patterns) -> DevicePacked:
    if isinstance(patterns, DevicePacked):
        return patterns
    device_of(name, patterns)
    if patterns.ndim != 2:
        rule = "a DevicePacked or a two-dimensional array of +-1"
        raise ArgumentError(name, rule, f"shape {patterns.shape}")
    return pack(patterns)
