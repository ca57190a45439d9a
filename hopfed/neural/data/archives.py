"""Datasets in one .npz: images, pictures in JPEG sheets, or speeches of a play."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import DataError
from hopfed.neural.data import text
from hopfed.neural.data.dataset import Dataset, encode, superclasses
from hopfed.neural.data.files import pillow, reading

CHANNELS = (1, 3)
_TRAIN, _VALIDATION, _TEST = ("train", "training"), ("val", "valid", "validation"), ("test",)


def read_npz(path: str | Path) -> Dataset:
    """Read a dataset from an .npz file; no pickles.

    Parameters
    ----------
    path : holds `labels`, one of

        images : (n, height, width), (n, height, width, channels) or (n, channels, height, width).
        jpeg, offsets, tile : JPEG sheets in one byte array; sheet i is
            ``jpeg[offsets[i]:offsets[i + 1]]`` and shows ``tile = [G, s]``: G x G pictures of
            s x s, row by row.
        text, start, end : speeches ``text[start:end]`` by speaker, which become next-character
            prediction (see `text`), the speaker being the writer and the speech the group.

        and, for pictures, optionally `class_names`, `coarse_labels`, `domain`, `domain_names`,
        `writer`, `writer_names`, and `train` (bool) or `split` (words; a validation set counts as
        training data where there is a test set, and as the test set where there is none).

    Raises
    ------
    DataError : one line that names the file and what is wrong with it.
    """
    path = Path(path)
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        keys = set(archive.files)
        if "labels" not in keys or not keys & {"images", "jpeg", "text"}:
            found = ", ".join(archive.files) or "nothing"
            raise DataError(f"{path}: labels and images, jpeg or text are due, found {found}")
        if "text" in keys:
            return _speeches(path.stem, archive)
        images = _sheets(archive) if "jpeg" in keys else channels_first(archive["images"])
        labels, class_names = encode(archive["labels"], archive.get("class_names", ()))
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
    return np.ascontiguousarray(images, dtype=np.uint8 if whole else np.float32)


def _sheets(archive: Any) -> np.ndarray:
    """Decode JPEG sheets to (n, channels, s, s)."""
    image = pillow()
    (grid, side), offsets, data = archive["tile"].tolist(), archive["offsets"], archive["jpeg"]
    tiles = []
    for first, last in pairwise(offsets.tolist()):
        with image.open(io.BytesIO(data[first:last].tobytes())) as picture:
            sheet = np.atleast_3d(np.asarray(picture))
        cut = sheet.reshape(grid, side, grid, side, sheet.shape[2])
        tiles.append(cut.transpose(0, 2, 4, 1, 3).reshape(grid * grid, -1, side, side))
    rows = len(archive["labels"])
    if not tiles or len(tiles) * grid * grid < rows:
        raise ValueError(f"{len(tiles)} sheets hold too few pictures for {rows} labels")
    return np.concatenate(tiles)[:rows]


def _speeches(name: str, archive: Any) -> Dataset:
    """Windows of all speeches; the speaker of each is its writer."""
    speaker, names = encode(archive["labels"], archive.get("class_names", ()))
    script = archive["text"].tobytes().decode("latin-1")
    bounds = zip(archive["start"].tolist(), archive["end"].tolist(), strict=True)
    speeches = [script[first:last] for first, last in bounds]
    if len(speeches) != len(speaker):
        raise ValueError(f"{len(speeches)} speeches for {len(speaker)} speakers")
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
        return archive["train"].astype(bool)
    if "split" not in archive:
        return None
    words = np.char.lower(archive["split"].astype(str))
    known = (*_TRAIN, *_VALIDATION, *_TEST)
    if not np.isin(words, known).all():
        raise ValueError(f"split must be of the words {', '.join(known)}")
    has_test = bool(np.isin(words, _TEST).any())
    return np.isin(words, (*_TRAIN, *_VALIDATION) if has_test else _TRAIN)
