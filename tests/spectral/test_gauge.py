"""Signs of eigenvectors."""

import numpy as np

from hopfed.spectral.eigenpairs import canonical_gauge, site_gauge


def test_flips_of_sites_go_through_and_signs_of_vectors_do_not():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    D = rng.choice([-1.0, 1.0], 30)
    fixed, turned = canonical_gauge(V), canonical_gauge((V * [1, -1, -1, 1]) * D[:, None])
    np.testing.assert_array_equal(abs(turned), abs(fixed))
    np.testing.assert_allclose(
        turned * (D * np.sign(turned[0, 0] * fixed[0, 0] * D[0]))[:, None], fixed
    )


def test_the_frame_is_that_of_the_first_vector():
    assert site_gauge(np.array([[0.5, -1.0], [-0.5, 1.0], [0.0, 1.0]])).tolist() == [1, -1, 1]


def test_ties_do_not_hang_on_the_last_bits():
    V = np.array([[0.5, 0.5], [0.5, -0.5], [0.5, 0.5], [0.5, -0.5]])
    for bits in np.random.default_rng(0).integers(-4, 5, (20, 4, 2)):
        shaken = V * (1 + bits * 2.0**-52)
        np.testing.assert_array_equal(np.sign(canonical_gauge(shaken)), np.sign(V))
    assert site_gauge(np.array([[1.0], [-1e-17], [1e-17]])).tolist() == [1, 1, 1]
