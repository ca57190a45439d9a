"""`recover`: from examples by a session and an estimator to archetypes of all columns."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from hopfed._lib.arrays import blas_threads, to_host
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.archetypes import run_file
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.classes import Classes
from hopfed.archetypes.classes import Search as ClassSearch
from hopfed.archetypes.patterns import Patterns
from hopfed.archetypes.row_weights import give_weights, is_survey, repeat_rows, survey_sentence
from hopfed.archetypes.session import ONE_THREAD, Owner, Owners, Recovery
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import Rows
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.examples import as_examples
from hopfed.kernels.place import Place, place_named
from hopfed.runs import Run, to_json_values
from hopfed.spectral.determined import Determined, find_determined_columns
from hopfed.spectral.rank import TracyWidom
from hopfed.spectral.reread_rows import earlier_totals
from hopfed.spectral.rows import column_moments
from hopfed.tables.files import is_many
from hopfed.tables.reading import is_partitioned, read_partitions, read_table, read_tables
from hopfed.tables.table import COLUMNS, Table, is_made_up, match_tables

HOSTED = 1 << 22  # entries up to which classes are fitted on the host
FIRST = 100  # rows of an array that say whether it holds other numbers

__all__ = ["deal_rows", "recover", "run_recovery"]


def recover(
    examples: Any,
    *,
    seed: int = 0,
    quality: float | None = None,
    alpha: float | None = None,
    refit: bool = False,
    channel: str = "auto",
    support: int = 5,
    columns: str = "same",
    device: str | None = None,
    n_archetypes: int | None = None,
    weights: Any = None,
    blocks: int = 1,
    patterns: Patterns | None = None,
) -> Archetypes:
    """Recover the archetypes behind binary examples, with a status that says how far to trust them.

    Parameters
    ----------
    examples : (M, N) array of +-1, 0/1 or booleans, or a list of such arrays, one for each owner;
        NaN, None and masked entries are missing, and so is 0 where -1 occurs. Or a table of
        `hopfed.read_table`, a source that it reads, or a list of those: columns are matched by name
        then, and the result knows their names. Tables that do not fit into `memory` are read again
        for every sum. An array or a frame of Dask, a folder, a zarr store and many files
        ("data/*.parquet") are one owner's, whose partitions stay on Dask's workers. Owners exchange
        operators, sums over classes and small matrices, never examples. Arrays and bits on a device
        stay there unless `device` says otherwise; the result is on the host.
    seed : seed of every random choice; the same seed gives the same result.
    quality : r in (0, 1] when known; estimated otherwise.
    alpha : false-alarm rate of the count, 0.001 when left out.
    refit : one more exchange, which brings the patterns to the bound given by true labels.
    channel : "symmetric", every column flipped equally often; "graded", a mean for each class and
        column, each with its error; or "auto": the simplest that the rows bear out. `quality`,
        `refit` and `patterns` set the symmetric one; where the rows do not bear it out the status
        is "poor fit". "symmetric" by name is not tested. Both need complete rows.
    support : examples that an archetype must have; an archetype of fewer is not shown to anyone.
    columns : of tables with names: "same", and other columns are refused; "union", and columns that
        an owner lacks are missing in all of its rows; or "shared", the columns that all have.
    device : "cpu", "cuda" or "cuda:N", where the work is done; None is where the examples are.
    n_archetypes : K, if you set the number; the status still says whether the rows bear it out.
        Classes with a mean for each column are fitted then.
    weights : (M,) numbers, or a list of those, one for each owner. Whole numbers say how often a
        row occurs. Others are weights of a survey, whose scale says nothing
        (`hopfed.archetypes.row_weights`): classes with a mean for each column are fitted then.
    blocks : number of rows in a block, where rows follow each other in time, or those of a block
        resemble each other: the first row of each block of every table is taken, and no other.
    patterns : the estimator of the symmetric channel, where an experiment sets more of it (the rule
        that counts, the method), in the place of `quality`, `alpha`, `refit` and `support`.

    Returns
    -------
    Archetypes, oriented as the examples point, heaviest first. Look at `status`: it says if not all
    could be found; nothing is made up.

    Raises
    ------
    DataError : examples that are not binary, or fewer than two.
    ArgumentError : another argument breaks its rule.
    BackendError : the device, or what it needs, is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> xi = rademacher(3, 200, rng)
    >>> found = recover(draw_examples(xi, 600, 0.8, rng)[0], seed=1)
    >>> found.status, found.n_detected
    ('ok', 3)
    """
    given = dict(locals())
    warn_of_input(examples)
    return run_recovery(**given).archetypes


def run_recovery(
    examples: Any,
    *,
    seed: int = 0,
    device: str | None = None,
    columns: str = "same",
    channel: str = "auto",
    n_archetypes: int | None = None,
    weights: Any = None,
    blocks: int = 1,
    patterns: Patterns | None = None,
    **options: Any,
) -> Recovery:
    """Recover archetypes as `recover` does, and return the traffic and the spectrum as well.

    `examples`, `seed`, `device`, `columns`, `channel`, `n_archetypes`, `weights`, `blocks`,
    `patterns` and other `options` are those of `recover`.

    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> recovery = run_recovery([x[:300], x[300:]], seed=1, quality=0.8)
    >>> recovery.n_examples, recovery.traffic.up.tolist()
    ([300, 300], [43628, 43628])
    """
    patterns = patterns_of(channel, patterns, **options)
    for name, number in (("blocks", blocks), ("n_archetypes", n_archetypes)):
        whole = number is None or (isinstance(number, Integral) and number >= 1)
        require(whole, name, "a whole number, at least 1", number)
    asked = channel == "graded"
    if n_archetypes is not None:
        rule = "without quality, refit, patterns and the channel symmetric"
        require(not patterns.only, "n_archetypes", rule, patterns.asked or "symmetric")
        channel = "graded"
    there = None if device is None else place_named(device)
    if there is not None:
        there.open()  # an error where it is missing, before anything is packed
    require(columns in COLUMNS, "columns", f"one of {', '.join(COLUMNS)}", columns)
    tables = tables_of(examples, columns)
    coding, names = (None, None) if tables is None else (tables[0].coding, tables[0].columns)
    called = None if names is None or is_made_up(names) else names
    known = () if coding is None or patterns.only else coding.groups
    steps = () if coding is None else coding.steps
    rule = "auto or graded with ordered answers"
    require(not (steps and patterns.only), "channel", rule, patterns.asked or "symmetric")
    with nullcontext() if there is None else there.current():
        given = examples if tables is None else [t.rows for t in tables]
        clients = packed_rows(given, patterns.only and (patterns.asked or "channel"))
        as_they_came = weights is None and all(rows.counts is None for rows in clients)
        clients = clients if weights is None else give_weights(clients, weights)
        if blocks > 1:
            clients = [rows.chosen(slice(None, None, blocks)) for rows in clients]
        clients = repeat_rows(clients)
        if survey := any(map(is_survey, clients)):
            require(not patterns.only, "weights", "whole numbers for the symmetric channel", "some")
            channel = "graded"
        if n_archetypes is not None and n_archetypes > (M := sum(map(len, clients))):
            raise DataError(f"{n_archetypes:,} archetypes of {M:,} rows: ask for fewer")
        if not all(rows.held for rows in clients):
            here = there is None or there.ordinal is None
            require(here, "device", "cpu where rows are not held", str(there))
        elif there is not None:
            clients = [there.put(rows) for rows in clients]
        bare = [replace(rows, counts=None) for rows in clients] if survey else clients
        apart = find_determined_columns(bare, known, seed, steps)
        kept = [apart.of(rows) for rows in bare]
        if survey:  # of which all are held
            pairs = zip(kept, clients, strict=True)
            kept = [replace(rows, counts=own.counts) for rows, own in pairs]
        session = Owners.over(kept, seed, as_they_came)
        # Beside a device the host solves small problems, for which threads wait for each other.
        with blas_threads(1 if any(map(on_device, clients)) else None):
            gaps, levels = any(r.gaps for r in kept), apart.kept_groups and not patterns.only
            recovery = None
            if channel != "graded" and not gaps and not levels:
                recovery = patterns.fit(session)
            if recovery is None or not recovery.final:
                how = {"rule": patterns.rule, "search": ClassSearch(support=patterns.support)}
                how |= {"number": n_archetypes, "graded": asked}
                state = recovery.archetypes if recovery else None
                recovery = _graded(session, apart, steps, called, state, **how)
        found = _filled(recovery.archetypes, apart, clients)
    left_out = apart.advice(called, known)
    advice = found.advice + (f" {left_out}" if left_out else "") + survey_sentence(clients)
    residual = recovery.residual
    if residual is not None:
        residual = replace(residual, columns=apart.kept[residual.columns])
    single = np.flatnonzero(apart.single & (not apart.whole))
    constant = np.union1d(apart.kept[recovery.constant_columns], single)
    return replace(
        recovery,
        archetypes=replace(found, advice=advice, columns=names, coding=coding),
        constant_columns=constant.astype(int),
        residual=residual,
        traffic=session.traffic,
        exchanges=session.exchanges,
        n_examples=session.sizes.tolist(),
        # Of bits, of two planes where entries are missing.
        raw_nbytes=[-(-(1 + r.gaps) * len(r) * r.n // 8) for r in kept],
        readings=max(rows.readings for rows in clients),
    )


def _graded(
    session: Owners, apart: Determined, steps: Any, names: Any, state: Archetypes | None, **how: Any
) -> Recovery:
    """Fit classes to a session's rows, on the host where few entries would wait for a device."""
    if names is not None or not apart.whole:
        names = [str(j + 1) if names is None else names[j] for j in apart.kept]
    place = {j: i for i, j in enumerate(apart.kept.tolist())}
    within = [kept for group in steps if len(kept := [place[j] for j in group if j in place]) > 1]
    classes = Classes(groups=apart.kept_groups, steps=within, names=names, **how)
    entries = session.n_rows * session.n_columns
    if entries <= HOSTED and any(on_device(own.rows) for own in session.members):
        session.members = [Owner(Place().put(own.rows), own.index) for own in session.members]
    with blas_threads(1 if entries <= ONE_THREAD else None):
        return classes.fit(session, state)


