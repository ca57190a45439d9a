"""Run files as others might send them: valid ones, changed in their bytes or in what they hold."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
from hypothesis import strategies as st
from mutants import ARRAYS, EDGES, damaged

ODD = ("nan", "a:b", "²", "$x_{$", "[/b]", "\x1b[31mred\x1b[0m", "\ud800", "w" * 3000, 10**40)
ODD += (1e308, list(range(2000)), json.loads("[" * 90 + "]" * 90))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
)
KINDS = ("recover", "bbp", "mp", "fl", "serve", "letters", "theory", "gallery", "os", "a.b", "")
COUNTS = (-1, 0, 1, 7, 2**31, 2**62, 1.5, "many", np.nan, np.array([1, 2]))
FILLS = (np.nan, np.inf, -1, 3_000_000_000_000_000, 1e300, b"\xff\x1b[31m", 1j, True)
NAMES = ("x", "faults/code", "a\x1b[31m", "seeds", "p/../q")


def bytes_changed(draw, source: Path, target: Path) -> None:
    """Flip, cut, insert or blank bytes."""
    target.write_bytes(draw(damaged(source.read_bytes())))


def contents_changed(draw, source: Path, target: Path) -> None:
    """Change arrays, counters, settings and words of a file that stays HDF5."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        for _ in range(draw(st.integers(1, 3))):
            change = draw(st.sampled_from((_array, _array, _mapping, _mapping, _attribute)))
            with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
                change(draw, file)  # one that another made impossible is left out


def _attribute(draw, file) -> None:
    name = draw(st.sampled_from(("kind", "committed", "planned", "hopfed_format", "config")))
    if draw(st.integers(0, 5)) == 0:
        del file.attrs[name]
    else:
        file.attrs[name] = draw(st.sampled_from(KINDS if name == "kind" else COUNTS))


def _mapping(draw, file) -> None:
    name = draw(st.sampled_from(("config", "config", "summary", "provenance")))
    held = json.loads(file.attrs[name])
    key = draw(st.sampled_from([*held, "no such name", "[/b]\x1b[31m"]))
    if draw(st.booleans()) and key in held:
        del held[key]
    else:
        held[key] = draw(JSON)
    text = json.dumps(held)
    file.attrs[name] = draw(st.sampled_from((text, text, text, text, "[]", "{", "[" * 3000)))


def _array(draw, file) -> None:
    sizes = {}
    file.visititems(lambda name, item: sizes.update({name: getattr(item, "nbytes", 1 << 30)}))
    name = draw(st.sampled_from([name for name, size in sizes.items() if size < 1 << 20]))
    array = file[name][()]
    del file[name]
    how = draw(st.sampled_from(("gone", "moved", "filled", "shaped", "other", *WRITTEN)))
    if how == "moved":
        file[draw(st.sampled_from(NAMES))] = array
    elif how == "filled":
        file[name] = np.full(array.shape, draw(st.sampled_from(FILLS)))
    elif how == "shaped":
        shapes = (np.stack([array, array]), array.ravel(), array.T, array[..., :-1], 2 * [array])
        file[name] = draw(st.sampled_from(shapes))
    elif how == "other":
        file[name] = draw(ARRAYS | st.sampled_from(EDGES) | st.just("[/b]"))
    elif how in WRITTEN:
        WRITTEN[how](file, name)


# What a file may not refer to: other files, and arrays that unfold to more than the file holds.
WRITTEN = {
    "vast": lambda file, name: file.create_dataset(name, (1 << 40, 1 << 20), "f8", chunks=True),
    "unwritten": lambda file, name: file.create_dataset(name, (1 << 33,), "f8"),
    "wide": lambda file, name: file.create_dataset(name, (0, (1 << 61) - 1), "f8"),
    "packed": lambda file, name: file.create_dataset(
        name, data=np.zeros((1000, 1000)), compression="gzip"
    ),
    "elsewhere": lambda file, name: file.create_dataset(
        name, (100,), "u1", external=[("/etc/passwd", 0, 100)]
    ),
    "linked": lambda file, name: file.__setitem__(name, h5py.ExternalLink("/x.h5", "/x")),
    "none": lambda file, name: file.__setitem__(name, h5py.Empty("f")),
    "words": lambda file, name: file.__setitem__(name, "[/b]"),
    "record": lambda file, name: file.__setitem__(name, np.zeros(3, [("a", "f8")])),
}
