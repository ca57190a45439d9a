"""The example channel: archetypes, and noisy +-1 copies of them.

Source: arXiv:2603.19902, eqs. (3), (4); theory/NOTES.md, "Archetypes and examples".
"""

from __future__ import annotations

import numpy as np

from hopfed._lib.settings import require


def rademacher(K: int, N: int, rng: np.random.Generator) -> np.ndarray:
    """Draw K archetypes of an example channel, N fair signs of an `rng` each: int8 (K, N) (3).

    Examples
    --------
    >>> xi = rademacher(2, 1000, np.random.default_rng(0))
    >>> xi.dtype, xi.shape, bool(abs(xi[0].astype(int) @ xi[1]) < 100)
    (dtype('int8'), (2, 1000), True)
    """
    return (2 * rng.integers(0, 2, size=(K, N), dtype=np.int8) - 1).astype(np.int8)


def draw_examples(
    archetypes: np.ndarray,
    M: int,
    quality: float,
    rng: np.random.Generator,
    *,
    exposures: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw M examples of a channel, noisy copies of archetypes: a site flips at (1 - r)/2 (4).

    Returns examples int8 (M, N), and labels (M,), which only a score may use.

    Parameters
    ----------
    archetypes : int8 (K, N) of +-1.
    quality : r in [0, 1].
    exposures : (K,) mixture of the archetypes; uniform when left out.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> xi = rademacher(2, 5, rng)
    >>> eta, mu = draw_examples(xi, 4, 1.0, rng)
    >>> bool((eta == xi[mu]).all())
    True
    """
    require(0 <= quality <= 1, "quality", "in [0, 1]", quality)
    K, N = archetypes.shape
    labels = rng.choice(K, size=M, p=exposures)
    examples = np.empty((M, N), dtype=np.int8)
    rows = max(1, 2**18 // max(N, 1))  # a block that stays in the cache
    for a in range(0, M, rows):
        flips = rng.random((min(rows, M - a), N), dtype=np.float32) >= (1 + quality) / 2
        signs = 1 - 2 * flips.view(np.int8)
        np.multiply(archetypes[labels[a : a + rows]], signs, out=examples[a : a + rows])
    return examples, labels


def small_sample(seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a small sample of the example channel by a `seed`: 3 archetypes, 600 examples, r = 0.8.

    Returns archetypes int8 (3, 200), examples int8 (600, 200), and labels (600,) for scores only.

    Examples
    --------
    >>> xi, x, labels = small_sample()
    >>> bool(abs((x * xi[labels]).mean() - 0.8) < 0.01)
    True
    """
    rng = np.random.default_rng(seed)
    archetypes = rademacher(3, 200, rng)
    return archetypes, *draw_examples(archetypes, 600, 0.8, rng)
