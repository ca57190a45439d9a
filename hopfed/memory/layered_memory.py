"""L-layer associative memory: layers of spins with one operator ``J = W W^T``.

Source: arXiv:2603.19902, eqs. (6) to (12); theory/NOTES.md, "Layered associative memory".

Two Hamiltonians couple the layers: "linear" (6), ``g_ab sigma_a^T J sigma_b`` with
``g_ab = -repulsion`` between layers, and "quadratic" (8), which penalises the square of that
overlap. Updates are synchronous (arXiv:2603.19902, eq. (12)) or serial, one spin at a time. Noise
is the heat bath, or the paper's schedule that anneals the amplitude of the uniform variable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed import kernels
from hopfed.kernels.layered import LayeredUpdate


@dataclass(frozen=True)
class LayeredMemory:
    """Settings of a layered memory; `run` relaxes states.

    Attributes
    ----------
    layers : L.
    repulsion : lambda, coupling between layers; in [0, 1 / (L - 1)).
    coupling : "quadratic" (8) or "linear" (6).
    field : H, strength of the cue as an external field on every layer.
    order : "synchronous" or "serial".
    noise : amplitude of the uniform noise (start, end) over the updates: (1, 1) is the heat bath;
        the paper anneals from 0.3 / beta to 0.02 / beta (`noise_over_beta`).
    noise_over_beta : whether `noise` is divided by beta.
    warm_up : beta rises linearly from this fraction of its value to the full value.
    self_field : keep the field of a spin on itself; without it most starts do not freeze
        (theory/NOTES.md, "Heat bath and self-field").
    """

    layers: int = 3
    repulsion: float = 0.2
    coupling: str = "quadratic"
    field: float = 0.0
    order: str = "synchronous"
    noise: tuple[float, float] = (1.0, 1.0)
    noise_over_beta: bool = False
    warm_up: float = 1.0
    self_field: bool = False

    def run(
        self,
        states: np.ndarray,
        W: np.ndarray,
        *,
        beta: float,
        updates: int,
        seed: int,
        stop_score: float | None = None,
        score_weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Relax memories that all start at `states` (S, N), and return the state of every layer."""
        # `beta` is the final value. A serial block of one layer stops when
        # ``sum_k score_weights_k a_k^2 / N`` exceeds `stop_score`, ``a = W^T sigma``.
        one = (self.layers, self.order, self.noise) == (1, "serial", (1.0, 1.0))
        if one and not (self.noise_over_beta or self.field or self.self_field):
            betas = beta * np.linspace(self.warm_up, 1.0, updates)
            return kernels.heat_bath(
                states, W, beta=betas, sweeps=updates, seed=seed, stop_score=stop_score,
                score_weights=score_weights,
            ).state  # fmt: skip
        relaxed = self.relax(states, W, beta=beta, updates=updates, seed=seed)
        return relaxed.state.reshape(-1, states.shape[1])

    def relax(
        self, states: np.ndarray, W: np.ndarray, *, beta: float, updates: int, seed: int
    ) -> LayeredUpdate:
        """Relax blocks of L layers that all start at their cue; returns the kernel's result."""
        blocks = np.repeat(states[:, None, :], self.layers, axis=1)
        betas = (beta * np.linspace(self.warm_up, 1.0, updates)).astype(np.float32)
        amplitude = np.linspace(*self.noise, updates)
        return kernels.layered_step(
            blocks,
            W,
            beta=betas,
            noise=amplitude / betas if self.noise_over_beta else amplitude,
            updates=updates,
            coupling=self.coupling,
            repulsion=self.repulsion if self.layers > 1 else 0.0,
            field=self.field,
            cue=states[:, None, :] if self.field else None,
            self_field=self.self_field,
            seed=seed,
            serial=self.order == "serial",
        )
