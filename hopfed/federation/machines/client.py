"""The client's side across machines: a node answers questions, a process connects to the server.

Every question gets an answer, whatever it holds. Nothing is kept between two questions. A server
that is not trusted can fill neither memory nor log. The process opens no port, and neither fetches
nor runs anything that the server offers.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hopfed._lib.arrays import blas_threads
from hopfed.errors import DataError, HopfedError, OtherColumnsError, RunFileError, safe_line
from hopfed.federation.contract import Call, Fault, Outcome
from hopfed.federation.machines import wire
from hopfed.federation.messages import Message, as_message

grpc = wire.import_grpc()

MOST = 5_000  # most lines of the log that a server may cause
SOON, RARELY = 0.2, 2.0  # least and most seconds between two attempts to connect
GOODBYE = 2.0  # seconds for the last answer to leave

NO_STREAM = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED")
NOBODY = "no connection: are the address (--listen), this client's key and size (--limit) right?"


@dataclass
class ClientNode:
    """Node of a client: answers a server's questions about the rows of an owner."""

    # makes the client of a recipe, from the names of columns and the call, or refuses
    asked: Callable[[str, Sequence[object], Call], Any]
    say: Callable[[str], object] = lambda _: None  # prints a line for the owner
    ended: Message | HopfedError | None = None  # last message, or why there is none
    refused: str = ""  # why the last question was not answered; empty if it was
    _said: set[str] = field(default_factory=set)

    def tell(self, words: str, kind: str = "") -> None:
        """Say `words`, unless words of this kind, or too many, were said."""
        if (kind := kind or words) not in self._said and len(self._said) < MOST:
            self._said.add(kind)
            last = len(self._said) == MOST
            self.say(f"that was line {MOST:,} of this server: no more follow" if last else words)

    def answer(self, data: bytes) -> Outcome:
        """Answer a question; an error becomes an answer, without words that may quote rows."""
        try:
            call, words = wire.read_question(data)
        except DataError as error:
            self.tell(f"a malformed request: {safe_line(error)}")
            return Outcome(fault=Fault.RAISED, reason=safe_line(error))
        if words["last"]:
            none = HopfedError("the server ended the federation without a result")
            self.ended = none if wire.STOPPED in call.down else call.down
            return Outcome()
        c = call.context
        where, self.refused = f"round {c.round} exchange {c.exchange}", ""
        try:
            client = self.asked(words["recipe"], words["columns"], call)
            state = call.state or client.client_start(c.client, c.seed)
            with blas_threads(1):  # the order of summation depends on the number of threads
                after, up, _ = client.client_step(state, call.down, c)
            reply = Outcome(as_message(after), as_message(up))
        except Exception as error:  # any error here concerns this client alone
            unsaid = not isinstance(error, HopfedError) or isinstance(error, RunFileError)
            if isinstance(error, OtherColumnsError):  # reported at the end
                self.ended = error
            else:
                self.refused = safe_line(error)
                self.tell(f"{where}: not answered: {self.refused}", self.refused)
            public = type(error).__name__ if unsaid else getattr(error, "public", safe_line(error))
            return Outcome(fault=Fault.RAISED, reason=public)
        sent = {name: array for name, array in reply.message.items() if array.size}
        sizes = ", ".join(f"{name} {array.nbytes:,} bytes" for name, array in sent.items())
        # A search for classes asks hundreds of times: only a new kind of answer is reported.
        self.tell(f"{where}: sending {sizes}", f"{c.round} {sorted(sent)}")
        return reply

    def through(self, run: Callable[[], object]) -> Message:
        """Run a client process to its end; return the server's last message."""
        try:
            run()
        except HopfedError as error:  # the server is gone, perhaps because it got no answer
            self.ended = error if self.ended is None else self.ended
        if not isinstance(self.ended, dict):
            why = f"; its last question was not answered: {self.refused}" if self.refused else ""
            raise HopfedError(f"{self.ended}{why}") from None
        return self.ended


