"""Reader of datasets in one .npz file: images, features, JPEG sheets, or speeches of a play."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError
from hopfed.neural.data import text
from hopfed.neural.data.arrays import as_inputs, classes_of
from hopfed.neural.data.dataset import Dataset, encode, superclasses, whole
from hopfed.neural.data.files import picture
from hopfed.neural.data.parts import INPUTS, LABELS, SPLIT, Joined
from hopfed.tables.arrays import Npz
from hopfed.tables.files import reading

OTHERS = ("jpeg", "text")
_PER_CHARACTER = 2 * text.LENGTH + 64  # bytes: two copies of its window, and its indices
_TRAIN, _VALIDATION, _TEST = SPLIT["train"], SPLIT["validation"], SPLIT["test"]


def read_npz(path: str | Path) -> Dataset:
    """Read a dataset from an .npz file; pickles are refused.

    Parameters
    ----------
    path : a file that holds `labels`, which may also be called `y` or `Y`, and one of

        images : (n, height, width), (n, height, width, channels) or (n, channels, height, width);
            or rows of features (n, d). The array may also be called `features`, `inputs`, `x` or
            `X`.
        jpeg, offsets, tile : JPEG sheets in one byte array; sheet i is
            ``jpeg[offsets[i]:offsets[i + 1]]`` and shows ``tile = [G, s]``: G x G pictures of
            s x s, row by row.
        text, start, end : speeches ``text[start:end]``, labelled by speaker. They become examples
            of next-character prediction (see `text`); a speaker is a writer, a speech is a group.

        Every value of `labels` is a class, as in a table; with `class_names` they are the places
        of these. For pictures and features the file may also hold `coarse_labels`, `domain`,
        `domain_names`, `writer`, `writer_names`, and the published split: `train` (bool) or
        `split` (words). A validation set in `split` counts as training data if there is a test
        set; otherwise it is the test set. The parts of a split may also be arrays of their own:
        `x_train`, `y_train`, `x_test` and `y_test`, or `train_images`, `train_labels` and so on.

    Raises
    ------
    DataError : one line that names the file and what is wrong with it.
    """
    path = Path(path)
    with reading(path), Npz(path) as file:
        archive = Joined(file)
        label, held = _names(archive)
        if held == "text":
            return _speeches(path.stem, archive, label)
        labels, class_names = classes_of(archive[label], archive.get("class_names", ()))
        images = _sheets(archive, len(labels)) if held == "jpeg" else _inputs(archive, held)
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


def npz_holds_features(path: str | Path) -> bool:
    """Whether an .npz file holds rows of features; nothing but a header is read.

    Parameters
    ----------
    path : as of `read_npz`.
    """
    with reading(path), Npz(path) as file:
        archive = Joined(file)
        held = _names(archive)[1]
        return held in INPUTS and len(archive.header(held).shape) == 2


def _names(archive: Joined) -> tuple[str, str]:
    """Names of the arrays of labels and of examples."""
    labels, inputs = (_meant(archive, names) for names in (LABELS, INPUTS))
    inputs = next(([name] for name in reversed(OTHERS) if name in archive), inputs)
    if len(labels) == len(inputs) == 1:
        return labels[0], inputs[0]
    found = ", ".join(archive) or "nothing"
    due = f"labels (or {' or '.join(LABELS[1:])}) and one of {', '.join((*INPUTS, *OTHERS))}"
    raise DataError(f"{archive.path}: {due} are due, found {found}")


def _meant(archive: Joined, names: tuple[str, ...]) -> list[str]:
    """Those of `names` that may be meant: the first one alone if it is there."""
    return [name for name in names if name in archive][: 1 if names[0] in archive else None]


def _inputs(archive: Joined, name: str) -> np.ndarray:
    header = archive.header(name)  # read in the stored dtype, then copied to bytes or float32
    require_memory(header.nbytes + 4 * math.prod(header.shape), f"{archive.path}: {name}")
    return as_inputs(archive[name])


def _sheets(archive: Joined, rows: int) -> np.ndarray:
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


def _speeches(name: str, archive: Joined, label: str) -> Dataset:
    """Windows of all speeches; the speaker of each is its writer."""
    speaker, names = encode(archive[label], archive.get("class_names", ()))
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
