import numpy as np
import pytest
from helpers import rest_slow, sample, spectrum_and_rank
from hypothesis import given
from hypothesis import strategies as st

from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import (
    Patterns,
    group_projections,
    joint_candidates,
    joint_eigenbasis,
)
from hopfed.archetypes.subspace import Subspace
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.kernels import pack
from hopfed.recovery.recover import recover


def off_diagonal(A, U):
    D = U.T @ A @ U
    return (D**2).sum() - (np.diagonal(D, axis1=1, axis2=2) ** 2).sum()


@given(st.integers(2, 12), st.integers(2, 6), st.integers(0, 2**32))
def test_matrices_that_commute_are_diagonalised_exactly(K, G, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((K, K)))[0]
    A = np.stack([(Q * rng.standard_normal(K)) @ Q.T for _ in range(G)])
    U = joint_eigenbasis(A, rng, 100)
    np.testing.assert_allclose(U.T @ U, np.eye(K), atol=1e-10)
    assert off_diagonal(A, U) < 1e-8 * (A**2).sum()


@pytest.mark.parametrize(
    ("K", "N", "M", "quality", "groups"),
    rest_slow(
        [
            (75, 200, 2000, 0.8, 6),  # basis vectors alone leave mixtures here
            (40, 400, 4000, 0.8, 3),
            (60, 1000, 4000, 0.6, 5),
            (300, 1000, 10000, 0.8, 10),
        ],
        1,
    ),
)
def test_every_archetype_from_identically_distributed_groups(K, N, M, quality, groups):
    xi, eta = sample(K, N, M, quality, 3)
    spectrum, rank = spectrum_and_rank(eta)
    space = Subspace.of(spectrum, rank)
    sums, counts = group_projections(pack(eta), spectrum.vectors, groups, seed=4)
    found = joint_candidates(space, sums, counts, rank.variance, 5)
    score = retrieval(found, xi)
    assert (score.found(0.95), score.false_discoveries) == (K, 0)


@pytest.mark.parametrize("seed", rest_slow([0, 4, 5], 1))
def test_the_common_fit_loses_no_archetype_that_was_found_before_it(seed):
    # Ten owners of unlike mixtures: some archetypes have a handful of examples among heavy ones.
    rng = np.random.default_rng(seed)
    xi = rademacher(40, 200, rng)
    mixtures = (rng.dirichlet(np.full(40, 0.3)) for _ in range(10))
    owners = [draw_examples(xi, 200, 0.8, rng, exposures=e)[0] for e in mixtures]
    found = retrieval(recover(owners, patterns=Patterns(method="joint"), seed=seed).patterns, xi)
    assert (found.found(0.95), found.false_discoveries) == (40, 0)