@dataclass
class ClientProcess:
    """Process of a client: its connection to the server, over which its node answers."""

    server: str  # host:port
    authority: bytes  # certificate that the server's must be signed by, PEM
    key: tuple[bytes, bytes]  # certificate of the client and its key, PEM
    node: ClientNode  # answers questions
    patience: float  # seconds without a server after which to give up
    _heard: float = 0.0  # time of the server's last message
    _answered: int = 0  # number of questions; after each, lines about the connection may repeat
    _joined: bool = False  # whether the server ever accepted this client
    _stream: Any = None
    _busy: Any = field(default_factory=threading.Lock)  # while an answer is made
    _came: float = math.inf  # time at which the server accepted this client

    def run(self) -> None:
        """Answer until the federation is over, whatever the server sends."""
        certificate, key = self.key
        credentials = grpc.ssl_channel_credentials(self.authority, key, certificate)
        self._heard = time.monotonic()
        with suppress(AttributeError, OSError):  # M_MMAP_THRESHOLD: free arrays are given back
            ctypes.CDLL(None).mallopt(-3, 1 << 22)
        while self.node.ended is None:
            trouble = safe_line(next(iter(self._come_in(credentials).splitlines()), "").rstrip("."))
            silent = time.monotonic() - self._heard
            if self.node.ended is not None:
                return
            if silent > self.patience:
                raise HopfedError(f"{self.server}: {trouble}, for {silent:.0f} s")
            wait = f"waiting for {self.server}: {trouble}; asked again for {self.patience:.0f} s"
            self.node.tell(f"{wait} (--patience)", f"{self._answered} {wait}")  # until it asks
            time.sleep(min(SOON + silent / 4, RARELY))

    def _come_in(self, credentials: Any) -> str:
        """Open a stream, and answer in it as long as it lasts; return why it ended."""
        options = (*wire.OPTIONS, ("grpc.max_receive_message_length", wire.LIMIT))
        opened, over = threading.Event(), threading.Event()
        with grpc.secure_channel(self.server, credentials, options) as channel:
            call = channel.stream_stream(f"/{wire.SERVICE}/{wire.SESSION}")
            self._stream = stream = call(self._answers(opened))
            if not stream.add_callback(over.set):
                over.set()
            opened.set()
            while not over.wait(GOODBYE) and self.node.ended is None:
                pass
            stream.cancel()
            with self._busy:  # else answers would pile up if a server leaves after each question
                pass
            if stream.code() == grpc.StatusCode.OK:
                return "the server ended the connection"
            if time.monotonic() - self._came > RARELY:  # the server was there until now
                self._heard = time.monotonic()
            return self._why(stream)

    def _answers(self, opened: threading.Event) -> Iterator[bytes]:
        """Answer the questions of a stream, the next once the last answer has left."""
        opened.wait()
        self._came = math.inf
        with suppress(grpc.RpcError):  # the stream says why
            if wire.WELCOME in self._stream.initial_metadata():
                self._came, self._joined = time.monotonic(), True
                self.node.tell(f"joined {self.server}", f"{self._answered} joined")
            for question in self._stream:
                if self._came == math.inf:
                    self._stream.cancel()
                    return
                self._heard, self._answered = time.monotonic(), self._answered + 1
                with self._busy:
                    reply = wire.write_reply(self.node.answer(question))
                yield reply
                if self.node.ended is not None:
                    return

    def _why(self, error: Any) -> str:
        """Say why there is no stream; raise HopfedError if another attempt cannot help."""
        code, words = error.code(), str(error.details() or "")
        if "handshake failed" in words or "Hostname Verification" in words:
            why = "its certificate is not signed by the authority in --ca, or not for this address"
            raise HopfedError(f"{self.server}: {why}; nothing was sent")
        if code == grpc.StatusCode.PERMISSION_DENIED:
            raise HopfedError(f"{self.server}: this client's key is not of that federation")
        gone = "the server ended, or cannot be reached any more" if self._joined else NOBODY
        return gone if code.name in NO_STREAM else words or code.name
