"""Inputs, forms to hold them in, and distances of results that several pairs share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.bench.harness.record import Data
from hopfed.data.channel import draw_examples, rademacher
from hopfed.spectral.operators import FactorOperator

QUALITY = 0.8


def signs(rng: np.random.Generator, M: int, N: int) -> Data:
    """M examples of fair signs over N sites."""
    return {"x": rademacher(M, N, rng)}


def examples(rng: np.random.Generator, M: int, N: int, K: int) -> Data:
    """M examples of K archetypes over N sites."""
    return {"x": draw_examples(rademacher(K, N, rng), M, QUALITY, rng)[0]}


def float32(data: Data) -> Any:
    """Examples as float32."""
    return data["x"].astype(np.float32)


def packed(data: Data) -> Any:
    """Examples as packed bits."""
    return kernels.pack(data["x"])


def factors(data: Data) -> FactorOperator:
    """The operator of the examples, held as their bits."""
    return FactorOperator.from_examples(data["x"])


def largest_difference(a: Any, b: Any) -> float:
    """Largest difference of two entries."""
    return float(np.abs(to_host(a).astype(np.float64) - to_host(b)).max(initial=0.0))


def relative_distance(a: Any, b: Any) -> float:
    """Norm of the difference over that of the first."""
    a, b = to_host(a).astype(np.float64), to_host(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def share_that_differs(a: Any, b: Any) -> float:
    """Share of the entries that differ."""
    return float((to_host(a) != to_host(b)).mean())
