"""Algorithms 1 and 2 of the Hopfield paper as printed, in factor form: a baseline.

Its figures can be had with it beside those of this repository. What is known of the truth in its
authors' programs is not used: the operator is multiplied by the number of eigenvalues counted, in
the place of the true number of archetypes, because otherwise none exceeds tau once sharpened.

Source: arXiv:2603.19902, Algorithms 1 and 2; theory/NOTES.md, "Factorisation of the Hopfield
paper".

The baseline a user would otherwise reach for: leading eigenvectors and FastICA.

Source: theory/NOTES.md, "Independent components".
"""

from __future__ import annotations

import warnings

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.archetypes.selection import accepted, merge
from hopfed.archetypes.subspace import Subspace
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate

# Settings of the algorithm, as its authors have them.
TAU = 0.5  # sharpened eigenvalue above which an eigenvector counts
SCORE = 0.6  # tau_2, part of an accepted pattern that lies in the subspace
OVERLAP = 0.4  # delta, below which two patterns are different, of either sign
EPS, STEPS = 0.01, 200  # of the sharpening
LAYERS = 5
BETA, UPDATES = 2.5, 50  # of the layered memory
# It is synchronous, its cue is clamped, and the self-field is kept; the amplitude of the noise
# falls from and to these, over beta.
MEMORY = LayeredMemory(
    layers=LAYERS,
    repulsion=0.2,
    field=0.1,
    noise=(0.3, 0.02),
    noise_over_beta=True,
    self_field=True,
)


def published_patterns(
    spectrum: Spectrum,
    rank: RankEstimate,
    seed: int,
    mixtures: np.ndarray | None = None,
) -> np.ndarray:
    """Patterns (C, N) that Algorithms 1 and 2 accept, in their order.

    Parameters
    ----------
    spectrum, rank : leading eigenpairs of C, and how many count.
    seed : of mixtures and noise.
    mixtures : (B, N) of +-1, given mixtures (13) in the place of signs of random combinations of
        eigenvectors (21).
    """
    k = rank.n_detected
    N = spectrum.n_sites
    values = k * spectrum.values[:k] / N
    for n in range(STEPS):  # each eigenvalue by itself: the iteration keeps the vectors
        values = values + EPS / (1 + EPS * n) * (values - values**2)
    V = to_host(spectrum.vectors)[:, :k][:, values > TAU].astype(np.float64)
    values = values[values > TAU]
    if not len(values):
        return np.zeros((0, N), np.int8)
    if mixtures is None:
        count = max(1, 10 * int(len(values) / LAYERS * np.log(len(values) / 0.01)))
        combined = stream(seed, "published").standard_normal((count, len(values))) @ V.T
        mixtures = np.where(combined >= 0, 1, -1)
    require(mixtures.ndim == 2 and mixtures.shape[1] == N, "mixtures", f"of {N} columns", "others")
    relaxed = MEMORY.relax(
        mixtures.astype(np.int8),
        V * np.sqrt(values),
        beta=BETA,
        updates=UPDATES,
        seed=derive(seed, "published"),
    )
    return _accepted(relaxed.state.reshape(-1, N), V)


def _accepted(states: np.ndarray, V: np.ndarray) -> np.ndarray:
    """States above tau_2 (18), in their order, each unlike those before it (14), (19)."""
    x = states.astype(np.float64)
    good = ((x @ V) ** 2).sum(axis=1) / x.shape[1] > SCORE
    kept: list[int] = []
    for i in np.flatnonzero(good):
        if not kept or np.abs(x[kept] @ x[i]).max() / x.shape[1] < OVERLAP:
            kept.append(int(i))
    return states[kept].astype(np.int8)


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
