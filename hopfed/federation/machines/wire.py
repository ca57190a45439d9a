"""Wire format of questions and replies: words as JSON, arrays as they lie in memory, no pickle.

A question brings the client's state along, and the client keeps nothing between two questions. So
it answers a repeated question with the same bits, whichever process was killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hopfed.errors import BackendError, DataError, safe_line
from hopfed.federation.contract import REASON, Call, Context, Fault, Outcome
from hopfed.federation.messages import Message, nbytes, pack, unpack

LIMIT = 80 * 10**6  # bytes of a message; a server may set its own limit
STOPPED = "stopped"  # in the last message of a federation that ended without a result
SERVICE, SESSION = "hopfed", "session"  # names of the gRPC service and its call
WELCOME = ("hopfed", "3")  # first metadata of a stream
OPTIONS = (  # of gRPC, for both sides
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),  # the loss of a peer is noticed after this
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
)

_NAMED = 1 << 20  # most bytes of the header of a message, which names its arrays
_WORDS = 1 << 23  # most bytes of its words, names of columns among them
_STATE = 1 << 12  # most bytes of a client's state: a server keeps all states
# words of a message, and their type
_WHERE = {"seed": int, "round": int, "exchange": int, "client": int}
_ASKED = {**_WHERE, "recipe": str, "last": bool, "columns": list}
_ANSWERED = {"fault": int, "reason": str}


def import_grpc() -> Any:
    """Import grpc for the wire, silent on stderr; BackendError if it is not installed."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # forks read files, and use no streams
    try:
        import grpc
    except ImportError:
        raise BackendError("grpcio is not installed: pip install 'hopfed[machines]'") from None
    return grpc


def write_question(
    call: Call, recipe: str = "", last: bool = False, columns: Sequence[object] = ()
) -> bytes:
    """Write a server's question for the wire, the call of a client step, as bytes.

    `recipe` describes the client (`hopfed.hopfield.clients`); with `last` the federation is over,
    the message down is the last, and no answer is due; `columns` are names, empty if columns are
    matched by place.
    """
    words = {"recipe": recipe, "last": last, "columns": list(columns)} | vars(call.context)
    return _written(words, down=call.down, state=call.state)


def read_question(data: bytes) -> tuple[Call, dict[str, Any]]:
    """Read a server's question off the wire: the call of a client step, and the words beside it."""
    words, arrays = _read(data, _ASKED, ("down", "state"))
    context = Context(*(words.pop(name) for name in _WHERE))
    return Call(arrays["state"], arrays["down"], context), words


def write_reply(reply: Outcome) -> bytes:
    """Write a client's reply for the wire: its new state and message, or a fault and the reason."""
    words = {"fault": int(reply.fault), "reason": reply.reason[:REASON]}
    return _written(words, up=reply.message or {}, state=reply.state)


def read_reply(data: bytes) -> Outcome:
    """Read a client's reply off the wire; the form of its arrays is still to be checked."""
    words, arrays = _read(data, _ANSWERED, ("up", "state"))
    if words["fault"] not in (Fault.NONE, Fault.RAISED):  # the server finds the others
        raise DataError(f"a reply with fault {words['fault']}")
    if nbytes(arrays["state"]) > _STATE or len(arrays["state"]) > _STATE:
        raise DataError(f"a state of more than {_STATE} bytes")
    fault, reason = Fault(words["fault"]), safe_line(words["reason"], REASON)
    return Outcome(arrays["state"], arrays["up"], fault=fault, reason=reason)


def _written(words: Mapping[str, Any], **messages: Mapping[str, Any]) -> bytes:
    """Words as JSON, then arrays whose names begin with that of their message."""
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    named = {f"{n}/{k}": v for n, message in messages.items() for k, v in message.items()}
    return pack({"": text, **named}).tobytes()


def _read(
    data: bytes, due: Mapping[str, type], messages: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Message]]:
    """Read words and arrays, as `_written`; DataError if the bytes are malformed."""
    # A writable copy: a step owns its arrays, as in every other engine.
    found = unpack(np.frombuffer(bytearray(data), np.uint8), _NAMED)
    try:
        if found[""].nbytes > _WORDS:  # read, they would take 25 times that
            raise ValueError
        words = json.loads(found.pop("").tobytes())
        words = {name: words[name] for name in due}
    except (KeyError, TypeError, ValueError, RecursionError):
        raise DataError("a message whose words are damaged") from None
    for name, kind in due.items():
        if type(words[name]) is not kind or (kind is int and words[name] < 0):
            raise DataError(f"a message whose {name} is no {kind.__name__} of at least 0")
    arrays: dict[str, Message] = {name: {} for name in messages}
    for key, array in found.items():
        of, _, name = key.partition("/")
        if of not in arrays or array.dtype.kind not in "biuf":
            raise DataError(f"a message with {safe_line(key, 80)} of {array.dtype}")
        arrays[of][name] = array
    return words, arrays
