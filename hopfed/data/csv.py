"""Tables of numbers in text files: separated by commas, semicolons, tabs or spaces."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import opened, reading, size_of
from hopfed.errors import DataError

_PER_CELL = 64  # bytes of a short text in a list
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)  # numbers that are none
_MISSING = ("", "?", "na", "nan")  # cells, whatever their case, that stand for no entry
_QUOTED = re.compile(r'"([^",;\t]*)"')
_PLACE = re.compile(r"at row ([0-9]+)")
_DELIMITERS = ",;\t"


def read_csv(path: str | Path, *, gaps: bool = False) -> np.ndarray:
    """Read a table of numbers, float64 (rows, columns).

    The first row is a header if none of its cells is a number and one holds text; it is left out.
    Every other row must be numbers, as many as the first has; nothing is a comment. Blank lines at
    both ends are left out. Cells may be in double quotes. Rows are counted from 1, without the
    header.

    Parameters
    ----------
    path : of the file.
    gaps : whether cells may be missing: blank, ?, NA or nan, in any case. They are NaN. A first row
        of such cells alone is not a header.

    Raises
    ------
    DataError : one line: not UTF-8 text, an empty row between others, a row of another length, or
        a cell that is not a number, named with row and column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("first,second\\n0,1\\n1,1\\n")
    ...     read_csv(f"{folder}/a.csv").tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    with opened(path) as file, reading(path, "cannot be read as csv"):
        require_memory(size_of(file), str(path))
        lines = _lines(_text(file.read(), str(path)))
        if not lines:
            raise DataError(f"{path}: the file is empty")
        require_memory(_PER_CELL * len(lines[0]), str(path))
        delimiter = next((d for d in _DELIMITERS if d in lines[0]), None)
        if _is_header(lines[0], delimiter, gaps):
            del lines[0]
        if not lines:
            raise DataError(f"{path}: only a header line, no examples")
        return _table(lines, delimiter, gaps)


def _text(data: bytes, path: str) -> str:
    characters = 2 if data.isascii() else 8  # bytes of the text and of its lines
    numbers = 4  # of the table: eight for every two characters
    lines = data.count(b"\n") + data.count(b"\r")
    require_memory((characters + numbers) * len(data) + _PER_CELL * lines, path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is UTF-16 text; save it as UTF-8")
    if b"\0" in data:
        raise ValueError("it holds NUL bytes, so it is no text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at {error.start}"
        raise ValueError(f"it is not UTF-8 text ({byte}); save it as UTF-8") from None


def _lines(text: str) -> list[str]:
    """Lines without the empty ones at both ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    lines = _QUOTED.sub(r"\1", text).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    return lines[first:]


def _cells(line: str, delimiter: str | None) -> list[str]:
    return [cell.strip() for cell in line.split(delimiter)]


def _is_header(line: str, delimiter: str | None, gaps: bool) -> bool:
    cells = _cells(line, delimiter)
    if gaps and all(_is_missing(cell) for cell in cells):
        return False
    if any(_NUMBER.fullmatch(cell) or _WORDS.fullmatch(cell) for cell in cells):
        return False
    return any(cells)


def _is_missing(cell: str) -> bool:
    return cell.lower() in _MISSING


def _table(lines: list[str], delimiter: str | None, gaps: bool) -> np.ndarray:
    """Parse all rows; where that fails, name the place."""
    blank = " " if gaps and delimiter else None  # a row of tabs is one of missing cells then
    empty = next((k for k, line in enumerate(lines, start=1) if not line.strip(blank)), None)
    if empty is not None:
        raise ValueError(f"row {empty} is empty")
    try:
        return np.loadtxt(lines, np.float64, comments=None, delimiter=delimiter, ndmin=2)
    except ValueError as error:
        place = _PLACE.search(str(error))
        start = max(0, int(place[1]) - 2) if place else 0
        if gaps:
            for k in range(start, len(lines)):
                lines[k] = _filled(lines[k], delimiter)
            return _table(lines, delimiter, gaps=False)
        raise ValueError(_fault(lines, start, delimiter) or str(error)) from None


def _filled(line: str, delimiter: str | None) -> str:
    """Return the line with nan in its missing cells."""
    cells = ["nan" if _is_missing(cell) else cell for cell in _cells(line, delimiter)]
    return (delimiter or " ").join(cells)


def _fault(lines: list[str], start: int, delimiter: str | None) -> str:
    """Name the first fault from line `start` on."""
    width = len(_cells(lines[0], delimiter))
    for row, line in enumerate(lines[start:], start=start + 1):
        cells = _cells(line, delimiter)
        for column, cell in enumerate(cells, start=1):
            if not (_NUMBER.fullmatch(cell) or _WORDS.fullmatch(cell)):
                what = f"{_short(cell)!r} is not a number" if cell else "there is no number"
                return f"row {row}, column {column}: {what}"
        if len(cells) != width:
            return f"columns changed from {width} to {len(cells)} at row {row}"
    return ""


def _short(cell: str) -> str:
    return cell if len(cell) <= 40 else cell[:40] + "..."
