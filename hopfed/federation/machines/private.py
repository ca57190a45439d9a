"""Folders and files for their owner alone: keys, states with examples in them, secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopfed._lib.other_accounts import check_own
from hopfed._lib.outputs import replacing
from hopfed.errors import DataError


def private_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter; a link, or another's folder, is refused."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_symlink():
        folder.chmod(0o700)  # of an older version, or of a program with a generous umask
    check_own(folder)


@contextmanager
def replacing_private(path: Path) -> Iterator[Path]:
    """Write a file that its owner alone may read, as `hopfed._lib.outputs.replacing` does."""
    with replacing(path) as temporary:
        temporary.chmod(0o600)
        yield temporary


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that is not there yet; only its owner may read it while it is written."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        path.chmod(mode)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def check_private(path: Path) -> None:
    """Refuse a key of ours that others can read, as ssh does."""
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.getuid() and mode & 0o077:
        raise DataError(f"{path}: others can read this key (mode {mode:o}): chmod 600 {path}")
