"""What tables are read from: files of many kinds, frames, arrays and lists, each as a `Source`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.memory_limits import require_memory
from hopfed.data.arrow_kinds import kept, unfit, usual
from hopfed.data.delimited import Delimited
from hopfed.data.dialects import Dialect
from hopfed.data.files import opened
from hopfed.data.readers import of_tensor, read_numbers
from hopfed.errors import DataError, shown
from hopfed.kernels import MaskedBits, PackedBits
from hopfed.tables.arrays import NAME, PART, array_parts
from hopfed.tables.arrow_files import arrow_errors, feather_batches, parquet_batches
from hopfed.tables.sources import Block, Numbers, Source, unique
from hopfed.tables.table import listed, made_up
from hopfed.tables.vocabulary import KNOWN

TEXT = (".csv", ".tsv")
BOOKS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
ANY_TEXT = (".txt", ".dat", ".tab", ".asc", ".data")
ARRAYS = (".npy", ".npz", ".h5", ".hdf5")
ARROW = (".parquet", ".feather", ".arrow")


def source_of(given: Any, what: str = "examples", words: frozenset[str] = frozenset()) -> Source:
    """Return what can be read of a path, a frame, an array or lists.

    Parameters
    ----------
    given : as of `hopfed.read_table`.
    what : it is called in an error, unless it is a path.
    words : in lower case, that are cells beside those that every table may hold: a first row of
        them holds no names.

    Raises
    ------
    DataError : of a kind that is not known.

    Examples
    --------
    >>> source_of({"a": [1, 0], "b": ["yes", None]}).names
    ('a', 'b')
    """
    if isinstance(given, str | os.PathLike):
        return _of_path(Path(given), words)
    if isinstance(given, Mapping):
        for name, cells in given.items():
            is_list = hasattr(cells, "__iter__") and not isinstance(cells, str)
            if not is_list or getattr(cells, "ndim", 1) != 1:
                raise DataError(f"{what}: column '{shown(name, 60)}' must be a list of cells")
        return _of_columns(list(given), [as_arrow(cells) for cells in given.values()], what)
    if _is_pandas(given):
        return _of_pandas(given, what)
    if hasattr(given, "obs_names") and hasattr(given, "var_names"):
        return _of_annotated(given, what)
    if hasattr(given, "__arrow_c_stream__"):
        return _of_stream(given, what)
    if hasattr(given, "tocsr"):
        return _of_numbers(_sparse(given), what)
    if isinstance(given, PackedBits | MaskedBits):
        return _of_numbers(Numbers(given.shape, lambda: iter(()), given), what)
    return _of_array(
        of_tensor(given, what) if hasattr(given, "shape") else rows_of(given, what), what
    )


def dialect_of(
    path: Path, numbers: Collection[str], words: frozenset[str] = frozenset()
) -> Dialect:
    """Return how a table of numbers is written, so that what reads a file reads it, too.

    Parameters
    ----------
    path : of the file; one that is no text asks for nothing.
    numbers : names of columns of numbers: with decimal commas if the file has any.
    words : in lower case, that are cells where the file has no names, as `Coding.entries` returns.

    Raises
    ------
    DataError : the file cannot be read.
    """
    dialect = source_of(path, words=words).dialect
    return replace(dialect, commas=frozenset(numbers) if dialect.commas else frozenset())


def _of_path(path: Path, words: frozenset[str]) -> Source:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = path.with_suffix("").suffix.lower()
    if suffix in TEXT:
        return _of_text(path, words)
    if suffix in ARROW:
        return _of_arrow(path)
    numbers = array_parts(path, suffix)
    if numbers is not None:
        return _of_numbers(numbers, str(path))
    if suffix in ARRAYS:
        return _of_array(read_numbers(path), str(path))
    with opened(path):  # that there is no such file is said first
        if suffix in BOOKS:
            raise DataError(f"{path}: a workbook; save its sheet as CSV (UTF-8)")
        if suffix in ANY_TEXT:
            way = "name it .csv, or .tsv if tabs are between its cells"
            raise DataError(f"{path}: {suffix} may be any text; if it is a table, {way}")
        known = ", ".join((*ARRAYS[:3], *TEXT, *ARROW, ".zarr"))
        raise DataError(f"{path}: unknown format {path.suffix!r}; use one of {known}")


def _of_text(path: Path, words: frozenset[str]) -> Source:
    text = Delimited.of(path, KNOWN | words)

    def blocks() -> Iterator[Block]:
        for batch in text.blocks(source.watch):
            yield batch.columns

    if text.header and len(text.header) > 2 and sum(map(bool, text.header)) == 1:
        raise DataError(
            f"{path}: the first line has one cell that is filled, of {len(text.header)}: remove a "
            "title above the names of columns, or name the columns"
        )
    names, notes = unique(text.header or made_up(text.width))
    if text.doubtful:
        notes.append(
            f"the first row was taken for names of columns, but the rows below hold "
            f"{listed(text.doubtful)}, too: if that row holds entries, put a row of names above it"
        )
    source = Source(str(path), names, blocks, notes=notes, dialect=text.dialect(names))
    return source


def _of_arrow(path: Path) -> Source:
    parquet = path.suffix.lower() == ".parquet"
    schema, batches = parquet_batches(path, PART // 4) if parquet else feather_batches(path)
    return _of_batches(schema, batches, str(path))


def of_groups(path: Path, groups: Sequence[int], what: str) -> Source:
    """Some groups of rows of a .parquet file.

    Parameters
    ----------
    path, groups : of the file, and which.
    what : they are called.
    """
    return _of_batches(*parquet_batches(path, PART // 4, groups), what)


def _of_stream(given: Any, what: str) -> Source:
    """A frame that Arrow knows: of polars, of Arrow itself, and others."""
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        with arrow_errors(what):
            yield from pa.RecordBatchReader.from_stream(given)

    with arrow_errors(what):
        schema = pa.RecordBatchReader.from_stream(given).schema
    return _of_batches(schema, batches, what)


def _of_batches(schema: Any, batches: Callable[[], Iterator[Any]], what: str) -> Source:
    with arrow_errors(what):  # names may be no text
        names, notes = unique([name.strip() for name in schema.names])
    if not names:
        raise DataError(f"{what}: there are no columns")
    odd = {j: why for j, kind in enumerate(schema.types) if (why := unfit(kind))}

    def blocks() -> Iterator[Block]:
        for batch in batches():
            size = max(1, PART // len(names))
            for start in range(0, batch.num_rows, size):
                part = batch.slice(start, size)
                with arrow_errors(what):
                    columns = [kept(column) for column in part.columns]
                yield columns

    return Source(what, names, blocks, notes=notes, unfit=odd, usual=usual)


def as_arrow(cells: Any) -> Any:
    """Return one column as an array of Arrow; objects of several kinds as their words."""
    import pyarrow as pa

    if isinstance(cells, np.ma.MaskedArray):
        return usual(pa.array(cells.data, mask=np.ma.getmaskarray(cells)))
    try:
        found = pa.array(cells)
        return found if unfit(found.type) else usual(found)  # bytes may be no text
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _of_columns(names: Sequence[Any], arrays: list[Any], what: str) -> Source:
    """Columns that are in memory."""
    known, notes = unique([str(name).strip() for name in names])
    lengths = sorted({len(array) for array in arrays})
    if not lengths:
        raise DataError(f"{what}: there are no columns")
    if len(lengths) > 1:
        raise DataError(f"{what}: columns must be of one length, got {lengths}")
    odd = {j: why for j, array in enumerate(arrays) if (why := unfit(array.type))}
    block = [kept(array) for array in arrays]
    return Source(what, known, lambda: iter([block]), notes=notes, unfit=odd, usual=usual)


def _is_pandas(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "iloc")


def _of_pandas(given: Any, what: str) -> Source:
    import pandas as pd
    import pyarrow as pa

    if given.ndim != 2:
        raise DataError(f"{what}: a table is needed, got a series")

    def column(cells: Any) -> Any:
        with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
            found = pa.Array.from_pandas(cells)
            kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
            if not isinstance(kind, pa.BaseExtensionType):  # of intervals and periods, say
                return found
        pairs = zip(cells, cells.isna(), strict=True)
        return pa.array([None if gone else str(cell) for cell, gone in pairs], pa.string())

    arrays = [column(given.iloc[:, j]) for j in range(given.shape[1])]
    arrays = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    source = _of_columns(list(given.columns), arrays, what)
    if not given.index.equals(pd.RangeIndex(len(given))):
        source.ids = np.array([str(name) for name in given.index], dtype=str)
    return source


def _of_annotated(given: Any, what: str) -> Source:
    """An AnnData: numbers with names of rows and columns."""
    values = given.X
    numbers = _sparse(values) if hasattr(values, "tocsr") else _numbers(np.asarray(values))
    source = _of_numbers(numbers, what)
    names, notes = unique([str(name) for name in given.var_names])
    source.names, source.notes = names, notes
    source.ids = np.array([str(name) for name in given.obs_names], dtype=str)
    return source


def _sparse(given: Any) -> Numbers:
    """A sparse matrix: what is not stored is 0."""
    rows = given.tocsr()

    def parts() -> Iterator[np.ndarray]:
        size = max(1, PART // max(rows.shape[1], 1))
        for start in range(0, rows.shape[0], size):
            yield rows[start : start + size].toarray()

    return Numbers(rows.shape, parts)


def _of_array(given: Any, what: str) -> Source:
    """An array of any library, in memory or not."""
    dtype = getattr(given, "dtype", None)
    if dtype is not None and getattr(dtype, "names", None):
        return _of_columns(dtype.names, [as_arrow(given[name]) for name in dtype.names], what)
    lazy = type(given).__module__.startswith(("zarr", "h5py"))
    given = given if lazy or isinstance(given, np.ndarray) else to_host(given)
    if given.ndim < 2:
        raise DataError(f"{what}: examples must be rows of a table, got {given.ndim} axes")
    words = isinstance(given, np.ndarray) and (
        given.dtype.kind in "US" or (given.dtype.kind == "O" and _holds_words(given))
    )
    if not words:
        return _of_numbers(_numbers(given), what)
    flat = given.reshape(len(given), -1)
    arrays = [as_arrow(flat[:, j].tolist()) for j in range(flat.shape[1])]
    return _of_columns(made_up(len(arrays)), arrays, what)


def _holds_words(array: np.ndarray) -> bool:
    return any(isinstance(cell, str) for cell in array.flat)


def _numbers(given: Any) -> Numbers:
    """Numbers of an array; one that is not in memory is read in parts."""
    m, n = given.shape[0], math.prod(given.shape[1:])

    def parts() -> Iterator[np.ndarray]:
        size = max(1, PART // max(n, 1))
        for start in range(0, m, size):
            part = given[start : start + size]
            part = part if isinstance(part, np.ndarray) else np.asarray(part)
            yield part.reshape(len(part), -1)

    return Numbers((m, n), parts, given.reshape(m, n) if isinstance(given, np.ndarray) else None)


def _of_numbers(numbers: Numbers, what: str) -> Source:
    def blocks() -> Iterator[Block]:
        for part in numbers.parts():
            yield [as_arrow(part[:, j]) for j in range(part.shape[1])]

    rows, columns = numbers.shape
    if not rows:
        raise DataError(f"{what}: there are no rows in it, of {columns:,} column(s)")
    require_memory(NAME * columns, f"{what}: names of {columns:,} columns")
    return Source(what, made_up(columns), blocks, numbers=numbers)


def rows_of(given: Any, what: str) -> np.ndarray:
    """Return lists of rows as an array: of numbers, or of objects where there are words or None."""
    try:
        rows = [list(row) for row in given]
    except TypeError:
        kind = shown(type(given).__name__)
        raise DataError(f"{what}: neither a path nor rows of a table: {kind}") from None
    for k, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise DataError(f"{what}: columns changed from {len(rows[0])} to {len(row)} at row {k}")
    array = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for k, row in enumerate(rows):
        for j, cell in enumerate(row):
            array[k, j] = cell
    objects = any(cell is None or isinstance(cell, str) for cell in array.flat)
    return array if objects else _plain(array, rows)


def _plain(array: np.ndarray, rows: list[list[Any]]) -> np.ndarray:
    try:
        found = np.array(rows)
    except (ValueError, TypeError):
        return array
    return found if found.ndim >= 2 else array
