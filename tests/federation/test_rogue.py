"""A malicious server, also one without end: a client says a line, waits, stays what it was."""

import resource
import threading
import time
from unittest.mock import Mock

import grpc
import numpy as np
import pytest
from asking import ask
from rogue import Rogue, client, leave, question

from hopfed.errors import DataError, HopfedError, OtherColumnsError
from hopfed.federation.contract import Outcome
from hopfed.federation.machines import client as client_module
from hopfed.federation.machines.client import MOST, Node
from hopfed.federation.machines.wire import WELCOME
from hopfed.hopfield.announcement import read
from hopfed.hopfield.clients import client_of

TRICKS = [
    *(b"", bytes(2 * 10**6), b"\xff" * 100, question(recipe='["\x1b]0;owned\x07\x1b[2J", {}]')),
    *(grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED),
]
GOODBYE = question(last=True, down={"patterns": np.zeros((2, 2), np.uint8)})


def reading(said):
    """A node that reads recipes."""
    return Node(lambda text, _: client_of(text), said.append)


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: repr(trick)[:20])
def test_whatever_a_server_does_the_client_goes_on(keys, tmp_path, trick, capfd, monkeypatch):
    said = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client_module, "LIMIT", 10**6)
    with Rogue(keys, [trick, GOODBYE]) as server:
        client(keys, server.address, reading(said)).run()
    assert all(line.isprintable() and len(line) < 400 for line in said), said
    assert len(said) < 8
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out
    assert not list(tmp_path.iterdir())


def test_a_client_gives_up_on_a_server_that_makes_no_sense(keys):
    said, began = [], time.monotonic()
    with Rogue(keys, [grpc.StatusCode.INTERNAL] * 1000) as server:  # noqa: SIM117
        with pytest.raises(HopfedError, match="gone, for"):
            client(keys, server.address, reading(said), patience=1.0).run()
    assert time.monotonic() - began < 60
    assert len(said) <= 3, "once, however often"


class Storm(Rogue):
    """Asks without end, and reads no answer."""

    def session(self, answers, context):
        context.send_initial_metadata((WELCOME,))
        while True:
            yield b"a question"


def test_answers_that_a_server_does_not_read_do_not_heap_up(keys, monkeypatch):
    asked, large = [], Outcome(message={"w": np.zeros(10**6, np.uint8)})
    monkeypatch.setattr(Node, "answer", lambda *_: asked.append(1) or large)
    with Storm(keys, []) as server:
        mine = client(keys, server.address, Node(None))
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        time.sleep(2)
        leave(mine)
        thread.join(20)
    assert not thread.is_alive()
    assert 1 < len(asked) < 50


def test_a_server_that_asks_without_end_fills_no_log():
    said = []
    node = reading(said)
    for t in range(2 * MOST):
        node.tell("rows are few" if t < 100 else f"a request that is none: {t}")
    assert said[1].endswith("none: 100")
    assert len(said) == MOST
    assert said[-1].endswith("no more follow")


def test_a_last_word_without_end_fills_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too many"):
        read({"patterns": np.zeros((2_000_000, 98), np.uint8)}, 784)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


class Asked:
    """A client that raises an error."""

    recipe = ""

    def __init__(self, error):
        self.error = error

    def client_start(self, client, seed):
        raise self.error


@pytest.mark.parametrize(
    ("error", "last", "reason", "ended"),
    [
        (ValueError("bad example 1 0"), {"patterns": np.zeros(1)}, "ValueError", ""),
        (HopfedError("few rows"), None, "few rows", "enough; its last .* not answered: few rows"),
        (HopfedError("few rows"), {"stopped": np.ones(())}, "few rows", "without a result"),
        (OtherColumnsError("lacks 'tea'"), None, "its owner was told which", "tea"),
    ],
)
def test_how_a_federation_ends_and_what_a_server_learns_of_it(error, last, reason, ended):
    """Words that may quote rows stay here."""
    node, over = Node(lambda *_: Asked(error)), Mock(side_effect=HopfedError("enough"))
    said = ask(node, Asked(error)).reason
    assert reason in said
    assert not {"tea", "example"} & set(said.split())
    if last:
        node.answer(question(last=True, down=last))
    if not ended:
        assert node.through(over).keys() == last.keys()
        return
    with pytest.raises(HopfedError, match=ended):
        node.through(over)
