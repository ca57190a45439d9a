"""What tables are read from: files of many kinds, frames, arrays and lists, each as a `Source`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.guarded_reading import raise_limits, survive
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import DataError, shown
from hopfed.kernels import Rows
from hopfed.tables import arrays, files
from hopfed.tables.examples import of_tensor
from hopfed.tables.table import NAME, Block, Source, aligned_sources, listed, made_up, named
from hopfed.tables.text import LINES, layout, of_text
from hopfed.tables.words import MISSING, as_numbers, number, spelt, token
from hopfed.tables.writers import Dialect

PART = 1 << 22  # entries of a block that is no text
TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".asc")
BOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STUDIES = {".sav": "sav", ".zsav": "sav", ".por": "por", ".dta": "dta", ".xpt": "xport"}
STUDIES |= {".sas7bdat": "sas7bdat"}
ARROW = (".parquet", ".feather", ".arrow", ".orc")
RECORDS = (".json", ".jsonl", ".ndjson")
KNOWN = ".csv, .tsv, .xlsx, .ods, .sav, .dta, .sas7bdat, .json, .parquet, .npy, .npz, .h5, .zarr"


def source_of(given: Any, label: str = "examples", words: Collection[str] = ()) -> Source:
    """Return what can be read of a path, a frame, an array or lists, which errors call `label`."""
    if isinstance(given, str | os.PathLike):
        return of_path(Path(given), words)
    if type(given).__name__ == "LazyFrame":
        raise DataError(f"{label}: a LazyFrame holds no rows yet: give frame.collect()")
    if isinstance(given, Mapping):
        for name, cells in given.items():
            is_list = hasattr(cells, "__iter__") and not isinstance(cells, str)
            if not is_list or getattr(cells, "ndim", 1) != 1:
                raise DataError(f"{label}: column '{shown(name, 60)}' must be a list of cells")
        return _of_columns(list(given), list(given.values()), label)
    if hasattr(given, "obs_names") and hasattr(given, "var_names"):
        return _of_annotated(given, label)
    if hasattr(given, "iloc"):  # a frame of pandas
        if given.ndim != 2:
            raise DataError(f"{label}: a table is needed, got a series")
        cells = [given.iloc[:, j] for j in range(given.shape[1])]
        source = _of_columns(list(given.columns), cells, label)
        if list(given.index) != list(range(len(given))):
            source.ids = np.array([str(name) for name in given.index], dtype=str)
        return source
    if hasattr(given, "__arrow_c_stream__"):  # a frame of polars, or of Arrow itself
        import pyarrow as pa

        with files.reading(label):
            table = pa.table(given)
        return _of_columns(table.column_names, table.columns, label)
    if hasattr(given, "shape"):
        return _of_array(given.tocsr() if hasattr(given, "tocsr") else given, label)
    return _of_rows(given, label)


def of_path(path: Path, words: Collection[str] = ()) -> Source:
    """Return what can be read of a file; a sheet of a workbook is `book.xlsx:Sheet 2`."""
    name, colon, sheet = path.name.partition(":")
    if colon and not path.exists() and Path(name).suffix.lower() in BOOKS:
        path = path.with_name(name)
    else:
        sheet = ""
    kind = ending = path.suffix.lower()
    if ending in files.PACKED:
        kind = path.with_suffix("").suffix.lower()
    if kind in TEXT:
        return of_text(path, words)
    if kind in arrays.ENDINGS:
        held = arrays.stored(path)
        if held.dtype.kind in "US":
            return _of_array(held[:], str(path))
        return _of_numbers(held, str(path))
    if os.path.isdir(path):  # a name that is too long is none
        return _of_folder(path)
    size = files.size_of(path)  # that there is no such file is said first
    if ending in files.PACKED and kind not in RECORDS:
        raise DataError(f"{path}: a packed file of another kind than text or JSON: unpack it")
    with files.reading(path):
        if kind in BOOKS:
            return _of_book(path, sheet, words)
        if kind in STUDIES:
            return _of_study(path, STUDIES[kind], size)
        if kind in ARROW:
            return _of_arrow(path, size)
        if kind in RECORDS:
            return _of_records(path)
    raise DataError(f"{path}: unknown format {path.suffix!r}; use one of {KNOWN}")


def _made(label: str, names: Sequence[Any], blocks: Any, notes: Sequence[str] = ()) -> Source:
    """A source of blocks of columns, whose names are made different."""
    known, more = named(names, label)
    if not known:
        raise DataError(f"{label}: there are no columns")
    return Source(label, known, lambda: files.pieces(blocks(), label), notes=[*notes, *more])


def _of_columns(
    names: Sequence[Any], columns: Sequence[Any], label: str, notes: Sequence[str] = ()
) -> Source:
    """Columns of cells of any kind that are in memory."""
    held = list(map(as_arrow, columns))
    lengths = sorted({len(array) for array in held})
    if len(lengths) > 1:
        raise DataError(f"{label}: columns must be of one length, got {lengths}")
    return _made(label, names, lambda: iter([held]), notes)


# Workbooks, studies, records


def _of_book(path: Path, sheet: str, words: Collection[str]) -> Source:
    """A sheet of a workbook: the one that is named, else the one with most cells."""
    book = files.needed("python_calamine", "workbooks").CalamineWorkbook.from_path(str(path))
    every = ", ".join(f"'{shown(name, 40)}'" for name in book.sheet_names[:20])
    if sheet and sheet not in book.sheet_names:
        raise DataError(f"{path}: there is no sheet '{shown(sheet, 40)}'; there are {every}")
    sheets = [book.get_sheet_by_name(name) for name in ([sheet] if sheet else book.sheet_names)]
    held = max(sheets, key=lambda each: each.height * each.width)
    require_memory(100 * held.total_height * held.total_width, str(path))
    rows, notes = held.to_python(), []
    if len(sheets) > 1:
        notes.append(f"sheet '{shown(held.name, 40)}' was read, of {every} (--sheet)")
    if not any(cell != "" for row in rows for cell in row):
        raise ValueError("there is nothing in it")
    laid = layout([[spelt(c).strip() for c in row] for row in rows[:LINES]], words)
    body = [row for row in rows[laid.above :] if any(c != "" for c in row)]
    if not body:
        raise DataError(f"{path}: only a header line, no examples")
    if len(body) < len(rows) - laid.above:
        notes.append(f"{len(rows) - laid.above - len(body)} blank row(s) are left out")
    columns = []
    for cells in zip(*body, strict=True):  # numbers are floats, also where all of them are whole
        floats = [cell for cell in cells if isinstance(cell, float)]
        whole = all(x.is_integer() and abs(x) < 1e15 for x in floats)
        plain = (None if cell == "" else cell for cell in cells)
        columns.append([int(c) if whole and isinstance(c, float) else c for c in plain])
    names_of = [*(laid.names or ()), *[""] * len(columns)][: len(columns)]
    source = _of_columns(names_of, columns, str(path), [*notes, *laid.notes])
    source.dialect = Dialect(mark=True)  # without it spreadsheets take UTF-8 for something else
    return source


def _of_study(path: Path, kind: str, size: int) -> Source:
    """A file of SPSS, Stata or SAS, some rows at a time: values with a label are its words."""
    module = files.needed("pyreadstat", "files of SPSS, Stata and SAS")
    read = partial(getattr(module, f"read_{kind}"), str(path), output_format="dict")
    survive(lambda: read(row_limit=PART), size)
    _, meta = read(metadataonly=True)
    labels = [meta.variable_value_labels.get(name, {}) for name in meta.column_names]
    step = max(1, PART // max(len(labels), 1))

    def blocks() -> Iterator[Block]:
        for start in count(0, step):
            columns = read(row_offset=start, row_limit=step)[0].values()
            found = [_labelled(*pair) for pair in zip(columns, labels, strict=True)]
            if len(found[0]):
                yield found
            if len(found[0]) < step:
                return

    labelled = sum(map(bool, labels))
    said = f"{labelled} column(s) are read by the labels of their values"
    return _made(str(path), meta.column_names, blocks, [said] if labelled else [])


def _labelled(cells: Any, labels: Mapping[Any, str]) -> Any:
    """Cells as an array of Arrow: the label of each value, where there are labels."""
    import pyarrow as pa

    array = as_arrow(np.asarray(cells))
    if not labels:
        return array
    words = {spelt(value): str(text).strip() or spelt(value) for value, text in labels.items()}
    coded = array.dictionary_encode()
    cells = [words.get(w := spelt(cell), w) for cell in coded.dictionary.to_pylist()]
    return pa.array(cells, pa.string()).take(coded.indices)


def _of_records(path: Path) -> Source:
    """A list of records in JSON, one in each line, or lists of columns."""
    text = b"".join(files.contents(path, SMALL)).decode("utf-8-sig")
    require_memory(20 * len(text), str(path))
    try:
        held = json.loads(text)
        held = [held] if path.suffix != ".json" and isinstance(held, dict) else held
    except json.JSONDecodeError:
        held = [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(held, dict):
        lists = [v for v in held.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
        held = lists[0] if len(lists) == 1 else held
    if isinstance(held, dict) and held and all(isinstance(v, list) for v in held.values()):
        return _of_columns(list(held), list(held.values()), str(path))
    if not isinstance(held, list) or not held or not all(isinstance(row, dict) for row in held):
        raise DataError(f"{path}: a list of records, or of columns, is needed")
    names = list(dict.fromkeys(name for row in held for name in row))
    return _of_columns(names, [[row.get(name) for row in held] for name in names], str(path))


# What Arrow knows


def _of_arrow(path: Path, size: int) -> Source:
    """A file of Arrow, whose batches are what they say, and no more than can be in a file."""
    import pyarrow as pa
    from pyarrow import orc, parquet

    kind, most = path.suffix.lower(), max(files.UNPACKED * size, files.ROOM)

    def require_room(entries: int) -> None:
        if entries // 8 > max(files.UNPACKED * size, SMALL):
            raise ValueError(f"{entries:,} entries cannot be in a file of {size:,} bytes")
        require_memory(entries // 4, str(path))

    def batches() -> Iterator[Any]:
        """Yield its schema, and then what it holds."""
        entries = letters = 0
        with files.opened(path) as raw:
            if kind == ".parquet":
                schema = parquet.ParquetFile(raw).schema_arrow
                texts = [f.name for f in schema if pa.types.is_string(f.type)]
                file = parquet.ParquetFile(raw, read_dictionary=texts)  # long words are kept once
                require_room(file.metadata.num_rows * len(schema))
                made = file.iter_batches(max(1, PART // max(len(schema), 1)), use_threads=False)
            elif kind == ".orc":
                file = orc.ORCFile(pa.PythonFile(raw, "r"))
                schema, made = file.schema, map(file.read_stripe, range(file.nstripes))
                require_room(file.nrows * len(schema))
            else:
                options = pa.ipc.IpcReadOptions(use_threads=False)
                file = pa.ipc.open_file(pa.PythonFile(raw, "r"), options=options)
                schema, made = file.schema, map(file.get_batch, range(file.num_record_batches))
            yield schema
            for batch in made:
                entries += batch.num_rows * batch.num_columns
                kinds = [getattr(c.type, "value_type", c.type) for c in batch.columns]
                pairs = zip(batch.columns, kinds, strict=True)
                letters += sum(c.nbytes for c, kind in pairs if not pa.types.is_primitive(kind))
                require_room(entries)
                if letters > most:
                    raise ValueError(f"it unpacks to more than {most:,} bytes: write it unpacked")
                batch.validate(full=True)  # what it calls text is, and nothing leads out of it
                yield batch

    def tried() -> None:
        raise_limits(most)
        for _ in batches():
            pass

    if kind == ".orc":  # whose reader crashes on some damaged files
        survive(tried, size)
    names = next(batches()).names
    step = max(1, PART // max(len(names), 1))

    def blocks() -> Iterator[Block]:
        for batch in islice(batches(), 1, None):
            for start in range(0, batch.num_rows, step):
                yield [_stored(column) for column in batch.slice(start, step).columns]

    return _made(str(path), names, blocks)


def _of_folder(path: Path) -> Source:
    """A folder of files of one kind, one below the other."""
    sources = [of_path(file) for file in files.files_of(path)]
    notes = dict.fromkeys(line for source in sources for line in source.notes)
    each, names = aligned_sources(sources, "same"), sources[0].names
    return _made(str(path), names, lambda: chain(*(s.blocks() for s in each)), list(notes))


def _stored(array: Any) -> Any:
    """An array of Arrow in one piece, as one of the types that it knows itself."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type):
        array = array.dictionary_decode()
    views = pa.types.is_string_view(kind) or pa.types.is_large_string(kind)
    return array.cast(pa.string()) if views or pa.types.is_binary(kind) else array


