"""The server's side across machines: streams of clients, and the engine whose steps they make.

A client's stream is known by the certificate of its connection. The questions of an exchange go to
every client that is there, and to each that comes while it lasts; so a client that was killed is
asked again when it is back. An answer counts once, for the exchange that it names.
"""

from __future__ import annotations

import os
import queue
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, BackendError, DataError, HopfedError, shown
from hopfed.federation.contract import Context
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.machines.keys import CLIENT, check_private
from hopfed.federation.machines.wire import (
    LIMIT,
    PART,
    Gathered,
    Request,
    parts,
    read_reply,
    write_request,
)
from hopfed.federation.messages import Message

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it says on stderr what we say in words
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # forks read files, and use no streams
try:
    import grpc as grpc  # with these settings; its users take it from here
except ImportError:
    raise BackendError("grpcio is not installed: pip install 'hopfed[machines]'") from None

STOPPING = 5.0  # seconds that streams may take to end
STRANGERS = 120  # connections beside those of the clients
GRACE = 10.0  # seconds in which a client that was there may come back to an exchange
NUMBER = 8  # bytes before a message: the number of its exchange
CALL = "/hopfed/session"
WELCOME = ("hopfed", "1")  # what a client gets first
REPORTED = 10  # exchanges of a round that are reported where all answer
GOODBYE = 5.0  # seconds that the last word may take
MOVES = 1_000  # lines about clients that come, go and are refused
OPTIONS = (  # of the library, for both sides
    ("grpc.max_receive_message_length", PART + 64),
    ("grpc.max_send_message_length", PART + 64),
    ("grpc.keepalive_time_ms", 20_000),  # whoever is gone without a word is known after this
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
)

Say = Callable[[str], object]


@dataclass
class _Exchange:
    """Questions under way, and the answers so far, by client."""

    number: int
    asked: Mapping[int, bytes]
    replies: dict[int, Outcome] = field(default_factory=dict)

    def frames(self, client: int) -> bytes | None:
        if client in self.replies or client not in self.asked:
            return None
        return self.number.to_bytes(NUMBER, "little") + self.asked[client]


