"""`Dataset`: labelled examples in the form that partitions and models use, and what makes one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError

CHANNELS = (1, 3)
GRADES = 20  # different values from which on labels are looked at: measured numbers are no classes
PER_CLASS = 100  # images per class in each domain of Rotated MNIST
PREFIX = "arrays:"  # of the name of data that are given as arrays
PARTS = {  # part of a published split -> its names
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test",),
}

_GIVEN: dict[str, Dataset] = {}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples, their labels, and the known origin of each example.

    Attributes
    ----------
    name : of the source.
    inputs : images (n, channels, height, width), uint8 or float32; rows of d features as
        (n, d, 1, 1) float32; or tokens (n, length) of whole numbers.
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
        n, shape, kind = len(self.inputs), self.inputs.shape, self.inputs.dtype
        self._require(n == len(self), f"there are {n} inputs for {len(self)} labels")
        images = self.is_images and kind in (np.uint8, np.float32)
        tokens = self.inputs.ndim == 2 and kind.kind in "iu"
        fault = f"inputs of shape {shape} and {kind} are neither images (uint8 or float32), rows "
        self._require(images or tokens, f"{fault}of features, nor tokens")
        self._require(min(shape) > 0, f"one input has the shape {shape[1:]}")
        finite = kind.kind != "f" or bool(np.isfinite(self.inputs).all())
        self._require(finite, "inputs hold NaN or infinity")
        for column in ("domain", "writer", "group", "train"):
            values = getattr(self, column)
            if values is not None:
                fault = f"{column} has shape {values.shape} for {len(self)} labels"
                self._require(values.shape == self.labels.shape, fault)
        self._check_range("label", self.labels, self.classes)
        self._check_range("domain", self.domain, len(self.domain_names))
        self._check_range("writer", self.writer, len(self.writer_names))
        if self.coarse is not None:
            fault = f"there are {self.coarse.shape} superclasses for {self.classes} classes"
            self._require(self.coarse.shape == (self.classes,), fault)

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
        """Whether inputs are images, or rows of features; otherwise they are tokens."""
        return self.inputs.ndim == 4

    def take(self, index: np.ndarray) -> Dataset:
        """Return the rows `index`; names and classes stay as they are."""
        columns = ("inputs", "labels", "domain", "writer", "group", "train")
        rows = {c: getattr(self, c)[index] for c in columns if getattr(self, c) is not None}
        return replace(self, **rows)

    def _check_range(self, what: str, values: np.ndarray | None, names: int) -> None:
        if values is None:
            return
        bad = np.flatnonzero((values < 0) | (values >= names))
        if len(bad):
            where = f"{what} {values[bad[0]]} of row {bad[0]}"
            self._require(False, f"{where} is outside of 0..{names - 1}")

    def _require(self, holds: bool, fault: str) -> None:
        if not holds:
            raise DataError(f"{self.name}: {fault}")


def from_arrays(
    inputs: Any,
    labels: Any,
    split: Any = None,
    *,
    class_names: Iterable[object] = (),
    name: str = "arrays",
    coarse: Any = None,
    **origin: Any,
) -> Dataset:
    """Return the `Dataset` of examples and their labels: arrays, tensors, columns of a frame.

    Parameters
    ----------
    inputs : images (n, height, width), (n, height, width, channels) or (n, channels, height,
        width), whole numbers in 0..255 or any others; or rows of features (n, d).
    labels : (n,) numbers or words; every value is a class, numbers by size, words by letters.
    split : (n,) the published split, "train", "val" or "test" or True for training examples. A
        validation set counts as training data if there is a test set, and else is the test set.
    class_names : names of the classes 0, 1, 2, ..., if labels are these numbers.
    name : of the dataset.
    coarse : (n,) superclass of the label of each example.
    origin : `writer`, `domain` and `group`, (n,) numbers or words; `writer_names` and
        `domain_names` are names of the numbers 0, 1, 2, ...

    Raises
    ------
    DataError : one line: arrays of other shapes or kinds, of unequal length, empty, or with NaN;
        labels that are measured numbers or differ in nearly every row.

    Examples
    --------
    >>> data = from_arrays(np.eye(4), ["ash", "yew", "ash", "yew"], name="plants")
    >>> data, data.shape, data.class_names
    (Dataset(name='plants'), (4, 1, 1), ('ash', 'yew'))
    """
    try:
        codes, names = encode(labels, class_names)
        if not class_names:
            _check_classes(names, len(codes))
        columns: dict[str, Any] = {}
        for column in ("domain", "writer"):
            if origin.get(column) is not None:
                held = encode(origin[column], origin.get(f"{column}_names", ()))
                columns[column], columns[f"{column}_names"] = held
        if origin.get("group") is not None:
            columns["group"] = encode(origin["group"])[0]
        if coarse is not None:
            columns["coarse"] = _superclasses(encode(coarse)[0], codes, len(names))
        if split is not None:
            columns["train"] = _training(_array(split))
        return Dataset(name, _as_inputs(_array(inputs)), codes, names, **columns)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {error}") from None


def from_pairs(pairs: Any, name: str = "") -> Dataset:
    """Return the `Dataset` of a PyTorch `Dataset`, whose items are pairs (input, label).

    Parameters
    ----------
    pairs : has a length, and items of equal shape: tensors, arrays or pictures of Pillow.
    name : of the dataset; that of its class if it is empty.

    Examples
    --------
    >>> from_pairs([(np.zeros((3, 8, 8)), 0), (np.ones((3, 8, 8)), 1)], "two").shape
    (3, 8, 8)
    """
    name = name or type(pairs).__name__
    try:
        items = [pairs[k] for k in range(len(pairs))]
        inputs = np.stack([_array(x) for x, _ in items])
        labels = [_array(y)[()] for _, y in items]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{name}: items that are no pairs of equal shape: {error}") from None
    words = tuple(getattr(pairs, "classes", ()))
    whole = all(isinstance(y, np.integer) and 0 <= y < len(words) for y in labels)
    return from_arrays(inputs, labels, class_names=words if whole else (), name=name)


def rotated(
    data: Dataset, angles: Sequence[float], each: int | None, same: bool, rng: np.random.Generator
) -> Dataset:
    """Return a domain of turned images for each angle, `each` of a class (arXiv:2101.11296, IV).

    Domains show different images, or the `same`, which then are of one `group`.
    """
    from scipy.ndimage import rotate

    if not data.is_images or data.shape[1:] == (1, 1):
        raise DataError(f"{data.name}: only images can be rotated")
    distinct = len({angle % 360 for angle in angles}) == len(angles)
    require(distinct, "angles", "one or more different angles", angles)
    counts = np.bincount(data.labels, minlength=data.classes)
    most = int(counts[counts > 0].min()) // (1 if same else len(angles))
    size = min(PER_CLASS, most) if each is None else each
    require(1 <= size <= most, "images per class", f"from 1 to {most}", size)
    orders = [rng.permutation(np.flatnonzero(data.labels == k)) for k in range(data.classes)]
    starts = [0 if same else size * j for j in range(len(angles))]
    shown = [np.concatenate([order[i : i + size] for order in orders]) for i in starts]
    images = []
    for rows, angle in zip(shown, angles, strict=True):
        block = data.inputs[rows]
        if angle % 360:
            turned = rotate(block.astype(np.float32), -angle, axes=(3, 2), reshape=False, order=1)
            block = (np.rint(turned) if block.dtype == np.uint8 else turned).astype(block.dtype)
        images.append(block)
    base = np.concatenate(shown)
    return replace(
        data.take(base),
        inputs=np.concatenate(images),
        group=base,  # the image that a row shows
        domain=np.arange(len(angles)).repeat(len(shown[0])),
        domain_names=tuple(f"{angle:g}°" for angle in angles),
    )


def as_named(data: Any) -> str:
    """Return the name of a dataset; one that is given as arrays is kept, and gets a name.

    That name contains a digest of all its arrays, so a run file says which data it is of, and a run
    is only continued with the same ones. They are copied, so they cannot change under their name.
    """
    if isinstance(data, str):
        return data
    if not isinstance(data, Dataset):
        if isinstance(data, (tuple, list)) and len(data) in (2, 3):
            data = from_arrays(*data)
        elif (
            hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "dtype")
        ):
            data = from_pairs(data)
        else:
            rule = "a name, a Dataset, arrays (inputs, labels[, split]), or a PyTorch Dataset"
            raise ArgumentError("data", rule, type(data).__name__)
    name = f"{PREFIX}{data.name}:{_digest(data)}"
    if name not in _GIVEN:
        copies = {f.name: getattr(data, f.name) for f in fields(data)}
        copies = {n: v.copy() for n, v in copies.items() if isinstance(v, np.ndarray)}
        _GIVEN[name] = replace(data, **copies)
    return name


def given(name: str) -> Dataset:
    """Return the dataset that `as_named` kept under a name."""
    if name not in _GIVEN:
        way = "give them again, or write an .npz file where several processes work"
        raise DataError(f"{name}: arrays are known only to the process that got them: {way}")
    return _GIVEN[name]


def encode(values: Any, names: Iterable[object] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the code of each value, int64, and the names of the codes.

    Every value that occurs gets a code: numbers by size, words by letters. With `names`, whole
    numbers are the places of their names.
    """
    column = _array(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"labels of shape {column.shape} are not one for each example")
    if not len(column):
        raise ValueError("there are no examples")
    column = _plain(column)
    words = tuple(map(str, names))
    if words and column.dtype.kind in "iu":
        return column.astype(np.int64), words
    found, codes = np.unique(column, return_inverse=True)
    text = found.astype(str)
    try:  # words that are numbers, as in a file of text, go by size too
        order = np.argsort(text.astype(float), kind="stable")
    except ValueError:
        order = np.arange(len(text))
    place = np.argsort(order)
    return place[codes].astype(np.int64), tuple(text[order].tolist())


