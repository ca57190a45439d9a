"""Whether classes are the right model, in numbers.

Against replicas of the fitted classes (`replicas`):

- *columns*: the largest eigenvalue of the standardised residuals. Above what replicas show, columns
  depend on each other within classes, and the leading eigenvectors say which. The residual of an
  observed entry is ``x - E[x | row]``, with the classes weighed by the row's responsibilities.
- *rows*: the likelihood gains where rows may lie between classes (`leaning`), or be weaker than
  theirs (`weaker`). Second moments do not see this: a trait cut into enough classes leaves white
  residuals. Copies of rows equal each other more often than rows of classes do.

And the means of the classes: a row of quality q has the means ``q T`` of its kind. Where rows of
two qualities are many, each quality becomes a class of its own, and as classes these are right:
only their means tell that they are one kind. Where weak rows are too few to be told apart by kind,
they are put together as one class. Between its columns nothing is left that could be seen, but its
means are a sum of those of the others: a few numbers explain as many means as there are columns,
which no kind of its own would allow. Careless rows, of quality 0, become one class of coins. And
classes that differ in a few columns cannot be told from columns that depend on each other.

Source: theory/NOTES.md, "Tests of local independence".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import chdtrc, chdtri, comb

from hopfed._lib.random import stream
from hopfed.archetypes.class_questions import repeated, residual_product, residual_squares
from hopfed.archetypes.mixture import ClassSums, Fit, loss, remind
from hopfed.archetypes.replicas import replica
from hopfed.archetypes.rivals import leaning, weaker
from hopfed.archetypes.search import leading
from hopfed.archetypes.session import (
    Session,
    Variables,
    total,
)
from hopfed.archetypes.status import (
    DEVIATIONS,
    ClassMeasures,
    Residual,
    Verdict,
    judge_classes,
    too_little,
)
from hopfed.federation.messages import Message
from hopfed.spectral.rank import white_edge

REPLICAS = 20  # tables drawn from the fitted classes
LEVEL = 1e-3  # false-alarm rate of the edge that ratios are measured in
DIRECTIONS = 6  # leading residual eigenvectors that are looked at
LOADED = 0.15  # square of its largest entry from which the other entries of an eigenvector count
CLEAR = 20.0  # standard deviations of residuals from which a few replicas do
FEW = 8  # replicas, then: the spread of fewer may be small by chance
ALIKE = 1e-3  # level at which means are told from those of another class times a number
FADED = 0.9  # quality below which a class counts as another one, faded
CERTAIN = 50.0  # gain in squared deviations from which the likeness is none of chance
COLUMNS = 10  # that are needed at least
CHANCE = 2e-3  # of a class of coins that other classes seem to have a part in it
CARRIED = 0.95  # part of how classes differ that the columns which carry them make up
MOST = 20.0  # strength, as 1 / variance left, beyond which a column tells classes apart no better
SAME = 1e-3  # of the entries of a class that may differ from the others where it is one row

# Row tests: name; finest difference that counts; what counts of a deviation above what is expected.
# Gains are nats of the whole table, of which chance gives one at most, as a rule; of leaning rows
# the parts at several points are free, which gives chance more room: 3.5 nats in one of 300
# replicas. A few rows that were entered twice by mistake are no reason to doubt classes.
ROW_TESTS = (("leaning", 1.2, 4 / 3), ("weaker", 1.0, 4 / 3), ("repeats", 5e-3, 1.0))


def judge(
    owners: Session, fit: Fit, n_detected: int = 0, names: Sequence[str] | None = None
) -> Verdict:
    """The verdict on fitted classes from the tests alone; parameters as of `measured`."""
    return judge_classes(measured(owners, fit, n_detected, names))


def measured(
    owners: Session, fit: Fit, n_detected: int = 0, names: Sequence[str] | None = None
) -> ClassMeasures:
    """Test fitted classes against their replicas."""
    remind(owners, fit)
    first, vectors, squares, own = statistics(owners, fit.sums)
    edge, asked, lead, rows_of = _edge(owners), 0, [first], [own]

    def of_replica(number: int) -> tuple[np.ndarray, dict[str, float], int]:
        table, sums = replica(owners, fit, number)
        more, _, _, drawn = statistics(table, sums)
        return more, drawn, table.exchanges

    for more, drawn, exchanges in map(of_replica, range(REPLICAS)):
        lead, rows_of = [*lead, more], [*rows_of, drawn]
        asked = max(asked, exchanges)  # all could be asked at once
        if _is_clear(np.array(lead)[:, 0] / edge):
            break
    owners.exchanges += asked
    values, found = np.array(lead), {n: np.array([r[n] for r in rows_of]) for n in own}
    ratios = values / edge
    expected, error = _usual(ratios[1:, 0], 1e-3)
    limit = expected + DEVIATIONS * error
    loud = vectors[ratios[0] > limit]
    numbers = np.arange(owners.n_columns) if owners.columns is None else owners.columns
    residual = Residual(float(ratios[0, 0]), expected, error, numbers[dependent_columns(loud)])
    rows = {}
    for name, finest, counts in ROW_TESTS:
        usual, spread = _usual(found[name][1:], finest)
        rows[name] = counts * max(0.0, float((found[name][0] - usual) / spread))
    columns = carrying(fit, squares)
    varies = slice(None) if fit.prior.varies is None else fit.prior.varies
    differ = np.minimum(fit.sums.plus, fit.sums.minus).sum(axis=1)
    return ClassMeasures(
        size=fit.size,
        residual=residual,
        rows=rows,
        within=float(squares.sum() / max(_whole(fit), 1e-12)),
        repeats=found["repeats"],
        repeated=bool(found["single"][0] == 0),
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


def statistics(
    owners: Session, sums: ClassSums
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, float]]:
    """Residual eigenvalues, their vectors, mean squares, and row statistics of a table."""
    equal = total(owners.ask(repeated, {}), "equal") / owners.n_rows
    rows = {"repeats": float(equal[0]), "single": float(equal[1])}
    rows |= {"leaning": leaning(owners, sums), "weaker": weaker(owners, sums)}
    return *residual_edge(owners, DIRECTIONS), rows


def _edge(owners: Session) -> float:
    """Largest eigenvalue of residuals that are white noise, at LEVEL."""
    rows = int(owners.sizes.sum())
    return white_edge(rows, owners.n_columns, LEVEL) / rows


def _is_clear(ratios: np.ndarray) -> bool:
    """Whether residuals of the rows, which come first, need no more replicas to be told."""
    expected, error = _usual(ratios[1:], 1e-3)
    return len(ratios) > FEW and bool(ratios[0] > expected + CLEAR * error)


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
    return order[strength[order] > 0]


def faded(fit: Fit) -> np.ndarray:
    """Quality (K,) of classes that are others, faded: 0 for coins; NaN for classes of their own."""
    plain = fit.prior.part == 0
    found = np.full(fit.size, np.nan)
    if fit.size < 2 or plain.sum() < COLUMNS:
        return found
    means, variance = _means(fit, plain)
    limit = chdtri(plain.sum(), ALIKE)
    alone = (means**2 / variance).sum(axis=1)
    others = (means**2).sum(axis=0) / fit.size  # of a class of usual strength
    for j in range(fit.size):
        if alone[j] < limit:  # coins, if another class in as few rows would not look like them
            found[j] = 0.0 if (others / variance[j]).sum() > limit + CERTAIN else np.nan
            continue
        for k in range(fit.size):
            q = (means[j] * means[k]).sum() / max((means[k] ** 2).sum(), 1e-12)
            errors = variance[j] + q**2 * variance[k]
            off = ((means[j] - q * means[k]) ** 2 / errors).sum()
            if k != j and 0 < q < FADED and off < limit and alone[j] > off + CERTAIN:
                found[j] = q
    return found


def put_together(fit: Fit) -> np.ndarray:
    """Quality (K,) of classes in which weak rows of several others are; NaN of other classes.

    Such a class has the means ``sum_k b_k T_k`` within their errors, the parts b not negative and
    clearly not all 0; they add up to the quality. Columns that are levels of a variable are left
    out.
    """
    plain = fit.prior.part == 0
    found = np.full(fit.size, np.nan)
    if fit.size < 3 or plain.sum() < COLUMNS:  # of a single other kind it is `faded`
        return found
    means, variances = _means(fit, plain)
    if fit.sums.pairs is not None:
        counts, c = fit.sums.counts.sum(axis=0), fit.prior.concentration
        variances = variances * loss(counts, fit.sums.pairs, fit.prior.observed[plain], c)
    limit, by_chance = chdtri(plain.sum(), ALIKE), gain_of_chance(fit.size - 1)
    for j in range(fit.size):
        others = np.arange(fit.size) != j
        parts, errors = _parts(means[others], variances[others], means[j], variances[j])
        off = ((means[j] - parts @ means[others]) ** 2 / errors).sum()
        gained = (means[j] ** 2 / errors).sum() - off
        along = np.maximum((means[others] * means[j] / errors).sum(axis=1), 0.0)
        one = float((along**2 / (means[others] ** 2 / errors).sum(axis=1).clip(1e-12)).max())
        of_one = one > CERTAIN and gained - one < by_chance  # one other kind explains it as well
        if off < limit and gained > by_chance and not of_one and parts.sum() < FADED:
            found[j] = parts.sum()
    return found


def _means(fit: Fit, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, n) of classes in some columns, and the variance of their errors in sure rows."""
    n = np.maximum(fit.sums.seen[:, columns], 1e-9)
    means = fit.sums.signed[:, columns] / n
    return means, (1 - means**2 + 1 / (n + 1)) / n  # of one entry or two it is not 0


