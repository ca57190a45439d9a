"""What a client of `hopfed join` sees of its federation: columns, questions, and what is found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed._lib.outputs import RUN
from hopfed.cli.printing import err, human_bytes
from hopfed.errors import ArgumentError, HopfedError, OtherColumnsError, shown

if TYPE_CHECKING:
    from hopfed.hopfield.owner import Owner
    from hopfed.hopfield.told import Told
    from hopfed.tables.coding import Coding

LONGEST = 2_000  # characters of a line of the log
OUT = (*RUN, ".npy", ".csv", ".json", ".parquet")  # endings of what a client writes


def say(words: str) -> None:
    """Print a line with the time."""
    line = f"{time.strftime('%H:%M:%S')} {shown(words, LONGEST)}"
    err.print(line, markup=False, soft_wrap=True)


def address(text: str, argument: str) -> tuple[str, int]:
    """Return the host and the port that HOST:PORT names."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ArgumentError(argument, "HOST:PORT, such as 127.0.0.1:9443", text)
    return host.strip("[]"), int(port)


def write_found(
    path: Path,
    told: Told,
    order: np.ndarray | slice = slice(None),
    names: Sequence[str] | None = None,
    coding: Coding | None = None,
) -> None:
    """Write archetypes: a run file, an array, or a table with the names of its columns."""
    from hopfed._lib.outputs import replacing
    from hopfed.tables.table import made_up
    from hopfed.tables.writers import write

    if path.suffix.lower() in RUN:
        due = tuple(names or made_up(told.patterns.shape[1]))
        own = coding is not None and coding.columns == due
        told.archetypes(order, names, coding if own else None).save(path)
        return
    found = (told.patterns if told.means is None else told.means)[:, order]
    if path.suffix.lower() != ".npy":
        called = made_up(found.shape[1]) if names is None else names
        write(path, list(zip(called, found.T, strict=True)), endings=OUT)
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.save(file, found)


@dataclass
class Watching:
    """Is told of every question and its answer.

    Attributes
    ----------
    owner : of the table.
    finished : is set once there is nothing more to wait for.
    say : takes a line, and what lines like it have in common.
    refused : why the last question was not answered; empty where it was.
    others : why its columns are not those of the federation.
    last : the request with the last word of the federation; None where there is no result.
    """

    owner: Owner
    finished: Event
    say: Callable[..., object]
    refused: str = ""
    others: OtherColumnsError | None = None
    last: Any = None

    def adapt(self, method: Any, request: Any) -> Any:
        """As `Owner.adapt`; remembers a refusal of columns."""
        try:
            adapted = self.owner.adapt(method, request.columns)
        except OtherColumnsError as error:
            self.others = error
            raise
        if request.columns and not self.owner.names:
            self.say("this table has no names of columns, and others have: its columns go by place")
        return adapted

    def __call__(self, request: Any, reply: Any) -> None:
        """Say what is sent, or why nothing is."""
        from hopfed.hopfield.told import STOPPED

        if request.last:
            self.last = None if STOPPED in request.down else request
        if request.last or self.others is not None:  # which is said in the end
            self.finished.set()
            return
        where = f"round {request.context.round} exchange {request.context.exchange}"
        self.refused = re.sub(r"^\w+Error: ", "", str(reply.reason)) if reply.fault else ""
        if reply.fault:
            self.say(f"{where}: not answered: {reply.reason}", reply.reason)
            return
        told = {name: array for name, array in reply.up.items() if array.size}
        parts = ", ".join(f"{name} {human_bytes(array.nbytes)}" for name, array in told.items())
        # Searches for classes ask hundreds of times: what is new in kind is said.
        self.say(f"{where}: sending {parts}", f"{request.context.round} {sorted(told)}")

    def through(self, run: Callable[[], object]) -> Any:
        """Run the client to its end; return the last request."""
        try:
            run()
        except HopfedError as error:  # the server is gone, perhaps because it got no answer
            if self.last is None:
                raise self._lost(error) from None
        if self.others is not None:
            raise self.others
        if self.last is None:
            raise self._lost("the server ended the federation without a result")
        return self.last

    def _lost(self, error: object) -> HopfedError:
        why = f"; its last question was not answered: {self.refused}" if self.refused else ""
        return HopfedError(f"{error}{why}")
