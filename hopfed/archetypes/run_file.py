"""Store archetypes in run files, which `hopfed.load` reads, and in tables for other programs.

The run file of a recovery has its archetypes at the top, that of a run of another kind in the group
``found``. A table has a row for each archetype, and the columns of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed._lib.outputs import RUN, check_run, check_suffix, is_run
from hopfed._lib.settings import require
from hopfed.archetypes.assignment import unknown_columns
from hopfed.errors import ArgumentError, BackendError, DataError, RunFileError
from hopfed.runs import FOUND, Run, blame_file, to_json_values
from hopfed.tables import writers
from hopfed.tables.coding import Coding
from hopfed.tables.writers import PLAIN, Column, Dialect

if TYPE_CHECKING:
    from hopfed.archetypes.archetypes import Archetypes

KIND = "recover"
COLUMNS, ROWS = "columns/names", "rows/names"
SCORES = ("scores", "predicted_scores", "exposures")
# Array of a file -> field of `Archetypes`, and shape: K archetypes of N columns, of L owners.
ARRAYS = {
    "means": ("means", "KN"),
    "shares": ("shares", "K"),
    "patterns": ("patterns", "KN"),
    **{name: (name, "K") for name in (*SCORES, "exposure_errors")},
    "errors": ("own_errors", "KN"),
    "client_shares": ("client_shares", "LK"),
    "levels": ("levels", "N"),
    "leaders": ("leaders", "N"),
}
MADE = ("means", "shares", "patterns")  # made of other fields, or in another form
NUMBERS = ("quality", "explained", "quality_error", "residual")


def load(path: str | Path) -> Any:
    """Read archetypes or a memory from the run file that their `save`, or a command, wrote.

    Parameters
    ----------
    path : of the file.

    Returns
    -------
    Archetypes, or a `hopfed.AssociativeMemory`.

    Raises
    ------
    RunFileError : there is no such file, it is damaged, or it holds something else.

    >>> import tempfile
    >>> from hopfed import AssociativeMemory
    >>> memory = AssociativeMemory.store(np.array([[1, -1, 1]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memory.save(f"{folder}/m.h5")
    ...     load(f"{folder}/m.h5")
    AssociativeMemory(rule=Hebb())
    """
    memories = import_module("hopfed.memory.run_file")  # of another package; only its file needs it
    try:
        run = Run.load(path, complete=True)
    except RunFileError as error:
        table = Path(path).is_file() and not is_run(path)
        way = "; hopfed.read_table reads tables" if table else ""
        raise RunFileError(f"{error}{way}") from error
    if run.kind == memories.KIND:
        return memories.memory_from_run(run, path)
    if run.kind == "serve" or has_archetypes(run):
        return read_run(run, path)
    raise RunFileError(
        f"{path}: holds a run of {run.kind!r} without archetypes; `hopfed show` prints it, and "
        "hopfed.runs.Run.load reads it"
    )


def save(found: Archetypes, path: str | Path) -> None:
    """Write an .h5 run file to `path`, which `hopfed.load` reads; it replaces no other file."""
    check_run("path", path)
    as_run(found).save(path)


def read_run(run: Run, path: str | Path) -> Archetypes:
    """Read archetypes from a run, that of the run file at `path`; errors name the file."""
    if not has_archetypes(run):
        way = "; hopfed serve --resume adds them" if run.kind == "serve" else ""
        raise RunFileError(f"{path}: holds a run of {run.kind!r} without archetypes{way}")
    try:
        with blame_file(path, run.kind):
            return of_run(run)
    except (ArgumentError, DataError) as error:
        raise RunFileError(f"{path}: not archetypes as hopfed writes them: {error}") from error


def has_archetypes(run: Run) -> bool:
    """Whether a run has archetypes: that of a recovery, or one that `put_into_run` returned."""
    return run.kind == KIND or FOUND in run.summary


def as_run(found: Archetypes) -> Run:
    """Archetypes as a run for a run file; no row is in it."""
    return put_into_run(Run(KIND, {}, {}, {}), found)


def put_into_run(run: Run, found: Archetypes) -> Run:
    """Put archetypes into a run, to be stored in its run file, in place of those that it held."""
    arrays, words = arrays_of(found), to_json_values(summary_of(found))
    config = {} if found.coding is None else {"coding": found.coding.to_json()}
    if run.kind != KIND:
        others = {k: x for k, x in run.arrays.items() if not k.startswith(f"{FOUND}/")}
        arrays = others | {f"{FOUND}/{name}": array for name, array in arrays.items()}
        return replace(run, arrays=arrays, summary=run.summary | {FOUND: words | config})
    config, arrays = run.config | config, run.arrays | arrays
    return replace(run, config=config, arrays=arrays, summary=run.summary | words)


def names_of(found: Archetypes) -> tuple[str, ...]:
    """Names of the archetypes' columns in a run file; "column 1" and so on where they have none."""
    if found.columns is not None:
        return found.columns
    return tuple(f"column {j}" for j in range(1, found.patterns.shape[1] + 1))


def arrays_of(found: Archetypes) -> dict[str, np.ndarray]:
    """Arrays of archetypes in a run file, by their names in the file."""
    held = {f"archetypes/{name}": getattr(found, field) for name, (field, _) in ARRAYS.items()}
    arrays = {name: array for name, array in held.items() if array is not None}
    if found.columns is not None:
        arrays[COLUMNS] = packed_names(found.columns)
    return arrays


def packed_names(names: Sequence[str]) -> np.ndarray:
    """Names of columns as UTF-8, the form in which a run file holds words."""
    return np.array([name.encode("utf-8", "surrogatepass") for name in names], dtype=np.bytes_)


def unpacked_names(run: Run, name: str = COLUMNS) -> tuple[str, ...] | None:
    """Names of columns that a run file holds; None if it holds none."""
    held = run.arrays.get(name)
    if held is None:
        return None
    require(held.ndim == 1 and held.dtype.kind == "S", "names", "words", held.dtype)
    return tuple(name.decode("utf-8", "surrogatepass") for name in held.tolist())


def summary_of(found: Archetypes) -> dict[str, Any]:
    """Numbers and words of archetypes in a run file."""
    words = "n_detected channel residual quality quality_error spread explained status advice"
    size = {"n_archetypes": len(found), "n_sites": found.patterns.shape[1]}
    return size | {name: getattr(found, name) for name in words.split()}


def of_run(run: Run) -> Archetypes:
    """Rebuild archetypes from the run of a run file; fields that older files lack have defaults."""
    from hopfed.archetypes.archetypes import Archetypes  # whose methods are functions of this file

    if run.kind != KIND:  # the part that a run of another kind holds
        words, lead = run.summary[FOUND], f"{FOUND}/"
        require(isinstance(words, dict), FOUND, "names with values", words)
        held = {k.removeprefix(lead): x for k, x in run.arrays.items() if k.startswith(lead)}
        run = replace(run, config=words, arrays=held, summary=words)
    arrays = {
        name.rpartition("/")[2]: x
        for name, x in run.arrays.items()
        if name.startswith("archetypes/")
    }
    patterns, words = arrays["patterns"], run.summary
    _check(patterns, arrays)
    columns, coding = unpacked_names(run), run.config.get("coding")
    coding = None if coding is None else Coding.from_json(coding)
    columns = columns if coding is None or columns is None else coding.columns
    N = patterns.shape[1]
    for of, name in ((columns, "names"), (coding, "coding")):
        require(of is None or len(of) == N, name, f"of {N} columns", len(of or ()))
    channel = str(words.get("channel", "symmetric"))
    fitted = channel != "symmetric" or "errors" in arrays  # classes, not signs of eigenvectors
    more: dict[str, Any] = {
        field: arrays.get(n) for n, (field, _) in ARRAYS.items() if n not in MADE
    }
    numbers = {name: words.get(name) for name in NUMBERS}  # JSON has null for what is not finite
    more |= {name: np.nan if x is None else float(x) for name, x in numbers.items()}
    return Archetypes(
        patterns=patterns.astype(np.int8),
        spread=float(words.get("spread") or 0.0),
        n_detected=int(words["n_detected"]),
        status=str(words["status"]),
        advice=str(words["advice"]),
        channel=channel,
        graded_means=arrays["means"] if fitted else None,
        columns=columns,
        coding=coding,
        **more,
    )


def _check(patterns: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays of a run file that are not those of one recovery."""
    sound = patterns.ndim == 2 and patterns.shape[1] > 0 and bool(np.isin(patterns, (-1, 1)).all())
    require(sound, "patterns", "a table of +-1", patterns.shape)
    sizes = dict(zip("KN", patterns.shape, strict=True))
    for name in ARRAYS.keys() & arrays.keys() - {"patterns"}:
        array, letters = arrays[name], ARRAYS[name][1]
        shape = tuple(sizes.get(c, n) for c, n in zip(letters, array.shape, strict=False))
        fits = array.ndim == len(letters) and array.shape == shape
        require(fits, name, f"of shape {tuple(sizes.get(c, c) for c in letters)}", array.shape)
        kind, words, most = ("i", "numbers of columns", sizes["N"])
        if letters != "N":
            kind, words, most = ("f", "real numbers", 1 if name == "means" else np.inf)
        require(array.dtype.kind == kind, name, words, array.dtype)
        inside = bool((np.abs(np.nan_to_num(array, nan=0.0)) <= most).all())
        require(inside, name, f"in [-{most}, {most}]", "others")


def to_frame(found: Archetypes) -> Any:
    """Store means of archetypes in a pandas frame, by number and share; NaN for an empty column."""
    try:
        import pandas as pd
    except ImportError:
        raise BackendError("frames need pandas: pip install pandas") from None
    each = [np.arange(1, len(found) + 1), found.shares]
    index = pd.MultiIndex.from_arrays(each, names=["archetype", "share"])
    return pd.DataFrame(_entries(found), index=index, columns=list(names_of(found)))


def to_csv(found: Archetypes, path: str | Path) -> None:
    """Store number, share and means of each archetype in a .csv or .tsv file at `path`."""
    writers.write(path, export_columns(found), endings=writers.TABLES[:2])


def write(
    found: Archetypes, path: str | Path, run: Run | None = None, dialect: Dialect = PLAIN
) -> None:
    """Store archetypes in a file, a run file or a table, in the format that its ending says."""
    check_suffix("path", path, writers.ENDINGS)
    if Path(path).suffix.lower() in RUN:
        (run or as_run(found)).save(path)
    else:
        writers.write(path, export_columns(found), report=report_of(found), dialect=dialect)


def export_columns(found: Archetypes) -> list[Column]:
    """Columns of a table to store archetypes: number, share, mean or sign in every data column."""
    head: list[Column] = [
        ("archetype", np.arange(1, len(found) + 1)),
        ("share", np.asarray(found.shares, np.float64)),
    ]
    return head + list(zip(names_of(found), _entries(found).T, strict=True))


def only_signs(found: Archetypes) -> bool:
    """Whether the means of archetypes to be stored say no more than their signs."""
    return found.signs_only or bool(np.isnan(found.means).all())


def _entries(found: Archetypes) -> np.ndarray:
    """(K, N) means of archetypes for a table, or signs where only these are known; else NaN."""
    entries = np.array(found.patterns if only_signs(found) else found.means, np.float64)
    entries[:, unknown_columns(found)] = np.nan
    return entries


def report_of(found: Archetypes) -> dict[str, Any]:
    """Archetypes as values to store in a JSON file: words, names, shares, means, errors."""
    arrays: dict[str, Any] = {
        name.partition("/")[2]: x for name, x in arrays_of(found).items() if x.dtype != "S"
    }
    arrays.pop("names", None)
    if only_signs(found):  # the means are made of one quality
        arrays.pop("means")
    if found.errors is not None:
        arrays["errors"] = found.errors
    void = unknown_columns(found)
    if void.any():
        arrays["patterns"] = np.where(void, 0, found.patterns)
        arrays |= {n: np.where(void, np.nan, arrays[n]) for n in ("means", "errors") if n in arrays}
    if found.coding is not None:
        arrays["plus"] = [code.said(1) for code in found.coding.codes for _ in range(code.width)]
    return to_json_values(summary_of(found) | {"columns": list(names_of(found))} | arrays)
