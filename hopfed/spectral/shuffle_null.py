"""The shuffle null in factor form: top eigenvalues of examples whose columns were scrambled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.sparse.linalg import eigsh

from hopfed import kernels
from hopfed._lib.arrays import blas_threads, like, to_host
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.kernels.bits import Rows
from hopfed.spectral import eigenpairs as spectrum
from hopfed.spectral.operators import FactorOperator, explicit, pool
from hopfed.spectral.rows import inner_products

NULLS = ("signs", "permute")
STEP = 1 << 22  # entries that are permuted at a time
SMALL = 64  # side of a matrix up to which LAPACK is as fast as Lanczos
BASIS = 40  # Lanczos vectors: the top of a spectrum without spikes is not set apart from the rest
TOLERANCE = 1e-4  # of the residual; the error of the eigenvalue is of its second order


def null_eigenvalues(
    operators: Sequence[FactorOperator], *, repeats: int, null: str = "signs", seed: int = 0
) -> np.ndarray:
    """Largest eigenvalue of each of `repeats` scrambled copies of the clients' examples.

    Parameters
    ----------
    operators : the clients' exact operators; each client scrambles its own rows.
    null : "signs" flips every entry with probability 1/2; "permute" permutes every column on its
        own, which keeps the column means (theory/NOTES.md, "Counting: shuffle null"). The draws are
        made on the host, wherever the rows are.

    Returns
    -------
    (repeats,) eigenvalues, in the scale of C.
    """
    tops = np.empty(repeats)
    for i in range(repeats):
        copies = [
            replace(op, rows=scramble(op.rows, null, stream(seed, "shuffle", null, i, c)))
            for c, op in enumerate(operators)
        ]
        tops[i] = _largest(
            cast(FactorOperator, pool(copies)), stream(seed, "shuffle", null, i, "start")
        )
    return tops


def _largest(operator: FactorOperator, rng: np.random.Generator) -> float:
    """Largest eigenvalue to about 1e-6 of itself, without the others where that pays."""
    rows, side = operator.rows, min(operator.rows.shape)
    if side <= SMALL or side > spectrum.EXPLICIT_LIMIT or not isinstance(operator.home, np.ndarray):
        # An iteration for no vector at all stops at once, with a value that is a tenth too low.
        wanted = int(side > spectrum.FULL_LIMIT)
        return float(spectrum.eigenpairs(operator, wanted).values[0])
    if side == len(rows):
        root = np.sqrt(operator.weights / operator.mass)
        A = inner_products(rows) * root[:, None] * root
    else:
        A = explicit(operator)
    start = rng.standard_normal(side).astype(np.float32)
    with blas_threads(1 if side < spectrum.SMALL else None):
        options = {"ncv": BASIS, "tol": TOLERANCE, "v0": start, "return_eigenvectors": False}
        return float(eigsh(A.astype(np.float32), 1, which="LA", **options)[0])


def scramble(rows: Any, null: str, rng: np.random.Generator) -> Any:
    """Return a scrambled copy of `rows`, of the same kind and in the same place.

    Parameters
    ----------
    rows : (M, N), packed or an array; of packed ones gaps move with their columns, or stay.
    null : as of `null_eigenvalues`.
    """
    if null not in NULLS:
        raise ArgumentError("null", f"one of {', '.join(NULLS)}", repr(null))
    if not isinstance(rows, Rows):
        plain = to_host(rows)
        signs = 2 * rng.integers(0, 2, plain.shape, np.int8) - 1
        return like(rng.permuted(plain, axis=0) if null == "permute" else plain * signs, rows)
    if null == "permute":
        return kernels.transpose(kernels.concatenate(list(_permuted(kernels.transpose(rows), rng))))
    words, seen = rows.signs, rows.seen
    flips = like(rng.integers(0, 1 << 64, words.shape, np.uint64), words)
    there = kernels.with_gaps(rows[:1]).seen if seen is None else seen
    return replace(rows, signs=words ^ (flips & there))


def _permuted(columns: Rows, rng: np.random.Generator) -> Iterator[Rows]:
    """The packed columns, the entries of each permuted, some at a time."""
    step = max(1, STEP // max(columns.n, 1))
    for start in range(0, max(len(columns), 1), step):
        part = columns[start : start + step]
        x = like(rng.permuted(to_host(kernels.unpack(part)), axis=1), part.home)
        gaps = columns.gaps
        yield kernels.with_gaps(kernels.pack_masked(x > 0, x == 0)) if gaps else kernels.pack(x)
