"""Whether rows follow each other in time: what is left of a row, beside what is left of the next.

Columns that are independent of each other, but each slow in time, look like many components, or
like classes. A table that is sorted by its classes is no such case: give what the classes leave.
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.settings import require

LEVEL = 1e-3  # rate at which rows in any order are called dependent
DEPENDENT = (
    "Rows depend on their neighbours ({:.1f} standard errors): they follow each other in time or "
    "in blocks. Keep every n-th row, or one of each block, so that rows are independent."
)


def neighbour_deviation(left: np.ndarray) -> float:
    """Standard errors by which rows are nearer to the next one than to any other."""
    rows = np.asarray(left, np.float64)
    require(rows.ndim == 2, "left", "a matrix (M, N)", f"shape {rows.shape}")
    require(bool(np.isfinite(rows).all()), "left", "finite, with 0 in gaps", "another entry")
    M = len(rows)
    if M < 3:
        return 0.0
    rows = rows - rows.mean(axis=0)
    products = np.einsum("ij,ij->i", rows[:-1], rows[1:])
    products += np.einsum("ij,ij->", rows, rows) / (M * (M - 1))  # all pairs of centred rows
    size = float(np.sqrt(products @ products))
    return float(products.sum() / size) if size > 0 else 0.0
