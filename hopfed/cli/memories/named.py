"""Files of patterns and cues: numbers or words, with names of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, DataError, RunFileError

ARRAYS = (".npy", ".npz", ".h5", ".hdf5")  # which hold numbers without names


@dataclass(frozen=True)
class Named:
    """Rows of numbers, and what they and their columns are called.

    Attributes
    ----------
    values : (M, ...) numbers; NaN where one is missing, of words +-1.
    columns : their names, None where they have none.
    ids : (M,) names of the rows, None where they have none.
    coding : how words became +-1, None where the cells are numbers as they stand.
    """

    values: np.ndarray
    columns: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    coding: Any = None

    @classmethod
    def of_run(cls, run: Any, path: Path, rows: int, width: int) -> Named:
        """Names that the run file of a memory or a recovery holds, without any rows.

        Parameters
        ----------
        run : of the file at `path`.
        rows, width : of the patterns in it, which the names are of.

        Raises
        ------
        RunFileError : they are not.
        """
        from hopfed.archetypes.storage import ROWS, unpacked_names
        from hopfed.runs import blaming
        from hopfed.tables.coding import Coding
        from hopfed.tables.table import is_made_up

        try:
            with blaming(path, run.kind):
                columns, ids = unpacked_names(run), unpacked_names(run, ROWS)
                coding = run.config.get("coding")
                coding = None if coding is None else Coding.from_json(coding)
        except (ArgumentError, DataError) as error:
            raise RunFileError(f"{path}: {error}") from None
        for held, due in ((columns, width), (coding, width), (ids, rows)):
            if held is not None and len(held) != due:
                raise RunFileError(f"{path}: names of {len(held)} columns or patterns, not {due}")
        made_up = columns is None or is_made_up(columns)
        return cls(np.zeros((0, 0)), None if made_up else columns, ids, coding)

    def arrays(self) -> dict[str, np.ndarray]:
        """The names as arrays of a run file."""
        from hopfed.archetypes.storage import COLUMNS, ROWS, packed_names

        names = {COLUMNS: self.columns, ROWS: self.ids}
        return {name: packed_names(held) for name, held in names.items() if held is not None}


def read(file: Path, options: dict[str, Any], coding: Any = None, least: int = 2) -> Named:
    """Read a file of numbers as they stand, or a table as `hopfed recover` reads it.

    Parameters
    ----------
    file : an array; or a table, which is one of numbers where all cells are numbers in [-1, 1] and
        nothing was said of it.
    options : those of `hopfed.cli.tables.reading.table_options`.
    coding : of the columns, which are found by name then.
    least : rows that a table of words must have.

    Raises
    ------
    DataError : one line: no such file, or no table of yes and no.
    """
    from hopfed.cli.tables.reading import choices_of
    from hopfed.tables.formats import read_numbers, source_of
    from hopfed.tables.options import Choices
    from hopfed.tables.table import is_made_up

    choices = choices_of(options)
    if file.suffix.lower() in ARRAYS and choices == Choices():
        return Named(read_numbers(file))
    if choices == Choices() and (coding is None or is_made_up(coding.names)):
        source = source_of(file)
        values = _numbers(source)
        if values is not None and not (np.abs(values) > 1).any():
            return Named(values, None if is_made_up(source.names) else source.names)
    return _table(file, choices, coding, least)


def _numbers(source: Any) -> np.ndarray | None:
    """Numbers of a source, NaN where one is missing; None if a cell is a word."""
    from hopfed.tables.words import MISSING, as_numbers

    parts = []
    for block in source.blocks():
        columns = [as_numbers(array, MISSING) for array in block]
        found = [values for values in columns if values is not None]
        if len(found) < len(columns):
            return None
        parts.append(np.stack(found, axis=1))
    return np.concatenate(parts) if parts else None


def _table(file: Path, choices: Any, coding: Any, least: int) -> Named:
    from hopfed import kernels
    from hopfed.tables.reading import read_tables
    from hopfed.tables.table import is_made_up

    [table] = read_tables([file], choices=choices, coding=coding, least=least)
    values = kernels.unpack(table.held).astype(np.float64)
    values[values == 0] = np.nan
    columns = None if is_made_up(table.columns) else table.columns
    ids = None if table.ids is None else tuple(table.ids.tolist())
    return Named(values, columns, ids, table.coding)


def ordered(found: Named, columns: tuple[str, ...] | None, file: Path) -> np.ndarray:
    """Return the rows with their columns in the order of a memory's, where both have names.

    Raises
    ------
    DataError : columns that one has and the other has not.
    """
    from hopfed.tables.table import check_columns

    if found.columns is None or columns is None:
        return found.values
    check_columns(found.columns, columns, str(file), "the memory")
    place = {name: j for j, name in enumerate(found.columns)}
    values: np.ndarray = found.values[:, [place[name] for name in columns]]
    return values


def check_complete(found: Named, file: Path) -> None:
    """Refuse patterns of words with gaps, and name the first."""
    missing = np.isnan(found.values) if found.coding is not None else np.zeros((1, 1), bool)
    if missing.any():
        row, column = np.argwhere(missing)[0].tolist()
        which = column + 1 if found.columns is None else f"'{found.columns[column]}'"
        raise DataError(f"{file}: row {row + 1}, column {which} is missing: patterns are complete")
