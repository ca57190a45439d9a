"""The answer of a recovery on all columns, from that on those that say something of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.recovery.routes import Recovery
from hopfed.spectral.determined import Determined
from hopfed.spectral.rows import column_moments


def with_all_columns(recovery: Recovery, apart: Determined, clients: Sequence[Any]) -> Recovery:
    """Fill in the columns that were left out, as their leaders or all rows have them.

    Parameters
    ----------
    recovery : on the columns that were kept.
    apart : what the others follow from.
    clients : rows of each owner, of all columns.
    """
    found, level = recovery.archetypes, apart.level if apart.groups else None
    if apart.whole:
        return replace(recovery, archetypes=replace(found, levels=level))
    patterns = np.ones((len(found), len(apart.leader)), np.int8)
    signs = apart.filled(found.patterns.astype(np.float64))
    patterns[signs < 0] = -1
    new = replace(found, patterns=patterns, levels=level, leaders=apart.signed)
    if found.graded_means is not None:
        new = replace(new, graded_means=apart.filled(found.graded_means))
    if found.own_errors is not None:
        new = replace(new, own_errors=_errors(found.own_errors, apart, clients))
    constant = np.union1d(apart.kept[recovery.constant_columns], np.flatnonzero(apart.single))
    recovery = replace(recovery, archetypes=new, constant_columns=constant.astype(int))
    if recovery.graded is None:
        return recovery
    residual = recovery.graded.residual
    residual = replace(residual, columns=apart.kept[residual.columns])
    return replace(recovery, graded=replace(recovery.graded, residual=residual))


def _errors(own: np.ndarray, apart: Determined, clients: Sequence[Any]) -> np.ndarray:
    """(K, N) standard errors: of a copy as of its leader, of a silent column as of all rows."""
    seen = sum(to_host(column_moments(rows)[1]).astype(np.float64) for rows in clients)
    errors = np.empty((len(own), len(apart.leader)))
    errors[:, apart.kept] = own
    errors[:, apart.copies] = (
        np.abs(apart.slope[apart.copies]) * errors[:, apart.leader[apart.copies]]
    )
    silent = apart.silent
    errors[:, silent] = np.sqrt((1 - apart.centre[silent] ** 2) / (seen[silent] + 1))  # type: ignore[index]
    return errors
