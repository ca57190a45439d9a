"""Sources of tables: files of many kinds, frames, arrays and lists, each as a `Source`."""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import to_host
from hopfed._lib.guarded_reading import guard_reading, open_hdf5, raise_limits, try_in_child
from hopfed._lib.memory_limits import SMALL, require_memory
from hopfed.errors import DataError, safe_line
from hopfed.kernels import Rows
from hopfed.kernels.examples import dense_tensor
from hopfed.tables import files
from hopfed.tables.choosing import no_columns
from hopfed.tables.coding import COMMA, KNOWN, MISSING, NUMBER, as_numbers, number, spell, token
from hopfed.tables.table import NAME, Block, Source, made_up_names, name_columns, places_of
from hopfed.tables.writers import Dialect

PART = 1 << 22  # entries of a block of other files than texts
TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".asc")
BOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STUDIES = {".sav": "sav", ".zsav": "sav", ".por": "por", ".dta": "dta", ".xpt": "xport"}
STUDIES |= {".sas7bdat": "sas7bdat"}
ARROW = {".parquet": "parquet", ".feather": "feather", ".arrow": "feather", ".orc": "orc"}
RECORDS = (".json", ".jsonl", ".ndjson")
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
PREFERRED = ("examples", "X", "x", "data")  # names tried first in files that hold several arrays
DENSEST = 2_000  # bytes for each byte of a file; deflate reaches about 1,000
ROOM = 1 << 30  # bytes of an array in HDF5 that a child process reads first
METADATA = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
LITTLE = 1 << 16  # bytes that any chunk may take
READ = ".csv, .tsv, .xlsx, .ods, .sav, .dta, .sas7bdat, .json, .parquet, .npy, .npz, .h5, .zarr"
HEAD = 1 << 18  # bytes from which the form of a text is found, unless two lines are longer
LINES = 200  # of them that are used
CELLS = 20_000  # of them that are searched for another delimiter
WIDEST = 2_000_000  # columns
LONGEST = 1 << 26  # bytes of a line
BLOCK, MOST = 1 << 22, 1 << 26  # bytes of text that are read at a time, at least and at most
ROWS = 256  # rows that they hold at least, as far as that fits
UNSURE = 0.015  # confidence in an encoding that is as good as none
FEW = 0.1  # largest share of other cells in a column of numbers
ABOVE = "left out above the names of columns: "
NO_ROW = "leave out what is no row"
JOINED = "ends of lines: if rows are missing, look for a quotation mark without its pair"
# Encodings that files usually have.
_USUAL = re.compile("windows-125[0-8]|cp(932|949|874)|gb18030|big5|koi8-[ru]|euc-(jp|kr)|shift_jis")
_POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # perhaps
_UNSIGNED = re.compile("[0-9]{1,9}([.,][0-9]+)?")
_is_number = re.compile(f"{NUMBER.pattern}|{COMMA.pattern}").fullmatch
Texts = Sequence[Sequence[str]]  # rows of cells


def source_of(given: Any, label: str = "examples") -> Source:
    """Return the source, by format, of a path, a frame, an array or lists; errors say `label`."""
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

        with guard_reading(label):
            table = pa.table(given)
        source = _of_columns(table.column_names, table.columns, label)
    elif hasattr(given, "shape"):
        given = kernels.unpack(given) if isinstance(given, Rows) else given
        source = _of_array(given.tocsr() if hasattr(given, "tocsr") else given, label)
    else:
        source = _of_rows(given, label)
    if names is not None:
        source.names, source.notes = name_columns(names, label)
    if ids is not None:
        source.ids = np.array(list(map(str, ids)), dtype=str)
    return source


def of_path(path: Path) -> Source:
    """Return the source of a file, by its format; a sheet of a workbook is `book.xlsx:Sheet 2`."""
    name, _, sheet = path.name.partition(":")
    is_sheet = sheet and not path.exists() and Path(name).suffix.lower() in BOOKS
    path, sheet = (path.with_name(name), sheet) if is_sheet else (path, "")
    ending = path.suffix.lower()
    kind = path.with_suffix("").suffix.lower() if ending in files.PACKED else ending
    if ending in ARRAYS:
        return _of_array(open_array(path), str(path))
    if os.path.isdir(path):  # Path.is_dir raises an error for a long name
        return _of_folder(path)
    size = files.size_of(path)  # raises an error for a missing file, before one for its ending
    with guard_reading(path):
        if kind in TEXT:
            return _of_text(path)
        if kind in RECORDS:
            return _of_records(path)
        if ending in BOOKS:
            return _of_book(path, sheet)
        if ending in STUDIES:
            return _of_study(path, STUDIES[ending], size)
        if ending in ARROW:
            return _of_arrow(path, size)
    raise DataError(f"{path}: unknown format {path.suffix!r}; use one of {READ}")


