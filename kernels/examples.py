"""Checked examples: arrays of +-1, 0/1 or booleans, packed; NaN, and 0 beside -1, are gaps."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from hopfed._lib.arrays import is_torch, to_host
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError, safe_line
from hopfed.kernels.bits import Rows, find_bad_value, pack_masked, unpack
from hopfed.kernels.dispatch import on_device
from hopfed.kernels.place import adopt_array

RULE = "values must be all +-1, all 0/1, or boolean"


class NotBinaryError(DataError):
    """Error for an array with a number that breaks `RULE`."""


def as_examples(array: Any, *, name: str = "examples", gaps: bool = False, least: int = 2) -> Rows:
    """Check that `array`, (M, N) of +-1, 0/1 or booleans, holds `least` examples, and pack it.

    On a device, of CuPy or any library that speaks DLPack (PyTorch), it stays there. With `gaps`
    entries may be missing: NaN, None, masked, or 0 among -1 and 1. Errors call it `name`.
    """
    if not isinstance(array, Rows):
        array = adopt_array(dense_tensor(array, name))
        array = array if on_device(array) else np.asanyarray(array)
        if array.ndim < 2:
            raise DataError(f"{name}: examples must be rows of a table, got {array.ndim} axes")
        if array.ndim > 2:  # which may be the tables of several owners
            way = "give a list of tables for several owners, or flatten: x.reshape(len(x), -1)"
            raise DataError(f"{name}: a table is (M, N), got {tuple(array.shape)}; {way}")
        array = pack_examples(array, name)
    bits: Rows = array
    require(bits.held, name, "in memory here: read the table without a limit", "others")
    if len(bits) < least or bits.n < 1:
        few = "two examples are" if least == 2 else f"{least} example(s) are"
        raise DataError(f"{name}: at least {few} needed, got {len(bits)} x {bits.n}")
    if bits.gaps and not gaps:
        row, column = np.argwhere(gone := to_host(unpack(bits)) == 0)[0] + 1
        first = f"first: row {row}, column {column}; 0 is missing where -1 occurs"
        raise DataError(f"{name}: complete rows are needed here, {gone.sum():,} missing ({first})")
    return bits


def pack_examples(table: Any, name: str, gone: np.ndarray | None = None, before: int = 0) -> Rows:
    """Pack examples, rows of numbers after `before` others, or name the first other value."""
    kind = table.dtype.kind
    if kind not in "biufO":
        raise DataError(f"{name}: examples must be numbers, got {table.dtype}")
    if not on_device(table):  # in the byte order and the sizes that the kernels know
        wide = kind == "f" and table.dtype.itemsize not in (4, 8)
        with np.errstate(all="ignore"):  # what does not fit becomes infinity, and is refused
            table = np.asanyarray(table, np.float64 if wide else table.dtype.newbyteorder("="))
    try:
        return pack_masked(table, gone)
    except ArgumentError:
        row, column = find_bad_value(table) or (0, 0)
        value = np.ma.getdata(to_host(table))[row, column]
        got = f"{value:g}" if isinstance(value, Real) else safe_line(repr(value))
        place = f"row {before + row + 1}, column {column + 1}"
        raise NotBinaryError(f"{name}: {RULE}, got {got} at {place}") from None


def dense_tensor(array: Any, name: str) -> Any:
    """Return examples in a tensor of PyTorch as NumPy can read them; other arrays as they are."""
    if not is_torch(array) or not hasattr(array, "layout"):
        return array
    if array.is_quantized or str(array.layout) != "torch.strided":
        raise DataError(f"{name}: a dense tensor is needed: give x.to_dense() or x.dequantize()")
    array = array.detach()
    return array.float() if array.is_floating_point() and array.element_size() < 4 else array
