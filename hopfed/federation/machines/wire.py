"""Questions and answers as bytes.

A request holds the message down, the recipe of the method, and where in the federation it is; a
reply holds the message up, metrics, and the name of the state that stays behind. Arrays are packed
(`hopfed.federation.packing`), and whatever comes from the wire is checked before it is believed.

Calls as requests to clients whose states stay with them, and replies as outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopfed.errors import DataError, shown
from hopfed.federation.contract import Context, Method, Metrics
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.messages import Message
from hopfed.federation.packing import chunks, unpack
from hopfed.federation.recipes import describe

PART = 1 << 20  # bytes of a part of a stream, at most
LIMIT = 256 * 10**6  # bytes of a message, unless somebody says another number

_KINDS = "biuf"  # NumPy kinds that may travel
_HEADER = 1 << 20  # bytes in which a message may name its arrays
_RECIPE = 1 << 20  # characters of a recipe; its arrays are apart
_NAME = 80  # characters of the name of a run or a metric
_DIGEST = 16  # bytes of the name of a state
_METRICS = 64
_SEED = 80  # digits: 256 bits
_WHOLE = {"round": 10**8, "exchange": 10**6, "client": 10**9}  # and what they are below


@dataclass(frozen=True)
class Request:
    """What a client is asked.

    Attributes
    ----------
    run : name of the federation; states are kept under it.
    context : round, exchange and client.
    base : name of the state to step from, empty for that of a client's first round.
    recipe, parts : the method, see `hopfed.federation.recipes`.
    down : the message.
    last : nothing is to be answered: the federation is over, and `down` its last word.
    columns : names of columns (`hopfed.hopfield.columns`); nothing where they go by place.
    """

    run: str
    context: Context
    base: bytes
    recipe: str = field(repr=False)
    parts: Mapping[str, np.ndarray] = field(repr=False)
    down: Message = field(repr=False)
    last: bool = False
    columns: Message = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Reply:
    """What a client answers: a message and the name of its new state, or a fault."""

    state: bytes = b""
    up: Message = field(default_factory=dict, repr=False)
    metrics: Metrics = field(default_factory=dict)
    fault: Fault = Fault.NONE
    reason: str = ""


def write_request(request: Request) -> bytes:
    """Bytes of a request."""
    c = request.context
    where = {
        "run": request.run,
        "seed": str(c.seed),  # which may be wider than 64 bits
        "round": c.round,
        "exchange": c.exchange,
        "client": -1 if c.client is None else c.client,
        "base": request.base.hex(),
        "recipe": request.recipe,
        "last": request.last,
    }
    arrays = {"down": request.down, "parts": request.parts, "columns": request.columns}
    return _written(where, arrays)


def read_request(data: bytes) -> Request:
    """Undo `write_request`."""
    call, arrays = _read(data, ("down", "parts", "columns"))
    where = {k: _typed(call, k, int) for k in _WHOLE}
    seed = _typed(call, "seed", str, _SEED)
    digits = seed.isascii() and seed.isdigit()  # of a superscript 2, only isdigit is true
    if not digits or not all(0 <= where[k] < most for k, most in _WHOLE.items()):
        raise DataError("a request whose seed, round, exchange or client is not a whole number")
    return Request(
        _typed(call, "run", str, _NAME),
        Context(int(seed), **where),
        _bytes(call, "base"),
        _typed(call, "recipe", str, _RECIPE),
        arrays["parts"],
        arrays["down"],
        _typed(call, "last", bool),
        arrays["columns"],
    )


def write_reply(reply: Reply) -> bytes:
    """Bytes of a reply."""
    metrics = {name: float(value) for name, value in reply.metrics.items()}
    told = {"state": reply.state.hex(), "fault": int(reply.fault), "reason": reply.reason[:REASON]}
    return _written({**told, "metrics": metrics}, {"up": reply.up})


def read_reply(data: bytes) -> Reply:
    """Undo `write_reply`; the arrays are those of the sender, whatever a method expects."""
    told, arrays = _read(data, ("up",))
    code = _typed(told, "fault", int)
    if code not in (Fault.NONE, Fault.RAISED):  # the others are for the server to find
        raise DataError(f"a reply with fault {code}")
    metrics = _typed(told, "metrics", dict)
    named = len(metrics) <= _METRICS and all(len(k) <= _NAME for k in metrics)
    if not named or not all(type(v) is float for v in metrics.values()):
        raise DataError("a reply whose metrics are not numbers")
    reason = shown(_typed(told, "reason", str), REASON)
    return Reply(_bytes(told, "state"), arrays["up"], metrics, Fault(code), reason)


def _written(words: Mapping[str, Any], messages: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Words as JSON, then arrays whose names begin with that of their message."""
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    named = {f"{n}/{k}": v for n, message in messages.items() for k, v in message.items()}
    return b"".join(chunks({"": text, **named}))


