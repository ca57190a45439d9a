"""The folder for what is kept between runs, its owner's alone, and the form of the records in it.

Whoever can write to a folder can replace or forge what lies in it, so a folder of secrets is one
that no other account owns or can write to.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopfed.errors import ArgumentError, LocalError

HOME = "HOPFED_HOME"  # the variable that names it


def home() -> Path:
    """Return the folder for what is kept: `HOPFED_HOME`, or `.hopfed` in the home folder.

    A `~` at its beginning stands for the home folder, as services and files of settings pass it on.
    """
    given = os.environ.get(HOME)
    try:
        found = Path(given).expanduser() if given else Path.home() / ".hopfed"
    except RuntimeError:  # whoever has no home folder
        raise ArgumentError(HOME, "given: this user has no home folder", given or "none") from None
    if not found.is_absolute():
        raise ArgumentError(HOME, "an absolute path, the same wherever you are", given or found)
    return found


def require_no_lost_link(folder: Path) -> None:
    """Refuse a folder that is a link to nothing, such as a disk that is not there.

    A new, empty folder in its place would know nothing of what the one that is lost holds.
    """
    if folder.is_symlink() and not folder.exists():
        raise LocalError(
            f"{folder}: a link to what is not there, so nobody knows what was released: put it back"
        )


def own_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter; fail where one is there that is not one's own.

    Folders above it that are not there are made for the owner alone, too, whatever the umask.
    """
    place = folder.resolve()
    missing = [each for each in (place, *place.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    check_own(place)


def check_own(folder: Path) -> None:
    """Fail where a folder is a link, or where another account owns it or can write to it.

    Some file systems know neither owners nor rights, and show all files as everybody's; there
    nothing can be said, and the folder is taken.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        fault = "a link is in its place" if stat.S_ISLNK(found.st_mode) else "not a folder"
        raise NotADirectoryError(errno.ENOTDIR, fault)
    if not hasattr(os, "geteuid") or not _of_others(found):
        return
    with tempfile.TemporaryFile(dir=folder) as probe:  # nobody else's, and only its owner may write
        if not _of_others(os.fstat(probe.fileno())):
            raise PermissionError(errno.EACCES, "others own it or can write to it")


def _of_others(found: os.stat_result) -> bool:
    """Whether another account but root owns a folder or a file, or may write to it."""
    own = found.st_uid in (os.geteuid(), 0)
    return not own or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


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
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("a key that is there twice")
        return made

    return json.loads(text, object_pairs_hook=each_once)
