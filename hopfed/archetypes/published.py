"""Algorithms 1 and 2 of the Hopfield paper as printed, in factor form: a baseline.

Its figures can be had with it beside those of this repository. What is known of the truth in its
authors' programs is not used: the operator is multiplied by the number of eigenvalues counted, in
the place of the true number of archetypes, because otherwise none exceeds tau once sharpened.

Source: arXiv:2603.19902, Algorithms 1 and 2; theory/NOTES.md, "Factorisation of the Hopfield
paper".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import Spectrum
from hopfed.spectral.rank import RankEstimate


@dataclass(frozen=True)
class Published:
    """Settings of the algorithm, as its authors have them.

    Attributes
    ----------
    tau : sharpened eigenvalue above which an eigenvector counts.
    score : tau_2, part of an accepted pattern that lies in the subspace.
    overlap : delta, below which two patterns are different, of either sign.
    eps, steps : of the sharpening.
    layers, repulsion, field, beta, updates, noise : of the layered memory; the amplitude of the
        noise falls from and to these, over beta.

    Examples
    --------
    >>> Published(overlap=0.5).layers
    5
    """

    tau: float = 0.5
    score: float = 0.6
    overlap: float = 0.4
    eps: float = 0.01
    steps: int = 200
    layers: int = 5
    repulsion: float = 0.2
    field: float = 0.1
    beta: float = 2.5
    updates: int = 50
    noise: tuple[float, float] = (0.3, 0.02)

    def __post_init__(self) -> None:
        for name in ("tau", "score", "overlap"):
            require(0 < getattr(self, name) < 1, name, "in (0, 1)", getattr(self, name))

    @property
    def memory(self) -> LayeredMemory:
        """The memory: synchronous, a clamped cue, the self-field kept."""
        return LayeredMemory(
            layers=self.layers,
            repulsion=self.repulsion,
            field=self.field,
            noise=self.noise,
            noise_over_beta=True,
            self_field=True,
        )


def published_patterns(
    spectrum: Spectrum,
    rank: RankEstimate,
    seed: int,
    settings: Published | None = None,
    mixtures: np.ndarray | None = None,
) -> np.ndarray:
    """Patterns (C, N) that Algorithms 1 and 2 accept, in their order.

    Parameters
    ----------
    spectrum, rank : leading eigenpairs of C, and how many count.
    seed : of mixtures and noise.
    mixtures : (B, N) of +-1, given mixtures (13) in the place of signs of random combinations of
        eigenvectors (21).

    Examples
    --------
    >>> from hopfed.data.channel import draw_examples, rademacher
    >>> from hopfed.spectral.eigenpairs import eigenpairs
    >>> from hopfed.spectral.noise import Sample
    >>> from hopfed.spectral.operators import FactorOperator
    >>> from hopfed.spectral.rank import TracyWidom
    >>> rng = np.random.default_rng(0)
    >>> xi = rademacher(3, 300, rng)
    >>> x = draw_examples(xi, 900, 0.9, rng)[0]
    >>> spectrum = eigenpairs(FactorOperator.from_examples(x), 6)
    >>> rank = TracyWidom()(Sample(spectrum.values, 300, 900))
    >>> found = published_patterns(spectrum, rank, seed=1)
    >>> float(np.abs(found @ xi.T.astype(float) / 300).max(axis=1).min().round(2)) > 0.6
    True
    """
    chosen = settings or Published()
    k = rank.n_detected
    N = spectrum.n_sites
    values = k * spectrum.values[:k] / N
    for n in range(chosen.steps):  # each eigenvalue by itself: the iteration keeps the vectors
        values = values + chosen.eps / (1 + chosen.eps * n) * (values - values**2)
    V = to_host(spectrum.vectors)[:, :k][:, values > chosen.tau].astype(np.float64)
    values = values[values > chosen.tau]
    if not len(values):
        return np.zeros((0, N), np.int8)
    if mixtures is None:
        count = max(1, 10 * int(len(values) / chosen.layers * np.log(len(values) / 0.01)))
        combined = stream(seed, "published").standard_normal((count, len(values))) @ V.T
        mixtures = np.where(combined >= 0, 1, -1)
    require(mixtures.ndim == 2 and mixtures.shape[1] == N, "mixtures", f"of {N} columns", "others")
    relaxed = chosen.memory.relax(
        mixtures.astype(np.int8),
        V * np.sqrt(values),
        beta=chosen.beta,
        updates=chosen.updates,
        seed=derive(seed, "published"),
    )
    return _accepted(relaxed.state.reshape(-1, N), V, chosen)


def _accepted(states: np.ndarray, V: np.ndarray, settings: Published) -> np.ndarray:
    """States above tau_2 (18), in their order, each unlike those before it (14), (19)."""
    x = states.astype(np.float64)
    good = ((x @ V) ** 2).sum(axis=1) / x.shape[1] > settings.score
    kept: list[int] = []
    for i in np.flatnonzero(good):
        if not kept or np.abs(x[kept] @ x[i]).max() / x.shape[1] < settings.overlap:
            kept.append(int(i))
    return states[kept].astype(np.int8)
