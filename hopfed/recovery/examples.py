"""Tables of several owners, in whatever form they are given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hopfed.kernels import MaskedBits, PackedBits
from hopfed.tables.files import is_many
from hopfed.tables.partitions import is_partitioned, read_partitions
from hopfed.tables.reading import read_table, read_tables
from hopfed.tables.table import Table, aligned_tables


def tables_of(examples: Any, columns: str = "same") -> list[Table] | None:
    """Return the tables that somebody gives as examples, their columns in one order.

    Parameters
    ----------
    examples : a table, a frame, a mapping from names to columns, rows in lists, an array or a frame
        of Dask, or a path: of a file, or of a folder, a zarr store or a pattern of files, which
        Dask's workers read. Or a list of these, one for each owner; files in it are coded alike.
    columns : what becomes of columns that not all owners have (`hopfed.tables.table`).

    Returns
    -------
    Their tables; None for arrays and packed rows, and lists of these: they have no names.

    Examples
    --------
    >>> [table.columns for table in tables_of({"a": [0, 1], "b": [1, 1]}) or []]
    [('a', 'b')]
    >>> import numpy as np
    >>> tables_of([np.eye(2), np.eye(2)]) is None
    True
    """
    alone = (_is_path, is_partitioned, _is_frame, _is_rows)
    if isinstance(examples, Table) or any(check(examples) for check in alone):
        return [_table(examples)]
    if not isinstance(examples, Sequence) or not any(_is_named(part) for part in examples):
        return None
    if all(_is_path(part) and not is_many(part) for part in examples):
        return read_tables(list(examples), columns=columns)
    found = [_table(part) for part in examples]
    return aligned_tables(found, [f"examples[{i}]" for i in range(len(found))], columns)


def _table(given: Any) -> Table:
    if isinstance(given, Table):
        return given
    return read_partitions(given) if _is_path(given) and is_many(given) else read_table(given)


def _is_named(part: Any) -> bool:
    checks = (_is_path, is_partitioned, _is_frame, _is_rows)
    return isinstance(part, Table) or any(check(part) for check in checks)


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _is_frame(given: Any) -> bool:
    """Whether something has columns of its own, or is no array that is packed as it stands."""
    if isinstance(given, PackedBits | MaskedBits):
        return False
    kinds = ("__arrow_c_stream__", "__dataframe__", "obs_names", "tocsr")
    return isinstance(given, dict) or any(hasattr(given, kind) for kind in kinds)


def _is_rows(given: Any) -> bool:
    """Whether something is a list of rows of cells."""
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], list | tuple):
        return False
    return all(cell is None or isinstance(cell, bool | int | float | str) for cell in given[0])
