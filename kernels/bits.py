"""Examples of +-1 held as bits, eight to the byte, and the way there and back.

Row m of an (M, N) array of +-1 becomes ceil(N / 64) words; column j is bit j % 64 of word j // 64,
bit 1 means +1, and the bits beyond column N - 1 are 0, so that rows compare and xor cleanly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

import numpy as np
from numpy.typing import DTypeLike

from hopfed._lib.arrays import to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.cpu.threads import for_each, spans
from hopfed.kernels.dispatch import has_gaps, library, on_host, with_twin

if TYPE_CHECKING:
    from hopfed.kernels.masked import MaskedBits

Rows: TypeAlias = "PackedBits | MaskedBits"  # with gaps or without
WORD = 64
CHUNK = 1 << 20  # entries converted at a time: stays in the cache, is enough to amortise the call


@on_host
@dataclass(frozen=True, eq=False)
class PackedBits:
    """An (M, N) array of +-1 in bits.

    Parameters
    ----------
    words : (M, ceil(n / 64)) uint64, C-contiguous; column j is bit j % 64 of word j // 64, bit 1
        means +1, padding bits are 0.
    n : number of columns N.

    Raises
    ------
    ArgumentError : words of another dtype or shape, or set padding bits.

    Examples
    --------
    >>> p = PackedBits(np.array([[0b101]], np.uint64), 3)
    >>> p.shape, unpack(p).tolist()
    ((1, 3), [[1, -1, 1]])
    """

    words: np.ndarray
    n: int

    def __post_init__(self) -> None:
        words = self.words
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 2:
            got = f"{getattr(words, 'dtype', type(words).__name__)} of shape {np.shape(words)}"
            raise ArgumentError("words", "a two-dimensional uint64 array", got)
        if self.n < 0 or words.shape[1] != n_words(self.n):
            rule = f"of {n_words(self.n)} words a row for {self.n} columns"
            raise ArgumentError("words", rule, f"shape {words.shape}")
        if not words.flags.c_contiguous:
            object.__setattr__(self, "words", np.ascontiguousarray(words))
        if self.n % WORD and np.any(words[:, -1] >> np.uint64(self.n % WORD)):
            raise ArgumentError("words", f"zero in the bits beyond column {self.n - 1}", "set bits")

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.words.shape[0], self.n

    @property
    def nbytes(self) -> int:
        """Bytes held by the words."""
        return self.words.nbytes

    def __len__(self) -> int:
        return self.words.shape[0]

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> Self:
        """Rows `rows` (a slice, a mask or an index array); a view where NumPy gives one."""
        if isinstance(rows, int | np.integer):
            raise ArgumentError("rows", "a slice, a mask or an index array", f"the integer {rows}")
        return type(self)(self.words[rows], self.n)


def n_words(n: int) -> int:
    """Number of 64-bit words that hold `n` columns."""
    return -(-n // WORD)


def check_packed(name: str, p: object) -> PackedBits:
    """Return `p` if it is a PackedBits, else raise the ArgumentError for argument `name`."""
    if not isinstance(p, PackedBits):
        raise ArgumentError(name, "a PackedBits, as made by pack()", type(p).__name__)
    return p


@with_twin
def pack(x: np.ndarray) -> PackedBits:
    """Pack an (M, N) array of +-1, of 0/1, or of booleans into bits, exactly.

    Any real dtype and any strides are taken; true, 1 and +1 become bit 1.

    Parameters
    ----------
    x : (M, N).

    Raises
    ------
    ArgumentError : not two-dimensional, not real numbers, or holding another value (the first one
        is named with its row and column); 0 and -1 may not both occur.

    Examples
    --------
    >>> pack(np.array([[1, -1, 1, 1]])).words.tolist()
    [[13]]
    """
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise ArgumentError("x", "a two-dimensional real array", f"{x.dtype} of shape {x.shape}")
    words, found = pack_values(x)
    if not_binary(found):
        raise first_bad(x)
    return PackedBits(words, x.shape[1])


def pack_values(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Return words with a bit for each 1, and which values occur: bit 0: 0, 1: -1, 2: another.

    Where some rows cannot be packed (`not_binary`), those that follow are left out.
    """
    m, n = x.shape
    words = np.zeros((m, n_words(n)), np.uint64)
    if x.size == 0:
        return words, 0
    from hopfed.kernels.cpu.planes import pack_planes

    seen: list[int] = []
    refused: list[int] = []

    def task(span: tuple[int, int]) -> None:
        if refused:
            return
        rows = slice(*span)
        found = pack_planes(as_int8(x[rows]), True, words[rows], np.zeros((0, 0), np.uint64))
        found = found & 7 | (found & 8) >> 1  # the number that stands for what is missing, itself
        (refused if not_binary(found) else seen).append(found)

    for_each(task, spans(m, max(1, CHUNK // n)))
    return words, int(np.bitwise_or.reduce(seen + refused))


def not_binary(found: int) -> bool:
    """Tell whether such values cannot be packed: another than these three, or 0 among -1."""
    return bool(found & 4) or found & 3 == 3


def as_int8(x: Any, xp: Any = np) -> Any:
    """Return `x`, an array of `xp`, as contiguous int8 with 2 for all but -1, 0 and 1."""
    if x.dtype == np.int8 or x.dtype == np.bool_:
        return xp.ascontiguousarray(x).view(np.int8)
    out = xp.full(x.shape, 2, np.int8)
    for value in (-1, 0, 1):
        if value >= 0 or x.dtype.kind != "u":
            out[x == value] = value
    return out


def first_bad(x: Any) -> ArgumentError:
    """Name the first value that pack() refuses; a 0 among -1 counts as one."""
    bad = ~((x == 1) | (x == 0) | (x == -1)) if x.dtype.kind != "u" else x > 1
    bad = bad if bool(bad.any()) else x == 0
    return bad_value(x, *divmod(int(bad.ravel().argmax()), x.shape[1]))


def bad_value(x: Any, row: int, column: int) -> ArgumentError:
    """Say that the value at `row` and `column` is not binary."""
    got = f"{to_host(x[row, column])} at row {row}, column {column}"
    return ArgumentError("x", "all +-1, all 0/1, or boolean", got)


@with_twin
def unpack(p: Rows, dtype: DTypeLike = np.int8) -> np.ndarray:
    """Return the (M, N) array of +-1 held by `p`, of real or signed dtype `dtype`.

    Examples
    --------
    >>> unpack(pack(np.array([[True, False]])), dtype=np.float32).tolist()
    [[1.0, -1.0]]
    """
    return unpack_planes(check_packed("p", p), None, dtype)


def unpack_planes(p: PackedBits, seen: PackedBits | None, dtype: DTypeLike) -> np.ndarray:
    """Return the entries of `p`, 0 where `seen` has none."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "if":
        raise ArgumentError("dtype", "a signed integer or a floating type", dtype)
    from hopfed.kernels.cpu.products import unpack_rows

    m, n = p.shape
    native = dtype if dtype in (np.int8, np.float32, np.float64) else np.dtype(np.int8)
    out = np.empty((m, n), native)
    each = spans(m, max(1, CHUNK // max(n, 1)))
    for_each(lambda rows: unpack_rows(*planes(p, seen), rows[0], 0, out[slice(*rows)]), each)
    return out.astype(dtype, copy=False)


def planes(p: PackedBits, seen: PackedBits | None) -> tuple[np.ndarray, np.ndarray]:
    """Words as the compiled loops take them: the second are of no rows where all is seen."""
    return p.words, np.zeros((0, 0), np.uint64) if seen is None else seen.words


@overload
def concatenate(parts: Sequence[PackedBits]) -> PackedBits: ...
@overload
def concatenate(parts: Sequence[Rows]) -> Rows: ...
def concatenate(parts: Sequence[Rows]) -> Rows:
    """Stack the rows of `parts`, which must have the same number of columns.

    Examples
    --------
    >>> p = pack(np.array([[1, -1]]))
    >>> concatenate([p, p]).shape
    (2, 2)
    """
    if not parts:
        raise ArgumentError("parts", "a non-empty sequence of PackedBits", parts)
    if any(has_gaps(p) for p in parts):
        from hopfed.kernels.masked import concatenate as with_gaps

        return with_gaps(parts)
    packed = [check_packed("parts", p) for p in parts]
    widths = sorted({p.n for p in packed})
    if len(widths) > 1:
        raise ArgumentError("parts", "all of one number of columns", widths)
    words = library(packed[0].words).concatenate([p.words for p in packed])
    return type(packed[0])(words, widths[0])


@overload
def transpose(p: PackedBits) -> PackedBits: ...
@overload
def transpose(p: Rows) -> Rows: ...
@with_twin
def transpose(p: Rows) -> Rows:
    """Return the (N, M) transpose, by 64 x 64 blocks of bits.

    Parameters
    ----------
    p : (M, N), packed.

    Examples
    --------
    >>> unpack(transpose(pack(np.array([[1, -1, 1]])))).tolist()
    [[1], [-1], [1]]
    """
    p = check_packed("p", p)
    m, n = p.shape
    words = np.zeros((n, n_words(m)), np.uint64)
    if words.size:
        from hopfed.kernels.cpu.bits import transpose_columns

        size = max(1, CHUNK // (WORD * m))
        for_each(
            lambda s: transpose_columns(p.words, *s, words, np.empty(WORD, np.uint64)),
            spans(n_words(n), size),
        )
    return PackedBits(words, m)


@with_twin
def column_sums(p: Rows) -> np.ndarray:
    """Return the N sums over rows of the +-1 entries, int64.

    Parameters
    ----------
    p : (M, N), packed.

    Examples
    --------
    >>> column_sums(pack(np.array([[1, -1], [1, 1]]))).tolist()
    [2, 0]
    """
    p = check_packed("p", p)
    m, n = p.shape
    sums = np.zeros(n, np.int64)
    if p.words.size:
        from hopfed.kernels.cpu.bits import count_columns

        size = max(1, CHUNK // (WORD * m))
        for_each(
            lambda s: count_columns(p.words, *s, sums, np.empty(WORD, np.uint64)),
            spans(n_words(n), size),
        )
        sums *= 2
        sums -= m
    return sums