# What is in memory


def as_arrow(cells: Any) -> Any:
    """Return one column as an array of Arrow; objects of several kinds as their words."""
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return _stored(cells)
    if isinstance(cells, np.ma.MaskedArray):
        return pa.array(cells.data, mask=np.ma.getmaskarray(cells))
    if isinstance(cells, np.ndarray) and cells.dtype.byteorder not in "=|":
        cells = cells.astype(cells.dtype.newbyteorder("="))
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        found = pa.array(cells, from_pandas=True)
        kind = getattr(found.type, "value_type", found.type)
        if not isinstance(kind, pa.BaseExtensionType):  # of intervals and periods, say
            return _stored(found)
    return pa.array([spelt(cell) or None for cell in cells], pa.string())


def _of_annotated(given: Any, label: str) -> Source:
    """An AnnData: numbers with names of rows and columns; backed ones are read in parts."""
    values = given.X
    values = values.tocsr() if hasattr(values, "tocsr") else values
    source = _of_numbers(values if hasattr(values, "shape") else np.asarray(values), label)
    source.names, source.notes = named(list(given.var_names), label)
    source.ids = np.array([str(name) for name in given.obs_names], dtype=str)
    return source


def _of_array(given: Any, label: str) -> Source:
    """An array of any library, dense or sparse, in memory or not."""
    given = of_tensor(given, label)
    names = getattr(getattr(given, "dtype", None), "names", None)
    if names:
        return _of_columns(names, [given[name] for name in names], label)
    as_is = type(given).__module__.startswith(("zarr", "h5py", "scipy")) or isinstance(given, Rows)
    given = given if as_is or isinstance(given, np.ndarray) else to_host(given)
    kind = "i" if isinstance(given, Rows) else given.dtype.kind
    if kind not in "US" and not (kind == "O" and any(isinstance(c, str) for c in given.flat)):
        return _of_numbers(given, label)
    flat = given.reshape(len(given), -1)
    with files.reading(label):  # NumPy does not look whether letters are letters
        columns = [as_arrow(flat[:, j].tolist()) for j in range(flat.shape[1])]
        for column in columns:
            column.validate(full=True)
    return _of_columns([""] * len(columns), columns, label)


