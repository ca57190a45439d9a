"""Blends and gates of an old with a new array.

Source: theory/NOTES.md, "Blends, gates and bounded stores".

The Hopfield federation blends operators, SoHip gates memories and FedSSA fuses head rows with these
operations. They take arrays of NumPy, CuPy or torch and return arrays of the same library.
"""

from __future__ import annotations

from hopfed._lib.arrays import Array, namespace
from hopfed.errors import ArgumentError


def blend(old: Array, new: Array, weight: float | Array) -> Array:
    """Return ``(1 - w) old + w new``, as in arXiv:2603.19902, eqs. (30), (44), (52).

    Parameters
    ----------
    weight : w in [0, 1], one number or an array that broadcasts against `old`.

    Examples
    --------
    >>> import numpy as np
    >>> blend(np.array([0.0, 4.0]), np.array([2.0, 0.0]), 0.25).tolist()
    [0.5, 3.0]
    """
    if isinstance(weight, (int, float)) and not 0 <= weight <= 1:
        raise ArgumentError("weight", "in [0, 1]", weight)
    return gate(old, new, 1 - weight, weight)


def gate(old: Array, new: Array, keep: float | Array, take: float | Array) -> Array:
    """Return ``keep * old + take * new``; `keep` and `take` need not add up to one.

    As in SoHip (arXiv:2603.25614, eq. (9)) and FedSSA (arXiv:2312.09006, eq. (4)).

    Examples
    --------
    >>> import numpy as np
    >>> gate(np.array([1.0]), np.array([1.0]), 1.0, 0.5).tolist()
    [1.5]
    """
    if tuple(old.shape) != tuple(new.shape):
        raise ArgumentError("new", f"of the shape {tuple(old.shape)} of old", tuple(new.shape))
    namespace(old, new)
    return keep * old + take * new