def _make_source(label: str, names: Any, blocks: Any, notes: Sequence[str] = ()) -> Source:
    """Source of blocks of columns, whose names are made different."""
    known, more = name_columns(names, label)
    if not known:
        raise DataError(f"{label}: there are no columns")
    return Source(label, known, lambda: files.guard_blocks(blocks(), label), notes=[*notes, *more])


def _of_columns(names: Any, columns: Any, label: str, notes: Sequence[str] = ()) -> Source:
    """Source of columns in memory, with cells of any kind."""
    for name, cells in zip(names, columns, strict=True):
        whole = isinstance(cells, str) or not hasattr(cells, "__iter__")
        if whole or getattr(cells, "ndim", 1) != 1:
            raise DataError(f"{label}: column '{safe_line(name, 60)}' must be a list of cells")
    held = list(map(as_arrow, columns))
    if len(lengths := sorted({len(array) for array in held})) > 1:
        raise DataError(f"{label}: columns must be of one length, got {lengths}")
    return _make_source(label, names, lambda: iter([held]), notes)


# Text: its form is found from the first lines, then Arrow reads it in blocks


def _of_text(path: Path) -> Source:
    """Return the source of a text, whose form is found from its first lines."""
    for size in (HEAD, LONGEST):  # two whole lines at least
        some = files.read_bytes(path, size)
        head, whole = next(some), next(some, None) is None
        if whole or len(head.lstrip(b"\r\n\0").splitlines()) > 2:
            break
    encoding, lines = _decode(head, whole)
    delimiter, quote, rows, ends = sniff(lines)
    start, header, above = layout(rows)
    body = [row for row in rows[start:] if any(row)]
    names, notes = name_columns(header, str(path))
    if encoding != "utf-8":
        notes.append(f"read as {encoding}, not as UTF-8: if letters are wrong, save it as UTF-8")
    end = "\r\n" if head.partition(b"\n")[0].endswith((b"\r", b"\r\0")) else "\n"
    size = min(max(BLOCK, ROWS * max(map(len, lines))), MOST)  # blocks cost something by column
    (commas, doubts), mark = decimal_columns(body, delimiter), head.startswith(codecs.BOM_UTF8)
    dialect = Dialect(delimiter.replace(" ", ","), bool(commas), mark, end, encoding)

    def read() -> Iterator[Block]:
        blocks = _blocks(source, delimiter, quote, ends[start - 1] if start else 0, size)
        return files.guard_blocks(blocks, path)

    source = Source(str(path), names, read, None, [*above, *notes], dialect=dialect, commas=commas)
    source.doubts = {names[j] for j in doubts}
    return source


# The first lines


def _decode(head: bytes, whole: bool) -> tuple[str, list[str]]:
    """Find the encoding of a file from its first bytes, and its whole lines among them."""
    encoding, utf16 = "utf-8", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    if head.startswith(utf16):
        encoding = "utf-16"
    elif b"\0" in head:
        even, odd = head[:400:2].count(0), head[1:400:2].count(0)
        if 4 * (even + odd) < len(head[:400]):
            raise ValueError("it holds NUL bytes, so it is no text")
        encoding = "utf-16-le" if odd > even else "utf-16-be"
    else:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
        except UnicodeDecodeError:
            guesses = files.import_extra("chardet", "texts that are not UTF-8").detect_all(head)
            found = {str(g["encoding"]).lower(): g["confidence"] for g in guesses}
            best = max(found.values(), default=0.0)
            usual = [n for n, sure in found.items() if _USUAL.fullmatch(n) and sure >= best / 2]
            sure = best > UNSURE and usual and "windows-1252" not in usual
            encoding = usual[0] if sure else "cp1252"
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head, final=whole)
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    columns = max(lines[0].count(d) for d in ",;\t|") + 1
    if columns > WIDEST:
        raise ValueError(f"{columns:,} columns are more than the {WIDEST:,} that can be read")
    require_memory(NAME * columns, f"{columns:,} columns")
    if not any(line.strip() for line in lines):
        raise ValueError("the file is empty")
    return encoding, lines if whole or len(lines) < 3 else lines[:-1]


