"""Wigner and Wishart matrices of every beta: exact draws beside dense ones and the limit laws."""

from itertools import product

import numpy as np
import pytest
from helpers import rest_slow

from hopfed.theory import tracy_widom
from hopfed.theory.ensembles import Wigner, Wishart


@pytest.mark.parametrize("beta", rest_slow([4, 1, 2], 1))
@pytest.mark.parametrize("law", [lambda b: Wigner(200, b), lambda b: Wishart(60, 150, b)])
def test_noise_has_the_law_of_tracy_and_widom(law, beta):
    law, moments = law(beta), tracy_widom.moments(beta)
    centre, scale = law.scaling
    top = (law.tops(0.0, 2000, np.random.default_rng(beta))[0][:, 0] - centre) / scale
    error = np.sqrt(moments.variance / 2000)  # and what is left of N^(-2/3)
    assert abs(top.mean() - moments.mean) < 4 * error + 0.01
    assert top.var() == pytest.approx(moments.variance, rel=0.15)


def dense_wigner(N, theta, beta, rng):
    """Top of a Hermitian matrix; quaternions as 2 x 2 blocks, whose eigenvalues come in pairs."""
    parts = rng.standard_normal((beta, N, N)) / np.sqrt(2 * beta * N)
    if beta < 4:
        A = parts[0] + (1j * parts[1] if beta == 2 else 0)
    else:
        a, b = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
        A = np.block([[a, b], [-b.conj(), a.conj()]])
    H = A + A.conj().T
    H[0, 0] += theta
    if beta == 4:
        H[N, N] += theta
    values, vectors = np.linalg.eigh(H)
    cosine = (np.abs(vectors[[0, N] if beta == 4 else [0], -1]) ** 2).sum()
    return values[-1], cosine


@pytest.mark.parametrize(
    ("theta", "beta"), rest_slow([(1.0, 1), (0.5, 2), (1.5, 4), *product([0.5, 1.5], [1, 2])], 2)
)
def test_wigner_draws_have_the_law_of_dense_matrices(theta, beta):
    rng = np.random.default_rng([beta, int(10 * theta)])
    wanted = np.array([dense_wigner(30, theta, beta, rng) for _ in range(300)])
    found = np.column_stack([a.ravel() for a in Wigner(30, beta).tops(theta, 1000, rng)])
    error = np.sqrt(wanted.var(axis=0) / 300 + found.var(axis=0) / 1000)
    assert (np.abs(found.mean(axis=0) - wanted.mean(axis=0)) < 4 * error).all()
    assert np.allclose(found.std(axis=0), wanted.std(axis=0), rtol=0.25)


def test_the_semicircle_is_the_derivative_of_its_distribution():
    law, x = Wigner(10), np.linspace(-1.9, 1.9, 39)
    slope = (law.cdf(x + 1e-5) - law.cdf(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, law.pdf(x), atol=1e-9)
    np.testing.assert_array_equal(law.cdf([-np.inf, -2, 2, np.inf]), [0, 0, 1, 1])
