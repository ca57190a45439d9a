"""Reader of datasets in one .npz file: images, pictures in JPEG sheets, or speeches of a play."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.data.files import reading
from hopfed.data.npz import Npz
from hopfed.errors import DataError
from hopfed.neural.data import text
from hopfed.neural.data.dataset import Dataset, encode, superclasses, whole
from hopfed.neural.data.files import picture

CHANNELS = (1, 3)
_PER_CHARACTER = 2 * text.LENGTH + 64  # bytes: two copies of its window, and its indices
_TRAIN, _VALIDATION, _TEST = ("train", "training"), ("val", "valid", "validation"), ("test",)


def read_npz(path: str | Path) -> Dataset:
    """Read a dataset from an .npz file; pickles are refused.

    Parameters
    ----------
    path : a file that holds `labels` and one of

        images : (n, height, width), (n, height, width, channels) or (n, channels, height, width).
        jpeg, offsets, tile : JPEG sheets in one byte array; sheet i is
            ``jpeg[offsets[i]:offsets[i + 1]]`` and shows ``tile = [G, s]``: G x G pictures of
            s x s, row by row.
        text, start, end : speeches ``text[start:end]``, labelled by speaker. They become examples
            of next-character prediction (see `text`); a speaker is a writer, a speech is a group.

        For pictures it may also hold `class_names`, `coarse_labels`, `domain`, `domain_names`,
        `writer`, `writer_names`, and the published split: `train` (bool) or `split` (words). A
        validation set in `split` counts as training data if there is a test set; otherwise it is
        the test set.

    Raises
    ------
    DataError : one line that names the file and what is wrong with it.
    """
    path = Path(path)
    with reading(path), Npz(path) as archive:
        keys = set(archive)
        if "labels" not in keys or not keys & {"images", "jpeg", "text"}:
            found = ", ".join(archive) or "nothing"
            raise DataError(f"{path}: labels and images, jpeg or text are due, found {found}")
        if "text" in keys:
            return _speeches(path.stem, archive)
        labels, class_names = encode(archive["labels"], archive.get("class_names", ()))
        images = _sheets(archive, len(labels)) if "jpeg" in keys else _images(archive)
        domain, domain_names = _column(archive, "domain")
        writer, writer_names = _column(archive, "writer")
        coarse = archive.get("coarse_labels")
        if coarse is not None:
            coarse = superclasses(coarse, labels, len(class_names))
        return Dataset(
            path.stem,
            images,
            labels,
            class_names,
            domain=domain,
            domain_names=domain_names,
            writer=writer,
            writer_names=writer_names,
            coarse=coarse,
            train=_published(archive),
        )


def channels_first(images: np.ndarray) -> np.ndarray:
    """Return images as (n, channels, height, width), uint8 or float32.

    Examples
    --------
    >>> channels_first(np.zeros((5, 8, 8, 3), np.uint8)).shape
    (5, 3, 8, 8)
    """
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] in CHANNELS:
        images = images.transpose(0, 3, 1, 2)
    elif images.ndim != 4 or images.shape[1] not in CHANNELS:
        raise ValueError(f"images of shape {images.shape} are not (n, height, width[, channels])")
    whole = images.dtype.kind in "iub"
    if whole and images.size and not (images.min() >= 0 and images.max() <= 255):
        spread = f"{images.min()}..{images.max()}"
        raise ValueError(f"images of whole numbers must be in 0..255, got {spread}")
    if images.dtype.kind not in "iubf":
        raise ValueError(f"images must be numbers, got {images.dtype}")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity: refused
        return np.ascontiguousarray(images, dtype=np.uint8 if whole else np.float32)


def _images(archive: Npz) -> np.ndarray:
    header = archive.header("images")  # read in the stored dtype, then copied to bytes or float32
    require_memory(header.nbytes + 4 * math.prod(header.shape), f"{archive.path}: images")
    return channels_first(archive["images"])


def _sheets(archive: Npz, rows: int) -> np.ndarray:
    """Decode JPEG sheets to (rows, channels, s, s)."""
    tile, offsets = whole(archive["tile"]), whole(archive["offsets"])
    data = archive["jpeg"]
    if tile.shape != (2,) or tile.min() < 1 or data.dtype != np.uint8 or data.ndim != 1:
        raise ValueError("tile must be two numbers of at least 1, jpeg an array of bytes")
    ends = np.r_[offsets, len(data)]
    if offsets.ndim != 1 or ends[0] < 0 or (np.diff(ends) < 0).any():
        raise ValueError(f"offsets must ascend from 0 to at most {len(data)}")
    grid, side = tile.tolist()
    count = -(-rows // grid**2)
    if len(offsets) - 1 < count:
        raise ValueError(f"{len(offsets) - 1} sheets hold too few pictures for {rows} labels")
    require_memory(6 * count * (grid * side) ** 2, f"{archive.path}: pictures")
    tiles = [_cut(data[a:b], grid, side) for a, b in pairwise(offsets[: count + 1].tolist())]
    return np.concatenate(tiles)[:rows]


def _cut(data: np.ndarray, grid: int, side: int) -> np.ndarray:
    """Pictures (grid^2, channels, side, side) of one sheet."""
    with picture(io.BytesIO(data.tobytes()), "sheet") as held:
        if held.size != (grid * side, grid * side):
            raise ValueError(f"a sheet of {held.size} pixels for {grid} x {grid} of {side}")
        sheet = np.atleast_3d(np.asarray(held))
    cut = sheet.reshape(grid, side, grid, side, sheet.shape[2])
    return cut.transpose(0, 2, 4, 1, 3).reshape(grid * grid, -1, side, side)


def _speeches(name: str, archive: Npz) -> Dataset:
    """Windows of all speeches; the speaker of each is its writer."""
    speaker, names = encode(archive["labels"], archive.get("class_names", ()))
    require_memory(3 * archive.header("text").nbytes, f"{archive.path}: text")  # it is copied
    script = archive["text"].tobytes().decode("latin-1")
    start, end = whole(archive["start"]), whole(archive["end"])
    if not start.shape == end.shape == speaker.shape:
        counts = f"{start.size} speeches for {speaker.size} speakers"
        raise ValueError(f"{counts}: start, end and labels must be of one length")
    if not ((start >= 0) & (start <= end) & (end <= len(script))).all():
        raise ValueError(f"a speech is outside of the {len(script)} characters of text")
    characters = int((end - start + 1).sum(dtype=np.float64))
    require_memory(_PER_CHARACTER * characters, f"{archive.path}: speeches")
    speeches = [script[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    spoken = [k for k, speech in enumerate(speeches) if speech.strip()]
    windows, following, speech = text.speech_windows([speeches[k] for k in spoken])
    group = np.array(spoken, dtype=np.int64)[speech]
    return Dataset(
        name,
        windows,
        following,
        tuple(text.VOCABULARY),
        writer=speaker[group],
        writer_names=names,
        group=group,
    )


def _column(archive: Mapping[str, np.ndarray], key: str) -> tuple[Any, tuple[str, ...]]:
    if key not in archive:
        return None, ()
    return encode(archive[key], archive.get(f"{key}_names", ()))


def _published(archive: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return which rows are training examples."""
    if "train" in archive:
        train = whole(archive["train"])
        if not np.isin(train, (0, 1)).all():
            raise ValueError("train must be truth values")
        return train.astype(bool)
    if "split" not in archive:
        return None
    split = archive["split"]
    if split.dtype.kind not in "US":
        raise ValueError(f"split must be words, got {split.dtype}")
    words = np.char.lower(split.astype(str))
    known = (*_TRAIN, *_VALIDATION, *_TEST)
    if not np.isin(words, known).all():
        raise ValueError(f"split must be of the words {', '.join(known)}")
    has_test = bool(np.isin(words, _TEST).any())
    return np.isin(words, (*_TRAIN, *_VALIDATION) if has_test else _TRAIN)
