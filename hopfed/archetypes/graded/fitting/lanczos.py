"""Leading eigenpairs of several symmetric matrices at once, one product of each at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def leading(
    product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, steps: int, wanted: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of B symmetric matrices after so many products, by Lanczos.

    The bases are kept orthogonal in full. Values are at most the true ones, and a dense bulk is
    approached slowly, alike for all matrices of one kind: compare them after equally many steps.

    Parameters
    ----------
    product : from (B, N), a vector for each matrix, to (B, N), their products.
    start : (B, N), none of them zero.

    Returns
    -------
    values (B, wanted), descending, and unit vectors (B, wanted, N).
    """
    N = start.shape[1]
    basis = images = np.zeros((len(start), 0, N))
    q = start / np.linalg.norm(start, axis=1, keepdims=True)
    for _ in range(min(steps, N)):
        basis = np.concatenate([basis, q[:, None]], axis=1)
        images = np.concatenate([images, product(q)[:, None]], axis=1)
        q = following(basis, images)
    return pairs(basis, images, wanted)


def following(basis: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Unit vectors (B, N) that come next in orthogonal bases (B, s, N) of such images (B, s, N).

    An exhausted space goes on with zeros, which add eigenvalues 0.
    """
    q = images[:, -1].copy()
    for _ in range(2):  # once is not enough where eigenvalues are close
        q -= np.einsum("bs,bsn->bn", np.einsum("bsn,bn->bs", basis, q), basis)
    norms = np.linalg.norm(q, axis=1, keepdims=True)
    return np.where(norms > 1e-9, q / np.maximum(norms, 1e-300), 0.0)


def pairs(basis: np.ndarray, images: np.ndarray, wanted: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenpairs on spans of bases (B, s, N): (B, wanted) and (B, wanted, N)."""
    small = np.einsum("bsn,btn->bst", basis, images)
    values, E = np.linalg.eigh((small + small.transpose(0, 2, 1)) / 2)
    E = E[:, :, ::-1][:, :, :wanted]
    return values[:, ::-1][:, :wanted], np.einsum("bsn,bsk->bkn", basis, E)
