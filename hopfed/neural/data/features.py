"""Reader of tables of features: a number in each column, and the label of a row in one more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError
from hopfed.neural.data.arrays import by_size
from hopfed.neural.data.dataset import Dataset
from hopfed.tables.formats import source_of
from hopfed.tables.held import unfit
from hopfed.tables.words import MISSING, as_numbers, distinct

LABELS = ("label", "class", "target", "y")  # of a column that need not be named, in any case
GROUPS = ("writer", "domain")
TABLE = re.compile(r"(.+\.(?:csv|tsv|parquet|feather|arrow)(?:\.gz)?)(?::(.+))?", re.IGNORECASE)


def read_features(path: str | Path, label: str | None = None, labelled: bool = True) -> Dataset:
    """Read a table whose rows are examples.

    A vector of d features becomes an image of d channels and one pixel, (n, d, 1, 1) float32, so
    every feature is normalised on its own. Columns `writer` and `domain` are those of a `Dataset`.

    Parameters
    ----------
    path : .csv, .tsv, .parquet or .feather, with names of columns.
    label : name of the column of labels, which may be words or numbers; None takes the one that is
        called label, class, target or y.
    labelled : whether there must be such a column; without one all labels are 0, a class
        of no name.

    Raises
    ------
    DataError : one line: no such file or column, a cell that is missing or not a number.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "plants.csv"
    ...     _ = file.write_text("width,length,label\\n1.5,2,ash\\n0.5,3,yew\\n")
    ...     data = read_features(file)
    >>> data.shape, data.class_names, data.labels.tolist()
    ((2, 1, 1), ('ash', 'yew'), [0, 1])
    """
    source = source_of(Path(path))
    names = list(source.names)
    target = _label(names, label, path) if labelled or label or _labels(names) else None
    groups = {n: names.index(n) for n in GROUPS if n in names and names.index(n) != target}
    used = [j for j in range(len(names)) if j != target and j not in groups.values()]
    if not used:
        raise DataError(f"{path}: there are no features beside {', '.join(names)}")
    known = [j for j in (target, *groups.values()) if j is not None]
    rows: list[np.ndarray] = []
    words: dict[int, list[np.ndarray]] = {j: [] for j in known}
    done = 0
    for block in source.blocks():
        for j in (*known, *used):
            if why := unfit(block[j].type):
                raise DataError(f"{path}: column {names[j]} {why}")
        require_memory(12 * (done + len(block[0])) * len(used), f"{path}: features")
        rows.append(np.stack([_numbers(block[j], path, names[j], done) for j in used], axis=1))
        for j, parts in words.items():
            parts.append(_words(block[j], path, names[j], done))
        done += len(block[0])
    if not done:
        raise DataError(f"{path}: there are no rows")
    labels: np.ndarray = np.zeros(done, np.int64)
    classes: tuple[str, ...] = ("",)
    if target is not None:
        labels, classes = _coded(words[target])
    columns: dict[str, Any] = {}
    for name, j in groups.items():
        columns[name], columns[f"{name}_names"] = _coded(words[j])
    features = np.concatenate(rows)[:, :, None, None]
    return Dataset(Path(path).stem, features, labels, classes, **columns)


def _label(names: list[str], label: str | None, path: str | Path) -> int:
    """Place of the column of labels."""
    if label is not None:
        if label not in names:
            raise DataError(f"{path}: no column {label!r} among {_listed(names)}")
        return names.index(label)
    found = _labels(names)
    if len(found) == 1:
        return found[0]
    what = "none" if not found else "more than one"
    called = f"{', '.join(LABELS[:-1])} or {LABELS[-1]}"
    raise DataError(
        f"{path}: {what} of the columns {_listed(names)} is called {called}: say {path}:COLUMN"
    )


def _labels(names: list[str]) -> list[int]:
    """Places of the columns with a name for labels."""
    return [j for j, name in enumerate(names) if name.lower() in LABELS]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _numbers(array: Any, path: str | Path, name: str, done: int) -> np.ndarray:
    """A column of features, float32."""
    values = as_numbers(array, MISSING)
    if values is None:
        raise DataError(f"{path}: column {name} holds words, features are numbers")
    with np.errstate(over="ignore"):  # a number too large becomes infinity: refused
        values = values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f"{path}: row {done + bad[0] + 1}, column {name} is missing or not finite")
    return values


def _words(array: Any, path: str | Path, name: str, done: int) -> np.ndarray:
    """A column of labels, as text."""
    words, places = distinct(array)
    words = [word.strip() for word in words]
    gone = [k for k, word in enumerate(words) if word.lower() in MISSING]
    bad = np.flatnonzero((places < 0) | np.isin(places, gone))
    if len(bad):
        raise DataError(f"{path}: row {done + bad[0] + 1}, column {name} is missing")
    return np.array(words)[places]


def _coded(parts: list[np.ndarray]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes of the words of a column, and the words: numbers by size, others by letters."""
    words, codes = np.unique(np.concatenate(parts), return_inverse=True)
    place, names = by_size(words)
    return place[codes].astype(np.int64), names