class Server:
    """Listens for clients, and is the engine whose steps they make; a context manager.

    States travel with the questions. A client that has not answered within `timeout` seconds has
    timed out. `columns` are the names of columns, if any, which go with every question. In the
    folder `keys` are ``ca.pem``, ``server.pem`` and ``server.key``; an answer has at most `limit`
    bytes. Port 0 takes a free one.
    """

    def __init__(
        self,
        address: tuple[str, int],
        keys: Path,
        clients: int,
        say: Say,
        timeout: float,
        columns: Sequence[str] = (),
        limit: int = LIMIT,
    ):
        require(timeout > 0, "timeout", "above 0 seconds", timeout)
        require(limit >= 1, "limit", "at least 1 byte", limit)
        self.host, self.port = address
        self.clients, self.say, self.timeout = clients, say, timeout
        self.columns, self.limit = columns, limit
        self._credentials = _credentials(keys)
        self._changed = threading.Condition()  # of what follows, and held by whoever changes it
        # By client: True where there is a question, whose bytes would heap up where nobody reads;
        # in the end why, or None.
        self._streams: dict[int, queue.SimpleQueue[bool | str | None]] = {}
        self._exchange = _Exchange(0, {})
        self._missed: set[int] = set()  # clients that were not there in the last exchange
        self._logged = 0

    def __enter__(self) -> Server:
        most = 2 * self.clients + 8
        own = (
            # Those of strangers must leave descriptors for the run file.
            ("grpc.max_allowed_incoming_connections", most + STRANGERS),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", 20_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        )
        self._server = grpc.server(
            ThreadPoolExecutor(most), options=(*OPTIONS, *own), maximum_concurrent_rpcs=most
        )
        handler = grpc.stream_stream_rpc_method_handler(self._session)
        service, _, name = CALL[1:].partition("/")
        generic = grpc.method_handlers_generic_handler(service, {name: handler})
        self._server.add_generic_rpc_handlers((generic,))
        host = f"[{self.host}]" if ":" in self.host else self.host
        where = f"{host}:{self.port}"
        try:
            self.port = self._server.add_secure_port(where, self._credentials)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise ArgumentError("--listen", "an address of this machine that is free", where)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0.2).wait(STOPPING)  # whoever still holds its stream is not waited for

    def online(self) -> list[int]:
        """Clients that are there."""
        with self._changed:
            return sorted(self._streams)

    def wait(self, minimum: int, seconds: float) -> None:
        """Wait until `minimum` clients are there."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._streams) >= minimum, seconds):
                raise HopfedError(
                    f"{len(self._streams)} of at least {minimum} clients joined within "
                    f"{seconds:g} s; start the others and continue with --resume"
                )

    def _ask(
        self, method: Any, calls: Sequence[Call], seconds: float, last: bool = False
    ) -> list[Outcome]:
        """Answers of clients to their questions; a fault where none came in time."""
        questions = dict[int, bytes]()
        for call in calls:
            words = call.context, method.recipe, call.state, call.down, last, self.columns
            questions[int(call.context.client or 0)] = write_request(Request(*words))
        began, patient = time.monotonic(), min(seconds, GRACE)
        with self._changed:
            self._exchange = now = _Exchange(self._exchange.number + 1, questions)
            for client, stream in self._streams.items():
                if client in questions:
                    stream.put(True)
            while left := set(questions) - set(now.replies):
                absent = left - set(self._streams)
                awaited = absent if not self._streams else absent - self._missed
                time_due = seconds if left - absent else patient if awaited else 0.0
                if (remaining := began + time_due - time.monotonic()) <= 0:
                    break
                self._changed.wait(remaining)
            self._missed = left - set(self._streams)
            spent = f"no answer in {time.monotonic() - began:.1f} s"
            for client in left:
                why = "it is not there" if client in self._missed else "it is silent"
                now.replies[client] = Outcome(fault=Fault.TIMED_OUT, reason=f"{spent}: {why}")
            return [now.replies[client] for client in questions]

    def step(self, method: Any, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`; the log says who answered."""
        began, say = time.monotonic(), self.say
        outcomes = self._ask(method, calls, self.timeout)
        at, seconds = calls[0].context, time.monotonic() - began
        heard = sum(not outcome.fault for outcome in outcomes)
        if at.exchange < REPORTED or heard < len(calls):  # searches ask hundreds of times
            where = f"round {at.round} exchange {at.exchange}"
            say(f"{where}: {heard} of {len(calls)} answered in {seconds:.1f} s")
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.fault:
                fault = outcome.fault.name.lower().replace("_", " ")
                fault = "does not answer" if outcome.fault == Fault.RAISED else fault
                after = "; its operators count" if at.exchange else ""
                say(f"    client {call.context.client} {fault}: {outcome.reason}{after}")
        return outcomes

    def remark(self, t: int, lines: Sequence[str]) -> None:
        """Say what the server makes of a round."""
        for line in lines:
            self.say(f"round {t}: {line}")

    def announce(self, method: Any, down: Message) -> None:
        """Send the last word of a federation to the clients that still listen."""
        calls = [Call({}, down, Context(0, 0, 0, c)) for c in self.online()]
        self._ask(method, calls, GOODBYE, last=True)

    def _session(self, requests: Any, context: Any) -> Iterator[bytes]:
        """Hear a client, and ask it, as long as its stream lasts."""
        client, stream = self._client(context), queue.SimpleQueue[bool | str | None]()
        if client is None:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not of this federation")
        with self._changed:
            if client in self._streams:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this client is there already")
            self._streams[client] = stream
        if not context.add_callback(lambda: self._leave(client, stream)):  # it is gone by now
            self._leave(client, stream)
        context.send_initial_metadata((WELCOME,))
        with self._changed:
            stream.put(True)
            self._log(f"client {client} joined")
            self._changed.notify_all()
        threading.Thread(target=self._read, args=(client, requests, stream), daemon=True).start()
        while (said := stream.get()) is True:
            if frame := self._exchange.frames(client):
                yield from parts(frame)
        if isinstance(said, str):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, said)

    def _leave(self, client: int, stream: queue.SimpleQueue[bool | str | None]) -> None:
        """Let go of a stream that has ended."""
        with self._changed:
            del self._streams[client]
            stream.put(None)  # before words, which nobody may take any more
            self._changed.notify_all()
            self._log(f"client {client} left")

    def _read(
        self, client: int, requests: Any, stream: queue.SimpleQueue[bool | str | None]
    ) -> None:
        """Hear what a client sends, until it makes no sense."""
        gathered, wrong = Gathered(self.limit + NUMBER), None
        try:
            for part in requests:
                if (whole := gathered.add(part)) is not None:
                    self._hear(client, whole)
        except DataError as error:
            wrong = str(error)
            self._refuse(client, wrong)
        except grpc.RpcError:  # it is gone
            pass
        stream.put(wrong)

    def _client(self, context: Any) -> Any:
        """Number of the client whose certificate the connection shows; None of another."""
        names = context.auth_context().get("x509_common_name", [b""])
        found = re.fullmatch(CLIENT + "([0-9]{1,9})", names[0].decode("utf-8", "replace"))
        return int(found[1]) if found and int(found[1]) < self.clients else None

    def _hear(self, client: int, whole: bytes) -> None:
        """Take an answer, if it is one to the exchange under way."""
        now = self._exchange
        if int.from_bytes(whole[:NUMBER], "little") != now.number or client in now.replies:
            return
        try:
            reply = read_reply(whole[NUMBER:])
        except DataError as error:
            self._refuse(client, shown(error, REASON))
            return
        with self._changed:
            now.replies.setdefault(client, reply)
            self._changed.notify_all()

    def _refuse(self, client: int, words: str) -> None:
        """Count what a client sent as no answer."""
        with self._changed:
            self._log(f"refused: client {client} sent {words}")
            if client in self._exchange.asked:
                reply = Outcome(fault=Fault.MALFORMED, reason=f"sent {words}")
                self._exchange.replies.setdefault(client, reply)
            self._changed.notify_all()

    def _log(self, words: str) -> None:
        """Say something about a client, which must not fill the log."""
        self._logged += 1
        if self._logged <= MOVES:
            self.say(words)


def _credentials(folder: Path) -> Any:
    """TLS that lets nobody in without a certificate of the authority."""
    paths = [folder / name for name in ("ca.pem", "server.pem", "server.key")]
    for path in paths:
        require(path.is_file(), "--keys", f"a folder with {path.name}", folder)
    ca, chain, key = paths
    check_private(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(chain, key)
        context.load_verify_locations(ca)
    except OSError:  # what ssl raises
        rule = "a folder with the server's certificate and its own key"
        raise ArgumentError("--keys", rule, folder) from None
    pairs = [(key.read_bytes(), chain.read_bytes())]
    return grpc.ssl_server_credentials(pairs, ca.read_bytes(), require_client_auth=True)
