"""What tables are read from: files of many kinds, frames, arrays and lists, each as a `Source`."""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.guarded_reading import opened_hdf5, raise_limits, survive
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import DataError, shown
from hopfed.kernels import Rows
from hopfed.tables import files
from hopfed.tables.choosing import no_columns
from hopfed.tables.examples import of_tensor
from hopfed.tables.table import NAME, Block, Source, made_up, named, places_of
from hopfed.tables.text import LINES, layout, of_text
from hopfed.tables.words import MISSING, Cells, as_numbers, number, spelt, token
from hopfed.tables.writers import Dialect

PART = 1 << 22  # entries of a block that is no text
TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".asc")
BOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STUDIES = {".sav": "sav", ".zsav": "sav", ".por": "por", ".dta": "dta", ".xpt": "xport"}
STUDIES |= {".sas7bdat": "sas7bdat"}
ARROW = {".parquet": "parquet", ".feather": "feather", ".arrow": "feather", ".orc": "orc"}
RECORDS = (".json", ".jsonl", ".ndjson")
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays
DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000
ROOM = 1 << 30  # bytes that are tried of an array in HDF5
METADATA = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
LITTLE = 1 << 16  # bytes that a chunk takes in any case
KNOWN = ".csv, .tsv, .xlsx, .ods, .sav, .dta, .sas7bdat, .json, .parquet, .npy, .npz, .h5, .zarr"


def source_of(given: Any, label: str = "examples") -> Source:
    """Return what can be read of a path, a frame, an array or lists, which errors call `label`."""
    if isinstance(given, str | os.PathLike):
        return of_path(Path(given))
    given = given.collect() if type(given).__name__ == "LazyFrame" else given  # of polars
    names = ids = None
    if isinstance(given, Mapping):
        return _of_columns(list(given), list(given.values()), label)
    if hasattr(given, "obs_names") and hasattr(given, "var_names"):  # AnnData, perhaps on a disk
        names, ids, given = list(given.var_names), given.obs_names, given.X
    if hasattr(given, "iloc"):  # a frame of pandas
        if given.ndim != 2:
            raise DataError(f"{label}: a table is needed, got a series")
        cells = [given.iloc[:, j] for j in range(given.shape[1])]
        source = _of_columns(list(given.columns), cells, label)
        ids = given.index if list(given.index) != list(range(len(given))) else None
    elif hasattr(given, "__arrow_c_stream__"):  # a frame of polars, or of Arrow itself
        import pyarrow as pa

        with files.reading(label):
            table = pa.table(given)
        source = _of_columns(table.column_names, table.columns, label)
    elif hasattr(given, "shape"):
        given = kernels.unpack(given) if isinstance(given, Rows) else given
        source = _of_array(given.tocsr() if hasattr(given, "tocsr") else given, label)
    else:
        source = _of_rows(given, label)
    if names is not None:
        source.names, source.notes = named(names, label)
    if ids is not None:
        source.ids = np.array(list(map(str, ids)), dtype=str)
    return source


def of_path(path: Path) -> Source:
    """Return what can be read of a file; a sheet of a workbook is `book.xlsx:Sheet 2`."""
    name, _, sheet = path.name.partition(":")
    if sheet and not path.exists() and Path(name).suffix.lower() in BOOKS:
        path = path.with_name(name)
    else:
        sheet = ""
    ending = path.suffix.lower()
    kind = path.with_suffix("").suffix.lower() if ending in files.PACKED else ending
    if ending in ARRAYS:
        held = stored(path)
        return (_of_array if held.dtype.kind in "US" else _of_numbers)(held, str(path))
    if os.path.isdir(path):  # a name that is too long is none
        return _of_folder(path)
    size = files.size_of(path)  # that there is no such file is said first
    with files.reading(path):
        if kind in TEXT:
            return of_text(path)
        if kind in RECORDS:
            return _of_records(path)
        if ending in BOOKS:
            return _of_book(path, sheet)
        if ending in STUDIES:
            return _of_study(path, STUDIES[ending], size)
        if ending in ARROW:
            return _of_arrow(path, size)
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
    for name, cells in zip(names, columns, strict=True):
        whole = isinstance(cells, str) or not hasattr(cells, "__iter__")
        if whole or getattr(cells, "ndim", 1) != 1:
            raise DataError(f"{label}: column '{shown(name, 60)}' must be a list of cells")
    held = list(map(as_arrow, columns))
    if len(lengths := sorted({len(array) for array in held})) > 1:
        raise DataError(f"{label}: columns must be of one length, got {lengths}")
    return _made(label, names, lambda: iter([held]), notes)


