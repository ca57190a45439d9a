"""Random streams, each named by a seed and a path, as ``stream(7, "novelty", 3, "client", 2)``.

Streams of different names are independent, and do not depend on the number of draws from others,
so engines, resumption and grouping do not change a result.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator of the random stream `path` under `seed`."""
    words = [check_seed(seed), *np.frombuffer(_digest(path), dtype=np.uint32).tolist()]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def derive(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed for the random stream `path`, for kernels with counter-based draws."""
    digest = hashlib.sha256(str(check_seed(seed)).encode() + _digest(path)).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def check_seed(seed: Any) -> int:
    """Return the `seed` of random streams as an int, or raise ArgumentError."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ArgumentError("seed", "a non-negative integer", seed)
    return int(seed)


def _digest(path: tuple[str | int, ...]) -> bytes:
    text = "\x1f".join(f"{type(p).__name__[0]}{p}" for p in path)
    return hashlib.sha256(text.encode()).digest()