def sniff(lines: Sequence[str]) -> tuple[str, str, list[list[str]], list[int]]:
    """Sniff a text's format: delimiter, quotation mark, cells of the first rows, and their ends."""
    best: tuple[float, str, str, list[list[str]], list[int]] = (-1.0, ",", '"', [], [])
    csv.field_size_limit(LONGEST)
    for sign in ",;\t| ":
        plain = [" ".join(line.split()) if sign == " " else line for line in lines]
        # R writes names in single quotes where spaces separate them.
        quote = "'" if sign == " " and any(line[:1] == "'" for line in plain[:LINES]) else '"'
        found = csv.reader((line + "\n" for line in plain), delimiter=sign, quotechar=quote)
        pairs = [([c.strip() for c in row], found.line_num) for row in islice(found, LINES)]
        rows, ends = (list(part) for part in zip(*pairs, strict=True))
        widths = Counter(len(row) for row in rows if any(row)) or Counter(map(len, rows))
        width, often = widths.most_common(1)[0]
        cells = list(islice((c for row in rows for c in row if c), CELLS))
        odd = sum(bool(re.search(r"[;\t|]|\S,\S", c)) and not COMMA.fullmatch(c) for c in cells)
        score = often / sum(widths.values()) * (1 - odd / max(len(cells), 1))
        score *= 0.1 if width == 1 else 0.9 if sign == " " else 1
        if score > best[0] + 1e-9:
            best = (score, sign, quote, rows, ends)
    return best[1:]


def decimal_columns(rows: Texts, delimiter: str) -> tuple[frozenset[int], set[int]]:
    """For text formats, return columns of decimal commas, and with points maybe of thousands."""
    commas, doubts, sure = set[int](), dict[int, bool](), delimiter == ";"
    for j, each in enumerate(zip_longest(*rows, fillvalue="") if delimiter != "," else ()):
        cells = [cell for cell in each if cell.lower() not in MISSING]
        digits = [cell.lstrip("+-") for cell in cells if cell.lstrip("+-").isdecimal()]
        marked = [cell for cell in cells if COMMA.fullmatch(cell)]
        pointed = [cell for cell in cells if "." in cell and number(cell) is not None]
        decimal = not all(map(_POINTED.fullmatch, pointed))
        numbers = len(digits) + len(marked) >= (1 - FEW) * len(cells)
        if numbers and not all(map(_THOUSANDS.fullmatch, marked)):
            commas.add(j)
        elif pointed and not decimal:
            doubts[j] = bool(digits)
        sure = sure and not decimal and max(map(len, digits), default=0) <= 3
    return frozenset(commas), {j for j, beside in doubts.items() if commas or (sure and beside)}


# Names of columns


def layout(rows: Texts) -> tuple[int, list[str], list[str]]:
    """For formats of text and workbooks, return the number of rows above cells, names, notes."""
    widths = Counter(len(row) for row in rows if any(row))
    if not widths:
        raise ValueError("there is nothing in its first rows")
    width, start = max(widths, key=lambda n: (widths[n], n)), 0
    while start + 1 < len(rows) and _is_title(rows[start], rows[start + 1], width):
        start += 1
    titles = [" ".join(filter(None, row)) for row in rows[:start] if any(row)]
    titles = [title for title in titles if not title.lower().startswith("sep=")]
    names, below = list(rows[start]), [row for row in rows[start + 1 :] if any(row)]
    notes = [f"{ABOVE}{safe_line(title, 80)}" for title in titles]
    if not _is_header(names, below):
        if not titles:  # rows of blank cells are rows
            start = next((k for k, row in enumerate(rows[:start]) if row), start)
        return start, [""] * max(width, len(names)), notes
    above, blank = start + 1, [j for j, name in enumerate(names) if not name and j]
    if blank and len(names) == width and _is_second(below, blank):
        top, names, above = names, list(below[0]), start + 2
        if all(names) and len({*names}) == width:
            notes.append(f"{ABOVE}{safe_line(' '.join(filter(None, top)), 80)}")
        else:  # the names below cells that are merged
            for j in range(1, width):
                top[j] = top[j] or top[j - 1]
            names = [f"{name} {more}".strip() for name, more in zip(top, names, strict=True)]
            notes.append(f"two rows of names were joined: '{safe_line(names[blank[0]], 60)}'")
    extra = width - len(names)
    if extra > 0:  # R has no name for names of rows; others end each row by delimiters
        ends = not any(any(row[len(names) :]) for row in below)
        names = [*names, *[""] * extra] if ends else ["", *names] if extra == 1 else names
    if not any(map(any, rows[above:])):
        raise ValueError("it has only a header line, and no examples")
    return above, names, notes


