"""Expectation maximisation: classes down, sums of the rows over classes up, until neither moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.archetypes.graded.fitting.mixture import ClassSums, Mixture, Prior, sums_and_pairs
from hopfed.archetypes.graded.owners.asking import Owners
from hopfed.federation.messages import Message
from hopfed.kernels.mixtures import spent

STILL = 0.02  # nats that are still to be gained, below which nothing moves any more
TINY = 1e-300
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
    ahead : nats that more exchanges would gain, about; infinite where nothing is known of it, or
        steps grow.
    """

    classes: Mixture
    sums: ClassSums
    prior: Prior
    evidence: float
    settled: bool = False
    ahead: float = np.inf

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
    """Start at the classes of given sums and improve them."""
    prior = prior.fitted(sums)
    return improve(owners, expect(owners, prior.mixture(sums), prior), steps - 1)


def improve(owners: Owners, fit: Fit, steps: int, still: float = STILL) -> Fit:
    """Improve a fit by at most `steps` exchanges, and ask on along the way that two steps lead.

    Where rows are unsure of their class a step is a small part of the way. Two of them say how
    much smaller each is than the one before, so how long the way is, and what is still gained on
    it. A jump that leads down is not taken.

    Source: R. Varadhan, C. Roland, Scand. J. Stat. 35 (2008) 335 (SQUAREM, the third scheme).

    Parameters
    ----------
    still : nats to be gained, below which nothing moves any more.
    """
    while steps > 0 and not fit.settled:
        steps -= 1
        first = expect(owners, maximise(fit), fit.prior)
        if first.size < fit.size:
            fit = first
            continue
        second = maximise(first)
        if second.size < first.size:
            fit = first
            continue
        at = [_place(classes, first) for classes in (fit.classes, first.classes, second)]
        step, next_step = at[1] - at[0], at[2] - at[1]
        long, short = np.linalg.norm(step), np.linalg.norm(next_step)
        gain = _height(first, fit.prior) - _height(fit, fit.prior)
        ahead = _ahead(abs(gain), short / max(long, TINY))  # type: ignore[operator]
        if ahead < still:
            return replace(first, ahead=ahead, settled=True)
        fit = replace(first, ahead=ahead)
        if steps > 0:
            times = long / max(float(np.linalg.norm(next_step - step)), TINY)
            there = at[0] + 2 * times * step + times**2 * (next_step - step)
            steps -= 1
            jump = expect(owners, _classes_at(there, at[2], first), first.prior)
            if _height(jump, first.prior) >= _height(first, first.prior):
                fit = replace(jump, ahead=ahead)
    return fit


def _ahead(gain: float, ratio: float) -> float:
    """Nats that are still to be gained, where every step gains `ratio` squared of the last one."""
    return gain / (1 - ratio**2) if ratio < 1 else np.inf


def _height(fit: Fit, prior: Prior) -> float:
    """Log-likelihood of the rows, and of the means under a prior: what steps raise."""
    if np.isinf(prior.concentration):
        return fit.sums.log_likelihood
    weighed = prior.concentration * np.broadcast_to(prior.rates, fit.classes.means.shape)
    rates = np.clip((1 + fit.classes.means) / 2, 1e-9, 1 - 1e-9)
    return fit.sums.log_likelihood + spent(weighed, prior.concentration - weighed, rates)


def _place(classes: Mixture, fit: Fit) -> np.ndarray:
    """Classes as a point of a space in which lengths squared are nats, about, at the sums of `fit`.

    Angles whose sines are means, and roots of shares: what a row tells of them is the same at all.
    """
    means = np.arcsin(np.clip(classes.means, -1, 1)) * np.sqrt(fit.sums.seen)
    rows = fit.sums.counts.sum(axis=1, keepdims=True)
    return np.concatenate([means.ravel(), (2 * np.sqrt(classes.shares * rows)).ravel()])


def _classes_at(there: np.ndarray, near: np.ndarray, fit: Fit) -> Mixture:
    """Classes at a point, but at most half of the way from `near` to where rates end."""
    cut, shape = fit.classes.means.size, fit.classes.means.shape
    unit = np.maximum(np.sqrt(fit.sums.seen).ravel(), TINY)
    angles, close = there[:cut] / unit, near[:cut] / unit
    most = np.pi / 2 - (np.pi / 2 - np.abs(close)) / 2
    means = np.sin(np.clip(angles, -most, most)).reshape(shape)
    shares = np.maximum(there[cut:], near[cut:] / 2).reshape(fit.classes.shares.shape) ** 2
    shares = np.maximum(shares, TINY)
    return Mixture(means, shares / shares.sum(axis=1, keepdims=True))
