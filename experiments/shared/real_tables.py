"""Real tables of binary columns: scikit-learn's own, and those of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError

PIXEL = 7.5  # between the grey values of paper and ink


@dataclass(frozen=True)
class RealTable:
    """A table.

    Attributes
    ----------
    name : of the table.
    rows : int8 (M, N) of -1, 0 (missing) and +1.
    labels : (M,) what its authors say each row is, or None.
    """

    name: str
    rows: np.ndarray = field(repr=False)
    labels: np.ndarray | None = field(repr=False)


def load_tables(folder: str, names: tuple[str, ...]) -> list[RealTable]:
    """Read tables, scikit-learn's own first.

    Parameters
    ----------
    folder : with more tables; "" for none.
    names : tables to take, in this order; () for all.

    Raises
    ------
    ArgumentError : there is no such table.

    Examples
    --------
    >>> [(table.name, table.rows.shape) for table in load_tables("", ("iris", "wine"))]
    [('iris', (150, 4)), ('wine', (178, 13))]
    """
    known: dict[str, Callable[[], RealTable]] = {name: _own(name) for name in OWN}
    for name in names:
        if name not in known:
            raise ArgumentError("names", f"of {', '.join(known)}", repr(name))
    return [known[name]() for name in names or known]


def _own(name: str) -> Callable[[], RealTable]:
    def load() -> RealTable:
        from sklearn import datasets

        data: Any = getattr(datasets, "load_" + name.replace(" ", "_"))()
        level = PIXEL if name == "digits" else np.median(data.data, axis=0)
        rows = np.where(data.data > level, 1, -1).astype(np.int8)
        return RealTable(name, rows, data.target)

    return load


OWN = ("breast cancer", "digits", "iris", "wine")
