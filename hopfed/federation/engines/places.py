"""Where the states of clients are: with the worker that made a client's last step.

Whoever drives a federation gets every state too, for the run file and for scores, so nothing is
lost with a worker. But a state need not go back to a worker that has it: a step names it by its
digest, and the worker takes it from what it holds. What a worker no longer has is sent to it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from hopfed.federation.contract import State
from hopfed.federation.engines import Call
from hopfed.federation.messages import as_message, digest

LEAST = 1 << 15  # bytes of a state that is worth naming; smaller ones travel with the step
MOST = 1 << 30  # bytes of states that a worker holds; what was made longest ago makes room


@dataclass(frozen=True)
class There:
    """Stands for a state that a worker holds.

    Attributes
    ----------
    client : whose it is.
    name : its digest.
    """

    client: int
    name: bytes


class HeldStates:
    """States that a worker holds, each until it is taken.

    Parameters
    ----------
    most : bytes to hold.
    """

    def __init__(self, most: int = MOST):
        self.most, self.nbytes = most, 0
        self._states: OrderedDict[tuple[str, int, bytes], State] = OrderedDict()
        self._alone = Lock()

    def put(self, worker: str, client: int, state: State) -> There | None:
        """Hold a state for a worker of this process; None where that is not worth while."""
        state = as_message(state)
        size = _bytes(state)
        if not LEAST <= size <= self.most:
            return None
        name = digest(state)
        with self._alone:
            self._drop((worker, client, name))
            self._states[worker, client, name] = state
            self.nbytes += size
            while self.nbytes > self.most:
                self._drop(next(iter(self._states)))
        return There(client, name)

    def take(self, worker: str, there: There) -> State | None:
        """Return a state, and hold it no longer: after the step there is another."""
        with self._alone:
            return self._drop((worker, there.client, there.name))

    def clear(self) -> None:
        """Hold nothing."""
        with self._alone:
            self._states.clear()
            self.nbytes = 0

    def _drop(self, key: tuple[str, int, bytes]) -> State | None:
        state = self._states.pop(key, None)
        self.nbytes -= 0 if state is None else _bytes(state)
        return state


class Places:
    """Who has the last state of which client, as seen by whoever drives a federation."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[str, There]] = {}

    def note(self, worker: str, there: There | None) -> None:
        """Note that a worker holds a state."""
        if there is not None:
            self._last[there.client] = worker, there

    def of(self, calls: Sequence[Call], room: Mapping[str, int]) -> str | None:
        """Worker with room that has most of the states of some calls, None where there is none."""
        sizes: Counter[str] = Counter()
        for call in calls:
            worker, _ = self._last.get(_client(call), ("", None))
            if room.get(worker, 0) > 0:
                sizes[worker] += 1
        return max(sizes, key=sizes.__getitem__, default=None)

    def named(self, call: Call, worker: str | None) -> State | There:
        """State of a call, or what stands for it at a worker."""
        where, there = self._last.get(_client(call), ("", None))
        if there is None or where != worker or digest(as_message(call.state)) != there.name:
            return call.state
        return there


def _client(call: Call) -> int:
    return -1 if call.context.client is None else call.context.client


def _bytes(state: State) -> int:
    return sum(np.asarray(array).nbytes for array in state.values())
