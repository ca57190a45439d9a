"""First lines of a text file of cells: what separates cells, and whether there is a header."""

from __future__ import annotations

import codecs
import csv
import re
from itertools import pairwise
from typing import BinaryIO

from hopfed.data.arrow_cells import NO_NUMBER, NUMBER

HEAD = 1 << 18  # bytes that are looked at, unless the first line is longer
LINES = 20  # of them that must agree on what separates cells
LONGEST = 1 << 28  # bytes of a line
CELL = 1 << 26  # characters of a cell
DELIMITERS = ",;\t|"
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+%?")  # a number with a decimal comma
_NUMBERS = NUMBER, NO_NUMBER, _COMMA  # none of which is a name


def head(file: BinaryIO) -> tuple[bytes, bool]:
    """First bytes, which hold two whole lines at least, and whether they are all there is."""
    head = file.read(HEAD)
    while len(head.lstrip(b"\r\n").splitlines()) < 3 and len(head) < LONGEST:
        more = file.read(len(head) or 1)
        if not more:
            return head, True
        head += more
    if len(head) >= LONGEST:
        raise ValueError("a line in it is too long")
    return head, not file.read(1)


def lines_of(head: tuple[bytes, bool]) -> list[str]:
    """Lines of text at the beginning of a file, from the first that is not blank."""
    data, whole = head
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("it is UTF-16 text; save it as UTF-8")
    if b"\0" in data:
        raise ValueError("it holds NUL bytes, so it is no text")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at {error.start}"
        raise ValueError(f"it is not UTF-8 text ({byte}); save it as UTF-8") from None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
    if re.fullmatch("sep=.", lines[0], re.IGNORECASE):
        raise ValueError(f"its first line is {lines[0]}, which is for Excel alone: remove it")
    lines = lines if whole or len(lines) == 1 else lines[:-1]
    return lines if any(line.strip() for line in lines) else []


def rows_of(lines: list[str], tabs: bool) -> tuple[str, list[list[str]]]:
    """What separates cells, and the cells of some lines: most of them, and as many in each.

    Where another sign does, and commas are in numbers only, these are decimal ones.
    """
    best: tuple[tuple[bool, bool, int], str, list[list[str]]] | None = None
    for delimiter in "\t" if tabs else DELIMITERS:
        rows = _cells(lines, delimiter)
        commas = [cell for row in rows for cell in row if "," in cell]
        decimal = bool(commas) and all(_COMMA.fullmatch(cell) for cell in commas)
        score = _alike(rows), decimal, len(rows[0])
        if len(rows[0]) > 1 and (best is None or score > best[0]):
            best = score, delimiter, rows
    if best is not None:
        return best[1:]
    spaced = [[cell.strip('"') for cell in line.split()] for line in lines[:LINES]]
    if not tabs and len(spaced[0]) > 1 and _alike(spaced):
        return " ", spaced
    return ",", _cells(lines, ",")


def _alike(rows: list[list[str]]) -> bool:
    """Whether rows are of one length; the header of R is one cell shorter."""
    widths = {len(row) for row in rows[1:]} or {len(rows[0])}
    return len(widths) == 1 and max(widths) - len(rows[0]) in (0, 1)


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    """Cells of some lines."""
    before = csv.field_size_limit(CELL)
    try:
        found = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
        rows = [[cell.strip() for cell in row] for _, row in zip(range(LINES), found, strict=False)]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    finally:
        csv.field_size_limit(before)
    return [row or [""] for row in rows]


def names_in(rows: list[list[str]], words: frozenset[str]) -> tuple[str, ...] | None:
    """Return the first row if it is one of names: no number in it, and few words that are cells.

    Above nothing but numbers, inf and words that are cells elsewhere are names beside one that is
    none.
    """
    row = rows[0]
    named = [cell for cell in row if cell]
    plain = not any(NUMBER.fullmatch(cell) or _COMMA.fullmatch(cell) for cell in named)
    below = [[r[j] for r in rows[1:] if j < len(r)] for j in range(len(row))]
    if plain and any(_is_name(*pair, words) for pair in zip(row, below, strict=True)):
        return tuple(row)
    if not named or (any(map(_is_number, named)) and not _counted(row)):
        return None
    known = sum(cell.lower() in words for cell in named)
    return None if 2 * known > len(named) else tuple(row)


def _is_number(cell: str) -> bool:
    return any(p.fullmatch(cell) for p in _NUMBERS)


def _is_name(cell: str, below: list[str], words: frozenset[str]) -> bool:
    """Whether a cell is a word of no meaning above numbers."""
    word = bool(cell) and cell.lower() not in words and not NO_NUMBER.fullmatch(cell)
    return word and bool(below) and all(map(_is_number, below))


def doubtful_names(
    header: tuple[str, ...], rows: list[list[str]], words: frozenset[str]
) -> tuple[str, ...]:
    """Names that are words for entries, and are entries of their columns."""
    columns = [(j, name.lower()) for j, name in enumerate(header) if name and name.lower() in words]
    found = [
        j for j, name in columns if any(name == row[j].lower() for row in rows if j < len(row))
    ]
    return tuple(header[j] for j in found)


def _counted(row: list[str]) -> bool:
    """Whether the cells but the first few are whole numbers in a row, as names may be."""
    plain = [cell for cell in row if cell.isascii() and cell.isdecimal() and len(cell) < 10]
    rising = all(int(b) == int(a) + 1 for a, b in pairwise(plain))
    return len(row) > len(plain) >= 3 and row[-1] == plain[-1] and rising
