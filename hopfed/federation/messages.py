"""Messages: dicts of arrays, their form, and the one place where their bytes are counted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hopfed._lib.arrays import to_host

Message = dict[str, np.ndarray]

WIDEST = 8  # bytes of a number: what is wider cannot be brought to float64 without overflow


@dataclass(frozen=True)
class Field:
    """What an array of a message must look like.

    Attributes
    ----------
    shape : lengths of its axes, None for any; a word stands for any length that is the same
        wherever the message has that word.
    kinds : NumPy kind letters it may be of: f float, i signed, u unsigned, b bool. Numbers wider
        than 8 bytes are refused.
    least, most : smallest and largest value it may hold, None for any.
    within : name of the entry, a number, that bounds the magnitude of its values.
    times : how often that number.
    beyond : by how much they may exceed it all the same, as noise does.

    Examples
    --------
    >>> field = Field((None, 3), "f")
    >>> field.complaint("rows", np.zeros((2, 3))), field.complaint("rows", np.zeros(3))
    (None, 'rows is of shape (3,), not (any, 3)')
    """

    shape: tuple[int | str | None, ...] = ()
    kinds: str = "fiu"
    least: float | None = None
    within: str | None = None
    most: float | None = None
    times: float = 1.0
    beyond: float = 0.0

    def complaint(self, name: str, array: np.ndarray) -> str | None:
        """What is wrong with `array`, in words; None when nothing is."""
        if array.dtype.kind not in self.kinds or array.dtype.itemsize > WIDEST:
            return f"{name} is of dtype {array.dtype}"
        fits = array.ndim == len(self.shape) and all(
            not isinstance(want, int) or want == got
            for want, got in zip(self.shape, array.shape, strict=True)
        )
        if not fits:
            want = ", ".join("any" if n is None else str(n) for n in self.shape)
            return f"{name} is of shape {array.shape}, not ({want})"
        if self.least is not None and array.size and array.min() < self.least:
            return f"{name} is {array.min()}, below {self.least:g}"
        if self.most is not None and array.size and array.max() > self.most:
            return f"{name} is {array.max()}, above {self.most:g}"
        return None


Spec = Mapping[str, Field]


def as_message(columns: Mapping[str, object]) -> Message:
    """Bring every entry to a host array; scalars become arrays of shape ().

    Parameters
    ----------
    columns : name -> array of any library, or number.

    Examples
    --------
    >>> as_message({"rows": [[1, 2]], "weight": 0.5})
    {'rows': array([[1, 2]]), 'weight': array(0.5)}
    """
    return {name: np.asarray(to_host(value)) for name, value in columns.items()}


def malformed(message: object, spec: Spec) -> str | None:
    """Say how `message` departs from `spec`; None when it does not.

    Examples
    --------
    >>> malformed({"w": np.zeros(3)}, {"w": Field((2,))})
    'w is of shape (3,), not (2)'
    >>> malformed({"w": np.array(7), "M": np.array(5)}, {"w": Field(within="M"), "M": Field()})
    'w holds 7, above M'
    >>> pairs = {"value": Field(("pairs",), "f"), "vector": Field(("pairs", 2), "f")}
    >>> malformed({"value": np.ones(3), "vector": np.ones((1, 2))}, pairs)
    'value and vector are of 3 and 1 pairs'
    """
    if not isinstance(message, dict):
        return f"a message is a dict of arrays, this is a {type(message).__name__}"
    missing, extra = sorted(spec.keys() - message.keys()), sorted(message.keys() - spec.keys())
    if missing or extra:
        return ", ".join([f"{n} is missing" for n in missing] + [f"{n} is unknown" for n in extra])
    for name, wanted in spec.items():
        if not isinstance(message[name], (np.ndarray, np.generic)):
            return f"{name} is a {type(message[name]).__name__}, not an array"
        complaint = wanted.complaint(name, np.asarray(message[name]))
        if complaint:
            return complaint
    rules = (_unequal(message, spec), *(_excess(n, f, message) for n, f in spec.items()))
    return next(filter(None, rules), None)


def _unequal(message: Message, spec: Spec) -> str | None:
    """Say that two axes that must be of one length are not; None if they are."""
    lengths: dict[str, tuple[str, int]] = {}
    for name, wanted in spec.items():
        for word, length in zip(wanted.shape, np.shape(message[name]), strict=True):
            if isinstance(word, str):
                first, known = lengths.setdefault(word, (name, length))
                if known != length:
                    return f"{first} and {name} are of {known} and {length} {word}"
    return None


def _excess(name: str, wanted: Field, message: Message) -> str | None:
    """Say that an array holds values that its own message makes impossible; None if it does not."""
    array = np.asarray(message[name])
    if wanted.within is None or not array.size:
        return None
    # As Python numbers: the negative of an unsigned number, or of the least one, overflows.
    most = max(float(array.max()), -float(array.min()))
    slack = 1e-6 if array.dtype.kind == "f" else 0.0  # the rounding of a sum
    limit = float(message[wanted.within]) * wanted.times * (1 + slack) + wanted.beyond
    allowed = f"{wanted.within} + {wanted.beyond:.0f}" if wanted.beyond else wanted.within
    return f"{name} holds {most:g}, above {allowed}" if most > limit else None


def not_finite(message: Message) -> str | None:
    """Name the first array with NaN or infinity; None when all are finite.

    Parameters
    ----------
    message : name -> host array.

    Examples
    --------
    >>> not_finite({"weight": np.array([0.5, np.nan])})
    'weight holds 1 values that are not finite'
    """
    for name, array in message.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{name} holds {int((~np.isfinite(array)).sum())} values that are not finite"
    return None


def nbytes(message: Message) -> int:
    """Bytes of the arrays of a message.

    Examples
    --------
    >>> nbytes({"x": np.zeros(4, np.float32), "w": np.float64(1.0)})
    24
    """
    return sum(int(np.asarray(array).nbytes) for array in message.values())


def parameters(message: Message) -> int:
    """Numbers in a message, whatever their width.

    Examples
    --------
    >>> parameters({"rows": np.zeros((2, 3), np.int8), "weight": np.array(0.5)})
    7
    """
    return sum(int(np.asarray(array).size) for array in message.values())


def below(arrays: Mapping[str, np.ndarray], part: str) -> Message:
    """Return the arrays whose names begin with ``part/``, by the rest of their names.

    Parameters
    ----------
    arrays : a state or a message, by name.
    part : what stands before the stroke.

    Examples
    --------
    >>> list(below({"memory/patterns": np.ones(2), "secret": np.array(1)}, "memory"))
    ['patterns']
    """
    prefix = part + "/"
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def digest(message: Message) -> bytes:
    """16 bytes that tell a message from every other.

    Parameters
    ----------
    message : name -> host array.

    Examples
    --------
    >>> one, same, other = ({"rows": x} for x in (np.arange(3), np.arange(3), np.arange(3.0)))
    >>> digest(one) == digest(same), digest(one) == digest(other)
    (True, False)
    """
    h = hashlib.blake2b(digest_size=16)
    for name in sorted(message):
        array = np.ascontiguousarray(message[name])
        h.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        h.update(array.tobytes())
    return h.digest()


@dataclass
class Traffic:
    """Bytes and numbers that crossed the wire in one round, by client.

    Attributes
    ----------
    clients : their number L.
    up, down : (L,) bytes from and to each client.
    parameters_up, parameters_down : (L,) numbers in them.

    Examples
    --------
    >>> traffic = Traffic(clients=2)
    >>> traffic.sent(1, {"rows": np.zeros((2, 3), np.int8)})
    >>> traffic.up.tolist(), traffic.parameters_up.tolist()
    ([0, 6], [0, 6])
    """

    clients: int
    up: np.ndarray = field(init=False)
    down: np.ndarray = field(init=False)
    parameters_up: np.ndarray = field(init=False)
    parameters_down: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        for name in ("up", "down", "parameters_up", "parameters_down"):
            setattr(self, name, np.zeros(self.clients, dtype=np.int64))

    def sent(self, client: int, message: Message) -> None:
        """Count a message from `client` to the server."""
        arrays = [a if hasattr(a, "nbytes") else np.asarray(a) for a in message.values()]
        self.up[client] += sum(array.nbytes for array in arrays)
        self.parameters_up[client] += sum(array.size for array in arrays)

    def received(self, client: int, message: Message) -> None:
        """Count a message from the server to `client`."""
        arrays = [a if hasattr(a, "nbytes") else np.asarray(a) for a in message.values()]
        self.down[client] += sum(array.nbytes for array in arrays)
        self.parameters_down[client] += sum(array.size for array in arrays)

    def add(self, other: Traffic) -> None:
        """Count the `other` traffic between the same parties as well."""
        for name in ("up", "down", "parameters_up", "parameters_down"):
            getattr(self, name)[:] += getattr(other, name)
