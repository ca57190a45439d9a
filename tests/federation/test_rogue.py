"""A malicious server, over TLS on loopback: a client says a line, waits, and stays what it was."""

import os
import threading
import time

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from machines import Machines
from rogue import Raw, Rogue, bomb, message, offer, packed, request, zipped

from hopfed.errors import HopfedError
from hopfed.federation.engines.flower import client as client_module
from hopfed.federation.engines.flower import fleet_client
from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.machines.kept_states import KeptStates
from hopfed.federation.machines.keys import make_keys, private_key
from hopfed.federation.machines.node import Node
from hopfed.hopfield.allowed import ALLOWED
from hopfed.hopfield.client import unpack_patterns

ESC = "\x1b]0;owned\x07\x1b[2J"


def http(line, *headers, body=b""):
    return Raw(("\r\n".join([line, *headers]) + "\r\n\r\n").encode("latin1") + body)


def tree(depth):
    made = ObjectTree(object_id="0" * 64)
    for _ in range(depth):
        made = ObjectTree(object_id="0" * 64, children=[made])
    return made


def redirected(server):
    where = f"http://127.0.0.1:{server.elsewhere.getsockname()[1]}/"
    return 307, {"location": where}, b""


def lost(server):
    """A message whose parts are not there."""
    return offer(made := request(), ObjectTree(object_id=made.object_id))


def truncated(server):
    """A message half of whose bytes are missing."""
    answer = server.offered(request(down={"w": np.ones(1000)}))
    server.objects |= {
        name: content[: len(content) // 2] for name, content in server.objects.items()
    }
    return answer


def unanswered(server):
    """A part that is answered with an error."""
    answer = server.offered(made := request())
    server.objects[made.object_id] = (500, {}, b"")
    return answer


def unavailable(server):
    """A part that is always still on its way."""
    answer = server.offered(made := request())
    server.objects[made.object_id] = b""
    return answer


def foreign(server):
    return message(RecordDict({"call": ConfigRecord({"x": 1}), "arrays": ArrayRecord()}))


def elsewhere(run):
    return lambda server: request(run=run)


RUNS = ["..", ".", "a/../..", "../../../etc/cron.d/x", "/tmp/x", "x" * 5000, "a\0b", ESC, "\u202e"]

TRICKS = {
    "no http": http("nonsense"),
    "no status": http("HTTP/1.1 \x1b[2J 99999"),
    "closed at once": Raw(b""),
    "half an answer": http("HTTP/1.1 200 OK", "content-length: 5000", body=b"half"),
    "headers without end": Raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 60_000),
    "an error": (500, {}, b"broken"),
    "an error in colour": http(f"HTTP/1.1 500 {ESC}", "content-length: 0"),
    "no such thing": (404, {}, b""),
    "a redirection": redirected,
    "no protobuf": (200, {}, b"\xff" * 100),
    "another protobuf": (200, {}, b"\x0a\x05hello"),
    "an answer without end": (200, {}, bytes(fleet_client.PIECE + 10**6)),
    "a small answer that becomes large": lambda server: zipped(10**8),
    "cookies": (200, {"set-cookie": "a=" + "x" * 3000}, b""),
    "a message without parts": lambda server: offer(request(), None),
    "parts without end": lambda server: offer(
        request(), ObjectTree(children=[ObjectTree(object_id=f"{i:064x}") for i in range(5000)])
    ),
    "parts below parts": lambda server: offer(request(), tree(90)),
    "parts that are lost": lost,
    "parts that are cut": truncated,
    "parts that fail": unanswered,
    "parts that never come": unavailable,
    "a piece a million times": bomb,
    "another kind of message": lambda server: message(RecordDict(), kind="train"),
    "a kind that nobody knows": lambda server: message(RecordDict(), kind=ESC),
    "a message of nothing": lambda server: message(RecordDict()),
    "records of somebody else": foreign,
    "a superscript seed": lambda server: request(seed="\u00b2"),
    "a seed of ten thousand digits": lambda server: request(seed="1" * 10**4),
    "a client of another world": lambda server: request(client=-(2**62)),
    "a round without end": lambda server: request(round=2**62),
    "a recipe that is none": lambda server: request(recipe="[" * 10**5),
    "a recipe in colour": lambda server: request(recipe=f'["made", "os:{ESC}", {{}}]'),
    "a recipe that runs": lambda server: request(recipe='["made", "os:system", {"command": "x"}]'),
    "an array of an exabyte": lambda server: packed([["w", "<f8", [2**57]]]),
    "an array of objects": lambda server: packed([["w", "|O", [1]]], bytes(8)),
    "arrays without end": lambda server: packed([[f"{i}", "|u1", [0]] for i in range(10**5)]),
    "a header of a word": lambda server: packed("w"),
    "an unknown state": lambda server: request(base=b"x" * 16),
    "a last word that is none": lambda server: request(last=True, down={"patterns": np.ones(3)}),
    "a last word of text": lambda server: request(last=True, down={"patterns": np.array(b"x")}),
    "a last word in another shape": lambda server: request(
        last=True, down={"patterns": np.zeros((3, 99), np.uint8)}
    ),
    "a last word for a run outside": lambda server: request(run="..", last=True),
}
TRICKS |= {f"a run called {run[:20]!r}": elsewhere(run) for run in RUNS}


