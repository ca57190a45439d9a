"""Rows that archetypes are asked about: coded as those that they come from, columns by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.errors import DataError
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.spectral.rows import Bits
from hopfed.tables.coding import Coding, is_empty
from hopfed.tables.examples import as_examples
from hopfed.tables.reading import read_table
from hopfed.tables.table import Table, is_made_up, listed, matched, places_of

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes


def rows_of(found: Archetypes, X: Any) -> Bits:
    """Pack rows, and check that they have the columns of the archetypes."""
    if isinstance(X, Table):
        return _alike(found, X).held
    plain = isinstance(X, PackedBits | MaskedBits | np.ndarray) or hasattr(
        X, "__cuda_array_interface__"
    )
    if isinstance(X, str | Path) or (found.coding is not None and not plain):
        return table_of(found, X).held
    rows = as_examples(X, name="rows", gaps=True, least=1)
    _of_width(found, rows)
    return rows


def table_of(found: Archetypes, source: Any) -> Table:
    """Read a table, coded as the one that the archetypes come from."""
    if found.coding is None:
        return _alike(found, read_table(source))
    return _alike(found, read_table(source, coding=found.coding))


def coded_as(found: Archetypes, table: Table, name: str = "rows") -> Archetypes:
    """Return archetypes that know no coding with that of a table, their columns in its order.

    Columns are found by name where both have names, by place otherwise.
    """
    if found.columns is None or is_made_up(found.columns) or is_made_up(table.columns):
        _of_width(found, table.rows)
        return in_order(found, slice(None), table)
    places = places_of(found.columns, table.columns, "the archetypes", name)
    return in_order(found, np.array(places), table)


def in_order(found: Archetypes, order: np.ndarray | slice, table: Table) -> Archetypes:
    """Return archetypes with their columns in an order that is that of a table."""

    def ordered(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else array[:, order]

    leaders = found.leaders
    if leaders is not None:
        place = np.argsort(np.arange(len(leaders))[order]) + 1  # of each column, from 1
        leaders = np.where(leaders == 0, 0, np.sign(leaders) * place[np.abs(leaders) - 1])[order]
    return replace(
        found,
        levels=None if found.levels is None else found.levels[order],
        leaders=leaders,
        patterns=found.patterns[:, order],
        graded_means=ordered(found.graded_means),
        own_errors=ordered(found.own_errors),
        columns=table.columns,
        coding=table.coding,
    )


def unknown_columns(found: Archetypes) -> np.ndarray:
    """(N,) booleans: columns without any entry in the rows that the archetypes come from.

    Nothing is known of such a column: every class has the mean 0 there, as surely as any other, and
    its coding is that of a column that holds no word. Where no coding is known, none is called so.
    """
    means, errors, coding = found.graded_means, found.own_errors, found.coding
    if means is None or errors is None or coding is None or not len(means):
        return np.zeros(found.patterns.shape[1], bool)
    empty = [is_empty(code) for code in coding.codes for _ in range(code.width)]
    alike = (means == 0).all(axis=0) & np.isclose(errors, errors[0], rtol=1e-6).all(axis=0)
    found_empty: np.ndarray = np.array(empty, bool) & alike
    return found_empty


def _alike(found: Archetypes, table: Table) -> Table:
    """Columns of a table in the order of the archetypes', where they mean the same."""
    if found.columns is None or found.coding is None:
        _of_width(found, table.held)
        if found.columns is None or is_made_up(found.columns) or is_made_up(table.columns):
            return table
        like = replace(table, rows=_none(len(found.columns)), columns=found.columns, ids=None)
        return matched([like, table], ["the archetypes", "rows"])[1]
    like = Table(_none(len(found.columns)), found.columns, None, found.coding)
    table = matched([like, table], ["the archetypes", "rows"])[1]
    if table.coding != found.coding:
        _check_cuts(found.coding, table.coding)
    return table


def _none(n: int) -> PackedBits:
    """Bits of no rows."""
    return PackedBits(np.zeros((0, -(-n // 64)), np.uint64), n)


def _check_cuts(first: Coding, other: Coding) -> None:
    """Refuse numbers that were cut elsewhere: +1 would mean something else."""
    cuts = dict(zip(other.names, other.codes, strict=True))
    off = [
        name
        for name, code in zip(first.names, first.codes, strict=True)
        if code.kind == "number" and name in cuts and cuts[name].threshold != code.threshold
    ]
    if off:
        raise DataError(f"rows: {listed(off)} cut elsewhere; read them with the archetypes' coding")


def _of_width(found: Archetypes, rows: Any) -> None:
    N = found.patterns.shape[1]
    if rows.shape[1] != N:
        raise DataError(f"rows: {rows.shape[1]} columns, but the archetypes have {N}")