def _plain(column: np.ndarray) -> np.ndarray:
    """Labels as whole numbers, other numbers or words; a missing one is refused."""
    if column.dtype.kind in "OT":
        gone = [k for k, x in enumerate(column) if str(x) in ("None", "nan", "<NA>", "NaT")]
        bad = np.array(gone, dtype=int)
        column = np.array(column.tolist()) if not gone else column
    else:
        bad = np.flatnonzero(~np.isfinite(column)) if column.dtype.kind == "f" else np.zeros(0, int)
    if len(bad):
        raise ValueError(f"the label of row {bad[0]} is missing or not finite")
    if column.dtype.kind not in "iufbUS":
        raise ValueError(f"labels are numbers or words, got {column.dtype}")
    whole = column.dtype.kind in "iub" or (
        column.dtype.kind == "f"
        and bool((column == np.rint(column)).all() and np.abs(column).max() < 1 << 53)
    )
    if column.dtype.kind == "u" and int(column.max()) >= 1 << 63:
        raise ValueError(f"whole numbers of 64 bits are due, got {column.max()}")
    return column.astype(np.int64) if whole else column


def _check_classes(names: Sequence[str], examples: int) -> None:
    """Refuse labels that are measured numbers, or names of single examples."""
    found = len(names)
    if found <= GRADES:
        return
    try:
        values = [float(word) for word in names]
    except ValueError:
        values = []  # words
    gaps = bool(values) and max(values) - min(values) >= found
    measured = any(v % 1 for v in values) or (gaps and 4 * found > examples)
    if measured or 2 * found > examples:
        what = f"labels have {found} different values in {examples} rows, which are no classes"
        raise ValueError(f"{what}; numbers can be cut into some, as by numpy.digitize")


