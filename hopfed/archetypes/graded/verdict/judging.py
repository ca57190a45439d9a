"""Whether classes are the right model, in numbers and in words.

Two tests, both against replicas of the fitted classes (`replicas`):

- *columns*: the largest eigenvalue of the standardised residuals. Above what replicas show, columns
  depend on each other within classes, and the leading eigenvectors say which.
- *rows*: rows between classes make the surest responsibility lower than classes would, and the
  likelihood gains where rows may lie off their class (`leaning`), or be weaker than it (`weaker`);
  rows of different quality, or that depend on themselves, spread their likelihoods and overlaps
  otherwise than rows of a class do. Second moments do not see this: a trait cut into enough classes
  leaves white residuals. Copies of rows equal each other more often than rows of classes do.

Where rows have few columns, neither tells a trait of degrees from classes along a line. So classes
that span fewer directions than their number needs must also be ones that rows are sure of.

A table is "ok" only if it passes all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit, remind
from hopfed.archetypes.graded.fitting.mixture import ClassSums
from hopfed.archetypes.graded.owners.asking import Owners
from hopfed.archetypes.graded.verdict.class_means import (
    carrying,
    faded,
    needed,
    put_together,
    spanned,
    worth,
)
from hopfed.archetypes.graded.verdict.replicas import at_a_time, replicas, settle
from hopfed.archetypes.graded.verdict.residuals import as_little, residual_edge, row_statistics
from hopfed.archetypes.status import DEVIATIONS, ClassMeasures, judge_classes, too_little
from hopfed.spectral.rank import white_edge

REPLICAS = 20  # tables drawn from the fitted classes
LEVEL = 1e-3  # false-alarm rate of the edge that ratios are measured in
DIRECTIONS = 6  # leading residual eigenvectors that are looked at
LOADED = 0.15  # square of its largest entry from which the other entries of an eigenvector count
CLEAR = 20.0  # standard deviations of residuals from which a few replicas do
FEW = 5  # replicas, then
SAME = 1e-3  # of the entries of a class that may differ from the others where it is one row

# Row tests: name; finest difference that counts; what counts of a deviation below and above what is
# expected. Rows never are surer of true classes than their replicas are to a harmful end, and rows
# that are more alike than independent columns allow show in the residuals as well. Gains are nats
# of the whole table, of which chance gives one at most, as a rule; of leaning rows the parts at
# several points are free, which gives chance more room: 3.5 nats in one of 300 replicas. A few
# rows that were entered twice by mistake are no reason to doubt classes.
ROW_TESTS = (
    ("spread", 1e-3, 0.6, 1.0),
    ("certainty", 1e-3, 1.0, 0.0),
    ("overlap spread", 1e-4, 0.6, 1.0),
    ("leaning", 1.2, 0.0, 4 / 3),
    ("weaker", 1.0, 0.0, 4 / 3),
    ("repeats", 5e-3, 0.0, 1.0),
)


@dataclass(frozen=True, eq=False)
class Residual:
    """Largest eigenvalue of the standardised residuals, over the edge of white noise.

    Attributes
    ----------
    ratio : of the rows.
    expected, error : mean and standard deviation over replicas.
    columns : indices of columns that depend on each other within classes, strongest first; empty
        where none do.
    """

    ratio: float
    expected: float
    error: float
    columns: np.ndarray = field(repr=False)

    @property
    def deviation(self) -> float:
        """Standard deviations of the ratio above what is expected."""
        return (self.ratio - self.expected) / self.error


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the tests say.

    Attributes
    ----------
    status : "ok", "one class", "structure, but not classes", "copies", "too little data".
    advice : the sentence that explains it.
    residual : of the columns.
    rows : deviation of each row statistic from that of replicas, by name, in standard deviations
        as far as they count.
    """

    status: str
    advice: str
    residual: Residual
    rows: dict[str, float]


