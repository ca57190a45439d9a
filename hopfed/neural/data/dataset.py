"""`Dataset`: labelled examples in the form that partitions and models use; functions to make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, DataError

CHANNELS = (1, 3)
GRADES = 20  # labels with more different values are checked: measured numbers are not classes
PREFIX = "arrays:"  # starts the name of data that are given as arrays
PARTS = {  # part of a published split -> its names
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test",),
}
COLUMNS = ("domain", "writer", "group", "train")  # columns beside inputs and labels
MISSING = ("", "None", "NA", "nan", "<NA>", "NaT", "inf", "-inf")  # text of missing labels

_GIVEN: dict[str, Dataset] = {}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples, their labels, and the known origin of each example.

    Attributes
    ----------
    name : name of the source.
    inputs : images (n, channels, height, width), uint8 or float32; rows of d features as
        (n, d, 1, 1) float32; or integer tokens (n, length).
    labels : (n,) int64, in [0, classes).
    class_names : name of each class.
    domain, writer : (n,) int64 or None, indices into `domain_names` and `writer_names`.
    group : (n,) int64 or None; rows of a group, such as windows of a speech, stay in one part.
    coarse : (classes,) int64 or None, the superclass of each class.
    train : (n,) bool or None, the published split: True for training examples.

    Raises
    ------
    DataError : arrays are empty, of unequal length or other types, or hold NaN; unnamed indices.

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
        for fault in self._faults():
            raise DataError(f"{self.name}: {fault}")

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
        """Whether inputs are images or rows of features; otherwise they are tokens."""
        return self.inputs.ndim == 4

    def take(self, index: np.ndarray) -> Dataset:
        """Return the rows `index`; names and classes are unchanged."""
        columns = ("inputs", "labels", *COLUMNS)
        rows = {c: getattr(self, c)[index] for c in columns if getattr(self, c) is not None}
        return replace(self, **rows)

    def _faults(self) -> Iterable[str]:
        """Fault of parts that do not fit together."""
        inputs, n = self.inputs, self.labels.size
        if len(inputs) != n or not n:
            yield f"there are {len(inputs)} inputs for {n} labels"
        images, kind = self.is_images, inputs.dtype
        known = kind in (np.uint8, np.float32) if images else kind.kind in "iu"
        if inputs.ndim not in (2, 4) or min(inputs.shape) < 1 or not known:
            form = "neither images (uint8 or float32), rows of features, nor tokens"
            yield f"inputs of shape {inputs.shape} and {kind} are {form}"
        elif kind.kind == "f" and not (fine := np.isfinite(inputs)).all():
            row = int(fine.reshape(n, -1).all(axis=1).argmin())
            yield f"row {row} of the inputs holds a number that is missing or not finite"
        for column in COLUMNS:
            values = getattr(self, column)
            if values is not None and values.shape != (n,):
                yield f"{column} has shape {values.shape} for {n} labels"
        for column, values, names in (
            ("label", self.labels, self.class_names),
            ("domain", self.domain, self.domain_names),
            ("writer", self.writer, self.writer_names),
        ):
            if values is not None and len(bad := values[(values < 0) | (values >= len(names))]):
                where = f"{column} {bad[0]} of row {int((values == bad[0]).argmax())}"
                yield f"{where} is outside 0..{len(names) - 1}"
        if self.coarse is not None and self.coarse.shape != (self.classes,):
            yield f"coarse has shape {self.coarse.shape} for {self.classes} classes"


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
    """Return the `Dataset` of examples and labels: arrays, tensors, or columns of a data frame.

    Parameters
    ----------
    inputs : images (n, height, width), optionally with channels last or first: integers in 0..255
        or floats; or rows of features (n, d).
    labels : (n,) numbers or words; every value is a class, in numerical or alphabetical order.
    split : (n,) "train", "val" or "test", or True for training examples. A validation set counts
        as training examples if there is a test set, otherwise as the test set.
    class_names : names of the labels 0, 1, 2, ...
    name : name of the dataset.
    coarse : (n,) superclass of the label of each example.
    origin : `writer`, `domain` and `group`, (n,) numbers or words; `writer_names` and
        `domain_names` are names of the numbers 0, 1, 2, ...

    Raises
    ------
    DataError : see `Dataset`; also if labels are measurements, or differ in nearly every row.

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
        for column in ("domain", "writer", "group"):
            if origin.get(column) is not None:
                code, called = encode(origin[column], origin.get(f"{column}_names", ()))
                columns |= {column: code}
                columns |= {f"{column}_names": called} if column != "group" else {}
        if coarse is not None:
            above, table = encode(coarse)[0], np.full(len(names), -1, dtype=np.int64)
            table[codes] = above
            if (table < 0).any() or (table[codes] != above).any():
                raise ValueError("every class must have one coarse label")
            columns["coarse"] = table
        if split is not None:
            columns["train"] = _training(_array(split))
        return Dataset(name, _as_inputs(_array(inputs)), codes, names, **columns)
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(f"{name}: {error}") from None


