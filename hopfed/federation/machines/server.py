"""The server's side across machines: streams of clients, and an engine that sends them steps.

A client, named by its certificate, has one stream: a question goes down and its answer comes up, in
turns. A client that was killed is asked again if it is back in the same exchange.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopfed.errors import ArgumentError, DataError, HopfedError, safe_line
from hopfed.federation.contract import REASON, Call, Context, Fault, Outcome
from hopfed.federation.machines import wire
from hopfed.federation.machines.keys import CLIENT, own_key, read_authority
from hopfed.federation.messages import Message

grpc = wire.import_grpc()

STRANGERS = 120  # connections beside those of the clients
GRACE = 10.0  # seconds in which a client that was there may come back to an exchange
MOVES = 200  # most joins and exits of a client that are reported
REPORTED = 10  # exchanges of a round that are reported even if all answer
GOODBYE = 5.0  # seconds for the last message, and for streams to end


@dataclass
class Exchange:
    """Exchange of the server: questions under way, and the answers so far, by client."""

    asked: Mapping[int, bytes]
    replies: dict[int, Outcome] = field(default_factory=dict)


@dataclass
class Server:
    """Server across machines: an engine whose steps connected clients make; a context manager.

    States travel with the questions. A client that has not answered in time has timed out.
    """

    listen: str  # host:port; port 0 takes a free one
    keys: Path  # folder of ca.pem and server.key
    clients: int
    say: Callable[[str], object]  # prints a line of the log
    timeout: float  # seconds that an answer may take
    columns: Sequence[str] = ()  # their names, if any, which go with every question
    limit: int = wire.LIMIT  # most bytes of an answer, checked before gRPC reads it

    def __post_init__(self) -> None:
        certificate, key = own_key(self.keys / "server.key", "--keys")
        ca, pairs = read_authority(self.keys / "ca.pem", "--keys"), [(key, certificate)]
        self._credentials = grpc.ssl_server_credentials(pairs, ca, require_client_auth=True)
        self._changed = threading.Condition()  # held while the fields below change
        self._there: set[int] = set()  # connected clients
        self._exchange = Exchange({})
        self._moves: Counter[int] = Counter()  # joins and exits of each client
        self._missed: set[int] = set()  # clients that were not there in the last exchange

    def __enter__(self) -> Server:
        most = 2 * self.clients + 8
        own = (
            ("grpc.max_receive_message_length", self.limit),
            # Connections of strangers must leave descriptors for the run file.
            ("grpc.max_allowed_incoming_connections", most + STRANGERS),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", 4),  # of a connection, which has one
            ("grpc.server_handshake_timeout_ms", 20_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        )
        self._server = grpc.server(
            ThreadPoolExecutor(most), options=(*wire.OPTIONS, *own), maximum_concurrent_rpcs=most
        )
        handlers = {wire.SESSION: grpc.stream_stream_rpc_method_handler(self._session)}
        service = grpc.method_handlers_generic_handler(wire.SERVICE, handlers)
        self._server.add_generic_rpc_handlers((service,))
        try:
            self.port = self._server.add_secure_port(self.listen, self._credentials)
        except RuntimeError:
            rule = "an address of this machine that is free"
            raise ArgumentError("--listen", rule, self.listen) from None
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0.2).wait(GOODBYE)  # clients with an open stream are not waited for

    def wait(self, minimum: int, seconds: float) -> None:
        """Wait, at most so many `seconds`, until `minimum` clients are connected."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._there) >= minimum, seconds):
                raise HopfedError(
                    f"{len(self._there)} of at least {minimum} clients joined within "
                    f"{seconds:g} s; start the others and continue with --resume"
                )

    def step(self, method: Any, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`; the log names the clients that answered."""
        began = time.monotonic()
        outcomes = self._ask(method, calls, self.timeout)
        at, seconds = calls[0].context, time.monotonic() - began
        silent = [
            f"; client {call.context.client} {outcome.fault.words}: {outcome.reason}"
            for call, outcome in zip(calls, outcomes, strict=True)
            if outcome.fault
        ]
        if at.exchange < REPORTED or silent:  # searches ask hundreds of times
            heard = f"{len(calls) - len(silent)} of {len(calls)} answered in {seconds:.1f} s"
            self.say(f"round {at.round} exchange {at.exchange}: {heard}{''.join(silent)}")
        return outcomes

    def announce(self, method: Any, down: Message) -> None:
        """Send the last message of a federation to the clients that are still connected."""
        with self._changed:
            calls = [Call({}, down, Context(0, 0, 0, c)) for c in sorted(self._there)]
        self._ask(method, calls, GOODBYE, last=True)

    def _ask(
        self, method: Any, calls: Sequence[Call], seconds: float, last: bool = False
    ) -> list[Outcome]:
        """Ask clients; return their outcomes, a fault for each that does not answer in time."""
        about = method.recipe, last, self.columns
        questions = {int(c.context.client or 0): wire.write_question(c, *about) for c in calls}
        began, patient = time.monotonic(), min(seconds, GRACE)
        with self._changed:
            self._exchange = now = Exchange(questions)
            self._changed.notify_all()
            while left := set(questions) - set(now.replies):
                absent = left - self._there
                awaited = absent if not self._there else absent - self._missed
                time_due = seconds if left - absent else patient if awaited else 0.0
                if (remaining := began + time_due - time.monotonic()) <= 0:
                    break
                self._changed.wait(remaining)
            self._missed = left - self._there
            for client in left:
                why = "it is not there" if client in self._missed else "it is silent"
                now.replies[client] = Outcome(fault=Fault.TIMED_OUT, reason=why)
            return [now.replies[client] for client in questions]

    def _session(self, answers: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Ask a client, and take its answers, as long as its stream lasts."""
        names = context.auth_context().get("x509_common_name", [b""])
        found = re.fullmatch(CLIENT + "([0-9]{1,9})", names[0].decode("utf-8", "replace"))
        if not found or int(found[1]) >= self.clients:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not of this federation")
        client = int(found[1])  # type: ignore[index]
        with self._changed:
            if client in self._there:
                taken = grpc.StatusCode.ALREADY_EXISTS
                context.abort(taken, "this key is in use by another process")
            self._there.add(client)
        if not context.add_callback(lambda: self._move(client, "left")):  # it is gone by now
            self._move(client, "left")
        context.send_initial_metadata((wire.WELCOME,))
        self._move(client, "joined")
        while now := self._next(client, context):
            yield now.asked[client]
            try:
                reply = wire.read_reply(next(answers))
            except (grpc.RpcError, StopIteration):  # it is gone
                return
            except DataError as error:
                reply = Outcome(fault=Fault.MALFORMED, reason=f"sent {safe_line(error, REASON)}")
            with self._changed:
                now.replies.setdefault(client, reply)
                self._changed.notify_all()

    def _next(self, client: int, context: Any) -> Exchange | None:
        """Wait for an exchange in which a client is to be asked; None once its stream is over."""

        def due() -> bool:
            waited = self._exchange.asked.keys() - self._exchange.replies.keys()
            return client in waited or not context.is_active()

        with self._changed:
            self._changed.wait_for(due)
            return self._exchange if context.is_active() else None

    def _move(self, client: int, word: str) -> None:
        """Note and report that a client has joined or left."""
        with self._changed:
            if word == "left":
                self._there.discard(client)
            self._changed.notify_all()
            self._moves[client] += 1
            if (left := MOVES - self._moves[client]) >= 0:
                self.say(f"client {client} {word}" + "; no more is reported" * (left == 0))
