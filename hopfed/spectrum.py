"""Leading eigenpairs of a Hebbian operator, with residuals and a status.

Three routes, chosen by size (A2, form 2):

- *gram*: R rows over N > R sites. The nonzero spectrum is that of the R x R Gram matrix; an
  eigenvector u of it lifts to ``v = rows^T sqrt(w) u / sqrt(lambda)``.
- *dense*: the N x N matrix, when there are fewer sites than rows (or it is all there is).
- *krylov*: block Krylov with Rayleigh-Ritz, when both are large or when the operator can only be
  applied, as over a federation, where every product is one exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from hopfed import kernels
from hopfed.arrays import blas_threads, to_host
from hopfed.errors import ArgumentError
from hopfed.kernels import PackedBits
from hopfed.operators import (
    DenseOperator,
    FactorOperator,
    HebbianOperator,
    SketchOperator,
    transposed_times,
)
from hopfed.rng import stream
from hopfed.tridiagonal import Tridiagonal

ROUTES = ("auto", "gram", "dense", "krylov")
SMALL = 1_500  # side of a matrix below which its eigenproblem runs in one thread
FULL_LIMIT = 3_000  # the smaller side up to which every eigenvalue is computed, in seconds
EXPLICIT_LIMIT = 12_000  # up to which the small matrix is made, and its products taken instead

ITERATED_TOL = 3e-3  # angle to the eigenvectors where the small matrix is iterated on

Wanted = int | Callable[[np.ndarray, bool], int]  # from (eigenvalues, whether all are there)


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of the second-moment matrix ``C`` of shape (N, N).

    Attributes
    ----------
    values : (m,) eigenvalues, descending; every nonzero one when `complete`.
    vectors : (N, k) orthonormal eigenvectors of the k leading ones, signs by `canonical_gauge`.
    residuals : (k,) norms ``|C v - lambda v|``.
    n_sites, n_examples : N and the effective M.
    complete : whether `values` is the whole nonzero spectrum.
    route : "gram", "dense" or "krylov".
    products : times the operator was applied to a block (exchanges, over a federation).
    status : "converged", or what is wrong and what to do.
    """

    values: np.ndarray
    vectors: np.ndarray = field(repr=False)
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
) -> Spectrum:
    """Compute the leading eigenpairs of `operator`.

    Parameters
    ----------
    operator : factor, dense or sketch form, or anything with `matmat` by the krylov route.
    wanted : how many vectors, or a function from the descending eigenvalues, and whether they are
        all the nonzero ones, to that number (a rank rule), so that the spectrum itself decides.
    route : "auto", "gram", "dense" or "krylov".
    seed, width, tol, max_products : of the krylov route: start block, its columns, the residual
        relative to the gap below the wanted eigenvalues at which a pair counts as found (a bound
        on the angle to the eigenvector), and the most products.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, -1, 1, -1]])
    >>> eigenpairs(FactorOperator.from_examples(x), 1).values[:2].round(3)
    array([2.667, 1.333])
    """
    if route not in ROUTES:
        raise ArgumentError("route", f"one of {', '.join(ROUTES)}", route)
    if isinstance(operator, SketchOperator):
        operator = operator.factors()
    chosen = _choose(operator) if route == "auto" else route
    if chosen == "krylov":
        return block_krylov(
            operator, wanted, seed=seed, width=width, tol=tol, max_products=max_products
        )
    if chosen == "dense":
        return _dense(operator, wanted)
    if not isinstance(operator, FactorOperator):
        raise ArgumentError("route", "dense or krylov for an operator without rows", route)
    return _gram(operator, wanted)


def _choose(operator: HebbianOperator) -> str:
    if isinstance(operator, FactorOperator):
        rows = operator.rows.shape[0]
        if min(rows, operator.n_sites) > EXPLICIT_LIMIT:
            return "krylov"
        return "gram" if rows <= operator.n_sites else "dense"
    return "dense" if isinstance(operator, DenseOperator) else "krylov"


