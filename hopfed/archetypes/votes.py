"""Votes of rows for patterns, rows that a pattern explains, and the check of the symmetric channel.

Rows vote for the pattern that they resemble most. Second moments cannot tell noisy patterns from
blocks of correlated columns, a trait, or a chain. The rows can: under the symmetric channel the
overlap of a row with its pattern has the variance ``(1 - r^2) / N``, the agreement with the
patterns differs between columns by chance only, and the expected number of equal rows is known.

Source: theory/NOTES.md, "Peeling", "Check of the symmetric channel".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import all_to_host, like, namespace, to_host
from hopfed.archetypes.session import Owner, Owners
from hopfed.archetypes.session import total as added_up
from hopfed.archetypes.subspace import SAME, SPREADS, overlaps_of
from hopfed.federation.messages import Message
from hopfed.kernels import Rows
from hopfed.kernels.dispatch import on_device
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import blocks, count_equal_rows, times, transposed_times
from hopfed.theory.resolution import expected_overlap

FEW = 5  # rows that support a pattern: a sum over fewer resembles its rows more than an archetype
BLOCK = 8_192  # rows whose products with all patterns are held at once
HALF = 0.5  # overlap of the majority of three patterns with each; rows of a pattern must exceed it
CLEAR = 2.0  # standard deviations of a row's overlap beyond that
OWN = 5.0  # standard deviations that the overlap of a row with its own pattern may fall short
CHANCE = 0.01  # probability that a row comes as near to a pattern that is not its own
SMALLEST = 20  # rows of an owner from which their own overlap with patterns is taken

DEVIATIONS = 6.0  # standard errors above the expected value that chance may reach
BELOW = 2.0  # the same below it: rows that choose their pattern lie closer than chance
WIDE = 0.15  # part by which the variance of overlaps may differ from that of flips
UNEVEN = 0.05  # standard deviation of the agreement over columns up to which it passes
UNSURE = 1e9  # variance of a ratio that is not known at all
RESEMBLING = 4.0  # standard deviations of noise that the mean overlap with patterns must exceed
COPIED = 4.0  # standard deviations above the expected number of equal rows that chance may reach
TWICE = 0.02  # part of the rows that may have been entered twice by mistake


def best_overlaps(rows: Rows, patterns: np.ndarray) -> np.ndarray:
    """Largest overlap of each row with a pattern to vote for, of either sign: (M,), in [0, 1]."""
    columns = _columns(patterns, rows.home)
    each = (namespace(columns).abs(times(block, columns)) for block in blocks(rows, BLOCK))
    return np.concatenate([to_host(x.max(axis=1)) for x in each]) / patterns.shape[1]


def _columns(patterns: np.ndarray, home: Any) -> Any:
    """Patterns in columns, (N, K) float32, beside an array; to a device they go in bits."""
    if not on_device(home):
        return like(np.ascontiguousarray(patterns.T, np.float32), home)
    bits = Rows(like(kernels.pack(patterns).signs, home), patterns.shape[1])
    return kernels.unpack(bits, np.float32).T


def row_sum_cosine(counts: np.ndarray, quality: float) -> np.ndarray:
    """Squared cosine of n voting rows' sum and archetype, ``n r^2 / (n r^2 + 1 - r^2)``."""
    signal = counts * quality**2
    return signal / (signal + max(1 - quality**2, 1e-12))


@dataclass(frozen=True)
class Election:
    """Patterns that enough rows vote for, heaviest first."""

    patterns: np.ndarray  # (K, N) int8 of +-1, as their rows have them, and as most of these point
    counts: np.ndarray  # (K,) rows of each
    scores: np.ndarray  # (K,) squared cosine of each with the sum of its rows
    quality: float  # mean overlap of the rows that voted


def elect_patterns(votes: Message, patterns: np.ndarray) -> Election:
    """Elect the patterns with votes of at least `FEW` rows, by their majority; no duplicates."""
    N = patterns.shape[1]
    rows, overlap = votes["moments"][:2]
    quality = float(overlap / max(N * rows, 1.0))  # r where the patterns are right
    order = np.argsort(-votes["counts"], kind="stable")
    order = order[votes["counts"][order] >= FEW]
    counts, signs, sums = (votes[name][order] for name in ("counts", "signs", "sums"))
    fresh = np.where(sums == 0, patterns[order], np.sign(sums))
    fresh = (fresh * np.where(signs < 0, -1, 1)[:, None]).astype(np.int8)
    sure = expected_overlap(row_sum_cosine(counts, quality))
    both = np.outer(sure, sure)
    limit = np.minimum(SAME, both - SPREADS * np.sqrt(np.maximum(1 - both**2, 0.0) / N))
    alike = np.abs(overlaps_of(fresh)) >= limit
    kept: list[int] = []
    for i in range(len(fresh)):
        if not alike[i, kept].any():
            kept.append(i)
    scores = np.abs(sums).sum(axis=1) ** 2 / np.maximum(N * (sums**2).sum(axis=1), 1.0)
    return Election(fresh[kept], counts[kept], scores[kept], quality)


