"""Tables that commands read: options, a progress bar, and a description of the tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.cli.options import option
from hopfed.cli.printing import err, escape, out, print_table

QUALITIES = (0.4, 0.6, 0.8)  # for predictions, as the true one is unknown
SHOWN = 10  # largest number of lines about columns
_ENDS = ("=1", r"=\+1", "=-1", "=0", "=true", "=false", "=missing", "=category", "=answers")
_SAID = re.compile(f"(?:{'|'.join(f'(?<={end})' for end in _ENDS)}),", re.IGNORECASE)
_SAYING = {  # options that say how tables are read, and may be repeated
    "ignore": ("COLUMN,...", "Columns to leave out, such as a label; may be repeated."),
    "words": (
        "WORD=+1|-1|missing,...",
        "Meaning of words in all columns; in one, COLUMN=WORD=...; COLUMN=category for categories; "
        "COLUMN=answers where a cell holds several; may be repeated.",
    ),
    "binarize": (
        "[COLUMN=]HOW",
        "Cut numbers at the median, mean, a number or quantile:Q, or into levels; may be repeated.",
    ),
    "ordinal": (
        "COLUMN,...",
        "Ordered answers: numbers such as 1 to 5, or COLUMN=low<middle<high; may be repeated.",
    ),
}
NAMES = ("id", *_SAYING)
NOTHING: dict[str, Any] = dict.fromkeys(NAMES, ()) | {"id": None}  # options of tables without any


def table_options(command: Callable[..., Any], **other: str) -> Callable[..., Any]:
    """Add the options that say how input tables are read to a command; `other` help of some."""
    command = option("--sheet", "Sheet of workbooks.  [default: the largest]")(command)
    for name, (metavar, words) in reversed(_SAYING.items()):
        words = other.get(name, words)
        command = option(f"--{name}", words, multiple=True, metavar=metavar)(command)
    command = option("--id", "Column that names the rows.  [default: found]")(command)

    @wraps(command)
    def with_sheet(*arguments: Any, sheet: str | None = None, **given: Any) -> Any:
        if sheet is not None:
            found = {name: _on_sheet(value, sheet) for name, value in given.items()}
            require(found != given, "--sheet", "of a workbook", sheet)
            given = found
        return command(*arguments, **given)

    return with_sheet


def _on_sheet(value: Any, sheet: str) -> Any:
    """Paths of workbooks with the name of a sheet behind a colon; anything else as it is."""
    from hopfed.tables.formats import BOOKS

    if isinstance(value, tuple):
        return tuple(_on_sheet(each, sheet) for each in value)
    is_book = isinstance(value, Path) and value.suffix.lower() in BOOKS
    return value.with_name(f"{value.name}:{sheet}") if is_book else value


def choices_of(options: dict[str, Any], by_rows: bool = True) -> Any:
    """Options of input tables as a value; `by_rows`: whether rows may decide how to cut numbers."""
    from hopfed.tables.choosing import Choices

    words: dict[str, Any] = {}
    for given in options["words"]:
        for part in _SAID.split(given):  # several, where a comma follows a meaning
            word, sign, value = part.rpartition("=")
            rule = "WORD=+1, WORD=-1, WORD=missing, COLUMN=category or COLUMN=answers"
            require(bool(sign), "--words", rule, given)
            words[word] = value
    cuts = {column: how for column, _, how in (g.rpartition("=") for g in options["binarize"])}
    ordered = {}
    for given in options["ordinal"]:
        name, _, levels = given.rpartition("=") if "<" in given else (given, "", "")
        ordered[name] = tuple(filter(None, map(str.strip, levels.split("<"))))
    given = options["id"], tuple(options["ignore"]), words or None, cuts or None
    return Choices(*given, ordinal=ordered, options=True, by_rows=by_rows)


def read_files(
    files: Sequence[Path],
    options: dict[str, Any],
    memory: int | None = None,
    least: int | None = None,
    by_rows: bool = True,
) -> list[Any]:
    """Read the input tables of a command from files, coded alike."""
    from hopfed.tables.reading import read_tables

    how = {"choices": choices_of(options, by_rows), "memory": memory, "least": least}
    with err.status("reading"):
        return read_tables(files, columns=options.get("columns", "same"), **how)


def columns_beside(files: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    """Columns of these names in a command's input files, one below the other."""
    from hopfed.archetypes.relate import of_cells
    from hopfed.tables.choosing import no_columns
    from hopfed.tables.coding import Cells
    from hopfed.tables.formats import source_of

    found: dict[str, list[Any]] = {name: [] for name in names}
    for path in files:
        source = source_of(path)
        if unknown := [name for name in names if name not in source.names]:
            raise no_columns(source.label, unknown, source.names)
        for block in source.blocks():
            for name, held in found.items():
                held.append(Cells(block[source.names.index(name)]))
    return {name: of_cells(name, held) for name, held in found.items()}


