"""Run files: one HDF5 file per run; figures are drawn from it alone.

Layout: attributes of the file hold the format version, the kind of run, two counters (parts of the
run committed, parts planned), its configuration, summary and provenance (JSON); datasets hold every
array under its name, such as ``archetypes/patterns``.

A file is never changed in place. Its bytes are made in memory, written to a new file beside it and
flushed to the disk, and that file takes the name in one step. Whatever stops the program, the name
stands for a whole file: the one before or the one after.
"""

from __future__ import annotations

import glob
import io
import json
import math
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, RunFileError

FORMAT = 2  # 1: unfinished runs held the states of their clients array by array

_JSON_PARTS = ("config", "summary", "provenance")
_PROBE = 1 << 16  # bytes written to see whether a folder takes any


@dataclass(frozen=True)
class Run:
    """What a run file holds.

    Attributes
    ----------
    kind : name of the experiment or command.
    config : its settings, seeds among them; plain JSON values.
    arrays : name -> array.
    summary : scalar results and words; plain JSON values.
    provenance : versions of what made it.
    committed, planned : parts of the run (seeds) that are in the file, and that it shall have.

    Examples
    --------
    >>> import tempfile
    >>> run = Run("demo", {"seed": 0}, {"found/patterns": np.ones((2, 3), np.int8)}, {"khat": 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run.h5")
    ...     back = Run.load(f"{folder}/run.h5", complete=True)
    >>> back.kind, back.summary, back.arrays["found/patterns"].shape
    ('demo', {'khat': 2}, (2, 3))
    """

    kind: str
    config: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)
    summary: dict[str, Any]
    provenance: dict[str, str] = field(default_factory=lambda: provenance())
    committed: int = 1
    planned: int = 1

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.committed == self.planned

    def save(self, path: str | Path) -> None:
        """Write the run to `path`, whole or not at all.

        Raises
        ------
        RunFileError : the file cannot be written; what stood there before is untouched.
        """
        data = self._image()
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the bytes must be on the disk before the name is theirs

    def _image(self) -> memoryview:
        """Bytes of the HDF5 file; made in memory, so that a full disk is an ordinary error."""
        import h5py

        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            for name, array in sorted(self.arrays.items()):
                file.create_dataset(name, data=array)
            file.attrs["kind"] = self.kind
            for name in _JSON_PARTS:
                file.attrs[name] = json.dumps(plain(getattr(self, name)))
            file.attrs["planned"] = self.planned
            file.attrs["committed"] = self.committed
            file.attrs["hopfed_format"] = FORMAT
        return buffer.getbuffer()

    @classmethod
    def load(cls, path: str | Path, *, complete: bool = False) -> Run:
        """Read a run file.

        Parameters
        ----------
        complete : refuse a run of which parts are missing.
        path : of the file.

        Raises
        ------
        RunFileError : there is no such file, or it is foreign, truncated, of a newer format, or
            not complete although it must be.
        """
        import h5py

        if not Path(path).is_file():
            raise RunFileError(f"{path}: no such run file")
        try:
            with h5py.File(path, "r") as file:
                run = cls._read(path, file)
        except RunFileError:
            raise
        except Exception as error:  # h5py raises nearly any class on damaged bytes
            raise RunFileError(f"{path}: not a readable run file of hopfed") from error
        if complete and not run.complete:
            raise RunFileError(
                f"{path}: interrupted, {run.committed} of {run.planned} seeds are in it; finish it "
                f"with: hopfed run {run.kind} --resume --out {path}"
            )
        return run

    @classmethod
    def _read(cls, path: str | Path, file: Any) -> Run:
        found = file.attrs.get("hopfed_format")
        if found is None:
            raise RunFileError(f"{path}: an HDF5 file, but not a run file of hopfed")
        if int(found) > FORMAT:
            raise RunFileError(
                f"{path}: written by a newer hopfed (format {found}, this one reads up to "
                f"{FORMAT}); upgrade hopfed to read it"
            )
        arrays: dict[str, np.ndarray] = {}
        file.visititems(lambda name, item: _collect(arrays, name, item))
        parts: dict[str, Any] = {name: json.loads(file.attrs[name]) for name in _JSON_PARTS}
        parts |= {name: int(file.attrs[name]) for name in ("committed", "planned")}
        return cls(kind=str(file.attrs["kind"]), arrays=arrays, **parts)


def _collect(arrays: dict[str, np.ndarray], name: str, item: Any) -> None:
    if hasattr(item, "shape"):
        arrays[name] = item[()]


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: NumPy numbers as Python's, what is not finite as None.

    Examples
    --------
    >>> plain({"r": np.float64(0.5), "m": (np.int64(1), math.nan)})
    {'r': 0.5, 'm': [1, None]}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def provenance() -> dict[str, str]:
    """Versions of hopfed, Python and the libraries that results depend on.

    Examples
    --------
    >>> sorted({"hopfed", "numpy", "python"} & set(provenance()))
    ['hopfed', 'numpy', 'python']
    """
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("hopfed", "numpy", "scipy", "numba", "h5py", "torch", "cupy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def check_writable(path: str | Path, argument: str = "out") -> None:
    """Fail early, in one line, when `path` cannot be written later.

    A small file is written beside it and removed, which finds read-only folders, full disks and
    quotas alike.

    Parameters
    ----------
    path : of the file.
    argument : what the caller calls it, for the message.

    Raises
    ------
    ArgumentError : no such folder, a folder in its place, or no right to write.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_writable(f"{folder}/run.h5")
    ...     print(os.listdir(folder))
    []
    """
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise ArgumentError(argument, "in a folder that exists", folder)
    if Path(path).is_dir():
        raise ArgumentError(argument, "a file, not a folder", path)
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
    except OSError as error:
        raise ArgumentError(argument, f"writable ({error.strerror})", path) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place when all went well.

    Raises
    ------
    RunFileError : the file cannot be written; what stood at `path` before is untouched.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "note.txt")
    ...     with replacing(path) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...         before = path.exists()
    ...     print(before, path.read_text())
    False all of it
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(path.suffix, f".{path.stem}-", path.parent)
        os.close(handle)
        try:
            os.chmod(name, 0o644)
            yield Path(name)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise RunFileError(f"{path}: cannot be written: {error.strerror or error}") from error


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files that a process killed inside :func:`replacing` left beside `path`.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, ".run-abcd1234.h5").touch()  # of a process that was killed
    ...     remove_leftovers(Path(folder, "run.h5"))
    ...     print(os.listdir(folder))
    []
    """
    path = Path(path)
    pattern = f".{glob.escape(path.stem)}-????????{glob.escape(path.suffix)}"
    for name in path.parent.glob(pattern):
        name.unlink(missing_ok=True)
