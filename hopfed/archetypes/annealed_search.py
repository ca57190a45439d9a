"""Search for archetypes with one operator only: annealed starts and exact deflation.

Source: theory/NOTES.md, "Search with one operator" and "Deflation".

Used when groups cannot be told apart (secure aggregation, the paper's own setting) and for what
joint diagonalisation left over. Each pass starts many memories at mixtures ``sign(V c)``
(arXiv:2603.19902, eq. (21)) and lets them fall in ``J = V diag(l^p) V^T``, between the projector
(p = 0) and Hebb (p = 1): slightly heavier archetypes nucleate first. What passes the theory's
threshold is deflated in the metric of the operator, which makes everything left easier.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hopfed import kernels
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.archetypes.subspace import DUPLICATE, SLACK, Subspace, accepted, distinct, merge
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import site_gauge

# (p, beta), tried in turn; the next one after a pass without a find. Archetypes nucleate at random
# times, at a rate that hardly changes once a memory has made 60 sweeps (N = 1,000, K = 180, 15
# found: .1 in 1,000 sweeps). It was highest for p from .25 to .35 and beta from 3.25 to 4, twice
# that of (.25, 3); annealing beta did not raise it. Couplings 1.4 times as strong in a random
# direction, or that scatter by a fifth (Wishart), stop it: memories then stay with the strongest.
SETTINGS = ((0.25, 3.5), (0.3, 3.75))
RETURN = 0.98  # overlap with itself to which an archetype falls back after `flips`
STOP = 0.03  # below the score of an archetype: a memory that scores more is on its way to one


@dataclass(frozen=True)
class Search:
    """Settings of the search.

    Attributes
    ----------
    starts, sweeps : memories per pass and heat-bath sweeps of each; both grow after a pass that
        found nothing.
    settings : pairs (p, beta) of eigenvalue exponent and inverse temperature.
    patience, reluctance : passes in a row without a find before giving up; the second while nothing
        at all is found, and once half is. The longest wait that ended in a find was 42 passes.
    memory : the layered memory that is run; one layer, serial heat bath, by default.
    slack : of the acceptance test (`hopfed.archetypes.subspace.accepted`); inf lets every rest
        state pass.
    flips : share of its sites that are turned at random to see whether a rest state attracts; 0
        takes any. Where loads are high, 30 states rest that score as archetypes do; 1 attracts.
    duplicate : overlap of two likenesses of one (`hopfed.archetypes.subspace.merge`); 1 keeps all
        that differ.
    deflate : take what was found out of the operator before the next pass.
    early_stop : stop a memory once its score is close to that of an archetype.
    most : memories, times sweeps, times directions, of all passes together, before it gives up.
    """

    starts: int = 32
    sweeps: int = 150
    settings: tuple[tuple[float, float], ...] = SETTINGS
    patience: int = 40
    reluctance: int = 5
    memory: LayeredMemory = field(default_factory=lambda: LayeredMemory(layers=1, order="serial"))
    slack: float = SLACK
    flips: float = 0.15
    duplicate: float = DUPLICATE
    deflate: bool = True
    early_stop: bool = True
    most: float = np.inf

    def __post_init__(self) -> None:
        for name in ("starts", "sweeps", "patience", "reluctance"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(bool(self.settings), "settings", "at least one pair (p, beta)", "none")
        require(self.slack >= 0, "slack", "at least 0", self.slack)
        require(0 <= self.flips < 0.5, "flips", "in [0, 0.5)", self.flips)
        require(0 < self.duplicate <= 1, "duplicate", "an overlap in (0, 1]", self.duplicate)


def search_candidates(
    space: Subspace, config: Search, seed: int, known: np.ndarray | None = None
) -> np.ndarray:
    """Archetype candidates (C, N) int8, the `known` ones, deflated first, among them."""
    space = space.on_host()  # as the heat bath: nothing goes to and fro
    found = np.zeros((0, space.n_sites), np.int8) if known is None else known
    gauge = site_gauge(space.vectors) if space.dim else np.ones(space.n_sites)
    base = space.vectors * gauge[:, None] * np.sqrt(space.metric / space.metric.mean())
    starts, sweeps, turn, failures, number = config.starts, config.sweeps, 0, 0, 0
    steps = 0
    patience, remainder = config.reluctance, None
    # One direction close to the threshold says nothing of the score of an archetype; the mean does.
    floor = float(space.overlaps.mean()) - STOP if space.dim else None
    while len(found) < space.dim and failures < patience and steps < config.most:
        if remainder is None:  # eigenpairs of the operator once those found are taken out of it
            left = base
            if config.deflate and len(found):
                t = space.whitened(found)
                left = base @ np.linalg.qr(t.T, mode="complete")[0][:, len(found) :]
            values, E = np.linalg.eigh(left.T @ left)
            values, E = values[::-1], E[:, ::-1]
            keep = values > 1e-9 * values[0]
            remainder = left @ E[:, keep] / np.sqrt(values[keep]), values[keep]
        U, values = remainder
        p, beta = config.settings[turn % len(config.settings)]
        draws = stream(seed, "mixtures", number).standard_normal((starts, U.shape[1]))
        state = config.memory.run(
            np.where(draws @ U.T >= 0, 1, -1).astype(np.int8),
            U * (values / values.mean()) ** (p / 2),
            beta=beta,
            updates=sweeps,
            seed=derive(seed, "heat bath", number),
            stop_score=floor if config.early_stop else None,
            score_weights=(values / values.mean()) ** (-p),
        )
        number, steps = number + 1, steps + starts * sweeps * U.shape[1]
        fresh = _rest(distinct(_rest(state, U)) * gauge.astype(np.int8), space.vectors)
        before = len(found)
        fresh = fresh[accepted(space, fresh, config.slack)]
        if config.flips and len(fresh):  # those stay to which turned sites fall back
            drawn = stream(seed, "flips", number).random(fresh.shape) < config.flips
            back = _rest(np.where(drawn, -fresh, fresh), space.vectors).astype(np.float32)
            fresh = fresh[(back * fresh).mean(axis=1) >= RETURN]
        found = merge(space, found, fresh, config.duplicate)
        if len(found) > before:
            starts, sweeps, failures = config.starts, config.sweeps, 0
            patience = config.patience if 2 * len(found) < space.dim else config.reluctance
            remainder = None
            continue
        failures, turn = failures + 1, turn + 1
        starts, sweeps = min(128, starts + starts // 2), min(600, int(sweeps * 1.15))
    return found


def _rest(states: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Zero-noise rest states (C, N) in ``W W^T``, reached site by site."""
    return kernels.descend(states, W).state
