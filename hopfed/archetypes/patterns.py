"""`Patterns`: archetypes of the symmetric channel, whose columns are all flipped equally often.

1. The spectrum of the pooled second moment is counted.
2. What stands above the noise is factored: by joint diagonalisation of random groups, by search.
3. Where many archetypes crowd a spectrum, some of their eigenvalues sink into the noise and some
   patterns are mixtures. Then they come out in layers: owners vote on the patterns, and set those
   rows aside that a pattern explains; the rest shows what is left, its patterns join the others,
   and so on until the rest shows nothing.
4. Signs are read off the mean of the rows, and the rows may be asked once more for the patterns.
5. The rows are asked whether the channel holds, and the verdict is said.

Every answer is a sum over rows, and adds up over owners. Of a pattern that fewer than
`hopfed.archetypes.votes.FEW` rows support nobody learns more than that, and no operator of fewer
than `LEAST` rows is asked for.

Source: theory/NOTES.md, "Peeling", "Check of the symmetric channel".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import ndtri

from hopfed._lib.settings import require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.factorize import (
    METHODS,
    Groups,
    Method,
    Search,
    factorize,
    mean_of,
    profile_of,
    projections,
    spectrum_of,
)
from hopfed.archetypes.session import Owners, Recovery
from hopfed.archetypes.status import (
    ALIKE,
    FOUND,
    ONE_CLASS,
    Known,
    Verdict,
    judge_layers,
    judge_patterns,
)
from hopfed.archetypes.subspace import SAME, overlaps_of
from hopfed.archetypes.votes import agreement, agrees, elected, oriented, refitted, rest_of, vote
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.noise import NoiseProfile, Sample, noise_variance
from hopfed.spectral.rank import Counting, RankEstimate, RankRule, TracyWidom
from hopfed.theory.exposures import errors

CROWDED = 0.2  # archetypes per site beyond which the search with one operator finds no more
LAYERS = 40  # at most
BALLOTS = 3  # votes in each layer: one corrects a blurred pattern, the next gives it missed rows
MOST = 0.5  # part of the rows that the patterns must explain to be the answer
LEAST = 20  # rows whose operator is asked for
MANY = 100  # directions from which part of the patterns is not searched for classes: it takes long
CHANCE = 1e-3  # of a mean column that noise alone would call a class
STRAYS = 0.01  # of the rows, that may resemble no pattern shown beside those of hidden ones
NARROW = 20  # columns; in fewer the overlaps of rows cannot tell the channels apart
BLURRED = 50  # the same where the patterns are not all found, or not resolved


@dataclass(frozen=True)
class Patterns:
    """The estimator of the symmetric channel."""

    rule: RankRule = field(default_factory=TracyWidom)  # counts the spectrum
    quality: float | None = None  # r in (0, 1] when known
    method: Method = "auto"  # of `hopfed.archetypes.factorize.factorize`
    groups: int = 10  # random groups formed inside the data, over all owners together
    search: Search | None = None  # settings of the search; its defaults when left out
    # one more exchange, which brings the patterns to the bound given by true labels
    refit: bool = False
    support: int = 5  # rows that a pattern must have to be shown
    believed: bool = False  # whether the channel is taken for granted, so that rows are not asked

    def __post_init__(self) -> None:
        own = callable(self.method) or self.method in METHODS
        require(own, "method", f"one of {', '.join(METHODS)}", self.method)
        for name, least in (("groups", 2), ("support", 1)):
            number = getattr(self, name)
            whole = isinstance(number, Integral) and int(number) >= least
            require(whole, name, f"a whole number, at least {least}", number)
        r = self.quality
        require(r is None or isinstance(r, Real), "quality", "a number", r)
        require(r is None or 0 < float(r) <= 1, "quality", "in (0, 1]", r)
        given = self.search is None or isinstance(self.search, Search)
        require(given, "search", "a hopfed.archetypes.factorize.Search", self.search)

    @property
    def asked(self) -> str:
        """What is set that takes the channel for granted; empty for nothing."""
        asked = {
            "method": self.method != "auto",
            "rule": not isinstance(self.rule, TracyWidom),
            "quality": self.quality is not None,
            "refit": self.refit,
            "search": self.search is not None,
        }
        return next((name for name, given in asked.items() if given), "")

    @property
    def only(self) -> bool:
        """Whether no other channel is to be looked at."""
        return self.believed or bool(self.asked)

    def fit(self, session: Owners, state: Archetypes | None = None) -> Recovery:
        """Recover patterns from owners of complete rows."""
        mean = mean_of(session)
        found, rank, spectrum = self._one_pass(session, session.seed, state)
        layers, N = 1, session.n_columns
        crowded = found.n_detected > CROWDED * N or found.status == "incomplete"
        if len(found) and crowded and self.method == "auto" and N >= BLURRED:
            found, layers = self._peeled(session, found)
        if layers == 1:
            patterns = oriented(found.patterns, mean)
            if self.refit and len(patterns):
                patterns = refitted(session, patterns)
            found = replace(found, patterns=patterns)
        # Of patterns that enough rows resemble; these are asked only where it is close.
        rows = found.exposures * session.n_rows * min(found.quality, 1.0) ** 2
        shown = rows >= 2 * self.support
        if not shown.all():
            shown |= agreement(session, found.patterns)[1].counts >= self.support
        hidden, fields = int((~shown).sum()), ("scores", "predicted_scores", "exposures")
        held = {n: getattr(found, n) for n in ("patterns", *fields, "exposure_errors")}
        found = replace(found, **{n: x[shown] for n, x in held.items() if x is not None})
        said, final, holds, order = Verdict(found.status, found.advice), True, True, None
        measures = said, len(found), hidden, self.support
        now = judge_patterns(*measures).status
        if not (self.believed or layers > 1):  # peeling has asked the rows
            if (np.abs(mean) < 1).sum() < 2:
                said = Verdict("too little data", ALIKE)
            else:
                then = replace(found, status=now)
                holds, order = self._borne_out(session, mean, then, hidden)
                final = holds or bool(self.asked)
        narrow, order = is_narrow(replace(found, status=now)), order if session.ordered else None
        verdict = judge_patterns(said, *measures[1:], holds, self.asked, narrow, order)
        if verdict.status == "ok" and len(found) == 1:  # what classes with their rates say of it
            verdict = Verdict("one class", ONE_CLASS)
        return Recovery(
            archetypes=replace(found, status=verdict.status, advice=verdict.advice),
            eigenvalues=spectrum.values,
            threshold=rank.threshold,
            rule=rank.rule,
            constant_columns=np.flatnonzero(np.abs(mean) == 1),
            layers=layers,
            final=final,
        )

    def _one_pass(
        self, session: Owners, seed: int, state: Archetypes | None = None
    ) -> tuple[Archetypes, RankEstimate, Spectrum]:
        """Patterns, up to their signs, from the operators and groups of a session."""
        rank, spectrum = counted(session, self.rule, self.quality)
        groups = None
        if self.method in ("auto", "joint") and rank.n_detected:
            groups = Groups(*projections(session, spectrum.vectors, self.groups))
        searched = rank.n_detected <= CROWDED * session.n_columns or self.method != "auto"
        found = factorize(
            spectrum,
            rank,
            groups=groups,
            method=self.method if searched else "joint",
            search=self.search,
            known=None if state is None else state.patterns,
            sure=None if state is None else state.expected_overlaps,
            seed=seed,
        )
        return self._with_errors(found, rank, spectrum), rank, spectrum

    def _with_errors(self, found: Archetypes, rank: RankEstimate, spectrum: Spectrum) -> Archetypes:
        """Archetypes with standard errors, and the quality read off beside the K spikes."""
        if rank.unequal or not len(found) or not 0 < found.quality <= 1:
            return found
        N, M, K = spectrum.n_sites, spectrum.n_examples, rank.n_detected
        of = errors(
            np.minimum(found.exposures, 1.0), found.quality, N, M, overlaps_of(found.patterns)
        )
        if self.quality is not None:
            return replace(found, exposure_errors=of.exposures, quality_error=0.0)
        s2 = noise_variance(spectrum.values[:K], N, (N - K) / M)  # K of N directions hold no noise
        r = float(np.sqrt(max(1 - s2, 0.0)))
        return replace(found, quality=r, exposure_errors=of.exposures, quality_error=of.quality)

    def _peeled(self, session: Owners, first: Archetypes) -> tuple[Archetypes, int]:
        """More archetypes than one spectrum shows, oriented, and the number of layers."""
        patterns, quality, left = first.patterns, first.quality, session.n_rows
        for layer in range(LAYERS):
            for _ in range(BALLOTS):
                choice = elected(vote(session, patterns, quality), patterns)
                patterns, quality = choice.patterns, choice.quality
                if not len(patterns):
                    return first, 1
            rest = rest_of(session, patterns, quality)
            more = 0
            if rest.n_rows < LEAST:
                break
            found = self._one_pass(rest, session.seed + layer)[0]
            session.exchanges += rest.exchanges
            more = found.n_detected
            if not len(found) or (layer > 0 and rest.n_rows >= left):
                break
            overlaps = np.abs(found.patterns.astype(np.float32) @ patterns.T.astype(np.float32))
            if (overlaps.max(axis=1) >= SAME * session.n_columns).all():
                return first, 1  # rows of the same archetypes: not all are of one quality
            left = rest.n_rows
            patterns = np.vstack([patterns, found.patterns])
        choice = elected(vote(session, patterns, quality, strict=True), patterns)
        r, M, rows = choice.quality, session.n_rows, choice.counts.sum()
        if rows < MOST * M or not agrees(session, choice.patterns, quality)[0]:
            return first, 1
        shares = choice.counts / M
        known = Known(choice.predicted_scores, choice.counts, r, session.n_columns, M)
        verdict = judge_layers(known, more, M - rows)
        peeled = Archetypes(
            patterns=choice.patterns,
            scores=choice.scores,
            predicted_scores=choice.predicted_scores,
            exposures=shares,
            exposure_errors=np.sqrt(shares * (1 - shares) / M),
            quality=r,
            n_detected=len(choice.patterns) + more,
            explained=float(rows / M),
            status=verdict.status,
            advice=verdict.advice,
        )
        return peeled, layer + 2

    def _borne_out(
        self, session: Owners, mean: np.ndarray, found: Archetypes, hidden: int
    ) -> tuple[bool, np.ndarray | None]:
        """Whether the rows are those of these patterns, or of none; and their order."""
        if found.status == "no signal":
            most = -ndtri(CHANCE / (2 * len(mean))) / np.sqrt(session.n_rows)
            return bool(np.abs(mean).max() <= most), None
        many = found.n_detected > MANY and found.status == "incomplete"
        if many or found.status == "too little data":
            return True, None
        if not len(found) or found.status not in FOUND or is_narrow(found):
            return False, None
        if not hidden:
            return agrees(session, found.patterns)
        explained = agreement(session, found.patterns, found.quality)[1]
        rest = session.n_rows - float(explained.counts.sum())
        holds, order = agrees(session, found.patterns, found.quality)
        return holds and rest <= hidden * self.support + STRAYS * session.n_rows, order


def is_narrow(found: Archetypes) -> bool:
    """Whether overlaps of rows over so few columns cannot tell the channels apart."""
    return int(found.patterns.shape[1]) < (NARROW if found.status == "ok" else BLURRED)


def counted(
    session: Owners, rule: RankRule, quality: float | None
) -> tuple[RankEstimate, Spectrum]:
    """Compute the spectrum, and count what stands above the noise."""

    def sample(values: np.ndarray, whole: bool, profile: NoiseProfile | None = None) -> Sample:
        of = session.n_columns, session.n_rows, whole, quality
        return Sample(values, *of, profile)

    count = Counting(rule, sample)
    spectrum = spectrum_of(session, count)
    first = count.estimate
    if first.n_detected == 0 or quality is not None or len(session.members) == 1:
        return first, spectrum
    profile = profile_of(session, spectrum.vectors)
    if profile.alike():
        return first, spectrum
    rank = rule(sample(spectrum.values, spectrum.complete, profile))
    keep = min(rank.n_detected, first.n_detected)
    cut: dict[str, Any] = {"strengths": rank.strengths[:keep], "overlaps": rank.overlaps[:keep]}
    vectors, residuals = spectrum.vectors[:, :keep], spectrum.residuals[:keep]
    return (
        replace(rank, n_detected=keep, **cut),
        replace(spectrum, vectors=vectors, residuals=residuals),
    )
