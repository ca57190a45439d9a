"""The connections to a server: how many are open, of whom, and for how long.

Who connects is a stranger until a request in the connection is signed by a known key. There is
room for some strangers at a time, for some seconds each. Where there is no more room, the oldest
stranger leaves, of the address that has most: a crowd from one place pushes out its own first. So
however many connections are opened and left idle, whoever has a key comes in. Connections of
clients are few for each of them, and are closed when nothing is asked in them.
"""

from __future__ import annotations

import asyncio
import math
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hopfed.errors import ArgumentError

Peer = tuple[str, int]  # address and port at the other end

_BREATH = 0.1  # seconds before accepting again when the system has no room
_SPARE = 256  # open files that the process needs for other things


@dataclass(frozen=True)
class Limits:
    """What a server takes from those who are outside.

    Attributes
    ----------
    strangers : connections of those who have not shown a key.
    connections : of one client.
    seconds : that a stranger has to show a key; that a client has to begin a request in a
        connection that is open; that a body may take beyond the time for its length.
    rate : bytes a second that a body must bring.
    unfinished : bytes of bodies under way, of all clients.
    bodies : under way of one client.
    answers : messages of a client in one exchange.
    """

    strangers: int = 128
    connections: int = 8
    seconds: float = 10.0
    rate: float = 32e3
    unfinished: int = 128 * 10**6
    bodies: int = 2
    answers: int = 32

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ArgumentError(name, "above 0", value)


@dataclass(eq=False)
class Guest:
    """A connection.

    Attributes
    ----------
    place : where it comes from.
    close : ends it.
    until : moment at which it is closed.
    client : whose it is, None for a stranger's.
    busy : requests under way in it.
    """

    place: str
    close: Callable[[], object]
    until: float
    client: int | None = None
    busy: int = 0


class Door:
    """Counts connections, and closes those for which there is no room or no time.

    Examples
    --------
    >>> closed = []
    >>> door = Door(Limits(strangers=2))
    >>> for port, address in enumerate(["honest", "crowd", "crowd", "crowd"]):
    ...     _ = door.enter((address, port), lambda port=port: closed.append(port))
    >>> closed
    [1, 2]
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._guests: dict[Peer, Guest] = {}  # in the order in which they came

    def enter(self, peer: Peer, close: Callable[[], object]) -> Guest:
        """Note a connection; another may have to leave for it."""
        while len(strangers := self._of(None)) >= self.limits.strangers:
            ((crowd, _),) = Counter(guest.place for guest in strangers).most_common(1)
            self._end(next(guest for guest in strangers if guest.place == crowd))
        guest = Guest(_place(peer[0]), close, time.monotonic() + self.limits.seconds)
        self._guests[peer] = guest
        return guest

    def left(self, guest: Guest) -> None:
        """Forget a connection that is gone."""
        for peer in [peer for peer, other in self._guests.items() if other is guest]:
            del self._guests[peer]

    @contextmanager
    def serving(self, peer: Peer | None, client: int) -> Iterator[Callable[[], object]]:
        """While a request of a client is answered, its connection stays; yields what ends it."""
        guest = self._guests.get(peer) if peer is not None else None
        if guest is None:  # gone by now
            yield lambda: None
            return
        guest.busy += 1
        if guest.client != client:
            guest.client = client
            mine = sorted(self._of(client), key=lambda g: (g is guest, g.busy, g.until))
            for other in mine[: -self.limits.connections]:
                self._end(other)
        try:
            yield guest.close
        finally:
            guest.busy -= 1
            guest.until = time.monotonic() + self.limits.seconds

    def sweep(self, now: float) -> None:
        """Close the connections whose time is over at a moment, unless a request is under way."""
        for guest in [g for g in self._guests.values() if not g.busy and g.until < now]:
            self._end(guest)

    def open(self, known: bool) -> int:
        """Return how many connections there are, of clients or of strangers."""
        return sum((guest.client is not None) is known for guest in self._guests.values())

    def _of(self, client: int | None) -> list[Guest]:
        return [guest for guest in self._guests.values() if guest.client == client]

    def _end(self, guest: Guest) -> None:
        self.left(guest)
        guest.close()


class Server(uvicorn.Server):
    """A uvicorn server whose connections come through a door."""

    def __init__(self, config: uvicorn.Config, door: Door):
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen at the one socket."""
        (listener,) = sockets or ()
        listener.setblocking(False)
        listener.listen(self.config.backlog)
        hall: Any = _Hall(self, self._door, listener)
        self.servers = [hall]
        self.started = True


class _Hall:
    """What asyncio's own server does, with a door: accepts, and ends with the uvicorn server."""

    def __init__(self, server: Server, door: Door, listener: socket.socket):
        self._server, self._door, self._listener = server, door, listener
        make = asyncio.get_running_loop().create_task
        self._tasks = {make(self._accept()), make(self._sweep())}

    def close(self) -> None:
        """Accept no more, and wait for nobody who asks for nothing."""
        for task in self._tasks:
            task.cancel()
        self._door.sweep(math.inf)

    async def wait_closed(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:  # no file is left to open, or the peer is gone already
                await asyncio.sleep(_BREATH)
                continue
            task = loop.create_task(self._open(connection, (str(address[0]), int(address[1]))))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, connection: socket.socket, peer: Peer) -> None:
        """Make the handshake; from there on the connection is uvicorn's."""
        task: Any = asyncio.current_task()
        guest = self._door.enter(peer, task.cancel)
        config, seconds = self._server.config, self._door.limits.seconds
        try:
            transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Protocol(config, self._server.server_state, {}),
                connection,
                ssl=config.ssl,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except (OSError, asyncio.CancelledError):  # OSError: what ssl raises
            self._door.left(guest)
            return
        guest.close = transport.abort
        protocol.gone = lambda: self._door.left(guest)
        if transport.is_closing():
            self._door.left(guest)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._door.limits.seconds / 4))
            self._door.sweep(time.monotonic())


class _Protocol(H11Protocol):
    """uvicorn's, which also says when its connection is gone."""

    gone: Callable[[], object] = staticmethod(lambda: None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone()


def _place(host: str) -> str:
    """Address, or for one of version 6 the network that its owner has to itself."""
    return str(ip_network((host.partition("%")[0], 64), strict=False)) if ":" in host else host


def make_room(limits: Limits, clients: int) -> None:
    """Have the system allow as many open files as there may be connections."""
    wanted = limits.strangers + clients * limits.connections + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
