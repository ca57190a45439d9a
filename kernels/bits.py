"""Examples of +-1 packed into bits, with missing entries or without, and their unpacking.

Row m of an (M, N) array of +-1 becomes ceil(N / 64) words; column j is bit j % 64 of word j // 64,
bit 1 means +1, and the bits beyond column N - 1 are 0, so that rows compare and xor cleanly. Rows
with gaps have a second plane of bits that marks observed entries; both bits of a missing entry are
0. It counts as 0 in every sum. Memory and time are about twice those of complete rows.

Words are arrays on the host or on a device, and results stay where the words are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from hopfed._lib.arrays import like, to_host
from hopfed.errors import ArgumentError
from hopfed.kernels.cpu.threads import cut_range
from hopfed.kernels.dispatch import array_library, check_beside, find_kernel, on_device

WORD = 64
CHUNK = 1 << 20  # entries converted at a time: fits the cache and amortises the call
GONE = -128  # code of a missing entry in int8
ZERO, MINUS, OTHER, MISSING = 1, 2, 4, 8  # flags for the kinds of values that occur
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Rows:
    """(M, N) rows of +-1 in bits, with or without missing entries: the container of examples.

    Kernels work on rows that are held in memory. Other rows are read in blocks of held rows and
    have the same methods for sums (`hopfed.spectral.reread_rows`), which use the counts of rows.

    Parameters
    ----------
    signs : (M, ceil(n / 64)) uint64, on the host or a device; column j is bit j % 64 of word
        j // 64, bit 1 means +1, bit 0 means -1 or a missing entry. Padding bits are 0.
    n : number of columns N.
    seen : like `signs`, bit 1 where an entry is observed; None if no entry is missing.
    counts : (M,) float64 on the host, the number of times each row occurs; None if once.

    Raises
    ------
    ArgumentError : words of another dtype or shape, set padding bits, or a set sign bit of a
        missing entry (bits are not checked on a device, which would take a pass).

    >>> p = Rows(np.array([[0b101]], np.uint64), 3)
    >>> p.shape, unpack(p).tolist()
    ((1, 3), [[1, -1, 1]])
    >>> p = pack_masked(np.array([[1, -1, 0], [0, 1, 1]]))
    >>> p.gaps, unpack(p).tolist(), unpack(p.columns(np.array([2, 0]))).tolist()
    (True, [[1, -1, 0], [0, 1, 1]], [[0, 1], [1, 0]])
    """

    signs: Any
    n: int
    seen: Any = None
    counts: np.ndarray | None = None
    held: ClassVar[bool] = True  # whether the words are in memory

    def __post_init__(self) -> None:
        _check_plane(self, "signs")
        if self.seen is None or self.seen is self.signs:
            return
        _check_plane(self, "seen")
        signs, seen = self.signs, self.seen
        if seen.shape != signs.shape:
            raise ArgumentError("seen", f"of shape {signs.shape} like signs", seen.shape)
        if on_device(signs):
            return
        for start, stop in cut_range(len(signs), max(1, CHUNK // (16 * max(signs.shape[1], 1)))):
            if np.any(signs[start:stop] & ~seen[start:stop]):
                raise ArgumentError("signs", "0 where nothing is seen", "set bits")

    @property
    def home(self) -> Any:
        """An array on the host or device of the rows."""
        return self.signs

    @property
    def gaps(self) -> bool:
        """Whether entries may be missing."""
        return self.seen is not None

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return len(self), self.n

    @property
    def nbytes(self) -> int:
        """Size of the words in bytes."""
        return sum(int(plane.nbytes) for plane in (self.signs, self.seen) if plane is not None)

    @property
    def size(self) -> int:
        """Number of rows with repetitions, the sum of `counts`."""
        return len(self) if self.counts is None else int(np.rint(self.counts.sum()))

    @property
    def weights(self) -> np.ndarray:
        """(M,) float64 on the host, the number of times each row occurs."""
        return np.ones(len(self)) if self.counts is None else self.counts

    @property
    def readings(self) -> int:
        """Number of times the rows were read."""
        return 1

    def __len__(self) -> int:
        return int(self.signs.shape[0])

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> Rows:
        """Rows `rows` (a slice, a mask or an index array), as views where NumPy makes views."""
        if isinstance(rows, int | np.integer):
            raise ArgumentError("rows", "a slice, a mask or an index array", f"the integer {rows}")
        seen = None if self.seen is None else self.seen[rows]
        counts = self.counts
        if counts is not None:
            counts = counts[rows if isinstance(rows, slice) else to_host(rows)]
        return Rows(self.signs[rows], self.n, seen, counts)

    def parts(self) -> Iterator[Rows]:
        """Yield all rows once, a block at a time; held rows are a single block."""
        yield self

    def total(
        self,
        question: Callable[..., Answer],
        placed: bool = False,
        enough: Callable[[Answer], bool] | None = None,
    ) -> Answer:
        """Return the sum of `question` over all blocks, in order.

        question : function of a block; if `placed`, of a block and the number of rows before it.
        enough : function of the sum so far that returns whether to stop.
        """
        found: Any = None
        before = 0
        for part in self.parts():
            answer = question(part, before) if placed else question(part)
            found = answer if found is None else found + answer
            before += len(part)
            if enough is not None and enough(found):
                break
        return found

    def chosen(self, which: slice | np.ndarray) -> Rows:
        """Return rows by a slice, a mask or indices on the host; held if these rows are held."""
        return self[which if isinstance(which, slice) else like(which, self.home)]

    def where(self, fits: Callable[[Rows], np.ndarray]) -> Rows:
        """Rows of each block that `fits` picks, held as these are or not."""
        return self.chosen(np.flatnonzero(np.concatenate([fits(p) for p in self.parts()])))

    def mapped(self, change: Callable[[Rows], Rows], n: int) -> Rows:  # noqa: ARG002
        """Apply `change` to each block; returns rows of n columns, held if these rows are held."""
        return change(self)

    def columns(self, which: np.ndarray) -> Rows:
        """Return columns `which`, in this order."""
        signs = _columns(self.signs, self.n, which)
        seen = None if self.seen is None else _columns(self.seen, self.n, which)
        return Rows(signs, len(which), seen, self.counts)


def _columns(plane: Any, n: int, which: np.ndarray) -> Any:
    """Words of the columns `which` of a plane of bits with n columns."""
    step = max(1, 4 * CHUNK // max(n, 1))
    blocks = (unpack(Rows(plane[a : a + step], n)) for a in range(0, len(plane), step))
    return concatenate([pack(block[:, like(which, plane)]) for block in blocks]).signs


def _check_plane(p: Rows, name: str) -> None:
    """Check that words hold bits of n columns, and make them contiguous."""
    words = getattr(p, name)
    there = on_device(words)
    if not (there or isinstance(words, np.ndarray)) or words.dtype != np.uint64:
        kind = getattr(words, "dtype", type(words).__name__)
        raise ArgumentError(name, "a two-dimensional uint64 array", kind)
    if words.ndim != 2 or p.n < 0 or words.shape[1] != n_words(p.n):
        rule = f"of {n_words(p.n)} words a row for {p.n} columns"
        raise ArgumentError(name, rule, f"shape {words.shape}")
    if not words.flags.c_contiguous:
        object.__setattr__(p, name, array_library(words).ascontiguousarray(words))
    if not there and p.n % WORD and np.any(words[:, -1] >> np.uint64(p.n % WORD)):
        raise ArgumentError(name, f"zero in the bits beyond column {p.n - 1}", "set bits")


def n_words(n: int) -> int:
    """Number of 64-bit words of packed rows, on CPU or GPU, that hold the bits of `n` columns."""
    return -(-n // WORD)


def check_rows(name: str, p: object) -> Rows:
    """Return `p` if it is rows packed to bits, on CPU or GPU, else raise for argument `name`."""
    if not isinstance(p, Rows) or not p.held:
        raise ArgumentError(name, "Rows, as made by pack() or pack_masked()", type(p).__name__)
    return p


def pack(x: np.ndarray) -> Rows:
    """Pack an (M, N) array of +-1, of 0/1, or of booleans into bits, exactly, on CPU or GPU.

    Any real dtype and any strides are accepted; true, 1 and +1 become bit 1.

    Parameters
    ----------
    x : (M, N), on the host or on a device.

    Raises
    ------
    ArgumentError : not two-dimensional, not real numbers, or another value (the message has the
        first such value with its row and column); 0 and -1 may not both occur.

    >>> pack(np.array([[1, -1, 1, 1]])).signs.tolist()
    [[13]]
    """
    p = pack_masked(x)
    if p.gaps:
        gone = array_library(p).reshape(unpack(p) == 0, -1)
        raise _bad_value(x, *divmod(int(gone.argmax()), p.n))
    return p


def pack_masked(x: Any, mask: Any = None) -> Rows:
    """Pack (M, N) of +-1, 0/1 or booleans, with missing entries, into bits, on CPU or GPU.

    Missing entries are NaN, None in an array of objects, and entries marked by `mask` or by the
    mask of a NumPy masked array. If -1 occurs anywhere in the array, 0 is missing too; without any
    -1 the array is read as 0/1, in which 0 is an entry (false). A batch that happens to have only 0
    and 1 is therefore read as 0/1: use NaN or a mask for data in batches. Whole rows and columns
    may be missing. An array without gaps gets no second plane and takes as long as `pack`.

    Parameters
    ----------
    x : (M, N), of any real dtype or of objects (None and numbers), on the host or on a device.
    mask : (M, N) of booleans, true where an entry is missing, whatever its value.

    Raises
    ------
    ArgumentError : not two-dimensional, not real numbers, a mask of another shape, or another value
        (the message has the first such value with its row and column).

    >>> pack_masked(np.array([[1, 0], [1, 1]])).shape  # 0/1, without gaps
    (2, 2)
    >>> unpack(pack_masked([[1, 0], [np.nan, 1]])).tolist()
    [[1, -1], [0, 1]]
    """
    x, mask = _table(x, mask)
    found = find_kernel(x, "pack")(x, mask)
    if found is None:
        raise _bad_value(to_host(x), *(find_bad_value(x, mask) or (0, 0)))
    signs, seen = found
    return Rows(signs, x.shape[1], seen)


def _table(x: Any, mask: Any) -> tuple[Any, Any]:
    """Return the checked array, and the checked mask of missing entries or None."""
    if isinstance(x, np.ma.MaskedArray):
        own = np.ma.getmaskarray(x) if np.ma.is_masked(x) else None
        x, mask = x.data, own if mask is None or own is None else np.asarray(mask) | own
    x = x if on_device(x) else np.asarray(x)
    if x.ndim != 2 or x.dtype.kind not in "biufO":
        raise ArgumentError("x", "a two-dimensional real array", f"{x.dtype} of shape {x.shape}")
    mask = mask if mask is None else check_beside("mask", mask, x)
    if mask is not None and (mask.shape != x.shape or mask.dtype != np.bool_):
        got = f"{mask.dtype} of shape {mask.shape}"
        raise ArgumentError("mask", f"booleans of shape {x.shape}", got)
    return x, mask


def _bad_value(x: Any, row: int, column: int) -> ArgumentError:
    """Return the error for a value at `row` and `column` that is not binary."""
    got = f"{to_host(x[row, column])} at row {row}, column {column}"
    return ArgumentError("x", "all +-1, all 0/1, or boolean", got)


def find_bad_value(x: Any, mask: Any = None) -> tuple[int, int] | None:
    """Row and column of the first value that cannot be packed into bits, on CPU or GPU, or None."""
    x, mask = _table(x, mask)
    x, mask = to_host(x), None if mask is None else to_host(mask)
    allowed = (-1, 0, 1) if mask is None and x.dtype.kind in "biu" else (-1, 0, 1, GONE)
    for start, stop in cut_range(len(x), max(1, CHUNK // max(x.shape[1], 1))):
        codes = int8_entries(x[start:stop], None if mask is None else mask[start:stop])
        bad = np.argwhere(~np.isin(codes, allowed))
        if len(bad):
            return start + int(bad[0][0]), int(bad[0][1])
    return None


def int8_entries(x: Any, mask: Any = None, xp: Any = np) -> Any:
    """Return array `x` of `xp`, to become bits, as int8: -1, 0, 1, GONE if missing, 2 if other."""
    gone = mask
    if x.dtype.kind == "O":
        x = _numbers(x)
    if x.dtype.kind == "f":
        gone = x != x if mask is None else mask | (x != x)  # true for NaN only
    if x.dtype == np.int8 or x.dtype == np.bool_:
        codes = xp.ascontiguousarray(x).view(np.int8)
    else:
        with np.errstate(invalid="ignore"):  # what does not fit is something else, and is no match
            codes = x.astype(np.int8, order="C")
        codes[(codes != x) | (codes < -1) | (codes > 1)] = 2
    if gone is None:
        return codes
    if x.dtype.kind in "bi" and x.dtype.itemsize == 1:  # codes are the values of x itself
        codes = xp.where(codes == GONE, xp.int8(2), codes)
    codes[gone] = GONE
    return codes


def _numbers(x: np.ndarray) -> np.ndarray:
    """Objects as float64: NaN for None, infinity for an object that is not a number."""

    def number(value: Any) -> float:
        try:
            return np.nan if value is None else float(value)
        except (TypeError, ValueError):
            return np.inf

    return np.array([number(value) for value in x.flat], np.float64).reshape(x.shape)


def with_gaps(p: Rows) -> Rows:
    """Return rows `p` with a second plane of bits, also if complete, on CPU or GPU.

    >>> with_gaps(pack(np.array([[1, -1]]))).seen.tolist()
    [[3]]
    """
    if check_rows("p", p).gaps:
        return p
    seen = p.signs | ~p.signs
    if p.n % WORD:
        seen[:, -1] >>= np.uint64(WORD - p.n % WORD)
    return Rows(p.signs, p.n, seen, p.counts)


def unpack(p: Rows, dtype: DTypeLike = np.int8) -> np.ndarray:
    """Return bits of rows `p`, on CPU or GPU, as (M, N) of +-1, 0 for missing, of signed `dtype`.

    >>> unpack(pack(np.array([[True, False]])), dtype=np.float32).tolist()
    [[1.0, -1.0]]
    """
    words, seen = check_rows("p", p).signs, p.seen
    dtype = np.dtype(dtype)
    if dtype.kind not in "if":
        raise ArgumentError("dtype", "a signed integer or a floating type", dtype)
    native = dtype if dtype.name in ("int8", "float32", "float64") else np.dtype(np.int8)
    return find_kernel(words, "unpack")(words, seen, p.n, native).astype(dtype, copy=False)


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Stack `parts`, rows of bits equally wide, on CPU or GPU; the result has gaps if any part has.

    >>> p = pack(np.array([[1, -1]]))
    >>> concatenate([p, p]).shape
    (2, 2)
    """
    if not parts:
        raise ArgumentError("parts", "a non-empty sequence of Rows", parts)
    widths = sorted({check_rows("parts", p).n for p in parts})
    if len(widths) > 1:
        raise ArgumentError("parts", "all of one number of columns", widths)
    xp, seen, counts = array_library(parts[0]), None, None
    if any(p.gaps for p in parts):
        seen = xp.concatenate([with_gaps(p).seen for p in parts])
    if any(p.counts is not None for p in parts):
        counts = np.concatenate([p.weights for p in parts])
    return Rows(xp.concatenate([p.signs for p in parts]), widths[0], seen, counts)


