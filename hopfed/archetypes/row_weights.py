"""Weights of rows: how often each occurs, or what it stands for in a survey.

Whole numbers say how often a row occurs. Others are weights of a survey, whose scale says nothing:
they are scaled to add up to Kish's effective number of rows ``M = (sum w)^2 / sum w^2``, as their
squares do then. The likelihood is the pseudo-likelihood ``sum_i w_i log p(x_i)``; its errors are
those of the sandwich.

Sources: L. Kish, Survey Sampling (1965), section 8.2; D. A. Binder, International Statistical
Review 51 (1983) 279 (pseudo-likelihood and sandwich).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.arrays import like
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.kernels import Rows


def weights_of(given: Any, rows: int) -> np.ndarray:
    """Check given row weights, and return them (rows,): numbers, none below 0, some above."""
    often = np.asarray(given)
    fits = often.shape == (rows,) and often.dtype.kind in "biuf"
    require(fits, "weights", f"{rows:,} numbers, one for each row", often.shape)
    bad = np.flatnonzero(~(np.isfinite(often) & (often >= 0)))
    if len(bad):
        got = f"{often[bad[0]]} in row {bad[0] + 1:,}"
        raise ArgumentError("weights", "numbers, none below 0", got)
    require(bool(often.any()), "weights", "above zero somewhere", "zeros")
    return often.astype(np.float64)


def give_weights(owners: Sequence[Rows], weights: Any) -> list[Rows]:
    """Give owners' rows their row weights: an array for one owner, or a list with one for each."""
    alone = len(owners) == 1 and np.ndim(weights) == 1
    given = [weights] if alone else list(weights)
    require(len(given) == len(owners), "weights", f"those of {len(owners)} owners", len(given))
    pairs = zip(owners, given, strict=True)
    return [replace(rows, counts=weights_of(own, len(rows))) for rows, own in pairs]


def is_survey(rows: Rows) -> bool:
    """Whether row weights are those of a survey: some are no whole numbers."""
    counts = rows.counts
    return counts is not None and bool((counts != np.rint(counts)).any())


def repeat_rows(owners: Sequence[Rows]) -> list[Rows]:
    """Repeat owners' rows as often as row weights say; or scale the row weights of a survey."""
    if all(rows.counts is None for rows in owners):
        return list(owners)
    held = all(rows.held for rows in owners)
    require(held, "weights", "left out where rows do not fit into memory", "some")
    each = [rows.weights for rows in owners]
    whole = not any(map(is_survey, owners))
    every = np.concatenate(each)
    total, squares = float(every.sum()), float(every @ every)
    if whole:
        few = total >= 2
        require(few, "weights", "above zero for two rows at least", f"{total:g} in all")
        repeated = sum(float(rows.nbytes / len(rows) * rows.size) for rows in owners)
        require_memory(int(repeated), "weights")
    found: list[Rows] = []
    for rows, w in zip(owners, each, strict=True):
        if whole:
            index = np.repeat(np.arange(len(w)), w.astype(np.int64))
            found.append(replace(rows, counts=None)[like(index, rows.home)])
            continue
        there = np.flatnonzero(w)
        effective = np.rint(w.sum() * total / squares)  # rows of an owner are a whole number
        require(effective >= 1, "weights", "of more than one row in effect", "others")
        scaled = w[there] * (effective / w.sum())
        own = replace(rows[like(there, rows.home)], counts=scaled)
        found.append(replace(own, counts=None) if np.ptp(scaled) < 1e-12 else own)
    return found


def survey_sentence(owners: Sequence[Rows]) -> str:
    """Sentence for the advice about row weights of a survey; empty for other rows."""
    if not any(map(is_survey, owners)):
        return ""
    rows, M = sum(map(len, owners)), sum(r.weights.sum() for r in owners)
    return f" By their weights {rows:,} rows tell as much as {M:,.0f} of equal weight."
