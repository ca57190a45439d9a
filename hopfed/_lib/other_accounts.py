"""Protection from other accounts of this machine: neither their links nor their folders are used.

Whoever can write to a folder can leave a link in it under the name of a file that somebody else is
about to write, and learns, replaces or forges what is written there.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopfed.errors import LocalError

_MOST_LINKS = 40  # on the way to a file, as in Linux


def followed(path: str | Path) -> Path:
    """Return the place that `path` stands for, links followed; nothing need be there yet.

    Others may leave links where they can write. Linux opens no file through one in a folder for all
    with the sticky bit; here no link of another account is followed in any folder that another
    account owns or can write to. Links of root are everybody's.
    """
    if not hasattr(os, "geteuid"):  # on Windows
        return Path(path).resolve()
    whole, links = Path(path).absolute(), 0
    place, left = Path(whole.anchor), [*reversed(whole.parts[1:])]
    while left:
        part = left.pop()
        step = place.parent if part == ".." else place / part
        if part == ".." or not _is_link(step):
            place = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = step.readlink()
        if target.is_absolute():
            place = Path(target.anchor)
        left += reversed(target.parts[target.is_absolute() :])
    return place


def _is_link(path: Path) -> bool:
    """Whether a link is there; that of another account is an error where others can write."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISLNK(found.st_mode):
        return False
    if found.st_uid not in _trusted() and _of_others(path.parent.stat()):
        words = "a link of somebody else is in a folder that others can write to"
        raise PermissionError(errno.EACCES, words)
    return True


def _trusted() -> tuple[int, int]:
    """Accounts whose links and folders are taken for one's own."""
    return os.geteuid(), 0


def _of_others(found: os.stat_result) -> bool:
    """Whether another account owns a folder or a file, or may write to it."""
    return found.st_uid not in _trusted() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def own_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter; fail where one is there that is not one's own.

    Folders above it that are not there are made for the owner alone, too, whatever the umask.
    """
    place = followed(folder)
    missing = [each for each in (place, *place.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    check_own(place)


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


def check_own(folder: Path) -> None:
    """Fail where a folder is a link, or where another account owns it or can write to it.

    Some file systems know neither owners nor rights, and show all files as everybody's; there
    nothing can be said, and the folder is taken.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "a link is in its place" if stat.S_ISLNK(found.st_mode) else "not a folder"
        raise NotADirectoryError(errno.ENOTDIR, what)
    if not hasattr(os, "geteuid") or not _of_others(found):
        return
    with tempfile.TemporaryFile(dir=folder) as probe:  # nobody else's, and only its owner may write
        if not _of_others(os.fstat(probe.fileno())):
            raise PermissionError(errno.EACCES, "others own it or can write to it")
