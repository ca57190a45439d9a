"""Run files: one HDF5 file per run, written whole or not at all; figures are drawn from it alone.

Layout: attributes of the file hold the format version, the kind of run, its configuration and
provenance (JSON); datasets hold every array under its name, such as ``archetypes/patterns``.
"""

from __future__ import annotations

import json
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

FORMAT = 1


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
    """

    kind: str
    config: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)
    summary: dict[str, Any]
    provenance: dict[str, str] = field(default_factory=lambda: provenance())

    def save(self, path: str | Path) -> None:
        """Write the run to `path`, whole or not at all."""
        import h5py

        with replacing(path) as temporary, h5py.File(temporary, "w") as file:
            file.attrs["hopfed_format"] = FORMAT
            file.attrs["kind"] = self.kind
            for name in ("config", "summary", "provenance"):
                file.attrs[name] = json.dumps(getattr(self, name))
            for name, array in self.arrays.items():
                file.create_dataset(name, data=array)

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read a run file; refuse what is foreign, truncated or from a newer version."""
        import h5py

        if not Path(path).is_file():
            raise RunFileError(f"{path}: no such run file")
        try:
            with h5py.File(path, "r") as file:
                return cls._read(path, file)
        except (OSError, KeyError, ValueError) as error:
            raise RunFileError(f"{path}: not a readable run file of hopfed") from error

    @classmethod
    def _read(cls, path: str | Path, file: Any) -> Run:
        found = file.attrs.get("hopfed_format")
        if found is None:
            raise RunFileError(f"{path}: an HDF5 file, but not a run file of hopfed")
        if found > FORMAT:
            raise RunFileError(
                f"{path}: written by a newer hopfed (format {found}, this one reads up to "
                f"{FORMAT}); upgrade hopfed to read it"
            )
        arrays: dict[str, np.ndarray] = {}
        file.visititems(lambda name, item: _collect(arrays, name, item))
        parts = {n: json.loads(file.attrs[n]) for n in ("config", "summary", "provenance")}
        return cls(kind=file.attrs["kind"], arrays=arrays, **parts)


def _collect(arrays: dict[str, np.ndarray], name: str, item: Any) -> None:
    if hasattr(item, "shape"):
        arrays[name] = item[()]


def provenance() -> dict[str, str]:
    """Versions of hopfed, Python and the libraries that results depend on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("hopfed", "numpy", "scipy", "numba", "h5py", "torch", "cupy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def check_writable(path: str | Path, argument: str = "out") -> None:
    """Fail early, in one line, when `path` cannot be written later."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise ArgumentError(argument, "in a folder that exists", folder)
    if not os.access(folder, os.W_OK) or Path(path).is_dir():
        raise ArgumentError(argument, "a file in a folder that can be written", path)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place when all went well."""
    path = Path(path)
    check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    os.chmod(name, 0o644)
    try:
        yield Path(name)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