# Workbooks, studies, records


def _of_book(path: Path, sheet: str) -> Source:
    """A sheet of a workbook: the one that is named, else the one with most cells."""
    book = files.needed("python_calamine", "workbooks").CalamineWorkbook.from_path(str(path))
    every = ", ".join(f"'{shown(name, 40)}'" for name in book.sheet_names[:20])
    if sheet and sheet not in book.sheet_names:
        raise DataError(f"{path}: there is no sheet '{shown(sheet, 40)}'; there are {every}")
    sheets = [book.get_sheet_by_name(name) for name in ([sheet] if sheet else book.sheet_names)]
    held = max(sheets, key=lambda each: each.height * each.width)
    require_memory(100 * held.total_height * held.total_width, str(path))
    rows = held.to_python()
    laid = layout([[spelt(c).strip() for c in row] for row in rows[:LINES]])
    body = [row for row in rows[laid.above :] if any(c != "" for c in row)]
    if not body:
        raise DataError(f"{path}: only a header line, no examples")
    gone = len(rows) - laid.above - len(body)
    notes = [f"sheet '{shown(held.name, 40)}' was read, of {every} (--sheet)"] * (len(sheets) > 1)
    notes += [f"{gone} blank row(s) are left out"] * bool(gone)
    columns = [
        [None if cell == "" else cell for cell in cells] for cells in zip(*body, strict=True)
    ]
    names = laid.names or [""] * len(columns)
    source = _of_columns(names, columns, str(path), [*notes, *laid.notes])
    source.dialect = Dialect(mark=True)  # without it spreadsheets take UTF-8 for something else
    return source


