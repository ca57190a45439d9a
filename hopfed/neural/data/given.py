"""Datasets that are given as arrays and not by name: this process keeps them under a name."""

from __future__ import annotations

from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data.arrays import from_arrays
from hopfed.neural.data.dataset import Dataset

PREFIX = "arrays:"

_GIVEN: dict[str, Dataset] = {}


def as_named(data: Any) -> str:
    """Return the name of a dataset; one that is given as arrays is kept, and gets a name.

    That name contains a digest of all its arrays, so a run file says which data it is of, and a run
    is only continued with the same ones. They are copied, so they cannot change under their name.

    Parameters
    ----------
    data : a name, which is returned; a `Dataset`; or a pair (inputs, labels), as `from_arrays`
        takes them.

    Raises
    ------
    ArgumentError : something else.
    DataError : arrays that `from_arrays` refuses.

    Examples
    --------
    >>> as_named("digits")
    'digits'
    >>> name = as_named((np.eye(4), [0, 1, 0, 1]))
    >>> name == as_named(from_arrays(np.eye(4), [0, 1, 0, 1])), given(name).shape
    (True, (4, 1, 1))
    >>> name.rpartition(":")[0]  # before the digest
    'arrays:arrays'
    """
    if isinstance(data, str):
        return data
    if not isinstance(data, Dataset):
        if not (isinstance(data, (tuple, list)) and len(data) == 2):
            rule = "a name, a Dataset, or a pair of arrays (inputs, labels)"
            raise ArgumentError("data", rule, type(data).__name__)
        data = from_arrays(*data)
    name = f"{PREFIX}{data.name}:{_digest(data)}"
    if name not in _GIVEN:
        copies = {f.name: getattr(data, f.name) for f in fields(data)}
        copies = {n: v.copy() for n, v in copies.items() if isinstance(v, np.ndarray)}
        _GIVEN[name] = replace(data, **copies)
    return name


def given(name: str) -> Dataset:
    """Return the dataset that `as_named` kept under a name.

    Parameters
    ----------
    name : that it returned.

    Raises
    ------
    DataError : it was given to another process, or not at all.
    """
    if name not in _GIVEN:
        way = "give them again, or write an .npz file where several processes work"
        raise DataError(f"{name}: arrays are known only to the process that got them: {way}")
    return _GIVEN[name]


def _digest(data: Dataset) -> str:
    """Digest of all that a dataset holds, as 16 hexadecimal digits."""
    found = sha256()
    for field in fields(data):
        value = getattr(data, field.name)
        if isinstance(value, np.ndarray):
            found.update(f"{field.name} {value.dtype.str} {value.shape}".encode())
            found.update(np.ascontiguousarray(value).data)
        else:
            found.update(f"{field.name} {value!r}".encode())
    return found.hexdigest()[:16]
