"""The server's side across machines: Flower's Fleet API over TLS, and a grid on the same link.

This is the part of Flower's SuperLink that clients talk to, run in this process. What is left out
on purpose: the interface that starts programs, and app bundles. A client runs the hopfed that its
owner installed; the server cannot send it code.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException
from flwr.app import Message as FlowerMessage
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, TRANSPORT_TYPE_GRPC_RERE
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.supercore.error import http_error_translator
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.contract import Method
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.engines.flower.connections import Connections, Limits, Server, make_room
from hopfed.federation.engines.flower.engine import FlowerEngine, Late
from hopfed.federation.engines.flower.grid import PULL, ServerGrid
from hopfed.federation.engines.flower.link import Link
from hopfed.federation.engines.flower.private import check_private
from hopfed.federation.engines.flower.requests import RequestFilter, Say
from hopfed.federation.engines.flower.wire import LIMIT

AGAIN = 15.0  # seconds of silence of all after which a client is asked again
GOODBYE = 60.0  # seconds that the last word may take while clients fetch it


@dataclass(frozen=True)
class Listening:
    """Where and how a server listens.

    Attributes
    ----------
    host, port : address; port 0 for any that is free.
    certificate, key : files of the server's certificate.
    limit : bytes that a client may send in one exchange.
    limits : what else is taken from those who are outside.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    limit: int = LIMIT
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ArgumentError("limit", "at least 1 byte", self.limit)
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise ArgumentError("--keys", f"a folder with {path.name}", path.parent)
        check_private(self.key)


class FlowerServer:
    """Listens for clients; a context manager.

    Parameters
    ----------
    clients : public keys of the clients, which are their identity: client c has the key c.
    say : is told in words who comes and who is refused.
    """

    def __init__(self, listening: Listening, clients: Sequence[bytes], say: Say):
        self._link = Link()
        owner = NOOP_FLWR_AID, NOOP_ACCOUNT_NAME
        self.nodes = {c: self._link.state.create_node(*owner, k, 0) for c, k in enumerate(clients)}
        known = {key: c for c, key in enumerate(clients)}
        connections = Connections(listening.limits)
        self.requests = RequestFilter(
            _fleet_app(self._link), listening.limit, known, say, connections
        )
        self._keys = dict(zip(self.nodes.values(), clients, strict=True))
        self._listening = listening
        self._there: set[int] = set()  # clients at the last look
        self._looked = -math.inf
        config = uvicorn.Config(
            self.requests,
            log_level="critical",
            loop="asyncio",
            http="h11",  # it bounds the length of headers
            ssl_certfile=str(listening.certificate),
            ssl_keyfile=str(listening.key),
            timeout_graceful_shutdown=1,
            lifespan="off",
            ws="none",
        )
        self._server = Server(config, connections)

    def __enter__(self) -> FlowerServer:
        try:
            self._server.config.load()
        except OSError:  # what ssl raises
            rule = "a folder with the server's certificate and its own key"
            raise ArgumentError("--keys", rule, self._listening.key.parent) from None
        make_room(self._listening.limits, len(self.nodes))
        self._socket = _bound(self._listening.host, self._listening.port)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), daemon=True
        )
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                self._socket.close()
                raise HopfedError("the server could not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()

    @property
    def port(self) -> int:
        """Port that is listened at."""
        port: int = self._socket.getsockname()[1]
        return port

    def engine(self, run: str, timeout: float) -> FlowerEngine:
        """Return the engine whose clients are those of this server."""
        grid = ServerGrid(self._link, self.requests, self._keys)
        return _Engine(grid, self._node, run, timeout=timeout, again=min(AGAIN, timeout / 3))

    def online(self) -> list[int]:
        """Clients that are there."""
        there = self._link.state.get_nodes(self._link.run_id)
        return [c for c, node in self.nodes.items() if node in there]

    def wait(self, minimum: int, seconds: float) -> None:
        """Wait until `minimum` clients are there.

        Raises
        ------
        HopfedError : they are not, after that time.
        """
        deadline = time.monotonic() + seconds
        while len(there := self.online()) < minimum:
            if time.monotonic() > deadline:
                raise HopfedError(
                    f"{len(there)} of at least {minimum} clients joined within {seconds:g} s; "
                    "start the others and continue with --resume"
                )
            time.sleep(0.05)

    def _node(self, client: int) -> int | None:
        """Node of a client, None where it is not there; who asks at one moment shares one look."""
        now = time.monotonic()
        if now - self._looked > PULL:
            self._there, self._looked = set(self.online()), now
        return self.nodes[client] if client in self._there else None


class _Engine(FlowerEngine):
    """The engine that tells its grid how long an exchange may take, whoever is still at it."""

    grid: ServerGrid

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        self.grid.until = time.monotonic() + (self.timeout or math.inf)
        return super().step(method, calls)

    def tell(self, method: Method, calls: Sequence[Call], timeout: float) -> None:
        self.grid.until = time.monotonic() + GOODBYE
        super().tell(method, calls, timeout)

    def _carried(
        self, messages: list[FlowerMessage], late: Late, timeout: float | None
    ) -> Iterable[FlowerMessage]:
        return self.grid.send_and_receive(messages, timeout=timeout, late=late)


def _fleet_app(link: Link) -> FastAPI:
    """Flower's Fleet API: what its SuperLink serves to clients, with their keys checked."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
            Middleware(BaseHTTPMiddleware, dispatch=_answers_only),
        ],
    )
    app.state.linkstate_factory = link.factory
    app.state.enable_supernode_auth = True
    app.state.fleet_api_type = TRANSPORT_TYPE_GRPC_RERE
    app.include_router(router)
    return app


async def _answers_only(request: Request, go_on: RequestResponseEndpoint) -> Response:
    """Refuse messages of clients that are no answers; Flower would take them for the server's.

    Whether there is such a question, and whether it is theirs, is looked up where it is stored.
    """
    sent = getattr(request.state, "protobuf_request", None)
    if isinstance(sent, PushMessagesRequest) and not _is_answer(sent):
        raise HTTPException(400)
    return await go_on(request)


def _is_answer(sent: PushMessagesRequest) -> bool:
    """Whether this is one message, of its sender, in answer to another."""
    if len(sent.messages_list) != 1 or len(sent.message_object_trees) != 1:
        return False
    said = sent.messages_list[0].metadata
    return said.src_node_id == sent.node.node_id and bool(said.reply_to_message_id)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        rule = f"an address of this machine that is free ({error.strerror})"
        raise ArgumentError("--listen", rule, f"{host}:{port}") from None
    return bound
