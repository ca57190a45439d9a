"""Columns that decide which others are blank, as a question after which only some are asked more.

Where "do you smoke" comes before four questions to smokers, these are blank in every row that says
no. What is blank then says what the first column holds. Classes take gaps for chance, so whoever
compares rows with rows of classes has to know such columns.

They are seen in the rows themselves: of a set of columns that are blank together, the rows in which
they are blank all have one value of another column, and the other rows do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, to_host
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.equal_rows import row_marks
from hopfed.spectral.rows import Bits

LOOKED_AT = 1 << 23  # entries, of the first rows
TOGETHER = 64  # sets of columns that are blank together, the largest first
LEAST = 20  # rows in which they are blank
ALIKE = 0.98  # of these that have one value
CLEAR = 20.0  # nats by which so many alike are less likely where others are blank by chance


class Skip(NamedTuple):
    """Columns that are blank because of what another one holds.

    Attributes
    ----------
    column : that decides.
    sign : which it has where the others are blank, +1 or -1.
    blank : numbers of the others.
    """

    column: int
    sign: int
    blank: np.ndarray


def skips(rows: Bits | Array) -> list[Skip]:
    """Find the columns that decide which others are blank; of several, the rarest value first.

    Parameters
    ----------
    rows : (M, N) of -1, 0 (missing) and +1, or packed bits; the first of them are looked at.

    Examples
    --------
    >>> smokes = np.repeat([1, -1], 50)
    >>> many = np.where(smokes > 0, np.tile([1, -1], 50), 0)
    >>> skips(np.stack([smokes, many, np.tile([1, 1, -1, -1], 25)], axis=1))
    [Skip(column=0, sign=-1, blank=array([1]))]
    """
    few = rows[: max(1, LOOKED_AT // rows.shape[1])]
    if not isinstance(few, Bits):
        few = kernels.pack_masked(to_host(few))
    if not isinstance(few, MaskedBits):
        return []
    signs, seen = (kernels.transpose(_held(plane)) for plane in (few.signs, few.seen))
    M, there = len(few), kernels.unpack(seen) > 0
    counts = there.sum(axis=1)
    chosen = np.flatnonzero((counts <= M - LEAST) & (counts > 0))
    if not len(chosen):
        return []
    _, into, often = np.unique(row_marks(seen[chosen]), return_inverse=True, return_counts=True)
    values = np.where(there, np.where(kernels.unpack(signs) > 0, 1, -1), 0).astype(np.float32)
    held, plus = there.astype(np.float32), np.maximum(values, 0).sum(axis=1)
    found = []
    for kind in np.argsort(-often, kind="stable")[:TOGETHER]:
        blank = chosen[into == kind]
        away = (~there[blank[0]]).astype(np.float32)
        known, total = held @ away, values @ away
        share = np.where(total > 0, plus, counts - plus) / np.maximum(counts, 1)
        decides = (known >= LEAST) & (np.abs(total) >= (2 * ALIKE - 1) * known)
        decides &= -known * np.log(np.maximum(share, 1e-9)) >= CLEAR
        for j in sorted(np.flatnonzero(decides).tolist(), key=share.tolist().__getitem__):
            found.append(Skip(j, int(np.sign(total[j])), blank))
    return found


def _held(plane: PackedBits) -> PackedBits:
    """Bits on the host."""
    return PackedBits(np.asarray(to_host(plane.words)), plane.shape[1])
