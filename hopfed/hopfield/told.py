"""The last word of a federation: archetypes for all clients, and whether rows lie in them.

A federation of patterns tells whether they explain what the columns of most clients have in common.
A server that adds up sums cannot judge classes: it has no rows to compare with replicas. An owner
has some. Told classes are fitted to these and judged as `hopfed.recover` judges its own. Nothing of
it leaves the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.classes import searched
from hopfed.archetypes.judging import judge
from hopfed.archetypes.mixture import Fit, Mixture, Prior, expect, improve
from hopfed.archetypes.session import Session
from hopfed.errors import DataError
from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import pack_patterns, unpack_patterns
from hopfed.hopfield.patterns import MOST_PATTERNS
from hopfed.kernels import Rows
from hopfed.tables.coding import Coding

STOPPED = "stopped"  # in the last word of a federation that ended without a result
STATUS = "not judged"
GOOD = ("ok", "one class")  # in which rows lie as rows of classes do
ADVICE = "A federation tells archetypes, and no verdict about them."
FITTING = (
    "These archetypes explain what the columns of most clients have in common, as far as the sums "
    "show; a federation tells no other verdict about them."
)
UNFIT = (
    "The rows of most clients are not noisy copies of these archetypes: none of them is "
    "established. Columns have rates of their own, or exclude each other: serve --graded asks for "
    "classes instead."
)
LARGEST = 64_000_000  # entries of all archetypes: half a gigabyte as the means of a run file
CLASSES = "Each client says how these classes fit its own rows."
OWN = "On the rows of this owner: "
ALONE = "Columns are independent, as within one class."
FEWER = "Or the federation found fewer classes than there are."
SLACK = 1e-3  # by which shares may add up to more than one


@dataclass(frozen=True, eq=False)
class Told:
    """Archetypes as a server tells them.

    Attributes
    ----------
    patterns : int8 (K, N) of +-1.
    means : (K, N) in [-1, 1] of classes, None of other archetypes.
    shares : (K,) of the rows that are of each class; None where no one knows.
    quality : r of the channel, in (0, 1]; NaN of classes, or where the server tells none.
    fits : whether patterns explain what the columns of most clients have in common
        (`hopfed.hopfield.support`); None where that is not known.
    own : status and explanation of classes by an owner's own rows, which is not sent
        (`own_verdict`); None elsewhere.
    """

    patterns: np.ndarray
    means: np.ndarray | None = None
    shares: np.ndarray | None = None
    quality: float = np.nan
    fits: bool | None = None
    own: tuple[str, str] | None = None

    @property
    def verdict(self) -> tuple[str, str]:
        """A status, and what it means; never "ok", for which all rows would be needed."""
        if self.own is not None:
            status, advice = self.own
            if status == STATUS:  # they were too many to look at
                return STATUS, f"{ADVICE} {advice}"
            if status in GOOD:
                return STATUS, f"{ADVICE} {OWN}{ALONE if status == 'one class' else advice}"
            return status, f"{OWN}{advice} {FEWER}"
        if self.fits is None:
            return STATUS, ADVICE if self.means is None else f"{ADVICE} {CLASSES}"
        return (STATUS, FITTING) if self.fits else ("poor fit", UNFIT)

    def message(self) -> Message:
        """Return what is sent."""
        told = {"patterns": pack_patterns(self.patterns)}
        if self.means is not None:
            told["means"] = self.means
        if self.shares is not None:
            told["shares"] = self.shares.astype(np.float32)
        if 0 < self.quality <= 1:
            told["quality"] = np.asarray(self.quality, np.float32)
        if self.fits is not None:
            told["fits"] = np.asarray(self.fits, np.float32)
        return told

    def archetypes(
        self,
        order: np.ndarray | slice = slice(None),
        columns: Sequence[str] | None = None,
        coding: Coding | None = None,
    ) -> Archetypes:
        """Return archetypes with what is known of them; the rest is NaN."""
        K, (status, advice) = len(self.patterns), self.verdict
        unknown = np.full(K, np.nan)
        means = None if self.means is None else np.asarray(self.means, np.float64)[:, order]
        return Archetypes(
            patterns=self.patterns[:, order].astype(np.int8),
            scores=unknown,
            predicted_scores=unknown,
            exposures=unknown if self.shares is None else np.asarray(self.shares, np.float64),
            quality=self.quality if means is None else _root_mean_square(means),
            n_detected=K,
            explained=np.nan,
            status=status,
            advice=advice,
            matches=np.zeros(0, np.int64),
            channel="symmetric" if means is None else "graded",
            graded_means=means,
            columns=None if columns is None else tuple(columns),
            coding=coding,
        )


def read(down: Message, N: int) -> Told:
    """Return what a server told last, whatever it sent."""
    packed = down.get("patterns", np.zeros((0, -(-N // 8)), np.uint8))
    if packed.dtype != np.uint8 or packed.shape[1:] != (-(-N // 8),):
        raise _malformed("patterns")
    if len(packed) > min(MOST_PATTERNS * N, max(MOST_PATTERNS, LARGEST // N)):
        raise DataError(f"{len(packed):,} archetypes of {N:,} columns, which are too many")
    K = len(packed)
    means = _checked(down, "means", (K, N), -1.0)
    shares = _checked(down, "shares", (K,), 0.0)
    if shares is not None and not shares.sum() <= 1 + SLACK:
        raise _malformed("shares")
    quality = _checked(down, "quality", (), 0.0)
    known = np.nan if quality is None or quality == 0 else float(quality)
    fits = _checked(down, "fits", (), 0.0)
    said = None if fits is None else bool(fits > 0)
    return Told(unpack_patterns(packed, N), means, shares, known, said)


def _checked(down: Message, name: str, shape: tuple[int, ...], least: float) -> np.ndarray | None:
    """Numbers from `least` to 1 that a message holds under a name, None where there are none."""
    if name not in down:
        return None
    held = np.asarray(down[name])
    fits = held.shape == shape and held.dtype.kind == "f"
    if not fits or not ((held >= least) & (held <= 1)).all():
        raise _malformed(name)
    return held


def _malformed(what: str) -> DataError:
    return DataError(f"a malformed message from the server: {what} of another form or out of range")


def _root_mean_square(means: np.ndarray) -> float:
    return float(np.sqrt((means**2).mean())) if means.size else np.nan


STEPS, MORE = 60, 20  # of the fit to the owner's rows, at most: the first, and of fewer classes
# A server that tells much shall not keep this machine busy: so many classes, and entries times
# classes. The latter take 15 to 65 s of one core: longest where classes are few and most entries
# are missing, or where many classes are left out one by one.
MOST, MOST_WORK = 100, 150_000_000


def own_verdict(
    rows: Rows,
    means: np.ndarray,
    groups: Sequence[Sequence[int]] = (),
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[str, str] | None:
    """Return a status, and the sentence that explains it; see `hopfed.recover`.

    Classes of which these rows show nothing are left out: another owner may have them. The status
    is `STATUS` where there are more than `MOST`, or more than `MOST_WORK` entries times classes
    among the rows that would be looked at; None where there are no classes.
    """
    K = len(means)
    if K == 0:
        return None
    if K > MOST:
        return STATUS, _too_large(K, rows.shape)
    part = searched(Session.of([rows], seed, groups), K, groups)
    if K * int(part.owners.sizes.sum()) * part.owners.n_columns > MOST_WORK:
        return STATUS, _too_large(K, rows.shape)
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
