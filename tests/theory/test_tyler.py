import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.theory import marchenko_pastur
from hopfed.theory.tyler import noise_threshold, tyler


def heavy(rng, M, N, freedom=1.5):
    return rng.standard_normal((M, N)) / np.sqrt(rng.chisquare(freedom, (M, 1)) / freedom)


@given(seed=st.integers(0, 2**32), N=st.integers(2, 12), excess=st.integers(8, 60))
def test_fixed_point_and_its_symmetries(seed, N, excess):
    rng = np.random.default_rng(seed)
    M = 2 * N + excess
    x = heavy(rng, M, N)
    shape = tyler(x, tolerance=1e-10)
    assert shape.status == "converged"
    assert shape.residual <= 1e-10
    assert np.trace(shape.matrix) == pytest.approx(N, rel=1e-12)
    # It solves Tyler's equation.
    inner = np.einsum("ij,jk,ik->i", x, np.linalg.inv(shape.matrix), x)
    image = (x / inner[:, None]).T @ x * N / M
    np.testing.assert_allclose(image, shape.matrix, atol=1e-7)
    # The lengths and signs of samples, and their order, are not seen; a linear map goes through.
    lengths = rng.choice([-1, 1], M) * 10 ** rng.uniform(-100, 100, M)
    other = tyler((x * lengths[:, None])[rng.permutation(M)], tolerance=1e-10)
    np.testing.assert_allclose(other.matrix, shape.matrix, atol=1e-7)
    signs = rng.choice([-1.0, 1.0], N)
    np.testing.assert_allclose(
        tyler(x * signs, tolerance=1e-10).matrix, signs[:, None] * shape.matrix * signs, atol=1e-7
    )
    scales = rng.uniform(0.5, 2, N)
    mapped = tyler(x * scales, tolerance=1e-10).matrix
    expected = scales[:, None] * shape.matrix * scales
    np.testing.assert_allclose(mapped, expected * N / np.trace(expected), atol=1e-6)


@given(seed=st.integers(0, 2**32), M=st.integers(2, 40), N=st.integers(2, 40), part=st.floats(0, 1))
def test_shrunk_fixed_point_exists_for_any_size(seed, M, N, part):
    # Below 1 - M / N the iteration still converges, but ever more slowly.
    floor = min(max(0, 1 - M / N) + 0.05, 0.95)
    shrinkage = floor + part * (0.95 - floor)
    x = heavy(np.random.default_rng(seed), M, N)
    shape = tyler(x, shrinkage, tolerance=1e-7, max_iterations=3000)
    assert shape.status == "converged"
    assert np.linalg.eigvalsh(shape.matrix)[0] > 0
    inner = np.einsum("ij,jk,ik->i", x, np.linalg.inv(shape.matrix), x)
    image = (1 - shrinkage) * N / M * (x / inner[:, None]).T @ x + shrinkage * np.eye(N)
    np.testing.assert_allclose(image * N / np.trace(image), shape.matrix, rtol=0, atol=1e-6 * N)


def test_heavy_tails_do_not_reach_the_spectrum():
    rng = np.random.default_rng(1)
    M, N = 1000, 250
    x = heavy(rng, M, N)
    spectrum = np.linalg.eigvalsh(tyler(x).matrix)
    distance = marchenko_pastur.cdf(spectrum, N / M) - (np.arange(N) + 0.5) / N
    assert np.abs(distance).max() < 0.015
    sample = np.linalg.eigvalsh(x.T @ x / M)
    assert sample[-1] / np.median(sample) > 10 * spectrum[-1] / np.median(spectrum)


@pytest.mark.slow
@pytest.mark.parametrize(("M", "N"), [(40, 15), (15, 40)])
def test_the_level_of_noise_holds_whatever_the_tails(M, N):
    """At the level of white noise a fifth of the draws of 40 x 15 alarm at 5%."""
    rng, level = np.random.default_rng(6), noise_threshold(N, M, 0.05)
    tops = [np.linalg.eigvalsh(tyler(heavy(rng, M, N)).matrix)[-1] for _ in range(300)]
    assert 0.015 < np.mean(np.array(tops) > level) < 0.1  # .05 +- .016, and the error of 300 draws
    assert noise_threshold(N, M, 0.01) > level


def test_failures_are_values():
    rng = np.random.default_rng(5)
    x = heavy(rng, 120, 40)
    short = tyler(x, max_iterations=2)
    assert short.status == "iteration limit"
    assert short.status != "converged"
    assert short.residual > 1e-8
    assert short.iterations == 2
    # 40 samples of 60 in 10 of 20 directions: the fixed point does not exist.
    flat = rng.standard_normal((60, 20))
    flat[:40, 10:] = 0
    assert tyler(flat).status in ("singular", "iteration limit")
