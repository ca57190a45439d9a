"""Text files of cells: looked at first, then read in blocks by Arrow.

The first lines say how the bytes are letters, what separates cells, what stands above the names of
columns, whether there are names, and which numbers have a decimal comma. Cells come as they stand.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError, shown
from hopfed.tables.files import contents, needed, pieces
from hopfed.tables.table import NAME, Block, Source, named
from hopfed.tables.words import COMMA, KNOWN, MISSING, NUMBER, SHORT, number
from hopfed.tables.writers import Dialect

HEAD = 1 << 18  # bytes that are looked at, unless two lines are longer
LINES = 200  # of them that say how a text is laid out
CELLS = 20_000  # of them that may hold another delimiter
WIDEST = 2_000_000  # columns
LONGEST = 1 << 26  # bytes of a line
BLOCK, MOST = 1 << 22, 1 << 26  # bytes of text that are read at a time, at least and at most
ROWS = 256  # rows that they hold at least, as far as that fits
UNSURE = 0.015  # of an encoding, below which it is as good as not known
FEW = 0.1  # of the cells of a column of numbers may be none
ABOVE = "left out above the names of columns: "
NO_ROW = "leave out what is no row"
JOINED = "ends of lines: if rows are missing, a quotation mark is opened or closed too many"
# Encodings that files have as a rule, of many that bytes might be of.
_USUAL = re.compile("windows-125[0-8]|cp(932|949|874)|gb18030|big5|koi8-[ru]|euc-(jp|kr)|shift_jis")
_POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # or so it may be
_UNSIGNED = re.compile("[0-9]{1,9}([.,][0-9]+)?")


def of_text(path: Path) -> Source:
    """Look at the first lines of a file, and return what reads it."""
    for size in (HEAD, LONGEST):  # two whole lines at least
        some = contents(path, size)
        head, whole = next(some), next(some, None) is None
        if whole or len(head.lstrip(b"\r\n\0").splitlines()) > 2:
            break
    encoding = _encoding(head, whole)
    lines = _lines(head, whole, encoding)
    delimiter, rows, ends = sniff(lines)
    found = layout(rows)
    body = [row for row in rows[found.above :] if any(row)]
    if not body and found.names is not None:
        raise DataError(f"{path}: only a header line, no examples")
    names, notes = named(found.names or [""] * found.width, str(path))
    if encoding != "utf-8":
        notes.append(f"read as {encoding}, not as UTF-8: if letters are wrong, save it as UTF-8")
    end = "\r\n" if head.partition(b"\n")[0].endswith((b"\r", b"\r\0")) else "\n"
    skipped = ends[found.above - 1] if found.above else 0
    size = min(max(BLOCK, ROWS * max(map(len, lines))), MOST)  # blocks cost something by column
    read = lambda: pieces(_blocks(source, delimiter, skipped, size), path)  # noqa: E731
    commas, mark = decimals(body, delimiter), head.startswith(codecs.BOM_UTF8)
    dialect = Dialect(delimiter.replace(" ", ","), bool(commas), mark, end, encoding)
    source = Source(
        str(path), names, read, notes=[*found.notes, *notes], dialect=dialect, commas=commas
    )
    return source


# The first lines


def _encoding(head: bytes, whole: bool) -> str:
    """How bytes are letters, by the first of them."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        even, odd = head[:400:2].count(0), head[1:400:2].count(0)
        if 4 * (even + odd) < len(head[:400]):
            raise ValueError("it holds NUL bytes, so it is no text")
        return "utf-16-le" if odd > even else "utf-16-be"
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
        return "utf-8"
    chardet = needed("chardet", "texts that are not UTF-8")
    found = {str(g["encoding"]).lower(): g["confidence"] for g in chardet.detect_all(head)}
    best = max(found.values(), default=0.0)
    usual = [name for name in found if _USUAL.fullmatch(name) and found[name] >= best / 2]
    sure = best > UNSURE and usual and "windows-1252" not in usual
    return usual[0] if sure else "cp1252"


