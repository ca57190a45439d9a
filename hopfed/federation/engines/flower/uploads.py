"""Bodies of requests under way: how many bytes at a time, and how slowly they may come."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from hopfed.federation.engines.flower.connections import Limits

SMALL = 1 << 16  # bytes of a body that carries no array
GONE = 499  # status of a request whose sender is gone; nobody reads it
_DRAINED = 1 << 24  # bytes of a refused body that are read
_WAIT = 20.0  # seconds for room; a sender whose bytes nobody takes for 30 s gives up


class RefusedUploadError(Exception):
    """A request that is not taken: the status, why, and what all of this kind have in common."""

    def __init__(self, status: int, words: str, kind: str = ""):
        super().__init__(words)
        self.status, self.words, self.kind = status, words, kind


class Uploads:
    """Room for bodies that are not whole yet.

    A body has to say its length, and is not read before there is room for all of it: until then
    its bytes stay with the sender. So memory is bounded however many uploads are begun. A small one
    is read at once: no upload keeps a client from saying that it is there.

    Attributes
    ----------
    held : bytes for which room is taken now.
    most : the most that this ever was.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self.held = self.most = 0
        self._bodies: Counter[bytes] = Counter()
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, key: bytes, length: int, receive: Any) -> AsyncIterator[bytes]:
        """Wait for room, and yield a body; the room is taken until it has been used.

        Raises
        ------
        RefusedUploadError : there is no room, the body comes too slowly, or its sender is gone.
        """
        counted = length if length > SMALL else 0
        if counted:
            await self._reserve(key, counted)
        try:
            seconds = self.limits.seconds + length / self.limits.rate
            try:
                async with asyncio.timeout(seconds):
                    body = await _read(receive, length)
            except TimeoutError:
                raise RefusedUploadError(408, "too slowly") from None
            yield body
        finally:
            if counted:
                async with self._room:
                    self.held -= counted
                    self._bodies[key] -= 1
                    self._room.notify_all()

    async def _reserve(self, key: bytes, length: int) -> None:
        def free() -> bool:
            fits = self.held + length <= self.limits.unfinished or not self.held
            return fits and self._bodies[key] < self.limits.bodies

        try:
            async with asyncio.timeout(_WAIT), self._room:
                await self._room.wait_for(free)
                self.held += length
                self._bodies[key] += 1
                self.most = max(self.most, self.held)
        except TimeoutError:
            raise RefusedUploadError(503, "when there was no room") from None


async def drain(receive: Any, seconds: float) -> None:
    """Read on for a while, and keep nothing: a sender listens once its bytes are taken."""
    left = _DRAINED
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while left > 0:
                event = await receive()
                left -= len(event.get("body", b""))
                if not event.get("more_body", False):  # the end, or the sender is gone
                    return


async def _read(receive: Any, length: int) -> bytes:
    pieces, size, more = [], 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise RefusedUploadError(GONE, "part of a message")
        pieces.append(event.get("body", b""))
        size += len(pieces[-1])
        more = event.get("more_body", False)
        if size > length:
            raise RefusedUploadError(400, "more than it said")
    return b"".join(pieces)