def _superclasses(coarse: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Superclass of each class, (classes,), from that of each row."""
    table = np.full(classes, -1, dtype=np.int64)
    table[labels] = coarse
    if (table < 0).any() or (table[labels] != coarse).any():
        raise ValueError("every class must have one coarse label")
    return table


def _training(split: np.ndarray) -> np.ndarray:
    """Which rows are training examples, (n,) bool."""
    if split.dtype.kind in "biu" and np.isin(split, (0, 1)).all():
        return split.astype(bool)
    words = np.char.lower(split.astype(str))
    known = sum(PARTS.values(), ())
    if not np.isin(words, known).all():
        raise ValueError(f"split must be truth values, or of the words {', '.join(known)}")
    has_test = bool(np.isin(words, PARTS["test"]).any())
    return np.isin(words, (*PARTS["train"], *(PARTS["validation"] if has_test else ())))


def _array(values: Any) -> np.ndarray:
    """An array of whatever holds numbers: lists, frames, tensors of a device, sparse matrices."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def _as_inputs(array: np.ndarray) -> np.ndarray:
    """Images as (n, channels, height, width), uint8 or float32; features as (n, d, 1, 1)."""
    kind = array.dtype.kind
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in CHANNELS and array.shape[1] not in CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 2 and not (array.ndim == 4 and array.shape[1] in CHANNELS):
        form = "images (n, height, width[, channels]), nor rows of features (n, d)"
        raise ValueError(f"inputs of shape {array.shape} are not {form}")
    if kind not in "iubf":
        raise ValueError(f"inputs must be numbers, got {array.dtype}")
    if array.ndim == 4 and kind != "f":
        if array.size and not (array.min() >= 0 and array.max() <= 255):
            spread = f"{array.min()}..{array.max()}"
            raise ValueError(f"images of whole numbers must be in 0..255, got {spread}")
        return np.ascontiguousarray(array, dtype=np.uint8)
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity: refused
        rows = np.ascontiguousarray(array, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).reshape(len(rows), -1).all(axis=1))
    if len(bad):
        raise ValueError(f"row {bad[0]} of the inputs holds a number that is missing or not finite")
    return rows[:, :, None, None] if rows.ndim == 2 else rows


def _digest(data: Dataset) -> str:
    """Digest of all that a dataset holds, as 16 hexadecimal digits."""
    found = sha256()
    for part in fields(data):
        value = getattr(data, part.name)
        if isinstance(value, np.ndarray):
            found.update(f"{part.name} {value.dtype.str} {value.shape}".encode())
            found.update(np.ascontiguousarray(value).data)
        else:
            found.update(f"{part.name} {value!r}".encode())
    return found.hexdigest()[:16]