def goodbye(server):
    return request(last=True, down={"patterns": np.zeros((2, 2), np.uint8)})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    make_keys(folder := tmp_path_factory.mktemp("keys"), 1, ["127.0.0.1"])
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FETCH", 0.2)


def client(keys, folder, server, said, patience=20.0):
    """A client that ends with a last word that it can use, as `hopfed join` does."""
    folder.mkdir(exist_ok=True)
    node = Node(KeptStates(folder / "states"), trusted=ALLOWED, private=True)
    pair = private_key(keys / "client-0.key")
    authority = (keys / "ca.pem").read_bytes()
    made = ClientProcess(server.address, authority, pair, node, folder, patience, said.append)

    def watch(request, reply):
        if request.last:
            made.found = unpack_patterns(request.down["patterns"], 16)
            made.finished.set()
        elif reply.fault:
            said.append(reply.reason)

    node.watch = watch
    return made


@pytest.mark.parametrize("trick", TRICKS)
def test_whatever_a_server_does_the_client_goes_on(keys, tmp_path, trick, capfd):
    import socket

    said, folder = [], tmp_path / "client"
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.0)
        with Rogue(keys, [TRICKS[trick], goodbye]) as server:
            server.elsewhere = other
            mine = client(keys, folder, server, said)
            began = time.monotonic()
            mine.run()
            assert time.monotonic() - began < 15.0
        with pytest.raises(BlockingIOError):
            other.accept()  # nobody was led away
    assert all(line.isprintable() and len(line) < 400 for line in said), said
    assert len(said) < 8
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out
    assert {p.name for p in tmp_path.iterdir()} == {"client"}
    assert {p.name for p in folder.iterdir()} <= {"lock", "node", "states"}


def test_a_client_gives_up_on_a_server_that_makes_no_sense(keys, tmp_path):
    said = []
    with Rogue(keys, [(200, {}, b"\xff" * 50)] * 100) as server:
        mine = client(keys, tmp_path / "client", server, said, patience=1.0)
        with pytest.raises(HopfedError, match=r"makes no sense .*, for") as error:
            mine.run()
    assert str(error.value).isprintable()
    assert len(said) <= 3, "once, however often"


def test_heartbeats_that_are_none_end_no_thread(keys, tmp_path, monkeypatch):
    monkeypatch.setattr(client_module, "HEARTBEAT_DEFAULT_INTERVAL", 0.3)
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    class Garbling(Rogue):
        def answer(self, step, body):
            answer = super().answer(step, body)
            return (200, {}, b"\xff" * 9) if step == "send-node-heartbeat" else answer

    with Garbling(keys, [(200, {}, b"")] * 10 + [goodbye]) as server:
        client(keys, tmp_path / "client", server, []).run()
        assert server.asked.count("send-node-heartbeat") > 1
    assert not failed


@pytest.mark.parametrize("before", ["", "no number", "-1", "9" * 99, "\u00b2", "5"])
def test_a_damaged_memory_of_the_last_node_is_no_memory(keys, tmp_path, before):
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "node").write_text(before)
    with Rogue(keys, [goodbye]) as server:
        client(keys, tmp_path / "client", server, []).run()
        assert (server.asked[0] == "deactivate-node") == (before == "5")
    assert (tmp_path / "client" / "node").read_text() == "7"


@pytest.mark.slow
def test_hopfed_join_bears_them_all(tmp_path):
    """One process, one server, every trick; it ends as told, with nothing beside its folder."""
    with Machines(tmp_path, clients=1) as machines:
        before = set(os.listdir(tmp_path))
        slow = {"parts that never come", "a small answer that becomes large"}
        last = {name for name in TRICKS if name.startswith("a last word")}
        tricks = [TRICKS[name] for name in TRICKS if name not in slow | last]
        end = request(last=True, down={"patterns": np.zeros((2, 15), np.uint8)})
        with Rogue(tmp_path / "keys", [*tricks, end]) as server:
            import socket

            server.elsewhere = socket.create_server(("127.0.0.1", 0))
            machines.port = server.server_port
            machines.join(0)
            assert machines.end("client-0") == 0, machines.log("client-0")
            server.elsewhere.close()
        log = machines.log("client-0")
        assert "the federation is over: 2 archetypes" in log
        assert "Traceback" not in log
        assert "\x1b" not in log
        assert set(os.listdir(tmp_path)) - before == {"client-0.log", "home-client-0"}
