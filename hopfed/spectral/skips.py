"""Skipped questions: columns that are blank because of the value of another column.

If "do you smoke" comes before four questions to smokers, these are blank in every row with
the answer no, so blanks reveal the value of the first column. Classes treat gaps as random, so a
comparison of rows with rows drawn from classes must know such columns. A skip is a set of columns
that are blank together, such that all rows in which they are blank have one value of another
column, and other rows do not; or all rows with that value are blank, and few other rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from hopfed import kernels
from hopfed.kernels.bits import Rows
from hopfed.kernels.place import Place
from hopfed.spectral.rows import hash_rows

LOOKED_AT = 1 << 23  # most entries used, from the first rows
SETS = 256  # most sets of columns that are blank together, the largest first
LEAST = 20  # least number of rows that show a skip
ALIKE = 0.98  # least share of these rows with the deciding value
RARER = 0.05  # largest share of entries in rows with that value, over that in other rows
CLEAR = 20.0  # least evidence in nats against blanks by chance


class Skip(NamedTuple):
    """Columns that are blank because of the value of another column."""

    column: int  # the deciding column
    sign: int  # its value where the others are blank, +1 or -1
    blank: np.ndarray  # indices of the blank columns
    always: bool  # whether they are blank in all rows with that value
    only: bool  # whether all rows in which they are blank have that value; or `always`, or both


def find_skips(rows: Rows, steps: Sequence[Sequence[int]] = ()) -> list[Skip]:
    """Find skipped questions in rows: columns that decide which others are blank, rarest first.

    `steps` are groups of thresholds of one answer, all blank where the first of them is.
    """
    few = Place().put(rows[: max(1, LOOKED_AT // rows.shape[1])])
    if not few.gaps:
        return []
    columns = kernels.transpose(few)
    M, x = len(few), kernels.unpack(columns)
    there, plus = x != 0, x > 0
    counts = there.sum(axis=1)
    chosen = np.flatnonzero((counts <= M - LEAST) & (counts > 0))
    chosen = np.setdiff1d(chosen, [j for group in steps for j in group[1:]])
    whole = {group[0]: group for group in steps}
    if not len(chosen):
        return []
    _, into, often = np.unique(
        hash_rows(Rows(columns.seen[chosen], M)), return_inverse=True, return_counts=True
    )
    kinds = [chosen[into == kind] for kind in np.argsort(-often, kind="stable")[:SETS]]
    away = (~there[[blank[0] for blank in kinds]]).astype(np.float32)
    kinds = [np.array([j for i in blank.tolist() for j in whole.get(i, (i,))]) for blank in kinds]
    found = []
    values = plus, there & ~plus
    up, down = ((held.astype(np.float32) @ away.T).astype(float) for held in values)
    for sign, held, a, b in ((1, values[0], up, down), (-1, values[1], down, up)):
        often_held = held.sum(axis=1)
        share = often_held / np.maximum(counts, 1)
        # Rows in which a set of columns is blank have one value of another column,
        surprise = -(a + b) * np.log(np.maximum(share, 1e-9))[:, None]
        explained = (a + b >= LEAST) & (a >= ALIKE * (a + b)) & (surprise >= CLEAR)
        # or all rows with that value are blank and few others are.
        own, other = (np.maximum(n, 1)[:, None] for n in (often_held, counts - often_held))
        entries = 1 - a / own, 1 - b / other
        few_of = (entries[0] <= 1 - ALIKE) & (entries[0] <= RARER * entries[1])
        always = (a >= LEAST) & few_of
        at = np.nonzero(always)
        parts = (a[at], own[at[0], 0]), (b[at], other[at[0], 0])
        joint = [first + second for first, second in zip(*parts, strict=True)]
        always[at] = sum(_spent(*part) for part in parts) - _spent(*joint) >= CLEAR
        for j, k in np.argwhere(explained | always).tolist():
            both = bool(always[j, k]), bool(explained[j, k])
            found.append((k, share[j], Skip(j, sign, kinds[k], *both)))
    return [skip for _, _, skip in sorted(found, key=lambda each: (*each[:2], each[2].column))]


def deciding_columns(found: Sequence[Skip]) -> np.ndarray:
    """Deciding columns of rows' skipped questions; per set only those of all its blanks, if any."""
    sets = {tuple(skip.blank.tolist()) for skip in found if skip.only}
    chosen = {s.column for s in found if s.only or tuple(s.blank.tolist()) not in sets}
    return np.array(sorted(chosen), int)


def _spent(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Log-likelihood of `part` of `whole` rows at the observed rate."""
    rest = whole - part
    return xlogy(part, part / whole) + xlogy(rest, rest / whole)
