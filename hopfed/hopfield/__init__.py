"""The Hopfield federation: sums up, archetypes down, round after round.

In come the rows of clients; out go archetypes, which all clients are told after each round.

federation : the federation: a channel, a policy of noise, and what the server believes.
patterns, classes : the two channels, each with both sides of an exchange.
noise, noisy_classes : the noise that hides a row, and classes in spite of it.
guard, possible, support : what the server believes of clients that may lie.
evidence, remembered : what is kept from round to round.
plasticity : how much weight a client gives to its new examples.
encoding : operators as messages: counts or factors.
simulation : rounds in one call, all clients in one process.
owner, ledger : what the owner of a file answers, and the privacy budget of its rows.
columns : which column of an owner is which of the federation.
told : the last message of a federation: archetypes for all clients.
"""

from hopfed.hopfield.federation import HopfieldFederation

__all__ = ["HopfieldFederation"]
