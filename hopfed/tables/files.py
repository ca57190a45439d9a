"""Open files to read: only regular files are opened, and damaged ones give an error of one line."""

from __future__ import annotations

import csv
import lzma
import os
import pickle
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from hopfed.errors import DataError, HopfedError, shown

Piece = TypeVar("Piece")

UNPACKED = 100  # bytes for each byte of a packed file; of honest tables mostly below 20
# What damaged bytes make the libraries raise; a wrong name of ours is not among them.
BROKEN = (
    ArithmeticError,
    BufferError,
    EOFError,
    lzma.LZMAError,
    csv.Error,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; a folder, a pipe or a device is refused at once."""
    try:  # without the flag, opening a pipe would wait for whoever writes to it
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened: {_reason(error)}") from None
    try:
        held = os.fstat(handle)
        if stat.S_ISDIR(held.st_mode):
            raise DataError(f"{path}: a folder, not a file")
        if not stat.S_ISREG(held.st_mode):
            raise DataError(f"{path}: a pipe or a device, not a file")
        if held.st_size == 0:
            raise DataError(f"{path}: cannot be read: the file is empty")
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


@contextmanager
def reading(path: str | Path, what: str = "cannot be read") -> Iterator[None]:
    """Turn whatever a truncated or malformed file raises into one line that names the file.

    Warnings of the libraries about its bytes are not shown: the file is read, or it is refused.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except HopfedError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{error.filename or path}: no such file") from error
    except BROKEN as error:
        raise DataError(f"{path}: {what}: {_reason(error)}") from error


def pieces(made: Iterator[Piece], guard: Callable[[], Any]) -> Iterator[Piece]:
    """Yield what is made of a file piece by piece, each of them made in a context of its own.

    What the caller does between two pieces is outside of it: its warnings are shown.
    """
    end = object()
    try:
        while True:
            with guard():
                piece = next(made, end)
            if piece is end:
                return
            yield piece  # type: ignore[misc]
    finally:
        close = getattr(made, "close", None)  # of a generator
        if close is not None:
            close()


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = shown(next(iter(str(error).splitlines()), ""))  # it may quote the file
    if isinstance(error, KeyError):
        return f"{said or 'a key'} is missing"
    return said or type(error).__name__
