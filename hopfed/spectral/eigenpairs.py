"""Leading eigenpairs of a Hebbian operator, with residuals and a status.

Three routes, chosen by size (theory/NOTES.md, "Low-rank forms"):

- *gram*: R rows over N > R sites. The nonzero spectrum is that of the R x R Gram matrix; an
  eigenvector u of it lifts to ``v = rows^T sqrt(w) u / sqrt(lambda)``.
- *dense*: the N x N matrix, when there are fewer sites than rows (or it is all there is).
- *krylov*: block Krylov with Rayleigh-Ritz, when both are large or when the operator can only be
  applied, as over a federation, where every product is one exchange.

Matrices and vectors stay in the array library and on the device of the operator; eigenvalues come
to the host, where rank rules count them. On a device the basis of an iteration is restarted, and
its small projected matrix is on the host (`hopfed.spectral.restarted_krylov`); a library's solver
of whole matrices is asked where these are small or most of the vectors are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError, BackendError
from hopfed.spectral.device_matrices import Leading, Wanted, all_pairs, counted, top
from hopfed.spectral.gauge import canonical_gauge
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, explicit
from hopfed.spectral.reread_rows import Reread
from hopfed.spectral.restarted_krylov import drawn_block, grown, leading_pairs
from hopfed.spectral.rows import Bits, inner_products, transposed_times
from hopfed.spectral.sketch import SketchOperator
from hopfed.spectral.tall_matrices import independent, inner, outer
from hopfed.spectral.tridiagonal import Tridiagonal

ROUTES = ("auto", "gram", "dense", "krylov")
SMALL = 1_500  # side of a matrix below which its eigenproblem runs in one thread
FULL_LIMIT = 3_000  # the smaller side up to which every eigenvalue is computed, in seconds
EXPLICIT_LIMIT = 12_000  # up to which the small matrix is made, and its products taken instead

SHORT = 1e-6  # part of the longest direction of a block below which one is left out
ITERATED_TOL = 3e-3  # angle to the eigenvectors where the small matrix is iterated on


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of the second-moment matrix ``C`` of shape (N, N).

    Attributes
    ----------
    values : (m,) eigenvalues, descending; every nonzero one when `complete`.
    vectors : (N, k) orthonormal eigenvectors of the k leading ones, signs by `canonical_gauge`; of
        the array library and on the device of the operator. All else is on the host.
    residuals : (k,) norms ``|C v - lambda v|``.
    n_sites, n_examples : N and the effective M.
    complete : whether `values` is the whole nonzero spectrum.
    route : "gram", "dense" or "krylov".
    products : times the operator was applied to a block (exchanges, over a federation).
    status : "converged", or what is wrong and what to do.

    Examples
    --------
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
    operator : factor, dense or sketch form, or anything with `matmat` by the krylov route.
    wanted : how many vectors, or a function from the descending eigenvalues, and whether they are
        all the nonzero ones, to that number (a rank rule), so that the spectrum itself decides.
    route : "auto", "gram", "dense" or "krylov".
    seed, width, tol, max_products : of the krylov route: start block, its columns, the residual
        relative to the gap below the wanted eigenvalues at which a pair counts as found (a bound
        on the angle to the eigenvector), and the most products.
    start : (N, k) guesses of eigenvectors for the krylov route, to begin from.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, -1, 1, -1]])
    >>> eigenpairs(FactorOperator.from_examples(x), 1).values[:2].round(3)
    array([2.667, 1.333])
    """
    if route not in ROUTES:
        raise ArgumentError("route", f"one of {', '.join(ROUTES)}", route)
    if not callable(wanted) and not (isinstance(wanted, Integral) and wanted >= 0):
        raise ArgumentError("wanted", "a whole number of vectors, or a rule", wanted)
    if isinstance(operator, SketchOperator):
        operator = operator.factors()
    chosen = _choose(operator) if route == "auto" else route
    try:
        if chosen == "krylov":
            return block_krylov(
                operator,
                wanted,
                seed=seed,
                width=width,
                tol=tol,
                max_products=max_products,
                start=start,
            )
        if chosen == "dense":
            return _dense(operator, wanted)
        if not isinstance(operator, FactorOperator):
            raise ArgumentError("route", "dense or krylov for an operator without rows", route)
        return _gram(operator, wanted)
    except MemoryError as error:
        if isinstance(operator.home, np.ndarray):
            raise
        advice = "use fewer rows" if chosen == "krylov" else "use route='krylov'"
        what = f"out of device memory in the {chosen} route: {advice} ({error})"
        raise BackendError(what) from None


