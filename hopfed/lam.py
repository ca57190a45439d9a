"""The L-layer associative memory (A6; 6-12): layers of spins on one operator ``J = W W^T``.

Two Hamiltonians couple the layers: "linear" (6), ``g_ab sigma_a^T J sigma_b`` with
``g_ab = -repulsion`` between layers, and "quadratic" (8), which penalises the square of that
overlap. Updates are synchronous (12) or serial, one spin at a time. Noise is the heat bath, or the
authors' schedule that anneals the amplitude of the uniform variable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopfed import kernels
from hopfed.errors import ArgumentError

ORDERS = ("synchronous", "serial")
COUPLINGS = ("linear", "quadratic")


@dataclass(frozen=True)
class LayeredMemory:
    """Settings of the memory; `run` relaxes states in it.

    Attributes
    ----------
    layers : L.
    repulsion : lambda, coupling between layers; in [0, 1 / (L - 1)).
    coupling : "quadratic" (8) or "linear" (6).
    field : H, strength of the cue as an external field on every layer.
    order : "synchronous" or "serial".
    noise : amplitude of the uniform noise (start, end) over the updates: (1, 1) is the heat bath;
        the authors anneal from 0.3 / beta to 0.02 / beta (`noise_over_beta`).
    noise_over_beta : whether `noise` is divided by beta.
    warm_up : beta rises linearly from this part of its value to all of it.
    self_field : keep the field of a spin on itself; without it most starts do not freeze (A7).
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

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ArgumentError("layers", "at least 1", self.layers)
        most = 1 / (self.layers - 1) if self.layers > 1 else np.inf
        if not 0 <= self.repulsion < most:
            raise ArgumentError("repulsion", f"in [0, {most:g})", self.repulsion)
        for name, allowed in (("order", ORDERS), ("coupling", COUPLINGS)):
            if getattr(self, name) not in allowed:
                raise ArgumentError(name, f"one of {', '.join(allowed)}", getattr(self, name))
        if not 0 < self.warm_up <= 1:
            raise ArgumentError("warm_up", "in (0, 1]", self.warm_up)
        if not (min(self.noise) >= 0 and self.field >= 0):
            raise ArgumentError("noise and field", "at least 0", (self.noise, self.field))
