"""Readers of the official folders of MNIST, CIFAR, Tiny-ImageNet, PACS and Office-Home."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset, superclasses, whole
from hopfed.neural.data.files import read_pictures
from hopfed.neural.data.unpickle import read_pickle
from hopfed.tables.arrays import EXPANSION
from hopfed.tables.files import opened, reading, size_of

PICTURES = frozenset({".jpg", ".jpeg", ".png"})


def mnist(folder: Path) -> Dataset:
    """Read the four idx files of MNIST, gzipped or not."""
    images = [_idx(folder, f"{part}-images", 3) for part in ("train", "t10k")]
    labels = [_idx(folder, f"{part}-labels", 1) for part in ("train", "t10k")]
    with reading(folder):
        return Dataset(
            "mnist",
            np.concatenate(images)[:, None],
            np.concatenate(labels).astype(np.int64),
            tuple("0123456789"),
            train=_first(len(images[0]), len(images[1])),
        )


def cifar10(folder: Path) -> Dataset:
    """Read the six Python batches of CIFAR-10."""
    batches = [read_pickle(folder / f"data_batch_{k}") for k in range(1, 6)]
    batches.append(read_pickle(folder / "test_batch"))
    names = read_pickle(folder / "batches.meta")
    with reading(folder):
        return _cifar("cifar10", batches, "labels", names["label_names"])


def cifar100(folder: Path) -> Dataset:
    """Read the two Python batches of CIFAR-100; coarse labels become superclasses."""
    batches = [read_pickle(folder / "train"), read_pickle(folder / "test")]
    names = read_pickle(folder / "meta")
    with reading(folder):
        return _cifar("cifar100", batches, "fine_labels", names["fine_label_names"])


def tiny_imagenet(folder: Path, size: int | None = None) -> Dataset:
    """Read Tiny-ImageNet; its labelled validation set is the test set here."""
    wnids = _text(folder / "wnids.txt").split()
    with reading(folder / "wnids.txt"):
        index = {_plain(wnid): k for k, wnid in enumerate(wnids)}
    lines = _text(folder / "words.txt").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    train = [(p, k) for w, k in index.items() for p in _pictures(folder / "train" / w / "images")]
    notes = _text(folder / "val" / "val_annotations.txt").splitlines()
    with reading(folder / "val" / "val_annotations.txt"):
        rows = [line.split("\t")[:2] for line in notes if line.strip()]
        test = [(folder / "val" / "images" / _plain(file), index[wnid]) for file, wnid in rows]
    paths, labels = zip(*train, *test, strict=True) if train or test else ((), ())
    return Dataset(
        "tiny-imagenet",
        read_pictures(paths, size, folder),
        np.array(labels, dtype=np.int64),
        tuple(words.get(w, w) for w in wnids),
        train=_first(len(train), len(test)),
    )


def domains(folder: Path, size: int | None = None, *, name: str = "") -> Dataset:
    """Read pictures in ``domain/class/*``, the folders of PACS and Office-Home.

    Domains and classes are numbered in sorted order. Every domain must have every class.
    """
    found = [d for d in sorted(folder.iterdir()) if d.is_dir() and any(map(_holds, _folders(d)))]
    if not found:
        raise DataError(f"{folder}: no pictures in folders domain/class")
    classes = sorted({c.name for d in found for c in _folders(d)})
    rows = []
    for k, domain in enumerate(found):
        missing = set(classes) - {c.name for c in _folders(domain) if _holds(c)}
        if missing:
            raise DataError(f"{domain}: no pictures of class {min(missing)}")
        rows += [(p, k, j) for j, c in enumerate(classes) for p in _pictures(domain / c)]
    paths, domain_index, labels = zip(*rows, strict=True)
    return Dataset(
        name or folder.name,
        read_pictures(paths, size, folder),
        np.array(labels, dtype=np.int64),
        tuple(classes),
        domain=np.array(domain_index, dtype=np.int64),
        domain_names=tuple(d.name for d in found),
    )


def _idx(folder: Path, stem: str, axes: int) -> np.ndarray:
    """Read one idx file: a magic number with the count of axes, the lengths, the bytes."""
    names = [f"{stem}{dot}idx{axes}-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    path = next((folder / n for n in names if (folder / n).is_file()), None)
    if path is None:
        raise DataError(f"{folder}: neither {names[0]} nor {names[1]}")
    with opened(path) as file, reading(path):
        packed = path.suffix == ".gz"
        data: Any = gzip.GzipFile(fileobj=file) if packed else file
        magic, *shape = struct.unpack(f">{1 + axes}I", data.read(4 + 4 * axes))
        if magic != 0x800 + axes:
            raise ValueError(f"not an idx file of bytes with {axes} axes")
        due, held = math.prod(shape), size_of(file)
        if due > (EXPANSION * held if packed else held):
            raise ValueError(f"{held} bytes cannot hold the shape {tuple(shape)}")
        require_memory(3 * due, str(path))
        body = data.read(due + 1)
        if len(body) != due:
            raise ValueError(f"more or less than the {due} bytes of the shape {tuple(shape)}")
        return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _cifar(name: str, batches: list[dict], key: str, names: list[str]) -> Dataset:
    """Join the batches; the last batch is the test set."""
    pixels = np.concatenate([np.asarray(b["data"]) for b in batches])
    if pixels.dtype != np.uint8:
        raise ValueError(f"pictures must be bytes, got {pixels.dtype}")
    images = pixels.reshape(-1, 3, 32, 32)
    labels = np.concatenate([whole(b[key]) for b in batches])
    coarse = None
    if "coarse_labels" in batches[0]:
        rows = np.concatenate([whole(b["coarse_labels"]) for b in batches])
        coarse = superclasses(rows, labels, len(names))
    last = len(batches[-1][key])
    train = _first(len(labels) - last, last)
    return Dataset(name, images, labels, tuple(map(str, names)), coarse=coarse, train=train)


def _text(path: Path) -> str:
    with opened(path) as file, reading(path):
        require_memory(40 * size_of(file), str(path))
        return file.read().decode("utf-8")


def _plain(name: str) -> str:
    """Return `name` if it is a bare file name; raise ValueError if it names a folder."""
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not the name of a file or a folder")
    return name


def _first(first: int, rest: int) -> np.ndarray:
    return np.arange(first + rest) < first


def _folders(folder: Path) -> list[Path]:
    return [f for f in sorted(folder.iterdir()) if f.is_dir()]


def _pictures(folder: Path) -> list[Path]:
    with reading(folder):  # its name, from a file, may be longer than a name can be
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder")
        return [p for p in sorted(folder.iterdir()) if p.suffix.lower() in PICTURES]


def _holds(folder: Path) -> bool:
    return any(p.suffix.lower() in PICTURES for p in folder.iterdir())
