"""Examples of +-1 with gaps: two planes of bits, the signs and what is seen.

A missing entry counts as 0 in every sum, so that rows with gaps are rows of -1, 0 and +1. The
functions that share their name with one of another module are what that one does with such rows;
they take the planes where they are, on the host or on a device. Memory and time are about twice
those of complete rows, which stay what they are, `PackedBits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from hopfed._lib.arrays import to_host
from hopfed.errors import ArgumentError
from hopfed.kernels import bits, moments, planes, shuffle
from hopfed.kernels.bits import PackedBits, check_packed
from hopfed.kernels.cpu.threads import spans
from hopfed.kernels.dispatch import on_device

_WORDS = 1 << 16  # compared at a time: half a megabyte


@dataclass(frozen=True, eq=False)
class MaskedBits:
    """An (M, N) array of +-1 with gaps, in two planes of bits.

    Parameters
    ----------
    signs : (M, N) packed, +1 (bit 1) where the entry is +1; everywhere else bit 0.
    seen : (M, N) packed, bit 1 where there is an entry.

    Raises
    ------
    ArgumentError : planes of two shapes, or a sign where nothing is seen (not checked on a device:
        that costs a pass).

    Examples
    --------
    >>> p = pack_masked(np.array([[1, -1, 0], [0, 1, 1]]))
    >>> p.shape, unpack(p).tolist(), unpack(p.presence).tolist()
    ((2, 3), [[1, -1, 0], [0, 1, 1]], [[1, 1, 0], [0, 1, 1]])
    """

    signs: PackedBits
    seen: PackedBits

    def __post_init__(self) -> None:
        check_packed("signs", self.signs)
        if check_packed("seen", self.seen).shape != self.signs.shape:
            raise ArgumentError("seen", f"of shape {self.signs.shape} like signs", self.seen.shape)
        if on_device(self.signs) or self.seen is self.signs:
            return
        signs, seen = self.signs.words, self.seen.words
        for start, stop in spans(len(signs), max(1, _WORDS // max(signs.shape[1], 1))):
            if np.any(signs[start:stop] & ~seen[start:stop]):
                raise ArgumentError("signs", "0 where nothing is seen", "set bits")

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        return self.signs.shape

    @property
    def n(self) -> int:
        """Number of columns N."""
        return self.signs.n

    @property
    def nbytes(self) -> int:
        """Bytes held by both planes."""
        return self.signs.nbytes + self.seen.nbytes

    @property
    def presence(self) -> Self:
        """Rows of 1 where there is an entry and 0 where there is none.

        Sums of these count: `gram(p.presence)` the columns that two rows share, and
        `second_moment(p.presence)` the rows in which two columns are both seen.
        """
        return type(self)(self.seen, self.seen)

    def __len__(self) -> int:
        return len(self.signs)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> Self:
        """Rows `rows` (a slice, a mask or an index array); views where NumPy gives them."""
        return type(self)(self.signs[rows], self.seen[rows])


def pack_masked(x: Any, mask: Any = None) -> PackedBits | MaskedBits:
    """Pack an (M, N) array of +-1, of 0/1, or of booleans, entries of which may be missing.

    What is missing: NaN; None in an array of objects; what `mask`, or the mask of a NumPy masked
    array, says. Where -1 occurs anywhere in the array, 0 is missing too; without any -1 the array
    is one of 0/1, in which 0 is an entry (false). So one batch of many that has 0 and 1 only is
    taken for 0/1: give NaN or a mask where data come in batches. Rows and columns may be missing
    altogether. An array without gaps becomes a `PackedBits`, at the cost of `pack`.

    Parameters
    ----------
    x : (M, N), of any real dtype or of objects (None and numbers), on the host or on a device.
    mask : (M, N) of booleans, true where an entry is missing, whatever stands there.

    Raises
    ------
    ArgumentError : not two-dimensional, not real numbers, a mask of another shape, or another value
        (the first one is named with its row and column).

    Examples
    --------
    >>> pack_masked(np.array([[1, 0], [1, 1]])).shape  # 0/1, without gaps
    (2, 2)
    >>> unpack(pack_masked([[1, 0], [np.nan, 1]])).tolist()
    [[1, -1], [0, 1]]
    """
    x, mask = _table(x, mask)
    found = planes.pack_planes(x, mask)
    if found is None:
        row, column = first_bad(x, mask) or (0, 0)
        raise bits.bad_value(to_host(x), row, column)
    signs, seen = found
    return signs if seen is None else MaskedBits(signs, seen)


def _table(x: Any, mask: Any) -> tuple[Any, Any]:
    """Return the array and the mask of what is missing, or None, both checked."""
    if isinstance(x, np.ma.MaskedArray):
        own = np.ma.getmaskarray(x) if np.ma.is_masked(x) else None
        x, mask = x.data, own if mask is None or own is None else np.asarray(mask) | own
    if not on_device(x):
        x = np.asarray(x)
        mask = mask if mask is None or on_device(mask) else np.asarray(mask)
    if x.ndim != 2 or x.dtype.kind not in "biufO":
        raise ArgumentError("x", "a two-dimensional real array", f"{x.dtype} of shape {x.shape}")
    if mask is not None and (mask.shape != x.shape or mask.dtype != np.bool_):
        got = f"{mask.dtype} of shape {mask.shape}"
        raise ArgumentError("mask", f"booleans of shape {x.shape}", got)
    return x, mask


def first_bad(x: Any, mask: Any = None) -> tuple[int, int] | None:
    """Return row and column of the first value that `pack_masked` refuses, None if there is none.

    Parameters
    ----------
    x, mask : as of `pack_masked`.

    Examples
    --------
    >>> first_bad([[1, None], [0, 7]])
    (1, 1)
    """
    x, mask = _table(x, mask)
    x, mask = to_host(x), None if mask is None else to_host(mask)
    allowed = (-1, 0, 1) if mask is None and x.dtype.kind in "biu" else (-1, 0, 1, planes.GONE)
    for start, stop in spans(len(x), max(1, bits.CHUNK // max(x.shape[1], 1))):
        codes = planes.entries(x[start:stop], None if mask is None else mask[start:stop])
        bad = np.argwhere(~np.isin(codes, allowed))
        if len(bad):
            return start + int(bad[0][0]), int(bad[0][1])
    return None


def with_gaps(p: PackedBits | MaskedBits) -> MaskedBits:
    """Return rows `p` in the form of those with gaps, complete ones too.

    Examples
    --------
    >>> unpack(with_gaps(bits.pack(np.array([[1, -1]]))).presence).tolist()
    [[1, 1]]
    """
    if isinstance(p, MaskedBits):
        return p
    words = check_packed("p", p).words
    seen = words | ~words
    if p.n % bits.WORD:
        seen[:, -1] >>= np.uint64(bits.WORD - p.n % bits.WORD)
    return MaskedBits(p, type(p)(seen, p.n))


def check_rows(name: str, p: object) -> PackedBits | MaskedBits:
    """Return `p` if it is packed, with gaps or without, else raise for argument `name`."""
    if not isinstance(p, PackedBits | MaskedBits):
        rule = "a PackedBits or a MaskedBits, as made by pack() or pack_masked()"
        raise ArgumentError(name, rule, type(p).__name__)
    return p


def unpack(p: MaskedBits, dtype: DTypeLike = np.int8) -> np.ndarray:
    """Return the (M, N) array of -1, 0 (missing) and +1."""
    return planes.unpack_planes(p.signs, p.seen, dtype)


def concatenate(parts: Sequence[PackedBits | MaskedBits]) -> MaskedBits:
    """Stack rows, of which some have gaps."""
    both = [with_gaps(check_rows("parts", p)) for p in parts]
    return MaskedBits(
        bits.concatenate([p.signs for p in both]), bits.concatenate([p.seen for p in both])
    )


def transpose(p: MaskedBits) -> MaskedBits:
    """Return the (N, M) transpose."""
    return MaskedBits(bits.transpose(p.signs), bits.transpose(p.seen))


def column_sums(p: MaskedBits) -> np.ndarray:
    """Return the N sums over rows of the entries that are seen, int64."""
    return bits.column_sums(p.signs) + len(p) - seen_counts(p)


def seen_counts(p: PackedBits | MaskedBits) -> np.ndarray:
    """Return how many entries of each column are seen, (N,) int64.

    Parameters
    ----------
    p : (M, N), packed.

    Examples
    --------
    >>> seen_counts(pack_masked(np.array([[1, 0], [-1, 1]]))).tolist()
    [2, 1]
    """
    p = check_rows("p", p)
    if isinstance(p, PackedBits):
        return bits.column_sums(p) * 0 + len(p)
    return (bits.column_sums(p.seen) + len(p)) // 2


def gram(p: MaskedBits) -> np.ndarray:
    """Return ``eta eta^T``, (M, M) int32: over the columns that two rows share."""
    return planes.inner_products(_planes(p))


def cross_gram(a: PackedBits | MaskedBits, b: PackedBits | MaskedBits) -> np.ndarray:
    """Return ``eta_a eta_b^T``, (Ma, Mb) int32, where either or both have gaps."""
    if check_rows("b", b).n != check_rows("a", a).n:
        raise ArgumentError("b", f"of {a.n} columns like a", b.n)
    return planes.inner_products(_planes(with_gaps(a)), _planes(with_gaps(b)))


def second_moment(p: MaskedBits, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the sum over rows of ``w_m eta_m eta_m^T``, (N, N), as for complete rows."""
    if weights is None:
        return gram(transpose(p))
    if on_device(p.signs):
        from hopfed.kernels.cuda.planes import weighted_moment

        return weighted_moment(p.signs, p.seen, weights)
    return moments.weighted_moment(p, weights)


