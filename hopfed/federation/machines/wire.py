"""Questions and answers as bytes: words as JSON, and arrays as they lie in memory, never a pickle.

A client keeps nothing between two questions, which bring its state along, so that it answers one
that is repeated, after whatever was killed, with the same bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hopfed.errors import BackendError, DataError, shown
from hopfed.federation.contract import REASON, Call, Context, Fault, Outcome
from hopfed.federation.messages import Message, nbytes, pack, unpack

LIMIT = 80 * 10**6  # bytes of a message; a server may say another number for its own
STOPPED = "stopped"  # in the last word of a federation that ended without a result
SERVICE, SESSION = "hopfed", "session"  # names of the one call
WELCOME = ("hopfed", "3")  # what a client gets first
OPTIONS = (  # of the library, for both sides
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),  # a peer that is gone without a word is known after this
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
)

_NAMED = 1 << 20  # bytes in which a message may name its arrays
_WORDS = 1 << 23  # bytes of its words, names of columns among them
_STATE = 1 << 12  # bytes of a client's state: a server keeps them all
# words of a message, and their type
_WHERE = {"seed": int, "round": int, "exchange": int, "client": int}
_ASKED = {**_WHERE, "recipe": str, "last": bool, "columns": list}
_ANSWERED = {"fault": int, "reason": str}


def library() -> Any:
    """The module grpc; what it says on stderr is said in words."""
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
    """Bytes of a question.

    `recipe` is what the client is to do (`hopfed.hopfield.clients`); with `last` nothing is to be
    answered, as the federation is over, and the message down its last word; `columns` are their
    names, none where they go by place.
    """
    words = {"recipe": recipe, "last": last, "columns": list(columns)} | vars(call.context)
    return _written(words, down=call.down, state=call.state)


def read_question(data: bytes) -> tuple[Call, dict[str, Any]]:
    """Undo `write_question`: what is to be made, and the words beside it."""
    words, arrays = _read(data, _ASKED, ("down", "state"))
    context = Context(*(words.pop(name) for name in _WHERE))
    return Call(arrays["state"], arrays["down"], context), words


def write_reply(reply: Outcome) -> bytes:
    """Bytes of a reply: the new state of a client and its message, or why there is none."""
    words = {"fault": int(reply.fault), "reason": reply.reason[:REASON]}
    return _written(words, up=reply.message or {}, state=reply.state)


def read_reply(data: bytes) -> Outcome:
    """Undo `write_reply`; the arrays are those of the sender, whatever a method expects."""
    words, arrays = _read(data, _ANSWERED, ("up", "state"))
    if words["fault"] not in (Fault.NONE, Fault.RAISED):  # the others are for the server to find
        raise DataError(f"a reply with fault {words['fault']}")
    if nbytes(arrays["state"]) > _STATE or len(arrays["state"]) > _STATE:
        raise DataError(f"a state of more than {_STATE} bytes")
    fault, reason = Fault(words["fault"]), shown(words["reason"], REASON)
    return Outcome(arrays["state"], arrays["up"], fault=fault, reason=reason)


def _written(words: Mapping[str, Any], **messages: Mapping[str, Any]) -> bytes:
    """Words as JSON, then arrays whose names begin with that of their message."""
    text = np.frombuffer(json.dumps(words).encode(), np.uint8)
    named = {f"{n}/{k}": v for n, message in messages.items() for k, v in message.items()}
    return pack({"": text, **named}).tobytes()


def _read(
    data: bytes, due: Mapping[str, type], messages: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Message]]:
    """Undo `_written`; the bytes may be malformed."""
    # A writable copy: what a step gets is its own, as in every other engine.
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
            raise DataError(f"a message with {shown(key, 80)} of {array.dtype}")
        arrays[of][name] = array
    return words, arrays