def _filled(found: Archetypes, apart: Determined, clients: Sequence[Rows]) -> Archetypes:
    """Archetypes of all columns: columns left out of the fit follow their leaders, or all rows."""
    level = apart.level if apart.groups else None
    if apart.whole:
        return replace(found, levels=level)
    signs = apart.filled(found.patterns.astype(np.float64))
    patterns = np.where(signs < 0, -1, 1).astype(np.int8)
    new = replace(found, patterns=patterns, levels=level, leaders=apart.signed)
    if found.graded_means is not None:
        new = replace(new, graded_means=apart.filled(found.graded_means))
    if found.own_errors is not None:
        each = [to_host(column_moments(rows)[1]).astype(np.float64) for rows in clients]
        seen = np.array(each).sum(axis=0)
        new = replace(new, own_errors=apart.filled_errors(found.own_errors, seen))
    return new


def deal_rows(examples: Rows, clients: int, seed: int) -> list[Rows]:
    """Deal examples to recover from, M packed rows, to `clients` at random, as evenly as possible.

    `clients` is a number from 1 to M / 2; `seed` is that of the deal.

    >>> from hopfed.kernels import pack
    >>> [part.shape for part in deal_rows(pack(np.ones((7, 3))), 3, seed=0)]
    [(3, 3), (2, 3), (2, 3)]
    """
    repeated = examples.counts is not None and not is_survey(examples)
    m = examples.size if repeated else examples.shape[0]
    if not 1 <= clients <= m // 2:
        raise ArgumentError("clients", f"between 1 and {m // 2} for {m} examples", clients)
    order = stream(seed, "split").permutation(m)
    parts = [np.sort(part) for part in np.array_split(order, clients)]
    if not repeated:
        return [examples.chosen(part) for part in parts]
    every = np.repeat(np.arange(len(examples)), examples.weights.astype(np.int64))
    dealt = [np.unique(every[part], return_counts=True) for part in parts]
    return [replace(examples[i], counts=often.astype(np.float64)) for i, often in dealt]