def gain_of_chance(others: int) -> float:
    """Gain in squared deviations that parts of other classes in a class of coins do not reach."""
    weights = comb(others, np.arange(1, others + 1)) / 2.0**others
    numbers = np.arange(1, others + 1)
    return float(brentq(lambda x: weights @ chdtrc(numbers, x) - CHANCE, 0.0, 40.0 + 8.0 * others))


def _parts(
    others: np.ndarray, variances: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Parts (k,) of others (k, N) that explain a mean (N,) best, and variances (N,) of errors."""
    errors = variance
    for _ in range(2):  # errors of the others count as much as their parts do
        root = np.sqrt(errors)
        parts = nnls((others / root).T, mean / root)[0]
        errors = variance + parts**2 @ variances
    return parts, errors


def _standing(fit: Fit, variances: np.ndarray) -> np.ndarray:
    """(K, N) means about their own mean, in units of the noise, times the root of the shares."""
    n = fit.sums.counts.sum(axis=0)
    shares = n / n.sum()
    means = fit.classes.means * fit.prior.observed
    scaled = (means - shares @ means) / np.sqrt(np.maximum(variances, 1e-3))
    return np.asarray(scaled * np.sqrt(shares)[:, None])


def carrying(fit: Fit, variances: np.ndarray) -> np.ndarray:
    """Columns that make up all but a little of how classes differ, strongest first."""
    # A column that hardly ever errs would hide all others that tell the classes apart as well.
    strength = np.minimum((_standing(fit, variances) ** 2).sum(axis=0), MOST)
    # What columns differ by in classes that are alike says nothing.
    strength = np.maximum(strength - (fit.size - 1) / fit.sums.counts.sum(), 0.0)
    variables = fit.prior.variables
    label = np.arange(len(strength))
    if variables is not None:
        label = np.where(variables.inside, len(strength) + variables.label, label)
    unit = np.unique(label, return_inverse=True)[1]
    whole = np.bincount(unit, strength)
    order = np.argsort(-whole, kind="stable")
    reached = np.cumsum(whole[order])
    kept = order[: 1 + np.searchsorted(reached, CARRIED * reached[-1])]
    return np.concatenate([np.flatnonzero(unit == k) for k in kept])


def worth(columns: np.ndarray, variables: Variables | None) -> float:
    """Binary columns that these are worth: a variable of L levels log2(L), two variables none."""
    if variables is None:
        return float(len(columns))
    parts = variables.part[columns]
    alone = int((parts == 0).sum())
    sizes = 1 / parts[parts > 0]
    several = float((1 / sizes).sum())  # each level is a share of its variable
    if round(alone + several) < 3:
        return 0.0
    return alone + float((np.log2(sizes) / sizes).sum())


def needed(classes: int) -> int:
    """Binary columns that tell so many classes from dependence between the columns."""
    return 2 * int(np.ceil(np.log2(classes))) + 1


STEPS = 20  # products for the largest eigenvalue; the rows and their replicas get equally many
RARE = 10.0  # entries of its rarer kind below which a column is not scaled up to unit variance
UNSEEN = 2.0  # times the threshold of the spectrum up to which a fit may miss a class
SEVERAL = 10  # columns that depend on each other from which these may be classes


def residual_edge(owners: Session, wanted: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading eigenvalues and vectors of the standardised residuals, and mean squares (N,)."""
    start = stream(owners.seed, "residual").standard_normal((1, owners.n_columns))

    def asked(question: Callable[..., Message], told: Message) -> dict[str, np.ndarray]:
        answers = owners.ask(question, told)
        return {name: total(answers, name) for name in answers[0]}

    M, variables = owners.n_rows, owners.variables
    found = asked(residual_squares, {})
    squares = found["squares"] / M
    # A few entries that stand out of a column that is otherwise constant are no dependence.
    scale = 1 / np.sqrt(np.maximum(squares, min(4 * RARE / M, 0.5)))

    def product(w: np.ndarray) -> np.ndarray:
        v = w[0] * scale
        image = asked(residual_product, {"vector": v.astype(np.float32)})["product"]
        if variables is not None:  # levels depend on each other as they must
            a, b = variables.pairs
            np.subtract.at(image, a, found["inside"] * v[b])
        return (image * scale / M)[None]

    values, vectors = leading(product, start, STEPS, wanted)
    for owner in owners.members:
        owner.unexplained = None
    return values[0], vectors[0], squares


def as_little(ratio: float, columns: int, owners: Session) -> bool:
    """Whether classes too weak to be told apart would leave no more than this."""
    root = np.sqrt(owners.n_columns / owners.n_rows)
    # An outlier of UNSEEN times the threshold, over the edge.
    most = (1 + UNSEEN * root) * (1 + root / UNSEEN) / (1 + root) ** 2
    return bool(ratio <= most and not 0 < columns < SEVERAL)