def from_pairs(pairs: Any, name: str = "") -> Dataset:
    """Return the `Dataset` of a PyTorch `Dataset`, whose items are pairs (input, label).

    Parameters
    ----------
    pairs : dataset with a length and inputs of equal shape: tensors, arrays or Pillow images.
    name : name of the dataset; if empty, the name of the class of `pairs`.

    Examples
    --------
    >>> from_pairs([(np.zeros((3, 8, 8)), 0), (np.ones((3, 8, 8)), 1)], "two").shape
    (3, 8, 8)
    """
    name = name or type(pairs).__name__
    try:
        items = [pairs[k] for k in range(len(pairs))]
        inputs, labels = np.stack([_array(x) for x, _ in items]), [_array(y)[()] for _, y in items]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(f"{name}: items are no pairs of equal shape: {error}") from None
    words = tuple(getattr(pairs, "classes", ()))
    whole = all(isinstance(y, np.integer) and 0 <= y < len(words) for y in labels)
    return from_arrays(inputs, labels, class_names=words if whole else (), name=name)


def name_dataset(data: Any) -> str:
    """Return a dataset's name; arrays get a name with a digest, and a copy of them is kept."""
    if isinstance(data, str):
        return data
    if isinstance(data, (tuple, list)) and len(data) in (2, 3):
        data = from_arrays(*data)
    elif not isinstance(data, Dataset):
        pairs = hasattr(data, "__getitem__") and hasattr(data, "__len__")
        if not pairs or hasattr(data, "dtype"):
            rule = "a name, a Dataset, arrays (inputs, labels[, split]), or a PyTorch Dataset"
            raise ArgumentError("data", rule, type(data).__name__)
        data = from_pairs(data)
    found, held = sha256(), {f.name: getattr(data, f.name) for f in fields(data)}
    for part, value in held.items():
        array = isinstance(value, np.ndarray)
        said = f"{value.dtype.str} {value.shape}" if array else repr(value)
        found.update(f"{part} {said}".encode())
        found.update(np.ascontiguousarray(value).data if array else b"")
    name = f"{PREFIX}{data.name}:{found.hexdigest()[:16]}"
    if name not in _GIVEN:
        arrays = {n: v.copy() for n, v in held.items() if isinstance(v, np.ndarray)}
        _GIVEN[name] = replace(data, **arrays)
    return name


def kept_dataset(name: str) -> Dataset:
    """Return the dataset that `name_dataset` kept under a name."""
    if name not in _GIVEN:
        way = "pass them again, or write an .npz file if several processes need them"
        raise DataError(f"{name}: arrays are known only to the process that got them: {way}")
    return _GIVEN[name]


