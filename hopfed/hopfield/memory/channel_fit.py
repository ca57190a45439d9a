"""Whether archetypes explain what the columns of each client have in common.

Operators are factored into patterns of +-1 whose columns all agree with their rows equally often.
Columns of real tables have rates of their own, and levels of a category exclude each other: such
tables have more components than archetypes, and what is found in them is not there. The operators
show it. Of M rows of archetypes ``xi_k`` with weights ``w_k`` two columns have the second moment
``sum_k w_k xi_ik xi_jk``, up to ``(1 - c_ij^2)/M`` in variance, and the mean of a column is in
proportion to ``sum_k w_k xi_ik``. The weights are those that fit best, none below 0, and what is
left is measured in its error: 1 is expected on average over pairs, and over columns.

Of 2 to 40 archetypes in rows of 12 to 784 columns at r from .35 to .9 both averages are at most 1.1
(400 to 20,000 rows a client). Three classes of any rates, independent columns of any rates, one
trait, and archetypes beside a category of four levels have 5 to 700 (13 and 60 columns, 1,200 rows
a client); with noise for epsilon 4 the first three have 3 to 50, for epsilon 1 from 1.3.

Source: theory/NOTES.md, "Check of the symmetric channel".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import nnls

from hopfed.federation.messages import Message
from hopfed.hopfield.encoding import Encoding
from hopfed.spectral.operators import HebbianOperator

LIMIT = 1.4  # of the mean of squares in their error, for any number of them
SPREAD = 5.0  # standard deviations of such a mean beside that
COLUMNS = 1_000  # that are looked at


def misfits(encoding: Encoding, heard: Mapping[int, Message], patterns: np.ndarray) -> np.ndarray:
    """Misfit of the patterns to each client's operator, above 1 where they do not explain it."""
    if not encoding.exact:
        return np.zeros(0)
    return np.array(
        [
            misfit(encoding.decode(m), patterns, m["columns"] / float(m["examples"]))
            for m in heard.values()
        ]
    )


def typical(found: np.ndarray) -> float:
    """Misfit that half of the clients have, so that a few that lie do not decide; NaN of none.

    Of two in the middle the larger counts.
    """
    return float(np.sort(found)[len(found) // 2]) if len(found) else np.nan


def misfit(
    operator: HebbianOperator,
    patterns: np.ndarray,
    mean: np.ndarray | None = None,
    variance: float = 0.0,
) -> float:
    """What patterns leave of an operator, over what chance leaves at most: above 1 it is more."""
    chosen, C = _looked_at(operator)
    xi, M, N = patterns[:, chosen].astype(np.float64), operator.n_examples, len(chosen)
    weights = _weights(C, xi)
    left = (C - (xi.T * weights) @ xi) ** 2 / ((1 - np.minimum(C**2, 1 - 1 / M)) / M + variance)
    np.fill_diagonal(left, 0.0)
    pairs = N * (N - 1) / 2
    ratios = [left.sum() / 2 / pairs / _most(pairs)]
    if mean is not None:
        m, shape = mean[chosen], weights @ xi
        expected = max(float(shape @ m) / max(float(shape @ shape), 1e-300), 0.0) * shape
        far = (m - expected) ** 2 * M / (1 - np.minimum(m**2, 1 - 1 / M))
        ratios.append(far.mean() / _most(N))
    return float(max(ratios))


def shares(operator: HebbianOperator, patterns: np.ndarray) -> np.ndarray:
    """Weights (K,) by which patterns (K, N) together explain an operator best, none below 0."""
    chosen, C = _looked_at(operator)
    return _weights(C, patterns[:, chosen].astype(np.float64))


def _looked_at(operator: HebbianOperator) -> tuple[np.ndarray, np.ndarray]:
    """Columns that are looked at, and the second moment of these."""
    chosen = np.unique(np.linspace(0, operator.n_sites - 1, COLUMNS).astype(int))
    basis = np.zeros((operator.n_sites, len(chosen)))
    basis[chosen, np.arange(len(chosen))] = 1.0
    return chosen, np.asarray(operator.matmat(basis), np.float64)[chosen]


def _most(number: float) -> float:
    """Mean of so many squares of errors that chance does not exceed."""
    return LIMIT + SPREAD * float(np.sqrt(2 / number))


def _weights(C: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """Weights (K,) of patterns, none below 0, that fit C (N, N) best off its diagonal."""
    K, N = xi.shape
    if K == 0:
        return np.zeros(0)
    alike = (xi @ xi.T) ** 2 - N  # products of the patterns' own second moments, off the diagonal
    along = np.einsum("kn,kn->k", xi @ C, xi) - np.trace(C)
    root = np.linalg.cholesky(alike + 1e-9 * N**2 * np.eye(K))
    found: np.ndarray = nnls(root.T, np.linalg.solve(root, along))[0]
    return found
