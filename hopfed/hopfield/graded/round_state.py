"""A round at the server, between two of its exchanges: arrays, as every state of a method is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed.archetypes.mixture import ClassSums, Fit, Mixture, Prior
from hopfed.federation.messages import Message
from hopfed.hopfield.graded.robust import clients_left_out, pooled_sums
from hopfed.hopfield.graded.settings import GradedSettings

NONE, SPLIT, JOIN = range(3)  # what a trial does to the classes of the fit


def no_basis() -> np.ndarray:
    """Directions (K, 0, N) before any is known."""
    return np.zeros((0, 0, 0))


@dataclass(frozen=True)
class UnderWay:
    """What the server knows within a round.

    Attributes
    ----------
    clients : (L,) who answered every exchange of the round so far.
    rows : (L,) how many rows they said that they have.
    prior : of the rates of the columns, and what a row of each of these clients counts.
    asked : classes that were last told, with shares (L, K).
    parent : (K,) which remembered class each of them is, `memory.STRANGER` for none.
    stage : what was asked for, "sums", "look", "products" or "sides".
    trial : whether they are a trial, to be compared with `fit`, and what it does to its classes.
    steps : steps of this fit, or trial, so far.
    margin : by how much the trial was better after its last step.
    fit : the best classes of the round, of those it was heard of.
    fit_parent : `parent` of its classes.
    rising : nats that its last step gained.
    parts : what each client said of them, (L, ...) by name, as it came: who falls silent later is
        taken out again.
    basis, images : (K, s, N) directions in which its residuals were looked at, and their products.
    ratios : (K,) leading eigenvalue of the residuals of each class, over the edge of noise.
    loudest : the largest of the round's first look; NaN before.
    into : (K,) which classes of `fit` a trial joins: number of the class that each becomes.
    failures, refused : trials of splits, and of joins, that were worse than `fit`, since the last
        that was better.
    looked, dull : whether `ratios` are those of `fit`, and whether none of its classes is to be
        split any more.
    joins : classes that were joined to others in this round.
    settled : whether further steps would change nothing of `fit`.
    quiet : whether nothing is left to ask in this round.
    """

    clients: np.ndarray
    rows: np.ndarray
    prior: Prior
    asked: Mixture
    parent: np.ndarray
    stage: str = "sums"
    trial: int = NONE
    steps: int = 0
    margin: float = -np.inf
    fit: Fit | None = None
    fit_parent: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    rising: float = 0.0
    parts: Message = field(default_factory=dict)
    basis: np.ndarray = field(default_factory=no_basis)
    images: np.ndarray = field(default_factory=no_basis)
    ratios: np.ndarray = field(default_factory=lambda: np.zeros(0))
    loudest: float = np.nan
    into: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    failures: int = 0
    refused: int = 0
    joins: int = 0
    looked: bool = False
    dull: bool = False
    settled: bool = False
    quiet: bool = False

    @property
    def best(self) -> Fit:
        """The fit, which is there after the first exchange."""
        if self.fit is None:
            raise RuntimeError("no client was heard in this round yet")
        return self.fit

    def cut(self, liars: float) -> int:
        """Clients that are left out at either end of every entry."""
        return clients_left_out(liars, len(self.clients))

    def collect(self, messages: Mapping[int, Message], method: GradedSettings) -> ClassSums:
        """Bring together what the clients answered about the classes that were asked about."""
        answers = [messages[int(c)] for c in self.clients]
        asked = self.asked if "log_likelihood" in answers[0] else None
        return pooled_sums(answers, self.prior, self.cut(method.liars), method.claim, asked)

    def said(self, messages: Mapping[int, Message]) -> Message:
        """Answers about classes as `parts`."""
        names = ("counts", "signed", "seen", "log_likelihood")
        return {n: np.array([messages[int(c)][n] for c in self.clients]) for n in names}

    def asking(self, classes: Mixture, parent: np.ndarray) -> UnderWay:
        """Ask about these classes, whose shares (L, K) are those of the clients."""
        return replace(self, asked=classes, parent=parent, stage="sums")

    def trying(self, trial: int, classes: Mixture, parent: np.ndarray) -> UnderWay:
        """Ask about these classes, to see whether they are better than the fit."""
        return replace(self.asking(classes, parent), trial=trial, steps=0, margin=-np.inf)

    def only(self, heard: np.ndarray, method: GradedSettings) -> UnderWay:
        """Take out who fell silent: nothing that it said counts, as if it had not been there."""
        at = np.flatnonzero(np.isin(self.clients, heard))
        if len(at) == len(self.clients) or len(at) == 0:
            return self
        prior = replace(self.prior, influence=self.prior.influence[at])
        asked = Mixture(self.asked.means, self.asked.shares[at])
        left = replace(
            self,
            clients=self.clients[at],
            rows=self.rows[at],
            prior=prior,
            asked=asked,
            parts={name: array[at] for name, array in self.parts.items()},
        )
        if self.fit is None:
            return left
        prior = replace(self.fit.prior, influence=prior.influence)
        classes = Mixture(self.fit.classes.means, self.fit.classes.shares[at])
        answers = [{n: array[i] for n, array in left.parts.items()} for i in range(len(at))]
        sums = pooled_sums(answers, prior, left.cut(method.liars), method.claim, classes)
        prior = prior.fitted(sums)
        return replace(left, fit=Fit(classes, sums, prior, prior.evidence(classes, sums)))
