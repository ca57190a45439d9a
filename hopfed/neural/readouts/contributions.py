"""Sums of clients as a server keeps them, with the list of members and what each one sent.

Operators of bits and class sums are integers. So the sums do not depend on the order in which
clients came, and a client that leaves can be subtracted: the result is, to the bit, what it would
be if that client had never taken part. This holds for counts, as factors and sketches are rounded,
and if nothing else depends on the client, see `hopfed.neural.readouts.public_bits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import State
from hopfed.federation.messages import Message, below

COUNTED = ("counts", "by_class", "classes", "examples")  # integers, which add up exactly
SENT = "sent/"  # before what each client gave


def added(state: State, messages: Mapping[int, Message], *, keep: bool = False) -> State:
    """Return `state` with the sums of further clients in it.

    What was computed from all sums, such as a setting that validation chose, is removed.

    Parameters
    ----------
    state : of a server: "counts", "by_class", "classes", "examples" are sums over "members".
    messages : sums of each new client, by client; "sketch" is added like these, "values" and
        "vectors" are concatenated.
    keep : store what each client gave, so that it can be subtracted.

    Raises
    ------
    ArgumentError : a client is in the sums already.

    Examples
    --------
    >>> one = {"counts": np.array([1, -1], np.int16), "examples": np.array(1)}
    >>> both = added(added({}, {4: one}), {2: one})
    >>> both["counts"].tolist(), both["members"].tolist()
    ([2, -2], [2, 4])
    """
    members = set(np.asarray(state.get("members", ())).tolist())
    twice = sorted(members & messages.keys())
    require(not twice, "client", "one that is not in the sums", twice)
    heard = [messages[c] for c in sorted(messages)]
    before = [state] if members else []
    sums = {name: _sum(name, [*before, *heard]) for name in (heard[0] if heard else ())}
    everyone = np.array(sorted(members | messages.keys()), dtype=np.int64)
    gave = {f"{SENT}{c}/{n}": a for c, m in messages.items() for n, a in m.items() if keep}
    kept = {name: array for name, array in state.items() if name != "choice"}
    return kept | gave | sums | {"members": everyone}


def forgotten(state: State, client: int) -> State:
    """Return `state` without a client: as if it had never taken part, to the bit.

    Parameters
    ----------
    state : of a server that keeps what each client gave.
    client : a member.

    Raises
    ------
    ArgumentError : the client is not in the sums, or what it gave was not kept, or is no counts.

    Examples
    --------
    >>> one, two = ({"counts": np.array([k, -k]), "examples": np.array(k)} for k in (1, 2))
    >>> both = added({}, {4: one, 2: two}, keep=True)
    >>> forgotten(both, 4)["counts"].tolist(), forgotten(both, 4)["members"].tolist()
    ([2, -2], [2])
    """
    members = np.asarray(state.get("members", ()), dtype=np.int64)
    require(client in members, "client", f"among {members.tolist()}", client)
    given = gave(state, client)
    rule = "one whose counts the server keeps (keep=True)"
    require("counts" in given, "client", rule, client)
    own = f"{SENT}{client}/"
    left = {n: a for n, a in state.items() if not n.startswith(own) and n != "choice"}
    rest = members[members != client]
    if not len(rest):
        return {n: a for n, a in left.items() if n not in {*given, "members"}}
    sums = {n: _narrow(n, np.asarray(state[n], np.int64) - a) for n, a in given.items()}
    return left | sums | {"members": rest}


def gave(state: State, client: int) -> Message:
    """What a client gave, as the server keeps it; empty if it does not."""
    return below(state, f"{SENT}{client}")


def broadcast(state: State) -> Message:
    """What of the state of the server clients may see: all but what each of them gave."""
    return {name: array for name, array in state.items() if not name.startswith(SENT)}


def _sum(name: str, messages: Iterable[Message]) -> np.ndarray:
    arrays = [np.asarray(message[name]) for message in messages]
    if name in COUNTED:
        return _narrow(name, np.asarray(np.sum(arrays, axis=0, dtype=np.int64)))
    if name == "sketch":
        return np.asarray(np.sum(arrays, axis=0, dtype=np.float64))
    return np.concatenate(arrays)


def _narrow(name: str, total: np.ndarray) -> np.ndarray:
    """Counts in as few bytes as hold them; the rest is few numbers."""
    if name != "counts":
        return np.asarray(total)
    most = int(np.abs(total).max(initial=0))
    fits = (kind for kind in (np.int16, np.int32) if most <= np.iinfo(kind).max)
    return total.astype(next(fits, np.int64))
