"""Points in numbers of text files, which may stand between thousands: 6.372 beside 346.

Where a file has decimal commas, a point in a number is no decimal one as a rule; where semicolons
separate its cells, and nothing says which its decimal sign is, it may be none. A column whose
points all stand before three digits is not read then: 6.372 may be more than 346, or less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from hopfed.data.dialects import Dialect

FORMS = {
    "thousands": r"^\s*[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+\s*$",
    "pointed": r"^\s*[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$",
    "whole": r"^\s*[+-]?[0-9]{1,3}\s*$",  # as it is with marks of thousands, and without
    "long": r"^\s*[+-]?[0-9]{4,}\s*$",
}


@dataclass(frozen=True)
class Points:
    """What points in the numbers of a column may be, by what was read so far.

    Attributes
    ----------
    sure : whether the file has decimal commas; elsewhere semicolons separate its cells.
    word : the first number whose point may stand between thousands.
    decimal : whether there is a number whose point cannot; or, in a file without decimal commas, a
        long number without any.
    whole : whether there is a number without a point.

    Examples
    --------
    >>> points = Points.of(Dialect(";", frozenset(["age"])), "white cells")
    >>> points.after(["346", "6.372"]).word, points.after(["1.5"]).decimal
    ('6.372', True)
    >>> Points.of(Dialect(","), "age") is None
    True
    """

    sure: bool
    word: str = ""
    decimal: bool = False
    whole: bool = False

    @classmethod
    def of(cls, dialect: Dialect, column: str) -> Points | None:
        """Return what is known before the first row; None where points are decimal ones."""
        commas = dialect.commas
        if column in commas or not (commas or dialect.delimiter == ";"):
            return None
        return cls(bool(commas))

    def after(self, words: Collection[str]) -> Points:
        """Return what is known after some more words."""
        import pyarrow as pa

        return self.after_cells(pa.array(list(words), pa.string()))

    def after_cells(self, array: Any) -> Points:
        """Return what is known after some more cells, an array of Arrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_string(array.type):
            return self
        like = {name: pc.match_substring_regex(array, form) for name, form in FORMS.items()}
        at = pc.index(like["thousands"], True).as_py()
        word = self.word or (array[at].as_py().strip() if at >= 0 else "")
        decimal = pc.any(pc.and_(like["pointed"], pc.invert(like["thousands"]))).as_py()
        long = not self.sure and pc.any(like["long"]).as_py()
        whole = pc.any(like["whole"]).as_py()
        return Points(self.sure, word, self.decimal or bool(decimal or long), self.whole or whole)

    @classmethod
    def together(cls, parts: Iterable[Points | None]) -> Points | None:
        """Return what is known of a column whose parts were read one by one."""
        held = [part for part in parts if part is not None]
        if not held:
            return None
        word = next((part.word for part in held if part.word), "")
        return cls(held[0].sure, word, any(p.decimal for p in held), any(p.whole for p in held))


def doubtful(columns: Iterable[Points | None]) -> list[str]:
    """Return, of each column of a file, a number whose point may be of thousands; "" of most.

    Without decimal commas a column is so if it holds whole numbers beside, and no column of the
    file has a decimal point for sure.

    Parameters
    ----------
    columns : what is known of all of them.

    Examples
    --------
    >>> held = Points(sure=True).after(["346", "6.372"])
    >>> doubtful([held, held.after(["1.5"]), None])
    ['6.372', '', '']
    >>> held = Points(sure=False).after(["346", "6.372"])
    >>> doubtful([held, None]), doubtful([held, Points(sure=False).after(["1.5"])])
    (['6.372', ''], ['', ''])
    """
    held = list(columns)
    plain = any(p is not None and p.decimal for p in held)
    return [
        p.word
        if p is not None and p.word and not p.decimal and (p.sure or (p.whole and not plain))
        else ""
        for p in held
    ]


def why_doubtful(word: str, sure: bool) -> str:
    """Return why a column with such a number is not read, and how to write it.

    Parameters
    ----------
    word : the number.
    sure : whether the file has decimal commas.

    Examples
    --------
    >>> why_doubtful("6.372", True)
    "holds '6.372' in a file with decimal commas: write it as 6372 if the point is one of \
thousands, as 6.3720 if it is a decimal one"
    """
    where = "in a file with decimal commas" if sure else "beside whole numbers"
    decimal = "" if word.count(".") > 1 else f", as {word}0 if it is a decimal one"
    return (
        f"holds '{word}' {where}: write it as {word.replace('.', '')} if the point is one of "
        f"thousands{decimal}"
    )
