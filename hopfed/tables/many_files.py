"""Paths that stand for many files: folders, and patterns such as "data/*.parquet"."""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob
from itertools import takewhile
from pathlib import Path

from hopfed.errors import DataError

PATTERN = "*?["  # one of these makes a path a pattern


def is_many(path: str | Path) -> bool:
    """Whether a path is one of many files: a folder, such as of zarr, or a pattern."""
    return any(c in str(path) for c in PATTERN) or Path(path).is_dir()


def files_of(path: str | Path) -> list[Path]:
    """Return the files that a path stands for, sorted by name; of a file itself."""
    place = Path(path)
    if any(c in str(path) for c in PATTERN) and not place.exists():
        found = sorted(glob(str(path), recursive=True))
        if not found:
            raise DataError(f"{path}: no such file")
        fixed = takewhile(lambda part: not any(c in part for c in PATTERN), place.parts)
        _check_links(map(Path, found), Path(*fixed))
        return [file for one in found for file in files_of(one)]
    if not place.is_dir() or place.suffix.lower() == ".zarr":
        return [place]
    files = (p for p in sorted(place.rglob("*")) if p.is_file())
    kept = [p for p in files if not any(x[0] in "._" for x in p.relative_to(place).parts)]
    if not kept:
        raise DataError(f"{path}: there are no files in it")
    _check_links(kept, place)
    return kept


def _check_links(found: Iterable[Path], folder: Path) -> None:
    """Refuse links among the files of a folder that lead out of it, to what nobody named."""
    for path in found:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path}: a link that leads out of {folder}: name the file itself")
