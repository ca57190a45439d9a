"""Leading eigenpairs of a Hebbian operator from packed examples, and its shuffle null, on a device.

``C = (1/M) eta^T eta`` for packed (M, N) eta: all eigenvalues by the smaller of the two exact
Gram matrices, or the leading ones by block Krylov from the packed products (formula sheet A2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.errors import ArgumentError
from hopfed.kernels.bits import n_words
from hopfed.kernels.cuda.bits import DevicePacked, check_packed, transpose
from hopfed.kernels.cuda.gram import gram
from hopfed.kernels.cuda.products import matmat, rmatmat
from hopfed.kernels.philox import key

NULLS = ("signs", "permute")


def full_spectrum(p: DevicePacked, count: int) -> tuple[Any, Any]:
    """All min(M, N) eigenvalues of C, descending, and the `count` leading eigenvectors.

    Returns
    -------
    values : (min(M, N),) float64; vectors : (N, count) float64, orthonormal; on the device.

    Raises
    ------
    ArgumentError : `count` is negative or above the number of nonzero eigenvalues.
    """
    m, n = check_packed("p", p).shape
    xp = p.device.xp
    if min(m, n) == 0:
        raise ArgumentError("p", "of at least one row and one column", p.shape)
    G = gram(p) if m <= n else gram(transpose(p))
    values, small = xp.linalg.eigh(G.astype(np.float64) / m)
    values, small = xp.maximum(values[::-1], 0.0), small[:, ::-1]
    nonzero = int((values > 1e-12 * values[0]).sum())
    if not 0 <= count <= nonzero:
        raise ArgumentError("count", f"an integer in [0, {nonzero}]", count)
    if m > n:
        return values, xp.ascontiguousarray(small[:, :count])
    lift = small[:, :count] / xp.sqrt(m * values[:count])
    return values, rmatmat(p, lift)


def block_krylov(
    p: DevicePacked,
    count: int,
    *,
    width: int | None = None,
    tol: float = 1e-4,
    max_products: int = 30,
    seed: int = 0,
) -> tuple[Any, Any, Any]:
    """Leading eigenpairs of C by block Lanczos with full reorthogonalisation, in float32 products.

    Parameters
    ----------
    count : number of eigenpairs, from 1 to N.
    width : columns of a block, `count` + 8 by default.
    tol : residual ``|C v - lambda v|`` relative to the largest eigenvalue at which it stops.
    max_products : most products of C with a block.
    seed : of the start block, drawn on the host.

    Returns
    -------
    values : (count,) float64, descending; vectors : (N, count) float64; residuals : (count,), to
    be compared with `tol` by the caller: they say whether it converged. All on the device.
    """
    m, n = check_packed("p", p).shape
    xp = p.device.xp
    if not 1 <= count <= n or m == 0:
        raise ArgumentError("count", f"an integer in [1, {n}] with examples given", count)
    width = min(n, count + 8 if width is None else max(width, 1))
    start = np.random.default_rng(seed).standard_normal((n, width))
    block = xp.linalg.qr(xp.asarray(start))[0]
    Q, CQ = block[:, :0], block[:, :0]
    for _ in range(max_products):
        image = rmatmat(p, matmat(p, block.astype(np.float32))).astype(np.float64) / m
        Q, CQ = xp.concatenate([Q, block], axis=1), xp.concatenate([CQ, image], axis=1)
        T = Q.T @ CQ
        values, Y = xp.linalg.eigh((T + T.T) / 2)
        values, Y = values[::-1][:count], Y[:, ::-1][:, :count]
        residuals = xp.linalg.norm(CQ @ Y - (Q @ Y) * values, axis=0)
        good = Q.shape[1] >= count and float(residuals.max()) <= tol * float(values[0])
        left = n - Q.shape[1]
        if good or left == 0:
            break
        for _ in range(2):  # twice is enough (Kahan)
            image = image - Q @ (Q.T @ image)
        block = xp.linalg.qr(image)[0][:, :left]
        block = xp.linalg.qr(block - Q @ (Q.T @ block))[0]
    return values, Q @ Y, residuals


def shuffle_null(
    p: DevicePacked, *, repeats: int, null: str = "signs", seed: int = 0, first: int = 0
) -> Any:
    """Largest eigenvalue of C for each of `repeats` scrambled copies of the examples (A4).

    Parameters
    ----------
    null : "signs" flips every entry with probability 1/2; "permute" permutes every column on its
        own, which keeps the column sums.
    seed, first : repeat i is a pure function of the seed and ``first + i``.

    Returns
    -------
    (repeats,) float64 on the device. Gram matrices of several repeats are diagonalised together.
    """
    m, n = check_packed("p", p).shape
    device = p.device
    if null not in NULLS:
        raise ArgumentError("null", f"one of {', '.join(NULLS)}", repr(null))
    if repeats < 0 or min(m, n) == 0:
        raise ArgumentError("repeats", "at least 0, of a non-empty array", repeats)
    k0, k1 = (np.uint32(int(half)) for half in key(seed))
    wide, side = m <= n, min(m, n)
    source = transpose(p) if null == "permute" else p  # columns become rows of bits
    tops = device.xp.zeros(repeats, np.float64)
    together = max(1, min(repeats, device.free_memory() // (64 * side * side)))
    for start in range(0, repeats, together):
        stop = min(repeats, start + together)
        batch = device.xp.empty((stop - start, side, side), np.float64)
        for i in range(start, stop):
            copy = _scrambled(source, null, k0, k1, np.uint32(first + i))
            # A permuted copy has sites as rows: it is turned when the Gram matrix is of examples.
            turn = wide if null == "permute" else not wide
            batch[i - start] = gram(transpose(copy) if turn else copy)
        tops[start:stop] = device.xp.linalg.eigvalsh(batch)[:, -1] / m
    return tops


def _scrambled(
    p: DevicePacked, null: str, k0: np.uint32, k1: np.uint32, repeat: np.uint32
) -> DevicePacked:
    """Flip random entries, or ("permute") shuffle the bits of every row."""
    m, n = p.shape
    words = p.words.copy()
    if null == "signs":
        args = (words, np.int64(m), np.int64(n), k0, k1, repeat)
        grid = (max(1, -(-words.size // 256)), 1)
        p.device.launch("shuffle", "flip_signs", grid, args)
        return DevicePacked(words, n)
    order = p.device.xp.empty((min(m, 1 << 12), n), np.uint32)
    for row in range(0, m, len(order)):
        count = min(len(order), m - row)
        given = (
            words[row:], np.int64(count), np.int64(n), np.int64(n_words(n)), np.uint32(row), order,
            k0, k1, repeat,
        )  # fmt: skip
        p.device.launch("shuffle", "permute_rows", (-(-count // 128), 1), given, 128)
    return DevicePacked(words, n)
