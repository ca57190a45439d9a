"""The paper's own factorisation of a counted spectrum: a baseline.

Source: arXiv:2603.19902, Algorithms 1 and 2 as printed. The truth, which its authors' programs use,
is not used: the operator is multiplied by the number of counted eigenvalues, in place of the true
number of archetypes, because otherwise none exceeds tau once sharpened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.random import derive, stream
from hopfed.memory.layered_memory import LayeredMemory
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate

# Settings of the algorithm, from its authors.
TAU = 0.5  # sharpened eigenvalue above which an eigenvector counts
SCORE = 0.6  # tau_2, least part of an accepted pattern in the subspace
OVERLAP = 0.4  # delta, below which two patterns are different, of either sign
EPS, STEPS = 0.01, 200  # step size and steps of the sharpening
LAYERS = 5
BETA, UPDATES = 2.5, 50  # inverse temperature and updates of the memory
# It is synchronous, with a clamped cue and the self-field; the amplitude of the noise falls from
# the first to the second of these numbers, over beta.
PAPER: dict[str, Any] = {"noise": (0.3, 0.02), "noise_over_beta": True, "self_field": True}
MEMORY = LayeredMemory(layers=LAYERS, repulsion=0.2, field=0.1, **PAPER)


def published_patterns(spectrum: Spectrum, rank: RankEstimate, seed: int) -> np.ndarray:
    """Patterns (C, N) of the paper's factorisation (Algorithms 1 and 2), in their order."""
    k = rank.n_detected
    N = spectrum.n_sites
    values = k * spectrum.values[:k] / N
    for n in range(STEPS):  # eigenvalues alone, because the iteration keeps the vectors
        values = values + EPS / (1 + EPS * n) * (values - values**2)
    V = to_host(spectrum.vectors)[:, :k][:, values > TAU].astype(np.float64)
    values = values[values > TAU]
    if not len(values):
        return np.zeros((0, N), np.int8)
    count = max(1, 10 * int(len(values) / LAYERS * np.log(len(values) / 0.01)))
    combined = stream(seed, "published").standard_normal((count, len(values))) @ V.T
    mixtures = np.where(combined >= 0, 1, -1)
    how: dict[str, Any] = {"beta": BETA, "updates": UPDATES, "seed": derive(seed, "published")}
    relaxed = MEMORY.relax(mixtures.astype(np.int8), V * np.sqrt(values), **how)
    states = relaxed.state.reshape(-1, N)
    x, kept = states.astype(np.float64), list[int]()
    # States above tau_2 (18), in order, each unlike the accepted ones before it (14), (19).
    for i in np.flatnonzero(((x @ V) ** 2).sum(axis=1) / N > SCORE):
        if not kept or np.abs(x[kept] @ x[i]).max() / N < OVERLAP:
            kept.append(int(i))
    return states[kept].astype(np.int8)
