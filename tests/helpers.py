"""What several tests need: one strict comparison, and the score of a recovery against the truth."""

import numpy as np

from hopfed.data.channel import draw_examples, rademacher


def assert_close(got, want, *, rtol=1e-7, atol=0.0):
    """Same library, dtype, shape, and then values."""
    assert type(got) is type(want), (type(got), type(want))
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def sample(K, N, M, quality, seed, exposures=None):
    """Draw archetypes and examples from one seed: (archetypes, examples)."""
    rng = np.random.default_rng(seed)
    xi = rademacher(K, N, rng)
    return xi, draw_examples(xi, M, quality, rng, exposures=exposures)[0]


def magnetisation(patterns, archetypes):
    """Overlap of the best pattern with each archetype, and the number of false discoveries."""
    if len(patterns) == 0:
        return np.zeros(len(archetypes)), 0
    m = np.abs(patterns.astype(np.float64) @ archetypes.T) / archetypes.shape[1]
    return m.max(axis=0), int((m.max(axis=1) < 0.9).sum())
