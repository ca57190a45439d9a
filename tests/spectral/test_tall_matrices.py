"""Products of tall thin matrices block by block, and bases that are made of them."""

import numpy as np
import pytest

from hopfed.spectral import tall_matrices


@pytest.mark.parametrize("rows", [5, tall_matrices.ROWS, 2 * tall_matrices.ROWS + 3])
def test_products_are_those_of_the_whole(rows):
    rng = np.random.default_rng(rows)
    A, B, C = (rng.standard_normal(s) for s in ((rows, 7), (rows, 3), (7, 4)))
    np.testing.assert_allclose(tall_matrices.inner(A, B), A.T @ B, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(tall_matrices.outer(A, C), A @ C, rtol=1e-12, atol=1e-12)
    single = A.astype(np.float32)
    assert tall_matrices.inner(single, single).dtype == np.float32
    assert (
        tall_matrices.inner(single, B).dtype == tall_matrices.outer(single, C).dtype == np.float64
    )


@pytest.mark.parametrize("rows", [40, tall_matrices.ROWS + 40])
def test_a_basis_is_orthonormal_and_leaves_out_what_is_short(rows):
    rng = np.random.default_rng(1)
    lengths = np.array([1e3, 1.0, 1e-2, 2e-3, 1e-5, 0.0])
    columns = np.linalg.qr(rng.standard_normal((rows, 6)))[0] * lengths
    block = columns @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    basis = tall_matrices.independent(block, 1e-3)
    assert basis.shape == (rows, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-13)
    kept = columns[:, :4] / lengths[:4]
    assert np.linalg.svd(kept.T @ basis, compute_uv=False).min() > 1 - 1e-6
