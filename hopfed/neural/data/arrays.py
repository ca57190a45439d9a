"""Arrays as a `Dataset`: examples in one array, and the label of each in another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hopfed.errors import DataError
from hopfed.neural.data.dataset import Dataset, encode

CHANNELS = (1, 3)
GRADES = 20  # different numbers with a fraction, beyond which labels are measured, not classes


def from_arrays(
    inputs: Any, labels: Any, class_names: Iterable[object] = (), name: str = "arrays"
) -> Dataset:
    """Return the `Dataset` of an array of examples and an array of their labels.

    Parameters
    ----------
    inputs : images (n, height, width), (n, height, width, channels) or (n, channels, height,
        width), whole numbers in 0..255 or any others; or rows of features (n, d).
    labels : (n,) numbers or words; every value is a class, see `classes_of`.
    class_names : names of the classes 0, 1, 2, ..., if labels are these numbers.
    name : of the dataset.

    Raises
    ------
    DataError : one line: arrays of other shapes or kinds, of unequal length, empty, or with NaN.

    Examples
    --------
    >>> data = from_arrays(np.eye(4), ["ash", "yew", "ash", "yew"], name="plants")
    >>> data, data.shape, data.class_names
    (Dataset(name='plants'), (4, 1, 1), ('ash', 'yew'))
    """
    try:
        codes, names = classes_of(np.asarray(labels), class_names)
        return Dataset(name, as_inputs(np.asarray(inputs)), codes, names)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {error}") from None


def as_inputs(array: np.ndarray) -> np.ndarray:
    """Return images as `channels_first` does, and rows of features (n, d) as (n, d, 1, 1) float32.

    Examples
    --------
    >>> as_inputs(np.zeros((5, 3))).shape
    (5, 3, 1, 1)
    """
    if array.ndim != 2:
        return channels_first(array)
    if array.dtype.kind not in "iubf":
        raise ValueError(f"features must be numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity: refused
        rows = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(f"row {bad[0]} of the features holds a number that is not finite")
    return rows[:, :, None, None]


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
        form = "(n, height, width[, channels]), nor rows of features (n, d)"
        raise ValueError(f"images of shape {images.shape} are not {form}")
    whole = images.dtype.kind in "iub"
    if whole and images.size and not (images.min() >= 0 and images.max() <= 255):
        spread = f"{images.min()}..{images.max()}"
        raise ValueError(f"images of whole numbers must be in 0..255, got {spread}")
    if images.dtype.kind not in "iubf":
        raise ValueError(f"images must be numbers, got {images.dtype}")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity: refused
        return np.ascontiguousarray(images, dtype=np.uint8 if whole else np.float32)


def classes_of(
    labels: np.ndarray, class_names: Iterable[object] = ()
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the class of each label, int64, and the names of the classes.

    Every value that occurs is a class: numbers by size, words by letters. With `class_names`,
    numbers are the places of their names.

    Parameters
    ----------
    labels : (n,) or (n, 1) numbers or words.
    class_names : one per class; empty where the labels name themselves.

    Raises
    ------
    ValueError : no labels, several for an example, or one that is missing.

    Examples
    --------
    >>> codes, names = classes_of(np.array([-1.0, 1.0, 1.0]))
    >>> codes.tolist(), names
    ([0, 1, 1], ('-1', '1'))
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"labels of shape {labels.shape} are not one for each example")
    if not len(labels):
        raise ValueError("there are no examples")
    if labels.dtype.kind in "OT":
        labels = _plain_words(labels)
    if labels.dtype.kind == "f":
        labels = _plain_numbers(labels)
    given = tuple(class_names)
    if given and labels.dtype.kind in "iub":
        return encode(labels, given)
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iufUS":
        raise ValueError(f"labels are numbers or words, got {labels.dtype}")
    values, codes = np.unique(labels, return_inverse=True)
    order, names = by_size(values.astype(str))
    check_classes(names, len(labels))
    return order[codes].astype(np.int64), names


def check_classes(names: Sequence[str], examples: int) -> None:
    """Refuse labels that are measured numbers, or names of single examples.

    Raises
    ------
    ValueError : more than `GRADES` numbers with a fraction, or hardly two examples of a value.

    Examples
    --------
    >>> check_classes(["ash", "yew"], 4)
    >>> check_classes([f"{k / 10}" for k in range(300)], 300)
    Traceback (most recent call last):
        ...
    ValueError: labels have 300 different values in 300 rows, which are no classes; numbers can be
    cut into some, as by numpy.digitize
    """
    found = len(names)
    graded = found > GRADES and any(_has_fraction(name) for name in names)
    if graded or (found > GRADES and 2 * found > examples):
        what = f"labels have {found} different values in {examples} rows, which are no classes"
        raise ValueError(f"{what}; numbers can be cut into some, as by numpy.digitize")


def _has_fraction(word: str) -> bool:
    try:
        return float(word) % 1 != 0
    except ValueError:
        return False


def _plain_words(labels: np.ndarray) -> np.ndarray:
    """Objects, as of a column of pandas, as words or numbers; a missing one is refused."""
    bad = [k for k, label in enumerate(labels) if str(label) in ("None", "nan", "<NA>", "NaT")]
    if bad:
        raise ValueError(f"the label of row {bad[0]} is missing or not finite")
    return np.array(labels.tolist())


def _plain_numbers(labels: np.ndarray) -> np.ndarray:
    """Floats as whole numbers where all of them are; NaN and infinity are refused."""
    bad = np.flatnonzero(~np.isfinite(labels))
    if len(bad):
        raise ValueError(f"the label of row {bad[0]} is missing or not finite")
    whole = bool((labels == np.rint(labels)).all() and np.abs(labels).max() < 1 << 53)
    return labels.astype(np.int64) if whole else labels


def by_size(words: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the place of each of different words in order, and the words in that order.

    Numbers are ordered by size, and words by letters.

    Examples
    --------
    >>> places, names = by_size(np.array(["10", "9"]))
    >>> places.tolist(), names
    ([1, 0], ('9', '10'))
    """
    try:
        order = np.argsort(words.astype(float), kind="stable")
    except ValueError:
        order = np.argsort(words, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place, tuple(words[order].tolist())
