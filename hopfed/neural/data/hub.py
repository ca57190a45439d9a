"""Datasets by hub name, read with the `datasets` library (extra `hub`), imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import BackendError, DataError
from hopfed.neural.data.dataset import Dataset, encode, superclasses
from hopfed.neural.data.files import pixels, stack
from hopfed.neural.data.text import VOCABULARY, encode_next, encode_windows, speech_of
from hopfed.tables.files import reading

BATCH = 1000  # rows decoded at a time


@dataclass(frozen=True)
class Entry:
    """Address of a dataset on the hub, and the names of its columns.

    Attributes
    ----------
    path : owner and name on the hub.
    inputs, label : names of columns.
    mode : Pillow's mode of the pictures; "" for texts.
    train, test : names of the splits; `test` is "" if there is no test split.
    coarse, domain, writer : names of columns; "" if there is no such column.
    size : side in pixels to which pictures are resized; None leaves their size.
    """

    path: str
    inputs: str
    label: str
    mode: str = "RGB"
    train: str = "train"
    test: str = ""
    coarse: str = ""
    domain: str = ""
    writer: str = ""
    size: int | None = None


ENTRIES = {
    "mnist": Entry("ylecun/mnist", "image", "label", mode="L", test="test"),
    "cifar10": Entry("uoft-cs/cifar10", "img", "label", test="test"),
    "cifar100": Entry("uoft-cs/cifar100", "img", "fine_label", test="test", coarse="coarse_label"),
    "tiny-imagenet": Entry("zh-plus/tiny-imagenet", "image", "label", test="valid"),
    "femnist": Entry("flwrlabs/femnist", "image", "character", mode="L", writer="writer_id"),
    "shakespeare": Entry("flwrlabs/shakespeare", "x", "y", mode="", writer="character_id"),
    "pacs": Entry("flwrlabs/pacs", "image", "label", domain="domain", size=64),
    "office-home": Entry("flwrlabs/office-home", "image", "label", domain="domain", size=64),
}


def read_hub(name: str, size: int | None = None) -> Dataset:
    """Load the dataset `name` of `ENTRIES` from the hub, or from its cache.

    Raises
    ------
    BackendError : the `datasets` library is not installed, or cannot get the data.
    DataError : a column is missing, or pictures are of differing size.
    """
    entry = ENTRIES[name]
    library = _library(name)
    if Path(entry.path).exists():
        raise DataError(f"hub:{name}: {entry.path} is in this folder and would be read instead")
    splits = [s for s in (entry.train, entry.test) if s]
    tables = []
    for split in splits:
        try:
            tables.append(library.load_dataset(entry.path, split=split))
        except Exception as error:  # the library, the network or the disk can fail in many ways
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise BackendError(f"hub:{name}: {entry.path} cannot be loaded: {reason}") from error
    wanted = (entry.inputs, entry.label, entry.coarse, entry.domain, entry.writer)
    for table in tables:
        missing = [c for c in wanted if c and c not in table.column_names]
        if missing:
            found = ", ".join(table.column_names)
            raise DataError(f"hub:{name}: no column {missing[0]} in {entry.path}, only {found}")
    with reading(f"hub:{name}"):
        return _join(name, entry, tables, size if size is not None else entry.size)


def _join(name: str, entry: Entry, tables: list[Any], size: int | None) -> Dataset:
    sizes = [len(table) for table in tables]
    if entry.mode:
        inputs = stack(_decoded(tables, entry, size), sum(sizes), lambda k: f"row {k}")
        feature = tables[0].features[entry.label]
        labels, class_names = encode(_column(tables, entry.label), getattr(feature, "names", ()))
    else:
        batches = [batch[entry.inputs] for table in tables for batch in table.iter(BATCH)]
        inputs = np.concatenate([encode_windows(texts) for texts in batches])
        labels = encode_next(_column(tables, entry.label).tolist())
        class_names = tuple(VOCABULARY)
    domain, domain_names = _names(tables, entry.domain)
    writer, writer_names = _names(tables, entry.writer)
    coarse = group = None
    if writer is not None and not entry.mode:
        group = speech_of(inputs, writer)
    if entry.coarse:
        coarse = superclasses(_column(tables, entry.coarse), labels, len(class_names))
    return Dataset(
        name,
        inputs,
        labels,
        class_names,
        domain=domain,
        domain_names=domain_names,
        writer=writer,
        writer_names=writer_names,
        group=group,
        coarse=coarse,
        train=np.arange(len(labels)) < sizes[0] if entry.test else None,
    )


def _decoded(tables: list[Any], entry: Entry, size: int | None) -> Iterator[np.ndarray]:
    for table in tables:
        for batch in table.iter(BATCH):
            for picture in batch[entry.inputs]:
                yield pixels(picture, entry.mode, size)


def _column(tables: list[Any], column: str) -> np.ndarray:
    return np.concatenate([np.asarray(list(table[column])) for table in tables])


def _names(tables: list[Any], column: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
    if not column:
        return None, ()
    return encode(_column(tables, column), getattr(tables[0].features[column], "names", ()))


def _library(name: str) -> Any:
    try:
        return import_module("datasets")
    except ImportError:
        fault = f"hub:{name} needs the datasets library: pip install 'hopfed[hub]'"
        raise BackendError(fault) from None
