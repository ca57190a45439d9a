"""What can go wrong with a client in a round, and a log of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from hopfed.errors import HopfedError

__all__ = ["Fault"]

REASON = 240  # bytes of a reason that are kept


class Fault(IntEnum):
    """Why the server did not hear from a client in a round.

    Examples
    --------
    >>> Fault.LATE.name, int(Fault.LATE)
    ('LATE', 2)
    """

    NONE = 0
    ABSENT = 1  # not in the cohort of the round
    LATE = 2  # its message is under way and counts in the round in which it arrives
    RAISED = 3
    TIMED_OUT = 4
    DIED = 5  # its process ended
    MALFORMED = 6
    NOT_FINITE = 7


@dataclass
class FaultLog:
    """One fault for each client of a round, and the reason in words."""

    clients: int  # their number L
    codes: np.ndarray = field(init=False)  # (L,) int8, see `Fault`
    reasons: np.ndarray = field(init=False)  # (L,) bytes

    def __post_init__(self) -> None:
        self.codes = np.zeros(self.clients, dtype=np.int8)
        self.reasons = np.zeros(self.clients, dtype=f"S{REASON}")

    def add(self, client: int, fault: Fault, reason: str = "") -> None:
        """Log `fault` of `client`; the first of a round is the one that is kept."""
        if self.codes[client] == Fault.NONE:
            self.codes[client] = fault
            # Names in it may be the client's own: what a terminal would obey is shown instead.
            shown = "".join(x if x.isprintable() else "?" for x in reason[:REASON])
            self.reasons[client] = shown.encode("ascii", "replace")

    def words(self) -> list[str]:
        """One line for each client that failed; those absent or late by schedule are no failure."""
        quiet = (Fault.NONE, Fault.ABSENT, Fault.LATE)
        return [
            f"client {c} {Fault(code).name.lower().replace('_', ' ')}: {self.reasons[c].decode()}"
            for c, code in enumerate(self.codes)
            if Fault(code) not in quiet
        ]


class TooFewClientsError(HopfedError):
    """Fewer clients answered than the federation was told to go on with.

    Attributes
    ----------
    refused : whether all that did not were reached, and failed or refused, as they would again.
    """

    refused = False
