"""Leading eigenpairs of a Hebbian operator, with residuals and a status.

Three routes, chosen by size (theory/NOTES.md, "Low-rank forms"):

- *gram*: R rows over N > R sites. The nonzero spectrum is that of the R x R Gram matrix; an
  eigenvector u of it lifts to ``v = rows^T sqrt(w) u / sqrt(lambda)``.
- *dense*: the N x N matrix, if there are fewer sites than rows (or only the matrix is given).
- *krylov*: block Krylov with Rayleigh-Ritz, if both are large or if the operator can only be
  applied, as over a federation, where every product is one exchange. A basis that grows too wide is
  replaced by its leading Ritz vectors (K. Wu and H. Simon, SIAM J. Matrix Anal. Appl. 22 (2000)
  602): 50 pairs of N = 10^6 sites take 3.9 GB.

Matrices and vectors stay in the array library and on the device of the operator; eigenvalues are
copied to the host, where rank rules count them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.linalg

from hopfed import kernels
from hopfed._lib.arrays import Array, all_to_host, blas_threads, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, BackendError
from hopfed.kernels import Rows
from hopfed.kernels.dispatch import on_device
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, explicit
from hopfed.spectral.rows import inner_products, transposed_times

TIE = 1e-6  # relative difference of entries of eigenvectors that counts as a tie


def canonical_gauge(vectors: Array) -> Array:
    """Fix signs of the eigensolver's vectors (N, k), consistently with gauge transforms."""
    # The largest entry of each is made positive in the gauge in which the first vector is positive,
    # so flipping coordinates of the data flips the same rows and changes nothing else.
    if vectors.shape[1] == 0:
        return vectors
    xp = namespace(vectors)
    relative = vectors * site_gauge(vectors)[:, None]
    sizes = xp.abs(relative)
    largest = xp.argmax(xp.astype(sizes >= (1 - TIE) * xp.max(sizes, axis=0), xp.int8), axis=0)
    entries = xp.take_along_axis(relative, largest[None, :], axis=0)[0, :]
    return vectors * _signs(entries)


def site_gauge(vectors: Array) -> Array:
    """(N,) signs of the eigensolver's leading vector in (N, k), the frame of searches."""
    return _signs(vectors[:, 0] + TIE / vectors.shape[0])  # 0 is known up to rounding


def _signs(x: Array) -> Array:
    """Signs as float64; that of 0 is +1."""
    xp = namespace(x)
    return xp.where(x >= 0, np.float64(1), np.float64(-1))


SHORT = 1e-6  # length relative to the longest below which a direction of an image is dropped
MOST = 512  # most columns of a basis, unless more are needed
BYTES = 3 << 30  # most bytes of a basis, unless more are needed
FEW = 1 << 12  # number of sites below which the start block is normal numbers, on the host
OFTEN = 1.2  # factor by which a basis grows between two computations of Ritz values
FIRST_LOOK = 3  # products before the first of them on a device, where a product is cheap


class RitzPairs(NamedTuple):
    """Spectrum as the products show it."""

    values: np.ndarray  # (m,) Ritz values on the host, descending
    vectors: Array  # (N, k) wanted Ritz vectors, in the precision of the products
    residuals: np.ndarray  # (k,) norms ``|C v - lambda v|`` on the host, computed from T
    products: int  # number of products
    loose: int  # number of the k pairs above the tolerance
    whole: bool  # whether the basis spans the whole space


