"""The Hopfield federation: sums up, archetypes down, round after round.

`federation` is the whole; `patterns` and `classes` are the channels at the server, `clients` and
`owner` what clients answer, `noise` and `ledger` what hides a row, `guard` what is believed.
"""

from hopfed._lib.lazy import offers

__all__ = ["HopfieldFederation"]  # a client does without the server's half

__getattr__, __dir__ = offers(__name__, __path__, {"HopfieldFederation": "federation"})
