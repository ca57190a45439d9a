"""Channel of fitted classes, their distance to the true classes, and replicas drawn from them.

Special cases of classes are *symmetric*, ``T = r xi`` with xi of +-1 and one r, and *by column*,
``T_mu,j = r_j xi_mu,j``; *graded* is any T. The evidence of each channel averages over its free
parameters, and the highest wins. Errors of means count that rows are unsure of their class
(`inflation`); expected overlaps, that found classes may hold others below the threshold. Replicas
show what a statistic is when the classes are true: owners draw tables from the fitted classes, with
the gaps of their own rows, and these tables are fitted like the rows.

Sources: theory/NOTES.md, "Resolution"; T. A. Louis, J. R. Statist. Soc. B 44 (1982) 226-233.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betainc

from hopfed import kernels
from hopfed._lib.arrays import like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.archetypes.class_sums import (
    KEPT,
    TINY,
    ClassSums,
    Fit,
    Mixture,
    e_step,
    improve,
    loss,
    remind_owners,
)
from hopfed.archetypes.row_weights import is_survey
from hopfed.archetypes.session import NONE, Owner, Session, Variables, means_inside, step_gaps
from hopfed.archetypes.verdict import Nearness
from hopfed.kernels import Rows, philox
from hopfed.kernels.dispatch import on_device
from hopfed.spectral.rows import merge_equal_rows
from hopfed.theory.resolution import OPTIMISM, RESOLVED, majority_needed, sure_level

QUALITIES = np.concatenate([np.linspace(0.0, 0.9, 46), 1 - np.geomspace(0.095, 1e-4, 40)])
ODD = 1e-3  # share of a channel's tables in which some mean is as far from it by chance


@dataclass(frozen=True)
class Channel:
    """Channel of fitted classes: its name, the classes' means in it, and errors of these."""

    name: str  # symmetric, by column or graded
    means: np.ndarray  # (K, N) of the classes in that channel
    errors: np.ndarray  # their standard errors; in the symmetric channel those at the quality r
    quality_error: float = np.nan  # standard error of r in the symmetric channel
    spread: float = 0.0  # standard deviation of true means about those that one quality makes


def choose_channel(fit: Fit, lost: np.ndarray, graded: bool = False) -> Channel:
    """Channel, by evidence, of classes that replicas are drawn from; `lost` is `inflation`."""
    sums, means = fit.sums, fit.classes.means
    weighed = sums.seen + (fit.prior.concentration if fit.size > 1 else 0.0)
    spread = np.maximum(1 - means**2, 0.0)  # a mean of 1 may be rounded up
    most = Channel("graded", means, np.sqrt(spread * lost / (weighed + 1)))
    if graded or fit.size == 1 or fit.prior.variables is not NONE:
        return most
    table, entries = pattern_gains(sums), sums.seen.sum(axis=0)
    whole = table.sum(axis=1)
    gains = {  # evidence, up to a term that all channels share
        "symmetric": float(whole.max() - np.log(max(entries.sum(), 1.0)) / 2),
        "by column": float(table.max(axis=0).sum() - (np.log(np.maximum(entries, 1)) / 2).sum()),
        "graded": float(fit.prior.gain(sums).sum()),
    }
    one = (name := max(gains, key=lambda n: gains[n])) == "symmetric"
    quality = QUALITIES[place := np.asarray(whole.argmax() if one else table.argmax(axis=0))]
    if name == "graded" or contradicts_channel(sums, quality, lost):
        return most
    step = np.diff(QUALITIES)[np.minimum(place, len(QUALITIES) - 2)]  # of the grid
    own = np.maximum(entries.sum() if one else entries, 1)
    error = np.sqrt((1 - quality**2) / own + step**2 / 12)
    sign = np.tanh(np.arctanh(np.minimum(quality, 1 - 1e-9)) * sums.signed / lost)
    variance = quality**2 * (1 - sign**2) + (0.0 if one else (sign * error) ** 2)
    # How far true means are from a quality with a sign each, beyond chance.
    n = np.maximum(sums.seen, 1.0)
    noise = (1 - np.minimum(quality, 1.0) ** 2) * lost / n
    weight = 1 / np.maximum(noise, 1e-9)
    weight = weight / weight.sum()
    excess = (weight * ((np.abs(sums.signed) / n - quality) ** 2 - noise)).sum()
    excess += np.sqrt(2 * ((weight * noise) ** 2).sum())
    spread, common = float(np.sqrt(max(excess, 0.0))), float(error) if one else np.nan
    return Channel(name, quality * sign, np.sqrt(variance), common, spread)


