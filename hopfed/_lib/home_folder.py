"""The private folder for data that is kept between runs, and the format of its records.

Write access to a folder allows replacing or forging its files, so a folder of secrets must not be
owned or writable by another account.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopfed.errors import ArgumentError, LocalError

HOME = "HOPFED_HOME"  # the environment variable with its path


def home() -> Path:
    """Return the home folder for kept data: `HOPFED_HOME`, with `~` expanded, or `~/.hopfed`."""
    given = os.environ.get(HOME)
    try:
        found = Path(given or "~/.hopfed").expanduser()
    except RuntimeError:  # the user has no home folder
        raise ArgumentError(HOME, "given: this user has no home folder", given or "none") from None
    if not found.is_absolute():
        raise ArgumentError(HOME, "an absolute path", given or found)
    return found


def require_no_lost_link(folder: Path) -> None:
    """Raise LocalError for a broken link in the home folder: a new one would lack its records."""
    if folder.is_symlink() and not folder.exists():
        raise LocalError(
            f"{folder}: a link to a missing folder, with the record of releases: restore it"
        )


def own_folder(folder: Path) -> None:
    """Make a private folder, in the home folder say, for its owner alone, or check an existing one.

    Missing parent folders are made for the owner alone too, whatever the umask.
    """
    place = folder.resolve()
    for each in reversed((place, *place.parents)):
        each.mkdir(mode=0o700, exist_ok=True)
    check_own(place)


def check_own(folder: Path) -> None:
    """Raise OSError if a private folder is a link, or others than root and this user can write."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder, or a link to one")
    own = not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0)
    if not own or (os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise PermissionError(errno.EACCES, "others own it or can write to it")


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Exclude other processes of this account, by a lock on a file in the private home folder."""
    import fcntl  # not on Windows, where everything but clients runs

    try:
        own_folder(path.parent)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise LocalError(f"{path.parent}: cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def parse_record(text: str | bytes) -> Any:
    """Return the content of a JSON record in the home folder; duplicate keys are an error."""

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a duplicate key")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=each_once)
