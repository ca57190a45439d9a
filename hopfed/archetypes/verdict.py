"""The verdict of a recovery: its status and the sentence that explains it, from measures alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hopfed.archetypes.subspace import ExposureFit
from hopfed.errors import safe_line
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate, white_edge
from hopfed.spectral.rows import DEPENDENT
from hopfed.theory.resolution import (
    RESOLVED,
    expected_overlap,
    majority_needed,
    majority_overlap,
    resolving_samples,
    sure_level,
)
from hopfed.theory.spikes import strength_from_cosine

GOOD_FIT = 0.6  # part of its direction that a found archetype explains on average, at least
LEAST_SIDE = 3  # examples, and columns that vary
LEAST_ENTRIES = 36  # below, the edge of the noise is not known to first order
LEAST_ROWS = 10  # of two kinds, which must have five each to be shown
LEVEL = 1e-3  # false-alarm rate of an eigenvalue

TOO_LITTLE = (
    "{rows:,.0f} examples of {columns} columns that vary cannot show whether there are kinds: give "
    "more rows."
)
ALIKE = (
    "Fewer than two columns hold both values: rows that are all alike, or differ in one column, "
    "say nothing about kinds."
)
HIDDEN_ROWS = (
    "With the noise that hides rows, these examples cannot show whether there are kinds: give more "
    "rows, or a larger epsilon."
)
UNLIKE = (
    "The rows do not bear out that every column of an archetype is flipped equally often, which "
    "'{name}' takes for granted: some of these may be false. Leave '{name}' out, so that classes "
    "with a mean for each column are fitted."
)
HIDDEN = (
    "{hidden} pattern(s) that fewer than {support} examples resemble are not shown: they describe "
    "these examples more than a kind. Give more examples."
)
ONE_CLASS = (
    "All rows are of one class: its columns are independent, and beside their rates there is "
    "nothing to recover."
)
UNSEEN = " Or there are classes that so few entries cannot tell apart: give more rows."
GAPS = (
    " Rows of some classes have more gaps than rows of others: shares may be off, unless answers "
    "explain the gaps. Rows of several sources are better given as a file each."
)
DEVIATIONS = 4.0  # standard deviations from replicas that speak against classes
NAMED = 8  # columns that a sentence names
LONGEST = 60  # characters of a name
BETTER = 2.0  # nats by which classes must be better than one trait
COPIES = 0.02  # variance within classes, over that of the table, below which rows are copies
NO_CLASSES = "structure, but not classes"
FOUND = ("ok", "detected, not resolved", "incomplete")  # statuses of archetypes that are borne out


class Verdict(NamedTuple):
    """A status and the sentence that explains it."""

    status: str
    advice: str


def judge(spectrum: Spectrum, rank: RankEstimate, gamma: np.ndarray, fit: ExposureFit) -> Verdict:
    """Verdict on patterns from the count of the spectrum, their cosines and the exposure fit."""
    said = _judged(spectrum, rank, gamma, fit)
    # Where noise hides rows, the number of examples is an effective one, which no reader knows.
    few = rank.hidden and said.status == "too little data"
    return Verdict(said.status, HIDDEN_ROWS) if few else said


def _judged(spectrum: Spectrum, rank: RankEstimate, gamma: np.ndarray, fit: ExposureFit) -> Verdict:
    """Verdict on patterns as `judge` gives it where no noise hides rows."""
    found, N, M = len(gamma), spectrum.n_sites, spectrum.n_examples
    if spectrum.status != "converged":
        return Verdict("not converged", f"The eigenpairs did not converge: {spectrum.status}.")
    if rank.n_detected == 0:
        return judge_size(M, np.ones(N)) or Verdict(
            "no signal",
            "No eigenvalue stands above the noise: no archetype is detectable with these "
            "examples; more of them, or cleaner ones, would lower the threshold.",
        )
    if min(N, M) < LEAST_SIDE or N * M < LEAST_ENTRIES:
        return Verdict("too little data", TOO_LITTLE.format(rows=M, columns=N))
    few = found < rank.n_detected / 2
    if few or fit.explained < GOOD_FIT * found / rank.n_detected:
        return Verdict(
            "poor fit",
            f"These data do not look like noisy archetypes: {rank.n_detected} components "
            f"exceed the noise; {found} binary pattern(s) explain {max(fit.explained, 0.0):.0%} of "
            "them. Nothing else is reported as found.",
        )
    if found > rank.n_detected:
        false = f"{found} patterns were accepted where the spectrum shows {rank.n_detected}"
        return Verdict("poor fit", f"{false}: some of them are false.")
    if found < rank.n_detected:
        return Verdict(
            "incomplete",
            f"Found {found} of the {rank.n_detected} archetypes that the spectrum shows: search "
            "longer (more starts), give more examples, or more clients or groups.",
        )
    known = KnownPatterns(gamma, fit.weights / max(rank.quality**2, 1e-12) * M, rank.quality, N, M)
    said = f"All {found} archetypes that the spectrum shows were found."
    return _unresolved(known, rank.hidden) or Verdict("ok", said)


def judge_size(rows: float, observed: np.ndarray) -> Verdict | None:
    """Verdict on a table too small to show even clear kinds; None on a larger table."""
    columns = len(observed)
    both = int(rows * observed.mean() ** 2) if columns else 0  # that have two of the columns
    few = columns < LEAST_SIDE or both < LEAST_ROWS or columns * both < LEAST_ENTRIES
    if few or white_edge(both, columns, LEVEL) >= columns * both:
        return Verdict("too little data", TOO_LITTLE.format(rows=rows, columns=columns))
    return None


@dataclass(frozen=True)
class KnownPatterns:
    """How well patterns are known, for the verdict: expected overlaps, and rows that resolve."""

    gamma: np.ndarray  # (K,) squared cosines of archetypes with the vectors that gave the signs
    rows: np.ndarray  # (K,) examples of each
    quality: float  # r
    n_sites: int  # N
    n_examples: float  # M

    @property
    def overlaps(self) -> np.ndarray:
        """(K,) expected overlap of each pattern with its archetype."""
        most = majority_overlap(np.maximum(np.round(self.rows), 1), self.quality)
        return np.minimum(expected_overlap(self.gamma), most)

    def needed(self, k: int) -> float:
        """Total number of examples like these from which pattern k is sure to reach `RESOLVED`."""
        gamma = float(np.clip(self.gamma[k], 1e-6, 1 - 1e-6))
        kappa = strength_from_cosine(gamma, self.n_sites / self.n_examples)
        level = float(sure_level(self.n_sites))
        by_spectrum = float(resolving_samples(kappa, self.n_sites, level))
        majority = majority_needed(level, self.quality)
        by_rows = majority / max(float(self.rows[k]), 1.0) * self.n_examples
        return max(by_spectrum, by_rows, 1.01 * self.n_examples)


def _unresolved(known: KnownPatterns, hidden: bool = False) -> Verdict | None:
    """Verdict on patterns if some may have an overlap below `RESOLVED`; None if none may."""
    overlaps = known.overlaps
    blurred = np.flatnonzero(overlaps < sure_level(known.n_sites))
    if not len(blurred):
        return None
    more = "More examples, or less noise that hides rows, would resolve more."
    if not hidden:
        needed = rounded(max(known.needed(int(k)) for k in blurred))
        more = f"About {needed} examples like these would resolve all."
    return Verdict(
        "detected, not resolved",
        f"{len(overlaps)} archetypes were found, but {len(blurred)} of the patterns are not sure "
        f"to have an overlap of {RESOLVED:g} with theirs: {overlaps.min():.2f} is expected of the "
        f"least sure. {more}",
    )


def rounded(x: float) -> str:
    """Number of examples in words of a verdict: two digits, for it is an estimate."""
    if not np.isfinite(x):
        return "more than a million"
    unit = 10 ** max(len(str(int(x))) - 2, 0)
    return f"{int(np.ceil(x / unit - 1e-9)) * unit:,}"


def judge_layers(known: KnownPatterns, more: int, left: float) -> Verdict:
    """Verdict on archetypes found in layers: `more` are too rare, and `left` rows fit none."""
    found = len(known.rows)
    none = f"{left:,.0f} of the examples resemble none of them"
    if more:
        return Verdict(
            "incomplete",
            f"Found {found} archetypes layer by layer; {none} and show {more} more, which too few "
            "examples support: give more examples.",
        )
    said = f"Found {found} archetypes, layer by layer; {none}."
    return _unresolved(known) or Verdict("ok", said)


def judge_patterns(
    said: Verdict, shown: int, hidden: int, support: int, borne_out: bool = True, asked: str = ""
) -> Verdict:
    """Verdict on patterns after the rows were asked: numbers shown and hidden, channel or not."""
    if said.status not in FOUND:
        return said
    if not borne_out and asked:
        return Verdict("poor fit", UNLIKE.format(name=asked))
    if hidden:
        status = "incomplete" if shown else "too little data"
        return Verdict(status, HIDDEN.format(hidden=hidden, support=support))
    return said


@dataclass(frozen=True, eq=False)
class Residual:
    """Largest eigenvalue of the classes' standardised residuals, over the edge of white noise."""

    ratio: float  # for the rows
    # expected, error: mean and standard deviation over replicas
    expected: float
    error: float
    # indices of columns that depend on each other within classes, strongest first
    columns: np.ndarray = field(repr=False)


