"""Inputs, data formats, and distances between results, used by several pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed.bench.harness.record import Data
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.spectral.operators import FactorOperator

QUALITY = 0.8


def signs(rng: np.random.Generator, M: int, N: int) -> Data:
    """M examples of independent random signs over N sites."""
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
    """The operator of the examples, stored as packed bits."""
    return FactorOperator.from_examples(data["x"])


def largest_difference(a: Any, b: Any) -> float:
    """Largest absolute difference between corresponding entries."""
    return float(np.abs(to_host(a).astype(np.float64) - to_host(b)).max(initial=0.0))


def relative_distance(a: Any, b: Any) -> float:
    """Norm of the difference, divided by the norm of the first."""
    a, b = to_host(a).astype(np.float64), to_host(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def share_that_differs(a: Any, b: Any) -> float:
    """Share of the entries that differ."""
    return float((to_host(a) != to_host(b)).mean())
