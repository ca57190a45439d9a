"""`load`: returns the `Dataset` of a dataset's name, a file, or a name on the hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data import folders, leaf
from hopfed.neural.data.archives import npz_holds_features, read_npz
from hopfed.neural.data.dataset import Dataset
from hopfed.neural.data.features import TABLE, read_features
from hopfed.neural.data.given import PREFIX, given
from hopfed.neural.data.hub import ENTRIES, read_hub

ENVIRONMENT = "HOPFED_DATA"


LEAF = ("train/*.json", "all_data/*.json")


@dataclass(frozen=True)
class Source:
    """Places below the root where a named dataset may lie, and its reader.

    Attributes
    ----------
    archives : patterns of .npz files, tried first, in this order.
    folders : possible names of the official folder; the root itself is tried last.
    markers : patterns of files or folders by which the official folder is recognised.
    read : reader of that folder; if it decodes pictures, it also takes the side to resize to.
    decodes : whether the reader decodes pictures.
    size : default side of the pictures in pixels; None leaves their size.
    """

    archives: tuple[str, ...]
    folders: tuple[str, ...]
    markers: tuple[str, ...]
    read: Callable[..., Dataset]
    decodes: bool = False
    size: int | None = None


SOURCES = {
    "mnist": Source(
        ("mnist.npz", "mnist_*.npz"),
        ("MNIST/raw", "MNIST", "mnist"),
        ("train-images?idx3-ubyte*",),
        folders.mnist,
    ),
    "cifar10": Source(
        ("cifar10.npz", "cifar10_*.npz"),
        ("cifar-10-batches-py",),
        ("data_batch_1",),
        folders.cifar10,
    ),
    "cifar100": Source(
        ("cifar100.npz", "cifar100_*.npz"),
        ("cifar-100-python",),
        ("meta",),
        folders.cifar100,
    ),
    "tiny-imagenet": Source(
        ("tiny?imagenet.npz", "tiny?imagenet_*.npz"),
        ("tiny-imagenet-200",),
        ("wnids.txt",),
        folders.tiny_imagenet,
        decodes=True,
    ),
    "femnist": Source(
        ("femnist.npz", "femnist_*.npz"),
        ("femnist/data", "femnist"),
        LEAF,
        leaf.femnist,
    ),
    "shakespeare": Source(
        ("shakespeare.npz", "shakespeare_*.npz"),
        ("shakespeare/data", "shakespeare"),
        LEAF,
        leaf.shakespeare,
    ),
    "pacs": Source(
        ("pacs.npz", "pacs[_0-9]*.npz"),
        ("PACS", "pacs", "PACS/kfold", "pacs_data"),
        ("art_painting",),
        partial(folders.domains, name="pacs"),
        decodes=True,
        size=64,
    ),
    "office-home": Source(
        ("office?home.npz", "office?home[_0-9]*.npz"),
        ("OfficeHomeDataset_10072016", "OfficeHome", "office-home", "office_home"),
        ("Clipart",),
        partial(folders.domains, name="office-home"),
        decodes=True,
        size=64,
    ),
}


def load(
    spec: str,
    *,
    root: str | Path | None = None,
    size: int | None = None,
    labelled: bool = True,
) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    spec : one of

        "digits" : the 1,797 digits of 8 x 8 that ship with scikit-learn.
        "FILE.npz" : a file with `images` (or rows of features) and `labels`, or `x` and `y`, or
            `x_train`, `y_train`, `x_test` and `y_test`, as :func:`archives.read_npz` reads it.
        "FILE.csv", "FILE.csv:COLUMN" : a table of features, with its column of labels, as
        :func:`features.read_features` reads it; also .tsv, .parquet and .feather.
        "mnist", "cifar10", "cifar100", "tiny-imagenet", "femnist", "shakespeare", "pacs",
        "office-home" : an .npz file or the official folder, below the root.
        "hub:NAME" : one of these datasets from the hub (extra `hub`).
        "arrays:NAME:DIGEST" : arrays that :func:`given.as_named` keeps.
    root : folder to search, also for a file that is not in the current folder; by default the
        environment variable HOPFED_DATA names it.
    size : side in pixels to which decoded pictures are resized. It applies to Tiny-ImageNet
        (64 x 64 as published), to PACS and Office-Home (default 64), and to the hub.
    labelled : whether a table of features must have a column of labels.

    Raises
    ------
    ArgumentError : an unknown name (the nearest ones are suggested), or a size for a dataset that
        is not resized.
    DataError : not found, truncated or malformed, in one line.
    BackendError : a library that the source needs is missing.

    Examples
    --------
    >>> load("digits")
    Dataset(name='digits')
    >>> load("cifar11")
    Traceback (most recent call last):
    hopfed.errors.ArgumentError: data must be digits, FILE.npz, FILE.csv[:COLUMN], hub:NAME, mnist,
    cifar10, cifar100, tiny-imagenet, femnist, shakespeare, pacs or office-home (did you mean
    cifar10?), got 'cifar11'
    """
    if size is not None:
        require(isinstance(size, int) and size > 0, "size", "a number of pixels above 0", size)
    if spec.startswith(PREFIX):
        _require_as_is(size, spec)
        return given(spec)
    kind, _, rest = spec.partition(":")
    table = TABLE.fullmatch(spec)
    if table is not None:
        _require_as_is(size, spec)
        return read_features(_existing(table[1], root), table[2], labelled)
    if kind == "hub":
        return read_hub(_known(rest, ENTRIES, "hub:"), size)
    if spec.endswith(".npz"):
        _require_as_is(size, spec)
        return read_npz(_existing(spec, root))
    if spec == "digits":
        _require_as_is(size, spec)
        return digits()
    name = _known(spec, SOURCES, "")
    return _find(name, SOURCES[name], _root(name, root), size)