def encode(values: Any, names: Iterable[object] = ()) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return int64 codes of a dataset's labels, and the codes' names: sorted, or as given."""
    column, words = _column(_array(values)), tuple(map(str, names))
    if words and column.dtype.kind in "iu":
        return column.astype(np.int64), words
    found, codes = np.unique(column, return_inverse=True)
    text = found.astype(str)
    try:  # numbers that are stored as text are ordered by size too
        order = np.argsort(text.astype(float), kind="stable")
    except ValueError:
        order = np.arange(len(text))
    return np.argsort(order)[codes].astype(np.int64), tuple(text[order].tolist())


def _column(column: np.ndarray) -> np.ndarray:
    """Labels (n,) as integers, floats or words; ValueError for a missing label."""
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if column.ndim != 1 or not len(column):
        raise ValueError(f"labels of shape {column.shape} are not one for each example")
    kind, held = column.dtype.kind, column.tolist()
    gone = [k for k, x in enumerate(held) if str(x) in MISSING] if kind in "OTf" else []
    if gone:
        raise ValueError(f"the label of row {gone[0]} is missing or not finite")
    column = np.array(held) if kind in "OT" else column
    if column.dtype.kind not in "iufbUS":
        raise ValueError(f"labels must be numbers or words, got {column.dtype}")
    whole = column.dtype.kind == "f" and (column % 1 == 0).all() and np.abs(column).max() < 1 << 53
    return column.astype(np.int64) if whole or column.dtype.kind == "b" else column


def _check_classes(names: Sequence[str], examples: int) -> None:
    """Raise ValueError if labels are measurements, or differ in nearly every row."""
    found, values = len(names), list[float]()
    with suppress(ValueError):  # names that are not numbers
        values = [float(word) for word in names]
    gaps = bool(values) and max(values) - min(values) >= found
    measured = any(v % 1 for v in values) or (gaps and 4 * found > examples)
    if found > GRADES and (measured or 2 * found > examples):
        fault = f"labels have {found} different values in {examples} rows, too many for classes"
        raise ValueError(f"{fault}; numbers can be binned, as by numpy.digitize")


def _training(split: np.ndarray) -> np.ndarray:
    """Whether each row is a training example, (n,) bool."""
    if split.dtype.kind in "biu" and np.isin(split, (0, 1)).all():
        return split.astype(bool)
    words, known = np.char.lower(split.astype(str)), sum(PARTS.values(), ())
    if not np.isin(words, known).all():
        raise ValueError(f"split must be booleans, or words among {', '.join(known)}")
    has_test = bool(np.isin(words, PARTS["test"]).any())
    return np.isin(words, (*PARTS["train"], *(PARTS["validation"] if has_test else ())))


def _array(values: Any) -> np.ndarray:
    """Convert lists, data frames, tensors on any device and sparse matrices to an array."""
    values = values.detach().cpu() if hasattr(values, "detach") else values
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def _as_inputs(array: np.ndarray) -> np.ndarray:
    """Images as (n, channels, height, width), uint8 or float32; features as (n, d, 1, 1)."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in CHANNELS and array.shape[1] not in CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 2 and not (array.ndim == 4 and array.shape[1] in CHANNELS):
        form = "images (n, height, width[, channels]), nor rows of features (n, d)"
        raise ValueError(f"inputs of shape {array.shape} are not {form}")
    if array.dtype.kind not in "iubf":
        raise ValueError(f"inputs must be numbers, got {array.dtype}")
    if array.ndim == 4 and array.dtype.kind != "f":
        low, high = (int(f(array)) if array.size else 0 for f in (np.min, np.max))
        if low < 0 or high > 255:
            raise ValueError(f"integer images must be in 0..255, got {low}..{high}")
        return np.ascontiguousarray(array, dtype=np.uint8)
    with np.errstate(over="ignore"):  # too large numbers become infinite, which `Dataset` refuses
        array = np.ascontiguousarray(array, dtype=np.float32)
    return array[:, :, None, None] if array.ndim == 2 else array
