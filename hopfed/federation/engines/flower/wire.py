"""Calls and answers as Flower records.

A request holds the message down, the recipe of the method, and where in the federation it is; a
reply holds the message up, metrics, and the name of the state that stays behind. Arrays are packed
(`hopfed.federation.packing`), and whatever comes from the wire is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from hopfed.errors import DataError, shown
from hopfed.federation.contract import Context, Metrics
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.messages import Message
from hopfed.federation.packing import pack, unpack

PACKED = "hopfed.packed"  # how the bytes of our Flower arrays are to be read

LIMIT = 256 * 10**6  # bytes of a message, unless somebody says another number

_KINDS = "biuf"  # NumPy kinds that may travel
_HEADER = 1 << 20  # bytes in which a message may name its arrays
_RECIPE = 1 << 20  # characters of a recipe; its arrays are apart
_NAME = 80  # characters of the name of a run or a metric
_DIGEST = 16  # bytes of the name of a state
_METRICS = 64
_SEED = 80  # digits: 256 bits
_WHOLE = {"round": 10**8, "exchange": 100, "client": 10**9}  # and what they are below


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
    columns : what is said of the names of columns, see `hopfed.hopfield.headers`; nothing where
        they go by their place, as with servers and clients that know of no names.
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


def write_request(request: Request) -> RecordDict:
    """Records of a request."""
    c = request.context
    where: dict[str, Any] = {
        "run": request.run,
        "seed": str(c.seed),  # which may be wider than a protobuf integer
        "round": c.round,
        "exchange": c.exchange,
        "client": -1 if c.client is None else c.client,
        "base": request.base,
        "recipe": request.recipe,
        "last": request.last,
    }
    arrays = {"down": _array(request.down), "parts": _array(request.parts)}
    if request.columns:
        arrays["columns"] = _array(request.columns)
    return RecordDict({"arrays": ArrayRecord(arrays), "call": ConfigRecord(where)})


def read_request(records: RecordDict) -> Request:
    """Undo `write_request`."""
    arrays, call = _records(records, "call")
    where = {k: _typed(call, k, int) for k in _WHOLE}
    seed = _typed(call, "seed", str, _SEED)
    digits = seed.isascii() and seed.isdigit()  # of a superscript 2, only isdigit is true
    if not digits or not all(0 <= where[k] < most for k, most in _WHOLE.items()):
        raise DataError("a request whose seed, round, exchange or client is not a whole number")
    return Request(
        _typed(call, "run", str, _NAME),
        Context(int(seed), **where),
        _typed(call, "base", bytes, _DIGEST),
        _typed(call, "recipe", str, _RECIPE),
        _arrays(arrays, "parts"),
        _arrays(arrays, "down"),
        _typed(call, "last", bool),
        _arrays(arrays, "columns") if "columns" in arrays else {},
    )


def write_reply(reply: Reply) -> RecordDict:
    """Records of a reply."""
    outcome = {"state": reply.state, "fault": int(reply.fault), "reason": reply.reason[:REASON]}
    metrics = {name: float(value) for name, value in reply.metrics.items()}
    return RecordDict(
        {
            "arrays": ArrayRecord({"up": _array(reply.up)}),
            "outcome": ConfigRecord(outcome),
            "metrics": ConfigRecord(metrics),
        }
    )


def read_reply(records: RecordDict) -> Reply:
    """Undo `write_reply`; the arrays are those of the sender, whatever a method expects."""
    arrays, outcome = _records(records, "outcome")
    code = _typed(outcome, "fault", int)
    if code not in (Fault.NONE, Fault.RAISED):  # the others are for the server to find
        raise DataError(f"a reply with fault {code}")
    return Reply(
        _typed(outcome, "state", bytes, _DIGEST),
        _arrays(arrays, "up"),
        _metrics(records.get("metrics", {})),
        Fault(code),
        shown(_typed(outcome, "reason", str), REASON),
    )


def _metrics(record: Any) -> Metrics:
    if isinstance(record, Mapping) and len(record) <= _METRICS:
        named = all(isinstance(k, str) and len(k) <= _NAME for k in record)
        if named and all(isinstance(v, float) for v in record.values()):
            return dict(record)
    raise DataError("a reply whose metrics are not numbers")


def _array(arrays: Mapping[str, Any]) -> Array:
    data = pack(arrays)
    return Array(dtype="uint8", shape=data.shape, stype=PACKED, data=data.tobytes())


def _arrays(record: ArrayRecord, name: str) -> dict[str, np.ndarray]:
    array = record.get(name)
    if array is None or array.stype != PACKED:
        raise DataError(f"{name} is missing or is not packed arrays of hopfed")
    try:
        # A writable copy: what a step gets is its own, as in every other engine.
        found = unpack(np.frombuffer(bytearray(array.data), dtype=np.uint8), _HEADER)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    except Exception as error:  # whatever was sent
        raise DataError(f"{name}: damaged packed arrays: {type(error).__name__}") from None
    for key, value in found.items():
        if value.dtype.kind not in _KINDS:
            raise DataError(f"{name}: {shown(key, _NAME)} is of dtype {value.dtype}")
    return found


def _records(records: RecordDict, name: str) -> tuple[ArrayRecord, ConfigRecord]:
    arrays, config = records.get("arrays"), records.get(name)
    if not isinstance(arrays, ArrayRecord) or not isinstance(config, ConfigRecord):
        raise DataError("not records of hopfed")
    return arrays, config


def _typed(record: ConfigRecord, name: str, kind: Any, most: int | None = None) -> Any:
    """Entry of a record, of one type, and no longer than `most`."""
    value = record.get(name)
    if type(value) is not kind:
        raise DataError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
    if most is not None and len(value) > most:
        raise DataError(f"{name} must be of length {most} at most, got {len(value)}")
    return value