def _choose(operator: HebbianOperator) -> str:
    if isinstance(operator, FactorOperator):
        rows, again = operator.rows.shape[0], isinstance(operator.rows, Reread)
        # Products of pairs of rows would bring all rows together, which lie apart for a reason.
        if min(rows, operator.n_sites) > EXPLICIT_LIMIT or (again and rows <= operator.n_sites):
            return "krylov"
        return "gram" if rows <= operator.n_sites else "dense"
    return "dense" if isinstance(operator, DenseOperator) else "krylov"


def _gram(operator: FactorOperator, wanted: Wanted) -> Spectrum:
    xp = namespace(operator.weights)
    found = _leading(_products_of_rows(operator), wanted)
    root = xp.sqrt(operator.weights / operator.mass)
    lift = root[:, None] * found.vectors / xp.sqrt(found.there)
    return _checked(operator, found, transposed_times(operator.rows, lift), "gram")


def _products_of_rows(operator: FactorOperator) -> Array:
    root = namespace(operator.weights).sqrt(operator.weights / operator.mass)
    G = inner_products(operator.rows)
    G *= root[:, None] * root[None, :]
    return G


def _dense(operator: HebbianOperator, wanted: Wanted) -> Spectrum:
    found = _leading(explicit(operator), wanted)
    here = isinstance(found.vectors, np.ndarray)
    vectors = np.ascontiguousarray(found.vectors) if here else found.vectors
    return _checked(operator, found, vectors, "dense")


def _leading(A: Array, wanted: Wanted) -> Leading:
    """Eigenpairs of `A`: all eigenvalues up to FULL_LIMIT, beyond the leading ones by Krylov."""
    n = A.shape[0]
    if n > FULL_LIMIT:
        whole = DenseOperator(n, 1.0, 1.0, A)
        found = block_krylov(whole, wanted, tol=ITERATED_TOL, max_products=60)
        there = like(found.values[: found.vectors.shape[1]], found.vectors)
        return Leading(found.values, there, found.vectors, found.status)
    if not isinstance(A, np.ndarray):
        return all_pairs(A, wanted)
    # On a small matrix a second thread gains a third, and costs twentyfold where the core that it
    # waits for is taken by another program.
    with blas_threads(1 if n < SMALL else None):
        reduced = Tridiagonal.of(A)
        values = reduced.values()
        vectors = reduced.vectors(counted(wanted, values, True))
    return Leading(values, values[: vectors.shape[1]], vectors)


def largest_value(operator: FactorOperator) -> float:
    """Largest eigenvalue of an operator on a device, to about 1e-6 of itself.

    The smaller of the two matrices is made in single precision, where it is one to be made.

    Examples
    --------
    >>> x = np.array([[1, 1, -1], [1, -1, -1]])
    >>> round(largest_value(FactorOperator.from_examples(x)), 4)
    2.0
    """
    chosen = _choose(operator)
    if chosen != "krylov":
        A = _products_of_rows(operator) if chosen == "gram" else explicit(operator)
        A = namespace(A).astype(A, namespace(A).float32)
        return top(len(A), A.__matmul__, A)
    return top(operator.n_sites, operator.matmat, operator.home)


