"""Run files: one HDF5 file per run, the only source of its figures.

Layout: attributes of the file hold the format version, the kind of run, two counters (parts of the
run committed, parts planned), its configuration, summary and provenance (JSON); datasets hold every
array under its name, such as ``archetypes/patterns``.
"""

from __future__ import annotations

import io
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import open_hdf5, read_dataset, try_in_child
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.outputs import replacing
from hopfed.errors import DataError, HopfedError, RunFileError

__all__ = ["Run"]

FORMAT = 2  # in format 1, unfinished runs held the states of their clients array by array

FOUND = "found"  # group of the archetypes in the file of a run other than a recovery
_JSON_PARTS = ("config", "summary", "provenance")
_KINDS = "biufS"  # kinds of dtypes: booleans, real numbers and bytes
_TABLES = (".csv", ".tsv", ".json", ".parquet", ".npy", ".npz")
_LONGEST = 1 << 24  # largest product of the nonzero axes of an empty array


@cache
def provenance() -> dict[str, str]:
    """Return for a run file the versions of hopfed, Python and libraries that affect results."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("hopfed", "numpy", "scipy", "numba", "h5py", "torch", "cupy"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """Contents of a run file.

    Attributes
    ----------
    kind : name of the experiment or command.
    config : its settings, including seeds; plain JSON values.
    arrays : arrays by name.
    summary : scalar results and strings; plain JSON values.
    provenance : versions of the software that made it.
    committed, planned : number of parts of the run (seeds) in the file, and in all.

    Examples
    --------
    >>> import tempfile
    >>> arrays = {"found/patterns": np.ones((2, 3), np.int8)}
    >>> run = Run("demo", {"seed": 0}, arrays, {"n_detected": 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run.h5")
    ...     back = Run.load(f"{folder}/run.h5", complete=True)
    >>> back.kind, back.summary, back.arrays["found/patterns"].shape
    ('demo', {'n_detected': 2}, (2, 3))
    """

    kind: str
    config: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)
    summary: dict[str, Any]
    provenance: dict[str, str] = field(default_factory=lambda: {**provenance()})
    committed: int = 1
    planned: int = 1

    @property
    def complete(self) -> bool:
        """Whether all planned parts are in the file."""
        return self.committed == self.planned

    def save(self, path: str | Path, *, private: bool = False) -> None:
        """Write the run to `path`, completely or not at all; `private` for mode 0600.

        Raises RunFileError on failure; an existing file is then unchanged.
        """
        import h5py

        image = io.BytesIO()  # in memory, so that a full disk raises an ordinary OSError
        with h5py.File(image, "w") as file:
            for name, array in sorted(self.arrays.items()):
                file.create_dataset(name, data=array)
            file.attrs["kind"] = self.kind
            for name in _JSON_PARTS:
                file.attrs[name] = json.dumps(to_json_values(getattr(self, name)))
            file.attrs["planned"] = self.planned
            file.attrs["committed"] = self.committed
            file.attrs["hopfed_format"] = FORMAT
        with replacing(path, private=private, durable=True) as temporary:
            temporary.write_bytes(image.getbuffer())

    @classmethod
    def load(cls, path: str | Path, *, complete: bool = False) -> Run:
        """Read the run file `path`, without following references to other files.

        Raises RunFileError if there is no such file, or if it is foreign, truncated, of a newer
        format, larger than free memory, or lacks parts while `complete` is set.
        """
        import h5py  # noqa: F401  (before the child process, which loads no modules)

        def read() -> dict[str, Any]:
            with open_hdf5(path) as file:
                return _parts(path, file)

        if not os.path.isfile(path):
            raise RunFileError(f"{path}: no such run file")
        try:
            try_in_child(read, os.path.getsize(path))
            run = cls(**read())
        except (RunFileError, DataError) as error:  # DataError: it does not fit into memory
            raise RunFileError(str(error)) from None
        except PermissionError:
            raise RunFileError(f"{path}: cannot be read: permission denied") from None
        except Exception as error:  # h5py raises nearly any exception for damaged files
            table = Path(path).suffix.lower() in _TABLES
            hint = ", but a table: a run is written where --out ends in .h5" if table else ""
            raise RunFileError(f"{path}: not a readable run file of hopfed{hint}") from error
        if complete:
            run.require_complete(path)
        return run

    def require_complete(self, path: str | Path) -> None:
        """Raise RunFileError if parts of the run in the file `path` are missing."""
        if not self.complete:
            command = "serve" if self.kind == "serve" else f"run {self.kind}"
            raise RunFileError(
                f"{path}: interrupted, {self.committed} of {self.planned} seeds are in it; finish "
                f"it with: hopfed {command} --resume --out {path}"
            )


def _require(holds: bool, path: str | Path, fault: str) -> None:
    if not holds:
        raise RunFileError(f"{path}: not a run file as hopfed writes it: {fault}")


def _parts(path: str | Path, file: Any) -> dict[str, Any]:
    """Contents of a run file."""
    if "hopfed_format" not in file.attrs:
        raise RunFileError(f"{path}: an HDF5 file, but not a run file of hopfed")

    def attribute(name: str, kinds: str) -> Any:
        """Return an attribute with a single value, after a check of its kind and size."""
        held = file.attrs.get_id(name)
        _require(held.shape == () and held.dtype.kind in kinds, path, f"{name} is not a value")
        return file.attrs[name]

    def mapping(name: str) -> dict[str, Any]:
        value: Any = None
        text = str(attribute(name, "O"))
        with suppress(ValueError, RecursionError):  # RecursionError: too many nested lists
            value = to_json_values(json.loads(text))
        _require(isinstance(value, dict), path, f"{name} is not a JSON object")
        return value

    found = int(attribute("hopfed_format", "iu"))
    if found > FORMAT:
        raise RunFileError(
            f"{path}: written by a newer hopfed (format {found}, this one reads up to "
            f"{FORMAT}); upgrade hopfed to read it"
        )
    kind = str(attribute("kind", "O"))
    _require(kind.isidentifier(), path, "its kind is not a name")
    committed, planned = (int(attribute(name, "iu")) for name in ("committed", "planned"))
    _require(0 <= committed <= planned, path, f"{committed} of {planned} seeds are in it")
    parts = {name: mapping(name) for name in _JSON_PARTS}
    words = all(isinstance(value, str) for value in parts["provenance"].values())
    _require(words, path, "its provenance has values other than strings")
    arrays = {name: read_dataset(item, str(path)) for name, item in _arrays(path, file).items()}
    return {"kind": kind, "committed": committed, "planned": planned, **parts, "arrays": arrays}


def _arrays(path: str | Path, file: Any) -> dict[str, Any]:
    """All arrays of the file by name, checked to be stored in it and to fit into memory."""
    import h5py

    found: dict[str, Any] = {}
    file.visititems(
        lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {})
    )
    size, total = os.path.getsize(path), 0
    for name, item in found.items():
        _require(name.isprintable(), path, "an array has a name that cannot be printed")
        # Other layouts can refer to other files, or expand to any size.
        held = item.chunks is None and item.external is None and not item.is_virtual
        _require(held and item.shape is not None, path, f"{name} is not stored as one piece")
        known = item.dtype.kind in _KINDS and item.dtype.subdtype is None
        _require(known, path, f"{name} holds neither real numbers nor bytes")
        total += math.prod(item.shape) * item.dtype.itemsize
        longest = math.prod(max(n, 1) for n in item.shape)
        _require(longest <= max(size, _LONGEST), path, f"{name} has the shape {item.shape}")
    _require(total <= size, path, "arrays that it lists are not in it")
    require_memory(total, str(path))
    return found


def first_seed(config: Mapping[str, Any]) -> int:
    """Return the first seed of a run file from its settings, by default 0."""
    first = config.get("first_seed", 0)
    if not isinstance(first, int) or first < 0:
        raise RunFileError(f"first_seed must be a whole number from 0 on, got {first!r}")
    return first


def require_seeds(run: Run, path: str | Path, rounds: int | None = None) -> None:
    """Raise RunFileError unless the arrays of a run file match its seeds and rounds."""
    seeds, first = run.arrays.get("seeds", np.zeros(0)), first_seed(run.config)
    held = seeds.dtype.kind == "i" and seeds.shape == (run.committed,)
    held = held and len(np.unique(seeds)) == len(seeds)
    held = held and bool(((seeds >= first) & (seeds < first + run.planned)).all())
    _require(held, path, "its seeds are missing or wrong")
    lead = (run.committed,) if rounds is None else (run.committed, rounds)
    words = f"{run.committed} seeds" + ("" if rounds is None else f" of {rounds} rounds")
    for name, array in run.arrays.items():
        apart = name == "seeds" or name.startswith(("unfinished/", "ended/", f"{FOUND}/"))
        fits = apart or array.shape[: len(lead)] == lead
        _require(fits, path, f"{name} is {array.shape} for {words}")


@contextmanager
def blame_file(path: str | Path, kind: str) -> Iterator[None]:
    """Raise RunFileError for any unexpected error inside, naming the run file and its kind.

    For code that draws or continues runs and assumes that hopfed wrote them.
    """
    try:
        yield
    except (HopfedError, OSError):
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        raise RunFileError(f"{path}: cannot be used as a run of {kind}: {fault}") from error


def to_json_values(value: Any) -> Any:
    """Return a value of a run file for JSON: NumPy numbers as plain ones, NaN and inf as None."""
    if isinstance(value, dict):
        return {str(k): to_json_values(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [to_json_values(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