def numbers_in(column: Any) -> np.ndarray:
    """The numbers of a column of weights in a command's input tables (--weights)."""
    require(not column.words, "--weights", "a column of numbers", column.name)
    found: np.ndarray = column.values[:, 0]
    return found


def column_in(files: Sequence[Path], options: dict[str, Any], option: str) -> list[Any]:
    """The column that a command's option names, in each input file; it is no feature then."""
    name = options[option]
    found = [columns_beside([path], [name])[name] for path in files]
    options["ignore"] = (*options["ignore"], name)
    return found


def weights_in(files: Sequence[Path], options: dict[str, Any]) -> list[np.ndarray]:
    """Weights of the rows of each input file of a command, from the column of --weights."""
    from hopfed.archetypes.row_weights import weights_of

    columns = column_in(files, options, "weights")
    return [weights_of(numbers_in(column), len(column.values)) for column in columns]


def outcome_in(file: Path, options: dict[str, Any]) -> Any:
    """The column beside the features of a command's input file that --outcome names."""
    return column_in([file], options, "outcome")[0]


def notes_of(tables: Sequence[Any], files: Sequence[Path]) -> list[str]:
    """Remarks on input files, each line once, led by the files it is about unless these are all."""
    names, found = [str(path) for path in files], []
    for line in dict.fromkeys(line for held in tables for line in held.notes):
        said = [i for i, held in enumerate(tables) if line in held.notes]
        known = len(said) == len(tables) or len(names) != len(tables)
        known = known or any(line.startswith(name) for name in names)
        found.append(line if known else f"{', '.join(names[i] for i in said)}: {line}")
    return found


def describe_tables(tables: Sequence[Any], files: Sequence[Path]) -> dict[str, Any]:
    """Describe a command's input tables, and archetypes that theory expects: plain values."""
    from hopfed.archetypes.row_weights import repeat_rows
    from hopfed.spectral.rows import column_moments
    from hopfed.theory import planning

    first, held = tables[0], repeat_rows([table.rows for table in tables])
    sums, seen = np.sum([column_moments(rows) for rows in held], axis=0)
    M, N = sum(rows.size for rows in held), first.shape[1]  # weights count, as in a recovery
    with np.errstate(invalid="ignore"):
        rates = np.where(seen, (1 + sums / seen) / 2, np.nan)
    asked = np.delete(seen, first.coding.later)
    missing = (M * len(asked) - int(asked.sum())) / (M * len(asked))
    expected = []  # smallest share of rows with which an archetype is found, by quality
    for r in QUALITIES:
        kept = r * np.sqrt(seen.sum() / (M * N))  # a gap is a loss of quality
        share = float(planning.exposure_needed(kept, N, M)) if kept > 0 else np.nan
        expected.append({"quality": r, "smallest_share": share, "rows": share * M})
    sizes = [len(table) for table in tables]
    parts = zip(files, sizes if len(files) == len(sizes) else [sum(sizes)], strict=False)
    return {
        "files": [{"file": str(path), "rows": size} for path, size in parts],
        "rows": sum(sizes),
        "columns": N,
        "missing": missing,
        "rates": dict(zip(first.columns, rates.tolist(), strict=True)),
        "codes": {n: str(c) for n, c in zip(first.coding.names, first.coding.codes, strict=True)},
        "ids": list(first.coding.ids),
        "left_out": list(first.coding.ignored),
        "notes": notes_of(tables, files),
        "expected": expected,
    }


def print_description(said: dict[str, Any]) -> None:
    """Print the description of a command's input tables, from :func:`describe_tables`."""
    for part in said["files"]:
        out.print(f"{escape(part['file'])}: {part['rows']:,} rows")
    gaps = f"{said['missing']:.1%} of the entries missing" if said["missing"] else "no gaps"
    known = [rate for rate in said["rates"].values() if rate == rate]
    spread = f"; +1 in {min(known):.0%} to {max(known):.0%} of their entries" if known else ""
    out.print(f"{said['rows']:,} rows, {said['columns']:,} columns, {gaps}{spread}")
    codings = [f"{escape(code)}: {escape(names)}" for code, names in by_code(said["codes"])[:SHOWN]]
    for line in (*codings, *said["notes"]):
        out.print(f"  {escape(line)}")
    out.print("")
    lines = [
        (f"{line['quality']:g}", f"{line['smallest_share']:.4f}", f"{line['rows']:,.0f}")
        for line in said["expected"]
    ]
    print_table(("quality", "smallest share found", "rows of it"), lines)
    out.print(
        "theory: found with power 0.9, of archetypes whose columns agree in (1 + quality) / 2 of "
        "their rows"
    )


def by_code(codes: dict[str, str]) -> list[tuple[str, str]]:
    """Codings of input tables in words, with the names of their columns as printed lines show."""
    from hopfed.tables.table import list_names

    held: dict[str, list[str]] = {}
    for name, code in codes.items():
        held.setdefault(code, []).append(name)
    return [(code, list_names(names)) for code, names in held.items()]
