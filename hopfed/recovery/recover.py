"""`recover`: from binary examples, in one place or several, to archetypes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed._lib.settings import require
from hopfed.archetypes.annealed_search import Search
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.graded.owners.asking import ONE_THREAD
from hopfed.errors import ArgumentError, DataError
from hopfed.kernels import MaskedBits
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.place import Place, place
from hopfed.recovery.cautions import with_cautions, with_open_rates, with_trait
from hopfed.recovery.columns import with_all_columns
from hopfed.recovery.moments import Federation
from hopfed.recovery.routes import Recovery, graded_recovery, judged, symmetric_recovery
from hopfed.recovery.settings import Settings, named_rule, tables_of, warn_of_input
from hopfed.spectral.determined import determined
from hopfed.spectral.rank import RankRule
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.rows import Bits, array_beside
from hopfed.tables.examples import as_examples
from hopfed.tables.table import check_choice, is_made_up

Rows = Bits | Reread  # of one client, held or not


def recover(
    examples: Any,
    *,
    seed: int = 0,
    quality: float | None = None,
    method: str = "auto",
    rank_rule: str | float = "tw",
    alpha: float | None = None,
    groups: int = 10,
    search: Search | None = None,
    refit: bool = False,
    channel: str = "auto",
    masked: bool = False,
    support: int = 5,
    columns: str = "same",
    device: str | None = None,
) -> Archetypes:
    """Recover the archetypes behind binary examples.

    Parameters
    ----------
    examples : (M, N) array of +-1, 0/1 or booleans, or a list of such arrays, one for each owner;
        NaN, None and masked entries are missing, and 0 is where -1 occurs. Or a table of
        `hopfed.read_table`, or what that makes a table of, or a list of those: columns are matched
        by name then, and the result knows their names. Tables that were read with `memory` and did
        not fit are read again for every sum over their rows. An array or a frame of Dask, and the
        path of a folder of files, of a zarr store or of many files ("data/*.parquet"), is one
        owner's: its partitions are read, and stay as bits, on Dask's workers. Owners exchange
        operators, sums over classes and small matrices with the server, never examples. Arrays on a
        device (CuPy, PyTorch) and bits packed there stay there, all owners' on one, unless `device`
        says otherwise; the result is on the host.
    seed : of every random choice; the same seed gives the same result.
    quality : r in (0, 1] when known; estimated otherwise.
    method : "auto", "joint", "layered" or "paper"; see
        `hopfed.archetypes.factorize.factorize`. Where one spectrum is too crowded "auto" goes on in
        layers, `hopfed.recovery.patterns`.
    rank_rule : "tw" (Tracy-Widom), "mp", "shuffle", or a number for the paper's fixed tau.
    alpha : false-alarm rate of "tw" (default 0.001) and "shuffle" (default 0.05).
    groups : random groups formed inside the data, over all owners together.
    refit : one more exchange, which brings the patterns to the bound given by true labels.
    search : settings of the search, `hopfed.archetypes.annealed_search.Search`; its defaults when
        left out.
    channel : "symmetric", every column flipped equally often; "graded", a mean for each class and
        column; or "auto": symmetric where entries are complete and the rows bear it out, graded
        otherwise. `quality`, `method`, `rank_rule`, `refit`, `search` and `masked` set the
        symmetric one; the rows are asked all the same, and where they do not bear it out the status
        is "poor fit". Who asks for "symmetric" by name is believed.
    masked : the server sees sums over all owners only, as behind secure aggregation; owners of
        different noise are then not told apart.
    support : examples that an archetype must have. One of fewer says more of them than of a kind,
        and is not shown to anyone.
    columns : of tables with names: "same", and other columns are refused; "union", and what an
        owner lacks is missing in all of its rows, which works well where owners share two thirds of
        the columns; or "shared", the columns that all have.
    device : "cpu", "cuda" or "cuda:N", where the work is done: examples from elsewhere are packed
        where they are, and their bits are moved once. None is where the examples are.

    Returns
    -------
    Archetypes, oriented as the examples point, heaviest first. Look at `status`: what could not
    be found is said there, never made up.

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
    warn_of_input(examples)
    return run_recovery(
        examples,
        seed=seed,
        quality=quality,
        method=method,
        rank_rule=rank_rule,
        alpha=alpha,
        groups=groups,
        search=search,
        refit=refit,
        channel=channel,
        masked=masked,
        support=support,
        columns=columns,
        device=device,
    ).archetypes


