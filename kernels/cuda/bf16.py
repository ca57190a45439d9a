"""Numbers of 16 bits with the range of float32, bfloat16, which matrix instructions multiply.

They are the upper halves of float32, held as uint16. The functions take arrays of any library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ONE, MINUS_ONE = 0x3F80, 0xBF80  # as uint16


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
