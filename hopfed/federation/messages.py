"""Messages: dicts of arrays, their form, and the one place where their bytes are counted.

As bytes they are a header in JSON, then the arrays as they lie in memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from hopfed._lib.arrays import to_host
from hopfed.errors import DataError, safe_line

__all__ = ["Field"]

Message = dict[str, np.ndarray]

SINGLE, LARGEST = 1e15, 1e150  # magnitudes in single and double precision, above all honest numbers
MALFORMED = "a malformed message from the server"
_MAGIC = b"hopfed-1"
_ALIGN = 64  # bytes, so that an array read back can be used where it lies
_START = len(_MAGIC) + 8  # the magic and the length of the header
_KIND = re.compile(r"[<>|][biufcSUV][1-9][0-9]{0,7}")  # numbers, letters or bytes
WIDEST = 8  # most bytes of a number: a wider number may overflow in float64


@dataclass(frozen=True)
class Field:
    """Form of an array of a message.

    Attributes
    ----------
    shape : lengths of its axes, None for any; a word stands for any length that is the same
        wherever the message has that word.
    kinds : NumPy kind letters it may be of: f float, i signed, u unsigned, b bool. Numbers wider
        than 8 bytes are refused.
    least, most : smallest and largest value it may hold, None for any.
    within : name of the entry, a number, that bounds the magnitude of its values.
    times : factor of that number.
    beyond : amount by which values may exceed this bound, as noise does.

    Examples
    --------
    >>> bad_form({"w": np.zeros(3)}, {"w": Field((2,))})
    'w is of shape (3,), not (2)'
    >>> pairs = {"value": Field(("pairs",), "f"), "vector": Field(("pairs", 2), "f")}
    >>> bad_form({"value": np.ones(3), "vector": np.ones((1, 2))}, pairs)
    'value and vector are of 3 and 1 pairs'
    """

    shape: tuple[int | str | None, ...] = ()
    kinds: str = "fiu"
    least: float | None = None
    within: str | None = None
    most: float | None = None
    times: float = 1.0
    beyond: float = 0.0

    def _misshapen(self, name: str, array: np.ndarray) -> str | None:
        """Fault in the kind or the shape of `array`, in words; None where there is none."""
        if array.dtype.kind not in self.kinds or array.dtype.itemsize > WIDEST:
            return f"{name} is of dtype {array.dtype}"
        pairs = zip(self.shape, array.shape, strict=False)
        alike = all(want == got for want, got in pairs if isinstance(want, int))
        if array.ndim == len(self.shape) and alike:
            return None
        wanted = ", ".join("any" if n is None else str(n) for n in self.shape)
        return f"{name} is of shape {array.shape}, not ({wanted})"

    def _beyond(self, name: str, array: np.ndarray, message: Message) -> str | None:
        """Fault in the values of `array` in its `message`, in words; None where there is none."""
        if not array.size or (self.least, self.most, self.within) == (None, None, None):
            return None
        low, high = array.min(), array.max()
        if self.least is not None and low < self.least:
            return f"{name} is {low}, below {self.least:g}"
        if self.most is not None and high > self.most:
            return f"{name} is {high}, above {self.most:g}"
        if self.within is None:
            return None
        # As Python numbers: the negative of an unsigned number, or of the least one, overflows.
        found = max(float(high), -float(low))
        slack = 1e-6 if array.dtype.kind == "f" else 0.0  # the rounding of a sum
        limit = float(message[self.within]) * self.times * (1 + slack) + self.beyond
        allowed = f"{self.within} + {self.beyond:.0f}" if self.beyond else self.within
        return f"{name} holds {found:g}, above {allowed}" if found > limit else None


Spec = Mapping[str, Field]


def as_message(columns: Mapping[str, object]) -> Message:
    """Make a message of named values: host arrays, scalars as arrays of shape ()."""
    return {name: np.asarray(to_host(value)) for name, value in columns.items()}


def bad_form(message: object, spec: Spec) -> str | None:
    """Say how a `message` departs from its form, `spec`; None if it does not."""
    if not isinstance(message, dict):
        return f"a message is a dict of arrays, this is a {type(message).__name__}"
    if spec.keys() != message.keys():
        missing, extra = sorted(spec.keys() - message.keys()), sorted(message.keys() - spec.keys())
        return ", ".join([f"{n} is missing" for n in missing] + [f"{n} is unknown" for n in extra])
    lengths: dict[str, tuple[str, int]] = {}
    for name, wanted in spec.items():
        array = message[name]
        if not isinstance(array, (np.ndarray, np.generic)):
            return f"{name} is a {type(array).__name__}, not an array"
        if complaint := wanted._misshapen(name, array):  # type: ignore[arg-type]
            return complaint
        for word, length in zip(wanted.shape, array.shape, strict=True):
            if isinstance(word, str):
                first, known = lengths.setdefault(word, (name, length))
                if known != length:
                    return f"{first} and {name} are of {known} and {length} {word}"
    for name, wanted in sorted(spec.items(), key=lambda each: each[1].within is not None):
        if complaint := wanted._beyond(name, message[name], message):
            return complaint
    return None


def bad_number(message: Message) -> str | None:
    """Say which array of a message has NaN, infinite or too large numbers; None if none has."""
    for name, array in message.items():
        if array.dtype.kind == "f":
            most = LARGEST if array.dtype.itemsize > 4 else SINGLE
            if wrong := (~(np.abs(array) <= min(most, float(np.finfo(array.dtype).max)))).sum():
                return f"{name} holds {wrong} values that are not finite, or too large"
    return None


def require_form(down: Message, spec: Spec) -> None:
    """Fail unless a message from the server has the form `spec`, and finite numbers."""
    if wrong := bad_form(down, spec) or bad_number(down):
        raise DataError(f"{MALFORMED}: {wrong}")


def nbytes(message: Message) -> int:
    """Return the size of a message: the bytes of its arrays."""
    return sum(int(np.asarray(array).nbytes) for array in message.values())


def part_of(arrays: Mapping[str, np.ndarray], part: str) -> Message:
    """Return the part of a message whose names begin with ``part/``, by the rest of the names."""
    prefix = part + "/"
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


class AlignedArrays:
    """Base of dataclasses of arrays that have a line for each class or pattern."""

    def select(self, kept: np.ndarray) -> Self:
        """Keep some lines, by a mask or by indices."""
        return type(self)(**{f.name: getattr(self, f.name)[kept] for f in fields(self)})  # type: ignore[arg-type]

    def followed_by(self, other: Self) -> Self:
        """Append the lines of `other`."""
        both = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**{name: np.concatenate(each) for name, each in both.items()})


def flatten(value: Any, part: str = "") -> Message:
    """Make a message of a dataclass: its arrays by field, below the name of a `part`."""
    front = f"{part}/" if part else ""
    return {f"{front}{f.name}": np.asarray(getattr(value, f.name)) for f in fields(value)}


def digest(message: Message) -> bytes:
    """Return a digest of a message: 16 bytes, different for different messages."""
    h = hashlib.blake2b(digest_size=16)
    for name in sorted(message):
        array = np.ascontiguousarray(message[name])
        h.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        h.update(array.data if array.size and array.dtype.kind in "biuf" else array.tobytes())
    return h.digest()


class Traffic:
    """Traffic of messages: bytes and numbers up and down in a round, by client (L,)."""

    def __init__(self, clients: int):
        self.up, self.down, self.parameters_up, self.parameters_down = np.zeros((4, clients), int)

    def __repr__(self) -> str:
        return f"<Traffic: {self.up.sum():,} bytes up, {self.down.sum():,} down>"

    def count(self, way: str, client: int, message: Message) -> None:
        """Count a message from a client, "up", or to it, "down"."""
        arrays = [a if hasattr(a, "nbytes") else np.asarray(a) for a in message.values()]
        getattr(self, way)[client] += sum(array.nbytes for array in arrays)
        getattr(self, f"parameters_{way}")[client] += sum(array.size for array in arrays)

    def add(self, other: Traffic) -> None:
        """Count the `other` traffic between the same parties as well."""
        for name, counted in vars(other).items():
            getattr(self, name)[:] += counted


def pack(arrays: Mapping[str, Any]) -> np.ndarray:
    """Pack the arrays of a message, or of a state, into bytes: one array of uint8."""
    entries: list[tuple[str, str, list[int]]] = []
    bodies: list[bytes | memoryview] = []
    for name, value in arrays.items():
        array = np.asarray(to_host(value))
        if array.dtype.hasobject:
            raise DataError(f"{name}: arrays of {array.dtype} cannot be kept in a file")
        entries.append((name, array.dtype.str, list(array.shape)))
        flat = np.ascontiguousarray(array).reshape(-1)
        bodies += [flat.view(np.uint8).data, bytes(-array.nbytes % _ALIGN)]
    header = json.dumps(entries).encode()
    header += b" " * (-(_START + len(header)) % _ALIGN)
    whole = b"".join([_MAGIC, len(header).to_bytes(8, "little"), header, *bodies])
    return np.frombuffer(whole, dtype=np.uint8)


def unpack(data: np.ndarray, header: int | None = None) -> dict[str, np.ndarray]:
    """Unpack the arrays of a message from bytes, as views; the `header` has a largest size."""
    at = _START + int.from_bytes(data[len(_MAGIC) : _START].tobytes(), "little")
    if data[: len(_MAGIC)].tobytes() != _MAGIC or len(data) < _START:
        raise DataError("not packed arrays of hopfed")
    if at > len(data) or (header is not None and at > _START + header):
        raise DataError("packed arrays whose header is damaged or too long")
    found: dict[str, np.ndarray] = {}
    try:
        for name, kind, shape in json.loads(data[_START:at].tobytes()):
            twice = type(name) is not str or name in found
            if twice or not _KIND.fullmatch(kind) or any(n < 0 for n in shape):
                raise ValueError(f"an entry {name!r:.80} that is malformed, or there twice")
            found[name] = array = np.ndarray(shape, kind, data, at)  # NumPy checks that it fits
            at += array.nbytes + -array.nbytes % _ALIGN
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"packed arrays that are damaged: {safe_line(error, 120)}") from None
    return found
