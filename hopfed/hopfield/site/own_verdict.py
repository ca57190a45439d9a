"""Whether classes that a federation told are the right model for an owner's own rows.

A server that adds up answers with noise cannot judge classes: it has no rows to compare with
replicas. An owner has some. The classes are fitted to these, from those told, and judged as
`hopfed.recover` judges its own. Nothing of it leaves the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopfed.archetypes.classes import searched
from hopfed.archetypes.judging import judge
from hopfed.archetypes.mixture import Fit, Mixture, Prior, expect, improve
from hopfed.archetypes.session import Session
from hopfed.kernels import MaskedBits, PackedBits

STEPS, MORE = 60, 20  # of the fit to the owner's rows, at most: the first, and of fewer classes
# A server that tells much shall not keep this machine busy: so many classes, and entries times
# classes. The latter take 15 to 65 s of one core: longest where classes are few and most entries
# are missing, or where many classes are left out one by one.
MOST, MOST_WORK = 100, 150_000_000
TOO_LARGE = "not judged"  # the status of classes that nobody looked at


def own_verdict(
    rows: PackedBits | MaskedBits,
    means: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[str, str] | None:
    """Return a status, and the sentence that explains it; see `hopfed.recover`.

    Classes of which these rows show nothing are left out: another owner may have them. The status
    is `TOO_LARGE` where there are more than `MOST`, or more than `MOST_WORK` entries times classes
    among the rows that would be looked at; None where there are no classes.
    """
    K = len(means)
    if K == 0:
        return None
    if K > MOST:
        return TOO_LARGE, _too_large(K, rows.shape)
    part = searched(Session.of([rows], seed, groups), K, groups)
    if K * int(part.owners.sizes.sum()) * part.owners.n_columns > MOST_WORK:
        return TOO_LARGE, _too_large(K, rows.shape)
    there = slice(None) if part.columns is None else part.columns
    classes = np.clip(np.asarray(means, np.float64)[:, there], -1 + 1e-6, 1 - 1e-6)
    prior = Prior.of(part.owners)
    shares = np.full((1, K), 1 / K)
    fit = improve(part.owners, expect(part.owners, Mixture(classes, shares), prior), STEPS)
    fit = _without_absent(part.owners, fit)
    verdict = judge(part.owners, fit, names=names)
    return verdict.status, verdict.advice


def _too_large(K: int, shape: tuple[int, ...]) -> str:
    """Say that nobody looked, and what may be done about it."""
    return (
        f"Whether the rows of this owner lie in them is not known: {K} classes and {shape[0]:,} "
        f"rows of {shape[1]:,} columns are too much to look at here, at most {MOST} classes, and "
        f"{MOST_WORK // 1_000_000} million entries times classes. `hopfed recover` judges the "
        "rows by themselves."
    )


def _without_absent(owners: Session, fit: Fit) -> Fit:
    """Leave out the class of the fewest rows as long as the evidence does not fall."""
    while fit.size > 1:
        kept = np.arange(fit.size) != fit.sums.counts.sum(axis=0).argmin()
        shares = fit.classes.shares[:, kept]
        left = Mixture(fit.classes.means[kept], shares / shares.sum(axis=1, keepdims=True))
        fewer = improve(owners, expect(owners, left, fit.prior), MORE)
        if fewer.evidence < fit.evidence:
            break
        fit = fewer
    return fit
