"""What the readers of files share: one line for anything broken, and pictures of one size."""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import BackendError, DataError, HopfedError

_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn whatever a truncated or malformed file raises into one line that names the file."""
    try:
        yield
    except HopfedError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{error.filename or path}: no such file") from error
    except _BROKEN as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: cannot be read: {reason}") from error


def pillow() -> Any:
    """Return ``PIL.Image``, or say how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise BackendError("pictures need Pillow: pip install 'hopfed[neural]'") from None
    return Image


def pixels(picture: Any, mode: str, size: int | None) -> np.ndarray:
    """Return a Pillow picture as uint8 (channels, height, width), resized to `size` if given."""
    picture = picture.convert(mode)
    if size is not None and picture.size != (size, size):
        picture = picture.resize((size, size), pillow().Resampling.BILINEAR)
    array = np.asarray(picture, dtype=np.uint8)
    return np.ascontiguousarray(np.atleast_3d(array).transpose(2, 0, 1))


def stack(
    pictures: Iterable[np.ndarray], count: int, called: Callable[[int], object]
) -> np.ndarray:
    """Stack `count` pictures (channels, height, width) into one array, all of the first's size.

    Raises
    ------
    ValueError : there is none, or picture k differs from the first; `called` names it.
    """
    stacked: np.ndarray | None = None
    for k, picture in enumerate(pictures):
        if stacked is None:
            stacked = np.empty((count, *picture.shape), dtype=np.uint8)
        if picture.shape != stacked.shape[1:]:
            got, first = picture.shape[1:], stacked.shape[2:]
            raise ValueError(f"{called(k)}: images of differing size, {got} after {first}")
        stacked[k] = picture
    if stacked is None:
        raise ValueError("there are no pictures")
    return stacked


def read_pictures(paths: Sequence[Path], size: int | None, folder: Path) -> np.ndarray:
    """Decode picture files below `folder` to uint8 RGB (n, 3, height, width)."""
    image = pillow()

    def decoded() -> Iterator[np.ndarray]:
        for path in paths:
            with reading(path), image.open(path) as picture:
                yield pixels(picture, "RGB", size)

    with reading(folder):
        return stack(decoded(), len(paths), lambda k: paths[k].relative_to(folder))
