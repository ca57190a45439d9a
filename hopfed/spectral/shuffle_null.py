"""The shuffle null in factor form: top eigenvalues of examples whose columns were scrambled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from hopfed._lib.arrays import like, to_host
from hopfed._lib.random import stream
from hopfed.kernels import PackedBits
from hopfed.kernels.shuffle import largest_eigenvalue, scramble
from hopfed.spectral import eigenpairs as spectrum
from hopfed.spectral.operators import FactorOperator, pool
from hopfed.spectral.rows import Bits


def null_eigenvalues(
    operators: Sequence[FactorOperator], *, repeats: int, null: str = "signs", seed: int = 0
) -> np.ndarray:
    """Largest eigenvalue of each of `repeats` scrambled copies of the clients' examples."""
    tops = np.empty(repeats)
    for i in range(repeats):
        copies = [
            _scrambled(op, null, stream(seed, "shuffle", null, i, c))
            for c, op in enumerate(operators)
        ]
        pooled = cast(FactorOperator, pool(copies))
        tops[i] = _largest(pooled, stream(seed, "shuffle", null, i, "start"))
    return tops


def _largest(operator: FactorOperator, rng: np.random.Generator) -> float:
    """Largest eigenvalue, without the others where there is a way to that, as of bits."""
    rows = operator.rows
    if isinstance(rows, PackedBits) and isinstance(rows.words, np.ndarray):
        return largest_eigenvalue(rows, operator.weights / operator.mass, rng)
    # An iteration for no vector at all stops at once, with a largest value that is a tenth too low.
    wanted = int(min(rows.shape) > spectrum.FULL_LIMIT)
    return float(spectrum.eigenpairs(operator, wanted).values[0])


def _scrambled(operator: FactorOperator, null: str, rng: np.random.Generator) -> FactorOperator:
    rows = operator.rows
    if isinstance(rows, Bits):
        return replace(operator, rows=scramble(rows, null, rng))
    plain = np.asarray(scramble(to_host(rows), null, rng))
    return replace(operator, rows=like(plain, rows))
