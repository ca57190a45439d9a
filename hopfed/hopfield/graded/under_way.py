"""A round at the server, between two of its exchanges: arrays, as every state of a method is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed.archetypes.graded.em import Fit
from hopfed.archetypes.graded.mixture import ClassSums, Mixture, Prior
from hopfed.federation.messages import Message, below


def no_basis() -> np.ndarray:
    """Directions (K, 0, N) before any is known."""
    return np.zeros((0, 0, 0))


@dataclass(frozen=True)
class UnderWay:
    """What the server knows within a round.

    Attributes
    ----------
    clients : (L,) who answered the first exchange of the round.
    rows : (L,) how many rows they said that they have.
    prior : of the rates of the columns, and what a row of each of these clients counts.
    asked : classes that were last told, with shares (L, K).
    parent : (K,) which remembered class each of them is, `memory.STRANGER` for none.
    trial : whether they are a trial, to be compared with `fit`.
    fit : the best classes of the round, of those it was heard of.
    fit_clients, fit_parent : whose sums are in it, and `parent` of its classes.
    basis, images : (K, s, N) directions in which its residuals were looked at, and their products.
    ratios : (K,) leading eigenvalue of the residuals of each class, over the edge of noise.
    failures : trials that were worse than `fit`, since the last that was better.
    quiet : whether nothing is left to ask in this round.
    """

    clients: np.ndarray
    rows: np.ndarray
    prior: Prior
    asked: Mixture
    parent: np.ndarray
    trial: bool = False
    fit: Fit | None = None
    fit_clients: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    fit_parent: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    basis: np.ndarray = field(default_factory=no_basis)
    images: np.ndarray = field(default_factory=no_basis)
    ratios: np.ndarray = field(default_factory=lambda: np.zeros(0))
    failures: int = 0
    quiet: bool = False

    @property
    def best(self) -> Fit:
        """The fit, which is there after the first exchange."""
        if self.fit is None:
            raise RuntimeError("no client was heard in this round yet")
        return self.fit

    def rows_of(self, heard: np.ndarray) -> np.ndarray:
        """Rows of `clients` at which those in `heard` are."""
        return np.flatnonzero(np.isin(self.clients, heard))

    def collect(self, messages: Mapping[int, Message]) -> tuple[np.ndarray, ClassSums, Prior]:
        """Add up what clients answered: who they are, the sums, and the prior with their bound."""
        at = self.rows_of(np.array(list(messages)))
        prior = replace(self.prior, influence=self.prior.influence[at])
        who = self.clients[at]
        return who, prior.collect([messages[int(c)] for c in who]), prior

    def asking(self, classes: Mixture, who: np.ndarray, parent: np.ndarray) -> UnderWay:
        """Ask about these classes, whose shares (L', K) are those of the clients `who`."""
        common = classes.shares.mean(axis=0)
        shares = np.tile(common, (len(self.clients), 1))
        shares[self.rows_of(who)] = classes.shares
        return replace(self, asked=Mixture(classes.means, shares), parent=parent)

    def flatten(self) -> dict[str, np.ndarray]:
        """Return it as arrays by name."""
        whole = {
            "clients": self.clients,
            "rows": self.rows,
            "rates": self.prior.rates,
            "observed": self.prior.observed,
            "influence": self.prior.influence,
            "asked/means": self.asked.means,
            "asked/shares": self.asked.shares,
            "parent": self.parent,
            "basis": self.basis,
            "images": self.images,
            "ratios": self.ratios,
            "fit_clients": self.fit_clients,
            "fit_parent": self.fit_parent,
            "flags": np.array([self.trial, self.failures, self.quiet], dtype=np.int64),
        }
        return whole if self.fit is None else {**whole, **_fit_arrays(self.fit)}

    @classmethod
    def unflatten(cls, arrays: Mapping[str, np.ndarray]) -> UnderWay:
        """Rebuild it from its arrays."""
        trial, failures, quiet = arrays["flags"].tolist()
        prior = Prior(arrays["rates"], arrays["observed"], arrays["influence"])
        plain = (
            "clients",
            "rows",
            "parent",
            "basis",
            "images",
            "ratios",
            "fit_clients",
            "fit_parent",
        )
        return cls(
            prior=prior,
            asked=Mixture(arrays["asked/means"], arrays["asked/shares"]),
            trial=bool(trial),
            fit=_fit_of(below(arrays, "fit"), prior) if "fit/means" in arrays else None,
            failures=failures,
            quiet=bool(quiet),
            **{name: arrays[name] for name in plain},
        )


def _fit_arrays(fit: Fit) -> dict[str, np.ndarray]:
    sums = fit.sums
    numbers = [sums.log_likelihood, fit.evidence, fit.prior.concentration]
    return {
        "fit/means": fit.classes.means,
        "fit/shares": fit.classes.shares,
        "fit/counts": sums.counts,
        "fit/signed": sums.signed,
        "fit/seen": sums.seen,
        "fit/influence": fit.prior.influence,
        "fit/numbers": np.array(numbers),
    }


def _fit_of(arrays: Message, prior: Prior) -> Fit:
    likelihood, evidence, concentration = arrays["numbers"].tolist()
    return Fit(
        Mixture(arrays["means"], arrays["shares"]),
        ClassSums(arrays["counts"], arrays["signed"], arrays["seen"], likelihood),
        replace(prior, influence=arrays["influence"], concentration=concentration),
        evidence,
    )