def matmat(p: MaskedBits, X: np.ndarray) -> np.ndarray:
    """Return ``eta X``, (M, k) or (M,)."""
    return planes.product(_planes(p), X, transposed=False)


def rmatmat(p: MaskedBits, U: np.ndarray) -> np.ndarray:
    """Return ``eta^T U``, (N, k) or (N,)."""
    return planes.product(_planes(p), U, transposed=True)


def seen_matmat(p: PackedBits | MaskedBits, X: np.ndarray) -> np.ndarray:
    """Return for each row the sum of the rows of X at the columns that are seen, (M, k).

    That is ``matmat(p.presence, X)``, at the cost of complete rows; where these are complete, it is
    the sum of all rows of X.

    Parameters
    ----------
    p : (M, N), packed.
    X : (N, k) or (N,), real.

    Examples
    --------
    >>> seen_matmat(pack_masked(np.array([[1, 0], [-1, 1]])), np.array([1.0, 10.0])).tolist()
    [1.0, 11.0]
    """
    p = check_rows("p", p)
    if isinstance(p, PackedBits):
        return planes.totals(p, X, transposed=False)
    return matmat(p.presence, X)


def seen_rmatmat(p: PackedBits | MaskedBits, U: np.ndarray) -> np.ndarray:
    """Return for each column the sum of the rows of U at the rows in which it is seen, (N, k).

    That is ``rmatmat(p.presence, U)``; see `seen_matmat`.

    Parameters
    ----------
    p : (M, N), packed.
    U : (M, k) or (M,), real.

    Examples
    --------
    >>> seen_rmatmat(pack_masked(np.array([[1, 0], [-1, 1]])), np.array([1.0, 10.0])).tolist()
    [11.0, 10.0]
    """
    p = check_rows("p", p)
    if isinstance(p, PackedBits):
        return planes.totals(p, U, transposed=True)
    return rmatmat(p.presence, U)


def scramble(rows: MaskedBits, null: str, rng: np.random.Generator) -> MaskedBits:
    """Return a scrambled copy: "signs" turns what is seen, "permute" moves gaps with their entries.

    The draws are those of complete rows.
    """
    again = deepcopy(rng)
    signs = shuffle.scramble(rows.signs, null, rng)
    if null == "permute":
        return MaskedBits(signs, shuffle.scramble(rows.seen, null, again))
    return MaskedBits(type(signs)(signs.words & rows.seen.words, signs.n), rows.seen)


def _planes(p: MaskedBits) -> planes.Planes:
    return p.signs, p.seen
