"""A recovery as a run file and as the JSON report of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hopfed.recovery.routes import Recovery
from hopfed.runs import Run, plain
from hopfed.tables.table import is_made_up


def as_run(recovery: Recovery, config: dict[str, Any]) -> Run:
    """Turn a recovery into a run; no example of any client is in it."""
    found = recovery.archetypes
    graded = {"errors": found.errors, "client_shares": found.client_shares}
    named = {} if found.columns is None else {"columns/names": packed_names(found.columns)}
    coded = {} if found.coding is None else {"coding": found.coding.to_json()}
    return Run(
        kind="recover",
        config={**config, **coded},
        arrays={
            **named,
            **{f"archetypes/{name}": x for name, x in graded.items() if x is not None},
            "archetypes/means": found.means,
            "archetypes/shares": found.shares,
            "archetypes/patterns": found.patterns,
            "archetypes/scores": found.scores,
            "archetypes/predicted_scores": found.predicted_scores,
            "archetypes/exposures": found.exposures,
            "spectrum/eigenvalues": recovery.eigenvalues,
            "columns/constant": recovery.constant_columns,
        },
        summary={
            "threshold": recovery.threshold,
            "rule": recovery.rule,
            "n_examples": recovery.n_examples,
            "n_sites": int(found.patterns.shape[1]),
            **{k: v for k, v in report(recovery, 0.0).items() if k != "seconds"},
        },
    )


def packed_names(names: Sequence[str]) -> np.ndarray:
    """Return names of columns as UTF-8, the form in which a run file holds words."""
    return np.array([name.encode() for name in names], dtype=bytes)


def column_names(run: Run) -> tuple[str, ...] | None:
    """Return the names of the columns that a run file holds, None if it holds none.

    Examples
    --------
    >>> column_names(Run("recover", {}, {"columns/names": packed_names(["größe", "b"])}, {}))
    ('größe', 'b')
    """
    if "columns/names" not in run.arrays:
        return None
    return tuple(bytes(name).decode(errors="replace") for name in run.arrays["columns/names"])


def report(recovery: Recovery, seconds: float) -> dict[str, Any]:
    """Return what `hopfed recover --json` prints."""
    found = recovery.archetypes
    made = {
        "n_archetypes": len(found),
        "n_detected": found.n_detected,
        "channel": found.channel,
        "residual": found.residual,
        "quality": found.quality,
        "scores": found.scores.tolist(),
        "predicted_scores": found.predicted_scores.tolist(),
        "exposures": found.exposures.tolist(),
        "explained": found.explained,
        "status": found.status,
        "advice": found.advice,
        "seconds": seconds,
        "bytes_sent": recovery.traffic.up.tolist(),
        "bytes_dense": recovery.dense_nbytes,
        "exchanges": recovery.exchanges,
        "constant_columns": recovery.constant_columns.tolist(),
    }
    if recovery.graded is not None:
        made["log_likelihood"] = recovery.graded.log_likelihood
        made["dependent_columns"] = recovery.graded.residual.columns.tolist()
    if found.columns is not None and not is_made_up(found.columns):
        made["columns"] = list(found.columns)
        for what in ("constant_columns", "dependent_columns"):
            made[what] = [found.columns[j] for j in made.get(what, ())]
    found_plain: dict[str, Any] = plain(made)
    return found_plain