def _gram(operator: FactorOperator, wanted: Wanted) -> Spectrum:
    root = np.sqrt(to_host(operator.weights) / operator.mass)
    if isinstance(operator.rows, PackedBits):
        G = kernels.gram(operator.rows).astype(np.float64)
    else:
        rows = to_host(operator.rows).astype(np.float64)
        G = rows @ rows.T
    G *= root[:, None] * root[None, :]
    values, small, iterated = _leading(G, wanted)
    lift = root[:, None] * small / np.sqrt(values[: small.shape[1]])
    vectors = to_host(transposed_times(operator.rows, lift))
    return _checked(operator, values, vectors, "gram", iterated)


def _dense(operator: HebbianOperator, wanted: Wanted) -> Spectrum:
    if isinstance(operator, DenseOperator):
        C = to_host(operator.matrix) / operator.mass
    elif isinstance(operator, FactorOperator) and isinstance(operator.rows, PackedBits):
        C = kernels.second_moment(operator.rows, operator.weights) / operator.mass
    elif isinstance(operator, FactorOperator):
        rows = to_host(operator.rows).astype(np.float64)
        C = (rows.T * (to_host(operator.weights) / operator.mass)) @ rows
    else:
        raise ArgumentError("route", "krylov for an operator that can only be applied", "dense")
    values, vectors, iterated = _leading(np.asarray(C, dtype=np.float64), wanted)
    return _checked(operator, values, vectors, "dense", iterated)


def _leading(A: np.ndarray, wanted: Wanted) -> tuple[np.ndarray, np.ndarray, str | None]:
    """Eigenvalues of `A`, descending, and the eigenvectors of those wanted.

    All eigenvalues and None up to FULL_LIMIT; beyond, the leading ones by block Krylov on A, and
    its status.
    """
    n = len(A)
    if n > FULL_LIMIT:
        whole = DenseOperator(n, 1.0, 1.0, A)
        found = block_krylov(whole, wanted, tol=ITERATED_TOL, max_products=60)
        return found.values, found.vectors, found.status
    # On a small matrix a second thread gains a third, and costs twentyfold where the core that it
    # waits for is taken by another program.
    with blas_threads(1 if n < SMALL else None):
        reduced = Tridiagonal.of(A)
        values = reduced.values()
        return values, reduced.vectors(_count(wanted, values, True)), None


def _checked(
    operator: HebbianOperator,
    values: np.ndarray,
    vectors: np.ndarray,
    route: str,
    iterated: str | None,
) -> Spectrum:
    """Attach residuals, measured by one product with the operator itself."""
    vectors = canonical_gauge(np.ascontiguousarray(vectors))
    found = values[: vectors.shape[1]]
    residuals = np.linalg.norm(to_host(operator.matmat(vectors)) - vectors * found, axis=0)
    status = iterated or "converged"
    if iterated is None and (residuals > 1e-6 * values[:1].max(initial=1.0)).any():
        status = "residuals above 1e-6: use route='krylov'"
    return Spectrum(
        values=values,
        vectors=vectors,
        residuals=residuals,
        n_sites=operator.n_sites,
        n_examples=operator.n_examples,
        complete=iterated is None,
        route=route,
        products=1,
        status=status,
    )


