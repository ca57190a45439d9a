"""Real tables: scikit-learn's own, and those of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels import unpack
from hopfed.tables.arrays import Npz
from hopfed.tables.examples import as_examples
from hopfed.tables.reading import read_table

OWN = ("breast cancer", "digits", "iris", "wine")  # of scikit-learn
LABELS = {"mushroom": "class", "soybean": "Class", "votes": "party", "zoo": "type"}
PIXEL = 7.5  # between the grey values of paper and ink


@dataclass(frozen=True)
class RealTable:
    """A table: int8 (M, N) of -1, 0 (missing) and +1, and what its authors say each row is."""

    name: str
    rows: np.ndarray = field(repr=False)
    labels: np.ndarray | None = field(repr=False)


def load_tables(folder: str, names: tuple[str, ...]) -> list[RealTable]:
    """Read the named tables, all for (): scikit-learn's own, then those of a folder, if any."""
    known: dict[str, Callable[[], RealTable]] = {name: partial(_own, name) for name in OWN}
    if folder:
        files = sorted(p for p in Path(folder).iterdir() if p.suffix in (".csv", ".npz"))
        known |= {path.stem: partial(_from_file, path) for path in files}
    for name in names:
        if name not in known:
            more = "" if folder else "; data names a folder with more"
            raise ArgumentError("names", f"of {', '.join(known)}{more}", repr(name))
    return [known[name]() for name in names or known]


def _own(name: str) -> RealTable:
    """One of scikit-learn's: numbers cut at the median of their column, pixels at half ink."""
    from sklearn import datasets

    data: Any = getattr(datasets, "load_" + name.replace(" ", "_"))()
    level = PIXEL if name == "digits" else np.median(data.data, axis=0)
    return RealTable(name, np.where(data.data > level, 1, -1).astype(np.int8), data.target)


def _from_file(path: Path) -> RealTable:
    """A table of the folder; columns of categories and of whole numbers become one for each level.

    An .npz holds rows X and perhaps labels y; a label column of a .csv is in `LABELS`.
    """
    if path.suffix == ".npz":
        with Npz(path) as archive:
            labels = archive.get("y", None)
            return RealTable(path.stem, unpack(as_examples(archive["X"], gaps=True)), labels)
    label = LABELS.get(path.stem)
    table = read_table(path, ignore=[label] if label else [], binarize="levels")
    labels = None
    if label is not None:  # which level of it each row has
        others = [*table.coding.names, *table.coding.ids]
        held = read_table(path, id="", ignore=others, words={label: "category"}, binarize="levels")
        labels = np.unique(unpack(held.held), axis=0, return_inverse=True)[1].ravel()
    return RealTable(path.stem, unpack(table.held), labels)
