"""A node answers whatever is asked, keeps words that may quote rows, and says how it ended."""

from dataclasses import dataclass

import numpy as np
import pytest
from asking import ask

from hopfed.errors import HopfedError, OtherColumnsError
from hopfed.federation.contract import Context
from hopfed.federation.machines.client import Node
from hopfed.federation.machines.wire import Request, read_reply, write_request


@dataclass(frozen=True)
class Counter:
    """Counts its steps."""

    recipe = ""

    def client_start(self, client, seed):
        return {"steps": np.array(0)}

    def client_step(self, state, down, context):
        steps = state["steps"] + 1
        return {"steps": steps}, {"steps": steps}, {}


def counting(made=None):
    said = []
    node = Node(lambda *_: made or Counter(), lambda *words: said.append(words[0]))
    return node, said


def last(**down):
    return write_request(Request(Context(0, 0, 0, 1), "", {}, down, last=True))


def gone():
    raise HopfedError("the server is gone")


def test_a_node_keeps_the_words_of_errors_that_may_quote_its_examples():
    class Quoting(Counter):
        def client_step(self, state, down, context):
            raise ValueError("bad example 1 0 1 1")

    node, said = counting(Quoting())
    assert ask(node, Counter()).reason == "ValueError"
    assert said == ["round 0 exchange 0: not answered: bad example 1 0 1 1"]


def test_a_server_that_is_gone_after_its_last_word_takes_nothing_with_it():
    node, _ = counting()
    node.written(last(patterns=np.zeros((1, 1), np.uint8)))
    assert node.finished.is_set()
    assert node.through(gone).down["patterns"].shape == (1, 1)


def test_without_a_last_word_the_last_refusal_is_said():
    class Few(Counter):
        def client_step(self, state, down, context):
            raise HopfedError("too few rows")

    node, _ = counting(Few())
    ask(node, Counter())
    with pytest.raises(HopfedError, match="is gone; its last question was not answered: too few"):
        node.through(gone)


def test_an_end_without_a_result_is_said():
    node, _ = counting()
    assert not read_reply(node.written(last(stopped=np.ones(())))).fault
    with pytest.raises(HopfedError, match="ended the federation without a result"):
        node.through(lambda: None)


def test_a_client_of_other_columns_ends_and_says_why_to_its_owner_alone():
    class Other(Counter):
        def client_step(self, state, down, context):
            raise OtherColumnsError("lacks 'tea'")

    node, _ = counting(Other())
    assert "tea" not in ask(node, Counter()).reason
    assert node.finished.is_set()
    with pytest.raises(OtherColumnsError, match="tea"):
        node.through(gone)
