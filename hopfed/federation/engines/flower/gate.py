"""What stands before the server's door: what may come in, how much of it, and a line for the rest.

Flower's SuperLink serves several interfaces at one port, one of which starts programs. Only the one
that clients need is let through here, and a client may send only so many bytes in an exchange: the
link would otherwise keep in memory whatever anybody uploads.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER

OPEN = "/v1/fleet/"  # Flower's Fleet API
SMALL = 1 << 20  # bytes of a request that carries no array

_WORDS = {"activate-node": "joined", "deactivate-node": "left"}
_DRAINED = 1 << 24  # bytes of a refused body that are read, so that its sender hears of it
_HEADER = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode()

Say = Callable[[str], object]


class Gate:
    """An ASGI application before another.

    Parameters
    ----------
    inner : the application behind it.
    limit : bytes that a client may send in one exchange.
    clients : public keys of those who may come in, and their numbers.
    say : is told who comes and goes, and of everyone who is refused, once for each reason.
    """

    def __init__(self, inner: Any, limit: int, clients: Mapping[bytes, int], say: Say):
        self.inner, self.limit, self.clients, self.say = inner, limit, clients, say
        self.refused: dict[bytes, str] = {}  # public key -> why its last answer was not taken
        self.joined: set[bytes] = set()  # public keys of those who came in since somebody looked
        self._sent: dict[bytes, int] = {}
        self._told: set[str] = set()

    def renew(self) -> None:
        """Begin an exchange: everyone may send again."""
        self._sent.clear()
        self.refused.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        path = scope["path"]
        who = (scope.get("client") or ("?",))[0]
        if not path.startswith(OPEN):
            await self._refuse(send, 404, f"{who} asked for {path[:60]}, which is not served")
            return
        step, key = path.removeprefix(OPEN), _key(scope)
        if key not in self.clients:
            await self._refuse(send, 401, f"a key that is not of this federation, from {who}")
            return
        upload = step == "push-object"
        limit = max(self.limit - self._sent.get(key, 0), 0) if upload else SMALL
        body = await _body(receive, limit)
        if body is None:
            words = f"more than {self.limit / 1e6:g} MB" if upload else "an oversized request"
            self.refused[key] = f"sent {words}"
            await self._refuse(send, 413, f"client {self.clients[key]} sent {words}")
            return
        if upload:
            self._sent[key] = self._sent.get(key, 0) + len(body)
        await self.inner(scope, _replayed(body), self._listened(send, step, key))

    def _listened(self, send: Any, step: str, key: bytes) -> Any:
        """Say who comes and goes, and whose signature is not that of the key."""
        client = f"client {self.clients[key]}"

        async def listen(event: Any) -> None:
            if event["type"] == "http.response.start":
                if step in _WORDS and event["status"] == 200:
                    self.say(f"{client} {_WORDS[step]}")
                if step == "activate-node" and event["status"] == 200:
                    self.joined.add(key)
                if event["status"] == 401 and step == "activate-node":
                    self._tell(f"refused: a request in the name of {client}, signed by another")
            await send(event)

        return listen

    async def _refuse(self, send: Any, status: int, words: str) -> None:
        self._tell(f"refused: {words}")
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    def _tell(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            self.say(words)


def _key(scope: Any) -> bytes:
    """Public key that the request claims; Flower checks the claim behind this door."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            try:
                return b64decode(value)
            except ValueError:
                break
    return b""


async def _body(receive: Any, limit: int) -> bytes | None:
    """Body of a request, None when it is longer than `limit`; what is too long is not kept."""
    pieces, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return b""
        size += len(event.get("body", b""))
        more = event.get("more_body", False)
        if size <= limit:
            pieces.append(event.get("body", b""))
        elif size > limit + _DRAINED:
            return None
    return b"".join(pieces) if size <= limit else None


def _replayed(body: bytes) -> Any:
    events = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    return receive
