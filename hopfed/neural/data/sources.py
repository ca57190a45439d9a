"""`load`: returns the `Dataset` of a name, a file, a folder, or a dataset of the hub."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hopfed._lib.memory_limits import require_memory
from hopfed.errors import ArgumentError, BackendError, DataError
from hopfed.neural.data.dataset import PARTS, PREFIX, Dataset, encode, from_arrays, given
from hopfed.neural.data.partitions import in_order
from hopfed.tables.files import opened, reading

LENGTH = 80  # characters of context

# The 80 characters of LEAF, in its order. As in LEAF, any other character counts as a space.
VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SPACE = VOCABULARY.index(" ")

_CODES = np.full(128, SPACE, dtype=np.uint8)
_CODES[[ord(c) for c in VOCABULARY]] = np.arange(len(VOCABULARY))


def encode_text(text: str) -> np.ndarray:
    """Return the codes of `text`, uint8 (len(text),)."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    return np.where(points < 128, _CODES[np.minimum(points, 127)], np.uint8(SPACE))


def speech_windows(speeches: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every window of every speech, the character that follows it, and its speech.

    As in LEAF, a speech becomes one line: line breaks and runs of spaces become single spaces, and
    a line break ends it. 80 spaces before it make its first character predictable too.
    """
    lines = [" ".join(speech.split()) + "\n" for speech in speeches]
    padded = encode_text("".join(" " * LENGTH + line for line in lines))
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    speech = np.repeat(np.arange(len(lines)), lengths)
    # The k-th target follows k other targets and the padding of all speeches so far.
    start = np.arange(len(speech)) + LENGTH * speech
    windows = np.lib.stride_tricks.sliding_window_view(padded, LENGTH)[start]
    return windows, padded[start + LENGTH].astype(np.int64), speech


ENVIRONMENT = "HOPFED_DATA"
HUB = {  # names that experiments use -> datasets of the hub of Hugging Face
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
LABELS = ("labels", "y", "Y")  # names of arrays; the first, if it is there, is meant
INPUTS = ("images", "features", "inputs", "x", "X")
COLUMNS = ("label", "class", "target", "y")  # of a table, for labels, in any case
ORIGIN = ("writer", "domain")
PICTURES = (".jpg", ".jpeg", ".png")
PICKLE = (  # of PFLlib: a pickle can run code
    "a pickled dict, which is not read as it may run code; write each file anew: "
    "d = np.load(FILE, allow_pickle=True)['data'].item(); np.savez(FILE, x=d['x'], y=d['y'])"
)
SPLIT = ("train", "test")  # files or folders of a folder of clients
FORMATS = ("JPEG", "PNG")  # whatever a file is called: others, such as EPS, have programs run


def load(spec: str, *, labelled: bool = True) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    spec : one of

        "digits" : the 1,797 digits of 8 x 8 that ship with scikit-learn.
        "FILE.npz" : arrays as :func:`from_arrays` takes them, `images` or `features` (also called
            `inputs`, `x` or `X`) and `labels` (`y`, `Y`), and what is known of `split` or `train`,
            `class_names`, `writer`, `domain`, `group` and `coarse_labels`; or `x_train`, `y_train`,
            `x_test`, `y_test`. `features` are multiplied by a `scale` beside them. In place of
            images also sheets of JPEG, or speeches of a play (:func:`read_npz`).
        "FILE.csv", "FILE.csv:COLUMN" : a table of numbers and a column of labels, called label,
            class, target or y if it is not named; also .tsv, .parquet and .feather.
        "FOLDER" : pictures in folders by class, CLASS/x.png, below folders of a split (train, val,
            test) or of domains if there are any.
        "FOLDER" of clients : CLIENT/train.npz and CLIENT/test.npz, or train/CLIENT.npz and
            test/CLIENT.npz (as PFLlib has them), each with `x` and `y` as a FILE.npz. A client is
            a writer, and its rows stay in their part under the partition "given".
        "NAME" : NAME.npz, NAME_*.npz or the folder NAME, below the folder that the environment
            variable HOPFED_DATA names; so is a FILE.npz that is not in the current folder.
        "hub:OWNER/NAME" : pictures of the hub of Hugging Face (library `datasets`); hub:mnist and
            so on are the datasets of the experiments.
        "arrays:NAME:DIGEST" : arrays that :func:`as_named` keeps.
    labelled : whether a table must have a column of labels.

    Raises
    ------
    ArgumentError : an unknown name (the nearest one is suggested).
    DataError : not found, truncated or malformed, in one line.
    BackendError : a library that the source needs is missing.

    Examples
    --------
    >>> load("digits")
    Dataset(name='digits')
    """
    if spec.startswith(PREFIX):
        return given(spec)
    if spec == "digits":
        return digits()
    if spec.startswith("hub:"):
        return read_hub(spec.removeprefix("hub:"))
    table = TABLE.fullmatch(spec)
    if table is not None:
        return read_table(_found(table[1]), table[2], labelled)
    if spec.endswith(".npz"):
        return read_npz(_found(spec))
    path = _found(spec)
    return read_folder(path) if spec and path.is_dir() else _named(spec)


def digits() -> Dataset:
    """Return scikit-learn's digits: 1,797 images of 8 x 8 pixels with 17 grey values."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    names = tuple("0123456789")
    return from_arrays(
        bunch.images.astype(np.uint8), bunch.target, class_names=names, name="digits"
    )


def holds_features(spec: str) -> bool:
    """Whether `load` would return rows of features, not images or text; little is read for it."""
    if spec.startswith(PREFIX):
        return given(spec).shape[1:] == (1, 1)
    if not spec.endswith(".npz"):
        clients = clients_of(spec)
        if clients:
            return holds_features(str(next(iter(clients.values()))[0]))
        path = _below(_root(), spec) if spec != "digits" else None
        return TABLE.fullmatch(spec) is not None if path is None else holds_features(str(path))
    path = _found(spec)
    with opened(path) as file, reading(path), zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            if name in INPUTS or _stem(name)[0] in INPUTS:
                with archive.open(member) as held:
                    read = {1: np.lib.format.read_array_header_1_0}
                    major = np.lib.format.read_magic(held)[0]
                    shape = read.get(major, np.lib.format.read_array_header_2_0)(held)[0]
                return len(shape) == 2
    return False


def read_npz(path: str | Path) -> Dataset:
    """Read a dataset from an .npz file, see `load`; pickles are refused."""
    path = Path(path)
    with opened(path) as file, reading(path):
        arrays = _joined(_arrays(file, path))
        label, inputs = _meant(arrays, LABELS), _meant(arrays, INPUTS)
        if len(label) != 1 or not ({"jpeg", "text"} & set(arrays) or len(inputs) == 1):
            due = f"labels (or {' or '.join(LABELS[1:])}) and one of {', '.join(INPUTS)}"
            raise ValueError(f"{due} are due, found {', '.join(arrays) or 'nothing'}")
        labels, names = arrays[label[0]], tuple(arrays.get("class_names", ()))
        if "text" in arrays:
            return _speeches(path.stem, arrays, *encode(labels, names))
        images = _sheets(arrays, len(labels), path) if "jpeg" in arrays else arrays[inputs[0]]
        if images.ndim == 2 and "scale" in arrays:
            images = images * arrays["scale"]
        more = {n: arrays[n] for n in (*ORIGIN, "group", "writer_names", "domain_names")
                if n in arrays}  # fmt: skip
        split, coarse = arrays.get("train", arrays.get("split")), arrays.get("coarse_labels")
        return _of(path, images, labels, split, class_names=names, coarse=coarse, **more)


def read_table(path: Path, label: str | None = None, labelled: bool = True) -> Dataset:
    """Read a table whose rows are examples: numbers, a column of labels, and perhaps a writer."""
    columns = _columns(path)
    usual = [n for n in columns if n.lower() in COLUMNS]
    if label is None and labelled and len(usual) != 1:
        what = "none" if not usual else "more than one"
        called = f"{', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}: say {path}:COLUMN"
        raise DataError(f"{path}: {what} of the columns {_few(columns)} is called {called}")
    if label is not None and label not in columns:
        raise DataError(f"{path}: no column {label!r} among {_few(columns)}")
    target = label if label is not None else next(iter(usual), None)
    origin = {n: columns[n].to_pylist() for n in ORIGIN if n in columns and n != target}
    used = [n for n in columns if n != target and n not in origin]
    if not used or not len(columns[used[0]]):
        raise DataError(f"{path}: there are no features, or no rows, beside {_few(columns)}")
    require_memory(12 * len(columns[used[0]]) * len(used), f"{path}: features")
    rows = np.stack([_numbers(columns[n], path, n) for n in used], axis=1)
    if target is None:
        none = np.zeros(len(rows), np.int64)
        return _of(path, rows, none, class_names=("",), **origin)
    with reading(path, f"column {target}"):
        words = [w.strip() if isinstance(w, str) else w for w in columns[target].to_pylist()]
        return _of(path, rows, np.array(words, dtype=object), **origin)


def _of(path: Path, *arrays: Any, **more: Any) -> Dataset:
    """A dataset that is called like its file; errors name the whole path."""
    return replace(from_arrays(*arrays, name=str(path), **more), name=path.stem)


def clients_of(spec: str) -> dict[str, tuple[Path, Path]]:
    """Client -> its files of training and test examples, in a folder of clients; else empty."""
    near = None if spec == "digits" else _root()
    folder = Path(spec) if os.path.isdir(spec) else _below(near, spec)
    if folder is None or not folder.is_dir():
        return {}
    found = {p.parent.name: "{0}/{1}.npz" for p in folder.glob("*/t*.npz") if p.stem in SPLIT}
    if set(found) <= set(SPLIT):
        found = {p.stem: "{1}/{0}.npz" for part in SPLIT for p in folder.glob(f"{part}/*.npz")}
    names = sorted(found, key=in_order)
    train, test = ([folder / found[n].format(n, part) for n in names] for part in SPLIT)
    return dict(zip(names, zip(train, test, strict=True), strict=True))


def read_clients(folder: Path, clients: Mapping[str, tuple[Path, Path]]) -> Dataset:
    """Read the files of clients, see `load`."""
    files = [path for both in clients.values() for path in both]
    held = [_pair(path) for path in files]
    for path, (inputs, _) in zip(files, held, strict=True):
        if inputs.shape[1:] != held[0][0].shape[1:]:
            got = f"{inputs.shape[1:]} after {held[0][0].shape[1:]}"
            raise DataError(f"{path}: an example of another shape than those before, {got}")
    inputs, labels = (np.concatenate(each) for each in zip(*held, strict=True))
    sizes = [len(y) for _, y in held]
    names = tuple(clients)
    return from_arrays(
        *(inputs, labels, np.repeat(SPLIT * len(names), sizes)),
        writer=np.repeat(np.arange(len(names)).repeat(2), sizes),
        writer_names=names,
        name=folder.name,
    )


def _pair(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of a client's file."""
    with opened(path) as file, reading(path):
        if zipfile.ZipFile(file).namelist() == ["data.npy"]:  # of PFLlib
            raise ValueError(PICKLE)
        file.seek(0)
        arrays = _arrays(file, path)
        inputs, labels = _meant(arrays, INPUTS), _meant(arrays, LABELS)
        if len(inputs) != 1 or len(labels) != 1:
            raise ValueError(f"x and y are due, found {', '.join(arrays) or 'nothing'}")
        x, y = arrays[inputs[0]], arrays[labels[0]]
        if len(x) != len(y):
            raise ValueError(f"there are {len(x)} inputs for {len(y)} labels")
        return x, y


def read_folder(folder: Path) -> Dataset:
    """Read pictures in folders by class, or the files of clients, see `load`."""
    clients = clients_of(str(folder))
    if clients:
        return read_clients(folder, clients)
    files = [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in PICTURES]
    places = [p.relative_to(folder).parts[:-1] for p in files]
    depths = {len(place) for place in places}
    if not files or not depths <= {1, 2}:
        raise DataError(f"{folder}: no pictures as CLASS/x.png, or one folder below")
    if len(depths) > 1:
        raise DataError(f"{folder}: {files[0]} and others are not equally deep in folders")
    above = [place[0] for place in places] if depths == {2} else None
    is_split = above is not None and {w.lower() for w in above} <= set(sum(PARTS.values(), ()))
    images = _stacked((_file(p) for p in files), len(files), [str(p) for p in files])
    column = {} if above is None else {"split": above} if is_split else {"domain": above}
    return from_arrays(images, [place[-1] for place in places], name=folder.name, **column)


def read_hub(name: str) -> Dataset:
    """Load pictures of the hub of Hugging Face, or from its cache, by the library `datasets`.

    Columns are found by their types and names: a picture, a label, perhaps a coarse label, a
    domain and a writer. The splits train and test (or valid) become the published split.
    """
    path = HUB.get(name.lower().replace("_", "-"), name)
    try:
        library: Any = import_module("datasets")
    except ImportError:
        fault = f"hub:{name} needs the datasets library: pip install 'hopfed[hub]'"
        raise BackendError(fault) from None
    if "/" not in path or Path(path).exists():
        raise DataError(f"hub:{name}: no OWNER/NAME of the hub, or a folder here of that name")
    try:
        held = library.load_dataset(path)
    except Exception as error:  # the library, the network or the disk can fail in many ways
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BackendError(f"hub:{name}: {path} cannot be loaded: {reason}") from error
    words = sum(PARTS.values(), ())
    tables = {k: t for k, t in held.items() if k in words} or dict(held)
    features = next(iter(tables.values())).features
    image = next((k for k, f in features.items() if type(f).__name__ == "Image"), None)
    label = _first(features, ("label", "fine_label", "character"))
    if image is None or label is None:
        raise DataError(f"hub:{name}: no column of pictures and of labels in {', '.join(features)}")
    known = {"coarse": "coarse_label", "domain": "domain", "writer": "writer_id"}
    columns = {"labels": label} | {k: c for k, c in known.items() if c in features}
    found = {k: [v for t in tables.values() for v in t[c]] for k, c in columns.items()}
    count = len(found["labels"])
    side = 64 if "domain" in columns else None
    with reading(f"hub:{name}"):
        pictures = (_pixels(p, name, side) for t in tables.values() for p in t[image])
        images = _stacked(pictures, count, [f"row {k}" for k in range(count)])
    names = tuple(getattr(features[label], "names", ()) or ())
    split = [k for k, t in tables.items() for _ in range(len(t))] if len(tables) > 1 else None
    return from_arrays(images, split=split, class_names=names, name=name, **found)


def _named(spec: str) -> Dataset:
    """A dataset by its name: an .npz file or a folder below the root."""
    name = spec.lower().replace("_", "-")
    near = get_close_matches(name, [*NAMES, "digits"], n=1, cutoff=0.5)
    place = _root()
    path = _below(place, name)
    if path is not None:
        return read_folder(path) if path.is_dir() else read_npz(path)
    if name in NAMES:
        hub = f", or take hub:{name}" if name in HUB else ""
        where = f"no {name}.npz and no folder {name} in {place}; " if place is not None else ""
        raise DataError(f"{name}: {where}set {ENVIRONMENT} to the folder that has it{hub}")
    hint = f" (did you mean {near[0]}?)" if near else ""
    forms = "digits, FILE.npz, FILE.csv[:COLUMN], a folder of pictures, hub:OWNER/NAME, or NAME of "
    raise ArgumentError("data", f"{forms}NAME.npz in {ENVIRONMENT}{hint}", repr(spec))


def _below(place: Path | None, name: str) -> Path | None:
    """File or folder of a dataset below the root; several that fit are an error."""
    if place is None or not re.fullmatch(r"[\w.-]+", name):
        return None
    word = re.escape(name.lower()).replace(r"\-", "[-_]?").replace("_", "[-_]?")
    size = "" if name[-1].isdigit() else r"\d*"
    form = re.compile(rf"{word}({size}(_.*)?\.npz)?", re.IGNORECASE)
    found = [p for p in sorted(place.iterdir()) if form.fullmatch(p.name)]
    found = [p for p in found if p.is_dir() or p.suffix == ".npz"]
    exact = [p for p in found if p.name.lower() == f"{name}.npz"]
    if len(found) > 1 and not exact:
        several = ", ".join(p.name for p in found)
        raise DataError(f"{name}: several files in {place}: {several}; name the one you mean")
    return next(iter([*exact, *found]), None)


def _root() -> Path | None:
    place = os.environ.get(ENVIRONMENT) or None
    if place is not None and not os.path.isdir(place):
        raise DataError(f"{place}: no such folder")
    return None if place is None else Path(place)


def _found(spec: str) -> Path:
    """The path, or that below the root if only there is such a file."""
    place = os.environ.get(ENVIRONMENT) or None
    if not os.path.exists(spec) and place is not None and os.path.isfile(Path(place) / spec):
        return Path(place) / spec
    return Path(spec)


def _arrays(file: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    """Arrays of an .npz file that fit into memory when they are unpacked."""
    with zipfile.ZipFile(file) as archive:
        require_memory(2 * sum(held.file_size for held in archive.infolist()), str(path))
    file.seek(0)
    try:
        arrays = dict(np.load(file, allow_pickle=False))
        for array in arrays.values():  # words of which some are no text cannot be shown
            if array.dtype.kind == "U":
                "".join(array.ravel().tolist()).encode()
        return arrays
    except Exception as error:  # a broken header can raise anything, of the tokenizer too
        raise ValueError(f"no arrays: {str(error).splitlines()[0]}") from None


def _meant(arrays: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Those of `names` that may be meant: the first one alone if it is there."""
    return [name for name in names if name in arrays][: 1 if names[0] in arrays else None]


def _stem(name: str) -> tuple[str, str]:
    """Array and part of a split that a name such as x_train or val_images tells of."""
    for part, words in PARTS.items():
        for word in words:
            for stem in (name.removeprefix(f"{word}_"), name.removesuffix(f"_{word}")):
                if stem != name and stem in (*LABELS, *INPUTS, "coarse_labels", *ORIGIN):
                    return stem, part
    return name, ""


def _joined(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of which the parts, as x_train and x_test, are one, with `split` beside them."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        stem, part = _stem(name)
        if part:
            parts.setdefault(stem, {})[part] = array
    if not any("train" in held for held in parts.values()):
        return arrays
    order = [part for part in PARTS if any(part in held for held in parts.values())]
    for stem, held in parts.items():
        lacking = [part for part in order if part not in held]
        if lacking:
            raise ValueError(f"{stem} of {lacking[0]} is missing, found {', '.join(arrays)}")
    if "split" in arrays:
        raise ValueError(f"split is said twice, found {', '.join(arrays)}")
    whole = {stem: np.concatenate([held[p] for p in order]) for stem, held in parts.items()}
    sizes = [len(next(iter(parts.values()))[p]) for p in order]
    alone = {name: array for name, array in arrays.items() if not _stem(name)[1]}
    return alone | whole | {"split": np.repeat(order, sizes)}


def _sheets(arrays: Mapping[str, np.ndarray], rows: int, path: Path) -> np.ndarray:
    """Decode JPEG sheets to (rows, channels, s, s)."""
    (grid, side), offsets, data = arrays["tile"].tolist(), arrays["offsets"], arrays["jpeg"]
    count = -(-rows // grid**2)
    if len(offsets) - 1 < count:
        raise ValueError(f"{len(offsets) - 1} sheets hold too few pictures for {rows} labels")
    require_memory(6 * count * (grid * side) ** 2, f"{path}: pictures")
    tiles = []
    for a, b in pairwise(offsets[: count + 1].tolist()):
        sheet = _pixels(io.BytesIO(data[a:b].tobytes()), f"{path}: a sheet")
        if sheet.shape[1:] != (grid * side, grid * side):
            raise ValueError(f"a sheet of {sheet.shape[1:]} pixels for {grid} x {grid} of {side}")
        cut = sheet.reshape(-1, grid, side, grid, side).transpose(1, 3, 0, 2, 4)
        tiles.append(cut.reshape(grid * grid, -1, side, side))
    return np.concatenate(tiles)[:rows]


def _speeches(
    name: str, arrays: Mapping[str, np.ndarray], speaker: np.ndarray, names: tuple[str, ...]
) -> Dataset:
    """Windows of all speeches; the speaker of each is its writer."""
    script = arrays["text"].tobytes().decode("latin-1")
    start, end = arrays["start"].astype(np.int64), arrays["end"].astype(np.int64)
    if not start.shape == end.shape == speaker.shape:
        raise ValueError(f"{start.size} speeches for {speaker.size} speakers")
    if not ((start >= 0) & (start <= end) & (end <= len(script))).all():
        raise ValueError(f"a speech is outside of the {len(script)} characters of text")
    require_memory(3 * LENGTH * int((end - start + 1).sum()), "speeches")
    speeches = [script[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    spoken = np.array([k for k, speech in enumerate(speeches) if speech.strip()], dtype=np.int64)
    windows, following, speech = speech_windows([speeches[k] for k in spoken])
    group = spoken[speech]
    return Dataset(name, windows, following, tuple(VOCABULARY), writer=speaker[group],
                   writer_names=names, group=group)  # fmt: skip


def _pixels(source: Any, name: object, size: int | None = None) -> np.ndarray:
    """Decode a picture, a file or one that is open, to uint8 (channels, height, width)."""
    try:
        from PIL import Image
    except ImportError:
        raise BackendError("pictures need Pillow: pip install 'hopfed[neural]'") from None
    with reading(str(name)):
        try:
            given = isinstance(source, Image.Image)
            held = source if given else Image.open(source, formats=FORMATS)
        except Image.DecompressionBombError as error:
            raise ValueError(str(error)) from None
        require_memory(16 * held.width * held.height, str(name))
        held = held.convert("L" if held.mode in ("1", "L") else "RGB")
        if size is not None:
            held = held.resize((size, size), Image.Resampling.BILINEAR)
        return np.ascontiguousarray(np.atleast_3d(np.asarray(held)).transpose(2, 0, 1))


def _file(path: Path) -> np.ndarray:
    with opened(path) as file:
        return _pixels(file, path)


def _stacked(pictures: Iterable[np.ndarray], count: int, names: list[str]) -> np.ndarray:
    """Pictures (n, channels, height, width); grey ones among others have three equal channels."""
    found: list[np.ndarray] = []
    for name, picture in zip(names, pictures, strict=True):
        if not found:
            require_memory(count * picture.size, f"{count} pictures of {picture.shape}")
        elif picture.shape[1:] != found[0].shape[1:]:
            got, first = picture.shape[1:], found[0].shape[1:]
            raise DataError(f"{name}: images of differing size, {got} after {first}")
        found.append(picture)
    if len({len(picture) for picture in found}) > 1:
        found = [np.broadcast_to(picture, (3, *picture.shape[1:])) for picture in found]
    return np.stack(found)


def _columns(path: Path) -> dict[str, Any]:
    """Columns of a table by name, as Arrow's."""
    import pyarrow as pa

    from hopfed.tables.formats import of_path

    source = of_path(path)
    for note in source.notes:
        if note.startswith("two columns"):  # a second column of labels is no feature
            raise DataError(f"{path}: {note.partition(':')[0]}")
    blocks = list(source.blocks())
    parts = [[block[j] for block in blocks] or [pa.nulls(0)] for j in range(len(source.names))]
    return {n: _typed(pa.chunked_array(p)) for n, p in zip(source.names, parts, strict=True)}


def _typed(cells: Any) -> Any:
    """A column as numbers or truth values where all its cells are, else words; or missing ones."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.csv import ConvertOptions

    if isinstance(cells.type, pa.DictionaryType):
        cells = cells.cast(cells.type.value_type)
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    words = pc.utf8_trim_whitespace(cells)
    gone = pc.is_in(words, pa.array(ConvertOptions().null_values, words.type))
    words = pc.if_else(gone, None, words)
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        with suppress(pa.ArrowInvalid):
            return words.cast(kind)
    return words


def _numbers(column: Any, path: Path, name: str) -> np.ndarray:
    """A column of features, float32."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"{path}: column {name} holds {kind} values, features are numbers")
    values = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
    with np.errstate(over="ignore"):  # a number too large becomes infinity: refused
        found = values.cast(pa.float64()).to_numpy().astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise DataError(f"{path}: row {bad[0] + 1}, column {name} is missing or not finite")
    return found


def _first(columns: Iterable[str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in columns), None)


def _few(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:6]) + (", ..." if len(every) > 6 else "")