def contradicts_channel(sums: ClassSums, quality: np.ndarray, lost: np.ndarray) -> bool:
    """Whether means of classes that replicas are drawn from contradict a channel, beyond chance."""
    size = np.abs(sums.signed)
    signed = size * np.tanh(np.arctanh(quality) * size / lost)  # between two points of the grid
    axis = 0 if quality.ndim else None
    found = signed.sum(axis) / np.maximum(sums.seen.sum(axis), TINY)
    rate = (1 + np.minimum(found, QUALITIES[-1])) / 2
    right, wrong = (np.maximum(sums.seen + x, TINY) / 2 / lost for x in (size, -size))
    tails = np.minimum(betainc(right, wrong + 1, rate), betainc(wrong, right + 1, 1 - rate))
    return bool(2 * tails.size * tails.min() < ODD)


def pattern_gains(sums: ClassSums) -> np.ndarray:
    """(R, N) log-likelihood at R qualities of columns of classes that replicas are drawn from."""
    size = np.abs(sums.signed)
    single = size.astype(np.float32)  # exp and log are then off by a ten-millionth
    odds, even = np.arctanh(QUALITIES), np.log1p(-(QUALITIES**2)) / 2 - np.log(2)
    found = np.outer(even, sums.seen.sum(axis=0)) + np.outer(odds, size.sum(axis=0))
    for c, line in zip(odds, found, strict=True):
        line += np.log1p(np.exp(np.float32(-2 * c) * single)).sum(axis=0, dtype=np.float64)
    return np.asarray(found - len(size) * np.log(2))


MISSED = 2.0  # times the squared strength of the weakest spike, up to which a class may be missed
LEAST = 1e-3  # variance within classes that a column is taken to have, at least
SUREST = 1 - 1e-12
SCARCE = 3.0  # rows of the rarer value, below which a rate is near 0 or 1
CERTAIN = 1.96  # standard errors to each side of an interval of 95%


def expected_overlaps(
    means: np.ndarray, errors: np.ndarray, shares: np.ndarray, channel: str, observed: Any = 1.0
) -> np.ndarray:
    """(K,) expected overlaps of the classes that replicas are drawn from with the true classes."""
    apart = np.eye(len(means)) - shares / shares.sum()  # of differences from the mean of all rows
    signal = ((apart @ means) ** 2).sum(axis=1)
    noise = apart**2 @ (errors**2).sum(axis=1)
    more = np.ones(1)  # of one class, all rows: it differs from nothing
    if len(means) > 1:  # squared errors that a class below the threshold may add, over those
        weights = shares / shares.sum()
        within = np.maximum(weights @ (1 - means**2), LEAST)
        lengths = (observed * (means - weights @ means) ** 2 / within).sum(axis=1)
        more = 1 + MISSED / np.maximum(lengths, TINY)
    if channel == "symmetric":
        sign = np.abs(means) / np.sqrt(np.maximum(means**2 + errors**2, TINY))
        odds = np.arctanh(np.minimum(sign, SUREST)) / more[:, None]
        return np.asarray(np.where(errors > 0, np.tanh(odds), sign).mean(axis=1))
    return np.asarray(np.sqrt(signal / np.maximum(signal + more * noise, TINY)))


def nearness(channel: Channel, shares: np.ndarray, rows: float, observed: Any = 1.0) -> Nearness:
    """Nearness to the true classes of those that replicas are drawn from; rows to resolve all."""
    means, errors, one = channel.means, channel.errors, channel.name == "symmetric"
    overlaps = expected_overlaps(means, errors, shares, channel.name, observed)
    N = means.shape[1]  # the level is that of signs, or of a cosine of profiles
    level = RESOLVED + OPTIMISM + RESOLVED * (1 - RESOLVED**2) / 2 * float(np.sqrt(2 / N))
    level = float(sure_level(N)) if one else level
    blurred = np.flatnonzero(overlaps < level)
    if not len(blurred):
        return Nearness(overlaps, level, rows)
    if one:
        quality = float(np.sqrt((means**2 + errors**2).max()))
        now = [majority_needed(float(overlaps[k]), quality) for k in blurred]
        factor = majority_needed(level, quality) / np.array(now)
    else:
        short = 1 / np.maximum(overlaps[blurred], 1e-6) ** 2 - 1
        factor = short * level**2 / (1 - level**2)
    return Nearness(overlaps, level, max(float(factor.max()), 1.01) * rows)


