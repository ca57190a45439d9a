"""The Hopfield federation: clients send sums, the server sends archetypes, round after round."""

from hopfed._lib.lazy_imports import lazy_names

__all__ = ["HopfieldFederation"]  # a client does not import the server's half

__getattr__, __dir__ = lazy_names(__name__, __path__, {"HopfieldFederation": "federation"})
