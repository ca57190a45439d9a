"""How a text file of cells is written: what separates cells, and numbers with decimal commas.

Where semicolons or tabs separate cells, as spreadsheets of many countries have them, numbers are
written like 1,5. Cells of such a column are read with a point, and are written with a comma again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

# Numbers with a decimal comma, by themselves or behind the side of a cut: <= 2,5.
_COMMA = r"^(\s*(?:<=|>)?\s*[+-]?[0-9]+),([0-9]+(?:[eE][+-]?[0-9]+)?\s*)$"
_POINT = r"^(\s*(?:<=|>)?\s*[+-]?[0-9]*)\.([0-9]+(?:[eE][+-]?[0-9]+)?\s*)$"
FEW = 0.1  # of the cells of a column of numbers may be none
_WHOLE = re.compile(r"(?:<=|>)?\s*[+-]?[0-9]+")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # or so they may be


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Attributes
    ----------
    delimiter : between cells.
    commas : names of columns of numbers with a decimal comma.
    sides : names of columns where only what says a side of a cut (<= 2,5) gets a decimal comma.
    mark : whether the file begins with the mark of UTF-8, as spreadsheets ask for.
    end : of a line.
    verbatim : whether texts are cells of a file of one's own that is written again, as they are.

    Examples
    --------
    >>> Dialect(";", frozenset(["age"])).cell("age", "-1.5"), Dialect().cell("age", "-1.5")
    ('-1,5', '-1.5')
    """

    delimiter: str = ","
    commas: frozenset[str] = frozenset()
    mark: bool = False
    end: str = "\n"
    sides: frozenset[str] = frozenset()
    verbatim: bool = False

    def cell(self, column: str, value: Any) -> Any:
        """Return a value as this dialect writes it in a column."""
        if value is None or (column not in self.commas and not self._is_side(column, value)):
            return value
        return re.sub(_POINT, r"\1,\2", str(value))

    def _is_side(self, column: str, value: Any) -> bool:
        return column in self.sides and str(value).startswith(("<=", ">"))


PLAIN = Dialect()


def columns_with_commas(
    rows: Sequence[Sequence[str]], delimiter: str, missing: Collection[str]
) -> frozenset[int]:
    """Return which columns hold numbers with a decimal comma, by their first rows.

    Nearly all that such a column holds are numbers, one of them with a comma that separates no
    thousands: a few words among them are for others to name.

    Parameters
    ----------
    rows : of cells, stripped, without a header.
    delimiter : between cells; where it is a comma there are none.
    missing : words, in lower case, that stand for no entry.

    Examples
    --------
    >>> sorted(columns_with_commas([["A", "1,5", "1,500"], ["B", "2", "2,250"]], ";", ()))
    [1]
    >>> columns_with_commas([["1,5"]] * 10 + [["heavy"]], ";", ())
    frozenset({0})
    """
    if delimiter == ",":
        return frozenset()
    found = []
    for j, column in enumerate(zip(*rows, strict=False)):
        cells = [cell for cell in column if cell and cell.lower() not in missing]
        with_comma = [cell for cell in cells if re.match(_COMMA, cell)]
        odd = [c for c in cells if not re.match(_COMMA, c) and not _WHOLE.fullmatch(c)]
        if len(odd) <= FEW * len(cells) and not all(map(_THOUSANDS.fullmatch, with_comma)):
            found.append(j)
    return frozenset(found)


def with_points(cells: Any) -> tuple[Any, int]:
    """Return cells, an array of Arrow, with points for commas, and the first that had a point.

    A point beside decimal commas is one of thousands, or there are two ways of writing: -1 if there
    is no such cell.

    Examples
    --------
    >>> import pyarrow as pa
    >>> with_points(pa.array(["1,5", "", "2"]))[0].to_pylist(), with_points(pa.array(["1.500"]))[1]
    (['1.5', '', '2'], 0)
    """
    import pyarrow.compute as pc

    odd = pc.index(pc.match_substring_regex(cells, pattern=r"^\s*[+-]?[0-9]*\.[0-9]"), True)
    return pc.replace_substring_regex(cells, pattern=_COMMA, replacement=r"\1.\2"), odd.as_py()
