"""Readers of FEMNIST and Shakespeare in LEAF's JSON files, each of which holds a list of users."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset, encode, whole
from hopfed.neural.data.text import VOCABULARY, encode_next, encode_windows, speech_of
from hopfed.tables.files import opened, reading, size_of

SIDE = 28
_PER_BYTE = 24  # bytes of memory per byte of a JSON file that holds only the shortest numbers
FEMNIST_CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)

Reader = Callable[[Any, Any], tuple[np.ndarray, np.ndarray]]


def femnist(folder: Path) -> Dataset:
    """Read FEMNIST: 62 classes, 28 x 28 pixels, by writer; pixels in [0, 1] become 0..255."""
    return _leaf("femnist", folder, _characters, FEMNIST_CLASSES)


def shakespeare(folder: Path) -> Dataset:
    """Read Shakespeare: 80 characters predict the next one, by role; a speech is a group."""
    data = _leaf("shakespeare", folder, _sequences, tuple(VOCABULARY))
    owners = [column for column in (data.writer, data.train) if column is not None]
    return replace(data, group=speech_of(data.inputs, *owners))


def _leaf(name: str, folder: Path, read: Reader, classes: tuple[str, ...]) -> Dataset:
    """Join all users of all files; the files under `test` are the published test set."""
    inputs, labels, writers, train = [], [], [], []
    for path, is_train in _files(folder):
        with opened(path) as file, reading(path):
            require_memory(_PER_BYTE * size_of(file), str(path))
            content = json.loads(file.read().decode("utf-8"))
            for user in _users(content):
                held = content["user_data"][user]
                x, y = read(held["x"], held["y"])
                inputs.append(x)
                labels.append(y)
                writers.append(np.full(len(y), user, dtype=object))
                train.append(np.full(len(y), is_train))
    if not writers:
        raise DataError(f"{folder}: there are no users")
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
    """Yield (file, is_training) for `train` and `test`; without them, for `all_data`."""
    parts = ("train", "test") if (folder / "train").is_dir() else ("all_data",)
    files = [(p, part != "test") for part in parts for p in sorted((folder / part).glob("*.json"))]
    if not files:
        raise DataError(f"{folder}: no .json files in train and test, or in all_data")
    yield from files


def _users(content: Any) -> list[str]:
    """Return the names of the users; a repeated name is an error."""
    users = content["users"]
    if not isinstance(users, list) or not all(isinstance(user, str) for user in users):
        raise ValueError("users must be a list of names")
    if len(set(users)) < len(users):
        raise ValueError("a user is there twice")
    return users


def _characters(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    pixels = np.asarray(x, dtype=np.float64).reshape(len(y), 1, SIDE, SIDE)
    if not (pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= 1):
        raise ValueError("pixels must be in [0, 1]")
    return np.rint(pixels * 255).astype(np.uint8), whole(y).reshape(len(y))


def _sequences(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    windows, following = encode_windows(x), encode_next(y)
    if len(windows) != len(following):
        raise ValueError(f"{len(windows)} sequences for {len(following)} next characters")
    return windows, following
