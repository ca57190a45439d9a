"""Settings of a federation of graded classes."""

from __future__ import annotations

from dataclasses import dataclass

from hopfed._lib.settings import check_types, require
from hopfed.hopfield.settings import Served, Source


@dataclass(frozen=True)
class GradedSettings(Served):
    """How classes are followed over rounds.

    Attributes
    ----------
    source : the clients' rows of each round; entries may be missing.
    n_sites : columns N.
    discount : share of the sums of earlier rounds that is left after a round, in [0, 1]. Of a class
        that moved less is left, whatever its rows of this round say (`memory.carried`).
    steps : steps of expectation maximisation before a search for new classes, and of each trial.
    looks : searches in a round for which there are exchanges in any case; each can at most double
        the number of classes. What is left of the exchanges goes into what promises most.
    products : products by which the residuals of every class are looked at.
    alpha : false-alarm rate of the residuals of a class that holds nothing new.
    patience : rounds in a row that the residuals of a class must be above noise before it is split.
    most : classes at most.
    influence : part of all rows of a round that one client may stand for.
    claim : medians of all clients' rows that one client may stand for.
    liars : share of the clients, rounded up, that may lie together: of every entry so many of the
        highest and of the lowest are left out (`robust`), and a new class needs rows of others.
    support : rows that a class must have, in the sums that are remembered; one of fewer is dropped.

    Raises
    ------
    ArgumentError : a setting outside of its range.
    """

    source: Source
    n_sites: int
    discount: float = 0.7
    steps: int = 3
    looks: int = 4
    products: int = 5
    alpha: float = 1e-3
    patience: int = 1
    most: int = 50
    influence: float = 1.0
    claim: float = float("inf")
    liars: float = 0.0
    support: float = 5.0

    def __post_init__(self) -> None:
        check_types(self)
        require(self.n_sites >= 2, "n_sites", "at least 2", self.n_sites)
        self._check_ranges()
        require(0 < self.influence <= 1, "influence", "in (0, 1]", self.influence)
        require(self.support > 0, "support", "above 0", self.support)
        require(self.looks >= 0, "looks", "at least 0", self.looks)
        for name in ("steps", "products", "patience", "most"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    @property
    def exchanges(self) -> int:
        """Exchanges of a round, at most."""
        return self.steps + self.looks * (self.products + 1 + self.steps)
