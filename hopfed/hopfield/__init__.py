"""The Hopfield federation: operators up, archetypes down, round after round.

encoding : operators as messages: counts, factors or a sketch.
evidence : what the rounds so far have shown, as one weighted operator and the law of its noise.
remembered : archetypes kept from round to round, and the votes that make them exact.
voting : what clients' examples say of the patterns, and when it counts.
possible : what rows of +-1 can give, and messages that none can.
claims : how much of a client's size is believed.
support : how much an operator speaks for a pattern.
blending : the evidence alone, or with what is remembered.
robust : aggregates that bear lying clients.
settings : how a federation works.
kept : a count, from one exchange to the next.
client, server : the two sides of an exchange.
graded : rounds of latent classes with a mean for each column, of rows with gaps.
simulation : rounds in one call, all clients in one process.
method : all of it on the contract of `hopfed.federation`.
budget : what was released of the examples on a machine, so that no row is released twice.
private : a federation of operators with noise and nothing else, on the same contract.
site : what the owner of a file agrees to answer.
"""

from hopfed.hopfield.method import HopfieldFederation

__all__ = ["HopfieldFederation"]