def run_recovery(
    examples: Any,
    *,
    seed: int = 0,
    device: str | None = None,
    columns: str = "same",
    **options: Any,
) -> Recovery:
    """Do what `recover` does, and keep the traffic and the spectrum as well.

    Parameters
    ----------
    examples, seed, device, columns : as in `recover`.
    options : the fields of `Settings`.

    Examples
    --------
    >>> from hopfed.hopfield.channel import draw_examples, rademacher
    >>> rng = np.random.default_rng(1)
    >>> x = draw_examples(rademacher(3, 200, rng), 600, 0.8, rng)[0]
    >>> recovery = run_recovery([x[:300], x[300:]], seed=1, quality=0.8)
    >>> recovery.n_examples, recovery.traffic.up.tolist()
    ([300, 300], [41244, 41244])
    """
    settings = Settings(**options)
    rule = named_rule(settings.rank_rule, settings.alpha, seed)
    there = None if device is None else place(device)
    if there is not None:
        there.open()  # that it is not there is said before anything is packed
    check_choice(columns)
    tables = tables_of(examples, columns)
    if tables is not None:
        examples = [table.rows for table in tables]
    coding = None if tables is None else tables[0].coding
    with nullcontext() if there is None else there.current():
        clients = _clients(examples, gaps=not settings.only_symmetric)
        if any(isinstance(rows, Reread) for rows in clients):
            _check_reread(settings, there)
        elif there is not None:
            clients = [there.put(rows) for rows in clients if not isinstance(rows, Reread)]
        known = () if coding is None or settings.only_symmetric else coding.groups
        apart = determined(clients, known, seed)
        rows = clients if apart.whole else [apart.of(rows) for rows in clients]
        names = None if tables is None or is_made_up(tables[0].columns) else tables[0].columns
        if names is not None or not apart.whole:
            names = [str(j + 1) if names is None else names[j] for j in apart.kept]  # type: ignore[assignment]
        # Beside a device the host solves small problems, for which threads wait for each other.
        with blas_threads(1 if any(map(_is_there, clients)) else None):
            recovery = _recovered(rows, rule, settings, seed, apart.kept_groups, names)
            found = with_open_rates(recovery.archetypes, rows)
            if apart.groups:
                found = replace(found, levels=apart.level[apart.kept])
            else:
                found = with_trait(found, rows)
            found = with_cautions(found, rows)
            recovery = with_all_columns(replace(recovery, archetypes=found), apart, clients)
    found = recovery.archetypes
    if tables is not None:
        found = replace(found, columns=tables[0].columns, coding=coding)
    if said := apart.said(found.columns, known):
        found = replace(found, advice=f"{found.advice} {said}")
    made = [rows.made() for rows in clients if isinstance(rows, Reread)]
    return replace(recovery, archetypes=found, readings=max(made, default=1))


def _is_there(rows: Rows) -> bool:
    """Whether the words of packed rows are on a device."""
    return not isinstance(rows, Reread) and on_device(array_beside(rows))


def _check_reread(settings: Settings, there: Place | None) -> None:
    """Refuse what rows cannot do that are not held."""
    held = settings.rank_rule != "shuffle"
    require(held, "rank_rule", "tw, mp or a number where rows are not held", "shuffle")
    here = there is None or there.ordinal is None
    require(here, "device", "cpu where rows are not held", str(there))


def _recovered(
    clients: list[Rows],
    rule: RankRule,
    settings: Settings,
    seed: int,
    groups: Sequence[Sequence[int]],
    names: Sequence[str] | None,
) -> Recovery:
    """Recover by the symmetric channel, and by the graded one where that is not enough.

    The levels of a variable are no columns of a symmetric channel, which flips each by itself.
    """
    federation = Federation.over(clients, seed, settings.masked)
    mean = federation.mean()
    recovery = None
    gaps = any(c.gaps if isinstance(c, Reread) else isinstance(c, MaskedBits) for c in clients)
    levels = len(groups) > 0 and not settings.only_symmetric
    if settings.channel != "graded" and not gaps and not levels:
        recovery = symmetric_recovery(federation, mean, rule, settings, seed)
        recovery, final = judged(federation, mean, recovery, settings)
        if final:
            return replace(recovery, exchanges=federation.exchanges)
    small = federation.n_rows * federation.n_sites <= ONE_THREAD
    with blas_threads(1 if small else None):
        support = settings.support
        return graded_recovery(federation, mean, rule, recovery, support, seed, groups, names)


def split(examples: Rows, clients: int, seed: int) -> list[Rows]:
    """Deal the rows of one set of examples to `clients` at random, as evenly as possible.

    Parameters
    ----------
    examples : M packed rows.
    clients : from 1 to M / 2.
    seed : of the deal.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> [part.shape for part in split(pack(np.ones((7, 3))), 3, seed=0)]
    [(3, 3), (2, 3), (2, 3)]
    """
    m = examples.shape[0]
    if not 1 <= clients <= m // 2:
        raise ArgumentError("clients", f"between 1 and {m // 2} for {m} examples", clients)
    from hopfed._lib.random import stream

    order = stream(seed, "split").permutation(m)
    parts = [np.sort(part) for part in np.array_split(order, clients)]
    if isinstance(examples, Reread):
        return [examples.chosen(part) for part in parts]
    return [examples[part] for part in parts]


def _clients(examples: Any, gaps: bool) -> list[Rows]:
    if isinstance(examples, Rows) or hasattr(examples, "shape"):
        examples = [examples]
    if not isinstance(examples, Sequence) or len(examples) == 0:
        raise DataError("examples must be an array or a list of arrays, one for each owner")
    packed = [
        e if isinstance(e, Reread) else as_examples(e, name=f"examples[{i}]", gaps=gaps)
        for i, e in enumerate(examples)
    ]
    if not gaps and any(isinstance(e, Reread) and e.gaps for e in packed):
        raise DataError("examples: entries are missing, and complete rows are needed here")
    widths = [p.shape[1] for p in packed]
    if len(set(widths)) > 1:
        raise DataError(f"all owners must have the same columns, got {widths} columns")
    return packed