def _of_numbers(given: Any, label: str) -> Source:
    """Numbers without names, in memory or not; of a sparse array what is not stored is 0."""
    rows, columns = given.shape[0], math.prod(given.shape[1:])
    if len(given.shape) < 2:
        raise DataError(f"{label}: examples must be rows of a table, got {len(given.shape)} axes")
    if not rows or not columns:
        raise DataError(f"{label}: there is no entry in {rows:,} row(s) of {columns:,} column(s)")
    require_memory(NAME // 4 * columns, f"{label}: names of {columns:,} columns")
    step, chunk = max(1, PART // columns), getattr(given, "chunks", None) or (1,)
    most = max(step // max(chunk[0], 1), 1) * max(chunk[0], 1)

    def parts() -> Iterator[np.ndarray]:
        for start in range(0, rows, most):
            some = given[start : start + most]
            for part in (some[at : at + step] for at in range(0, some.shape[0], step)):
                part = kernels.unpack(part) if isinstance(part, Rows) else part
                part = part.toarray() if hasattr(part, "toarray") else part
                yield np.asanyarray(part).reshape(-1, columns)

    def blocks() -> Iterator[Block]:
        for part in parts():
            yield [as_arrow(part[:, j]) for j in range(columns)]

    held = given if isinstance(given, Rows) else None
    return Source(label, made_up(columns), blocks, numbers=parts, rows=held)


def _of_rows(given: Any, label: str) -> Source:
    """Lists of rows: of numbers, or of objects where there are words or None."""
    try:
        rows = [list(row) for row in given]
    except TypeError:
        kind = shown(type(given).__name__)
        raise DataError(f"{label}: neither a path nor rows of a table: {kind}") from None
    for k, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise DataError(f"{label}: row {k} has {len(row)} cells instead of {len(rows[0])}")
    if not rows:
        raise DataError(f"{label}: there are no rows in it")
    if not any(cell is None or isinstance(cell, str) for row in rows for cell in row):
        with suppress(ValueError, TypeError):
            found = np.array(rows)
            if found.ndim >= 2:
                return _of_array(found, label)
    return _of_columns([""] * len(rows[0]), list(zip(*rows, strict=True)), label)


def read_numbers(given: str | Path | Source, ignore: Sequence[str] = ()) -> np.ndarray:
    """Read the numbers of a file as they stand, (M, ...), float64 with NaN for gaps if not .npy."""
    if not isinstance(given, Source) and Path(given).suffix.lower() in arrays.ENDINGS:
        if ignore:
            raise DataError(f"{given}: columns of arrays have no names to ignore")
        return arrays.stored(Path(given))[:]
    source = given if isinstance(given, Source) else of_path(Path(given))
    if unknown := [name for name in ignore if name not in source.names]:
        there = f"of {listed(source.names)}"
        raise DataError(f"{source.label}: no column {listed(unknown)} to ignore, {there}")
    parts, rows = list[np.ndarray](), 0
    for block in source.blocks():
        columns = []
        for j, (name, cells) in enumerate(zip(source.names, block, strict=True), start=1):
            values = None if name in ignore else as_numbers(cells, MISSING)
            if values is not None:
                columns.append(values)
            elif name not in ignore:
                words = [spelt(cell).strip() for cell in cells.to_pylist()]
                odd = [token(w) not in MISSING and number(w) is None for w in words].index(True)
                known = source.names != made_up(len(source.names))
                called = f"'{shown(name, 40)}'" if known else j
                at = f"row {rows + odd + 1}, column {called}"
                raise DataError(f"{source.label}: {at}: '{shown(words[odd], 40)}' is not a number")
        parts.append(np.stack(columns, axis=1))
        rows += len(parts[-1])
    return np.concatenate(parts)
