"""Graded classes in rounds: latent classes of rows with gaps that come, go and drift.

settings : how such a federation works.
client : what a client answers from the rows of a round.
server, improving : what the server does with the answers of a round, and what it asks next.
round_state : what the server knows between two exchanges of a round.
memory : the classes that the server remembers, with the sums behind them.
method : all of it as a method of `hopfed.federation`.
robust : sums over owners of whom some may lie.
private : both sides where answers have noise, which needs no trust in the server.
noisy, noisy_sums : the noise, and sums that have it.

In come rows of -1, 0 (missing) and +1, at clients; out go means and shares of classes, round by
round. Source: theory/NOTES.md, "Latent class channel".
"""

from hopfed.hopfield.graded.method import GradedFederation

__all__ = ["GradedFederation"]
