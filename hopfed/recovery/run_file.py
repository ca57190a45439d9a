"""A recovery as a run file and as the JSON report of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hopfed.archetypes import storage
from hopfed.archetypes.graded.owners.asking import Recovery
from hopfed.runs import Run, plain
from hopfed.tables.table import is_made_up


def as_run(recovery: Recovery, config: dict[str, Any]) -> Run:
    """Turn a recovery into a run; no example of any client is in it."""
    alone = storage.as_run(recovery.archetypes)
    arrays = {
        "spectrum/eigenvalues": recovery.eigenvalues,
        "columns/constant": recovery.constant_columns,
    }
    summary = {
        "threshold": recovery.threshold,
        "rule": recovery.rule,
        "n_examples": recovery.n_examples,
        **{k: v for k, v in report(recovery, 0.0).items() if k != "seconds"},
    }
    return replace(
        alone,
        config=config | alone.config,
        arrays=alone.arrays | arrays,
        summary=alone.summary | summary,
    )


def _listed(numbers: np.ndarray | None) -> list[float] | None:
    return None if numbers is None else numbers.tolist()


def report(recovery: Recovery, seconds: float) -> dict[str, Any]:
    """Return what `hopfed recover --json` prints."""
    found = recovery.archetypes
    made = {
        **storage.summary_of(found),
        "scores": found.scores.tolist(),
        "predicted_scores": found.predicted_scores.tolist(),
        "exposures": found.exposures.tolist(),
        "exposure_errors": _listed(found.exposure_errors),
        "seconds": seconds,
        "bytes_sent": recovery.traffic.up.tolist(),
        "bytes_dense": recovery.dense_nbytes,
        "bytes_raw": recovery.raw_nbytes,
        "exchanges": recovery.exchanges,
        "constant_columns": recovery.constant_columns.tolist(),
    }
    if recovery.readings > 1:
        made["readings"] = recovery.readings
    if recovery.residual is not None:
        made["log_likelihood"] = recovery.log_likelihood
        made["dependent_columns"] = recovery.residual.columns.tolist()
    if found.columns is not None and not is_made_up(found.columns):
        made["columns"] = list(found.columns)
        for what in ("constant_columns", "dependent_columns"):
            made[what] = [found.columns[j] for j in made.get(what, ())]
    found_plain: dict[str, Any] = plain(made)
    return found_plain