def _read(data: bytes, messages: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Message]]:
    """Undo `_written`; of anybody's bytes."""
    try:
        # A writable copy: what a step gets is its own, as in every other engine.
        found = unpack(np.frombuffer(bytearray(data), np.uint8), _HEADER)
        words = json.loads(found.pop("").tobytes()[: 2 * _RECIPE])
    except DataError:
        raise
    except Exception as error:  # whatever was sent
        raise DataError(f"damaged packed arrays: {type(error).__name__}") from None
    if not isinstance(words, dict):
        raise DataError("a message whose words are damaged")
    arrays: dict[str, Message] = {name: {} for name in messages}
    for key, value in found.items():
        of, _, name = key.partition("/")
        if of not in arrays:
            raise DataError(f"a message with {shown(key, _NAME)}, which it does not have")
        if value.dtype.kind not in _KINDS:
            raise DataError(f"{of}: {shown(name, _NAME)} is of dtype {value.dtype}")
        arrays[of][name] = value
    return words, arrays


def _bytes(record: Mapping[str, Any], name: str) -> bytes:
    try:
        return bytes.fromhex(_typed(record, name, str, 2 * _DIGEST))
    except ValueError:
        raise DataError(f"{name} must be hexadecimal digits") from None


def _typed(record: Mapping[str, Any], name: str, kind: Any, most: int | None = None) -> Any:
    """Entry of a record, of one type, and no longer than `most`."""
    value = record.get(name)
    if type(value) is not kind:
        raise DataError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    if most is not None and len(value or "") > most:
        raise DataError(f"{name} must be of length {most} at most, got {len(value or '')}")
    return value


def parts(message: bytes) -> Iterator[bytes]:
    """A message as the parts of a stream: its length, then pieces of it."""
    yield len(message).to_bytes(8, "little")
    for start in range(0, len(message), PART):
        yield message[start : start + PART]


@dataclass
class Gathered:
    """Puts the parts of a stream together again, in no more memory than was sent.

    Attributes
    ----------
    limit : bytes that a message may have.
    """

    limit: int
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


HELD = "held"  # the entry of a state that is elsewhere: its name


def requests_of(
    run: str, method: Method, calls: Sequence[Call], columns: Message | None = None
) -> list[Request]:
    """Requests of an exchange; the state of a call is the name of one that is elsewhere."""
    text, made_of = describe(method)
    return [
        Request(
            run,
            call.context,
            np.asarray(call.state[HELD]).tobytes() if HELD in call.state else b"",
            text,
            made_of,
            call.down,
            columns=columns or {},
        )
        for call in calls
    ]


def outcome_of(reply: Reply) -> Outcome:
    """Outcome of a step whose state stays where it was made."""
    if reply.fault != Fault.NONE:
        return Outcome(fault=reply.fault, reason=reply.reason)
    state = {HELD: np.frombuffer(reply.state, dtype=np.uint8)}
    return Outcome(state, reply.up, reply.metrics)


def client_of(request: Request) -> int:
    """Number of the client that is asked; -1 for the one of nobody."""
    return -1 if request.context.client is None else request.context.client