class Nearness(NamedTuple):
    """How near fitted classes are to the true ones, for the verdict."""

    overlaps: np.ndarray  # (K,) expected overlaps with the true classes
    level: float  # overlap from which a class is sure to reach `RESOLVED`
    rows: float  # number of rows that would resolve all classes


@dataclass(frozen=True, eq=False)
class ClassMeasures:
    """Measures of fitted classes beside their replicas, from which the verdict follows."""

    size: int  # number of classes K
    residual: Residual  # of the columns
    rows: dict[str, float]  # standard deviations of each row statistic from that of replicas
    mixed_membership: bool  # whether of odd rows more lie between classes than are weak
    within: float  # variance within classes, over that of the table
    repeats: np.ndarray  # part of the rows that equal an earlier one, of the table, then replicas
    repeated: bool  # whether no row occurs once
    carrying: np.ndarray  # numbers of the columns in which classes differ
    # worth, needed: worth of these columns, and need of K classes, in binary columns
    worth: float
    needed: int
    twins: np.ndarray  # numbers of the columns in which alone two classes differ
    gaps: bool  # whether gaps depend on the class, in rows that are unsure of it
    # weak, copies: (K,) quality of classes that are sums of others, or one weaker; else NaN
    weak: np.ndarray
    copies: np.ndarray
    equal: int  # classes of wide tables in which all rows are the same
    more_shown: bool  # whether the spectrum shows more directions than there are classes
    little: Verdict | None  # verdict on a table too small to show kinds; None on others
    names: Sequence[str] | None  # of the columns
    near: Nearness | None = None  # how near the classes are to the true ones
    # nats by which classes explain a narrow table better than one trait, and number of columns
    trait: tuple[float, int] | None = None
    follow: float = 0.0  # standard errors by which neighbouring rows depend within classes
    free: int | None = None  # number of classes by evidence, where a number was given


