"""What stands before Flower: what may come in, how much of it, and a line for the rest.

Flower's SuperLink serves several interfaces at one port, one of which starts programs. Only what
clients need is let through here. Whoever asks is known before a byte of what they send is read: the
signature stands in the headers. Then so many bytes in an exchange, at a rate, and not too many at a
time: the link would otherwise keep in memory whatever anybody uploads. Nobody fetches anything but
parts of questions to it: objects are named by digests of what is in them, so that whoever could
fetch any would know whether a guess of what another client sent is right.
"""

from __future__ import annotations

import asyncio
import binascii
import math
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from flwr.common.constant import (
    FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from flwr.supercore.protobuf.translation import PROTOBUF_MEDIA_TYPE

from hopfed.errors import shown
from hopfed.federation.engines.flower.connections import Connections
from hopfed.federation.engines.flower.uploads import GONE, SMALL, RefusedUploadError, Uploads, drain

OPEN = "/v1/fleet/"  # Flower's Fleet API
PIECE = FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE + SMALL  # bytes of a request with a piece of an array

_UPLOAD, _ANSWER, _FETCH = "push-object", "push-messages", "pull-object"
_WORDS = {"activate-node": "joined", "deactivate-node": "left"}
_STEPS = {_UPLOAD, _ANSWER, _FETCH, "pull-messages", "confirm-message-received"}
_STEPS |= {"send-node-heartbeat", *_WORDS}
_NOTHING = PullObjectResponse().SerializeToString()  # as Flower says that there is no such object
_NONE = {400, 500}  # how Flower, and what is before it, end a request with what is no answer
_SENT = 1 << 16  # bytes of an answer that are handed on at a time, so that few wait in memory
_TOLD = 300  # different lines about refusals; whoever is refused must not fill the log with them
_MOVES = 20  # times that a client comes or goes in an exchange and that is said

Say = Callable[[str], object]
_Signed = tuple[bytes, str, Mapping[bytes, bytes]]  # key, step, headers


class RequestFilter:
    """An ASGI application before another.

    Parameters
    ----------
    inner : the application behind it.
    limit : bytes that a client may send in one exchange.
    clients : public keys of those who may come in, and their numbers.
    say : is told who comes and goes, and of everyone who is refused, once for each reason.
    connections : the connections that requests come in by.
    """

    def __init__(
        self,
        inner: Any,
        limit: int,
        clients: Mapping[bytes, int],
        say: Say,
        connections: Connections,
    ):
        self.inner, self.limit, self.clients, self.say = inner, limit, clients, say
        self.connections = connections
        self.uploads = Uploads(self.connections.limits)
        self.refused: dict[bytes, str] = {}  # public key -> why its last answer was not taken
        self.offered: dict[bytes, set[str]] = {key: set() for key in clients}  # parts of questions
        self.fetched: dict[bytes, set[str]] = {key: set() for key in clients}  # those of them
        self.joined: set[bytes] = set()  # public keys of those who came in since somebody looked
        self._keys = {key: bytes_to_public_key(key) for key in clients}
        self._sent: Counter[bytes] = Counter()
        self._answers: Counter[bytes] = Counter()
        self._moves: Counter[bytes] = Counter()
        self._told: set[str] = set()

    def renew(self) -> None:
        """Begin an exchange: everyone may send again."""
        self._sent.clear()
        self._answers.clear()
        self._moves.clear()
        for names in (*self.offered.values(), *self.fetched.values()):
            names.clear()
        self.refused.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return
        headers = _first(scope["headers"])
        step = scope["path"].removeprefix(OPEN)
        try:
            key = self._who(scope, step, headers)
            with self.connections.serving(scope.get("client"), self.clients[key]) as close:
                await self._pass(scope, receive, send, (key, step, headers), close)
        except RefusedUploadError as refusal:
            self._tell(f"refused: {refusal.words}", refusal.kind)
            await _end(send, refusal.status)

    def _who(self, scope: Any, step: str, headers: Mapping[bytes, bytes]) -> bytes:
        """Key that signed the headers; everyone without one is refused here."""
        who = (scope.get("client") or ("?",))[0]
        if step not in _STEPS or step == scope["path"] or scope["method"] != "POST":
            what = shown(f"{scope['method']} {scope['path']}", 60)
            words = f"{who} asked for {what}, which is not served"
            raise RefusedUploadError(404, words, f"what is not served, asked for from {who}")
        key = _decoded(headers, FLEET_HTTP_PUBLIC_KEY_HEADER)
        if key not in self.clients:
            raise RefusedUploadError(401, f"a key that is not of this federation, from {who}")
        words = f"a request in the name of client {self.clients[key]}"
        signed = headers.get(TIMESTAMP_HEADER.lower().encode(), b"")
        signature = _decoded(headers, FLEET_HTTP_SIGNATURE_HEADER)
        if not verify_signature(self._keys[key], signed, signature):
            raise RefusedUploadError(401, f"{words}, signed by another, from {who}")
        age = _age(signed)
        if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            late = f"{words}, signed {age / 60:.0f} minutes ago by our clock"
            raise RefusedUploadError(401, late, f"{words} at another time")
        return key

    async def _pass(self, scope: Any, receive: Any, send: Any, who: _Signed, close: Any) -> None:
        """Read the body of a request of a client, and answer it."""
        key, step, headers = who
        client = f"client {self.clients[key]}"
        try:
            length = self._length(key, step, headers)
            async with self.uploads.taken(key, length, receive) as body:
                if step == _FETCH and _wanted(body) not in self.offered[key]:
                    await _end(send, 200, PROTOBUF_MEDIA_TYPE, _NOTHING)
                    return
                answer = self._listened(send, step, (key, body), close)
                await self.inner(scope, _replayed(body), answer)
        except RefusedUploadError as refusal:
            if refusal.status != GONE:  # who was killed while it sent is asked again
                self.refused[key] = f"sent {refusal.words}"
            if refusal.status == 413:
                await drain(receive, self.connections.limits.seconds)
            raise RefusedUploadError(refusal.status, f"{client} sent {refusal.words}") from None

    def _length(self, key: bytes, step: str, headers: Mapping[bytes, bytes]) -> int:
        """Length of a body, as announced; what is announced counts, whether it comes or not."""
        said = headers.get(b"content-length", b"")
        if not said.isdigit() or len(said) > 15:
            raise RefusedUploadError(411, "a message without a length")
        length = int(said)
        if step != _UPLOAD:
            self._answers[key] += step == _ANSWER
            if step == _ANSWER and self._answers[key] > self.connections.limits.answers:
                raise RefusedUploadError(
                    429, f"more than {self.connections.limits.answers} answers"
                )
            if length > SMALL:
                raise RefusedUploadError(413, "an oversized request")
            return length
        if length > PIECE:
            raise RefusedUploadError(413, f"more than {PIECE / 1e6:.1f} MB in one piece")
        self._sent[key] += length
        if self._sent[key] > self.limit:
            self._sent[key] = self.limit
            raise RefusedUploadError(413, f"more than {self.limit / 1e6:g} MB")
        return length

    def _listened(self, send: Any, step: str, sent: tuple[bytes, bytes], close: Any) -> Any:
        """Say who comes and goes; hand an answer on in pieces, no faster than they are taken."""
        key, body = sent
        client, limits = f"client {self.clients[key]}", self.connections.limits

        async def listen(event: Any) -> None:
            if event["type"] == "http.response.start" and event["status"] != 200:
                if step == _ANSWER and event["status"] in _NONE:
                    self.refused[key] = "sent what is no answer"
                    self._tell(f"refused: {client} {self.refused[key]}")
            elif event["type"] == "http.response.start":
                if step in _WORDS and self._moves[key] < _MOVES:
                    self.say(f"{client} {_WORDS[step]}")
                    self._moves[key] += 1
                if step == "activate-node":
                    self.joined.add(key)
                if step == _FETCH:
                    self.fetched[key].add(_wanted(body))
            size = len(event.get("body", b""))
            try:
                async with asyncio.timeout(limits.seconds + size / limits.rate):
                    for part in _parts(event):
                        await send(part)
            except TimeoutError:
                self._tell(f"closed: {client} does not take its answers")
                close()

        return listen

    def _tell(self, words: str, of: str = "") -> None:
        """Say something once, or one thing of a kind once."""
        kind = of or words
        if kind not in self._told and len(self._told) < _TOLD:
            self._told.add(kind)
            self.say(words)


def _first(headers: Any) -> dict[bytes, bytes]:
    """Headers by name; of those that come again, the first, as Flower reads them."""
    return dict(reversed(list(headers)))


def _decoded(headers: Mapping[bytes, bytes], name: str) -> bytes:
    try:
        return b64decode(headers.get(name.lower().encode(), b""), validate=True)
    except binascii.Error:
        return b""


def _age(signed: bytes) -> float:
    """Seconds since the moment that a client signed."""
    try:
        return float((now() - datetime.fromisoformat(signed.decode("ascii"))).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return math.inf


def _parts(event: Any) -> Iterator[Any]:
    """Return an event as several with less in each, so that few bytes wait for a slow reader."""
    body, more = event.get("body", b""), event.get("more_body", False)
    if len(body) <= _SENT:
        yield event
        return
    for start in range(0, len(body), _SENT):
        rest = start + _SENT < len(body)
        yield {**event, "body": body[start : start + _SENT], "more_body": more or rest}


def _wanted(body: bytes) -> str:
    """Name of the object that a request asks for, none where it is no such request."""
    try:
        name: str = PullObjectRequest.FromString(body).object_id
    except Exception:  # whatever was sent
        return ""
    return name


async def _end(
    send: Any, status: int, media: str = "application/json", body: bytes = b"{}"
) -> None:
    headers = [(b"content-type", media.encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _replayed(body: bytes) -> Any:
    events = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    return receive
