"""The shuffle null in factor form: top eigenvalues of examples whose columns were scrambled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed.arrays import to_host
from hopfed.kernels import PackedBits
from hopfed.operators import FactorOperator, pool
from hopfed.rng import stream
from hopfed.spectrum import eigenpairs


def null_eigenvalues(
    operators: Sequence[FactorOperator], *, repeats: int, null: str = "signs", seed: int = 0
) -> np.ndarray:
    """Largest eigenvalue of each of `repeats` scrambled copies of the clients' examples.

    Parameters
    ----------
    operators : the clients' exact operators; each client scrambles its own rows.
    null : "signs" flips every entry with probability 1/2; "permute" permutes every column on its
        own, which keeps the column means (A4).

    Returns
    -------
    (repeats,) eigenvalues, in the scale of C.
    """
    tops = np.empty(repeats)
    for i in range(repeats):
        copies = [
            _scrambled(op, null, stream(seed, "shuffle", null, i, c))
            for c, op in enumerate(operators)
        ]
        tops[i] = eigenpairs(pool(copies), 0).values[0]
    return tops


def _scrambled(operator: FactorOperator, null: str, rng: np.random.Generator) -> FactorOperator:
    packed = isinstance(operator.rows, PackedBits)
    rows = kernels.unpack(operator.rows) if packed else to_host(operator.rows)
    rows = rng.permuted(rows, axis=0) if null == "permute" else rows * _signs(rng, rows)
    return replace(operator, rows=kernels.pack(rows) if packed else rows)


def _signs(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    return (2 * rng.integers(0, 2, size=rows.shape, dtype=np.int8) - 1).astype(rows.dtype)
