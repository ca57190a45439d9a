"""Signs of eigenvectors, which are free: chosen so that the frame of the sites does not matter."""

from __future__ import annotations

from hopfed._lib.arrays import Array, namespace

TIE = 1e-6  # part by which entries of eigenvectors differ at least, or rounding orders them


def canonical_gauge(vectors: Array) -> Array:
    """Fix the signs of eigenvectors so that gauge transforms of the sites carry through.

    Each column is flipped so that its product with the magnitudes of the first, taken in the
    gauge where the first is positive, has its largest entry positive. Flipping coordinates of
    the data then flips the same rows of the result and changes nothing else, up to one sign.

    Parameters
    ----------
    vectors : (N, k) eigenvectors in columns, the leading one first.
    """
    if vectors.shape[1] == 0:
        return vectors
    xp = namespace(vectors)
    relative = vectors * site_gauge(vectors)[:, None]
    sizes = xp.abs(relative)
    largest = xp.argmax(xp.astype(sizes >= (1 - TIE) * xp.max(sizes, axis=0), xp.int8), axis=0)
    entries = xp.take_along_axis(relative, largest[None, :], axis=0)[0, :]
    return vectors * _signs(entries)


def site_gauge(vectors: Array) -> Array:
    """(N,) signs of the leading one of eigenvectors (N, k), the frame in which searches draw."""
    return _signs(vectors[:, 0] + TIE / vectors.shape[0])  # 0 is known up to rounding


def _signs(x: Array) -> Array:
    """Signs as float64; that of 0 is +1."""
    xp = namespace(x)
    return 2 * xp.astype(x >= 0, xp.float64) - 1