def _lines(head: bytes, whole: bool, encoding: str) -> list[str]:
    """Whole lines of text at the beginning of a file."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head, final=whole)
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = lines if whole or len(lines) < 3 else lines[:-1]
    columns = max(lines[0].count(d) for d in ",;\t|") + 1
    if columns > WIDEST:
        raise ValueError(f"{columns:,} columns are more than the {WIDEST:,} that can be read")
    require_memory(NAME * columns, f"{columns:,} columns")
    if not any(line.strip() for line in lines):
        raise ValueError("the file is empty")
    return lines


def sniff(lines: Sequence[str]) -> tuple[str, list[list[str]], list[int]]:
    """Return what separates cells, the cells of the first lines, stripped, and where rows end."""
    best: tuple[float, str, list[list[str]], list[int]] = (-1.0, ",", [], [])
    csv.field_size_limit(LONGEST)
    for sign in ",;\t| ":
        given = (" ".join(line.split()) if sign == " " else line for line in lines)
        found = csv.reader((line + "\n" for line in given), delimiter=sign)
        pairs = [([c.strip() for c in row], found.line_num) for row in islice(found, LINES)]
        rows, ends = (list(part) for part in zip(*pairs, strict=True))
        widths = Counter(len(row) for row in rows if any(row)) or Counter(map(len, rows))
        width, often = widths.most_common(1)[0]
        cells = list(islice((c for row in rows for c in row if c), CELLS))
        odd = sum(bool(re.search(r"[;\t|]|\S,\S", c)) and not COMMA.fullmatch(c) for c in cells)
        score = often / sum(widths.values()) * (1 - odd / max(len(cells), 1))
        score *= 0.1 if width == 1 else 0.9 if sign == " " else 1
        if score > best[0] + 1e-9:
            best = (score, sign, rows, ends)
    return best[1:]


def decimals(rows: Sequence[Sequence[str]], delimiter: str) -> frozenset[int]:
    """Columns of numbers with a decimal comma, or with points that may be of thousands."""
    held = zip_longest(*rows, fillvalue="") if delimiter != "," else ()
    commas, doubts, sure = set[int](), set[int](), delimiter == ";"
    for j, each in enumerate(held):
        cells = [cell for cell in each if cell.lower() not in MISSING]
        digits = [cell.lstrip("+-") for cell in cells if cell.lstrip("+-").isdecimal()]
        marked = [cell for cell in cells if COMMA.fullmatch(cell)]
        pointed = [cell for cell in cells if "." in cell and number(cell) is not None]
        decimal = not all(map(_POINTED.fullmatch, pointed))
        if len(digits) + len(marked) >= (1 - FEW) * len(cells) and not all(
            map(_THOUSANDS.fullmatch, marked)
        ):
            commas.add(j)
        elif pointed and not decimal:
            doubts.add(j)
        sure = sure and not decimal and max(map(len, digits), default=0) <= 3
    return frozenset(commas | doubts if commas or sure else ())


# Names of columns


class Layout(NamedTuple):
    """Where the cells of a table begin: rows above them, titles and names of columns."""

    above: int
    names: tuple[str, ...] | None
    width: int
    notes: tuple[str, ...] = ()


def layout(rows: Sequence[Sequence[str]]) -> Layout:
    """Find titles and names above the cells of a table."""
    widths = Counter(len(row) for row in rows if any(row))
    if not widths:
        raise ValueError("there is nothing in its first rows")
    width, start = max(widths, key=lambda n: (widths[n], n)), 0
    while start + 1 < len(rows) and _is_title(rows[start], rows[start + 1], width):
        start += 1
    titles = [" ".join(filter(None, row)) for row in rows[:start] if any(row)]
    titles = [title for title in titles if not title.lower().startswith("sep=")]
    names, below = list(rows[start]), [row for row in rows[start + 1 :] if any(row)]
    notes = [f"{ABOVE}{shown(title, 80)}" for title in titles]
    if not _is_header(names, below):
        if not titles:  # rows of blank cells are rows
            start = next((k for k, row in enumerate(rows[:start]) if row), start)
        return Layout(start, None, max(width, len(names)), tuple(notes))
    above, blank = start + 1, [j for j, name in enumerate(names) if not name and j]
    if blank and len(names) == width and _is_second(below, blank):
        top, names, above = names, list(below[0]), start + 2
        if all(names) and len({*names}) == width:
            notes.append(f"{ABOVE}{shown(' '.join(filter(None, top)), 80)}")
        else:  # the names below cells that are merged
            for j in range(1, width):
                top[j] = top[j] or top[j - 1]
            names = [f"{name} {more}".strip() for name, more in zip(top, names, strict=True)]
            notes.append(f"two rows of names were joined: '{shown(names[blank[0]], 60)}'")
    extra = width - len(names)
    if extra > 0:  # R has no name for names of rows; others end each row by delimiters
        ends = not any(any(row[len(names) :]) for row in below)
        names = [*names, *[""] * extra] if ends else ["", *names] if extra == 1 else names
    return Layout(above, tuple(names), len(names), tuple(notes))


def _is_title(row: Sequence[str], below: Sequence[str], width: int) -> bool:
    """Whether a row stands above names: blank, a comment, or a cell where others have several."""
    alone = sum(map(bool, row)) == 1 and bool(row[0])  # one further right stands above others
    if not any(row) or (alone and row[0].lower().startswith("sep=")):
        return True
    if row[0].startswith("#") and len(row) != width:
        return True
    return alone and width > 1 and (len(row) < width - 1 or width > 2 or not any(below))


def _is_number(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell) or COMMA.fullmatch(cell))


def _is_header(top: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
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
        signs = bool(held) and held <= SHORT | {"-1"}
        if (steady and len(top) > len(plain)) or (signs and (steady or other)):
            return True
    against, above, numbers = 0, False, sum(map(_is_number, top))
    for name, cells in zip(top, columns, strict=True):
        held, said = {c.lower() for c in cells} - MISSING, name.lower()
        entry = said in KNOWN
        if name and held and all(map(_is_number, held)):
            above = above or not (entry or _is_number(name))
            against += _is_number(name) or said in MISSING
        elif name and (said in held or (entry and held <= KNOWN)):
            against += 1
    return (above and not numbers) or (against == 0 and numbers < sum(map(bool, top)))


def _is_second(below: Sequence[Sequence[str]], blank: Sequence[int]) -> bool:
    """Whether the first row below names holds names as well, as below merged cells."""
    words = [c for c in below[0] if c] if len(below) > 2 else []
    if 2 * len(words) <= len(below[0] if below else ()) or any(map(_is_number, words)):
        return False
    held = {c.lower() for r in below[1:] for c in r}
    full = all(j < len(below[0]) and below[0][j] for j in blank)
    return full and not any(w.lower() in held for w in words)


# All rows


def _blocks(source: Source, delimiter: str, skipped: int, size: int) -> Iterator[Block]:
    """Yield all rows as arrays of text, and note what could be meant otherwise."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    rows, width, last, faults = 0, len(source.names), "", list[str]()

    def refuse(row: Any) -> str:
        at, due = rows + row.number - skipped, row.expected_columns
        faults.append(f"row {at} has {row.actual_columns} cells instead of {due}: {NO_ROW}")
        return "error"

    names = [str(j) for j in range(width)]
    how: dict[str, Any] = {"newlines_in_values": True, "ignore_empty_lines": width > 1}
    parse = arrow.ParseOptions(delimiter=delimiter, invalid_row_handler=refuse, **how)
    # Arrow would keep its lists of words for every column, 7 kB each.
    none: Any = {"null_values": [], "true_values": [], "false_values": []}
    convert = arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **none)
    for data in _whole_lines(Path(source.label), source.dialect.encoding, size):
        if delimiter == " ":  # one between cells, and none at the edges of lines
            data = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", data))
        notes = dict.fromkeys(source.notes)
        if width > 1 and any(ends in data for ends in (b"\n\n", b"\n\r\n", b"\r\r")):
            notes["blank lines between rows are left out"] = None
        read = arrow.ReadOptions(  # without threads, rows have numbers
            use_threads=False, block_size=len(data) + 1, column_names=names, skip_rows=skipped
        )
        try:
            found = arrow.read_csv(pa.py_buffer(data), read, parse, convert)
        except pa.ArrowInvalid as error:
            raise ValueError(faults[0] if faults else str(error)) from None
        if b'"' in data and found.num_rows:
            for name, cells in zip(source.names, found.columns, strict=True):
                if pc.any(pc.match_substring(cells, "\n")).as_py():
                    notes[f"cells of '{shown(name, 60)}' hold {JOINED}"] = None
            last = found.column(width - 1)[-1].as_py()
        rows, skipped, source.notes[:] = rows + found.num_rows, 0, notes
        for batch in found.to_batches():
            yield batch.columns
    if "\n" in last and not data.endswith(b'"'):
        raise ValueError("a quotation mark is not closed before the end")


def _whole_lines(path: Path, encoding: str, size: int) -> Iterator[bytes]:
    """Whole lines as UTF-8, some bytes at a time, without blank ones at the end of all."""
    decoder, rest = codecs.getincrementaldecoder(encoding)(), b""
    for read in chain(contents(path, size), [b""]):  # which ends it
        data = rest + (read if encoding == "utf-8" else decoder.decode(read, not read).encode())
        if b"\0" in data:
            raise ValueError("it holds NUL bytes, so it is no text")
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) if read else len(data)
        if read and b'"' in data:
            letters = np.frombuffer(data, np.uint8, end + 1)
            ends = np.flatnonzero((letters == 10) | (letters == 13))
            quotes = np.flatnonzero(letters == ord('"'))
            end = max(ends[np.searchsorted(quotes, ends) % 2 == 0], default=-1)
        end = len(data[: max(end, 0)].rstrip(b"\r\n"))  # blank ones wait for what follows
        end += (2 if data[end : end + 2] == b"\r\n" else 1) if read and end else 0
        data, rest = data[:end], data[end:]
        if len(rest) > LONGEST:
            raise ValueError("a line in it is too long, or a quotation mark is not closed")
        if data:
            yield data