def _of_study(path: Path, kind: str, size: int) -> Source:
    """A file of SPSS, Stata or SAS, some rows at a time: values with a label are its words."""
    import pyarrow as pa

    module = files.needed("pyreadstat", "files of SPSS, Stata and SAS")
    read = partial(getattr(module, f"read_{kind}"), str(path), output_format="dict")
    survive(lambda: read(row_limit=PART), size)
    _, meta = read(metadataonly=True)
    labels = [meta.variable_value_labels.get(name, {}) for name in meta.column_names]
    step = max(1, PART // max(len(labels), 1))

    def labelled(cells: Any, own: Mapping[Any, str]) -> Any:
        coded = as_arrow(np.asarray(cells)).dictionary_encode()
        words = {spelt(value): str(text).strip() or spelt(value) for value, text in own.items()}
        held = [words.get(w := spelt(cell), w) for cell in coded.dictionary.to_pylist()]
        return pa.array(held, pa.string()).take(coded.indices) if own else coded.dictionary_decode()

    def blocks() -> Iterator[Block]:
        for start in count(0, step):
            columns = read(row_offset=start, row_limit=step)[0].values()
            found = list(map(labelled, columns, labels))
            if len(found[0]):
                yield found
            if len(found[0]) < step:
                return

    some = sum(map(bool, labels))
    said = f"{some} column(s) are read by the labels of their values"
    return _made(str(path), meta.column_names, blocks, [said] * bool(some))


def _of_records(path: Path) -> Source:
    """A list of records in JSON, one in each line, or lists of columns."""
    text = b"".join(files.contents(path, SMALL)).decode("utf-8-sig")
    require_memory(20 * len(text), str(path))
    try:
        held = json.loads(text)
        held = [held] if path.suffix != ".json" and isinstance(held, dict) else held
    except json.JSONDecodeError:
        held = [json.loads(line) for line in text.splitlines() if line.strip()]
    columns = held if isinstance(held, dict) else {}
    lists = [v for v in columns.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    held = lists[0] if len(lists) == 1 else held
    if isinstance(held, list) and held and all(isinstance(row, dict) for row in held):
        names = dict.fromkeys(name for row in held for name in row)
        columns = {name: [row.get(name) for row in held] for name in names}
    elif held is not columns or not all(isinstance(v, list) for v in columns.values()):
        raise DataError(f"{path}: a list of records, or of columns, is needed")
    return _of_columns(list(columns), list(columns.values()), str(path))


# What Arrow knows


def _of_arrow(path: Path, size: int) -> Source:
    """A file of Arrow, whose batches are what they say, and no more than can be in a file."""
    import pyarrow as pa
    from pyarrow import dataset, parquet

    kind, most = ARROW[path.suffix.lower()], max(files.UNPACKED * size, files.ROOM)

    def opened() -> Any:
        if kind != "parquet":
            return dataset.dataset(str(path), format=kind)
        texts = [f.name for f in parquet.read_schema(path) if pa.types.is_string(f.type)]
        once = dataset.ParquetFileFormat(dictionary_columns=texts)  # each word is kept once
        return dataset.dataset(str(path), format=once)

    def blocks() -> Iterator[Block]:
        data, letters = opened(), 0
        width = max(len(data.schema), 1)
        entries = data.count_rows() * width
        if entries // 8 > max(files.UNPACKED * size, SMALL):
            raise ValueError(f"{entries:,} entries cannot be in a file of {size:,} bytes")
        require_memory(entries // 4, str(path))
        how = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        for batch in data.to_batches(batch_size=max(1, PART // width), **how):
            batch.validate(full=True)  # what it calls text is, and nothing leads out of it
            kinds = [(c, getattr(c.type, "value_type", c.type)) for c in batch.columns]
            letters += sum(c.nbytes for c, kind in kinds if not pa.types.is_primitive(kind))
            if letters > most:
                raise ValueError(f"it unpacks to more than {most:,} bytes: write it unpacked")
            yield list(map(_stored, batch.columns))

    def tried() -> None:
        raise_limits(most)
        for _ in blocks():
            pass

    if kind == "orc":  # whose reader crashes on some damaged files
        survive(tried, size)
    return _made(str(path), opened().schema.names, blocks)


def _of_folder(path: Path) -> Source:
    """A folder of files of one kind, one below the other."""
    sources = [of_path(file) for file in files.files_of(path)]
    notes = dict.fromkeys(line for source in sources for line in source.notes)
    names = sources[0].names
    places = [places_of(s.names, names, s.label, sources[0].label) for s in sources]

    def blocks() -> Iterator[Block]:
        for source, own in zip(sources, places, strict=True):
            for block in source.blocks():
                yield [block[j] for j in own]

    return _made(str(path), names, blocks, list(notes))


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


# Arrays in files: what a header says is checked before anything is allocated


def stored(path: Path) -> Any:
    """Open the table of a file: of several arrays the one of a preferred name, or the only one."""
    suffix = path.suffix.lower()
    with files.reading(path):
        held: Any = {".npy": _npy, ".npz": _npz, ".zarr": _zarr}.get(suffix, _hdf5)(path)
        if held.dtype.kind not in "biufUS" or not held.dtype.itemsize:
            raise DataError(f"{path}: arrays of {held.dtype} are not read, only numbers and words")
        size = _folder(path) if suffix == ".zarr" else files.size_of(path)
        # An axis of length 0 hides no other: an array of no rows is as wide as it says.
        entries = math.prod(max(n, 1) for n in held.shape)
        most = max(entries * held.dtype.itemsize, NAME // 4 * math.prod(held.shape[1:]))
        if most > max(DENSEST * size, SMALL):
            raise ValueError(f"a table of {held.shape} cannot be in a file of {size:,} bytes")
    return held


def rows_of(held: Any, which: slice, label: str) -> np.ndarray:
    """Read some rows of an array in a file or in memory, in this machine's byte order."""
    if not held.shape:
        raise DataError(f"{label}: examples must be rows of a table, got 0 axes")
    first, last, _ = which.indices(held.shape[0])
    entries = 2 * (last - first) * math.prod(held.shape[1:])
    entries += math.prod(getattr(held, "chunks", None) or (1,))
    require_memory(held.dtype.itemsize * entries, label)
    with files.reading(label):
        part = held[first:last]
        part = np.asanyarray(part.toarray() if hasattr(part, "toarray") else part)
        if part.dtype.kind == "b" and part.view(np.uint8).max(initial=0) > 1:
            raise ValueError("holds truth values other than 0 and 1")
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _pick(path: Path, names: Sequence[str]) -> str:
    """The name of the table that is meant: one of PREFERRED, or the only one."""
    chosen = [name for name in PREFERRED if name in names] or names
    if len(names) != 1 and chosen is names:
        found = shown(", ".join(names[:10])) if names else "none"
        raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")
    return chosen[0]


def _axes(file: Any, length: int) -> int:
    """Number of axes of an array of NumPy, which is all that is in some bytes, or an error."""
    form = np.lib.format
    first = form.read_magic(file) == (1, 0)
    shape, _, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(file)
    due, left = dtype.itemsize * math.prod(shape), length - file.tell()
    if dtype.hasobject or due != left or min(shape, default=0) < 0:
        raise ValueError(f"{due} bytes are due after the header, there are {left}, or are objects")
    return len(shape)


def _npy(path: Path) -> Any:
    with files.opened(path) as file:
        _axes(file, files.size_of(path))
    return np.load(path, "r")


def _npz(path: Path) -> Any:
    tables = {}
    with files.opened(path) as raw, zipfile.ZipFile(raw) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                if member.filename.endswith(".npy") and _axes(file, member.file_size) > 1:
                    tables[member.filename.removesuffix(".npy")] = member.file_size
    name = _pick(path, list(tables))
    require_memory(2 * tables[name], str(path))
    return np.load(path)[name]


class _Hdf5:
    """A table in HDF5, which is opened to read the rows of a slice."""

    def __init__(self, path: Path):
        import h5py

        tables: list[str] = []

        def collect(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None and item.ndim >= 2:
                tables.append(name)

        with opened_hdf5(path) as file:
            file.visititems(collect)  # follows no links
            self.path, self.name = path, _pick(path, tables)
            table = file[self.name]
            if table.is_virtual or table.external:
                raise ValueError("its values are in other files")
            self.shape, self.dtype, self.chunks = table.shape, table.dtype, table.chunks or (1,)

    def __getitem__(self, which: slice) -> Any:
        with opened_hdf5(self.path) as file:
            return file[self.name][which]


def _hdf5(path: Path) -> _Hdf5:
    """A table in HDF5, whose library crashes on some damaged files: a child process tries it."""

    def tried() -> None:
        held = _Hdf5(path)
        nbytes = math.prod(held.shape) * held.dtype.itemsize
        if held.dtype.kind in "biuf" and nbytes <= ROOM:
            raise_limits(4 * nbytes)
            for _ in _of_numbers(held, str(path)).parts():
                pass

    survive(tried, files.size_of(path))
    return _Hdf5(path)


def _zarr(path: Path) -> Any:
    """The table of a zarr store, whose files are plain and no larger than they may be."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    zarr = files.needed("zarr", "stores of zarr", "table")
    _folder(path)
    held: Any = zarr.open(str(path), mode="r")
    if not hasattr(held, "shape"):
        held = held[_pick(path, [name for name, array in held.arrays() if array.ndim > 1])]
    kept = math.prod(getattr(held, "shards", None) or held.chunks) * held.dtype.itemsize
    _folder(Path(path, held.path), 2 * kept + LITTLE)
    return held


def _folder(path: Path, most: float = math.inf) -> int:
    """Bytes of a folder of nothing but files of at most so many, whose codecs run no code."""
    total = 0
    for place in path.rglob("*"):
        held = place.lstat()
        total += held.st_size
        if not (stat.S_ISREG(held.st_mode) or stat.S_ISDIR(held.st_mode)):
            raise ValueError("it holds links, pipes or devices")
        if place.name in METADATA:
            if "pickle" in json.dumps(json.loads(place.read_text("utf-8"))).lower():
                raise ValueError("its codec pickle can run code")
        elif held.st_size > most and place.is_file():
            raise ValueError(f"{place.name} unpacks to more than a chunk of {most:,} bytes")
    return total


# What is in memory


def as_arrow(cells: Any) -> Any:
    """Return one column as an array of Arrow; objects of several kinds as their words."""
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return _stored(cells)
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        found = pa.array(cells, from_pandas=True)
        kind = getattr(found.type, "value_type", found.type)
        if not isinstance(kind, pa.BaseExtensionType):  # of intervals and periods, say
            return _stored(found)
    return pa.array([spelt(cell) or None for cell in cells], pa.string())


def _of_array(given: Any, label: str) -> Source:
    """An array of any library, dense or sparse, in memory or not."""
    given = of_tensor(given, label)
    as_is = type(given).__module__.startswith(("numpy", "zarr", "h5py", "scipy", "hopfed"))
    given = given if as_is else to_host(given)
    kind = given.dtype.kind
    if kind not in "US" and not (kind == "O" and any(isinstance(c, str) for c in given.flat)):
        return _of_numbers(given, label)
    flat = rows_of(given, slice(None), label).reshape(given.shape[0], -1)
    with files.reading(label):  # NumPy does not look whether letters are letters
        columns = [as_arrow(flat[:, j].tolist()) for j in range(flat.shape[1])]
        for column in columns:
            column.validate(full=True)
    return _of_columns([""] * len(columns), columns, label)


def _of_numbers(given: Any, label: str) -> Source:
    """Numbers without names, in memory or not; of a sparse array what is not stored is 0."""
    if len(given.shape) < 2:
        raise DataError(f"{label}: examples must be rows of a table, got {len(given.shape)} axes")
    rows, columns = given.shape[0], math.prod(given.shape[1:])
    if not rows or not columns:
        raise DataError(f"{label}: there is no entry in {rows:,} row(s) of {columns:,} column(s)")
    require_memory(NAME // 4 * columns, f"{label}: names of {columns:,} columns")
    chunk = max((getattr(given, "chunks", None) or (1,))[0], 1)
    step = max(PART // columns // chunk, 1) * chunk

    def parts() -> Iterator[np.ndarray]:
        for start in range(0, rows, step):
            yield rows_of(given, slice(start, start + step), label).reshape(-1, columns)

    def blocks() -> Iterator[Block]:
        for part in parts():
            yield [as_arrow(part[:, j]) for j in range(columns)]

    return Source(label, made_up(columns), blocks, numbers=parts)


def _of_rows(given: Any, label: str) -> Source:
    """Lists of rows: of numbers, or of objects where there are words or None."""
    try:
        rows = list(given)
        if any(isinstance(row, str | os.PathLike) for row in rows):
            raise TypeError(
                "of texts, not of rows: one table is read here, recover takes several files"
            )
        rows = [list(row) for row in rows]
        columns = list(zip(*rows, strict=True))
    except (TypeError, ValueError) as error:
        said = f"{shown(type(given).__name__)}, {error}"
        raise DataError(f"{label}: neither a path nor rows of one length: {said}") from None
    if not rows:
        raise DataError(f"{label}: there are no rows in it")
    if not any(cell is None or isinstance(cell, str) for row in rows for cell in row):
        with suppress(ValueError, TypeError):
            found = np.array(rows)
            if found.ndim >= 2:
                return _of_array(found, label)
    return _of_columns([""] * len(columns), columns, label)


def read_numbers(given: str | Path | Source, ignore: Sequence[str] = ()) -> np.ndarray:
    """Read the numbers of a file as they stand, (M, ...), float64 with NaN for gaps if not .npy."""
    if not isinstance(given, Source) and Path(given).suffix.lower() in ARRAYS and not ignore:
        return rows_of(stored(Path(given)), slice(None), str(given))
    source = given if isinstance(given, Source) else of_path(Path(given))
    if unknown := [name for name in ignore if name not in source.names]:
        raise no_columns(source.label, unknown, source.names)
    parts, rows = [np.empty((0, 0))], 0
    for block in source.blocks():
        held = {name: c for name, c in zip(source.names, block, strict=True) if name not in ignore}
        values = [as_numbers(cells, MISSING) for cells in held.values()]
        for (name, cells), numbers in zip(held.items(), values, strict=True):
            if numbers is None:
                words = {w: at for w, (_, at) in Cells(cells).tally().items()}
                word = next(w for w in words if token(w) not in MISSING and number(w) is None)
                where = f"row {rows + words[word] + 1}, column '{shown(name, 40)}'"
                said = f"'{shown(word.strip(), 40)}' is not a number"
                raise DataError(f"{source.label}: {where}: {said}")
        parts.append(np.stack(values, axis=1) if values else parts[0])
        rows += len(block[0])
    if not any(part.size for part in parts):
        raise DataError(f"{source.label}: there is no row of numbers in it")
    return np.concatenate(parts[1:])
