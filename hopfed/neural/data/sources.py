"""`load`: returns the `Dataset` of a name, a file, a folder, or a dataset of Hugging Face."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed._lib.memory_limits import require_memory
from hopfed._lib.settings import hint
from hopfed.errors import ArgumentError, BackendError, DataError, safe_line
from hopfed.neural.data.dataset import PARTS, PREFIX, Dataset, encode, from_arrays, kept_dataset

ENVIRONMENT = "HOPFED_DATA"
HUB = {  # names that experiments use -> datasets of the Hugging Face hub
    "mnist": "ylecun/mnist",
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "tiny-imagenet": "zh-plus/tiny-imagenet",
    "femnist": "flwrlabs/femnist",
    "pacs": "flwrlabs/pacs",
    "office-home": "flwrlabs/office-home",
}
NAMES = (*HUB, "shakespeare")
TABLE = re.compile(r"(.+\.(?:csv|tsv|parquet|feather|arrow)(?:\.gz)?)(?::(.+))?", re.IGNORECASE)
LABELS = ("labels", "y", "Y")  # names of arrays; the first present name is used
INPUTS = ("images", "features", "inputs", "x", "X")
COLUMNS = ("label", "class", "target", "y")  # names of a table's label column, in any case
ORIGIN = ("writer", "domain")
PICTURES = (".jpg", ".jpeg", ".png")
PICKLE = (  # PFLlib writes pickles, which can run code
    "a pickled dict, which is not read as it may run code; write each file anew: "
    "d = np.load(FILE, allow_pickle=True)['data'].item(); np.savez(FILE, x=d['x'], y=d['y'])"
)
SPLIT = ("train", "test")  # files or folders of a folder of clients
FORMATS = ("JPEG", "PNG")  # only these are decoded: other formats, such as EPS, start programs
LENGTH = 80  # characters of context
# The 80 characters of LEAF, in its order. As in LEAF, any other character counts as a space.
VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"


def load(spec: str, *, labelled: bool = True) -> Dataset:
    """Load a dataset from its source: a name, a file, a folder, or the Hugging Face hub.

    Parameters
    ----------
    spec : name or path in one of these forms:

        "digits" : the 1,797 digits of 8 x 8 pixels that come with scikit-learn.
        "FILE.npz" : arrays as :func:`from_arrays` takes them: `images` or `features` (also called
            `inputs`, `x` or `X`), `labels` (or `y`, `Y`), and optionally `split` or `train`,
            `class_names`, `writer`, `domain`, `group` and `coarse_labels`; or `x_train`, `y_train`,
            `x_test`, `y_test`. `features` are multiplied by a `scale` if there is one. The file may
            also hold sheets of JPEG images, or speeches of a play, instead of images.
        "FILE.csv", "FILE.csv:COLUMN" : a table of numbers with a column of labels, called label,
            class, target or y unless COLUMN names it; also .tsv, .parquet and .feather.
        "FOLDER" : pictures in folders by class, CLASS/x.png, optionally below folders of a split
            (train, val, test) or of domains; or clients, CLIENT/train.npz and CLIENT/test.npz,
            or train/CLIENT.npz and test/CLIENT.npz (as in PFLlib), each with `x` and `y`: a
            client is a writer, and its rows stay in their part under the partition "given".
        "NAME" : NAME.npz, NAME_*.npz or the folder NAME, in the folder that the environment
            variable HOPFED_DATA names; a FILE.npz outside the current folder is found there, too.
        "hub:OWNER/NAME" : pictures of the Hugging Face hub (library `datasets`); hub:mnist and
            so on are the datasets of the experiments.
        "arrays:NAME:DIGEST" : arrays that `name_dataset` keeps.
    labelled : whether a table must have a column of labels.

    Raises
    ------
    ArgumentError : an unknown name (the nearest name is suggested).
    DataError : the data are not found, truncated or malformed.
    BackendError : a library that the source needs is missing.

    Examples
    --------
    >>> load("digits")
    Dataset(name='digits')
    """
    if spec.startswith(PREFIX):
        return kept_dataset(spec)
    if spec == "digits":
        from sklearn.datasets import load_digits

        bunch, names = load_digits(), tuple("0123456789")
        return from_arrays(bunch.images.astype(int), bunch.target, class_names=names, name=spec)
    if spec.startswith("hub:"):
        return read_hub(spec.removeprefix("hub:"))
    path, table = _place(spec), TABLE.fullmatch(spec)
    if table is not None:
        return read_table(path, table[2], labelled)
    return read_folder(path) if os.path.isdir(path) else read_npz(path)


def holds_features(spec: str) -> bool:
    """Whether a source holds rows of features, not images or text; decodes no pictures."""
    if spec.startswith(PREFIX):
        return kept_dataset(spec).shape[1:] == (1, 1)
    if spec == "digits" or spec.startswith("hub:"):
        return False
    clients = client_files(spec)
    path = next(iter(clients.values()))[0] if clients else _place(spec)
    if path.is_dir() or TABLE.fullmatch(spec):
        return not path.is_dir()
    with guard_reading(path):
        return any(a.ndim == 2 for n, a in _arrays(path).items() if _stem(n)[0] in INPUTS)


def _place(spec: str) -> Path:
    """Return the file or folder of a name, in the current folder or in HOPFED_DATA."""
    table, root = TABLE.fullmatch(spec), os.environ.get(ENVIRONMENT, "")
    name = table[1] if table else spec
    if name and (os.path.isdir(name) or table or name.endswith(".npz")):
        elsewhere = root and not os.path.exists(name) and os.path.isfile(os.path.join(root, name))
        return Path(root if elsewhere else "", name)
    if root and not os.path.isdir(root):
        raise DataError(f"{root}: no such folder")
    found: list[Path] = []
    if root and re.fullmatch(r"[\w.-]+", name):
        word = re.sub(r"\\?[-_]", "[-_]?", re.escape(name))
        size = "" if name[-1].isdigit() else r"\d*"
        form = re.compile(rf"{word}({size}(_.*)?\.npz)?", re.IGNORECASE)
        found = [p for p in sorted(Path(root).iterdir()) if form.fullmatch(p.name)]
        found = [p for p in found if p.is_dir() or p.suffix == ".npz"]
        found = [p for p in found if p.stem.lower() == name.lower()][:1] or found
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(p.name for p in found)
        raise DataError(f"{name}: several files in {root}: {several}; give a full name")
    word = name.lower().replace("_", "-")
    if word in NAMES:
        hub = f", or take hub:{word}" if word in HUB else ""
        where = f"no {word}.npz and no folder {word} in {root}; " if root else ""
        raise DataError(f"{word}: {where}set {ENVIRONMENT} to the folder that has it{hub}")
    forms = "digits, FILE.npz, FILE.csv[:COLUMN], a folder of pictures, hub:OWNER/NAME, or NAME of "
    near = hint(word, [*NAMES, "digits"], 0.5)
    raise ArgumentError("data", f"{forms}NAME.npz in {ENVIRONMENT}{near}", repr(spec))


def read_npz(path: str | Path) -> Dataset:
    """Read a dataset from a source that is an .npz file, see `load`; DataError for pickles."""
    path = Path(path)
    with guard_reading(path):
        arrays = _joined(_arrays(path))
        label, inputs = _first(arrays, LABELS), _first(arrays, INPUTS)
        if label is None or (inputs is None and not {"jpeg", "text"} & set(arrays)):
            due = f"labels (or {' or '.join(LABELS[1:])}) and one of {', '.join(INPUTS)}"
            raise ValueError(f"{due} are needed, found {', '.join(arrays) or 'nothing'}")
        labels, names = arrays[label], tuple(arrays.get("class_names", ()))
        if "text" in arrays:
            return _speeches(path.stem, arrays, *encode(labels, names))
        images = _sheets(arrays, len(labels), path) if inputs is None else arrays[inputs]
        if images.ndim == 2 and "scale" in arrays:
            images = images * arrays["scale"]
        more = (*ORIGIN, "group", "writer_names", "domain_names")
        split, coarse = arrays.get("train", arrays.get("split")), arrays.get("coarse_labels")
        origin = {n: arrays[n] for n in more if n in arrays}
        return _of(path, images, labels, split, class_names=names, coarse=coarse, **origin)


def _of(path: Path, *arrays: Any, **more: Any) -> Dataset:
    """Return a dataset with the name of its file; errors show the whole path."""
    return replace(from_arrays(*arrays, name=str(path), **more), name=path.stem)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, if they fit into memory."""
    with open_file(path) as file, guard_reading(path):
        with zipfile.ZipFile(file) as archive:
            require_memory(2 * sum(held.file_size for held in archive.infolist()), str(path))
            if archive.namelist() == ["data.npy"]:
                raise ValueError(PICKLE)
        file.seek(0)
        try:
            arrays = dict(np.load(file, allow_pickle=False))
            for array in arrays.values():  # invalid text raises an error here
                if array.dtype.kind == "U":
                    "".join(array.ravel().tolist()).encode()
        except Exception as error:  # a broken header can raise errors of any type
            raise ValueError(f"no arrays: {str(error).splitlines()[0]}") from None
        return arrays


