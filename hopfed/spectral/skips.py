"""Columns that decide which others are blank, as a question after which only some are asked more.

Where "do you smoke" comes before four questions to smokers, these are blank in every row that says
no. What is blank then says what the first column holds. Classes take gaps for chance, so whoever
compares rows with rows of classes has to know such columns.

They are seen in the rows themselves. Of columns that are blank together, the rows in which they are
blank all have one value of another column, and the other rows do not; or all rows with that value
are blank, and others that lack an answer for other reasons are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from hopfed import kernels
from hopfed.kernels import Rows
from hopfed.kernels.place import Place
from hopfed.spectral.equal_rows import row_marks

LOOKED_AT = 1 << 23  # entries, of the first rows
TOGETHER = 256  # sets of columns that are blank together, the largest first
LEAST = 20  # rows that show it
ALIKE = 0.98  # of these that do
RARER = 0.05  # entries of such rows, of those of other rows, at most
CLEAR = 20.0  # nats by which so many alike are less likely where others are blank by chance


class Skip(NamedTuple):
    """Columns that are blank because of what another one holds."""

    column: int  # that decides
    sign: int  # which it has where the others are blank, +1 or -1
    blank: np.ndarray  # numbers of the others
    always: bool  # whether they are blank wherever it has that sign
    only: bool  # whether it has that sign wherever they are blank. One of the two holds at least.


def skips(rows: Rows, steps: Sequence[Sequence[int]] = ()) -> list[Skip]:
    """Find the columns that decide which others are blank; of several, the rarest value first.

    `steps` are thresholds of one answer each, which is blank where the first of them is.
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
        row_marks(Rows(columns.seen[chosen], M)), return_inverse=True, return_counts=True
    )
    kinds = [chosen[into == kind] for kind in np.argsort(-often, kind="stable")[:TOGETHER]]
    away = (~there[[blank[0] for blank in kinds]]).astype(np.float32)
    kinds = [np.array([j for i in blank.tolist() for j in whole.get(i, (i,))]) for blank in kinds]
    found = []
    for sign, held in ((1, plus), (-1, there & ~plus)):
        a, b = (part.astype(np.float32) @ away.T for part in (held, there & ~held))
        a, b, often_held = a.astype(float), b.astype(float), held.sum(axis=1)
        share = often_held / np.maximum(counts, 1)
        # Rows in which sets of columns are blank have one value of another column,
        surprise = -(a + b) * np.log(np.maximum(share, 1e-9))[:, None]
        explained = (a + b >= LEAST) & (a >= ALIKE * (a + b)) & (surprise >= CLEAR)
        # or the rows with that value are those in which they are blank.
        own, other = (np.maximum(n, 1)[:, None] for n in (often_held, counts - often_held))
        entries = 1 - a / own, 1 - b / other
        surprise = _spent(a, own) + _spent(b, other) - _spent(a + b, own + other)
        few_of = (entries[0] <= 1 - ALIKE) & (entries[0] <= RARER * entries[1])
        always = (a >= LEAST) & few_of & (surprise >= CLEAR)
        for j, k in np.argwhere(explained | always).tolist():
            both = bool(always[j, k]), bool(explained[j, k])
            found.append((k, share[j], Skip(j, sign, kinds[k], *both)))
    return [skip for _, _, skip in sorted(found, key=lambda each: (*each[:2], each[2].column))]


def deciding(found: Sequence[Skip]) -> np.ndarray:
    """Columns that tell which others are blank: where there are, those that tell all their gaps."""
    told = {tuple(skip.blank.tolist()) for skip in found if skip.only}
    chosen = {s.column for s in found if s.only or tuple(s.blank.tolist()) not in told}
    return np.array(sorted(chosen), int)


def _spent(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Log-likelihood of `part` of `whole` rows at their own rate."""
    rest = whole - part
    return xlogy(part, part / whole) + xlogy(rest, rest / whole)
