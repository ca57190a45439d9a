"""Graded classes in rounds: latent classes of rows with gaps that come, go and drift.

settings : how such a federation works.
memory : the classes that are remembered, with the sums behind them.
client : what a client answers from the rows of a round.
under_way : a round at the server, between two of its exchanges.
server : what the server makes of the answers.
method : all of it on the contract of `hopfed.federation`.
robust : sums over owners of whom some may lie.
agreed : what the owner of rows agrees to answer.
private : the same by answers with noise, which need no trust in the server.
noisy, noisy_sums, noisy_look : the noise, sums that have it, and what is seen beside it.
private_server : what the server makes of such answers.

In come rows of -1, 0 (missing) and +1, at clients; out go means and shares of classes, round by
round. Source: theory/NOTES.md, "Latent class channel".
"""

from hopfed.hopfield.graded.method import GradedFederation

__all__ = ["GradedFederation"]