def _is_title(row: Sequence[str], below: Sequence[str], width: int) -> bool:
    """Whether a row stands above names: blank, a comment, or a cell where others have several."""
    if not any(row) or (row[0].startswith("#") and len(row) != width):
        return True
    alone = sum(map(bool, row)) == 1 and bool(row[0])  # one further right stands above others
    few = width > 1 and (len(row) < width - 1 or width > 2 or not any(below))
    return alone and (few or row[0].lower().startswith("sep="))


def _is_header(top: Sequence[str], below: Texts) -> bool:
    """Whether a first row holds names: cells of another kind than those below."""
    columns = [[row[j] for row in below if j < len(row)] for j in range(len(top))]
    other = any(n and n not in cells for n, cells in zip(top, columns, strict=True))
    if other and not top[0] and columns[0] and all(columns[0]):
        return True  # names of rows stand below a blank
    digits = [j for j, cell in enumerate(top) if _UNSIGNED.fullmatch(cell)]
    plain = [float(top[j].replace(",", ".")) for j in digits]
    if len(plain) > 1 and plain == sorted({*plain}):  # years, numbers of questions, decimals
        whole = all(map(float.is_integer, plain))
        steady = whole and len(plain) > 2 and plain[-1] - plain[0] == len(plain) - 1
        other = plain[0] > 999 or (not whole and not {0.0, 1.0} & {*plain})
        held = {cell.lower() for j in digits for cell in columns[j]} - MISSING
        signs = bool(held) and held <= KNOWN | {"-1"}
        if (steady and len(top) > len(plain)) or (signs and (steady or other)):
            return True
    against, above, numbers = 0, False, sum(_is_number(cell) is not None for cell in top)
    for name, cells in zip(top, columns, strict=True):
        held, said = {c.lower() for c in cells} - MISSING, name.lower()
        entry = said in KNOWN
        if name and held and all(map(_is_number, held)):
            above = above or not (entry or _is_number(name))
            against += _is_number(name) is not None or said in MISSING
        elif name and (said in held or (entry and held <= KNOWN)):
            against += 1
    return (above and not numbers) or (against == 0 and numbers < sum(map(bool, top)))


def _is_second(below: Texts, blank: Sequence[int]) -> bool:
    """Whether the first row below names holds names as well, as below merged cells."""
    row = below[0] if len(below) > 2 else ()
    held, words = {c.lower() for r in below[1:] for c in r}, [c for c in row if c]
    full = all(j < len(row) and row[j] for j in blank) and 2 * len(words) > len(row)
    return full and not any(_is_number(w) or w.lower() in held for w in words)


# All rows


