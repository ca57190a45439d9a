"""Data and properties for tests of spectral routines and memories, of hopfed or your own.

The strategies draw inputs of such routines; each `check_` function takes a routine, tries it on
many draws, and raises AssertionError with a sentence and the smallest failing draw. The module
needs Hypothesis: ``pip install 'hopfed[testing]'``.

>>> def gram(rows):  # a bug of ten lines is found: the last block of rows is left out
...     total = np.zeros((rows.shape[1], rows.shape[1]))
...     for start in range(0, len(rows) - 3, 4):
...         total += rows[start : start + 4].T @ rows[start : start + 4]
...     return total
>>> try:
...     check_gram(gram)
... except AssertionError as error:
...     print(error)
the Gram matrix of 1 rows is not that of the definition
>>> check_gram(lambda rows: rows.T.astype(float) @ rows)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hopfed._lib.lazy_imports import lazy_names
from hopfed.errors import BackendError

try:
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st
except ImportError:
    raise BackendError("hopfed.testing needs hypothesis: pip install 'hopfed[testing]'") from None

__all__ = [
    "Planted", "check_eigenpairs", "check_gram", "check_projector", "check_recall",
    "check_threshold", "classes", "planted", "signs", "spiked",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
_EXAMPLES = 25
_generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


class Planted(NamedTuple):
    """Rows and their hidden structure: archetypes, class means, or unit directions.

    >>> rows = np.array([[1, -1], [1, -1], [-1, -1]])
    >>> Planted(rows, rows[1:], np.array([2 / 3, 1 / 3]), np.array([0, 0, 1])).labels.tolist()
    [0, 0, 1]
    """

    rows: np.ndarray  # (M, N)
    hidden: np.ndarray  # (K, N)
    strengths: np.ndarray  # (K,) shares, or strengths in units of the noise
    labels: np.ndarray  # (M,) archetype or class of each row; empty for directions


@st.composite
def signs(draw: Any, rows: int = 40, columns: int = 30, gaps: bool = False) -> np.ndarray:
    """Strategy for tests: int8 tables of +-1, 0 in `gaps`, of at most `rows` and `columns`.

    >>> signs(5, 4, gaps=True)
    signs(rows=5, columns=4, gaps=True)
    """
    M, N, rng = draw(st.integers(1, rows)), draw(st.integers(2, columns)), draw(_generators)
    table = rng.choice(np.array([-1, 1], np.int8), (M, N))
    return table * (rng.random((M, N)) < rng.random()) if gaps else table


@st.composite
def spiked(draw: Any, rows: int = 60, columns: int = 40, most: int = 3) -> Planted:
    """Strategy for tests: Gaussian noise of variance 1 with up to `most` orthogonal components.

    >>> spiked(most=1)
    spiked(most=1)
    """
    N = draw(st.integers(2, columns))
    M, K = draw(st.integers(2, rows)), draw(st.integers(0, min(most, N)))
    rng = draw(_generators)
    U = np.linalg.qr(rng.standard_normal((N, max(K, 1))))[0][:, :K]
    kappa = np.sort(rng.uniform(0, 6 * np.sqrt(N / M), K))[::-1]
    noise = rng.standard_normal((M, N))
    X = noise + rng.standard_normal((M, K)) * np.sqrt(kappa) @ U.T
    return Planted(X, U.T, kappa, np.zeros(0, int))


@st.composite
def planted(draw: Any, rows: int = 60, columns: int = 40, most: int = 4) -> Planted:
    """Strategy for tests: examples, up to `most` archetypes of +-1, entries flipped by noise.

    >>> planted(most=2)
    planted(most=2)
    """
    drawn = draw(classes(rows, columns, most))
    xi = np.where(drawn.hidden < 0, -1, 1).astype(np.int8)
    flips = draw(_generators).random(drawn.rows.shape) < draw(st.floats(0, 0.45))
    rows = xi[drawn.labels] * np.where(flips, -1, 1).astype(np.int8)
    return drawn._replace(rows=rows, hidden=xi)


@st.composite
def classes(draw: Any, rows: int = 60, columns: int = 40, most: int = 4) -> Planted:
    """Strategy for tests: rows of +-1 from up to `most` hidden classes, means for each column.

    >>> classes(most=2)
    classes(most=2)
    """
    M, K, N = draw(st.integers(2, rows)), draw(st.integers(1, most)), draw(st.integers(2, columns))
    rng = draw(_generators)
    means, shares = rng.uniform(-1, 1, (K, N)), rng.dirichlet(np.full(K, 5.0))
    labels = rng.choice(K, M, p=shares)
    up = rng.random((M, N)) < (1 + means[labels]) / 2
    return Planted(np.where(up, 1, -1).astype(np.int8), means, shares, labels)


def check_gram(
    gram: Callable[[np.ndarray], Any], gaps: bool = True, tolerance: float = 0.0
) -> None:
    """Property test of a routine from rows (M, N) of +-1, and 0 in `gaps`, to ``X^T X`` (N, N).

    The definition, of which order, signs, blocks and the trace follow.

    >>> check_gram(lambda rows: np.einsum("ij,ik->jk", rows, rows, dtype=float))
    """

    def holds(X: np.ndarray) -> None:
        wanted = X.T.astype(np.float64) @ X
        fault = f"the Gram matrix of {len(X)} rows is not that of the definition"
        _same(gram(X.copy()), wanted, fault, tolerance)

    _each(holds, signs(gaps=gaps))
    holds(np.ones((200, 2), np.int8))  # whose sums no int8 holds


def check_eigenpairs(leading: Callable[[np.ndarray, int], Any], tolerance: float = 1e-6) -> None:
    """Property test of a routine from a symmetric matrix (N, N) and k to k largest eigenpairs.

    It answers (k,) values, descending, and (N, k) vectors: values as those of a dense solver, no
    residuals, orthonormal vectors. `tolerance` is relative to the largest eigenvalue.

    >>> def leading(C, k):
    ...     values, vectors = np.linalg.eigh(C)
    ...     return values[::-1][:k], vectors[:, ::-1][:, :k]
    >>> check_eigenpairs(leading)
    """

    def holds(drawn: Planted, rng: np.random.Generator) -> None:
        X = drawn.rows
        (M, N), C = X.shape, X.T @ X / len(X)
        k = int(rng.integers(1, min(M, N) + 1))
        values, vectors = map(np.asarray, leading(C, k))
        dense = np.linalg.eigvalsh(C)[::-1]
        near = tolerance * dense[0]
        _require(values.shape == (k,), f"{k} values were asked for, not {values.shape}")
        _require(vectors.shape == (N, k), f"vectors are (N, k), not {vectors.shape}")
        _same(values, dense[:k], "eigenvalues are not those of the dense matrix", near)
        _same(C @ vectors, vectors * values, "vectors leave a residual", 30 * near)
        _same(vectors.T @ vectors, np.eye(k), "vectors are not orthonormal", 30 * tolerance)

    _each(holds, spiked(), _generators)


def check_threshold(
    threshold: Callable[[int, int, float], float], draws: int = 1000, level: float = 0.1
) -> None:
    """Property test of a routine from N, M and a level to a threshold that noise passes so often.

    It is for the top of ``X^T X / M`` with Gaussian entries of unit variance: it falls as the level
    rises, rises with N, and holds its level, up to four standard errors and a fifth of it.

    >>> from hopfed.spectral.rank import white_edge
    >>> check_threshold(lambda N, M, level: white_edge(M, N, level) / M)
    """
    rng = np.random.default_rng(0)
    for N, M in ((20, 60), (50, 40)):
        levels, widths = (0.5, 0.1, 0.01, 0.001), (N, N + 1, 2 * N)
        found = np.array([threshold(N, M, a) for a in levels])
        fault = f"does not rise as its level falls: {found} for N={N}, M={M}, levels {levels}"
        _require(np.diff(found) > 0, f"the threshold {fault}")
        found = np.array([threshold(n, M, level) for n in widths])
        fault = f"does not rise with N: {found} for N in {widths}, M={M}, level {level:g}"
        _require(np.diff(found) > 0, f"the threshold {fault}")
        X = rng.standard_normal((draws, M, N))
        tops = np.linalg.svd(X, compute_uv=False)[:, 0] ** 2 / M
        rate, allowed = np.mean(tops > threshold(N, M, level)), 4 * np.sqrt(level / draws)
        held = abs(rate - level) < allowed + level / 5
        _require(held, f"noise passes at {rate:.2g}, not {level:g}, for N={N}, M={M}")


def check_projector(project: Callable[[np.ndarray], Any], tolerance: float = 1e-6) -> None:
    """Property test of a routine from patterns (K, N) of +-1 to the projector (N, N) on them.

    Symmetry, idempotence, rank, and that the patterns are kept: no other matrix has all of these.

    >>> check_projector(lambda xi: np.linalg.pinv(xi) @ xi)
    """

    def holds(xi: np.ndarray) -> None:
        xi = xi.astype(np.float64)
        P = np.asarray(project(xi.copy()))
        _same(P, P.T, "the projector is not symmetric", tolerance)
        _same(P @ P, P, "the projector is not idempotent", tolerance)
        rank = np.linalg.matrix_rank(xi)
        _same(np.trace(P), rank, "the trace is not the rank", tolerance * len(P))
        _same(xi @ P, xi, "patterns are not kept", 10 * tolerance)

    _each(holds, signs(12, 40))


def check_recall(
    recall: Callable[[np.ndarray, np.ndarray], Any],
    energy: Callable[[np.ndarray, np.ndarray], Any] | None = None,
    even: bool = True,
) -> None:
    """Property test of a routine from patterns (K, N) and a cue (N,) to the state where it rests.

    States must be +-1, stay when recalled again, and turn with the signs of sites; where the energy
    is `even`, the opposite cue leads to the opposite state; an `energy` of patterns and state must
    not rise.

    >>> from hopfed.memory import AssociativeMemory
    >>> check_recall(lambda xi, cue: AssociativeMemory.store(xi).recall(cue).states[0])
    """

    def holds(xi: np.ndarray, rng: np.random.Generator) -> None:
        cue, D = rng.choice(np.array([-1, 1], np.int8), (2, xi.shape[1]))
        state = np.asarray(recall(xi, cue.copy()))
        _require(state.shape == cue.shape, f"a state is of the shape of its cue, not {state.shape}")
        _require(np.isin(state, (-1, 1)), "a state holds other values than +1 and -1")
        _same(recall(xi, state.astype(np.int8)), state, "the state is not at rest")
        if even:
            _same(recall(xi, -cue), -state, "the opposite cue does not end opposite")
        _same(recall(xi * D, cue * D), state * D, "signs of sites do not go through")
        if energy is not None:
            before, after = (float(energy(xi, s)) for s in (cue, state))
            held = after <= before + 1e-6 * abs(before)
            _require(held, f"the energy rises from {before} to {after}")

    _each(holds, signs(8, 40), _generators)


def _each(holds: Callable[..., None], *strategies: Any) -> None:
    """Try a property on many draws, always the same."""
    tried = settings(
        max_examples=_EXAMPLES, deadline=None, database=None, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )(given(*strategies)(holds))  # fmt: skip
    seed(0)(tried)()


def _require(holds: Any, fault: str) -> None:
    if not np.all(holds):
        raise AssertionError(fault)


def _same(got: Any, wanted: Any, fault: str, tolerance: float = 0.0) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    _require(got.shape == wanted.shape and np.abs(got - wanted) <= tolerance, fault)
