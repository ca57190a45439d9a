"""`Dataset`: a labelled dataset in the one form that partitions and models use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed.errors import DataError

UNNAMED = 1 << 16  # largest number of classes or writers that may be named by their numbers


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples, their labels, and the known origin of each example.

    Attributes
    ----------
    name : of the source.
    inputs : images (n, channels, height, width), uint8 or float32, or tokens (n, length) of
        whole numbers.
    labels : (n,) int64, in [0, classes).
    class_names : one per class.
    domain, writer : (n,) int64 or None, indices into `domain_names` and `writer_names`.
    group : (n,) int64 or None; rows of one group, such as the windows of one speech, overlap, so
        the training, validation and test parts of a client never share a group.
    coarse : (classes,) int64 or None, the superclass of each class.
    train : (n,) bool or None, the published split: True for training examples.

    Raises
    ------
    DataError : arrays of unequal length, no examples, an index without a name, inputs that are
        neither images nor tokens or hold NaN.

    Examples
    --------
    >>> data = Dataset("dots", np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1]), ("a", "b"))
    >>> len(data), data.classes, data.shape
    (2, 2, (1, 4, 4))
    """

    name: str
    inputs: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    class_names: tuple[str, ...] = field(repr=False)
    domain: np.ndarray | None = field(default=None, repr=False)
    domain_names: tuple[str, ...] = field(default=(), repr=False)
    writer: np.ndarray | None = field(default=None, repr=False)
    writer_names: tuple[str, ...] = field(default=(), repr=False)
    group: np.ndarray | None = field(default=None, repr=False)
    coarse: np.ndarray | None = field(default=None, repr=False)
    train: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._require(self.labels.ndim == 1 and len(self.labels) > 0, "there are no labels")
        self._check_inputs()
        for column in ("domain", "writer", "group", "train"):
            values = getattr(self, column)
            if values is not None:
                rule = f"{column} has shape {values.shape} for {len(self)} labels"
                self._require(values.shape == self.labels.shape, rule)
        self._check_range("label", self.labels, self.classes)
        self._check_range("domain", self.domain, len(self.domain_names))
        self._check_range("writer", self.writer, len(self.writer_names))
        if self.coarse is not None:
            rule = f"there are {self.coarse.shape} superclasses for {self.classes} classes"
            self._require(self.coarse.shape == (self.classes,), rule)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input: (channels, height, width), or (length,) for tokens."""
        return self.inputs.shape[1:]

    @property
    def is_images(self) -> bool:
        """Whether inputs are images; otherwise they are tokens."""
        return self.inputs.ndim == 4

    def take(self, index: np.ndarray) -> Dataset:
        """Return the rows `index`; names and classes stay as they are."""
        columns = ("inputs", "labels", "domain", "writer", "group", "train")
        rows = {c: getattr(self, c)[index] for c in columns if getattr(self, c) is not None}
        return replace(self, **rows)

    def _check_inputs(self) -> None:
        n, kind = len(self.inputs), self.inputs.dtype.kind
        self._require(n == len(self), f"there are {n} inputs for {len(self)} labels")
        if self.is_images:
            fits = self.inputs.dtype in (np.uint8, np.float32)
            self._require(fits, f"images are {self.inputs.dtype}, not uint8 or float32")
        else:
            rule = f"inputs of shape {self.inputs.shape} and {self.inputs.dtype} are neither "
            self._require(self.inputs.ndim == 2 and kind in "iu", rule + "images nor tokens")
        self._require(min(self.shape) > 0, f"one input has the shape {self.shape}")
        if kind == "f":
            self._require(bool(np.isfinite(self.inputs).all()), "images hold NaN or infinity")

    def _check_range(self, what: str, values: np.ndarray | None, names: int) -> None:
        if values is None:
            return
        bad = np.flatnonzero((values < 0) | (values >= names))
        if len(bad):
            row, value = bad[0], values[bad[0]]
            self._require(False, f"{what} {value} of row {row} is outside of 0..{names - 1}")

    def _require(self, holds: bool, fault: str) -> None:
        if not holds:
            raise DataError(f"{self.name}: {fault}")


def encode(values: np.ndarray, names: Iterable[object] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return int64 codes and their names, for a column of whole numbers or of words.

    Words are numbered in sorted order. Numbers stay as they are; without `names` they are their
    own names.

    Examples
    --------
    >>> codes, names = encode(np.array(["photo", "art", "photo"]))
    >>> codes.tolist(), names
    ([1, 0, 1], ('art', 'photo'))
    """
    values = np.asarray(values)
    if values.dtype.kind in "US":
        words, codes = np.unique(values.astype(str), return_inverse=True)
        return codes.astype(np.int64), tuple(words.tolist())
    if values.dtype.kind not in "iub" or values.size == 0:
        raise ValueError(f"a column of whole numbers or words is due, got {values.dtype}")
    given = tuple(map(str, names))
    if not given and int(values.max()) >= max(len(values), UNNAMED):
        raise ValueError(f"a column of whole numbers without names goes up to {values.max()}")
    codes = whole(values)
    return codes, given or tuple(map(str, range(int(codes.max()) + 1)))


def whole(values: object) -> np.ndarray:
    """Return whole numbers as int64; other numbers, and words, are refused.

    Raises
    ------
    ValueError : not whole numbers, or one beyond 64 bits.

    Examples
    --------
    >>> whole([1, 2]).dtype
    dtype('int64')
    >>> whole([1, 2.5])
    Traceback (most recent call last):
        ...
    ValueError: whole numbers are due, got float64
    """
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise ValueError(f"whole numbers are due, got {array.dtype}")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 1 << 63:
        raise ValueError(f"whole numbers of 64 bits are due, got {array.max()}")
    return array.astype(np.int64)


def superclasses(coarse: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Return the superclass of each class, (classes,), from the superclass of each row.

    Raises
    ------
    ValueError : a class that is in two superclasses, or in none.
    """
    coarse = whole(coarse)
    if coarse.shape != labels.shape or not ((labels >= 0) & (labels < classes)).all():
        raise ValueError(f"{coarse.shape} coarse labels for {labels.shape} labels of {classes}")
    if coarse.max(initial=0) >= classes:
        raise ValueError(f"coarse label {coarse.max()} for {classes} classes")
    table = np.full(classes, -1, dtype=np.int64)
    table[labels] = coarse
    if (table < 0).any() or (table[labels] != coarse).any():
        raise ValueError("every class must have one coarse label")
    return table
