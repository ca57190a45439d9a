"""Names of columns for `hopfed serve`, in a file."""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from pathlib import Path

from hopfed.errors import ArgumentError, DataError, HopfedError

MOST_BYTES = 1 << 26  # of a file of names
SEPARATORS = {".csv": ",;|\t", ".tsv": "\t"}


def given(text: str) -> tuple[int, tuple[str, ...]]:
    """Number of columns, and their names where a file with them is given."""
    if re.fullmatch("[+-]?[0-9]{1,9}", text):
        return int(text), ()
    from hopfed.tables.source import named

    names, notes = named(_read(Path(text)), text)
    rows = _row_names(Path(text))
    names = tuple(name for name in names if name not in rows)
    if len(names) < 2 or notes:
        rule = "a file of two names or more that differ, of 200 characters at most"
        raise ArgumentError("--columns", rule, notes[0] if notes else f"{len(names)} in {text}")
    return len(names), names


def _row_names(path: Path) -> tuple[str, ...]:
    """Column that names the rows of a table, where the file is one and not just a header."""
    from hopfed.cli.printing import err, shown
    from hopfed.tables.reading import read_table

    if path.suffix.lower() not in SEPARATORS:
        return ()
    ids: tuple[str, ...] = ()
    for cut in (None, "median"):  # which decides nothing here: clients say how columns are read
        with suppress(HopfedError):  # only a header, or columns that cannot be read like this
            coding = read_table(path, binarize=cut).coding
            ids = () if coding is None else coding.ids
            break
    for name in ids:
        err.print(f"column '{shown(name)}' names the rows, and is none of the federation's")
    return ids


def _read(path: Path) -> list[str]:
    """Names in a file; blank ones are those of no column."""
    from hopfed.tables.files import opened, reading

    with reading(path, "cannot be read as names of columns"), opened(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise DataError(f"{path}: more than {MOST_BYTES / 1e6:.0f} MB of names")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: names of columns that are no UTF-8 text") from None
    separators = SEPARATORS.get(path.suffix.lower())
    cells = text.split("\n") if separators is None else _first_row(text, separators)
    return [name for cell in cells if (name := cell.strip())]


def _first_row(text: str, separators: str) -> list[str]:
    def parsed(separator: str) -> list[str]:
        try:
            return next(csv.reader(io.StringIO(text), delimiter=separator), [])
        except csv.Error:
            return []

    return max(map(parsed, separators), key=len)
