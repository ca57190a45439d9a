"""Where clients' examples come from: a source, or tables dealt out over the rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.errors import DataError
from hopfed.kernels import Rows

__all__ = ["Batches", "Source"]


class Source(Protocol):
    """Where clients' examples come from; it is sent to worker processes with the method."""

    def examples(self, t: int, client: int) -> Any:
        """Examples (M, N) of a client in round t: +-1, 0/1, booleans, or packed bits."""
        ...


@dataclass(frozen=True)
class Batches:
    """Owners' examples in as many random parts as there are rounds, each example in one."""

    # examples of each client, with gaps or without; a single set is that of whoever asks
    owners: tuple[Rows, ...]
    rounds: int = 1  # number of parts, which differ by at most one example
    outcomes: tuple[Any, ...] = ()  # what each owner holds beside its examples (`relate.Column`)

    def __post_init__(self) -> None:
        check_types(self)
        require(len(self.owners) >= 1, "owners", "at least one", 0)
        least = min(rows.shape[0] for rows in self.owners)
        rule = f"1 to {least // 2}, half the examples of the smallest owner"
        require(1 <= self.rounds <= least // 2, "rounds", rule, self.rounds)

    def examples(self, t: int, client: int) -> Rows:
        """Examples of a client in round t."""
        require(0 <= t < self.rounds, "round", f"in 0 .. {self.rounds - 1}", t)
        rows = self.everything(client)[0]
        if self.rounds == 1:
            return rows
        # Files are often sorted: their first rows are not like their last.
        order = stream(0, "batches").permutation(rows.shape[0])
        return rows[np.sort(np.array_split(order, self.rounds)[t])]

    def everything(self, client: int) -> tuple[Rows, Any]:
        """Examples of a client for all rounds, and what it holds beside them."""
        here = client if len(self.owners) > 1 else 0
        return self.owners[here], self.outcomes[here] if self.outcomes else None


@dataclass(frozen=True)
class Elsewhere:
    """Stands for examples that are on other machines, in batches for so many `rounds`."""

    rounds: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        require(self.rounds >= 1, "rounds", "at least 1", self.rounds)

    def examples(self, t: int, client: int) -> Rows:
        """Fail: the server has no examples of `client` in round `t`."""
        raise DataError(f"the examples of client {client} in round {t} are not on this machine")