@dataclass(frozen=True)
class Agreement:
    """Agreement of rows with the pattern that each resembles most: sums over a client, or all."""

    counts: np.ndarray  # (K,) rows of each pattern
    # first, second: (K,) sums over columns of the rows' sum of ``x_j xi_j``, and of its square
    first: np.ndarray
    second: np.ndarray
    overlaps: np.ndarray  # (3,) rows, and sums of their overlaps ``m = x . xi / N`` and ``m^2``
    repeats: float  # number of rows that equal an earlier one

    @classmethod
    def of(cls, patterns: np.ndarray, sums: Message) -> Agreement:
        """Agreement from an answer to `nearest_pattern_sums`."""
        if "pairs" in sums:
            along, squares = sums["pairs"].T
        else:  # whole numbers, beyond 2^31 once squared
            rows = zip(sums["sums"], patterns, strict=True)
            pairs = ((x.astype(np.float64), p.astype(np.float64)) for x, p in rows)
            along, squares = np.array([(x @ p, x @ x) for x, p in pairs]).reshape(-1, 2).T
        overlaps = sums["moments"] / patterns.shape[1] ** np.arange(3)
        return cls(sums["counts"], along, squares, overlaps, float(sums["equal"][0]))


def check_channel(answers: list[Agreement], n_sites: int) -> bool:
    """Whether clients' votes, the agreement of rows with patterns, fit the symmetric channel."""
    # Any row resembles patterns somewhat, as noise does.
    noise = RESEMBLING / np.sqrt(n_sites)
    resembling = [a for a in answers if a.overlaps[1] > noise * max(a.overlaps[0], 1)] or answers
    breadths = np.array([_breadth(a.overlaps, n_sites) for a in resembling])
    weights = 1 / breadths[:, 1]  # of clients, by their precision
    whole = weights @ breadths[:, 0] / weights.sum(), 1 / weights.sum()
    ratio, error = np.vstack([breadths, whole]).T ** [[1.0], [0.5]]
    fits = (ratio >= 1 - WIDE - BELOW * error) & (ratio <= 1 + WIDE + DEVIATIONS * error)
    if not fits.all():
        return False
    # Variance over columns of the agreement beyond chance, and its standard error.
    n = np.concatenate([a.counts for a in answers]).astype(np.float64)
    first, second = (np.concatenate([getattr(a, k) for a in answers]) for k in ("first", "second"))
    enough = n >= FEW
    if not enough.any():
        return True
    n, first, second = n[enough], first[enough], second[enough]
    mean = first / (n * n_sites)
    found = second / (n**2 * n_sites) - mean**2
    chance = np.maximum(1 - mean**2, 1 / n_sites) / n
    weights = n / n.sum()
    error = np.sqrt((weights**2 * chance**2 * 2 / n_sites).sum())
    excess = float((weights * (found - chance)).sum())
    return not excess > max(UNEVEN**2, DEVIATIONS * float(error))


def _breadth(overlaps: np.ndarray, n_sites: int) -> tuple[float, float]:
    """Variance of rows' overlaps over that of flips alone, and the variance of this ratio."""
    m, first, second = overlaps
    r = min(first / max(m, 1), 1.0)
    flips = n_sites * (1 - r) / 2  # of a row, on average; Poisson where few
    if m < 2 or flips * m < FEW:
        return 1.0, UNSURE
    breadth = max(second / m - r**2, 0.0) / ((1 - r**2) / n_sites)
    return breadth, (2 + 1 / flips) / m


def equal_pairs(answer: Agreement, patterns: np.ndarray) -> float:
    """Expected pairs of equal rows of one client, if they are of the patterns they vote for."""
    n, N = answer.counts, patterns.shape[1]
    r = min(max(float(answer.overlaps[1] / max(answer.overlaps[0], 1.0)), 0.0), 1.0)
    differ = (N - kernels.gram(kernels.pack(patterns)).astype(np.float64)) / 2
    agree = np.log((1 + r**2) / 2) * (N - differ)
    agree += np.log(max((1 - r**2) / 2, 1e-300)) * differ
    pairs = (np.outer(n, n) - np.diag(n)) / 2
    return float((pairs * np.exp(agree)).sum())


