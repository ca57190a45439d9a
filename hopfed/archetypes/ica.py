"""The baseline a user would otherwise reach for: leading eigenvectors and FastICA.

Source: theory/NOTES.md, "Independent components".
"""

from __future__ import annotations

import warnings

import numpy as np

from hopfed._lib.random import derive
from hopfed.archetypes.selection import accepted, merge
from hopfed.archetypes.subspace import Subspace


def ica_candidates(space: Subspace, seed: int) -> np.ndarray:
    """Candidates (C, N) int8: signs of the independent components of the eigenvectors' rows.

    The rows of V (N, K) are mixtures of K binary sources. Exact for few archetypes per site;
    collapses by K/N about 0.1. Passes the same acceptance as every other candidate.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    none, space = np.zeros((0, space.n_sites), dtype=np.int8), space.on_host()
    centred = space.vectors - space.vectors.mean(axis=0)
    if space.dim == 0 or np.linalg.matrix_rank(centred) < space.dim:  # it divides by the smallest
        return none
    model = FastICA(
        n_components=space.dim,
        fun="cube",
        whiten="unit-variance",
        max_iter=400,
        random_state=derive(seed, "ica") % 2**32,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # acceptance judges the outcome
        sources = model.fit_transform(space.vectors)
    states = space.polish(np.where(sources.T >= 0, 1, -1))
    return merge(space, none, states[accepted(space, states)])
