"""Files that a command writes: checked before any work starts, and written whole or not at all.

A file is never changed in place. What is new is written to a file beside it, and that file takes
the name in one step. Whatever stops the program, the name stands for a whole file: the one before
or the one after.
"""

from __future__ import annotations

import glob
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2s
from pathlib import Path

from hopfed._lib import hdf5_files
from hopfed._lib.guarded_reading import in_child_process
from hopfed._lib.other_accounts import check_own, followed
from hopfed.errors import ArgumentError, RunFileError

RUN = (".h5", ".hdf5")
FIGURE = (".png", ".pdf", ".svg")
PAGE = (".html", ".htm")

_PROBE = 1 << 16  # bytes written to see whether a folder takes any
_MARK = 8  # random letters in the name of a temporary file
_LONGEST = 200  # bytes of a name that its temporary file repeats; file systems allow 255


def check_outputs(
    *outputs: tuple[str, str | Path | None, tuple[str, ...]],
    inputs: Iterable[str | Path] = (),
    again: bool = False,
) -> None:
    """Refuse, before any work, files that could not be written after it or would destroy others.

    An output must have one of its suffixes and be in a folder that can be written. It must not be
    an input, another output, a folder, a device, a pipe or a socket, nor a link to one of them. A
    run file takes the place of no other file: neither of one that is none, nor of a run, which may
    have taken long.

    Parameters
    ----------
    outputs : of each its option, its path (None where it was not asked for) and its suffixes.
    inputs : files that the command reads.
    again : whether a run that is there may be continued, which the command looks at itself.

    Raises
    ------
    ArgumentError : names the option, the rule and the path.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = Path(folder, "rows.npy")
    ...     data.touch()
    ...     check_outputs(("--out", f"{folder}/found.h5", RUN), inputs=[data])
    ...     check_outputs(("--out", data, (".npy",)), inputs=[data])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: --out must be another file than the input, got /.../rows.npy
    """
    read = [Path(path) for path in inputs]
    taken: list[tuple[str, Path]] = []
    for option, given, suffixes in outputs:
        if given is None:
            continue
        path = Path(given)
        check_suffix(option, path, suffixes)
        if any(_same(path, other) for other in read):
            raise ArgumentError(option, "another file than the input", path)
        for other_option, other in taken:
            if _same(path, other):
                raise ArgumentError(option, f"another file than that of {other_option}", path)
        check_writable(path, option)
        if suffixes == RUN:
            check_run(option, path)
        taken.append((option, path))
    for option, given, suffixes in outputs:
        if given is not None and suffixes == RUN and not again and _is_filled(Path(given)):
            rule = "a new file: no command replaces a run (remove it, or name another)"
            raise ArgumentError(option, rule, given)


def check_suffix(argument: str, path: str | Path, suffixes: tuple[str, ...]) -> None:
    """Refuse a name of a file that ends in none of `suffixes`.

    Parameters
    ----------
    argument : what the caller calls the path, for the message.
    path : of the file.
    suffixes : in lower case.

    Raises
    ------
    ArgumentError : another suffix.

    Examples
    --------
    >>> check_suffix("--out", "rows.xlsx", (".csv", ".json"))
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: --out must be a .csv or .json file, got rows.xlsx
    """
    if Path(path).suffix.lower() not in suffixes:
        kinds = " or ".join([*filter(None, [", ".join(suffixes[:-1])]), suffixes[-1]])
        raise ArgumentError(argument, f"a {kinds} file", path)


