"""Clients that exchange nothing: the lower baseline of every table."""

from __future__ import annotations

from dataclasses import dataclass

from hopfed.neural.method import NeuralMethod


@dataclass(frozen=True)
class Standalone(NeuralMethod, name="standalone", source="baseline"):
    """Every client trains only on its own examples; also called IND and Local."""
