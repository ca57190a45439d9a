"""The Hopfield federation: sums up, archetypes down, round after round."""

from hopfed._lib.lazy import offers

__all__ = ["HopfieldFederation"]  # a client does without the server's half

__getattr__, __dir__ = offers(__name__, __path__, {"HopfieldFederation": "federation"})