def check_run(argument: str, path: str | Path) -> None:
    """Refuse a path that a run may not take: of another ending, or of a file that is no run.

    Parameters
    ----------
    argument : what the caller calls the path, for the message.
    path : of the file.

    Raises
    ------
    ArgumentError : as said.

    Examples
    --------
    >>> check_run("path", "found.csv")
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: path must be a .h5 or .hdf5 file, got found.csv
    """
    check_suffix(argument, path, RUN)
    if not _takes_a_run(Path(path)):
        raise ArgumentError(argument, "a new file, or a run file of hopfed", path)


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
    ArgumentError : no such folder, a folder or a device in its place, or no right to write.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_writable(f"{folder}/run.h5")
    ...     print(os.listdir(folder))
    []
    """
    try:
        target = followed(path)
        found = _status(target)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise ArgumentError(argument, "a file, not a folder", path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise ArgumentError(argument, "a file, not a device, a pipe or a socket", path)
        if found is not None and not os.access(target, os.W_OK):
            raise ArgumentError(argument, "writable (the file is read-only)", path)
        if not target.parent.is_dir():
            raise ArgumentError(argument, "in a folder that exists", target.parent)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
    except OSError as error:
        raise ArgumentError(argument, f"writable ({error.strerror})", path) from None


def check_folder(path: str | Path, argument: str = "out", *, own: bool = False) -> Path:
    """Refuse a folder to write, there or new, that a link of another account leads to.

    Parameters
    ----------
    path : of the folder.
    argument : what the caller calls it, for the message.
    own : also refuse a folder that another account owns or can write to: it could put other files
        in the place of those that are written.

    Returns
    -------
    Where it is, links followed.

    Raises
    ------
    ArgumentError : such a link or folder, or a file in its place.

    Examples
    --------
    >>> check_folder(__file__, "--keep")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: --keep must be a folder, or new, got ...outputs.py
    """
    try:
        target = followed(path)
        found = _status(target)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(argument, f"a folder that can be written ({why})", path) from None
    if found is not None and not stat.S_ISDIR(found.st_mode):
        raise ArgumentError(argument, "a folder, or new", path)
    try:
        if own and found is not None:
            check_own(target)
    except OSError as error:
        raise ArgumentError(argument, f"yours alone to write ({error.strerror})", path) from None
    return target


@contextmanager
def replacing(
    path: str | Path, *, private: bool = False, durable: bool = False, follow: bool = True
) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place when all went well.

    Where `path` is a link, the file that it points to is replaced, unless another account made the
    link where others can write. A file that was there keeps its
    mode; a new one has what the umask leaves of 0666.

    Parameters
    ----------
    path : of the file.
    private : nobody but the owner may read it (0600), for secrets and raw rows.
    durable : the bytes and the name are on the disk when this returns, whatever happens to the
        machine after it.
    follow : otherwise a link at `path` is itself replaced.

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
    try:
        target = followed(path) if follow else followed(Path(path).parent) / Path(path).name
        found = _status(target)
        mark = secrets.token_hex(_MARK // 2)
        temporary = target.with_name(f".{_stem(target)}-{mark}{target.suffix}")
        try:
            mode = 0o600 if private else 0o666
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            if found is not None and not private:
                os.chmod(temporary, found.st_mode & 0o777)  # who runs it is not for a file to say
            yield temporary
            if durable:
                _synchronise(temporary)
            os.replace(temporary, target)
            if durable:
                _synchronise(target.parent)
        finally:
            temporary.unlink(missing_ok=True)
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
    try:
        target = followed(path)
    except OSError as error:
        raise RunFileError(f"{path}: cannot be used: {error.strerror}") from None
    stem, suffix = glob.escape(_stem(target)), glob.escape(target.suffix)
    for name in target.parent.glob(f".{stem}-{'[0-9a-z_]' * _MARK}{suffix}"):
        name.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    """What is at `path`; None where nothing is."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return path.stat()
    return None


def _stem(target: Path) -> str:
    """What the name of a temporary file of `target` begins with: for a long name its digest."""
    name = os.fsencode(target.name)
    return target.stem if len(name) <= _LONGEST else blake2s(name, digest_size=16).hexdigest()


def _same(path: Path, other: Path) -> bool:
    """Whether both are one file, by whatever names or links."""
    try:
        return followed(path) == followed(other) or os.path.samefile(path, other)
    except OSError:  # one is not there yet
        return False


def is_run(path: str | Path) -> bool:
    """Whether a file is a run file of hopfed, sound or not.

    Parameters
    ----------
    path : of a file.

    Examples
    --------
    >>> is_run(__file__)
    False
    """
    import h5py  # noqa: F401  (before the child is made, which loads nothing)

    def found() -> Iterator[bool]:
        with hdf5_files.opened(path) as file:
            yield "hopfed_format" in file.attrs

    try:
        return any(in_child_process(found, os.path.getsize(path)))
    except Exception:  # h5py raises nearly any class on damaged bytes
        return False


def _takes_a_run(path: Path) -> bool:
    """Whether a run may take this name: it is free, the file is empty, or it is a run of hopfed."""
    return not path.exists() or path.stat().st_size == 0 or is_run(path)


def _is_filled(path: Path) -> bool:
    """Whether a file is there, and not empty."""
    return path.exists() and path.stat().st_size > 0


def _synchronise(path: Path) -> None:
    """Wait until what was written to a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
