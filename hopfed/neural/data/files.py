"""Decoding of picture files into arrays, with a check that they fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import BackendError
from hopfed.tables.files import opened, reading

FORMATS = ("JPEG", "PNG")  # whatever a file is called: others, such as EPS, have programs run
PER_PIXEL = 16  # bytes of memory per decoded pixel, intermediate copies included


def pillow() -> Any:
    """Return ``PIL.Image``; without Pillow raise BackendError, which says how to install it."""
    try:
        from PIL import Image
    except ImportError:
        raise BackendError("pictures need Pillow: pip install 'hopfed[neural]'") from None
    return Image


@contextmanager
def picture(file: Any, name: object) -> Iterator[Any]:
    """Open a picture with Pillow; refuse one that does not fit into memory, or an image bomb.

    Parameters
    ----------
    file : open binary file.
    name : name of the picture in an error message.

    Raises
    ------
    ValueError : Pillow cannot read it, or it has more pixels than Pillow's safe limit.
    DataError : its pixels do not fit into memory.
    """
    image = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("error", image.DecompressionBombWarning)
        try:
            with image.open(file, formats=FORMATS) as held:
                require_memory(PER_PIXEL * held.width * held.height, str(name))
                yield held
        except (image.DecompressionBombWarning, image.DecompressionBombError) as error:
            raise ValueError(str(error)) from None


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
    """Stack `count` pictures (channels, height, width) of equal size into one array.

    Raises
    ------
    ValueError : there are no pictures, or picture k, named by `called`, differs in size.
    """
    stacked: np.ndarray | None = None
    for k, picture in enumerate(pictures):
        if stacked is None:
            require_memory(count * picture.size, f"{count} pictures of {picture.shape}")
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
    pillow()

    def decoded() -> Iterator[np.ndarray]:
        for path in paths:
            with opened(path) as file, reading(path), picture(file, path) as held:
                array = pixels(held, "RGB", size)
            yield array

    with reading(folder):
        return stack(decoded(), len(paths), lambda k: paths[k].relative_to(folder))
