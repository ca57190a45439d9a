"""The client's side: a node that answers questions, and the process whose stream they come down.

Whatever a question holds, the answer to it is an answer. Nothing is kept between two of them. A
server that is not trusted can fill neither memory nor log. The process opens one connection to the
server, which shows a certificate of the authority, and one stream in it. It opens no port, and
neither fetches nor runs anything that the server offers.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from hopfed._lib.arrays import blas_threads
from hopfed.errors import DataError, HopfedError, LocalError, OtherColumnsError, shown
from hopfed.federation.engines import Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.machines.server import CALL, NUMBER, OPTIONS, WELCOME, grpc
from hopfed.federation.machines.wire import (
    LIMIT,
    STOPPED,
    Gathered,
    Request,
    parts,
    read_request,
    write_reply,
)
from hopfed.federation.messages import as_message

MOST = 5_000  # lines, with the one that says that no more follow
LINES = 20  # about a server that makes no sense; it must not fill the log with them
SOON, RARELY = 0.2, 2.0  # seconds between two attempts to come in
GOODBYE = 2.0  # seconds in which the last answer leaves
WAY = "; does hopfed serve run there, with this address and port (--listen), and let others in?"


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
    # is set once there is nothing more to wait for
    finished: threading.Event = field(default_factory=threading.Event)
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


class GarbledError(Exception):
    """What the server sent is not what a server of hopfed sends."""


@dataclass
class ClientProcess:
    """A client and its way to the server."""

    server: str  # host:port
    authority: bytes  # certificate that the server's must be signed by, PEM
    key: tuple[bytes, bytes]  # certificate of the client and its key, PEM
    node: Node  # what answers
    patience: float  # seconds without a server after which to give up
    say: Callable[[str], object]  # takes in words what happens
    limit: int = LIMIT  # bytes that a message of the server may have
    _heard: float = 0.0  # moment of the server's last word that made sense
    _reported: set[str] = field(default_factory=set)  # words about it since it made sense
    _away: bool = True
    _stream: Any = None

    def run(self) -> None:
        """Answer until the federation is over, whatever the server sends."""
        credentials, self._heard = self._credentials(), time.monotonic()
        while not self.node.finished.is_set():
            self._come_in(credentials)

    def leave(self) -> None:
        """End, whatever is under way; may be called from another thread."""
        self.node.finished.set()
        if self._stream is not None:
            self._stream.cancel()

    def _credentials(self) -> Any:
        try:
            x509.load_pem_x509_certificate(self.authority)
        except ValueError:
            raise HopfedError("--ca: not a certificate, as `hopfed certs` makes them") from None
        certificate, key = self.key
        return grpc.ssl_channel_credentials(self.authority, key, certificate)

    def _come_in(self, credentials: Any) -> None:
        """Open a stream, and answer in it as long as it lasts."""
        up: queue.Queue[bytes | None] = queue.Queue(1)  # more would heap up where nobody reads
        with grpc.secure_channel(self.server, credentials, OPTIONS) as channel:
            self._stream = stream = channel.stream_stream(CALL)(iter(up.get, None))
            taken, began = False, time.monotonic()
            try:
                taken = WELCOME in stream.initial_metadata()  # if not, to read says why
                if taken and self._away:
                    self.say(f"joined {self.server}")
                self._away = self._away and not taken
                self._listen(stream, up)
                self._bear("the server ended the connection")
            except grpc.RpcError as error:
                if taken and time.monotonic() - began > RARELY:  # until now it was there
                    self._heard = time.monotonic()
                self._lost(error)
            except GarbledError as error:
                self._bear(str(error))
            finally:
                stream.cancel()
                with suppress(queue.Full):
                    up.put_nowait(None)

    def _listen(self, stream: Any, up: queue.Queue[bytes | None]) -> None:
        """Answer what comes."""
        gathered = Gathered(self.limit + NUMBER)
        for part in stream:
            try:
                whole = gathered.add(part)
            except DataError as error:
                raise GarbledError(str(error)) from None
            if whole is None:
                continue
            for each in parts(whole[:NUMBER] + self.node.written(whole[NUMBER:])):
                self._send(stream, up, each)
            self._reported.clear()
            self._heard = time.monotonic()
            if self.node.finished.is_set():
                self._send(stream, up, None)
                over = threading.Event()  # the last answer goes out, if the server takes it
                stream.add_callback(over.set)
                over.wait(GOODBYE)
                return

    def _send(self, stream: Any, up: queue.Queue[bytes | None], part: bytes | None) -> None:
        """Send a part once the one before it is out, unless the stream ends."""
        while stream.is_active():
            with suppress(queue.Full):
                up.put(part, timeout=SOON)
                return

    def _lost(self, error: Any) -> None:
        """Say why there is no stream, or end where there will be none."""
        code, words = error.code(), str(error.details() or "")
        if "handshake failed" in words or "Hostname Verification" in words:
            raise HopfedError(
                f"{self.server}: its certificate is not signed by the authority in --ca, or is not "
                f"for this address; nothing was sent"
            )
        if code == grpc.StatusCode.PERMISSION_DENIED:
            raise HopfedError(f"{self.server}: this client's key is not of that federation")
        if code == grpc.StatusCode.ALREADY_EXISTS:
            words = "this key is in use by another process, here or on another machine"
        elif code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            words = "the server refused the answer: it is larger than its limit"
        elif any(word in words for word in ("refused", "imed out", "lookup", "unreachable")):
            words = f"no connection{WAY}"
        elif code == grpc.StatusCode.UNAVAILABLE:
            words = "the connection is closed at once: is this client's key of that federation?"
        self._bear(words or code.name)

    def _bear(self, words: str) -> None:
        """Wait a while after a failure, or give up."""
        if self.node.finished.is_set():
            return
        words = shown(next(iter(words.splitlines()), "").rstrip("."))
        silent = time.monotonic() - self._heard
        if silent > self.patience:
            raise HopfedError(f"{self.server}: {words}, for {silent:.0f} s")
        if words not in self._reported and len(self._reported) < LINES:
            wait = f"asked again for {self.patience:.0f} s (--patience)"
            self.say(f"waiting for {self.server}: {words}; {wait}")
            self._reported.add(words)
            self._away = True
        self.node.finished.wait(min(SOON + silent / 4, RARELY))
