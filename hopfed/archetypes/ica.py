"""The baseline a user would otherwise reach for: leading eigenvectors and FastICA.

Source: theory/NOTES.md, "Independent components".
"""

from __future__ import annotations

import warnings

import numpy as np

from hopfed._lib.random import derive
from hopfed.archetypes.selection import accepted, merge
from hopfed.archetypes.subspace import Subspace

FLAT = 1e-9  # part of the unit length of a direction below which it is the same at all sites


def ica_candidates(space: Subspace, seed: int) -> np.ndarray:
    """Candidates (C, N) int8: signs of the independent components of the eigenvectors' rows.

    The rows of V (N, K) are mixtures of K binary sources. Exact for few archetypes per site;
    collapses by K/N about 0.1. Passes the same acceptance as every other candidate.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    none, space = np.zeros((0, space.n_sites), dtype=np.int8), space.on_host()
    centred = space.vectors - space.vectors.mean(axis=0)
    # Whitened here: all singular values are nearly one, so that the basis of FastICA's own
    # decomposition, and with it what is found, would hang on the last bits.
    spread, E = np.linalg.eigh(centred.T @ centred)
    if space.dim == 0 or spread[0] < FLAT:  # it divides by the smallest
        return none
    whitened = np.sqrt(space.n_sites) * centred @ (E / np.sqrt(spread)) @ E.T
    model = FastICA(
        fun="cube", whiten=False, max_iter=400, random_state=derive(seed, "ica") % 2**32
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # acceptance judges the outcome
        sources = model.fit_transform(whitened)
    states = space.polish(np.where(sources.T >= 0, 1, -1))
    return merge(space, none, states[accepted(space, states)])