def _packed(patterns: np.ndarray, **sent: Any) -> Message:
    """A message to owners of patterns in bits, and numbers."""
    numbers = {n: np.array(x) for n, x in sent.items()}
    return {"patterns": np.packbits(patterns > 0, axis=1), **numbers}


def _patterns(owner: Owner, sent: Message) -> np.ndarray:
    """Patterns (K, N) int8 of a message to an owner."""
    plus = np.unpackbits(sent["patterns"], axis=1, count=owner.rows.shape[1])
    return 2 * plus.astype(np.int8) - 1


def _voting_level(owner: Owner, sent: Message, patterns: np.ndarray) -> float:
    """Overlap with a pattern above which an owner's rows vote, or, if `strict`, are explained."""
    r, (P, N) = float(sent["quality"]), patterns.shape
    # Below lie rows of other archetypes, whose largest overlap with P patterns is as large by
    # chance, and rows of which the pattern is a mixture of three.
    chance = np.sqrt(2 * np.log(2 * max(P, 1) / CHANCE) / N)
    least = float(max(chance, HALF * r + CLEAR * np.sqrt((1 - r**2) / N)))
    if not sent.get("strict", True):
        return least

    def counts(part: Rows) -> np.ndarray:
        """Rows by their best overlap with a pattern: (N + 1,), of 0, 1 / N, ..., 1."""
        best = np.rint(best_overlaps(part, patterns) * N).astype(np.int64)
        return np.bincount(best, minlength=N + 1)

    overlaps = np.arange(N + 1, dtype=np.float32) / N
    near = np.cumsum(np.where(overlaps > least, owner.rows.total(counts), 0))
    if (rows := int(near[-1])) >= SMALLEST:  # the quality is that of the owner's own rows
        middle = np.searchsorted(near, [(rows - 1) // 2, rows // 2], side="right")
        r = float(overlaps[middle].mean())
    return float(max(least, r - OWN * np.sqrt(max(1 - r**2, 0.0) / N)))


def _select_explained(owner: Owner, sent: Message, explained: bool) -> Rows | None:
    """An owner's rows that a pattern explains, or the other rows; None if it has none."""
    patterns = _patterns(owner, sent)
    level = _voting_level(owner, sent, patterns)

    def fits(part: Rows) -> np.ndarray:
        return np.asarray((best_overlaps(part, patterns) > level) == explained)

    rows = owner.rows.where(fits)
    return rows if len(rows) else None


def nearest_pattern_sums(owner: Owner, sent: Message) -> Message:
    """Question about patterns: votes, sums of rows by the nearest pattern, either way or as given.

    With a quality, the sums take only rows that vote, or that a pattern explains.
    """
    asked = tuple(x.tobytes() for x in sent.values())
    if asked == owner.votes[0]:  # a verdict often takes what a count has taken
        return owner.votes[1]
    patterns, brief = _patterns(owner, sent), bool(sent.get("brief", False))
    rows = _select_explained(owner, sent, explained=True) if "quality" in sent else owner.rows
    if rows is None:
        own = (len(patterns), 2) if brief else patterns.shape
        shapes = 3, len(patterns), len(patterns), own, 2
        found = Sums(np.zeros(shape) for shape in shapes)
    else:
        how: Any = {"patterns": patterns, "either": bool(sent["either"]), "brief": brief}
        found = rows.total(partial(_block_sums, **how))
    answer = {n: np.asarray(x, np.float64) for n, x in zip(_SUMS, found, strict=True)}
    sums = answer.pop("sums")
    answer |= {"pairs": sums} if brief else {"sums": sums.astype(np.int32)}
    owner.votes = asked, answer
    return answer


_SUMS = ("moments", "counts", "signs", "sums", "equal")


def _block_sums(part: Rows, patterns: np.ndarray, either: bool, brief: bool) -> Sums:
    """Sums over a block of rows by the pattern nearest to each; `brief` ones sum over columns."""
    columns = _columns(patterns, part.home)
    xp = namespace(columns)
    one, labels, best, sums = xp.eye(len(patterns), dtype=xp.float32), [], [], np.zeros(())
    signs, equal = np.zeros(len(patterns)), count_equal_rows(part)
    for block in (part,) if on_device(part) else blocks(part, BLOCK):  # there it is one copy
        products = times(block, columns)
        label = (xp.abs(products) if either else products).argmax(axis=1)
        overlap = xp.take_along_axis(products, label[:, None], axis=1)
        ballots = one[label] * xp.sign(overlap) if either else one[label]
        together = transposed_times(block, ballots)
        if brief:
            whole = xp.astype(together, xp.float64)
            together = xp.stack([xp.sum(whole * columns, axis=0), xp.sum(whole**2, axis=0)])
        found = all_to_host(label, overlap[:, 0], ballots.sum(axis=0), together, equal)
        labels.append(found[0])
        best.append(found[1].astype(np.float64))
        signs, sums = signs + found[2], sums + found[3].T.astype(np.float64)
    overlaps = np.abs(np.concatenate(best)) if either else np.concatenate(best)
    moments = np.array([len(overlaps), overlaps.sum(), (overlaps**2).sum()])
    counts = np.bincount(np.concatenate(labels), minlength=len(patterns)).astype(np.float64)
    return Sums((moments, counts, signs, sums, found[4]))


def vote(session: Owners, patterns: np.ndarray, quality: float, strict: bool = False) -> Message:
    """Let the owners' rows vote for patterns: sums over all rows by the nearest pattern."""
    sent = _packed(patterns, quality=np.float32(quality), strict=strict, either=True)
    answers = session.ask(nearest_pattern_sums, sent)
    return {name: added_up(answers, name) for name in _SUMS}


def unexplained_rows(session: Owners, patterns: np.ndarray, quality: float) -> Owners:
    """Session of the rows that no pattern explains after votes; owners set the others aside."""
    left: list[Owner] = []

    def set_aside(owner: Owner, sent: Message) -> Message:
        rows = _select_explained(owner, sent, explained=False)
        left.extend([] if rows is None else [Owner(rows, owner.index)])
        return {"rows": np.array(0 if rows is None else len(rows), np.int32)}

    session.ask(set_aside, _packed(patterns, quality=np.float32(quality)))
    return Owners(left, session.seed, session.traffic)


def refit_patterns(session: Owners, patterns: np.ndarray) -> np.ndarray:
    """Refit patterns by votes: the sign of the sum of the owners' rows nearest to each."""
    sums = added_up(session.ask(nearest_pattern_sums, _packed(patterns, either=False)), "sums")
    return np.where(sums == 0, patterns, np.sign(sums)).astype(np.int8)


def measure_agreement(
    session: Owners, patterns: np.ndarray, quality: float | None = None
) -> tuple[list[Agreement], Agreement]:
    """Agreement of rows with patterns they vote for, by owner, and of all: checks the channel."""
    more: dict[str, Any] = {} if quality is None else {"quality": np.float32(quality)}
    alone = len(session.members) == 1 and on_device(session.members[0].rows)
    more |= {"brief": np.bool_(True)} if alone else {}  # so that no sums of columns are copied
    answers = session.ask(nearest_pattern_sums, _packed(patterns, either=False, **more))
    found = [Agreement.of(patterns, answer) for answer in answers]
    whole = found[0]
    if len(found) > 1:
        whole = Agreement.of(patterns, {n: added_up(answers, n) for n in _SUMS})
    return [a for a in found if a.overlaps[0] > 0], whole


def rows_fit_patterns(session: Owners, patterns: np.ndarray, quality: float | None = None) -> bool:
    """Whether the owners' votes bear out that every column of patterns is flipped equally often."""
    (answers, whole), N = measure_agreement(session, patterns, quality), session.n_columns
    if not answers:  # no row is explained
        return False
    # So many rows equal an earlier row of their client, if they are rows of the patterns.
    expected = sum(equal_pairs(answer, patterns) for answer in answers)
    doubt = max(COPIED * np.sqrt(expected), TWICE * sum(float(a.overlaps[0]) for a in answers))
    holds = sum(a.repeats for a in answers) <= expected + doubt and check_channel(answers, N)
    counts = np.concatenate([a.counts for a in answers])
    if holds and counts[counts >= FEW].sum() < counts.sum() / 2:  # few are compared at a client
        holds = check_channel([whole], N)
    return bool(holds)


def orient_patterns(patterns: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Turn patterns that rows vote for as the examples point: ``mean ~ sum_mu (r e_mu) xi_mu``."""
    if len(patterns) == 0:
        return patterns
    bits = kernels.pack(patterns)
    overlaps, along = kernels.gram(bits).astype(np.float64), kernels.matmat(bits, mean)
    signs = np.where(np.linalg.lstsq(overlaps, along, rcond=None)[0] < 0, -1, 1)
    return patterns.astype(np.int8, copy=False) * signs.astype(np.int8)[:, None]
