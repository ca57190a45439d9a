"""Leading eigenpairs of a matrix that is on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.spectral.restarted_krylov import drawn_block, leading_pairs

Wanted = int | Callable[[np.ndarray, bool], int]  # from (eigenvalues, whether all are there)

# On an H200 all pairs of a matrix take 11 ms at a side of 1,000, 26 at 2,000 and 57 at 3,000, of
# which nine tenths are for the eigenvalues alone; an iteration for 1 to 50 pairs takes 22 to 32 ms
# at any of these. So a rule that wants all eigenvalues first has the vectors from the library too.
ITERATED = 2_000  # side of a matrix from which its eigenvectors are iterated on
PART = 16  # of the side: of more pairs all are computed
COLUMNS = 16  # of a block
EXACT_TOL = 1e-6  # angle to the eigenvectors there
TOP_TOL = 1e-4  # residual of a largest eigenvalue; its error is of second order


class Leading(NamedTuple):
    """Eigenpairs of a small matrix."""

    values: np.ndarray  # on the host, descending
    there: Array  # (k,) those of the vectors, where these are
    vectors: Array  # of the k that are wanted
    iterated: str | None = None  # status of an iteration; None where all values were computed


def all_pairs(A: Array, wanted: Wanted) -> Leading:
    """Eigenpairs by an iteration, or by a library that gives all vectors or none."""
    xp = namespace(A)
    n = A.shape[0]
    if not callable(wanted) and 0 < wanted <= n // PART and n >= ITERATED:
        found = _iterated(A, wanted)
        if found is not None:
            return found
    if wanted == 0:
        ascending, vectors = xp.linalg.eigvalsh(A), A[:, :0]
    else:
        ascending, vectors = xp.linalg.eigh(A)
    values = np.maximum(to_host(ascending)[::-1], 0.0)
    count = counted(wanted, values, True)
    there = xp.flip(ascending[ascending.shape[0] - count :], axis=0)  # above 0, being wanted
    return Leading(values, there, xp.flip(vectors[:, vectors.shape[1] - count :], axis=1))


def _iterated(A: Array, wanted: int) -> Leading | None:
    """Eigenpairs by products with `A`; None where they are not found to the tolerance."""
    xp, n = namespace(A), A.shape[0]
    found = leading_pairs(
        A.__matmul__,
        xp.astype(drawn_block(n, COLUMNS, stream(0, "iterated", n), A), A.dtype),
        lambda values, whole: counted(wanted, values, whole),
        lambda values, k: EXACT_TOL * (values[:k] - values[k : k + 1].max(initial=0.0)),
        max_products=max(12, 4 * (wanted // COLUMNS + 1)),
    )
    if found.loose:
        return None
    there = like(found.values[: found.vectors.shape[1]].astype(np.float64), A)
    return Leading(found.values, there, xp.astype(found.vectors, xp.float64), "converged")


def top(n: int, product: Callable[[Array], Array], home: Array) -> float:
    """Largest eigenvalue of a matrix (n, n) by its `product` with others, float32, where `home` is.

    Its error is of second order in the residual, of which it stops at `TOP_TOL`.
    """
    found = leading_pairs(
        product,
        drawn_block(n, min(8, n), stream(0, "top", n), home),
        lambda *_: 1,
        lambda values, k: TOP_TOL * values[:k],
        max_products=100,
    )
    return float(found.values[0])


def counted(wanted: Wanted, values: np.ndarray, complete: bool, floor: float = 1e-12) -> int:
    """How many vectors are wanted, of those whose eigenvalues are not zero."""
    count = wanted(np.maximum(values, 0.0), complete) if callable(wanted) else wanted
    if count < 0:
        raise ArgumentError("wanted", "a count of eigenvectors, at least 0", count)
    return min(count, int((values > floor * max(values[0], 1e-300)).sum()))
