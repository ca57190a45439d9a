"""What a client claims about its own size, and how much of it the server believes.

The number of examples is a client's weight in the pool and the yardstick of its votes, and nobody
can check it. Believed without bound, one client outweighs all others with a number. So nobody
counts for more than a multiple of the round's median, the lower one where their number is even: of
two clients, the one that claims more does not choose the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, TypeVar

import numpy as np

from hopfed.federation.messages import Message

MOST_LIARS = 0.4999  # share of the clients
Wary = TypeVar("Wary", bound=Any)  # a method with a setting `liars`

SUMS = ("counts", "columns")  # arrays of a message that grow with the examples


def bounded(messages: Mapping[int, Message], most: float) -> dict[int, Message]:
    """Messages in which nobody claims more than `most` times the median number of examples.

    The sums of one who does are scaled to the number it is given: its operator says the same, as
    of fewer examples.
    """
    limit = median_bound([float(m["examples"]) for m in messages.values()], most)
    return {c: _scaled(m, limit) for c, m in messages.items()}


def median_bound(claims: Sequence[float], most: float) -> float:
    """Return `most` times the lower median of the claims; 0 of none."""
    return most * sorted(claims)[(len(claims) - 1) // 2] if claims else 0.0


def suspects(liars: float, heard: int) -> int:
    """Clients of so many `heard` whose word alone is not enough; one is always believed."""
    return max(min(ceil(liars * heard - 1e-9), heard - 1), 0)


def wary(method: Wary, heard: int, asked: int) -> Wary:
    """Return a method for which all that may lie of those `asked` are among those `heard`.

    Who lies is never late: counted from those heard, liars would be more than are reckoned with
    as soon as others are missing. It stays below one half, where nobody can know who lies.
    """
    if not 0 < heard < asked or method.liars == 0:
        return method
    share = min(suspects(method.liars, asked) / heard, MOST_LIARS)
    return replace(method, liars=max(method.liars, share))


def _scaled(message: Message, limit: float) -> Message:
    claim = float(message["examples"])
    if claim <= limit:
        return message
    sums = {k: message[k] * (limit / claim) for k in SUMS if k in message}
    return {**message, **sums, "examples": np.asarray(limit)}
