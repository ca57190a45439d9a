"""`compare`: fits of the same rows with one archetype, with two, and so on, in a table.

For each number the likeliest classes are fitted, without any prior: with log-likelihood L and p
parameters of M rows ``AIC = 2 p - 2 L`` and ``BIC = p log M - 2 L``.

Sources: Schwarz, Annals of Statistics 6 (1978) 461 (BIC); Celeux and Soromenho, Journal of
Classification 13 (1996) 195 (entropy); McLachlan, Applied Statistics 36 (1987) 318 (bootstrap of
the likelihood ratio).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.assignment import variables_of
from hopfed.archetypes.display import Tabular
from hopfed.archetypes.row_weights import give_weights, repeat_rows
from hopfed.archetypes.session import step_gaps
from hopfed.archetypes.verdict import NO_CLASSES
from hopfed.kernels import Rows
from hopfed.recovery.recover import packed_rows, run_recovery, tables_of

__all__ = ["Comparison", "compare"]

# Column of the table -> its decimals; `p_value` comes with a bootstrap only.
COLUMNS = {
    "archetypes": 0,
    "log_likelihood": 2,
    "parameters": 0,
    "BIC": 1,
    "AIC": 1,
    "entropy": 3,
    "smallest": 1,
    "residual": 2,
    "p_value": 3,
}


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Comparison of fits with different numbers of archetypes: the result of `compare`.

    Attributes
    ----------
    table : for each column of `COLUMNS` an array, one entry for each number of archetypes: nats,
        parameters, criteria (lower is better), entropy (1 where every row is sure of its class),
        rows of the smallest class, and the residual dependence of columns over the edge of noise.
    statuses : status of each number; "too few" where a larger number is ok.
    found : the archetypes of each number.
    taken : what `hopfed.recover` finds, with its own number and status.

    >>> import hopfed
    >>> x = np.random.default_rng(0).integers(0, 2, (100, 4))
    >>> hopfed.compare(x, [1, 2]).table["parameters"].tolist()
    [4, 9]
    """

    table: dict[str, np.ndarray]
    statuses: tuple[str, ...]
    found: tuple[Archetypes, ...] = field(repr=False)
    taken: Archetypes = field(repr=False)

    picture = "draw_comparison"

    def sentences(self) -> list[str]:
        """Sentences about the number that hopfed takes, and why, and the number of lowest BIC."""
        best, taken = int(self.table["archetypes"][self.table["BIC"].argmin()]), self.taken
        said = f"hopfed takes {len(taken)} ({taken.status}): {taken.advice}"
        return [f"{said} BIC is lowest at {best}."]

    @property
    def columns(self) -> list[tuple[str, np.ndarray]]:
        """Names and entries of the columns, the status last."""
        return [*self.table.items(), ("status", np.array(self.statuses, object))]


def compare(
    examples: Any,
    numbers: Iterable[int] = range(1, 9),
    *,
    seed: int = 0,
    columns: str = "same",
    device: str | None = None,
    weights: Any = None,
    bootstrap: int = 0,
) -> Comparison:
    """Fit the rows with each number of archetypes, and compare the fits in a table.

    Parameters
    ----------
    examples, seed, columns, device, weights : as of `hopfed.recover`.
    numbers : of archetypes, ascending.
    bootstrap : number of tables drawn from the fit of K - 1 archetypes; the p-value of K is the
        part whose likelihood ratio is at least that of the rows. 0 for none. Tables have the gaps,
        levels and copied columns of the rows. It is slow: each table is fitted twice.

    Raises
    ------
    ArgumentError : numbers that do not ascend from 1 at least, or a negative `bootstrap`.
    DataError : more archetypes than rows, and what `hopfed.recover` raises.

    Examples
    --------
    >>> from hopfed.hopfield.channel import small_sample
    >>> compared = compare(small_sample()[1][:, :20], [2, 3])
    >>> len(compared.taken), (compared.table["BIC"][1] < compared.table["BIC"][0])
    (3, np.True_)
    """
    wanted = list(numbers)
    good = wanted == sorted(set(wanted)) and all(isinstance(K, Integral) for K in wanted)
    good = good and bool(wanted) and wanted[0] >= 1
    require(good, "numbers", "of archetypes, ascending, from 1 at least", wanted)
    require(bootstrap >= 0, "bootstrap", "a number of tables, at least 0", bootstrap)
    tables = tables_of(examples, columns)
    given = examples if tables is None else tables
    how: dict[str, Any] = {"seed": seed, "device": device, "weights": weights}
    taken = run_recovery(given, **how)
    fits = [run_recovery(given, n_archetypes=K, **how) for K in wanted]
    lines = []
    for K, fit in zip(wanted, fits, strict=True):
        L, p, M, entropy, smallest = fit.likeliest.values()
        left = fit.residual.ratio if fit.residual is not None else np.nan
        lines.append([K, L, p, p * np.log(M) - 2 * L, 2 * p - 2 * L, entropy, smallest, left])
    whole = {"archetypes", "parameters"}
    columns_of = zip(COLUMNS, zip(*lines, strict=True), strict=False)
    table = {n: np.array(x, int if n in whole else float) for n, x in columns_of}
    if bootstrap:
        rows = packed_rows(given if tables is None else [t.rows for t in tables])
        rows = repeat_rows(rows if weights is None else give_weights(rows, weights))
        table["p_value"] = np.array(_p_values(rows, wanted, fits, bootstrap, seed))
    found = tuple(fit.archetypes for fit in fits)
    last = max((i for i, f in enumerate(found) if f.status == "ok"), default=0)
    few = (i < last and f.status == NO_CLASSES for i, f in enumerate(found))
    said = tuple("too few" if less else f.status for less, f in zip(few, found, strict=True))
    return Comparison(table, said, found, taken.archetypes)


def _p_values(
    rows: list[Rows], numbers: list[int], fits: list[Any], tables: int, seed: int
) -> list[float]:
    """P-values of numbers of archetypes: part of drawn tables that favour each as the rows do."""
    found = [np.nan]
    for at in range(1, len(numbers)):
        less = fits[at - 1].archetypes
        more, fewer = (fits[k].likeliest["log_likelihood"] for k in (at, at - 1))
        ratio = more - fewer
        shares = less.client_shares if less.client_shares is not None else less.shares[None]
        ratios = []
        for draw in range(tables):
            drawn_rows = [
                _drawn(own[:], replace(less, exposures=share), derive(seed, "bootstrap", i, draw))
                for i, (own, share) in enumerate(zip(rows, shares, strict=True))
            ]
            both = [
                run_recovery(drawn_rows, n_archetypes=K, seed=seed).likeliest["log_likelihood"]
                for K in (numbers[at - 1], numbers[at])
            ]
            ratios.append(both[1] - both[0])
        found.append((1 + sum(r >= ratio for r in ratios)) / (1 + tables))
    return found


def _drawn(rows: Rows, found: Archetypes, seed: int) -> Rows:
    """Rows of a bootstrap table, drawn from archetypes, with the gaps of `rows`."""
    x, steps = found.sample(len(rows), seed)[0], variables_of(found).steps
    gone = step_gaps(x > 0, kernels.unpack(rows) == 0, steps) if rows.gaps else None
    bits = kernels.pack_masked(x > 0, gone)
    return replace(bits, counts=rows.counts)