def _blocks(source: Source, delimiter: str, quote: str, above: int, size: int) -> Iterator[Block]:
    """Yield all rows of a text as arrays, and note what may be read wrongly."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    rows, width, last, faults = 0, len(source.names), "", list[str]()

    def refuse(row: Any) -> str:
        at, due = rows + row.number - above, row.expected_columns
        faults.append(f"row {at} has {row.actual_columns} cells instead of {due}: {NO_ROW}")
        return "error"

    names = [str(j) for j in range(width)]
    how: dict[str, Any] = {"newlines_in_values": True, "ignore_empty_lines": width > 1}
    how |= {"delimiter": delimiter, "quote_char": quote}
    parse, mark = arrow.ParseOptions(invalid_row_handler=refuse, **how), quote.encode()
    # Arrow would keep its lists of words for every column, 7 kB each.
    none: Any = {"null_values": [], "true_values": [], "false_values": []}
    convert = arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **none)
    for data in _whole_lines(Path(source.label), source.dialect.encoding, mark, size):
        if delimiter == " ":  # one between cells, and none at the edges of lines
            data = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", data))
        notes = dict.fromkeys(source.notes)
        if width > 1 and any(ends in data for ends in (b"\n\n", b"\n\r\n", b"\r\r")):
            notes["blank lines between rows are left out"] = None
        read = arrow.ReadOptions(  # without threads, rows have numbers
            use_threads=False, block_size=len(data) + 1, column_names=names, skip_rows=above
        )
        try:
            found = arrow.read_csv(pa.py_buffer(data), read, parse, convert)
        except pa.ArrowInvalid as error:
            raise ValueError(faults[0] if faults else str(error)) from None
        if mark in data and found.num_rows:
            for name, cells in zip(source.names, found.columns, strict=True):
                if pc.any(pc.match_substring(cells, "\n")).as_py():
                    notes[f"cells of '{safe_line(name, 60)}' hold {JOINED}"] = None
            last = found.column(width - 1)[-1].as_py()
        rows, above, source.notes[:] = rows + found.num_rows, 0, notes
        for batch in found.to_batches():
            yield batch.columns
    if "\n" in last and not data.endswith(mark):
        raise ValueError("a quotation mark is not closed before the end")


def _whole_lines(path: Path, encoding: str, quote: bytes, size: int) -> Iterator[bytes]:
    """Yield whole lines as UTF-8, some bytes at a time, without blank lines at the end."""
    decoder, rest = codecs.getincrementaldecoder(encoding)(), b""
    for read in chain(files.read_bytes(path, size), [b""]):  # b"" is the end
        data = rest + (read if encoding == "utf-8" else decoder.decode(read, not read).encode())
        if b"\0" in data:
            raise ValueError("it holds NUL bytes, so it is no text")
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) if read else len(data)
        if read and quote in data:
            letters = np.frombuffer(data, np.uint8, end + 1)
            ends = np.flatnonzero((letters == 10) | (letters == 13))
            quotes = np.flatnonzero(letters == ord(quote))
            end = max(ends[np.searchsorted(quotes, ends) % 2 == 0], default=-1)
        end = len(data[: max(end, 0)].rstrip(b"\r\n"))  # blank lines wait for others
        end += (2 if data[end : end + 2] == b"\r\n" else 1) if read and end else 0
        data, rest = data[:end], data[end:]
        if len(rest) > LONGEST:
            raise ValueError("a line in it is too long, or a quotation mark is not closed")
        if data:
            yield data


# Workbooks, studies, records


def _of_book(path: Path, sheet: str) -> Source:
    """Source of a sheet of a workbook: the named one, else the one with most cells."""
    book = files.import_extra("python_calamine", "workbooks").CalamineWorkbook.from_path(str(path))
    every = ", ".join(f"'{safe_line(name, 40)}'" for name in book.sheet_names[:20])
    if sheet and sheet not in book.sheet_names:
        raise DataError(f"{path}: there is no sheet '{safe_line(sheet, 40)}'; there are {every}")
    sheets = [book.get_sheet_by_name(name) for name in ([sheet] if sheet else book.sheet_names)]
    held = max(sheets, key=lambda each: each.height * each.width)
    require_memory(100 * held.total_height * held.total_width, str(path))
    rows = held.to_python()
    start, names, above = layout([[spell(c).strip() for c in row] for row in rows[:LINES]])
    body = [row for row in rows[start:] if any(c != "" for c in row)]
    gone = len(rows) - start - len(body)
    notes = [f"sheet '{safe_line(held.name, 40)}' was read, of {every} (--sheet)"] * (
        len(sheets) > 1
    )
    notes += [f"{gone} blank row(s) are left out"] * bool(gone)

    def plain(cell: Any) -> Any:  # numbers are floats, also those that are whole
        whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15
        return int(cell) if whole else None if cell == "" else cell

    columns = [list(map(plain, cells)) for cells in zip(*body, strict=True)]
    source = _of_columns(names, columns, str(path), [*notes, *above])
    source.dialect = Dialect(mark=True)  # without it spreadsheets take UTF-8 for something else
    return source


def _of_study(path: Path, kind: str, size: int) -> Source:
    """Source of a file of SPSS, Stata or SAS: labels of values are words."""
    import pyarrow as pa

    module = files.import_extra("pyreadstat", "files of SPSS, Stata and SAS")
    read = partial(getattr(module, f"read_{kind}"), str(path), output_format="dict")
    try_in_child(lambda: read(row_limit=PART), size)
    _, meta = read(metadataonly=True)
    labels = [meta.variable_value_labels.get(name, {}) for name in meta.column_names]
    step = max(1, PART // max(len(labels), 1))

    def labelled(cells: Any, own: Mapping[Any, str]) -> Any:
        coded = as_arrow(np.asarray(cells)).dictionary_encode()
        words = {spell(value): str(text).strip() or spell(value) for value, text in own.items()}
        held = [words.get(w := spell(cell), w) for cell in coded.dictionary.to_pylist()]
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
    return _make_source(str(path), meta.column_names, blocks, [said] * bool(some))


def _of_records(path: Path) -> Source:
    """Source of a list of records in JSON, of a record in each line, or of lists of columns."""
    text = b"".join(files.read_bytes(path, SMALL)).decode("utf-8-sig")
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


# Files of Arrow, folders


def _of_arrow(path: Path, size: int) -> Source:
    """Source of a file of Arrow, whose batches are checked, and bounded by the size of the file."""
    import pyarrow as pa
    from pyarrow import dataset, parquet

    form: Any = ARROW[path.suffix.lower()]
    is_orc, most = form == "orc", max(files.UNPACKED * size, files.ROOM)
    if form == "parquet":
        texts = [f.name for f in parquet.read_schema(path) if pa.types.is_string(f.type)]
        form = dataset.ParquetFileFormat(dictionary_columns=texts)  # each word is kept once

    def blocks() -> Iterator[Block]:
        data, letters = dataset.dataset(str(path), format=form), 0
        width = max(len(data.schema), 1)
        entries = data.count_rows() * width
        if entries // 8 > max(files.UNPACKED * size, SMALL):
            raise ValueError(f"{entries:,} entries cannot be in a file of {size:,} bytes")
        require_memory(entries // 4, str(path))
        how = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        for batch in data.to_batches(batch_size=max(1, PART // width), **how):
            batch.validate(full=True)  # its text is text, and its offsets lead to no other memory
            kinds = [(c, getattr(c.type, "value_type", c.type)) for c in batch.columns]
            letters += sum(c.nbytes for c, kind in kinds if not pa.types.is_primitive(kind))
            if letters > most:
                raise ValueError(f"it unpacks to more than {most:,} bytes: write it unpacked")
            yield list(map(plain_array, batch.columns))

    def try_reading() -> None:
        raise_limits(most)
        for _ in blocks():
            pass

    if is_orc:  # its reader crashes on some damaged files
        try_in_child(try_reading, size)
    return _make_source(str(path), dataset.dataset(str(path), format=form).schema.names, blocks)


def _of_folder(path: Path) -> Source:
    """Source of the files of a folder, one below the other."""
    sources = [of_path(file) for file in files.files_of(path)]
    notes = dict.fromkeys(line for source in sources for line in source.notes)
    names = sources[0].names
    places = [places_of(s.names, names, s.label, sources[0].label) for s in sources]

    def blocks() -> Iterator[Block]:
        for source, own in zip(sources, places, strict=True):
            for block in source.blocks():
                yield [block[j] for j in own]

    return _make_source(str(path), names, blocks, list(notes))


def plain_array(array: Any) -> Any:
    """For formats of Arrow, return an array in one piece, in a type that Python has itself."""
    import pyarrow as pa
    import pyarrow.types as types

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    of = getattr(array.type, "value_type", array.type)
    if types.is_dictionary(array.type) and (types.is_nested(of) or types.is_temporal(of)):
        array = array.dictionary_decode()
    kind = array.type
    if getattr(kind, "unit", "") == "ns":
        zone = [kind.tz] if types.is_timestamp(kind) else []
        make = pa.timestamp if zone else pa.duration if types.is_duration(kind) else pa.time64
        return array.cast(make("us", *zone), safe=False)
    views = types.is_string_view(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    return array.cast(pa.string()) if views or types.is_binary(kind) else array


# Arrays in files: what a header says is checked before anything is allocated


def open_array(path: Path) -> Any:
    """Open an array of a file format: of several the one with a preferred name, or the only one."""
    suffix = path.suffix.lower()
    with guard_reading(path):
        size = _folder(path) if suffix == ".zarr" else files.size_of(path)
        npy: Any = partial(np.lib.format.open_memmap, mode="r")
        held: Any = {".npy": npy, ".npz": _npz, ".zarr": _zarr}.get(suffix, _hdf5)(path)
        if suffix == ".npy" and held.offset + held.nbytes != size:
            raise ValueError("its header is not that of all that it holds")
        if held.dtype.kind not in "biufUS" or not held.dtype.itemsize:
            raise DataError(f"{path}: arrays of {held.dtype} are not read, only numbers and words")
        # An axis of length 0 hides no other: an array of no rows is as wide as it says.
        entries = math.prod(max(n, 1) for n in held.shape)
        most = max(entries * held.dtype.itemsize, NAME // 4 * math.prod(held.shape[1:]))
        if most > max(DENSEST * size, SMALL):
            raise ValueError(f"a table of {held.shape} cannot be in a file of {size:,} bytes")
    return held


def rows_of(held: Any, which: slice, label: str) -> np.ndarray:
    """Read some rows of an array, of a file format or in memory, in this machine's byte order."""
    if not held.shape:
        raise DataError(f"{label}: examples must be rows of a table, got 0 axes")
    first, last, _ = which.indices(held.shape[0])
    entries = 2 * (last - first) * math.prod(held.shape[1:])
    entries += math.prod(getattr(held, "chunks", None) or (1,))
    require_memory(held.dtype.itemsize * entries, label)
    with guard_reading(label):
        part = held[first:last]
        part = np.asanyarray(part.toarray() if hasattr(part, "toarray") else part)
        if part.dtype.kind == "b" and part.view(np.uint8).max(initial=0) > 1:
            raise ValueError("holds truth values other than 0 and 1")
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _pick(path: Path, names: Sequence[str]) -> str:
    """Name of the table of examples: one of PREFERRED, or the only one."""
    chosen = [name for name in PREFERRED if name in names] or names
    if len(names) != 1 and chosen is names:
        found = safe_line(", ".join(names[:10])) or "none"
        raise DataError(f"{path}: name the table of examples 'examples'; tables found: {found}")
    return chosen[0]


