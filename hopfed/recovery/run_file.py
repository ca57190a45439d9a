"""A recovery as a run file and as the JSON report of the command line."""

from __future__ import annotations

from typing import Any

from hopfed.recovery.routes import Recovery
from hopfed.runs import Run, plain


def as_run(recovery: Recovery, config: dict[str, Any]) -> Run:
    """Turn a recovery into a run; no example of any client is in it."""
    found = recovery.archetypes
    graded = {"errors": found.errors, "client_shares": found.client_shares}
    return Run(
        kind="recover",
        config=config,
        arrays={
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
    found_plain: dict[str, Any] = plain(made)
    return found_plain
