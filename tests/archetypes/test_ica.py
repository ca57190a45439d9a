"""The baseline of independent components."""

from dataclasses import replace

import numpy as np
from helpers import sample, subspace

from hopfed.archetypes.published import ica_candidates


def test_what_is_found_does_not_hang_on_the_last_bits():
    """All singular values of centred eigenvectors but one are 1: any basis is as good."""
    space = subspace(sample(8, 200, 400, 0.9, 54)[1])
    found = ica_candidates(space, 0)
    assert found.shape == (8, 200)
    rng = np.random.default_rng(0)
    for _ in range(3):
        shaken = space.vectors * (1 + 1e-14 * rng.standard_normal(space.vectors.shape))
        np.testing.assert_array_equal(ica_candidates(replace(space, vectors=shaken), 0), found)
