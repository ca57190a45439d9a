"""FEMNIST and Shakespeare in the JSON files that LEAF writes, one list of users per file."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset, encode
from hopfed.neural.data.files import reading
from hopfed.neural.data.text import VOCABULARY, encode_next, encode_windows, speech_of

SIDE = 28
FEMNIST_CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)

Reader = Callable[[Any, Any], tuple[np.ndarray, np.ndarray]]


def femnist(folder: Path) -> Dataset:
    """Read FEMNIST: 62 characters, 28 x 28, by writer; pixels in [0, 1] become 0..255."""
    return _leaf("femnist", folder, _characters, FEMNIST_CLASSES)


def shakespeare(folder: Path) -> Dataset:
    """Read Shakespeare: 80 characters and the next one, by role; the speeches are groups."""
    data = _leaf("shakespeare", folder, _sequences, tuple(VOCABULARY))
    owners = [column for column in (data.writer, data.train) if column is not None]
    return replace(data, group=speech_of(data.inputs, *owners))


def _leaf(name: str, folder: Path, read: Reader, classes: tuple[str, ...]) -> Dataset:
    """Join all users of all files; those under `test` are the published test set."""
    inputs, labels, writers, train = [], [], [], []
    for path, is_train in _files(folder):
        with reading(path):
            content = json.loads(path.read_text(encoding="utf-8"))
            for user in content["users"]:
                x, y = read(content["user_data"][user]["x"], content["user_data"][user]["y"])
                inputs.append(x)
                labels.append(y)
                writers.append(np.full(len(y), user, dtype=object))
                train.append(np.full(len(y), is_train))
    writer, names = encode(np.concatenate(writers).astype(str))
    published = np.concatenate(train)
    return Dataset(
        name,
        np.concatenate(inputs),
        np.concatenate(labels),
        classes,
        writer=writer,
        writer_names=names,
        train=None if published.all() else published,
    )


def _files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Files of `train` and `test`, else those of `all_data`; whether they are for training."""
    parts = ("train", "test") if (folder / "train").is_dir() else ("all_data",)
    files = [(p, part != "test") for part in parts for p in sorted((folder / part).glob("*.json"))]
    if not files:
        raise DataError(f"{folder}: no .json files in train and test, or in all_data")
    yield from files


def _characters(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    pixels = np.asarray(x, dtype=np.float64).reshape(len(y), 1, SIDE, SIDE)
    if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
        raise ValueError("pixels must be in [0, 1]")
    return np.rint(pixels * 255).astype(np.uint8), np.asarray(y, dtype=np.int64).reshape(len(y))


def _sequences(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    windows, following = encode_windows(x), encode_next(y)
    if len(windows) != len(following):
        raise ValueError(f"{len(windows)} sequences for {len(following)} next characters")
    return windows, following