def holds_features(spec: str) -> bool:
    """Whether `load` would return rows of features, not images or text; little is read for it.

    Parameters
    ----------
    spec : as of `load`.

    Examples
    --------
    >>> holds_features("digits"), holds_features("plants.csv:species")
    (False, True)
    """
    if spec.endswith(".npz"):
        return npz_holds_features(_existing(spec, None))
    return TABLE.fullmatch(spec) is not None


def digits() -> Dataset:
    """Return scikit-learn's digits: 1,797 images of 8 x 8 pixels with 17 grey values."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)[:, None]
    return Dataset("digits", images, bunch.target.astype(np.int64), tuple("0123456789"))


def _find(name: str, source: Source, root: Path, size: int | None) -> Dataset:
    """Read `name` from the archive or the official folder below `root`."""
    for pattern in source.archives:
        archives = sorted(root.glob(pattern))
        if len(archives) > 1:
            found = ", ".join(p.name for p in archives)
            raise DataError(f"{name}: several files in {root}: {found}; name the one you mean")
        if archives:
            _require_as_is(size, archives[0].name)
            return read_npz(archives[0])
    for folder in (*(root / f for f in source.folders), root):
        if any(True for marker in source.markers for _ in folder.glob(marker)):
            if source.decodes:
                return source.read(folder, size or source.size)
            _require_as_is(size, name)
            return source.read(folder)
    places = f"neither {source.archives[0]} nor a folder {source.folders[0]} in {root}"
    raise DataError(f"{name}: {places}; give its root, set {ENVIRONMENT}, or take hub:{name}")


def _require_as_is(size: int | None, what: str) -> None:
    require(size is None, "size", f"left out: {what} is not resized", size)


def _root(name: str, root: str | Path | None) -> Path:
    place = root if root is not None else os.environ.get(ENVIRONMENT)
    if place is None:
        raise DataError(f"{name}: give its root, set {ENVIRONMENT}, or take hub:{name}")
    if not os.path.isdir(place):  # also False for a name that is not a possible folder name
        raise DataError(f"{place}: no such folder")
    return Path(place)


def _existing(spec: str, root: str | Path | None) -> Path:
    path, root = Path(spec), root if root is not None else os.environ.get(ENVIRONMENT)
    if not os.path.isfile(path) and root is not None and os.path.isfile(Path(root) / path):
        return Path(root) / path
    return path


def _known(text: str, names: dict, prefix: str) -> str:
    """Return `text` if it is a known name; otherwise raise ArgumentError, which lists the names."""
    name = text.lower().replace("_", "-")
    if name in names:
        return name
    near = get_close_matches(name, [*names, "digits"], n=1, cutoff=0.5)
    hint = f" (did you mean {prefix}{near[0]}?)" if near else ""
    *head, last = names
    every = f"{', '.join(head)} or {last}"
    forms = (
        f"hub:NAME with a name of {every}"
        if prefix
        else f"digits, FILE.npz, FILE.csv[:COLUMN], hub:NAME, {every}"
    )
    raise ArgumentError("data", forms + hint, repr(prefix + text))
