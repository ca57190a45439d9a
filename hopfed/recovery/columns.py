"""Columns that hold one value, and are left out of the count.

Noise would have flipped some of their entries, so they are not of the channel. In the operator they
add up to a direction of their own, and their share of the trace makes the noise of the others look
smaller than it is. Where rows are so clean that archetypes leave such columns they stay.

Source: theory/NOTES.md, "Goodness of fit".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import like
from hopfed.archetypes.factorize import Archetypes
from hopfed.recovery.one_round import Federation
from hopfed.recovery.routes import Recovery
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.rows import Bits, held

BLOCK = 8_192  # rows unpacked at once
FEWEST = 3  # columns that vary, below which there is nothing to count
LIKELY = 0.25  # part of the constant columns that archetypes must explain, or they are left out


def varying(federation: Federation, mean: np.ndarray) -> tuple[Federation, np.ndarray]:
    """A federation of the columns that vary, and where they are; the same one where all do.

    Parameters
    ----------
    federation : the clients, whose rows are complete.
    mean : (N,) of all rows.
    """
    there = np.flatnonzero(np.abs(mean) < 1)
    if len(there) < FEWEST or len(there) == len(mean):
        return federation, np.arange(len(mean))
    clients = [FactorOperator.from_examples(_part(op.rows, there)) for op in federation.clients]
    owners = list(range(len(clients)))
    return Federation(clients, federation.seed, federation.masked, owners), there


def _part(rows: Bits, columns: np.ndarray) -> Bits:
    """Some columns of rows without gaps."""
    at = like(columns, held(rows))
    blocks = [kernels.unpack(rows[a : a + BLOCK]) for a in range(0, rows.shape[0], BLOCK)]
    return kernels.concatenate([kernels.pack(block[:, at]) for block in blocks])


def expected_constant(found: Archetypes, n_columns: int, n_rows: float) -> float:
    """Columns of one value that K archetypes of the quality leave, by chance.

    ``N 2^(1 - K) ((1 + r) / 2)^M``: all archetypes have one sign there, and no row is flipped.

    Parameters
    ----------
    found : on the columns that vary.
    n_columns, n_rows : N, all columns, and M.
    """
    K = max(len(found), 1)
    return float(n_columns * 2.0 ** (1 - K) * ((1 + found.quality) / 2) ** n_rows)


def on_all_columns(recovery: Recovery, there: np.ndarray, mean: np.ndarray) -> Recovery:
    """The patterns of a recovery with the columns that were left out, as all rows have them.

    Parameters
    ----------
    recovery : on the columns `there`.
    mean : (N,) of all rows over all columns.
    """
    patterns = np.sign(mean).astype(np.int8) * np.ones((len(recovery.archetypes), 1), np.int8)
    patterns[:, there] = recovery.archetypes.patterns
    return replace(
        recovery,
        archetypes=replace(recovery.archetypes, patterns=patterns),
        constant_columns=np.flatnonzero(np.abs(mean) == 1),
    )


def vary_alone(federation: Federation, mean: np.ndarray, found: Archetypes) -> bool:
    """Whether the columns of one value are not those that the archetypes leave.

    Parameters
    ----------
    federation : of all columns.
    mean : (N,) of all rows.
    found : on the columns that vary.
    """
    constant = int((np.abs(mean) == 1).sum())
    return expected_constant(found, len(mean), federation.n_rows) < LIKELY * constant
