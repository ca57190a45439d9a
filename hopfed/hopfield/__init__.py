"""The Hopfield federation: clients send sums, the server sends archetypes, round after round."""

from hopfed._lib.lazy import offers

__all__ = ["HopfieldFederation"]  # a client does not import the server's half

__getattr__, __dir__ = offers(__name__, __path__, {"HopfieldFederation": "federation"})
