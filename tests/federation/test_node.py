"""A node keeps the states of its clients, answers a question made again alike, and keeps words."""

from dataclasses import dataclass

import numpy as np

from hopfed.federation.contract import Context
from hopfed.federation.faults import Fault
from hopfed.federation.machines.node import KeptStates, Node
from hopfed.federation.machines.wire import Request, read_reply, write_request
from hopfed.federation.recipes import describe


@dataclass(frozen=True)
class Counter:
    """Counts its steps."""

    def client_start(self, client, seed):
        return {"steps": np.array(0)}

    def client_step(self, state, down, context):
        steps = state["steps"] + 1
        return {"steps": steps}, {"steps": steps}, {}


def ask(node, t=0, base=b""):
    text, made_of = describe(Counter())
    request = Request("run", Context(0, t, 0, 1), base, text, made_of, {})
    return read_reply(node.written(write_request(request)))


def test_a_node_that_is_restarted_goes_on_and_a_question_made_again_gets_its_answer(tmp_path):
    """Even one from before the last answer, as of a server that was resumed."""
    names = [b""]
    for t in range(3):  # a new process each time
        names.append(ask(Node(KeptStates(tmp_path), trusted=None), t, names[-1]).state)
    node = Node(KeptStates(tmp_path), trusted=None)
    for t in (1, 2, 2):
        reply = ask(node, t, names[t])
        assert reply.state == names[t + 1]
        assert int(reply.up["steps"]) == t + 1


def test_states_of_long_ago_are_dropped_and_that_is_told_in_words(tmp_path):
    node, names = Node(KeptStates(tmp_path), trusted=None), [b""]
    for t in range(12):
        names.append(ask(node, t, names[-1]).state)
    assert len(list(tmp_path.rglob("*.state"))) == 8
    reply = ask(node, 1, names[1])
    assert reply.fault == Fault.RAISED
    assert "no longer has the state" in reply.reason


def test_a_node_keeps_the_words_of_errors_that_may_quote_its_examples():
    class Quoting(Counter):
        def client_step(self, state, down, context):
            raise ValueError("bad example 1 0 1 1")

    told = []
    watch = lambda _, reply: told.append(reply.reason)  # noqa: E731
    node = Node(KeptStates(), lambda *_: Quoting(), watch, trusted=None, private=True)
    assert ask(node).reason == "ValueError"
    assert told == ["ValueError: bad example 1 0 1 1"]
