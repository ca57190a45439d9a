"""A node: what a client does with a question, and what its owner hears of that.

Whatever a question holds, the answer to it is an answer. Nothing is kept between two of them. A
server that is not trusted can fill neither memory nor log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from hopfed._lib.arrays import blas_threads
from hopfed.errors import DataError, HopfedError, LocalError, OtherColumnsError, shown
from hopfed.federation.engines import Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.machines.wire import STOPPED, Request, read_request, write_reply
from hopfed.federation.messages import as_message

MOST = 5_000  # lines, with the one that says that no more follow


@dataclass
class Sparing:
    """Says each kind of line once, and at most so many lines."""

    say: Callable[[str], object]  # takes them
    _kinds: set[str] = field(default_factory=set)  # of the lines so far

    def __call__(self, words: str, kind: str = "") -> None:
        """Say `words`, unless words of the same kind, or the same words, were said."""
        kind = kind or words
        if kind in self._kinds or len(self._kinds) >= MOST:
            return
        self._kinds.add(kind)
        if len(self._kinds) == MOST:
            words = f"that was line {MOST:,} that this server caused: no more follow"
        self.say(words)


@dataclass
class Node:
    """Answers questions about the rows of an owner."""

    # puts the rows into what a recipe says, told the names of columns, or refuses it
    asked: Callable[[str, Sequence[object]], Any]
    # takes a line for the owner, and what lines like it have in common
    say: Callable[..., object] = lambda *_: None
    finished: Event = field(default_factory=Event)  # is set once there is nothing more to wait for
    last: Request | None = None  # the last word of the federation; None where there is no result
    refused: str = ""  # why the last question was not answered; empty where it was
    others: OtherColumnsError | None = None  # why the columns are not those of the federation

    def written(self, data: bytes) -> bytes:
        """Answer a question in bytes."""
        return write_reply(self.answer(data))

    def answer(self, data: bytes) -> Outcome:
        """Answer a question; an error is an answer, too, without words that may quote rows."""
        try:
            request = read_request(data)
        except DataError as error:
            self.say(f"a request that is none: {shown(error)}")
            return Outcome(fault=Fault.RAISED, reason=shown(error))
        if request.last:
            self.last = None if STOPPED in request.down else request
            self.finished.set()
            return Outcome()
        c = request.context
        where, self.refused = f"round {c.round} exchange {c.exchange}", ""
        try:
            client = self.asked(request.recipe, request.columns)
            state = request.state or client.client_start(c.client, c.seed)
            with blas_threads(1):  # the order of summation depends on the number of threads
                after, up, _ = client.client_step(state, request.down, c)
            reply = Outcome(as_message(after), as_message(up))
        except Exception as error:  # whatever goes wrong here concerns this client alone
            words = shown(error if isinstance(error, HopfedError) else type(error).__name__)
            public = error.public if isinstance(error, LocalError) else words
            self.refused = shown(error)
            if isinstance(error, OtherColumnsError):  # which is said in the end
                self.others = error
                self.finished.set()
            else:
                self.say(f"{where}: not answered: {self.refused}", self.refused)
            return Outcome(fault=Fault.RAISED, reason=public)
        sent = {name: array for name, array in reply.message.items() if array.size}
        sizes = ", ".join(f"{name} {array.nbytes:,} bytes" for name, array in sent.items())
        # Searches for classes ask hundreds of times: what is new in kind is said.
        self.say(f"{where}: sending {sizes}", f"{c.round} {sorted(sent)}")
        return reply

    def through(self, run: Callable[[], object]) -> Request:
        """Run a client to its end; return the last word."""
        ended: object = "the server ended the federation without a result"
        try:
            run()
        except HopfedError as error:  # the server is gone, perhaps because it got no answer
            ended = error
        if self.others is not None:
            raise self.others
        if self.last is None:
            why = f"; its last question was not answered: {self.refused}" if self.refused else ""
            raise HopfedError(f"{ended}{why}") from None
        return self.last
