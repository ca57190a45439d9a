"""Gram and second-moment matrices of +-1 data straight from the bits, exact in integers.

For rows a, b of +-1 the inner product is ``<a, b> = N - 2 popcount(a xor b)`` (theory/NOTES.md,
"Low-rank forms", the Gram route): one exclusive-or and one population count do the work of 64
multiplications.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import WORD, PackedBits, Rows, check_packed, n_words, transpose, unpack
from hopfed.kernels.cpu.threads import for_each, spans, thread_count
from hopfed.kernels.dispatch import with_twin

_BLOCK = 1 << 22  # entries unpacked at a time for arbitrary weights
_TALLEST = 4  # tiles of a strip
_STRIPS = 4  # strips that a thread takes at least before they grow taller


@with_twin
def gram(p: Rows) -> np.ndarray:
    """Return ``eta eta^T``, (M, M) int32, for packed (M, N) examples eta; exact.

    Only the lower half of the tiles is computed, on all cores, then mirrored. Divided by M its
    nonzero eigenvalues are those of ``Jt = (1/M) eta^T eta``.

    Parameters
    ----------
    p : (M, N), packed.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> gram(pack(np.array([[1, -1, 1], [1, 1, 1]]))).tolist()
    [[3, 1], [1, 3]]
    """
    p = check_packed("p", p)
    m, n = p.shape
    out = np.zeros((m, m), np.int32)
    if out.size == 0 or n == 0:
        return out
    from hopfed.kernels.cpu.moments import add_strip

    def add(first: int, last: int, work: tuple[np.ndarray, ...]) -> None:
        add_strip(p.words, first, last, p.words, last, n, True, out, *work)

    by_strips(p, m, add, out)
    return out


def by_strips(
    p: PackedBits, m: int, add: Callable[..., None], mirrored: np.ndarray | None, planes: int = 1
) -> None:
    """Call `add` on strips of m rows and a work space on all cores; mirror what is symmetric."""
    from hopfed.kernels.cpu.moments import TILE, mirror_tile

    rows = strips(m)
    spare = work_spaces(p.words.shape[1], rows, planes)

    def task(strip: tuple[int, int]) -> None:
        first, last = strip
        work = spare.pop()
        add(first, last, work)
        spare.append(work)
        for top in range(first, last, TILE) if mirrored is not None else ():
            mirror_tile(mirrored, top, min(top + TILE, last), 0, top)

    for_each(task, reversed(rows))  # the longest first


@with_twin
def cross_gram(a: Rows, b: Rows) -> np.ndarray:
    """Return ``eta_a eta_b^T``, (Ma, Mb) int32, for two packed sets over the same N columns.

    Parameters
    ----------
    a, b : (Ma, N) and (Mb, N), packed.

    Raises
    ------
    ArgumentError : other numbers of columns.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> cross_gram(pack(np.array([[1, -1, 1]])), pack(np.array([[1, 1, 1], [-1, 1, -1]]))).tolist()
    [[1, -3]]
    """
    a, b = check_packed("a", a), check_packed("b", b)
    if b.n != a.n:
        raise ArgumentError("b", f"of {a.n} columns like a", b.n)
    out = np.zeros((len(a), len(b)), np.int32)
    if out.size == 0 or a.n == 0:
        return out
    from hopfed.kernels.cpu.moments import add_strip

    def add(first: int, last: int, work: tuple[np.ndarray, ...]) -> None:
        add_strip(a.words, first, last, b.words, len(b), a.n, False, out, *work)

    by_strips(a, len(a), add, None)
    return out


@with_twin
def second_moment(p: Rows, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the sum over rows of ``w_m eta_m eta_m^T``, (N, N): the way to take when N < M.

    Parameters
    ----------
    weights : (M,) real numbers of any sign. Without them the result is exact int32; with them it
        is float64, from bits when few distinct values occur (one exact Gram matrix for each),
        otherwise from float64 products of blocks of rows.

    Examples
    --------
    >>> from hopfed.kernels import pack
    >>> p = pack(np.array([[1, -1], [1, 1]]))
    >>> second_moment(p).tolist(), second_moment(p, np.array([1.0, 0.5])).tolist()
    ([[2, 0], [0, 2]], [[1.5, -0.5], [-0.5, 1.5]])
    """
    check_packed("p", p)
    return gram(transpose(p)) if weights is None else weighted_moment(p, weights)


def weighted_moment(p: Rows, weights: np.ndarray) -> np.ndarray:
    """``sum_m w_m eta_m eta_m^T`` of packed rows, with gaps or without; see `second_moment`."""
    m, n = p.shape
    weights = np.asarray(weights)
    if weights.shape != (m,) or weights.dtype.kind not in "biuf":
        raise ArgumentError("weights", f"{m} real numbers", f"{weights.dtype} {weights.shape}")
    if not np.isfinite(weights).all():
        raise ArgumentError("weights", "finite", weights[~np.isfinite(weights)][0])
    values, group = np.unique(weights.astype(np.float64), return_inverse=True)
    counts = np.bincount(group, minlength=len(values))
    # A word of bits costs about an eighth of the 64 float64 products that it replaces.
    if sum(WORD * n_words(int(c)) for c in counts) <= 8 * m:
        return _by_group(p, values, group)
    total = np.zeros((n, n))
    for start, stop in spans(m, max(1, _BLOCK // max(n, 1))):
        rows = unpack(p[start:stop], dtype=np.float64)
        total += (rows * weights[start:stop, None]).T @ rows
    return total


def _by_group(p: Rows, values: np.ndarray, group: np.ndarray) -> np.ndarray:
    total = np.zeros((p.n, p.n))
    for index, value in enumerate(values):
        if value != 0:
            part = gram(transpose(p[group == index])).astype(np.float64)
            part *= value
            total += part
    return total


def strips(m: int) -> list[tuple[int, int]]:
    """Rows that a thread takes at a time: many share a copy of the others, if all have work.

    Examples
    --------
    >>> strips(100)
    [(0, 64), (64, 100)]
    """
    from hopfed.kernels.cpu.moments import TILE

    tiles = m // (TILE * _STRIPS * thread_count())
    return spans(m, TILE * min(max(tiles, 1), _TALLEST))


def work_spaces(
    words: int, rows: list[tuple[int, int]], planes: int = 1
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """One work space of `add_strip` for each thread, for such strips of rows of `words` words.

    planes : of bits for each row; with more than one, they are the first axis of the work space.
    """
    from hopfed.kernels.cpu.moments import CHUNK, TILE, WORDS

    # Two tiles of two planes have two thirds of the length: more would not stay in the cache, less
    # would add up the counts of a vector more often.
    most = 2 * CHUNK // (planes + 1)
    pieces = max(1, -(-words // most))  # of a row, as long as each other
    width = -(-words // (pieces * WORDS)) * WORDS
    height = -(-(rows[0][1] - rows[0][0]) // TILE) * TILE
    first = (planes,) if planes > 1 else ()
    return [
        (
            _aligned(*first, height, width),
            _aligned(*first, TILE, width),
            np.empty((TILE, TILE), np.int64),
        )
        for _ in range(min(thread_count(), len(rows)))
    ]


def _aligned(*shape: int) -> np.ndarray:
    """Words that start where a line of the cache does: no vector of them lies across two."""
    line = 64
    spare = np.empty(8 * math.prod(shape) + line, np.uint8)
    start = -spare.ctypes.data % line
    return spare[start : start + 8 * math.prod(shape)].view(np.uint64).reshape(shape)