def _npz(path: Path) -> Any:
    """Table of an archive of NumPy, whose size is checked before it is unpacked."""
    with zipfile.ZipFile(path) as archive:
        require_memory(2 * sum(member.file_size for member in archive.infolist()), str(path))
    with np.load(path) as held:
        tables = {name: array for name, array in held.items() if np.ndim(array) > 1}
    return tables[_pick(path, list(tables))]


class _Hdf5:
    """A table in HDF5, which is opened to read the rows of a slice."""

    def __init__(self, path: Path):
        items: dict[str, Any] = {}
        with open_hdf5(path) as file:
            file.visititems(items.__setitem__)  # follows no links
            tables = [name for name, item in items.items() if getattr(item, "ndim", 0) > 1]
            self.path, self.name = path, _pick(path, tables)
            held = items[self.name]
            if held.is_virtual or held.external:
                raise ValueError("its values are in other files")
            self.shape, self.dtype, self.chunks = held.shape, held.dtype, held.chunks or (1,)

    def __getitem__(self, which: slice) -> Any:
        with open_hdf5(self.path) as file:
            return file[self.name][which]


def _hdf5(path: Path) -> _Hdf5:
    """Open a table in HDF5 after a child process read it: the library crashes on damaged files."""

    def try_reading() -> None:
        held = _Hdf5(path)
        nbytes = math.prod(held.shape) * held.dtype.itemsize
        if held.dtype.kind in "biuf" and nbytes <= ROOM:
            raise_limits(4 * nbytes)
            for _ in _of_numbers(held, str(path)).parts():
                pass

    try_in_child(try_reading, files.size_of(path))
    return _Hdf5(path)


