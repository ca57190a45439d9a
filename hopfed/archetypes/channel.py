"""Which channel fits classes: +-1 patterns with one quality, with one for each column, or graded.

All three are special cases of classes with independent columns:

- *symmetric*: ``T = r xi`` with xi of +-1 and one r;
- *by column*: ``T_mu,j = r_j xi_mu,j``;
- *graded*: any T.

Each is averaged over what it leaves open (patterns over both signs, means over their prior; a
quality costs ``log(n) / 2``), and the highest evidence wins. The sums of one exchange suffice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hopfed.archetypes.graded.fitting.expectation_maximization import Fit
from hopfed.archetypes.graded.fitting.mixture import ClassSums, loss
from hopfed.kernels.cpu.threads import for_each, spans

QUALITIES = np.concatenate([np.linspace(0.0, 0.9, 46), 1 - np.geomspace(0.095, 1e-4, 40)])
NAMES = ("symmetric", "by column", "graded")
FACTORS = 100  # between a half and one, whose product is a number in single precision
CACHED = 1 << 15  # numbers that are worked on at a time


@dataclass(frozen=True)
class Channel:
    """The channel that won.

    Attributes
    ----------
    name : one of NAMES.
    gains : evidence of each channel, by name, up to what they share.
    means, errors : (K, N) of the classes in that channel, and their standard errors; rows that are
        unsure of their class tell less. In the symmetric channel they are those at the quality r.
    quality : r, a number or one for each column; None where graded.
    quality_error : its standard error, of the same shape; None where graded.
    spread : standard deviation of true means about what one quality makes of them, 0 where graded:
        the channel that wins is the simplest that does, and means that differ by less than the
        rows can tell are not equal.
    """

    name: str
    gains: dict[str, float]
    means: np.ndarray
    errors: np.ndarray
    quality: np.ndarray | None
    quality_error: np.ndarray | None = None
    spread: float = 0.0

    @property
    def one_error(self) -> float:
        """Standard error of a quality that all columns share; NaN without one."""
        error = self.quality_error
        return np.nan if error is None or error.ndim else float(error)

    def ordered(self, order: np.ndarray) -> Channel:
        """The same with its classes in another order."""
        return replace(self, means=self.means[order], errors=self.errors[order])


def choose(fit: Fit, lost: np.ndarray | None = None) -> Channel:
    """Compare the channels on the sums of fitted classes."""
    sums = fit.sums
    own = {"graded": float(fit.prior.gain(sums).sum())}
    means = fit.classes.means
    weighed = sums.seen + (fit.prior.concentration if fit.size > 1 else 0.0)
    spread = np.maximum(1 - means**2, 0.0)  # a mean of 1 may be rounded up
    more = _one_by_one(fit) if lost is None else lost
    graded = Channel("graded", own, means, np.sqrt(spread * more / (weighed + 1)), None)
    if fit.size == 1 or fit.prior.variables is not None:
        return graded
    table = pattern_gains(sums)
    entries = sums.seen.sum(axis=0)
    whole = table.sum(axis=1)
    best, each = int(whole.argmax()), table.argmax(axis=0)
    gains = {
        "symmetric": float(whole[best] - np.log(max(entries.sum(), 1.0)) / 2),
        "by column": float(table.max(axis=0).sum() - (np.log(np.maximum(entries, 1)) / 2).sum()),
        **own,
    }
    name = max(gains, key=lambda n: gains[n])
    if name == "graded":
        return replace(graded, gains=gains)
    one = name == "symmetric"
    quality = np.asarray(QUALITIES[best] if one else QUALITIES[each])
    error = quality_errors(quality, entries.sum() if one else entries)
    sign = np.tanh(np.arctanh(np.minimum(quality, 1 - 1e-9)) * sums.signed / more)
    variance = quality**2 * (1 - sign**2) + (0.0 if one else (sign * error) ** 2)
    spread = spread_about(sums, quality, more)
    return Channel(name, gains, quality * sign, np.sqrt(variance), quality, error, spread)


def spread_about(sums: ClassSums, quality: np.ndarray, more: np.ndarray | float = 1.0) -> float:
    """Standard deviation of true means about a quality, with a sign each, beyond chance.

    That of the squares of what is observed less what chance adds to them, and a standard error.
    """
    n = np.maximum(sums.seen, 1.0)
    means = np.abs(sums.signed) / n
    noise = (1 - np.minimum(quality, 1.0) ** 2) * more / n
    weight = 1 / np.maximum(noise, 1e-9)
    weight = weight / weight.sum()
    excess = (weight * ((means - quality) ** 2 - noise)).sum()
    error = np.sqrt(2 * ((weight * noise) ** 2).sum())
    return float(np.sqrt(max(excess + error, 0.0)))


def quality_errors(quality: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Standard errors of qualities that were read off the grid QUALITIES.

    That of the share of so many observed entries that agree with the pattern, and the rounding to
    the grid.
    """
    place = np.abs(QUALITIES - quality[..., None]).argmin(axis=-1)
    step = np.diff(QUALITIES)[np.minimum(place, len(QUALITIES) - 2)]
    return np.asarray(np.sqrt((1 - quality**2) / np.maximum(entries, 1) + step**2 / 12))


def _one_by_one(fit: Fit) -> np.ndarray:
    """By how much the variances (K, N), or (1, 1), are above those of rows that are sure."""
    if fit.size == 1 or fit.sums.pairs is None:
        return np.ones((1, 1))
    counts = fit.sums.counts.sum(axis=0)
    return loss(counts, fit.sums.pairs, fit.prior.observed, fit.prior.concentration)


def pattern_gains(sums: ClassSums) -> np.ndarray:
    """(R, N) log-likelihood of each column at each quality, averaged over both signs of patterns.

    With s the sum of a class's n entries, the log of the mean of both likelihoods is
    ``n log(sqrt(1 - r^2) / 2) + log cosh(s atanh r)``. ``log cosh x`` is |x| plus the log of
    ``(1 + e^(-2 |x|)) / 2``; these factors are multiplied over classes before the log is taken.
    """
    size, columns = np.abs(sums.signed), sums.signed.shape[1]
    single = size.astype(np.float32)  # exp of them is off by a ten-millionth of itself
    odds, even = np.arctanh(QUALITIES), np.log1p(-(QUALITIES**2)) / 2 - np.log(2)
    found = np.outer(even, sums.seen.sum(axis=0)) + np.outer(odds, size.sum(axis=0))

    def task(span: tuple[int, int]) -> None:
        part = single[:, slice(*span)]
        work = np.empty_like(part)
        for c, line in zip(odds, found[:, slice(*span)], strict=True):
            np.exp(np.multiply(part, np.float32(-2 * c), out=work), out=work)
            work += 1.0
            work *= 0.5
            for first in range(0, len(work), FACTORS):
                line += np.log(work[first : first + FACTORS].prod(axis=0).astype(np.float64))

    for_each(task, spans(columns, max(1, CACHED // len(size))))
    return found