def _checked(operator: HebbianOperator, found: Leading, vectors: Array, route: str) -> Spectrum:
    """Attach residuals, measured by one product with the operator itself."""
    vectors, values, iterated = canonical_gauge(vectors), found.values, found.iterated
    xp, residuals = namespace(vectors), np.zeros(0)
    single = False
    if vectors.shape[1]:
        # On a device products of bits with float32 are a quarter of the work of those in float64.
        bits = isinstance(operator, FactorOperator) and isinstance(operator.rows, Bits)
        single = bits and not isinstance(vectors, np.ndarray)
        kind = xp.float32 if single else vectors.dtype
        those, there = (xp.astype(x, kind, copy=False) for x in (vectors, found.there))
        missed = operator.matmat(those) - those * there
        residuals = to_host(xp.linalg.vector_norm(missed, axis=0))
    status = iterated or "converged"
    # Not "any above": a solver that failed on a device leaves NaN.
    limit = 1e-4 if single or operator.home.dtype == xp.float32 else 1e-6
    if iterated is None and not (residuals <= limit * values[:1].max(initial=1.0)).all():
        status = f"residuals above {limit:g}: use route='krylov'"
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
    start: Array | None = None,
) -> Spectrum:
    """Leading eigenpairs from products alone: block Lanczos, fully reorthogonalised.

    Stops when every pair that `wanted` asks for has a residual below `tol` times its distance to
    the first unwanted Ritz value, and the basis is at least twice as wide as their number. On a
    device the basis is restarted, and residuals follow from it (`restarted_krylov`).

    Parameters
    ----------
    operator, wanted, seed, width, tol, max_products, start : as in `eigenpairs`.

    Examples
    --------
    >>> from hopfed.spectral.operators import DenseOperator
    >>> x = np.sign(np.random.default_rng(0).standard_normal((300, 90)))
    >>> x[:200] *= x[:200, :1] * np.abs(x[:200])
    >>> op = DenseOperator.from_examples(x)
    >>> found, exact = block_krylov(op, 2, width=4), eigenpairs(op, 2, route="dense")
    >>> found.status, found.values[:2].round(3), exact.values[:2].round(3)
    ('converged', array([2.319, 2.141]), array([2.319, 2.141]))
    """
    n, width = operator.n_sites, min(width, operator.n_sites)
    rng = stream(seed, "krylov", n)
    if not isinstance(operator.home, np.ndarray):
        return _restarted(operator, wanted, rng, width, tol, max_products, start)
    drawn = rng.standard_normal((n, width))
    if start is not None:
        drawn = np.concatenate([start, drawn[:, min(start.shape[1], width - 1) :]], axis=1)
    block = independent(drawn.astype(np.float64), SHORT * _longest(drawn))
    T = np.zeros((0, 0))
    Q = CQ = np.zeros((n, 0), dtype=np.float32)
    status = "converged"
    for products in range(1, max_products + 1):
        single = block.astype(np.float32)
        image = operator.matmat(single)
        Q, CQ = np.concatenate([Q, single], axis=1), np.concatenate([CQ, image], axis=1)
        T = grown(T, inner(Q, image).astype(np.float64))
        values, vectors, residuals = _ritz(Q, CQ, T, wanted)
        k = len(residuals)
        enough = Q.shape[1] >= min(n, 2 * k + 8)
        loose = residuals > tol * (values[:k] - values[k : k + 1].max(initial=0.0))
        if enough and products > 1 and not loose.any():
            break
        block = _orthonormal_complement(Q, image, width)
        if block.shape[1] == 0:
            break
    else:
        status = _said(loose.sum(), k, products)
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


def _restarted(
    operator: HebbianOperator,
    wanted: Wanted,
    rng: np.random.Generator,
    width: int,
    tol: float,
    max_products: int,
    start: Array | None,
) -> Spectrum:
    """`block_krylov` for a device; float32, but for a matrix of float64."""
    n, home, xp = operator.n_sites, operator.home, namespace(operator.home)
    double = isinstance(operator, DenseOperator) and home.dtype == xp.float64
    kind, floor = (xp.float64, 1e-12) if double else (xp.float32, 1e-5)  # where values are zero
    first = xp.astype(drawn_block(n, width, rng, home), kind)
    if start is not None:
        beside = first[:, min(start.shape[1], width - 1) :]
        first = xp.concat([xp.astype(start, kind), beside], axis=1)
    found = leading_pairs(
        operator.matmat,
        first,
        lambda values, whole: counted(wanted, values, whole, floor),
        lambda values, k: tol * (values[:k] - values[k : k + 1].max(initial=0.0)),
        max_products,
    )
    return Spectrum(
        values=found.values,
        vectors=canonical_gauge(xp.astype(found.vectors, xp.float64)),
        residuals=found.residuals,
        n_sites=n,
        n_examples=operator.n_examples,
        complete=found.whole,
        route="krylov",
        products=found.products,
        status=_said(found.loose, len(found.residuals), found.products),
    )


def _said(loose: int, k: int, products: int) -> str:
    if loose == 0:
        return "converged"
    return f"{loose} of {k} pairs not converged in {products} products: raise max_products"


def _ritz(
    Q: np.ndarray, CQ: np.ndarray, T: np.ndarray, wanted: Wanted
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ritz values, the vectors wanted, and their residuals."""
    ascending, Y = np.linalg.eigh(T)
    values = np.maximum(ascending[::-1], 0.0)
    single = 1e-5  # products are in single precision: below this an eigenvalue is zero
    count = counted(wanted, values, Q.shape[1] == Q.shape[0], single)
    Y = Y[:, ::-1][:, :count].astype(np.float32)
    vectors = outer(Q, Y)
    missed = outer(CQ, Y) - vectors * values[:count]
    return values, vectors.astype(np.float64), np.linalg.norm(missed, axis=0)


def _orthonormal_complement(Q: np.ndarray, block: np.ndarray, width: int) -> np.ndarray:
    """Orthonormal basis of what `block` adds to span(Q); twice is enough (Kahan)."""
    block = block.astype(np.float64)
    scale = _longest(block)
    for _ in range(2):
        block = block - outer(Q, inner(Q, block))
    B = independent(block, SHORT * scale)[:, : min(width, Q.shape[0] - Q.shape[1])]
    found: np.ndarray = B - outer(Q, inner(Q, B))
    return found


def _longest(block: np.ndarray) -> float:
    """Length of the longest column."""
    return max(float(np.linalg.norm(block, axis=0).max()), 1e-300)
