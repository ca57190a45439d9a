"""What a client of `hopfed join` says of every question, and how its federation ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from hopfed.cli.machines.join_columns import Joined
from hopfed.cli.printing import human_bytes
from hopfed.errors import HopfedError
from hopfed.hopfield.told import STOPPED


@dataclass
class Watching:
    """Is told of every question and its answer.

    Attributes
    ----------
    joined : knows of columns that are others.
    finished : is set once there is nothing more to wait for.
    say : takes a line, and what lines like it have in common.
    refused : why the last question was not answered; empty where it was.
    last : the request with the last word of the federation; None where there is no result.
    """

    joined: Joined
    finished: Event
    say: Callable[..., object]
    refused: str = ""
    last: Any = None

    def __call__(self, request: Any, reply: Any) -> None:
        """Say what is sent, or why nothing is."""
        if request.last:
            self.last = None if STOPPED in request.down else request
        if request.last or self.joined.refused is not None:  # which is said in the end
            self.finished.set()
            return
        where = f"round {request.context.round} exchange {request.context.exchange}"
        self.refused = re.sub(r"^\w+Error: ", "", str(reply.reason)) if reply.fault else ""
        if reply.fault:
            self.say(f"{where}: not answered: {reply.reason}", reply.reason)
            return
        told = {name: array for name, array in reply.up.items() if array.size}
        if not told:  # as of columns that have no names
            return
        if told.keys() == {"sorted"}:  # a digest of names, before the rounds begin
            where = "names of columns"
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
        if self.joined.refused is not None:
            raise self.joined.refused
        if self.last is None:
            raise self._lost("the server ended the federation without a result")
        return self.last

    def _lost(self, error: object) -> HopfedError:
        why = f"; its last question was not answered: {self.refused}" if self.refused else ""
        return HopfedError(f"{error}{why}")