def judge(
    owners: Owners,
    fit: Fit,
    n_detected: int = 0,
    names: Sequence[str] | None = None,
) -> Verdict:
    """Test fitted classes against their replicas.

    Parameters
    ----------
    n_detected : directions that the spectrum showed; more than classes hint at classes that the
        entries do not tell apart.
    names : of the columns; their numbers, from 1 as files call them, are said when left out.
    """
    remind(owners, fit)
    values, vectors, squares, found = _measured([owners], [fit.sums])
    edge = _edge(owners)
    for batch in _batches(REPLICAS, at_a_time(owners)):
        worlds = replicas(owners, fit, batch)
        more, _, _, drawn = _measured(worlds, settle(worlds, fit.prior))
        values = np.vstack([values, more])
        found = {name: np.concatenate([a, drawn[name]]) for name, a in found.items()}
        owners.exchanges += worlds[0].exchanges
        if _is_clear(values[:, 0] / edge):
            break
    ratios = values / edge
    expected, error = _usual(ratios[1:, 0], 1e-3)
    limit = expected + DEVIATIONS * error
    loud = vectors[0][ratios[0] > limit]
    numbers = np.arange(owners.n_columns) if owners.columns is None else owners.columns
    residual = Residual(float(ratios[0, 0]), expected, error, numbers[dependent_columns(loud)])
    rows = {}
    for name, finest, below, above in ROW_TESTS:
        column = found[name]
        usual, spread = _usual(column[1:], finest)
        deviation = float((column[0] - usual) / spread)
        rows[name] = deviation * (above if deviation > 0 else below)
    columns = carrying(fit, squares[0])
    varies = slice(None) if fit.prior.varies is None else fit.prior.varies
    differ = np.minimum(fit.sums.plus, fit.sums.minus).sum(axis=1)
    verdict = judge_classes(
        ClassMeasures(
            size=fit.size,
            residual=residual,
            rows=rows,
            within=float(squares[0].sum() / max(_whole(fit), 1e-12)),
            certainty=float(found["certainty"][0]),
            repeats=found["repeats"],
            repeated=bool(found["single"][0] == 0),
            directions=spanned(fit, squares[0]),
            carrying=numbers[columns],
            worth=worth(columns, fit.prior.variables),
            needed=needed(fit.size),
            weak=put_together(fit),
            faded=faded(fit),
            equal=int((differ <= SAME * fit.sums.seen.sum(axis=1)).sum()),
            columns=len(fit.prior.rates[varies]),
            more_shown=max(fit.size, 1) < n_detected,
            as_faint=as_little(residual.ratio, len(residual.columns), owners),
            little=too_little(float(owners.sizes.sum()), fit.prior.observed[varies]),
            names=names,
        )
    )
    return Verdict(verdict.status, verdict.advice, residual, rows)


def _measured(
    worlds: list[Owners], sums: list[ClassSums]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Residual eigenvalues, their vectors, mean squares, and row statistics of tables."""
    return *residual_edge(worlds, DIRECTIONS), row_statistics(worlds, sums)


def _edge(owners: Owners) -> float:
    """Largest eigenvalue of residuals that are white noise, at LEVEL."""
    rows = int(owners.sizes.sum())
    return white_edge(rows, owners.n_columns, LEVEL) / rows


def _is_clear(ratios: np.ndarray) -> bool:
    """Whether residuals of the rows, which come first, need no more replicas to be told."""
    expected, error = _usual(ratios[1:], 1e-3)
    return len(ratios) > FEW and bool(ratios[0] > expected + CLEAR * error)


def _batches(number: int, size: int) -> list[range]:
    return [range(first, min(first + size, number)) for first in range(0, number, size)]


def _usual(values: np.ndarray, finest: float) -> tuple[float, float]:
    """Centre and standard deviation of values of replicas, of which a few may lie far off."""
    centre = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - centre)))
    # The median deviation of a score of values is itself uncertain: the larger of two estimates.
    near = np.abs(values - centre) < 5 * max(spread, finest)
    spread = max(spread, float(values[near].std(ddof=1)) if near.sum() > 2 else 0.0, finest)
    return centre, spread * np.sqrt(1 + 1 / len(values))


def _whole(fit: Fit) -> float:
    """Mean squares of the entries about the columns' own means, added up over columns."""
    prior = fit.prior
    return float((4 * prior.rates * (1 - prior.rates) * prior.observed).sum())


def dependent_columns(vectors: np.ndarray) -> np.ndarray:
    """Columns that carry residual eigenvectors (k, N), strongest first."""
    if len(vectors) == 0:
        return np.zeros(0, dtype=int)
    squares = vectors**2
    loaded = squares >= LOADED * squares.max(axis=1, keepdims=True)
    strength = np.where(loaded, squares, 0.0).max(axis=0)
    order = np.argsort(-strength, kind="stable")
    found: np.ndarray = order[strength[order] > 0]
    return found
