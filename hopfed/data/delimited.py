"""Text files of cells (.csv, .tsv and the like): looked at first, then read in blocks by Arrow.

The first lines say what separates the cells and whether there is a header. Then the cells come as
columns of words, a block of rows at a time, so that a file may be larger than the memory.
"""

from __future__ import annotations

import codecs
import gzip
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from hopfed._lib.memory_limits import require_memory
from hopfed.data._first_lines import (
    DELIMITERS,
    doubtful_names,
    head,
    lines_of,
    names_in,
    rows_of,
)
from hopfed.data.dialects import Dialect, columns_with_commas, with_points
from hopfed.data.files import UNPACKED, opened, pieces, reading
from hopfed.errors import DataError, shown

BLOCK = 1 << 22  # bytes of text that are read at a time, or a few lines of them
PER_CELL = 400  # bytes that a cell of the first line takes as a column of its own
ROOM = 1 << 26  # bytes that any packed file may hold
_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")
_SPACES = re.compile(rb"[ \t]+")
_EDGES = re.compile(rb"^ | $", re.MULTILINE)


@dataclass(frozen=True)
class Delimited:
    """A text file of cells, and how it is written.

    Attributes
    ----------
    path : of the file; one that ends in .gz is unpacked as it is read.
    delimiter : between cells; a space stands for any run of spaces and tabs.
    header : names in the first row, stripped; None where that row is one of cells.
    width : number of cells in a row.
    quoted : whether cells may be in double quotes, which hold line breaks then.
    longest : bytes of the longest line that was looked at.
    doubtful : names that are entries of their own columns, so that the first row may hold no names.
    commas : columns of numbers with a decimal comma, which are read with a point.
    mark : whether the file begins with the mark of UTF-8.
    returns : whether its lines end with a carriage return and a line feed, as those of Windows.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("id,likes tea\\nAnn,yes\\nBen,no\\n")
    ...     text = Delimited.of(f"{folder}/a.csv")
    ...     text.header, [block.column(1).to_pylist() for block in text.blocks()]
    (('id', 'likes tea'), [['yes', 'no']])
    """

    path: Path
    delimiter: str
    header: tuple[str, ...] | None
    width: int
    quoted: bool
    longest: int
    doubtful: tuple[str, ...] = ()
    commas: frozenset[int] = frozenset()
    mark: bool = False
    returns: bool = False

    @classmethod
    def of(cls, path: str | Path, words: frozenset[str] = frozenset()) -> Delimited:
        """Look at the first lines of a file.

        Parameters
        ----------
        path : of the file.
        words : in lower case, that are cells and no names: a first row of them is no header.

        Raises
        ------
        DataError : one line: no such file, empty, no UTF-8 text, or only a header.
        """
        path = Path(path)
        with reading(path, "cannot be read as csv"), _bytes(path) as file:
            data = head(file)
            lines = lines_of(data)
        if not lines:
            raise DataError(f"{path}: the file is empty")
        longest = max(map(len, lines))
        require_memory(PER_CELL * max(lines[0].count(d) for d in DELIMITERS), str(path))
        delimiter, rows = rows_of(lines, ".tsv" in (suffix.lower() for suffix in path.suffixes))
        header = names_in(rows, words)
        if header is not None and len(rows) == 1:
            raise DataError(f"{path}: only a header line, no examples")
        if header is not None and len(rows[1]) == len(header) + 1:
            ends = all(not row[-1] for row in rows[1:])  # a delimiter ends each row but this one
            # R names rows, and not the column of their names.
            header = (*header, "") if ends else ("", *header)
        width = len(header or rows[0])
        quoted = any('"' in line for line in lines)
        doubtful = doubtful_names(header or (), rows[1:], words)
        cells = rows if header is None else rows[1:]
        commas = columns_with_commas(cells, delimiter, words)
        mark = data[0].startswith(codecs.BOM_UTF8)
        returns = data[0].partition(b"\n")[0].endswith(b"\r")
        return cls(path, delimiter, header, width, quoted, longest, doubtful, commas, mark, returns)

    def dialect(self, names: Sequence[str]) -> Dialect:
        """Return how the file is written, given the names that its columns have."""
        delimiter = "," if self.delimiter == " " else self.delimiter
        end = "\r\n" if self.returns else "\n"
        return Dialect(delimiter, frozenset(names[j] for j in self.commas), self.mark, end)

    def blocks(self, watch: Callable[[float], None] | None = None) -> Iterator[Any]:
        """Yield all rows as record batches of Arrow, whose columns are text.

        Parameters
        ----------
        watch : is told what part of the file is read.

        Raises
        ------
        DataError : one line: a row of another length, an empty row between others, bytes that are
            no UTF-8. Rows are counted from 1, without the header.
        """
        return pieces(self._batches(watch), lambda: reading(self.path, "cannot be read as csv"))

    def _batches(self, watch: Callable[[float], None] | None) -> Iterator[Any]:
        with _bytes(self.path) as file:
            raw = _Raw(file, self.delimiter == " ", _most(self.path))
            for batch in _Parser(self).batches(raw):
                if watch is not None:  # of a packed file the packed bytes count
                    at, size = os.lseek(file.fileno(), 0, os.SEEK_CUR), os.fstat(file.fileno())
                    watch(at / max(size.st_size, 1))
                yield batch