def transpose(p: Rows) -> Rows:
    """Return the (N, M) transpose of rows of bits, on CPU or GPU.

    >>> unpack(transpose(pack(np.array([[1, -1, 1]])))).tolist()
    [[1], [-1], [1]]
    """
    turn = find_kernel(check_rows("p", p), "transpose")
    return Rows(turn(p.signs, p.n), len(p), None if p.seen is None else turn(p.seen, p.n))


def column_sums(p: Rows) -> np.ndarray:
    """Return sums of observed +-1 entries of bits over rows, on CPU or GPU, (N,) int64.

    >>> column_sums(pack(np.array([[1, -1], [1, 1]]))).tolist()
    [2, 0]
    """
    words = check_rows("p", p).signs
    return 2 * find_kernel(words, "count_columns")(words, p.n) - seen_counts(p)


def seen_counts(p: Rows) -> np.ndarray:
    """Return numbers of observed entries of columns of bits, on CPU or GPU, (N,) int64.

    >>> seen_counts(pack_masked(np.array([[1, 0], [-1, 1]]))).tolist()
    [2, 1]
    """
    seen = check_rows("p", p).seen
    if seen is None:
        counts: np.ndarray = array_library(p).full(p.n, len(p), np.int64)
    else:
        counts = find_kernel(seen, "count_columns")(seen, p.n)
    return counts
