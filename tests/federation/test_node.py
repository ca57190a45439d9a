"""A node answers whatever is asked, keeps words that may quote rows, and says how it ended."""

import numpy as np
import pytest
from asking import ask
from rogue import question

from hopfed.errors import HopfedError, OtherColumnsError
from hopfed.federation.machines.client import Node


class Asked:
    """A client that raises an error, where there is one."""

    recipe = ""

    def __init__(self, error=None):
        self.error = error

    def client_start(self, client, seed):
        return {}

    def client_step(self, state, down, context):
        if self.error is not None:
            raise self.error
        return state, {}, {}


def asked(error=None):
    """A node, what it says, and the reason that a server gets."""
    said, client = [], Asked(error)
    node = Node(lambda *_: client, said.append)
    return node, said, ask(node, client).reason


def gone():
    raise HopfedError("the server is gone")


def test_a_node_keeps_the_words_of_errors_that_may_quote_its_examples():
    _, said, reason = asked(ValueError("bad example 1 0 1 1"))
    assert reason == "ValueError"
    assert said == ["round 0 exchange 0: not answered: bad example 1 0 1 1"]


def test_how_a_federation_ended():
    node, _, _ = asked()
    node.answer(question(last=True, down={"patterns": np.zeros((1, 1), np.uint8)}))
    assert node.through(gone)["patterns"].shape == (1, 1)
    node, _, _ = asked(HopfedError("too few rows"))
    with pytest.raises(HopfedError, match="is gone; its last question was not answered: too few"):
        node.through(gone)
    node, _, _ = asked()
    node.answer(question(last=True, down={"stopped": np.ones(())}))
    with pytest.raises(HopfedError, match="ended the federation without a result"):
        node.through(lambda: None)


def test_a_client_of_other_columns_ends_and_says_why_to_its_owner_alone():
    node, _, reason = asked(OtherColumnsError("lacks 'tea'"))
    assert "tea" not in reason
    with pytest.raises(HopfedError, match="tea"):
        node.through(gone)