def block_krylov(
    operator: HebbianOperator,
    wanted: Wanted,
    *,
    seed: int = 0,
    width: int = 64,
    tol: float = 0.03,
    max_products: int = 30,
) -> Spectrum:
    """Leading eigenpairs from products alone: block Lanczos, fully reorthogonalised.

    Stops when every pair that `wanted` asks for has a residual below `tol` times its distance to
    the first unwanted Ritz value, and the basis is at least twice as wide as their number. See
    `eigenpairs` for the parameters.
    """
    n = operator.n_sites
    width = min(width, n)
    block = np.linalg.qr(stream(seed, "krylov", n).standard_normal((n, width)))[0]
    Q = np.zeros((n, 0), dtype=np.float32)
    CQ = np.zeros((n, 0), dtype=np.float32)
    status = "converged"
    for products in range(1, max_products + 1):
        image = to_host(operator.matmat(block.astype(np.float32)))
        Q = np.hstack([Q, block.astype(np.float32)])
        CQ = np.hstack([CQ, image])
        values, vectors, residuals = _ritz(Q, CQ, wanted)
        k = len(residuals)
        enough = Q.shape[1] >= min(n, 2 * k + 8)
        loose = residuals > tol * (values[:k] - values[k : k + 1].max(initial=0.0))
        if enough and products > 1 and not loose.any():
            break
        block = _orthonormal_complement(Q, image, width)
        if block.shape[1] == 0:
            break
    else:
        status = (
            f"{loose.sum()} of {k} pairs not converged in {products} products: raise max_products"
        )
    whole = Q.shape[1] == n
    return Spectrum(
        values=values,
        vectors=canonical_gauge(vectors),
        residuals=residuals,
        n_sites=n,
        n_examples=operator.n_examples,
        complete=whole,
        route="krylov",
        products=products,
        status=status,
    )


def _ritz(
    Q: np.ndarray, CQ: np.ndarray, wanted: Wanted
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    T = (Q.T @ CQ).astype(np.float64)
    values, Y = np.linalg.eigh((T + T.T) / 2)
    values, Y = np.maximum(values[::-1], 0.0), Y[:, ::-1]
    single = 1e-5  # products are in single precision: below this an eigenvalue is zero
    Y = Y[:, : _count(wanted, values, Q.shape[1] == Q.shape[0], single)].astype(np.float32)
    vectors = Q @ Y
    residuals = np.linalg.norm(CQ @ Y - vectors * values[: Y.shape[1]], axis=0)
    return values, vectors.astype(np.float64), residuals


def _orthonormal_complement(Q: np.ndarray, block: np.ndarray, width: int) -> np.ndarray:
    """Orthonormal basis of what `block` adds to span(Q); twice is enough (Kahan)."""
    block = block.astype(np.float64)
    scale = np.linalg.norm(block, axis=0).max(initial=1e-300)
    for _ in range(2):
        block = block - Q @ (Q.T @ block)
    B, R, _ = scipy.linalg.qr(block, mode="economic", pivoting=True)
    keep = np.abs(np.diag(R)) > 1e-6 * scale
    B = B[:, keep][:, : min(width, Q.shape[0] - Q.shape[1])]
    return B - Q @ (Q.T @ B)


def _count(wanted: Wanted, values: np.ndarray, complete: bool, floor: float = 1e-12) -> int:
    count = wanted(np.maximum(values, 0.0), complete) if callable(wanted) else wanted
    if count < 0:
        raise ArgumentError("wanted", "a count of eigenvectors, at least 0", count)
    return min(count, int((values > floor * max(values[0], 1e-300)).sum()))


def canonical_gauge(vectors: np.ndarray) -> np.ndarray:
    """Fix the signs of eigenvectors so that gauge transforms of the sites carry through.

    Each column is flipped so that its product with the magnitudes of the first, taken in the
    gauge where the first is positive, has its largest entry positive. Flipping coordinates of
    the data then flips the same rows of the result and changes nothing else, up to one sign.
    """
    if vectors.shape[1] == 0:
        return vectors
    gauge = site_gauge(vectors)
    relative = vectors * gauge[:, None]
    largest = np.abs(relative).argmax(axis=0)
    signs = np.sign(relative[largest, np.arange(vectors.shape[1])])
    return vectors * np.where(signs == 0, 1.0, signs)


def site_gauge(vectors: np.ndarray) -> np.ndarray:
    """(N,) signs of the leading eigenvector: the frame in which searches draw their randomness."""
    return np.where(vectors[:, 0] >= 0, 1.0, -1.0)