def packed_rows(examples: Any, asked: str | bool = False) -> list[Rows]:
    """Pack arrays of rows that owners give `recover`; `asked` names an option against gaps."""
    if isinstance(examples, Rows) or hasattr(examples, "shape"):
        examples = [examples]
    if not isinstance(examples, Sequence) or len(examples) == 0:
        raise DataError("examples must be an array or a list of arrays, one for each owner")
    packed = [
        as_examples(e, name=f"examples[{i}]", gaps=True) if earlier_totals(e) is None else e
        for i, e in enumerate(examples)
    ]
    if asked and any(rows.gaps for rows in packed):
        raise DataError(f"examples: entries are missing, and {asked} wants none: leave {asked} out")
    widths = [p.shape[1] for p in packed]
    if len(set(widths)) > 1:
        raise DataError(f"all owners must have the same columns, got {widths} columns")
    return packed


CHANNELS = ("auto", "symmetric", "graded")


def patterns_of(
    channel: str = "auto", patterns: Patterns | None = None, alpha: float | None = None, **how: Any
) -> Patterns:
    """Estimator of patterns for the options of `recover`; an error where they clash."""
    require(channel in CHANNELS, "channel", f"one of {', '.join(CHANNELS)}", channel)
    require(alpha is None or isinstance(alpha, Real), "alpha", "a number", alpha)
    rule = TracyWidom() if alpha is None else TracyWidom(alpha)
    asked = alpha is not None or how.get("quality") is not None or how.get("refit", False)
    both = patterns is not None and asked
    require(not both, "patterns", "given without quality, alpha and refit", "both")
    found = Patterns(rule, **how) if patterns is None else patterns
    clash = channel == "graded" and found.asked
    require(not clash, "channel", f"auto or symmetric with {found.asked}", channel)
    return replace(found, believed=channel == "symmetric")


