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
class Connection:
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


class Connections:
    """Counts connections, and closes those for which there is no room or no time.

    Examples
    --------
    >>> closed = []
    >>> connections = Connections(Limits(strangers=2))
    >>> for port, address in enumerate(["honest", "crowd", "crowd", "crowd"]):
    ...     _ = connections.enter((address, port), lambda port=port: closed.append(port))
    >>> closed
    [1, 2]
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._entries: dict[Peer, Connection] = {}  # in the order in which they came

    def enter(self, peer: Peer, close: Callable[[], object]) -> Connection:
        """Note a connection; another may have to leave for it."""
        place = _place(peer[0])
        while len(self._of(None)) >= self.limits.strangers:
            self.make_way(place)
        entry = Connection(place, close, time.monotonic() + self.limits.seconds)
        self._entries[peer] = entry
        return entry

    def make_way(self, place: str = "") -> None:
        """Have a stranger leave, of the place that has most, that of the newcomer among them."""
        strangers = self._of(None)
        places = Counter([entry.place for entry in strangers] + [place] * bool(place))
        crowd = max(places, key=places.__getitem__, default=None)
        for entry in [entry for entry in strangers if entry.place == crowd][:1]:
            self._end(entry)

    def left(self, entry: Connection) -> None:
        """Forget a connection that is gone."""
        for peer in [peer for peer, other in self._entries.items() if other is entry]:
            del self._entries[peer]

    @contextmanager
    def serving(self, peer: Peer | None, client: int) -> Iterator[Callable[[], object]]:
        """While a request of a client is answered, its connection stays; yields what ends it."""
        entry = self._entries.get(peer) if peer is not None else None
        if entry is None:  # gone by now
            yield lambda: None
            return
        entry.busy += 1
        if entry.client != client:
            entry.client = client
            mine = sorted(self._of(client), key=lambda g: (g is entry, g.busy, g.until))
            for other in mine[: -self.limits.connections]:
                self._end(other)
        try:
            yield entry.close
        finally:
            entry.busy -= 1
            entry.until = time.monotonic() + self.limits.seconds

    def sweep(self, now: float) -> None:
        """Close the connections whose time is over at a moment, unless a request is under way."""
        for entry in [g for g in self._entries.values() if not g.busy and g.until < now]:
            self._end(entry)

    def open(self, known: bool) -> int:
        """Return how many connections there are, of clients or of strangers."""
        return sum((entry.client is not None) is known for entry in self._entries.values())

    def _of(self, client: int | None) -> list[Connection]:
        return [entry for entry in self._entries.values() if entry.client == client]

    def _end(self, entry: Connection) -> None:
        self.left(entry)
        entry.close()


class Server(uvicorn.Server):
    """A uvicorn server whose connections are counted, and closed for want of room."""

    def __init__(self, config: uvicorn.Config, connections: Connections):
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen at the one socket."""
        (listener,) = sockets or []
        listener.setblocking(False)
        listener.listen(self.config.backlog)
        acceptor: Any = _Acceptor(self, self._connections, listener)
        self.servers = [acceptor]
        self.started = True


class _Acceptor:
    """What asyncio's own server does, and counts: accepts, and ends with the uvicorn server."""

    def __init__(self, server: Server, connections: Connections, listener: socket.socket):
        self._server, self._connections, self._listener = server, connections, listener
        make = asyncio.get_running_loop().create_task
        self._tasks = {make(self._accept()), make(self._sweep())}

    def close(self) -> None:
        """Accept no more, and wait for nobody who asks for nothing."""
        for task in self._tasks:
            task.cancel()
        self._connections.sweep(math.inf)

    async def wait_closed(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError:  # no file is left to open, or the peer is gone already
                self._connections.make_way()
                await asyncio.sleep(_BREATH)
                continue
            task = loop.create_task(self._open(connection, (str(address[0]), int(address[1]))))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, connection: socket.socket, peer: Peer) -> None:
        """Make the handshake; from there on the connection is uvicorn's."""
        task: Any = asyncio.current_task()
        entry = self._connections.enter(peer, task.cancel)
        config, seconds = self._server.config, self._connections.limits.seconds
        try:
            transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Protocol(config, self._server.server_state, {}),
                connection,
                ssl=config.ssl,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except (OSError, asyncio.CancelledError):  # OSError: what ssl raises
            self._connections.left(entry)
            return
        entry.close = transport.abort
        protocol.gone = lambda: self._connections.left(entry)
        if transport.is_closing():
            self._connections.left(entry)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._connections.limits.seconds / 4))
            self._connections.sweep(time.monotonic())


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
