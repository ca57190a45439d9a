"""Compression of a network's update: matrices truncated to their leading singular directions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.messages import Field

Arrays = Mapping[str, np.ndarray]


def truncate(matrix: np.ndarray, energy: float) -> np.ndarray:
    """Keep the fewest singular directions of (m, n) that hold the share `energy` of the squares.

    At least one direction is kept.

    Returns
    -------
    (k, m + n) array of the dtype of `matrix`, with one direction per row: first its part along m,
    then its part along n. The part along the longer axis is scaled by the singular value. The
    truncated matrix is ``rows[:, :m].T @ rows[:, m:]``. A matrix that is not finite gives a row of
    NaN.

    Examples
    --------
    >>> rows = truncate(np.diag([3.0, 1.0]), 0.9)
    >>> rows.shape, (rows[:, :2].T @ rows[:, 2:]).round(6).tolist()
    ((1, 4), [[3.0, 0.0], [0.0, 0.0]])
    """
    require(0 < energy <= 1, "energy", "in (0, 1]", energy)
    m, n = matrix.shape
    if not np.isfinite(matrix).all():
        return np.full((1, m + n), np.nan, dtype=matrix.dtype)
    short = (matrix if m <= n else matrix.T).astype(np.float64)
    # The eigenvalues of the smaller Gram matrix are the squared singular values. To compute them
    # costs less than a full singular value decomposition.
    squares, directions = np.linalg.eigh(short @ short.T)
    held = np.cumsum(squares[::-1].clip(min=0))
    rank = min(int(np.searchsorted(held, energy * held[-1])) + 1, len(held))
    kept = directions[:, ::-1][:, :rank].T
    parts = (kept, kept @ short) if m <= n else (kept @ short, kept)
    return np.concatenate(parts, axis=1).astype(matrix.dtype)


def truncated(update: Arrays, energy: float) -> dict[str, np.ndarray]:
    """Truncate every array with two axes or more, as a matrix (first axis, all other axes).

    Arrays with one axis stay as they are.
    """
    return {
        name: truncate(array.reshape(len(array), -1), energy) if array.ndim > 1 else array
        for name, array in update.items()
    }


def expanded(sent: Arrays, like: Arrays) -> dict[str, np.ndarray]:
    """Return the arrays that `truncated` compressed, in the shapes of `like`.

    Examples
    --------
    >>> update = {"w": np.ones((2, 3, 1)), "b": np.ones(2)}
    >>> back = expanded(truncated(update, 0.95), update)
    >>> bool(np.allclose(back["w"], 1.0)), back["w"].shape
    (True, (2, 3, 1))
    """
    found = {}
    for name, array in like.items():
        rows = sent[name]
        if array.ndim > 1:
            m = len(array)
            rows = (rows[:, :m].T @ rows[:, m:]).reshape(array.shape)
        found[name] = rows
    return found


def form(like: Arrays) -> dict[str, Field]:
    """Names, shapes and kinds of the result of `truncated`, for any number of directions."""
    return {
        name: Field((None, len(array) + array[0].size), "f")
        if array.ndim > 1
        else Field(array.shape, "f" if array.dtype.kind == "f" else "iu")
        for name, array in like.items()
    }
