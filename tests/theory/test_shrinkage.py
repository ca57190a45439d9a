"""Shrinkers and cleaned covariances beside their oracles, which know the truth."""

import numpy as np
import pytest

from hopfed.theory.shrinkage import LOSSES, clean, shrink


@pytest.mark.parametrize(("M", "N"), [(300, 150), (150, 300)])
def test_shrinkers_are_near_the_oracle_and_each_is_best_in_its_norm(M, N):
    rng = np.random.default_rng(M)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (M, N))
    S = (U * [90.0, 65.0, 45.0]) @ V.T
    u, s, vt = np.linalg.svd(S + 1.3 * rng.standard_normal((M, N)), full_matrices=False)
    oracle = np.einsum("ik,ij,kj->k", u, S, vt)  # least Frobenius error for these vectors
    found = shrink(s, M, N)
    np.testing.assert_allclose(found[:3], oracle[:3], rtol=0.06)
    assert (found[3:] == 0).all()
    left = {loss: np.linalg.svd(S - (u * shrink(s, M, N, loss)) @ vt)[1] for loss in LOSSES}
    sizes = {"frobenius": lambda d: d @ d, "operator": np.max, "nuclear": np.sum}
    for loss, size in sizes.items():
        assert size(left[loss]) <= 1.02 * min(size(d) for d in left.values())
    assert shrink(s, M, N, "hard")[0] == s[0]


@pytest.mark.parametrize(("N", "M"), [(200, 600), (300, 150)])
def test_cleaned_covariances_are_near_the_oracle(N, M):
    rng = np.random.default_rng(N)
    truth = np.repeat([1.0, 3.0, 10.0], [N // 5, 2 * N // 5, N - N // 5 - 2 * N // 5])
    X = rng.standard_normal((M, N)) * np.sqrt(truth)
    values, V = np.linalg.eigh(X.T @ X / M)
    values = np.maximum(values, 0) * (np.arange(N) >= N - M)
    oracle = truth @ V**2
    found = clean(values, M)
    gain = 1 - ((found - oracle) ** 2).sum() / ((values - oracle) ** 2).sum()
    assert gain > 0.95
    np.testing.assert_allclose(clean(values[::-1], M), found[::-1])