def _zarr(path: Path) -> Any:
    """Open the table of a zarr store, whose files must be plain and not too large."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    zarr = files.import_extra("zarr", "stores of zarr", "table")
    held: Any = zarr.open(str(path), mode="r")
    if not hasattr(held, "shape"):
        held = held[_pick(path, [name for name, array in held.arrays() if array.ndim > 1])]
    kept = math.prod(getattr(held, "shards", None) or held.chunks) * held.dtype.itemsize
    _folder(Path(path, held.path), 2 * kept + LITTLE)
    return held


def _folder(path: Path, most: float = math.inf) -> int:
    """Bytes of a folder, which must hold only files of at most `most` bytes, and safe codecs."""
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


# Objects in memory


def as_arrow(cells: Any) -> Any:
    """Return a column of any format as an array of Arrow; mixed objects as their words."""
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        return plain_array(cells)
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        found = pa.array(cells, from_pandas=True)
        kind = getattr(found.type, "value_type", found.type)
        if not isinstance(kind, pa.BaseExtensionType):  # of intervals and periods, say
            return plain_array(found)
    return pa.array([spell(cell) or None for cell in cells], pa.string())


def _of_array(given: Any, label: str) -> Source:
    """Source of an array of any library, dense or sparse, in memory or not."""
    given = dense_tensor(given, label)
    as_is = type(given).__module__.startswith(("numpy", "zarr", "h5py", "scipy", "hopfed"))
    given = given if as_is else to_host(given)
    kind = given.dtype.kind
    if kind not in "US" and not (kind == "O" and any(isinstance(c, str) for c in given.flat)):
        return _of_numbers(given, label)
    with guard_reading(label):  # NumPy does not check letters
        flat = rows_of(given, slice(None), label).reshape(given.shape[0], -1)
        columns = [as_arrow(cells.tolist()) for cells in flat.T]
        for column in columns:
            column.validate(full=True)
    return _of_columns([""] * len(columns), columns, label)


def _of_numbers(given: Any, label: str) -> Source:
    """Source of an array of numbers; of a sparse array what is not stored is 0."""
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

    return Source(label, made_up_names(columns), blocks, numbers=parts)


def _of_rows(given: Any, label: str) -> Source:
    """Source of rows in lists: of numbers, or of objects if words or None are among them."""
    try:
        rows = list(given)
        if any(isinstance(row, str | os.PathLike) for row in rows):
            raise TypeError("of texts: one table is read here, recover takes several files")
        rows = [list(row) for row in rows]
        columns = list(zip(*rows, strict=True))
    except (TypeError, ValueError) as error:
        said = f"{safe_line(type(given).__name__)}, {error}"
        raise DataError(f"{label}: neither a path nor rows of one length: {said}") from None
    if not any(cell is None or isinstance(cell, str) for cells in columns for cell in cells):
        with suppress(ValueError, TypeError):
            found = np.array(rows)
            if found.ndim >= 2:
                return _of_array(found, label)
    return _of_columns([""] * len(columns), columns, label)


def read_numbers(given: str | Path | Source, ignore: Sequence[str] = ()) -> np.ndarray:
    """Read numbers of a file of any format, (M, ...), float64 with NaN for gaps if not .npy."""
    if not isinstance(given, Source) and Path(given).suffix.lower() in ARRAYS and not ignore:
        return rows_of(open_array(Path(given)), slice(None), str(given))
    source = given if isinstance(given, Source) else of_path(Path(given))
    if unknown := [name for name in ignore if name not in source.names]:
        raise no_columns(source.label, unknown, source.names)
    parts, rows = list[np.ndarray](), 0
    for block in source.blocks():
        values = []
        used = [pair for pair in zip(source.names, block, strict=True) if pair[0] not in ignore]
        for name, cells in used:
            if (numbers := as_numbers(cells, MISSING)) is None:
                held = enumerate(map(spell, cells.to_pylist()), rows + 1)
                odd = ((k, w) for k, w in held if token(w) not in MISSING and number(w) is None)
                row, word = next(odd)
                where = f"row {row}, column '{safe_line(name, 40)}'"
                raise DataError(f"{source.label}: {where}: '{safe_line(word, 40)}' is not a number")
            values.append(numbers)
        parts += [np.stack(values, axis=1)] * bool(values)
        rows += len(block[0])
    if not parts:
        raise DataError(f"{source.label}: there is no row of numbers in it")
    return np.concatenate(parts)
