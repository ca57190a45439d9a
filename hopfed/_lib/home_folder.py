"""The folder for what is kept between runs, its owner's alone, and the form of the records in it.

Whoever can write to a folder can replace or forge what lies in it, so a folder of secrets is one
that no other account owns or can write to.
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

HOME = "HOPFED_HOME"  # the variable that names it


def home() -> Path:
    """Return the folder for what is kept: `HOPFED_HOME`, where `~` is known, or `~/.hopfed`."""
    given = os.environ.get(HOME)
    try:
        found = Path(given or "~/.hopfed").expanduser()
    except RuntimeError:  # whoever has no home folder
        raise ArgumentError(HOME, "given: this user has no home folder", given or "none") from None
    if not found.is_absolute():
        raise ArgumentError(HOME, "an absolute path, the same wherever you are", given or found)
    return found


def require_no_lost_link(folder: Path) -> None:
    """Refuse a link to nothing: a new folder would not know what the lost one holds."""
    if folder.is_symlink() and not folder.exists():
        raise LocalError(
            f"{folder}: a link to what is not there, so nobody knows what was released: put it back"
        )


def own_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter; fail where one is there that is not one's own.

    Folders above it that are not there are made for the owner alone, too, whatever the umask.
    """
    place = folder.resolve()
    for each in reversed((place, *place.parents)):
        each.mkdir(mode=0o700, exist_ok=True)
    check_own(place)


def check_own(folder: Path) -> None:
    """Fail where a folder is a link, or an account but root and one's own can write to it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder, or a link to one")
    own = not hasattr(os, "geteuid") or found.st_uid in (os.geteuid(), 0)
    if not own or (os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise PermissionError(errno.EACCES, "others own it or can write to it")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes of this account out, by a lock on a file in a folder of one's own."""
    import fcntl  # not on Windows, where no client runs but everything else does

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
    """Return the content of a record in JSON, in which no key is there twice."""

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key that is there twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=each_once)
