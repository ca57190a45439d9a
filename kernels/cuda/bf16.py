"""Numbers of 16 bits with the range of float32, bfloat16, which matrix instructions multiply.

They are the upper halves of float32, held as uint16. The functions take arrays of any library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SIDE = 8  # of which sides of matrices should be multiples: 16 bytes


def rounded(x: Any) -> Any:
    """Return finite float32 numbers as uint16, rounded to nearest, to even where two are.

    Examples
    --------
    >>> widened(rounded(np.array([1.0, -1.0, 1 / 3], np.float32))).tolist()
    [1.0, -1.0, 0.333984375]
    """
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(x: Any) -> Any:
    """Return uint16 as the float32 numbers that they stand for, exactly."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def split(xp: Any, x: Any) -> Any:
    """Return finite float32 (n, k) as three terms that add up to it, (n, 3 k) uint16 and padding.

    A term has 8 of the 24 digits, so that the sum is exact but for numbers below 1e-33. The first k
    columns are the largest terms; zeros fill the last ones up to a multiple of `SIDE`.
    """
    n, k = x.shape
    terms = xp.zeros((n, -(-3 * k // SIDE) * SIDE), np.uint16)
    for i in range(3):
        term = rounded(x)
        terms[:, i * k : (i + 1) * k] = term
        x = x - widened(term)
    return terms
