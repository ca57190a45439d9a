"""Run files as others might send them: valid ones, changed in their bytes or in what they hold."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
from hypothesis import strategies as st

VALUES = (
    None,
    True,
    -1,
    0,
    3,
    3_000_000_000_000_000,
    10**40,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "nan",
    "a:b",
    "²",
    "$x_{$",
    "[/b]",
    "\x1b[31mred\x1b[0m",
    "\ud800",
    "w" * 3000,
    [],
    [[]],
    [None],
    [1e308, "x"],
    list(range(2000)),
    {},
    {"a": {"b": []}},
    json.loads("[" * 90 + "]" * 90),
)
KINDS = (
    "recover",
    "bbp",
    "mp",
    "fl",
    "serve",
    "letters",
    "theory",
    "gallery",
    "os",
    "a.b",
    "",
    "²",
)
COUNTS = (-1, 0, 1, 7, 2**31, 2**62, 1.5, "many", np.nan, np.array([1, 2]))


def bytes_changed(draw, source: Path, target: Path) -> None:
    """Flip, cut, insert or blank bytes."""
    data = bytearray(source.read_bytes())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        what = draw(st.sampled_from(("flip", "flip", "cut", "insert", "blank")))
        if what == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del data[at:]
        elif what == "insert":
            data[at:at] = draw(st.binary(max_size=40))
        else:
            size = draw(st.integers(1, 200))
            data[at : at + size] = bytes([draw(st.sampled_from((0, 255)))]) * len(data[at:][:size])
    target.write_bytes(data)


def contents_changed(draw, source: Path, target: Path) -> None:
    """Change arrays, counters, settings and words of a file that stays HDF5."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        for _ in range(draw(st.integers(1, 3))):
            change = draw(st.sampled_from((_array, _array, _mapping, _mapping, _attribute)))
            with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                change(draw, file)  # one that another made impossible is left out


def _attribute(draw, file) -> None:
    name = draw(st.sampled_from(("kind", "committed", "planned", "hopfed_format", "config")))
    if draw(st.integers(0, 5)) == 0:
        del file.attrs[name]
    else:
        file.attrs[name] = draw(st.sampled_from(KINDS if name == "kind" else COUNTS))


def _mapping(draw, file) -> None:
    name = draw(st.sampled_from(("config", "config", "summary", "provenance")))
    try:
        held = json.loads(file.attrs[name])
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if not isinstance(held, dict):
        return
    key = draw(st.sampled_from([*held, "no such name", "[/b]\x1b[31m"]))
    if draw(st.booleans()) and key in held:
        del held[key]
    else:
        held[key] = draw(st.sampled_from(VALUES))
    text = json.dumps(held)
    damage = (text, text, text, text, "[]", "{", "[" * 3000)
    file.attrs[name] = draw(st.sampled_from(damage))


def _small(item) -> bool:
    return getattr(item, "shape", None) is not None and item.nbytes < 1 << 20


def _array(draw, file) -> None:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if _small(item) else None)
    if not names:
        return
    name = draw(st.sampled_from(names))
    array = file[name][()]
    del file[name]
    change = draw(st.sampled_from(sorted(CHANGES)))
    if change == "moved":
        file[draw(st.sampled_from(("x", "faults/code", "a\x1b[31m", "seeds", "p/../q")))] = array
    else:
        CHANGES[change](file, name, array)


def _filled(value):
    def change(file, name, array):
        filled = np.full(array.shape, value)
        if array.dtype.kind in "iuf" and filled.dtype.kind in "if":
            own = filled.astype(array.dtype, casting="unsafe")
            filled = own if (own == filled).all() else filled
        file[name] = filled

    return change


CHANGES = {
    "gone": lambda file, name, array: None,
    "moved": None,
    "nan": _filled(np.nan),
    "infinite": _filled(np.inf),
    "negative": _filled(-1),
    "large": _filled(3_000_000_000_000_000),
    "huge": _filled(1e300),
    "bytes": _filled(b"\xff\x1b[31m"),
    "complex": _filled(1j),
    "true": _filled(True),
    "scalar": lambda file, name, array: file.__setitem__(name, 7),
    "empty": lambda file, name, array: file.__setitem__(name, np.zeros((0, *array.shape))),
    "longer": lambda file, name, array: file.__setitem__(name, np.stack([array, array])),
    "doubled": lambda file, name, array: (
        file.__setitem__(name, np.repeat(array, 2, axis=-1)) if array.ndim else None
    ),
    "flat": lambda file, name, array: file.__setitem__(name, array.ravel()),
    "turned": lambda file, name, array: file.__setitem__(name, array.T),
    "cut": lambda file, name, array: (
        file.__setitem__(name, array[..., :-1]) if array.ndim else None
    ),
    "none": lambda file, name, array: file.__setitem__(name, h5py.Empty("f")),
    "words": lambda file, name, array: file.__setitem__(name, "[/b]"),
    "group": lambda file, name, array: file.create_group(f"{name}/{name}"),
    "vast": lambda file, name, array: file.create_dataset(
        name, (1 << 40, 1 << 20), "f8", chunks=True
    ),
    "unwritten": lambda file, name, array: file.create_dataset(name, (1 << 33,), "f8"),
    "wide": lambda file, name, array: file.create_dataset(name, (0, (1 << 61) - 1), "f8"),
    "packed": lambda file, name, array: file.create_dataset(
        name, data=np.zeros((1000, 1000)), compression="gzip"
    ),
    "elsewhere": lambda file, name, array: file.create_dataset(
        name, (100,), "u1", external=[("/etc/passwd", 0, 100)]
    ),
    "linked": lambda file, name, array: file.__setitem__(name, h5py.ExternalLink("/x.h5", "/x")),
    "record": lambda file, name, array: file.__setitem__(name, np.zeros(3, [("a", "f8")])),
}