def _stem(name: str) -> tuple[str, str]:
    """Split a name such as x_train or val_images into array and part."""
    for part, words in PARTS.items():
        for word in words:
            for stem in (name.removeprefix(f"{word}_"), name.removesuffix(f"_{word}")):
                if stem != name and stem in (*LABELS, *INPUTS, "coarse_labels", *ORIGIN):
                    return stem, part
    return name, ""


def _joined(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Join the parts of arrays, such as x_train and x_test, and add the array `split`."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        stem, part = _stem(name)
        parts.setdefault(stem, {})[part] = array
    order = [part for part in PARTS if any(part in held for held in parts.values())]
    if "train" not in order:
        return arrays
    found = {stem: held[""] for stem, held in parts.items() if "" in held}
    for stem in [n for n in parts if n not in found]:
        held = parts[stem]
        if lacking := [part for part in order if part not in held]:
            raise ValueError(f"{stem} of {lacking[0]} is missing, found {', '.join(arrays)}")
        found[stem] = np.concatenate([held[part] for part in order])
        found["split"] = np.repeat(order, [len(held[part]) for part in order])
    return found


def _sheets(arrays: Mapping[str, np.ndarray], rows: int, path: Path) -> np.ndarray:
    """Decode JPEG sheets to images (rows, channels, s, s)."""
    (grid, side), offsets, data = arrays["tile"].tolist(), arrays["offsets"], arrays["jpeg"]
    count = -(-rows // grid**2)
    require_memory(6 * count * (grid * side) ** 2, f"{path}: pictures")
    tiles = []
    for a, b in pairwise(offsets[: count + 1].tolist()):
        sheet = _pixels(io.BytesIO(data[a:b].tobytes()), f"{path}: a sheet")
        cut = sheet.reshape(-1, grid, side, grid, side).transpose(1, 3, 0, 2, 4)
        tiles.append(cut.reshape(grid * grid, -1, side, side))
    return np.concatenate(tiles)[:rows]


def _speeches(
    name: str, arrays: Mapping[str, np.ndarray], speaker: np.ndarray, names: tuple[str, ...]
) -> Dataset:
    """Dataset of windows of all speeches as in LEAF, whose writers are the speakers."""
    script, ends = arrays["text"].tobytes().decode("latin-1"), (arrays["start"], arrays["end"])
    speeches = [script[int(a) : int(b)].split() for a, b in zip(*ends, strict=True)]
    spoken = np.flatnonzero(list(map(bool, speeches)))
    lines = [" ".join(speeches[k]) + "\n" for k in spoken]
    require_memory(3 * LENGTH * sum(map(len, lines)), f"{name}: windows")
    code = {c: k for k, c in enumerate(VOCABULARY)}
    text, space = "".join(" " * LENGTH + line for line in lines), code[" "]
    padded = np.fromiter((code.get(c, space) for c in text), np.uint8, len(text))
    speech = np.repeat(np.arange(len(lines)), list(map(len, lines)))
    # Before the k-th target are k other targets and the padding of all speeches up to its own.
    at = np.arange(len(speech)) + LENGTH * speech
    windows, group = np.lib.stride_tricks.sliding_window_view(padded, LENGTH)[at], spoken[speech]
    known: dict[str, Any] = {"writer": speaker[group], "writer_names": names, "group": group}
    return Dataset(name, windows, padded[at + LENGTH].astype(np.int64), tuple(VOCABULARY), **known)


def read_table(path: Path, label: str | None = None, labelled: bool = True) -> Dataset:
    """Read a source that is a table: numbers, a column of labels, optionally writer and domain."""
    columns = _columns(path)
    few = safe_line(", ".join([*columns][:6]) + ", ..." * (len(columns) > 6))
    usual = [n for n in columns if n.lower() in COLUMNS]
    if label is None and labelled and len(usual) != 1:
        number = "none" if not usual else "more than one"
        called = f"{', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}: give {path}:COLUMN"
        raise DataError(f"{path}: {number} of the columns {few} is called {called}")
    if label is not None and label not in columns:
        raise DataError(f"{path}: no column {label!r} among {few}")
    target = label if label is not None else next(iter(usual), None)
    origin = {n: columns[n].to_pylist() for n in ORIGIN if n in columns and n != target}
    used = [n for n in columns if n != target and n not in origin]
    if not used or not len(columns[used[0]]):
        raise DataError(f"{path}: there are no features, or no rows, beside {few}")
    require_memory(12 * len(columns[used[0]]) * len(used), f"{path}: features")
    rows = np.empty((len(columns[used[0]]), len(used)), np.float32)
    for j, name in enumerate(used):
        with guard_reading(path, f"column {safe_line(name)}"), np.errstate(over="ignore"):
            rows[:, j] = columns[name].cast("float64").to_numpy()
    if target is None:
        return _of(path, rows, np.zeros(len(rows), np.int64), class_names=("",), **origin)
    return _of(path, rows, np.array(columns[target].to_pylist(), dtype=object), **origin)


def _columns(path: Path) -> dict[str, Any]:
    """Read the columns of a table by name, as Arrow arrays; text is trimmed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from hopfed.tables.formats import of_path

    source, found = of_path(path), {}
    for note in (n for n in source.notes if n.startswith("two columns")):  # may be labels
        raise DataError(f"{path}: {note.partition(':')[0]}")
    blocks = list(source.blocks())
    for j, name in enumerate(source.names):
        cells = pa.chunked_array([block[j] for block in blocks] or [pa.nulls(0)])
        if isinstance(cells.type, pa.DictionaryType):
            cells = cells.cast(cells.type.value_type)
        text = pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)
        found[name] = pc.utf8_trim_whitespace(cells) if text else cells
    return found


def client_files(spec: str) -> dict[str, tuple[Path, Path]]:
    """Return client -> files of training and test; empty if the source is no folder of clients."""
    if spec == "digits" or spec.startswith((PREFIX, "hub:")):
        return {}
    folder = _place(spec)
    found = {p.parent.name: "{0}/{1}.npz" for p in folder.glob("*/t*.npz") if p.stem in SPLIT}
    if set(found) <= set(SPLIT):
        found = {p.stem: "{1}/{0}.npz" for part in SPLIT for p in folder.glob(f"{part}/*.npz")}
    names = sorted(found, key=lambda n: (int(n), "") if n.isdecimal() else (1 << 63, n))
    train, test = ([folder / found[n].format(n, part) for n in names] for part in SPLIT)
    return dict(zip(names, zip(train, test, strict=True), strict=True))


def _read_clients(folder: Path, clients: Mapping[str, tuple[Path, Path]]) -> Dataset:
    """Read a folder of clients, see `load`."""
    held = []
    for path in (path for both in clients.values() for path in both):
        arrays = _arrays(path)
        x, y = _first(arrays, INPUTS), _first(arrays, LABELS)
        if x is None or y is None or arrays[x].shape[:1] != arrays[y].shape[:1]:
            found = ", ".join(f"{n} of {len(np.atleast_1d(a))}" for n, a in arrays.items())
            raise DataError(f"{path}: needs x and y of equal length, found {found or 'nothing'}")
        held.append((arrays[x], arrays[y]))
    with guard_reading(folder, "clients have examples of different shapes"):
        inputs, labels = (np.concatenate(each) for each in zip(*held, strict=True))
    sizes, names = [len(y) for _, y in held], tuple(clients)
    writer = np.repeat(np.arange(len(names)).repeat(2), sizes)
    split = np.repeat(SPLIT * len(names), sizes)
    return _of(folder, inputs, labels, split, writer=writer, writer_names=names)


def read_folder(folder: Path) -> Dataset:
    """Read a source that is a folder: pictures by class, or the files of clients, see `load`."""
    if clients := client_files(str(folder)):
        return _read_clients(folder, clients)
    files = [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in PICTURES]
    places = [p.relative_to(folder).parts[:-1] for p in files]
    depths = {len(place) for place in places}
    if depths not in ({1}, {2}):
        raise DataError(f"{folder}: no pictures as CLASS/x.png, or all one folder deeper")
    column: dict[str, Any] = {}
    if depths == {2}:
        above = [place[0] for place in places]
        is_split = {word.lower() for word in above} <= set(sum(PARTS.values(), ()))
        column = {"split" if is_split else "domain": above}

    def pixels(path: Path) -> np.ndarray:
        with open_file(path) as file:
            return _pixels(file, path)

    images = _stacked(map(pixels, files), list(map(str, files)))
    return from_arrays(images, [place[-1] for place in places], name=folder.name, **column)


def read_hub(name: str) -> Dataset:
    """Load pictures of a source on the Hugging Face hub, or its cache, by library `datasets`."""
    path = HUB.get(name.lower().replace("_", "-"), name)
    try:
        library: Any = import_module("datasets")
    except ImportError:
        fault = f"hub:{name} needs the datasets library: pip install 'hopfed[hub]'"
        raise BackendError(fault) from None
    if "/" not in path or Path(path).exists():
        raise DataError(f"hub:{name}: not OWNER/NAME of the hub, or a local folder has that name")
    try:
        held = library.load_dataset(path)
    except Exception as error:  # the library, the network or the disk can fail in many ways
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BackendError(f"hub:{name}: {path} cannot be loaded: {reason}") from error
    tables = {k: t for k, t in held.items() if k in sum(PARTS.values(), ())} or dict(held)
    features = next(iter(tables.values())).features
    image = next((k for k, f in features.items() if type(f).__name__ == "Image"), None)
    label = _first(features, ("label", "fine_label", "character"))
    if image is None or label is None:
        raise DataError(f"hub:{name}: no column of pictures or of labels in {', '.join(features)}")
    columns = {"labels": label, "coarse": "coarse_label", "domain": "domain", "writer": "writer_id"}
    columns = {k: c for k, c in columns.items() if c in features}
    found = {k: [v for t in tables.values() for v in t[c]] for k, c in columns.items()}
    side = 64 if "domain" in columns else None
    with guard_reading(f"hub:{name}"):
        pictures = (_pixels(p, name, side) for t in tables.values() for p in t[image])
        images = _stacked(pictures, [f"row {k}" for k in range(len(found["labels"]))])
    names = tuple(getattr(features[label], "names", ()) or ())
    split = [k for k, t in tables.items() for _ in range(len(t))] if len(tables) > 1 else None
    return from_arrays(images, split=split, class_names=names, name=name, **found)


def _pixels(source: Any, name: object, size: int | None = None) -> np.ndarray:
    """Decode a picture file or an open picture to uint8 (channels, height, width)."""
    try:
        from PIL import Image
    except ImportError:
        raise BackendError("pictures need Pillow: pip install 'hopfed[neural]'") from None
    with guard_reading(str(name)):
        try:
            is_open = isinstance(source, Image.Image)
            held = source if is_open else Image.open(source, formats=FORMATS)
        except Image.DecompressionBombError as error:
            raise ValueError(str(error)) from None
        require_memory(16 * held.width * held.height, str(name))
        held = held.convert("L" if held.mode in ("1", "L") else "RGB")
        if size is not None:
            held = held.resize((size, size), Image.Resampling.BILINEAR)
        return np.ascontiguousarray(np.atleast_3d(np.asarray(held)).transpose(2, 0, 1))


def _stacked(pictures: Iterable[np.ndarray], names: list[str]) -> np.ndarray:
    """Stack pictures to (n, channels, height, width); grey beside colour gets three channels."""
    found: list[np.ndarray] = []
    for name, picture in zip(names, pictures, strict=True):
        if not found:
            require_memory(len(names) * picture.size, f"{len(names)} pictures of {picture.shape}")
        elif picture.shape[1:] != found[0].shape[1:]:
            got = f"{picture.shape[1:]} after {found[0].shape[1:]}"
            raise DataError(f"{name}: images of differing size, {got}")
        found.append(picture)
    channels = max(len(picture) for picture in found)
    return np.stack([np.broadcast_to(p, (channels, *p.shape[1:])) for p in found])


def _first(names: Iterable[str], wanted: tuple[str, ...]) -> str | None:
    """Return the first of the `wanted` names that is present, or None."""
    return next((name for name in wanted if name in set(names)), None)