def draw_block(n: int, width: int, rng: np.random.Generator, other: Array) -> Array:
    """Random float32 start block (n, width) of the eigensolver, in the library of `other`."""
    there = on_device(other)
    if n < (FEW // 4 if there else FEW):  # columns of random signs could be equal, or eigenvectors
        return like(rng.standard_normal((n, width)).astype(np.float32), other)
    words = rng.integers(0, 1 << 64, (n, -(-width // 64)), dtype=np.uint64)
    words[:, -1] &= np.uint64((1 << ((width - 1) % 64 + 1)) - 1)  # a bit per number
    bits = Rows(like(words, other) if there else words, width)
    return like(kernels.unpack(bits, np.float32), other)


def leading_pairs(
    product: Callable[[Array], Array],
    start: Array,
    count: Callable[[np.ndarray, bool], int],
    limit: Callable[[np.ndarray, int], np.ndarray],
    max_products: int,
    first_look: int = 1,
) -> RitzPairs:
    """Leading eigenpairs of a positive semi-definite operator, from products with blocks (N, b).

    The precision is that of `start` (N, b); `count` returns the number k of wanted pairs from the
    Ritz values, and `limit` the largest residuals (k,) of converged pairs. Ritz values are first
    computed after `first_look` products, since on a device this takes a copy.
    """
    n, width = start.shape
    xp = namespace(start)
    blocks: list[Array] = []
    T, due, products = np.zeros((0, 0)), 0, 0
    unseen: list[Array] = []  # coefficients of images since T was last computed
    rest = xp.astype(start, xp.float64)
    gram = rest.T @ rest
    longest = xp.sqrt(xp.max(xp.linalg.diagonal(gram)))
    block, coupling = _next_block(blocks, rest, gram, longest, width)
    block = xp.astype(block, start.dtype)
    while True:
        products += 1
        blocks.append(block)
        image = xp.astype(product(block), block.dtype, copy=False)
        if on_device(block):  # a launch for all blocks
            blocks[:] = [xp.concat(blocks, axis=1) if len(blocks) > 1 else block]
        with blas_threads(1):  # threads would slow down so thin a product
            columns = xp.astype(_project_out(blocks, image), xp.float64)
            _project_out(blocks, image)  # twice is enough (Kahan)
            rest = xp.astype(image, xp.float64)
            gram = rest.T @ rest
        unseen.append(columns)
        m, b = columns.shape
        longest = xp.sqrt(xp.max(xp.sum(columns**2, axis=0) + xp.linalg.diagonal(gram)))
        block, coupling = _next_block(blocks, rest, gram, longest, min(width, n - m))
        last = block.shape[1] == 0 or products >= max_products
        widest = max(min(MOST, BYTES // (4 * n)), 2 * width)
        if not (last or (m >= due and products >= first_look) or m + width > widest):
            continue
        *grew, coupling = all_to_host(*unseen, coupling)
        last |= not coupling.any()  # the basis is invariant
        for more in grew:
            corner, more = (more[len(T) :] + more[len(T) :].T) / 2, more[: len(T)]
            T = np.block([[T, more], [more.T, corner]])
        unseen.clear()
        with blas_threads(1):  # threads would slow down so small a matrix
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
            blocks[:] = [_rotate_basis(blocks, Y[:, :kept])]
            T, due = np.diag(ascending[::-1][:kept]), 0
    return RitzPairs(values, _rotate_basis(blocks, Y[:, :k]), residuals, products, loose, m == n)


def _project_out(blocks: list[Array], X: Array) -> Array:
    """Project the span of `blocks` out of X in place; return the (m, b) coefficients."""
    parts = [q.T @ X for q in blocks]
    for q, part in zip(blocks, parts, strict=True):
        X -= q @ part
    return parts[0] if len(parts) == 1 else namespace(X).concat(parts, axis=0)


def _next_block(
    blocks: list[Array], rest: Array, gram: Array, longest: Array, most: int
) -> tuple[Array, Array]:
    """Orthonormal block of at most `most` columns, and R with ``rest = block R``."""
    xp = namespace(rest)
    with blas_threads(1):
        ascending, E = xp.linalg.eigh(gram)
        adds = ascending > (SHORT * longest) ** 2
        if isinstance(gram, np.ndarray):
            most = min(most, int(adds.sum()))
        top = slice(gram.shape[0] - most, None)
        adds, E = xp.flip(adds[top], axis=0), xp.flip(E[:, top], axis=1)
        length = xp.sqrt(xp.where(adds, xp.flip(ascending[top], axis=0), 1.0)) * adds
        turn = E / xp.where(adds, length, 1.0) * adds
        block = rest @ (np.ascontiguousarray(turn) if isinstance(gram, np.ndarray) else turn)
        if most:  # this step makes rounding errors of short directions second order
            block = 1.5 * block - block @ (0.5 * (block.T @ block))
        if blocks:
            block = xp.astype(block, blocks[0].dtype)
            _project_out(blocks, block)
    return block, length[:, None] * E.T


def _rotate_basis(blocks: list[Array], Y: np.ndarray) -> Array:
    """Return the basis times Y (m, k), as a single block."""
    found, start, Y = 0, 0, like(Y, blocks[0])
    for q in blocks:
        part = namespace(q).astype(Y[start : start + q.shape[1]], q.dtype)
        found, start = q @ part + found, start + q.shape[1]
    return found


Wanted = int | Callable[[np.ndarray, bool], int]  # a function of (eigenvalues, whether complete)


class SmallPairs(NamedTuple):
    """Eigenpairs of a small matrix."""

    values: np.ndarray  # on the host, descending
    there: Array  # (k,) eigenvalues of the vectors, on their device
    vectors: Array  # the k wanted eigenvectors
    iterated: str | None = None  # status of an iteration; None if all values were computed


def all_pairs(A: Array, wanted: Wanted) -> SmallPairs:
    """Eigenpairs of a small matrix, by an eigensolver of all vectors or none, as on a device."""
    xp = namespace(A)
    ascending, vectors = xp.linalg.eigh(A) if wanted != 0 else (xp.linalg.eigvalsh(A), A[:, :0])
    values = np.maximum(to_host(ascending)[::-1], 0.0)
    count = count_wanted(wanted, values, True)
    there = xp.flip(ascending[ascending.shape[0] - count :], axis=0)  # above 0 by `count_wanted`
    return SmallPairs(values, there, xp.flip(vectors[:, vectors.shape[1] - count :], axis=1))


def count_wanted(wanted: Wanted, values: np.ndarray, complete: bool, floor: float = 1e-12) -> int:
    """Number of wanted vectors of the eigensolver, at most that of nonzero eigenvalues."""
    count = wanted(np.maximum(values, 0.0), complete) if callable(wanted) else wanted
    return max(min(count, int((values > floor * max(values[0], 1e-300)).sum())), 0)


__all__ = ["Spectrum", "eigenpairs"]

ROUTES = ("auto", "gram", "dense", "krylov")
SMALL = 1_500  # side of a matrix below which its eigenproblem runs in one thread
FULL_LIMIT = 3_000  # smaller side up to which every eigenvalue is computed, within seconds
EXPLICIT_LIMIT = 12_000  # smaller side up to which the small matrix is formed and iterated on

ITERATED_TOL = 3e-3  # largest angle to the eigenvectors when the small matrix is iterated on


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of the second-moment matrix ``C`` of shape (N, N).

    Attributes
    ----------
    values : (m,) eigenvalues, descending; every nonzero one when `complete`.
    vectors : (N, k) orthonormal eigenvectors of the k leading eigenvalues, signs by
        `canonical_gauge`; in the array library and on the device of the operator, as residuals may
        be. All other arrays are on the host.
    residuals : (k,) norms ``|C v - lambda v|``.
    n_sites, n_examples : N and the effective M.
    complete : whether `values` is the whole nonzero spectrum.
    route : "gram", "dense" or "krylov".
    products : number of products of the operator with a block (exchanges, over a federation).
    status : "converged", or a sentence with the problem and its remedy.

    >>> from hopfed.spectral.operators import DenseOperator
    >>> x = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, -1, 1, -1]])
    >>> spectrum = eigenpairs(DenseOperator.from_examples(x), 1)
    >>> spectrum.values.round(3), spectrum.vectors.ravel().round(3)
    (array([2.667, 1.333, 0.   , 0.   ]), array([-0.5, -0.5, -0.5, -0.5]))
    >>> spectrum.route, spectrum.status, round(spectrum.aspect, 3)
    ('dense', 'converged', 1.333)
    """

    values: np.ndarray
    vectors: Array = field(repr=False)
    residuals: np.ndarray = field(repr=False)
    n_sites: int
    n_examples: float
    complete: bool
    route: str
    products: int
    status: str

    @property
    def aspect(self) -> float:
        """``q = N / M``."""
        return self.n_sites / self.n_examples


def eigenpairs(
    operator: HebbianOperator,
    wanted: Wanted,
    *,
    route: str = "auto",
    seed: int = 0,
    width: int = 64,
    tol: float = 0.03,
    max_products: int = 30,
    start: Array | None = None,
) -> Spectrum:
    """Compute the leading eigenpairs of `operator`.

    Parameters
    ----------
    operator : factor or dense form, or any operator with `matmat` for the krylov route.
    wanted : number of vectors, or a function (a rank rule) of the descending eigenvalues, and of
        whether these are all nonzero ones, that returns the number.
    route : "auto", "gram", "dense" or "krylov".
    seed, width, tol, max_products : for the krylov route: seed and columns of the start block, the
        residual relative to the gap below the wanted eigenvalues at which a pair has converged (a
        bound on the angle to the eigenvector), and the largest number of products.
    start : (N, k) guesses of eigenvectors with which the krylov route starts.

    >>> import numpy as np
    >>> x = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, -1, 1, -1]])
    >>> eigenpairs(FactorOperator.from_examples(x), 1).values[:2].round(3)
    array([2.667, 1.333])
    """
    require(route in ROUTES, "route", f"one of {', '.join(ROUTES)}", route)
    known = callable(wanted) or (isinstance(wanted, Integral) and wanted >= 0)
    require(known, "wanted", "a whole number of vectors, or a rule", wanted)
    chosen = route
    if route == "auto":
        chosen = "dense" if isinstance(operator, DenseOperator) else "krylov"
    if route == "auto" and isinstance(operator, FactorOperator):
        rows, n = operator.rows.shape[0], operator.n_sites
        # A Gram matrix would gather all rows in memory, and rows that are not held may not fit.
        apart = not operator.held and rows <= n
        if min(rows, n) <= EXPLICIT_LIMIT and not apart:
            chosen = "gram" if rows <= n else "dense"
    try:
        if chosen == "krylov":
            return _krylov(operator, wanted, seed, width, tol, max_products, start)
        if chosen == "dense":
            return _dense(operator, wanted)
        if not isinstance(operator, FactorOperator):
            raise ArgumentError("route", "dense or krylov for an operator without rows", route)
        return _gram(operator, wanted)
    except MemoryError as error:
        if isinstance(operator.home, np.ndarray):
            raise
        advice = "use fewer rows" if chosen == "krylov" else "use route='krylov'"
        fault = f"out of device memory in the {chosen} route: {advice} ({error})"
        raise BackendError(fault) from None


def _gram(operator: FactorOperator, wanted: Wanted) -> Spectrum:
    root = namespace(operator.weights).sqrt(operator.weights / operator.mass)
    G = inner_products(operator.rows)
    G *= root[:, None] * root[None, :]
    found = _leading(G, wanted)
    lift = root[:, None] * found.vectors / namespace(root).sqrt(found.there)
    return _checked(operator, found, transposed_times(operator.rows, lift), "gram", G)


def _dense(operator: HebbianOperator, wanted: Wanted) -> Spectrum:
    found = _leading(C := explicit(operator), wanted)
    here = isinstance(found.vectors, np.ndarray)
    vectors = np.ascontiguousarray(found.vectors) if here else found.vectors
    return _checked(operator, found, vectors, "dense", C)


def _leading(A: Array, wanted: Wanted) -> SmallPairs:
    """Eigenpairs of `A`: all eigenvalues up to side FULL_LIMIT, else leading ones by Krylov."""
    n = A.shape[0]
    if n > FULL_LIMIT:
        whole = DenseOperator(n, 1.0, 1.0, A)
        found = _krylov(whole, wanted, tol=ITERATED_TOL, max_products=60)
        there = like(found.values[: found.vectors.shape[1]], found.vectors)
        return SmallPairs(found.values, there, found.vectors, found.status)
    if not isinstance(A, np.ndarray):
        return all_pairs(A, wanted)
    # For a small matrix a second thread saves a third of the time, but takes twenty times as long
    # if another program occupies its core.
    with blas_threads(1 if n < SMALL else None):
        ascending = scipy.linalg.eigvalsh(A, check_finite=False)
        values = np.maximum(ascending[::-1].astype(np.float64), 0.0)
        k = count_wanted(wanted, values, True)
        vectors = A[:, :0]
        if k:
            vectors = scipy.linalg.eigh(A, subset_by_index=(n - k, n - 1), check_finite=False)[1]
    vectors = vectors[:, ::-1].astype(np.float64)
    return SmallPairs(values, values[:k], vectors)


def _checked(
    operator: HebbianOperator, found: SmallPairs, vectors: Array, route: str, A: Array
) -> Spectrum:
    """Return the spectrum with residuals: by the operator itself, on a device by its matrix `A`."""
    vectors, values, iterated = canonical_gauge(vectors), found.values, found.iterated
    xp, residuals = namespace(vectors), namespace(vectors).zeros(0)
    if vectors.shape[1] and isinstance(vectors, np.ndarray):
        residuals = xp.linalg.vector_norm(operator.matmat(vectors) - vectors * found.there, axis=0)
    elif vectors.shape[1]:
        missed = A @ found.vectors - found.vectors * found.there
        image = A @ missed / found.there if route == "gram" else missed  # lifted, as the vectors
        residuals = xp.sqrt(xp.abs(xp.sum(missed * image, axis=0)))
    status = iterated or "converged"
    # Not `any(residuals > most)`: a solver that fails on a device returns NaN.
    limit = 1e-4 if operator.home.dtype == xp.float32 else 1e-6
    most = limit * float(values[:1].max(initial=1.0))
    if iterated is None and not bool(xp.all(residuals <= most)):
        status = f"residuals above {limit:g}: use route='krylov'"
    size = operator.n_sites, operator.n_examples
    return Spectrum(values, vectors, residuals, *size, iterated is None, route, 1, status)


def _krylov(
    operator: HebbianOperator,
    wanted: Wanted,
    seed: int = 0,
    width: int = 64,
    tol: float = 0.03,
    max_products: int = 30,
    start: Array | None = None,
) -> Spectrum:
    """Leading eigenpairs from products alone; in float32 except for a float64 matrix."""
    n, home, xp = operator.n_sites, operator.home, namespace(operator.home)
    width, rng = min(width, n), stream(seed, "krylov", n)
    double = isinstance(operator, DenseOperator) and home.dtype == xp.float64
    kind, floor = (xp.float64, 1e-12) if double else (xp.float32, 1e-5)  # where values are zero
    first = xp.astype(draw_block(n, width, rng, home), kind)
    if start is not None:
        beside = first[:, min(start.shape[1], width - 1) :]
        first = xp.concat([xp.astype(start, kind), beside], axis=1)
    cheap = on_device(home) and isinstance(operator, FactorOperator | DenseOperator)
    found = leading_pairs(
        operator.matmat,
        first,
        lambda values, whole: count_wanted(wanted, values, whole, floor),
        lambda values, k: tol * (values[:k] - values[k : k + 1].max(initial=0.0)),
        max_products,
        FIRST_LOOK if cheap else 1,
    )
    loose = f"{found.loose} of {len(found.residuals)} pairs not converged in {found.products}"
    status = f"{loose} products: raise max_products" if found.loose else "converged"
    vectors = canonical_gauge(xp.astype(found.vectors, xp.float64))
    return Spectrum(
        found.values, vectors, found.residuals, n, operator.n_examples, found.whole, "krylov",
        found.products, status,
    )  # fmt: skip