def judge_classes(m: ClassMeasures) -> Verdict:
    """Verdict of a recovery on classes, by measures: "ok" only if nothing speaks against them."""
    found = next(_against(m), Verdict("ok", "".join(_explained(m))))
    sound = found.status in FOUND
    enough = BETTER if found.status == "ok" else -BETTER
    if sound and m.trait is not None and m.trait[0] < enough:
        gain, columns = m.trait
        better, more = "about as well as", ", or give more columns"
        if gain <= -BETTER:
            better, more = "better than", ""
        found = Verdict(
            NO_CLASSES,
            f"Degrees of one trait, or places on a gradient or a ring, explain these {columns} "
            f"columns {better} {m.size} classes ({-gain:+.1f} nats): the classes may be no kinds. "
            f"Take them as a summary only{more}.",
        )
    if found.status == NO_CLASSES and m.follow > DEVIATIONS:
        return Verdict(NO_CLASSES, DEPENDENT.format(m.follow) + " Blocks (--blocks N) do so.")
    if sound or (m.size == 1 and found.status == "one class"):
        if m.free is None or m.free == m.size:
            return Verdict(found.status, found.advice + GAPS * m.gaps)
        status = "incomplete" if m.free > m.size else "detected, not resolved"
        return Verdict(status, f"{m.size} were asked for; the evidence shows {m.free}.")
    if found.status in ("one class", NO_CLASSES) and m.little is not None:
        return m.little
    more_rows = UNSEEN if found.status != "copies" and m.more_shown else ""
    return Verdict(found.status, found.advice + more_rows)


