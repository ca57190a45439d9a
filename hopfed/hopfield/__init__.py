"""The Hopfield federation: operators up, archetypes down, round after round.

In come the examples of clients; out go archetypes, which all clients are told after each round.

settings : how a federation works.
client, server : the two sides of an exchange.
method : both as a method of `hopfed.federation`.
simulation : rounds in one call, all clients in one process.
encoding : operators as messages: counts or factors.
robust : means of operators that a few lying clients cannot move far.
noisy : the federation of clients that send one operator with noise, and nothing else.
graded : rounds of latent classes with a mean for each column, of rows that may have gaps.
memory : what the server keeps from round to round.
plasticity : how much weight a client gives to its new examples.
liars : what the server believes, refuses and leaves out.
site : what an owner answers, and the privacy budget of its rows.
headers : which column of an owner is which of the federation.
allowed : what a server may send to a client as its method.
told : the last message of a federation: archetypes for all clients.
"""

from hopfed.hopfield.method import HopfieldFederation

__all__ = ["HopfieldFederation"]
