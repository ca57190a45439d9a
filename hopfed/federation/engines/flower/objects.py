"""What came as Flower objects, checked before it is put together.

Flower takes a message apart into objects that name one another by the digest of what is in them,
and puts it together as they say. Here is looked first whether that is one message, of the parts
that a message has, and how large it would become: an array may name the same piece a million times.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flwr.app import Message as FlowerMessage
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflatable_class_registry,
    inflate_object_from_contents,
)

from hopfed.errors import DataError

OBJECTS = 1000  # of one message; arrays are in pieces of megabytes

# What may be at each depth below a message.
_KINDS = (
    ("Message",),
    ("RecordDict",),
    ("ArrayRecord", "ConfigRecord", "MetricRecord"),
    ("Array",),
    ("ArrayChunk",),
)

Contents = Callable[[str], bytes | None]  # name -> content, empty while it is on its way


def assembled(name: str, contents: Contents, limit: int) -> FlowerMessage | None:
    """Return the message called `name`; None while parts of it are missing.

    Parameters
    ----------
    limit : bytes that it may have.

    Raises
    ------
    DataError : it is no message, or too large.
    """
    try:
        parts = _gathered(name, contents, limit)
        if parts is None:
            return None
        message: Any = inflate_object_from_contents(name, parts)
    except DataError:
        raise
    except Exception as error:  # whatever was sent
        raise DataError(f"not a Flower message: {type(error).__name__}") from None
    message.metadata.__dict__["_message_id"] = name
    found: FlowerMessage = message
    return found


def check_tree(tree: Any) -> None:
    """Refuse a list of the objects of a message that no message has.

    Parameters
    ----------
    tree : of names, as Flower sends it before the objects.

    Raises
    ------
    ValueError : it is deeper than a message, or has more parts.
    """
    level, parts = [tree], 0
    for _ in _KINDS:
        parts += len(level)
        level = [child for each in level for child in each.children]
        if parts + len(level) > OBJECTS:
            raise ValueError(f"a message of more than {OBJECTS} parts")
    if level:
        raise ValueError(f"a message of parts more than {len(_KINDS)} deep")


def _gathered(name: str, contents: Contents, limit: int) -> dict[str, bytes] | None:
    """Contents of an object and of all below it, each of a kind that may be where it is."""
    parts: dict[str, bytes] = {}
    level, size, whole = [name], 0, True
    for kinds in _KINDS:
        below: dict[str, None] = {}
        for each in level:
            content = contents(each)
            if content is None:
                raise DataError("a message that names what was not sent")
            if not content:
                whole = False
                continue
            kind, children, _ = get_object_head_values_from_object_content(content)
            if kind not in kinds:
                raise DataError("a message of other parts than a message has")
            parts[each] = content
            below |= dict.fromkeys(children)
            size += len(content)
            if kind == "Array" and whole:
                size += _repeated(content, children, contents)
            if size > limit or len(parts) + len(below) > OBJECTS:
                raise DataError(f"a message of more than {limit / 1e6:g} MB or {OBJECTS} parts")
        level = list(below)
    if level:
        raise DataError("a message of other parts than a message has")
    return parts if whole else None


def _repeated(content: bytes, children: list[str], contents: Contents) -> int:
    """Bytes of an array that come from pieces it names more than once."""
    kind = inflatable_class_registry["Array"]
    order = json.loads(get_object_body(content, kind))["arraychunk_ids"]
    sizes = [len(contents(child) or b"") for child in children]
    return int(sum(sizes[i] for i in order) - sum(sizes))
