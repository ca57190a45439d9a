"""The engine itself: the steps of an exchange as messages through a Flower grid.

A state never travels. The engine knows it by name (`hopfed.federation.engines.flower.node`): in a
simulation it looks the state up among those that all nodes share; across machines the federation
holds the name in its place, and so does the run file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from flwr.app import Message as FlowerMessage
from flwr.common.constant import ErrorCode
from flwr.serverapp.grid import Grid

from hopfed.errors import ArgumentError, DataError, shown
from hopfed.federation.contract import Method, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.wire import Reply, Request, read_reply, write_request
from hopfed.federation.faults import REASON, Fault
from hopfed.federation.messages import Message
from hopfed.federation.recipes import describe

Late = Callable[[], list[FlowerMessage]]  # messages to those who came in since the last call

HELD = "held"  # the entry of a state that is elsewhere: its name
GRACE = 10.0  # seconds in which a client that is not there may still join an exchange
PAUSE = 0.2  # seconds before a new attempt
UNREADABLE = 1000  # code of a Flower error of ours: what a client sent was not taken

_AGAIN = (  # errors of Flower after which the same request may still be answered
    ErrorCode.NODE_UNAVAILABLE,
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
)


class FlowerEngine:
    """Steps behind a Flower grid.

    Parameters
    ----------
    grid : what carries the messages.
    node : client -> id of its Flower node, None while there is none.
    run : name of the federation, under which nodes keep their states.
    kept : states of the nodes, where they are in this process; None where they are elsewhere.
    timeout : seconds an exchange may take; who has not answered by then has timed out. None waits
        for ever.
    again : seconds after which an unanswered request is sent again, to a node that may have been
        restarted; None sends it once. A node answers the same request alike.

    Attributes
    ----------
    columns : what is said of the names of columns with every request; nothing at first.
    """

    def __init__(
        self,
        grid: Grid,
        node: Callable[[int], int | None],
        run: str,
        kept: KeptStates | None = None,
        timeout: float | None = None,
        again: float | None = None,
    ):
        for name, seconds in (("timeout", timeout), ("again", again)):
            if seconds is not None and seconds <= 0:
                raise ArgumentError(name, "above 0 seconds", seconds)
        self.grid, self.node, self.run, self.kept = grid, node, run, kept
        self.timeout, self.again = timeout, again
        self.columns: Message = {}
        self._described: tuple[Method, tuple[str, dict[str, np.ndarray]]] | None = None

    def step(self, method: Method, calls: Sequence[Call]) -> list[Outcome]:
        """Outcomes in the order of `calls`."""
        requests = [self._request(method, call) for call in calls]
        replies = self._exchange(requests)
        outcomes = [self._outcome(r, reply) for r, reply in zip(requests, replies, strict=True)]
        if self.kept is not None:
            self.kept.clear()
        return outcomes

    def tell(self, method: Method, calls: Sequence[Call], timeout: float) -> None:
        """Send the last word of a federation to the clients that still listen."""
        requests = [replace(self._request(method, call), last=True) for call in calls]
        nodes = {r.context.client: self.node(_client(r)) for r in requests}
        heard = [self._message(r, n) for r in requests if (n := nodes[r.context.client])]
        if heard:
            list(self.grid.send_and_receive(heard, timeout=timeout))

    def _request(self, method: Method, call: Call) -> Request:
        if self._described is None or self._described[0] is not method:
            self._described = method, describe(method)
        text, parts = self._described[1]
        context = call.context
        base = b"" if HELD not in call.state else np.asarray(call.state[HELD]).tobytes()
        request = Request(self.run, context, base, text, parts, call.down, columns=self.columns)
        if self.kept is not None:
            step = context.round, context.exchange
            name = self.kept.put(self.run, _client(request), *step, call.state)
            return replace(request, base=name)
        return request

    def _exchange(self, requests: list[Request]) -> list[Reply]:
        """Replies to all requests; one that does not come in time is a fault."""
        began = time.monotonic()
        found: dict[int, Reply] = {}
        why = dict.fromkeys(range(len(requests)), "it is not there")
        while waiting := [i for i in range(len(requests)) if i not in found]:
            spent = time.monotonic() - began
            left = None if self.timeout is None else self.timeout - spent
            if left is not None and left <= 0:
                break
            if spent > GRACE and not any(self.node(_client(requests[i])) for i in waiting):
                break
            sent = self._send([(i, requests[i]) for i in waiting], _least(left, self.again))
            found |= {i: reply for i, reply in sent.items() if isinstance(reply, Reply)}
            why |= {i: reply for i, reply in sent.items() if isinstance(reply, str)}
            if not any(isinstance(reply, Reply) for reply in sent.values()):
                time.sleep(PAUSE)
        words = f"no answer in {time.monotonic() - began:.1f} s"
        return [
            found.get(i, Reply(fault=Fault.TIMED_OUT, reason=f"{words}: {why[i]}"))
            for i in range(len(requests))
        ]

    def _send(
        self, requests: list[tuple[int, Request]], timeout: float | None
    ) -> dict[int, Reply | str]:
        """Send requests once, to everyone who is there: replies, or why there is none."""
        sent: dict[int, int] = {}
        answers: dict[int, Reply | str] = {}

        def unsent() -> list[FlowerMessage]:
            """Messages to those who are there, and were not asked, or went before they answered."""
            found = []
            for i, request in requests:
                node = None if i in sent.values() else self.node(_client(request))
                if node is not None:
                    sent[node] = i
                    answers[i] = "it is silent"
                    found.append(self._message(request, node))
            return found

        messages = unsent()
        for message in self._carried(messages, unsent, timeout) if messages else ():
            node = message.metadata.src_node_id
            if node in sent:
                answers[sent[node]] = answer = _read(message)
                if isinstance(answer, str):
                    del sent[node]
        return answers

    def _carried(
        self,
        messages: list[FlowerMessage],
        late: Late,  # noqa: ARG002
        timeout: float | None,
    ) -> Iterable[FlowerMessage]:
        """Answers to messages; where `late` can be asked, also to those whom it names meanwhile."""
        answers: Iterable[FlowerMessage] = self.grid.send_and_receive(messages, timeout=timeout)
        return answers

    def _message(self, request: Request, node: int) -> FlowerMessage:
        group = f"{request.context.round}.{request.context.exchange}"
        return FlowerMessage(write_request(request), node, "query", group_id=group)

    def _outcome(self, request: Request, reply: Reply) -> Outcome:
        if reply.fault != Fault.NONE:
            return Outcome(fault=reply.fault, reason=reply.reason)
        state: State = {HELD: np.frombuffer(reply.state, dtype=np.uint8)}
        if self.kept is not None:
            state = self.kept.get(self.run, _client(request), reply.state)
        return Outcome(state, reply.up, reply.metrics)


def _read(message: FlowerMessage) -> Reply | str:
    """Read an answer; a fault where it is not one, and words where another may still come."""
    if message.has_error():
        words = shown(message.error.reason or "no reason given", REASON)
        if message.error.code in _AGAIN:
            return words
        fault = Fault.MALFORMED if message.error.code == UNREADABLE else Fault.RAISED
        return Reply(fault=fault, reason=words)
    try:
        return read_reply(message.content)
    except DataError as error:
        return Reply(fault=Fault.MALFORMED, reason=shown(error, REASON))


def _client(request: Request) -> int:
    return -1 if request.context.client is None else request.context.client


def _least(*seconds: float | None) -> float | None:
    return min((s for s in seconds if s is not None), default=None)
