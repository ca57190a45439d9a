"""Write tables of results, in the format of the ending of a file, whole or not at all."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np

from hopfed._lib.outputs import RUN, check_suffix, replacing
from hopfed.errors import RunFileError
from hopfed.runs import to_json_values
from hopfed.tables.coding import NUMBER, spell

TABLES = (".csv", ".tsv", ".json", ".parquet")
ENDINGS = (*TABLES, *RUN)  # of archetypes, which may be a run file
STREAMED = (".csv", ".tsv", ".parquet")  # written some rows at a time
BLOCK = 4_096  # rows made into text at a time

# A name and its values, of a length that all columns share: numbers or texts, None for none.
Column: TypeAlias = "tuple[str, np.ndarray | Sequence[Any]]"

# No number, and not only signs; signs of full width are signs to some spreadsheets.
_FORMULA = re.compile(
    rf"(?!\s*{NUMBER.pattern}\s*$|[\s+-]+$)[\s\x00-\x1f]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]"
)
_SPLIT = re.compile(r"([;\t\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029])")


@dataclass(frozen=True)
class Dialect:
    """Form of a text file."""

    delimiter: str = ","
    commas: bool = False  # whether numbers have a decimal comma
    mark: bool = False  # whether it begins with the mark of its encoding, as spreadsheets ask for
    end: str = "\n"
    encoding: str = "utf-8"
    verbatim: bool = False  # whether texts are cells of the user's file, written unchanged


PLAIN = Dialect()


def write(
    path: str | Path,
    columns: Sequence[Column],
    *,
    endings: tuple[str, ...] = TABLES,
    report: Any = None,
    dialect: Dialect = PLAIN,
) -> None:
    """Write a table of results to `path`, by its ending; a .json holds the `report` if given."""
    check_suffix("path", path, endings)
    if Path(path).suffix.lower() in STREAMED:
        with open_writer(path, dialect) as add:
            add(columns)
        return
    names = distinct_names([name for name, _ in columns])
    rows = zip(*(_to_list(values) for _, values in columns), strict=True)
    report = [dict(zip(names, row, strict=True)) for row in rows] if report is None else report
    text = json.dumps(to_json_values(report), allow_nan=False)
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "surrogatepass"))


@contextmanager
def open_writer(
    path: str | Path, dialect: Dialect = PLAIN
) -> Iterator[Callable[[Sequence[Column]], None]]:
    """Open a writer to a text or .parquet file, some rows at a time, whole or not at all."""
    ending = Path(path).suffix.lower()
    with replacing(path) as temporary, ExitStack() as stack:
        if ending != ".parquet":
            dialect = replace(dialect, delimiter="\t") if ending == ".tsv" else dialect
            errors = "surrogatepass" if dialect.encoding.startswith("utf") else "strict"
            with open(temporary, "w", -1, dialect.encoding, errors, newline="") as file:
                yield partial(_add_lines, file, dialect)
            return
        import pyarrow as pa
        from pyarrow import parquet

        made: list[Any] = []

        def add(columns: Sequence[Column]) -> None:
            names = distinct_names([name for name, _ in columns])
            arrays = [v if hasattr(v, "to_pylist") else pa.array(v) for _, v in columns]
            table = pa.table(dict(zip(names, arrays, strict=True)))
            if not made:
                made.append(stack.enter_context(parquet.ParquetWriter(temporary, table.schema)))
            made[0].write_table(table)

        yield add


def text_cell(text: str) -> str:
    """Return a text to write as a cell that no spreadsheet calculates: formulas get apostrophes."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    first, *parts = _SPLIT.split(text)
    # A program that splits a text may take quotes for its own.
    pieces = [(first, text), *((part, part.lstrip("\"' ")) for part in parts)]
    return "".join(f"'{part}" if _FORMULA.match(piece) else part for part, piece in pieces)


def _add_lines(file: TextIO, dialect: Dialect, columns: Sequence[Column]) -> None:
    """Write rows: numbers that are read back exactly, and texts that are no formulas."""

    def made(value: Any) -> Any:
        if isinstance(value, str):
            if not dialect.verbatim:
                return text_cell(value)
            return value if "\n" in value else value.replace("\r", "\n")  # which `csv` quotes
        if isinstance(value, float):
            text = repr(value) if np.isfinite(value) else ""
            return text.replace(".", ",") if dialect.commas else text
        return value

    out = csv.writer(file, delimiter=dialect.delimiter, lineterminator=dialect.end)
    try:
        if not file.tell():
            file.write("\ufeff" * dialect.mark)
            out.writerow(made(name) for name, _ in columns)
        for start in range(0, len(columns[0][1]) if columns else 0, BLOCK):
            lines = [map(made, _to_list(v[start : start + BLOCK])) for _, v in columns]
            out.writerows(zip(*lines, strict=True))
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        way = "save the table as UTF-8, or name the output .parquet"
        raise RunFileError(f"'{letter}' cannot be written in {dialect.encoding}: {way}") from None


def _to_list(values: Any) -> list[Any]:
    """Values of an array of NumPy or Arrow, or of a sequence, as numbers and texts of Python."""
    if not hasattr(values, "to_pylist"):
        return values.tolist() if hasattr(values, "tolist") else list(values)
    known = (bool, int, float, str, type(None))
    return [v if isinstance(v, known) else spell(v) for v in values.to_pylist()]


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return names to write that all differ: the second of two equal names gets the number 2."""
    last: dict[str, int] = {}  # number that the latest of each name has
    for name in names:
        free, count = name, last.get(name, 1)
        while free in last:
            count += 1
            free = f"{name} ({count})"
        last |= {name: count, free: 1}
    return list(last)
