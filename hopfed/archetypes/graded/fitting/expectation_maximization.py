"""Expectation maximisation: classes down, sums of the rows over classes up, until neither moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed.archetypes.graded.fitting.mixture import ClassSums, Mixture, Prior, sums_and_pairs
from hopfed.archetypes.graded.owners.asking import Owners
from hopfed.federation.messages import Message

STILL = 1e-6  # gain in nats per row and iteration below which nothing moves any more
EMPTY = 0.5  # rows below which a class is dropped


@dataclass(frozen=True)
class Fit:
    """Classes with the sums that were asked for them.

    Attributes
    ----------
    classes : as the owners last heard of them.
    sums : their answers.
    prior : under which the classes were made.
    evidence : of so many classes.
    settled : whether another exchange would change nothing.
    """

    classes: Mixture
    sums: ClassSums
    prior: Prior
    evidence: float
    settled: bool = False

    @property
    def size(self) -> int:
        """Number of classes K."""
        return self.classes.size


def told(classes: Mixture) -> tuple[Message, Message]:
    """What the owners are told of classes: (all of them, each its own)."""
    return (
        {"means": classes.means.astype(np.float32)},
        {"shares": classes.shares.astype(np.float32)},
    )


def expect(owners: Owners, classes: Mixture, prior: Prior) -> Fit:
    """Ask for the sums over given classes: one exchange."""
    sums = prior.collect(owners.ask(sums_and_pairs, *told(classes)))
    owners.heard = classes
    prior = prior.fitted(sums)
    return Fit(classes, sums, prior, prior.evidence(classes, sums))


def remind(owners: Owners, fit: Fit) -> None:
    """Send the classes of `fit` to the owners again, if they were asked about others since."""
    if owners.heard is not fit.classes:
        expect(owners, fit.classes, fit.prior)


def maximise(fit: Fit) -> Mixture:
    """Return the most plausible classes after the last exchange; empty ones are dropped."""
    sums = fit.sums
    kept = sums.counts.sum(axis=0) >= EMPTY
    if not kept.all() and kept.any():
        pairs = None if sums.pairs is None else sums.pairs[np.ix_(kept, kept)]
        sums = ClassSums(sums.counts[:, kept], sums.signed[kept], sums.seen[kept], pairs=pairs)
    return fit.prior.mixture(sums)


def iterate(owners: Owners, sums: ClassSums, prior: Prior, steps: int) -> Fit:
    """Start at the classes of given sums and improve them.

    Parameters
    ----------
    sums : over the classes to start from.
    steps : exchanges at most; fewer once nothing moves.
    """
    prior = prior.fitted(sums)
    return improve(owners, expect(owners, prior.mixture(sums), prior), steps - 1)


def improve(owners: Owners, fit: Fit, steps: int) -> Fit:
    """Improve a fit by at most `steps` exchanges."""
    rows = owners.sizes.sum()
    for _ in range(steps):
        if fit.settled:
            break
        new = expect(owners, maximise(fit), fit.prior)
        gained = new.sums.log_likelihood - fit.sums.log_likelihood
        still = new.size == fit.size and abs(gained) < STILL * rows
        fit = Fit(new.classes, new.sums, new.prior, new.evidence, settled=still)
    return fit