def tables_of(examples: Any, columns: str = "same") -> list[Table] | None:
    """Tables that a caller gives `recover` as examples, columns in one order; None for arrays."""

    def table(given: Any) -> Table:
        if isinstance(given, Table):
            return given
        return read_partitions(given) if _is_parts(given) else read_table(given)

    if _is_named(examples):
        return [table(examples)]
    if not isinstance(examples, Sequence) or not any(map(_is_named, examples)):
        return None
    if not any(isinstance(p, Table) or is_partitioned(p) or _is_parts(p) for p in examples):
        return read_tables(list(examples), columns=columns)
    require(columns == "same", "columns", "same where tables were read one by one", columns)
    return match_tables([*map(table, examples)], [f"examples[{i}]" for i in range(len(examples))])


def warn_of_input(examples: Any) -> None:
    """Warn of arrays given to `recover` in which 0 stands beside -1, and so is missing."""
    several = isinstance(examples, list | tuple) and not _is_rows(examples)
    given = examples if several else [examples]
    arrays = [part for part in given if isinstance(part, np.ndarray) and part.dtype.kind in "if"]
    if any(part.size and part.min() == -1 and not part.all() for part in arrays):
        warnings.warn(
            "examples: 0 is missing, as -1 occurs; where 0 means no, give np.where(x == 0, -1, x);"
            " where it means no and -1 no answer, give np.where(x == -1, np.nan, x)",
            stacklevel=3,
        )


def _is_parts(given: Any) -> bool:
    """Whether examples name the many files of one table, such as a folder."""
    return isinstance(given, str | os.PathLike) and is_many(os.fspath(given))


def _is_named(given: Any) -> bool:
    """Whether examples are a table, or are read as one, so that they are not packed as they are."""
    kinds = ("__arrow_c_stream__", "__dataframe__", "obs_names", "tocsr", "collect_schema")
    frame = not isinstance(given, Rows) and any(hasattr(given, kind) for kind in kinds)
    kind = isinstance(given, Table | dict | str | os.PathLike) or is_partitioned(given)
    if kind or frame or _is_rows(given):
        return True
    if type(given) is not np.ndarray or given.ndim != 2 or given.dtype.kind not in "iuf":
        return False
    some = given[:FIRST]  # other numbers, such as 1 and 2, are coded by column
    return not np.isin(some[some == some], (-1, 0, 1)).all()


def _is_rows(given: Any) -> bool:
    """Whether examples are a list of rows of cells."""
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], list | tuple):
        return False
    return all(cell is None or isinstance(cell, bool | int | float | str) for cell in given[0])


def as_run(recovery: Recovery, config: dict[str, Any]) -> Run:
    """Turn what `recover` found into a run for a run file; no example of any client is in it."""
    alone, said = run_file.as_run(recovery.archetypes), report(recovery, 0.0)
    del said["seconds"]
    constant = {"columns/constant": recovery.constant_columns}
    arrays = {"spectrum/eigenvalues": recovery.eigenvalues} | constant
    summary = {n: getattr(recovery, n) for n in ("threshold", "rule", "n_examples")} | said
    config, arrays = config | alone.config, alone.arrays | arrays
    return replace(alone, config=config, arrays=arrays, summary=alone.summary | summary)


def report(recovery: Recovery, seconds: float) -> dict[str, Any]:
    """Return what `recover` found as the values that `hopfed recover --json` prints."""
    found = recovery.archetypes
    made = {
        **run_file.summary_of(found),
        **{name: getattr(found, name) for name in (*run_file.SCORES, "exposure_errors")},
        "seconds": seconds,
        "bytes_sent": recovery.traffic.up,
        "bytes_dense": 4 * found.patterns.shape[1] ** 2,
        "bytes_raw": recovery.raw_nbytes,
        "exchanges": recovery.exchanges,
        "constant_columns": recovery.constant_columns,
    }
    if recovery.readings > 1:
        made["readings"] = recovery.readings
    if recovery.residual is not None:
        made["log_likelihood"] = recovery.log_likelihood
        made["dependent_columns"] = recovery.residual.columns
    if found.columns is not None and not is_made_up(found.columns):
        made["columns"] = list(found.columns)
        for kind in ("constant_columns", "dependent_columns"):
            made[kind] = [found.columns[j] for j in made.get(kind, ())]
    return cast(dict[str, Any], to_json_values(made))
