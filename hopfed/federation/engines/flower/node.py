"""A node: what a client does with a request, and the states that stay with it.

The server knows a state by its name, a digest of its arrays. A request names the state to step
from, so that a request that is repeated, or made again by a server that was resumed, is answered
from the same state with the same answer: steps draw from (seed, round, client) alone. A node keeps
the last few states of every run, in memory, and in files where they must outlive its process.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

import numpy as np
from flwr.app import Context as FlowerContext
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp

from hopfed.arrays import blas_threads
from hopfed.errors import DataError, HopfedError
from hopfed.federation.contract import Context, Method, Metrics, State
from hopfed.federation.engines.flower.wire import (
    Reply,
    Request,
    read_request,
    write_reply,
)
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Message, as_message, digest
from hopfed.federation.packing import chunks, unpack
from hopfed.federation.recipes import Trusted, rebuild
from hopfed.runs import replacing

KEPT = 8  # states of a client that are kept: those of two rounds and more


class Client(Protocol):
    """The client's half of a method, all that a node needs of it."""

    def client_start(self, client: int, seed: int) -> State:
        """As in `Method`."""
        ...

    def client_step(
        self, state: State, down: Message, context: Context
    ) -> tuple[State, Message, Metrics]:
        """As in `Method`."""
        ...


Adapt = Callable[[Method, Request], Client]
Watch = Callable[[Request, Reply], object]

_PLAIN_NAME = re.compile(r"[\w.-]{1,80}")


@dataclass
class Shelf:
    """States of the clients at this node, by run, client and name.

    Attributes
    ----------
    folder : where they are kept in files, None for memory only.
    """

    folder: Path | None = None
    _held: OrderedDict[tuple[str, int, bytes], State] = field(default_factory=OrderedDict)

    def put(self, run: str, client: int, t: int, exchange: int, state: State) -> bytes:
        """Keep a state, and return its name."""
        state = as_message(state)
        name = digest(state)
        self._held[run, client, name] = state
        if self.folder is None:
            return name
        folder = self._folder(run, client)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # examples may be among the arrays
        path = folder / f"{t:08d}-{exchange:02d}-{name.hex()}.state"
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.writelines(chunks(state))
        for old in sorted(folder.glob("*.state"))[:-KEPT]:
            old.unlink(missing_ok=True)
        mine = [key for key in self._held if key[:2] == (run, client)]
        for key in mine[:-KEPT]:
            del self._held[key]
        return name

    def get(self, run: str, client: int, name: bytes) -> State:
        """Return the state called `name`."""
        found = self._held.get((run, client, name))
        if found is not None:
            return found
        for path in self._folder(run, client).glob(f"*-{name.hex()}.state") if self.folder else ():
            found = unpack(np.fromfile(path, dtype=np.uint8))
            if digest(found) == name:
                return found
        raise DataError(f"client {client} no longer has the state that round starts from")

    def clear(self) -> None:
        """Forget what is in memory."""
        self._held.clear()

    def drop(self, run: str, client: int) -> None:
        """Remove the states of a run that is over."""
        self.clear()
        if self.folder is not None:
            rmtree(self._folder(run, client), ignore_errors=True)

    def _folder(self, run: str, client: int) -> Path:
        if self.folder is None or not _PLAIN_NAME.fullmatch(run):
            raise DataError(f"{run[:80]!r} cannot be the name of a run")
        return self.folder / run / str(client)


@dataclass
class Node:
    """Answers requests.

    Attributes
    ----------
    shelf : the states.
    adapt : puts what is the node's own into a method, such as its data, or refuses it.
    watch : is told of every answer before it leaves, and of every error in full.
    trusted : what recipes may name, see `hopfed.federation.recipes`.
    private : keep the words of errors that are not ours to oneself: they may quote examples.
    """

    shelf: Shelf
    adapt: Adapt = lambda method, _: method
    watch: Watch = lambda _, __: None
    trusted: Trusted = ("hopfed",)
    private: bool = False
    _answered: dict[tuple[Any, ...], Reply] = field(default_factory=dict)

    def app(self) -> ClientApp:
        """Return the Flower app of this node."""
        app = ClientApp()

        @app.query()  # type: ignore[untyped-decorator, unused-ignore]
        def query(message: FlowerMessage, _: FlowerContext) -> FlowerMessage:
            return FlowerMessage(write_reply(self.answer(message)), reply_to=message)

        return app

    def answer(self, message: FlowerMessage) -> Reply:
        """Answer a Flower message; an error is an answer, too."""
        try:
            request = read_request(message.content)
        except DataError as error:
            return Reply(fault=Fault.RAISED, reason=str(error))
        try:
            reply = told = self._reply(request)
        except Exception as error:  # whatever goes wrong here concerns this client alone
            told = Reply(fault=Fault.RAISED, reason=f"{type(error).__name__}: {error}")
            ours = isinstance(error, HopfedError) or not self.private
            reply = told if ours else replace(told, reason=type(error).__name__)
        self.watch(request, told)
        return reply

    def _reply(self, request: Request) -> Reply:
        c = request.context
        client = -1 if c.client is None else c.client
        if request.last:
            self.shelf.drop(request.run, client)
            return Reply()
        key = (request.run, client, c.round, c.exchange, request.base, digest(request.down))
        if key in self._answered:
            return self._answered[key]
        method = self.adapt(_made(request.recipe, _Parts(request.parts), self.trusted), request)
        if request.base:
            state = self.shelf.get(request.run, client, request.base)
        else:
            state = method.client_start(client, c.seed)
        with blas_threads(1):  # the order of summation depends on the number of threads
            after, up, metrics = method.client_step(state, request.down, c)
        name = self.shelf.put(request.run, client, c.round, c.exchange, after)
        reply = Reply(name, as_message(up), metrics)
        if self.shelf.folder is not None:  # in one process no request is ever repeated
            self._answered = {key: reply}
        return reply


class _Parts(dict[str, np.ndarray]):
    """Arrays of a recipe, told apart by what is in them, so that a method is made once."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(digest(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and digest(self) == digest(other)


@lru_cache(16)
def _made(recipe: str, parts: _Parts, trusted: Trusted) -> Method:
    method: Method = rebuild(recipe, parts, trusted)
    return method