class _Raw:
    """Bytes of a file on their way to the parser, without blank lines at both ends."""

    closed = False

    def __init__(self, file: BinaryIO, spaces: bool, most: float):
        self.blank = False  # whether a blank line was seen between others
        self.fault: Exception | None = None  # that ended it early
        self.most = most  # bytes
        self._pieces = self._checked(file, spaces)
        self._reading = Lock()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, none at the end, and none after a fault.

        A thread of Arrow's calls this; an error there would end the program with a signal later.
        """
        with self._reading:
            try:
                piece = next(self._pieces, b"")
                if 0 <= size < len(piece):
                    raise ValueError("a line in it is too long")
            except Exception as error:
                self.fault, self._pieces = error, iter(())
                return b""
            return piece

    def end(self) -> None:
        """Wait until nothing is read any more, ahead of what was used: the program may end now."""
        with self._reading:
            self._pieces = iter(())

    def _checked(self, file: BinaryIO, spaces: bool) -> Iterator[bytes]:
        held, begun, total = b"", False, 0
        while data := file.read(BLOCK):
            total += len(data)
            if total > self.most:
                raise ValueError(f"it unpacks to more than {self.most:,} bytes: unpack it first")
            if b"\0" in data:
                raise ValueError("it holds NUL bytes, so it is no text")
            data = held + data
            if not begun:
                data = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
            end = len(data.rstrip(b"\r\n"))
            if spaces and end == len(data):
                end = max(data.rfind(b"\n"), data.rfind(b"\r"), 0)  # narrowed are whole lines
            body, held = data[:end], data[end:]
            if body:
                begun = True
                self.blank = self.blank or _BLANK_LINE.search(body) is not None
                yield _narrow(body) if spaces else body
        if held.strip(b"\r\n"):
            yield _narrow(held)


def _narrow(lines: bytes) -> bytes:
    """Return lines with one space between cells and none at their edges."""
    return _EDGES.sub(b"", _SPACES.sub(b" ", lines))


class _Parser:
    """Arrow's parser of a file, and its complaints in our words."""

    def __init__(self, text: Delimited):
        self.text = text
        self.fault = ""
        self.blank = 0  # row that holds nothing but spaces; only blank rows may follow

    def batches(self, raw: _Raw) -> Iterator[Any]:
        """Yield record batches of text."""
        import pyarrow as pa

        rows = 0
        try:
            for batch in self._reader(raw):
                batch = self._without_blanks(batch, rows, raw.blank)
                batch = self._with_points(batch, rows)
                rows += batch.num_rows
                if batch.num_rows:
                    yield batch
        except pa.ArrowInvalid as error:
            if raw.fault is None:
                raise ValueError(self.fault or self._words(str(error))) from None
        finally:
            raw.end()
        if raw.fault is not None:
            raise raw.fault
        if not rows:
            raise DataError(f"{self.text.path}: only a header line, no examples")

    def _reader(self, raw: _Raw) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow

        text = self.text
        names = [str(j) for j in range(text.width)]
        return arrow.open_csv(
            pa.PythonFile(raw, "r"),
            read_options=arrow.ReadOptions(
                use_threads=False,  # rows have numbers then
                block_size=4 * max(BLOCK, text.longest),
                column_names=names,
                skip_rows_after_names=int(text.header is not None),
            ),
            parse_options=arrow.ParseOptions(
                delimiter=text.delimiter,
                ignore_empty_lines=False,
                newlines_in_values=text.quoted,
                invalid_row_handler=self._refuse,
            ),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                null_values=[],  # Arrow would keep its lists of words for every column, 7 kB each
                true_values=[],
                false_values=[],
            ),
        )

    def _refuse(self, row: Any) -> str:
        number = "" if row.number is None else f" at row {row.number - bool(self.text.header)}"
        self.fault = f"columns changed from {row.expected_columns} to {row.actual_columns}{number}"
        self.fault += ": every row needs as many cells as the first line"
        return "error"

    def _without_blanks(self, batch: Any, before: int, blank: bool) -> Any:
        """Return a batch in which no line was empty: Arrow makes a row of no words of one."""
        if not blank:
            return batch
        import pyarrow.compute as pc

        empty = None
        for column in batch.columns:
            none = pc.equal(column, "")
            empty = none if empty is None else pc.and_(empty, none)
        at = pc.index(empty, True).as_py()
        if at >= 0:
            raise ValueError(
                f"row {before + at + 1} is empty: leave out what stands above the names of the "
                "columns, and lines without cells"
            )
        return batch

    def _with_points(self, batch: Any, before: int) -> Any:
        """Return a batch whose numbers have a decimal point."""
        for j in sorted(self.text.commas):
            cells, odd = with_points(batch.column(j))
            if odd >= 0:
                word, row = batch.column(j)[odd].as_py().strip(), before + odd + 1
                raise ValueError(
                    f"row {row}, column {j + 1}: '{shown(word, 40)}' beside numbers with a decimal "
                    "comma: write all numbers in one way, without marks of thousands"
                )
            batch = batch.set_column(j, batch.schema.field(j), cells)
        return batch

    def _words(self, said: str) -> str:
        if "invalid UTF8" in said:
            return _not_utf8(self.text.path)
        if "straddl" in said:
            return "a line in it is too long"
        return said


def _not_utf8(path: Path) -> str:
    """Name the first byte that is no UTF-8."""
    decoder, before = codecs.getincrementaldecoder("utf-8")(), 0
    with _bytes(path) as file:
        while data := file.read(BLOCK):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                at = before - pending + error.start
                byte = f"byte 0x{error.object[error.start]:02x} at {at}"
                return f"it is not UTF-8 text ({byte}); save it as UTF-8"
            before += len(data)
    return "it is not UTF-8 text; save it as UTF-8"


@contextmanager
def _bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and unpack it if its name says that it is packed."""
    with opened(path) as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        with gzip.open(file, "rb") as unpacked:
            yield unpacked  # type: ignore[misc]


def _most(path: Path) -> float:
    """Bytes that a file may hold, unpacked; any number where it is not packed."""
    if path.suffix.lower() != ".gz":
        return math.inf
    return max(UNPACKED * path.stat().st_size, ROOM)
