"""A malicious server, also one without end: a client says a line, waits, stays what it was."""

import resource
import threading
import time

import grpc
import numpy as np
import pytest
from rogue import Rogue, leave, question

from hopfed.errors import DataError, HopfedError
from hopfed.federation.contract import Outcome
from hopfed.federation.machines import client as client_module
from hopfed.federation.machines.client import MOST, ClientProcess, Node
from hopfed.federation.machines.keys import make_keys, own_key
from hopfed.federation.machines.wire import WELCOME
from hopfed.hopfield.announcement import read
from hopfed.hopfield.clients import client_of

TRICKS = {
    "nothing": b"",
    "too much": bytes(2 * 10**6),
    "an end with colours": grpc.StatusCode.INTERNAL,
    "no such thing": grpc.StatusCode.UNIMPLEMENTED,
    "noise": b"\xff" * 100,
    "a recipe in colour": question(recipe='["\x1b]0;owned\x07\x1b[2J", {}]'),
}
GOODBYE = question(last=True, down={"patterns": np.zeros((2, 2), np.uint8)})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    make_keys(folder := tmp_path_factory.mktemp("keys"), 1, ["127.0.0.1"])
    return folder


def client(keys, server, node, patience=20.0):
    own, authority = own_key(keys / "client-0.key", "--key"), (keys / "ca.pem").read_bytes()
    return ClientProcess(server.address, authority, own, node, patience)


def reading(said):
    """A node that reads recipes."""
    return Node(lambda text, _: client_of(text), said.append)


@pytest.mark.parametrize("trick", TRICKS)
def test_whatever_a_server_does_the_client_goes_on(keys, tmp_path, trick, capfd, monkeypatch):
    said = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client_module, "LIMIT", 10**6)
    with Rogue(keys, [TRICKS[trick], GOODBYE]) as server:
        client(keys, server, reading(said)).run()
    assert all(line.isprintable() and len(line) < 400 for line in said), said
    assert len(said) < 8
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out
    assert not list(tmp_path.iterdir())


def test_a_client_gives_up_on_a_server_that_makes_no_sense(keys):
    said, began = [], time.monotonic()
    with Rogue(keys, [grpc.StatusCode.INTERNAL] * 1000) as server:  # noqa: SIM117
        with pytest.raises(HopfedError, match="gone, for"):
            client(keys, server, reading(said), patience=1.0).run()
    assert time.monotonic() - began < 60
    assert len(said) <= 3, "once, however often"


def test_answers_that_a_server_does_not_read_do_not_heap_up(keys):
    class Storm(Rogue):
        def session(self, answers, context):
            context.send_initial_metadata((WELCOME,))
            while True:
                yield b"a question"

    class Large(Node):
        def answer(self, data):
            asked.append(data)
            return Outcome(message={"w": np.zeros(10**6, np.uint8)})

    asked = []
    with Storm(keys, []) as server:
        mine = client(keys, server, Large(print))
        thread = threading.Thread(target=mine.run, daemon=True)
        thread.start()
        time.sleep(2)
        leave(mine)
        thread.join(20)
    assert not thread.is_alive()
    assert 0 < len(asked) < 50


def test_a_server_that_asks_without_end_fills_no_log():
    said = []
    node = reading(said)
    for t in range(100):
        node.tell(f"round {t}: not answered: rows are few", "rows are few")
    assert said == ["round 0: not answered: rows are few"]
    for t in range(2 * MOST):
        node.tell(f"a request that is none: {t}")
    assert len(said) == MOST
    assert said[-1].endswith("no more follow")


def test_a_last_word_without_end_fills_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="too many"):
        read({"patterns": np.zeros((2_000_000, 98), np.uint8)}, 784)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
