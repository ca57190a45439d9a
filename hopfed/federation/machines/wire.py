"""Questions and answers as bytes.

A question holds the recipe of what the client is to do, its state and the message down; an answer
its state after that and the message up. A client keeps nothing between two questions, so that it
answers one that is repeated, after whatever was killed, with the same bits. Words are JSON, arrays
are packed (`hopfed.federation.messages`). What comes from the wire is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.errors import DataError, shown
from hopfed.federation.contract import Context, State
from hopfed.federation.engines import Outcome
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.messages import Message, chunks, nbytes, unpack

PART = 1 << 20  # bytes of a part of a stream, at most
LIMIT = 256 * 10**6  # bytes of a message, unless somebody says another number
STOPPED = "stopped"  # in the last word of a federation that ended without a result

_KINDS = "biuf"  # NumPy kinds that may travel
_HEADER = 1 << 20  # bytes in which a message may name its arrays
_NAME = 80  # characters of the name of an array that are shown
_WORDS = 1 << 24  # bytes of the words of a message
_SEED = 80  # digits: 256 bits
_STATE = 1 << 12  # bytes of a client's state: a server keeps them all
# Words of a message: type, and the largest number or the greatest length.
_ASKED = {
    "seed": (str, _SEED),
    "round": (int, 10**8),
    "exchange": (int, 10**6),
    "client": (int, 10**9),
    "recipe": (str, 10_000),
    "last": (bool, 1),
    "columns": (list, 1 << 24),
}
_ANSWERED = {"fault": (int, Fault.RAISED), "reason": (str, 1 << 20)}


@dataclass(frozen=True)
class Request:
    """What a client is asked."""

    context: Context  # round, exchange and client
    recipe: str = field(repr=False)  # what the client is to do, see `hopfed.hopfield.clients`
    # state, down: of the client before its step, and the message to it
    state: State = field(repr=False)
    down: Message = field(repr=False)
    # nothing is to be answered: the federation is over, and `down` its last word
    last: bool = False
    # names of columns (`hopfed.hopfield.columns`); none where they go by place
    columns: Sequence[object] = ()


def write_request(request: Request) -> bytes:
    """Bytes of a request."""
    c = request.context
    words = {
        "seed": str(c.seed),  # which may be wider than 64 bits
        "round": c.round,
        "exchange": c.exchange,
        "client": c.client,
        "recipe": request.recipe,
        "last": request.last,
        "columns": list(request.columns),
    }
    arrays = {"down": request.down, "state": request.state}
    return _written(words, arrays)


def read_request(data: bytes) -> Request:
    """Undo `write_request`."""
    words, arrays = _read(data, _ASKED, ("down", "state"))
    seed = words["seed"]
    if not (seed.isascii() and seed.isdigit()):  # of a superscript 2, only isdigit is true
        raise DataError("a request whose seed is not a whole number")
    context = Context(int(seed), words["round"], words["exchange"], words["client"])
    return Request(context, words["recipe"], last=words["last"], columns=words["columns"], **arrays)


def write_reply(reply: Outcome) -> bytes:
    """Bytes of a reply: the new state of a client and its message, or why there is none."""
    words = {"fault": int(reply.fault), "reason": reply.reason[:REASON]}
    return _written(words, {"up": reply.message or {}, "state": reply.state})


def read_reply(data: bytes) -> Outcome:
    """Undo `write_reply`; the arrays are those of the sender, whatever a method expects."""
    words, arrays = _read(data, _ANSWERED, ("up", "state"))
    if words["fault"] not in (Fault.NONE, Fault.RAISED):  # the others are for the server to find
        raise DataError(f"a reply with fault {words['fault']}")
    if nbytes(arrays["state"]) > _STATE or len(arrays["state"]) > _STATE:
        raise DataError(f"a state of more than {_STATE} bytes")
    fault, reason = Fault(words["fault"]), shown(words["reason"], REASON)
    return Outcome(arrays["state"], arrays["up"], fault=fault, reason=reason)


def _written(words: Mapping[str, Any], messages: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Words as JSON, then arrays whose names begin with that of their message."""
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    named = {f"{n}/{k}": v for n, message in messages.items() for k, v in message.items()}
    return b"".join(chunks({"": text, **named}))


def _read(
    data: bytes, due: Mapping[str, tuple[type, int]], messages: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Message]]:
    """Undo `_written`; of anybody's bytes."""
    try:
        # A writable copy: what a step gets is its own, as in every other engine.
        found = unpack(np.frombuffer(bytearray(data), np.uint8), _HEADER)
        text = found.pop("")
        words = json.loads(text.tobytes()) if len(text) <= _WORDS else None
    except DataError:
        raise
    except Exception as error:  # whatever was sent
        raise DataError(f"damaged packed arrays: {type(error).__name__}") from None
    if not isinstance(words, dict):
        raise DataError("a message whose words are damaged")
    for name, (kind, most) in due.items():
        value = words.get(name)
        if type(value) is not kind:
            raise DataError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
        if not 0 <= (len(value) if isinstance(value, str | list) else value) <= most:  # type: ignore[operator]
            raise DataError(f"{name} must be a number or a length from 0 to {most}")
    arrays: dict[str, Message] = {name: {} for name in messages}
    for key, array in found.items():
        of, _, name = key.partition("/")
        if of not in arrays:
            raise DataError(f"a message with {shown(key, _NAME)}, which it does not have")
        if array.dtype.kind not in _KINDS:
            raise DataError(f"{of}: {shown(name, _NAME)} is of dtype {array.dtype}")
        arrays[of][name] = array
    return words, arrays


def parts(message: bytes) -> Iterator[bytes]:
    """A message as the parts of a stream: its length, then pieces of it."""
    yield len(message).to_bytes(8, "little")
    for start in range(0, len(message), PART):
        yield message[start : start + PART]


@dataclass
class Gathered:
    """Puts the parts of a stream together again, in no more memory than was sent."""

    limit: int  # bytes that a message may have
    _length: int = -1
    _held: bytearray = field(default_factory=bytearray, repr=False)

    def add(self, part: bytes) -> bytes | None:
        """Take a part; the message, where it is whole."""
        if self._length < 0:
            self._length = int.from_bytes(part, "little") if len(part) == 8 else -1
            if not 0 < self._length <= self.limit:
                raise DataError(f"no message of 1 byte to {self.limit / 1e6:.3g} MB")
            return None
        self._held += part
        if len(self._held) > self._length or not part:
            raise DataError("parts that are more than their message")
        if len(self._held) < self._length:
            return None
        whole, self._length, self._held = bytes(self._held), -1, bytearray()
        return whole