def _against(m: ClassMeasures) -> Iterator[Verdict]:
    """Verdicts by the evidence against fitted classes, the strongest first."""
    K, residual = m.size, m.residual
    odd = {name: z for name, z in m.rows.items() if z > DEVIATIONS}
    classes = "one class" if K == 1 else f"each of {K} classes"
    if "repeats" in odd and m.repeated:
        yield Verdict(
            "copies",
            f"Every row occurs at least twice: {m.repeats[0]:.0%} of the rows equal an earlier "
            f"one, where {np.median(m.repeats[1:]):.0%} are expected of rows of the classes. These "
            "are copies of rows: if the table has the same cases several times, give each once.",
        )
    if K > 1 and m.within < COPIES:
        yield Verdict(
            "copies",
            f"{K} rows that repeat explain the table: the variance of entries within classes is "
            f"{m.within:.1%} of that in all rows. These are copies of rows, not kinds.",
        )
    if residual.ratio - residual.expected > DEVIATIONS * residual.error:
        yield Verdict(
            NO_CLASSES,
            f"Columns {_named(residual.columns, m.names)} depend on each other within {classes}: "
            f"the residuals reach {residual.ratio:.2f} of the edge of noise, where "
            f"{residual.expected:.2f} +- {residual.error:.2f} is expected. Merge or leave out such "
            "columns, or take the classes as a summary only.",
        )
    if odd:
        yield Verdict(NO_CLASSES, _odd_rows(classes, odd, m.mixed_membership))
    if K == 1:
        yield Verdict("one class", ONE_CLASS)
    if m.worth < m.needed:
        yield Verdict(
            NO_CLASSES,
            f"{K} classes differ in columns {_named(m.carrying, m.names)} and hardly elsewhere: so "
            f"few cannot be told from columns that depend on each other; at least {m.needed} "
            "columns are needed.",
        )
    if len(m.twins):
        yield Verdict(
            NO_CLASSES,
            f"Two of {K} classes differ in columns {_named(m.twins, m.names)} alone: these columns "
            "may depend on each other within one class. Merge or leave out one.",
        )
    weak = m.weak[~np.isnan(m.weak)]
    if len(weak):
        yield Verdict(
            NO_CLASSES,
            f"The means of {len(weak)} of {K} classes are weaker sums of those of several others, "
            f"{_span(weak)} in all: these classes put rows of several kinds, of lower quality, "
            "together.",
        )
    near = m.near
    if near is not None and (few := int((near.overlaps < near.level).sum())):
        yield Verdict(
            "detected, not resolved",
            f"{K} classes were found, but too few rows describe {few} of them: an overlap of "
            f"{near.overlaps.min():.2f} with the true ones is expected of the least sure, and "
            f"{near.level:.2f} is needed to be sure of {RESOLVED:g}. About {rounded(near.rows)} "
            "rows like these would resolve all.",
        )


def _explained(m: ClassMeasures) -> Iterator[str]:
    """Sentences of an "ok" verdict on classes: what they explain, and which may be no kinds."""
    yield f"{m.size} classes explain how the columns depend on each other."
    weaker = m.copies[m.copies > 0]
    if len(weaker):
        yield (
            f" The means of {len(weaker)} of these classes are {_span(weaker)} of those of others: "
            "the same kinds, in rows of lower quality."
        )
    if (m.copies == 0).any():
        yield " One of these classes has means of 0 throughout: rows that answer like coins."
    if m.equal:
        yield (
            f" In {m.equal} of these classes all rows are the same in all columns: a kind only if "
            "rows can agree in all of them, and copies of a row otherwise."
        )


def _span(x: np.ndarray) -> str:
    """Words of a verdict for a number, or for the range of several."""
    return f"{x.min():.2f}" if len(x) == 1 else f"{x.min():.2f} to {x.max():.2f}"


def _named(columns: np.ndarray, names: Sequence[str] | None) -> str:
    """Words of a verdict for columns, each as one harmless line: names may be foreign."""
    said = [str(c + 1) if names is None else f"'{safe_line(names[c], LONGEST)}'" for c in columns]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return f"{', '.join(said[:NAMED])}{more}"


def _odd_rows(classes: str, odd: dict[str, float], mixed_membership: bool) -> str:
    """Sentence of a verdict on rows that do not fit classes, from statistics out of bounds."""
    name, kind = "beside", "a continuum or rows of different quality"
    said = "part of the rows are weaker than their class, as of lower quality"
    if "beside" not in odd:
        name, kind = "repeats", "rows of which some are copies of others"
        said = "rows equal each other more often than rows of classes do"
    elif mixed_membership:
        said = "rows lie between the classes, as with a trait of degrees or mixed membership"
    return (
        f"Within {classes} no columns depend on each other, but {said} "
        f"({odd[name]:.1f} standard deviations): the fit summarises {kind}."
    )