def widen_errors(channel: Channel, shares: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(K, N) errors, widened, of means in the channel of classes that replicas are drawn from."""
    if channel.name == "symmetric":
        return channel.errors
    rows = np.nan_to_num((shares[:, None] if channel.name == "graded" else 1.0) * seen)
    rates = np.clip((1 + channel.means) / 2, 0.0, 1.0)
    added = (rows * rates + 2) / (rows + 4)
    half = np.abs(added - rates) + CERTAIN * np.sqrt(added * (1 - added) / (rows + 4))
    near = rows * np.minimum(rates, 1 - rates) < SCARCE
    wide = np.maximum(channel.errors, np.where(near, 2 * half / CERTAIN, 0.0))
    return np.where(channel.errors > 0, wide, 0.0)


SURE = 1.02  # loss of columns taken one by one, below which there is nothing to add
QUIET = 0.05  # variance of an entry below which its mean is left to `loss`
MOST = 800  # means that are taken together; of more, columns are taken one by one
DRAWN = 8  # rows for each mean that are drawn, and
FEWEST = 4_000  # at least
NARROW, MANY = 20, 1 << 18  # columns up to which rows repeat each other, and rows drawn then


def inflation(fit: Fit, seed: int) -> np.ndarray:
    """(K, N) factors by which unsure rows raise variances of means that replicas are drawn from."""
    sums, c = fit.sums, fit.prior.concentration
    counts = sums.counts.sum(axis=0)
    if fit.size == 1 or sums.pairs is None:
        return np.ones(fit.classes.means.shape)
    found = loss(counts, sums.pairs, fit.prior.observed, c)
    clear = (1 - fit.classes.means**2 > QUIET) & (fit.prior.observed > 0)
    size = int(clear.sum()) + fit.size
    if found.max() < SURE or size > MOST:
        return found
    missing = _missing(fit, clear, max(FEWEST, DRAWN * size), seed)
    complete = np.outer(counts, fit.prior.observed)[clear]
    shares = counts / counts.sum()
    information = np.diag(np.concatenate([complete, counts])) - missing
    information[-fit.size :, -fit.size :] -= counts.sum() * np.outer(shares, shares)
    values, E = np.linalg.eigh(information)
    prior = np.concatenate([np.full(len(complete), c), np.ones(fit.size)])
    inverse = np.linalg.inv((E * np.maximum(values, 0.0)) @ E.T + np.diag(prior))
    variance = np.diag(inverse)[: len(complete)]
    found[clear] = np.maximum(variance * (c + complete), found[clear])
    return found


def _missing(fit: Fit, clear: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Information that unsure rows lose, about the means in `clear` (K, N) and the K shares."""
    counts, held = fit.sums.counts.sum(axis=0), _drawn(fit, rows, seed)
    x, often, means = kernels.unpack(held, np.float32), held.weights, fit.classes.means
    means = means_inside(means)
    owner = Owner(replace(held, counts=None), 0, fit.prior.variables)
    owner.learn(means, counts / counts.sum())
    w, scores, label = np.asarray(owner.posterior), [], []
    for k, T in enumerate(means):
        j = np.flatnonzero(clear[k])
        scores.append(np.where(x[:, j] != 0, (x[:, j] - T[j]) / np.sqrt(1 - T[j] ** 2), 0.0))
        label += [k] * len(j)
    of = np.array([*label, *range(fit.size)])  # class of each mean, and of each share
    a = np.hstack([*scores, np.ones((len(x), fit.size))])
    weighed = a * w[:, of]
    found = -((weighed * often[:, None]).T @ weighed)
    for at in (np.flatnonzero(of == k) for k in range(fit.size)):
        found[np.ix_(at, at)] += (a[:, at] * often[:, None]).T @ weighed[:, at]
    return np.asarray(found * (counts.sum() / held.size))


def _drawn(fit: Fit, rows: int, seed: int) -> Rows:
    """Draw at least `rows` rows from fitted classes, with gaps as often as columns have them."""
    N, counts, variables = len(fit.prior.observed), fit.sums.counts.sum(axis=0), fit.prior.variables
    given = fit.classes.means, counts / counts.sum(), variables, seed, 0, 0
    if N <= NARROW and fit.prior.observed.min() == 1:  # there are few different rows
        rows = max(rows, int(min(counts.sum(), MANY)))
        one = replace(kernels.pack(np.ones((1, N))), counts=np.array([float(rows)]))
        return draw_counts(one, *given)
    draws = stream(seed, "information").random((rows, N), dtype=np.float32)
    for group in variables.groups:
        draws[:, group] = draws[:, group[:1]]  # a variable is seen as a whole
    seen = draws < fit.prior.observed
    return draw_rows(kernels.pack_masked(seen, ~seen), *given)


BLOCK = 1 << 18  # entries drawn at a time, which stay in the cache
STEPS = 30  # exchanges of a replica's fit at most: it starts at the truth, which is near
NOTHING = 1e-12  # probability
NEAR = 0.3  # nats still to gain, at which a replica's fit ends


def fit_replica(owners: Session, fit: Fit, number: int) -> tuple[Session, ClassSums]:
    """Draw the replica of this number at the owners, and fit it as the rows were."""
    classes = draw_posterior(fit, owners.seed, number)
    means, shares = classes.means, classes.shares
    table = owners.made_of(
        lambda i, owner: redraw_owner(owner, i, means, shares[i], owners.seed, number),
        {"of": means, "of_shares": shares, "number": np.array(number)},
    )
    settled = improve(table, e_step(table, classes, replace(fit.prior, known=True)), STEPS, NEAR)
    remind_owners(table, settled)
    return table, settled.sums


def redraw_owner(
    o: Owner, i: int, means: np.ndarray, shares: np.ndarray, seed: int, number: int
) -> Owner:
    """Owner i of a replica: its rows are drawn from classes, with the gaps of its own."""
    given = means, shares, o.variables, seed, i, number
    if o.variables.steps and not is_survey(o.rows):
        each = np.repeat(np.arange(len(o.rows)), o.rows.weights.astype(int))
        rows = merge_equal_rows(
            draw_rows(replace(o.rows, counts=None)[like(each, o.rows.home)], *given)
        )
    elif o.rows.counts is None or is_survey(o.rows):
        rows = replace(draw_rows(o.rows, *given), counts=o.rows.counts)
    else:
        rows = draw_counts(o.rows, *given)
    return Owner(rows, i, o.variables, np.flatnonzero(~o.free))


def draw_posterior(fit: Fit, seed: int, number: int) -> Mixture:
    """Classes of a replica, drawn from the fitted classes' posterior given each row's class."""
    rng, sums = stream(seed, "plausible", number), fit.sums
    rates, c = fit.prior.rates, fit.prior.concentration
    if np.isinf(c):  # a single class: its columns are drawn as columns of one table
        part = fit.prior.part
        rates = np.where(part > 0, part, rates[part == 0].mean() if (part == 0).any() else 0.5)
        c = replace(fit.prior, rates=rates).likeliest(
            replace(sums, pairs=None), np.arange(len(rates))
        )
    a, b = c * rates + sums.plus, c * (1 - rates) + sums.minus
    drawn_rates = rng.beta(a, b)
    if fit.prior.variables.groups:
        levels = fit.prior.variables.normalised(np.maximum(rng.standard_gamma(a), 1e-12))
        drawn_rates = np.where(fit.prior.variables.inside, levels, drawn_rates)
    return replace(fit.classes, means=2 * drawn_rates - 1)


def draw_rows(
    rows: Rows, means: np.ndarray, shares: np.ndarray, variables: Variables, *key: int
) -> Rows:
    """Rows of a replica: drawn from classes with the gaps of `rows`; `key` names the stream."""
    rng, (M, N) = stream(key[0], "replica", *key[1:]), rows.shape
    # Thresholds of an ordered answer are drawn on the host.
    home = np.empty(0) if variables.steps else rows.home
    xp, counters = namespace(home), -(-N // 16)  # each gives four words, of four draws
    bits = stream(key[0], "entries", *key[1:]).bit_generator.state["state"]["key"]
    levels = variables.normalised((1 + means) / 2)
    cuts = levels * philox.LEVELS
    whole = np.minimum(cuts, philox.LEVELS - 1).astype(np.uint16)
    labels = rng.choice(len(means), M, p=shares / shares.sum())
    labels, cut, rest = (like(x, home) for x in (labels, whole, cuts - whole))
    parts, step = [], max(1, (KEPT if on_device(home) else BLOCK) // N)
    for first in range(0, M, step):
        label = labels[first : first + step]
        words = philox.raw_words(bits, first * counters, len(label) * counters, home)
        draws, sure = words.view(np.uint16).reshape(len(label), -1)[:, :N], cut[label]
        up = draws < sure
        even = xp.nonzero(xp.reshape(draws == sure, -1))[0]  # a finer draw decides
        finer = like(rng.random(len(even)), home) < rest[label[even // N], even % N]
        xp.reshape(up, -1)[even] = finer
        for group in variables.groups:
            below = like(np.cumsum(levels[:, group], axis=1) * philox.LEVELS, home)[label]
            at = (draws[:, group[:1]] >= below[:, :-1]).sum(axis=1)
            up[:, group] = at[:, None] == like(np.arange(len(group)), home)
        if variables.steps:  # gaps of `rows`, but for thresholds that drawn ones decide
            gone = to_host(kernels.unpack(rows[first : first + step])) == 0
            gone = step_gaps(up, gone, variables.steps)
            parts.append(kernels.with_gaps(kernels.pack_masked(up, gone)))
        else:
            parts.append(kernels.pack(up))
    made = kernels.concatenate(parts)
    signs, seen = (None if x is None else like(x, rows.home) for x in (made.signs, made.seen))
    if rows.gaps and not variables.steps:
        seen = rows.seen
        signs &= seen
    return Rows(signs, N, seen)


def draw_counts(
    rows: Rows, means: np.ndarray, shares: np.ndarray, variables: Variables, *key: int
) -> Rows:
    """Rows of a replica with counts, drawn as by `draw_rows`: by column, rows of either sign."""
    rng = stream(key[0], "replica", *key[1:])
    N, seen, often = rows.n, np.ones((1, rows.n), bool), np.array([rows.size])
    if rows.gaps:  # kinds of gaps (G, N), and rows of each
        kinds = merge_equal_rows(replace(rows, signs=rows.seen))
        seen, often = to_host(kernels.unpack(kinds)) > 0, kinds.weights
    each = rng.multinomial(often.astype(np.int64), shares / shares.sum())
    kind, label = np.nonzero(each)
    n, x = each[kind, label], np.zeros((len(kind), N), np.int8)
    rates = variables.normalised((1 + means) / 2)
    alone = [np.array([j]) for j in np.flatnonzero(np.broadcast_to(~variables.inside, N))]
    for group in alone + variables.groups:
        left = np.ones(len(n))  # probability of the levels to come; 0 in rows that have one
        for j in group:
            rate = rates[label, j] / np.maximum(left, NOTHING)
            if len(group) > 1 and j == group[-1]:
                rate = np.ones(len(n))
            there = seen[kind, j]
            up = rng.binomial(n, np.where(there & (left > 0), np.clip(rate, 0.0, 1.0), 0.0))
            x[:, j] = -there.astype(np.int8)
            chosen, others = up > 0, up < n
            higher = x[chosen]
            higher[:, j] = 1
            left = np.concatenate([0 * left[chosen], (left - rates[label, j])[others]])
            x = np.concatenate([higher, x[others]])
            n = np.concatenate([up[chosen], (n - up)[others]])
            kind = np.concatenate([kind[chosen], kind[others]])
            label = np.concatenate([label[chosen], label[others]])
    found = like(x, rows.home)
    packed = kernels.pack_masked(found, found == 0) if rows.gaps else kernels.pack(found)
    return merge_equal_rows(replace(packed, counts=n.astype(np.float64)))
