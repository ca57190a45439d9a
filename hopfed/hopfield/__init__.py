"""The Hopfield federation: sums up, archetypes down, round after round.

In come the rows of clients; out go archetypes, for all clients after each round.

federation : the federation: a channel, a policy of noise, what the server believes; in one call.
clients : what clients answer about patterns and about classes, and how a server asks for it.
class_questions : questions about classes, and an outcome, as messages.
patterns, classes : the two channels, at the server.
verdict : whether rows lie in the classes that were found, and what these say of an outcome.
noise, noisy_classes : the noise that hides a row, and classes in spite of it.
guard, support : what the server believes of clients that may lie.
evidence, remembered : what is kept from round to round.
plasticity : how much weight a client gives to its new examples.
encoding : operators as messages, counts or factors, and what rows can give.
stream : where clients' examples come from.
owner, ledger : what the owner of a file answers, and the privacy budget of its rows.
columns : which columns a federation has.
announcement : the last message of a federation: archetypes for all clients.
"""

from hopfed._lib.lazy import offers

__all__ = ["HopfieldFederation"]  # a client does without the server's half

__getattr__, __dir__ = offers(__name__, __path__, {"HopfieldFederation": "federation"})
