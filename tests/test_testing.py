"""Routines with a planted bug fail the properties of `hopfed.testing`, right ones pass."""

import numpy as np
import pytest

from hopfed import testing
from hopfed.memory import AssociativeMemory
from hopfed.spectral.rank import white_edge


def leading(C, k):
    values, vectors = np.linalg.eigh(C)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def wrong_order(C, k):
    return np.linalg.eigh(C)[0][:k], np.linalg.eigh(C)[1][:, :k]


def wrong_vectors(C, k):
    return leading(C, k)[0], np.eye(len(C))[:, :k]


def to_plus(xi, cue):
    """Hebb's rule, synchronous, once, with zero fields turned to +1."""
    return np.where(xi.T @ (xi @ cue.astype(int)) >= 0, 1, -1)


@pytest.mark.parametrize(
    ("check", "routine", "says"),
    [(testing.check_eigenpairs, wrong_order, "eigenvalues are not those"),
     (testing.check_eigenpairs, wrong_vectors, "vectors leave a residual"),
     (testing.check_gram, lambda X: abs(X.T.astype(float) @ X), "definition|signs of columns"),
     (testing.check_gram, lambda X: X.T @ X, "of 200 rows is not that"),  # of int8
     (testing.check_projector, lambda xi: xi.T @ xi / xi.shape[1], "not idempotent"),
     (testing.check_recall, to_plus, "the opposite cue|not at rest|signs of sites"),
     (testing.check_recall, lambda xi, cue: xi[0] * 1.0 * cue[0] * xi[0][0] * 0, "other values"),
     (testing.check_threshold, lambda N, M, a: 0.93 * white_edge(M, N, a) / M, "noise passes"),
     (testing.check_threshold, lambda N, M, a: N / M + a, "its level falls: .* N=20, M=60")],
)  # fmt: skip
def test_a_planted_bug_is_found(check, routine, says):
    with pytest.raises(AssertionError, match=says):
        check(routine)


def test_a_projector_of_the_memory_passes():
    def project(xi):
        W, scale = AssociativeMemory.store(xi, "projector").coupling_factor
        return scale * W.astype(float) @ W.T

    testing.check_projector(project, tolerance=1e-5)


@testing.given(testing.planted(), testing.classes(), testing.spiked())
def test_what_is_drawn_is_as_it_is_said(found, hidden, noisy):
    for drawn in (found, hidden):
        assert np.isin(drawn.rows, (-1, 1)).all()
        assert drawn.strengths.sum() == pytest.approx(1)
        assert drawn.labels.max() < len(drawn.hidden)
    np.testing.assert_allclose(noisy.hidden @ noisy.hidden.T, np.eye(len(noisy.hidden)), atol=1e-12)
