"""Arrays of an .npz file that keeps its published split as arrays of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hopfed.tables.arrays import Header, Npz

SPLIT = {  # part -> what it is called
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test",),
}
LABELS = ("labels", "y", "Y")  # names of the arrays; the first, if it is there, is meant
INPUTS = ("images", "features", "inputs", "x", "X")
_JOINED = {*LABELS, *INPUTS, "coarse_labels", "domain", "writer"}


class Joined(Mapping[str, np.ndarray]):
    """View of an archive in which the parts of each array are one, with `split` beside them.

    An archive as Keras writes it holds `x_train`, `y_train`, `x_test` and `y_test`; one of MedMNIST
    holds `train_images`, `train_labels`, `val_images` and so on. Here they are `x`, `y` and
    `split`, or `images`, `labels` and `split`. Each part is read when its array is asked for.

    Parameters
    ----------
    archive : the open file.

    Raises
    ------
    ValueError : the parts of an array cannot stand below each other, or some array lacks a part
        that another one has.

    Notes
    -----
    Without a training part, all names are what they are.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = {"x_train": np.eye(2), "y_train": [0, 1], "x_test": np.eye(2), "y_test": [1, 1]}
    ...     np.savez(f"{folder}/a.npz", **parts)
    ...     with Npz(f"{folder}/a.npz") as archive:
    ...         joined = Joined(archive)
    ...         print(sorted(joined), joined["y"].tolist(), joined["split"].tolist())
    ['split', 'x', 'y'] [0, 1, 1, 1] ['train', 'train', 'test', 'test']
    """

    def __init__(self, archive: Npz):
        self.path = archive.path
        self._archive = archive
        self._parts: dict[str, dict[str, str]] = {}
        told = {name: _stem_and_part(name) for name in archive}
        if any(part == "train" for _, part in told.values()):
            for name, (stem, part) in told.items():
                if part:
                    self._parts.setdefault(stem, {})[part] = name
        self._alone = [name for name in archive if not self._parts or not told[name][1]]
        self._order = [part for part in SPLIT if any(part in held for held in self._parts.values())]
        for stem, held in self._parts.items():
            lacking = [part for part in self._order if part not in held]
            if lacking:
                raise ValueError(f"{stem} of {lacking[0]} is missing, found {', '.join(archive)}")
        if self._parts and "split" in self._alone:
            raise ValueError(f"split is said twice, found {', '.join(archive)}")

    def __iter__(self) -> Iterator[str]:
        yield from self._alone
        yield from self._parts
        if self._parts:
            yield "split"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == each for each in self)

    def header(self, name: str) -> Header:
        """Return shape and type of the array `name`, which is not read."""
        if name not in self._parts:
            return self._archive.header(name)
        headers = [self._archive.header(each) for each in self._members(name)]
        if len({h.shape[1:] for h in headers}) > 1 or not all(h.shape for h in headers):
            shapes = " and ".join(str(h.shape) for h in headers)
            raise ValueError(f"parts of {name} differ in shape: {shapes}")
        rows = sum(h.shape[0] for h in headers)
        kind = np.result_type(*(h.dtype for h in headers))
        return Header((rows, *headers[0].shape[1:]), kind, fortran=False)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._parts:
            self.header(name)
            return np.concatenate([self._archive[each] for each in self._members(name)])
        if name == "split" and self._parts:
            members = self._members(next(iter(self._parts)))
            return np.repeat(self._order, [self._archive.header(m).shape[0] for m in members])
        return self._archive[name]

    def _members(self, name: str) -> list[str]:
        return [self._parts[name][part] for part in self._order]


def _stem_and_part(name: str) -> tuple[str, str]:
    """Array and part of a split that a name such as x_train or train_images tells of."""
    for part, words in SPLIT.items():
        for word in words:
            for stem in (name.removeprefix(f"{word}_"), name.removesuffix(f"_{word}")):
                if stem != name and stem in _JOINED:
                    return stem, part
    return name, ""
