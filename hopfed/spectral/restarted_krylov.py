"""Leading eigenpairs from products on a device: block Lanczos with thick restarts.

The basis stays where the products are made, as a list of blocks, which are never joined; the small
projected matrix T is on the host, and so is all that is done with it. A product costs one copy
down, of what the image has in the basis and of the inner products of what it adds, and one up,
which turns that into the next block. Residuals follow from T: they need neither a product nor the
images, of which `block_krylov` keeps as many on the host as there are vectors in the basis.

A basis that grows too wide is turned into its leading Ritz vectors, with which it goes on (K. Wu
and H. Simon, SIAM J. Matrix Anal. Appl. 22 (2000) 602).

Memory, in bytes for each of the N sites, of float32 products with blocks of b columns where k pairs
are wanted and the basis has m columns: 4 m for the basis, and beside it 28 b while a block is
added, or 4 (k + (m - k) / 3) while the basis is turned. At N = 10^6, b = 64, m = 512 and k = 50
that is 3.9 GB. On the emulated device, with what products and signs of vectors need, 3.6 GB were
held for each 10^6 sites for k = 20 and 5.1 GB for k = 50, rows in bits besides (2.5 GB for 20,000).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed.kernels import PackedBits
from hopfed.kernels.dispatch import on_device

SHORT = 1e-6  # part of the longest direction of an image below which one adds nothing
MOST = 512  # columns of a basis, where as many are not needed
BYTES = 3 << 30  # of a basis, where as many are not needed
FEW = 1 << 12  # sites that start from normal numbers
OFTEN = 1.2  # by which a basis grows between two looks at its Ritz values


class Found(NamedTuple):
    """What the products show of the spectrum.

    Attributes
    ----------
    values : (m,) Ritz values on the host, descending.
    vectors : (N, k) Ritz vectors of those wanted, in the precision of the products.
    residuals : (k,) norms ``|C v - lambda v|``, on the host, as T has them.
    products : how many were made.
    loose : how many of the k are not found to the tolerance.
    whole : whether the basis is all of the space.
    """

    values: np.ndarray
    vectors: Array
    residuals: np.ndarray
    products: int
    loose: int
    whole: bool


def drawn_block(n: int, width: int, rng: np.random.Generator, other: Array) -> Array:
    """Random float32 numbers (n, width) to start from, in the library and at the place of `other`.

    Many sites get signs: a bit of each is drawn here, and spread there. Of few, some columns of
    signs are alike, or eigenvectors: these get normal numbers.

    Examples
    --------
    >>> block = drawn_block(1 << 13, 3, np.random.default_rng(0), np.zeros(1))
    >>> block.shape, np.unique(block).tolist()
    ((8192, 3), [-1.0, 1.0])
    """
    if n < FEW:
        return like(rng.standard_normal((n, width)).astype(np.float32), other)
    words = rng.integers(0, 1 << 64, (n, -(-width // 64)), dtype=np.uint64)
    words[:, -1] &= np.uint64((1 << ((width - 1) % 64 + 1)) - 1)
    if not on_device(other):
        return like(kernels.unpack(PackedBits(words, width), np.float32), other)
    from hopfed.kernels.cuda.bits import DevicePacked

    return kernels.unpack(DevicePacked(like(words, other), width), np.float32)


def leading_pairs(
    product: Callable[[Array], Array],
    start: Array,
    count: Callable[[np.ndarray, bool], int],
    limit: Callable[[np.ndarray, int], np.ndarray],
    max_products: int,
) -> Found:
    """Leading eigenpairs of a symmetric positive semi-definite operator.

    Parameters
    ----------
    product : from a block (N, b) to a new array, the operator times it.
    start : (N, b) float32 or float64, the precision of everything; b columns in every block.
    count : from descending Ritz values, and whether they are all, to the number k of those wanted.
    limit : from the values and k to the (k,) residuals below which a pair counts as found.
    max_products : after so many it ends.

    Examples
    --------
    >>> A = np.diag([9.0, 4.0, 1.0, 0.5, 0.2, 0.1])
    >>> start = np.random.default_rng(0).standard_normal((6, 2))
    >>> close = lambda values, k: 1e-6 * values[:k]
    >>> found = leading_pairs(lambda X: A @ X, start, lambda values, whole: 2, close, 20)
    >>> found.values[:2].round(6), found.loose
    (array([9., 4.]), 0)
    """
    n, width = start.shape
    blocks: list[Array] = []
    T, due, products = np.zeros((0, 0)), 0, 0
    rest = namespace(start).astype(start, namespace(start).float64)
    gram = to_host(rest.T @ rest)
    block, coupling = _next_block(blocks, rest, gram, np.sqrt(gram.diagonal().max()), width)
    block = namespace(start).astype(block, start.dtype)
    while True:
        products += 1
        blocks.append(block)
        rest, columns, gram = _beyond(blocks, product)
        T = grown(T, columns)
        m, b = columns.shape
        longest = np.sqrt((columns**2).sum(axis=0) + gram.diagonal()).max()
        block, coupling = _next_block(blocks, rest, gram, longest, min(width, n - m))
        last = block.shape[1] == 0 or products >= max_products
        widest = max(min(MOST, BYTES // (4 * n)), 2 * width)
        if not (last or m >= due or m + width > widest):
            continue
        with blas_threads(1):  # of a matrix as small as this, threads wait for each other
            ascending, Y = scipy.linalg.eigh(T, driver="evd", check_finite=False)
        values, Y = np.maximum(ascending[::-1], 0.0), np.ascontiguousarray(Y[:, ::-1])
        k = count(values, m == n)
        residuals = np.linalg.norm(coupling @ Y[m - b :, :k], axis=0)
        loose = int((residuals > limit(values, k)).sum())
        enough = min(n, 2 * k + 8)
        if last or (not loose and m >= enough and products > 1):
            break
        due = max(int(OFTEN * m), enough)
        if m + width > max(widest, enough + width):
            kept = k + (m - k) // 3
            blocks[:] = [_turned(blocks, Y[:, :kept])]
            T, due = np.diag(ascending[::-1][:kept]), 0
    return Found(values, _turned(blocks, Y[:, :k]), residuals, products, loose, m == n)


def _beyond(
    blocks: list[Array], product: Callable[[Array], Array]
) -> tuple[Array, np.ndarray, np.ndarray]:
    """What the image of the last block adds to the basis, in float64, and what it has in it.

    Returns
    -------
    (N, b) array; (m, b) coefficients in the basis and (b, b) inner products, on the host.
    """
    xp = namespace(blocks[-1])
    image = xp.astype(product(blocks[-1]), blocks[-1].dtype, copy=False)
    columns = _taken_out(blocks, image)
    _taken_out(blocks, image)  # twice is enough (Kahan)
    rest = xp.astype(image, xp.float64)
    del image
    both = to_host(xp.concat([xp.astype(columns, xp.float64), rest.T @ rest], axis=0))
    return rest, both[: len(columns)], both[len(columns) :]


def _taken_out(blocks: list[Array], X: Array) -> Array:
    """Take the span of the `blocks` out of X in place; return the (m, b) coefficients."""
    parts = [q.T @ X for q in blocks]
    for q, part in zip(blocks, parts, strict=True):
        X -= q @ part
    return namespace(X).concat(parts, axis=0)


def _next_block(
    blocks: list[Array], rest: Array, gram: np.ndarray, longest: float, most: int
) -> tuple[Array, np.ndarray]:
    """Orthonormal block of at most `most` columns, and R with ``rest = block R``.

    Parameters
    ----------
    blocks : the basis, to which it is made orthogonal; its precision is that of the block.
    rest, gram : (N, b) float64, orthogonal to the basis, and its inner products.
    longest : length of which `SHORT` is the length of a direction that is left out.
    """
    xp = namespace(rest)
    with blas_threads(1):
        ascending, E = np.linalg.eigh(gram)
    kept = min(most, int((ascending > (SHORT * longest) ** 2).sum()))
    length, E = np.sqrt(ascending[::-1][:kept]), E[:, ::-1][:, :kept]
    block = rest @ like(np.ascontiguousarray(E / length), rest)
    if kept:  # what rounding did to short directions is of second order after this
        block = 1.5 * block - block @ (0.5 * (block.T @ block))
    if blocks:
        block = xp.astype(block, blocks[0].dtype)
        _taken_out(blocks, block)
    return block, length[:, None] * E.T


def grown(T: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The symmetric matrix T with more columns (m, b), and their transpose below it."""
    old = len(T)
    corner = (columns[old:] + columns[old:].T) / 2
    return np.block([[T, columns[:old]], [columns[:old].T, corner]])


def _turned(blocks: list[Array], Y: np.ndarray) -> Array:
    """The basis times Y (m, k), in one block."""
    found, start = 0, 0
    for q in blocks:
        part = namespace(q).astype(like(Y[start : start + q.shape[1]], q), q.dtype)
        found, start = q @ part + found, start + q.shape[1]
    return found
