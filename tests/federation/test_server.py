"""The door of `hopfed serve`: which clients come in, how much they may send, and how long."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

import grpc
import numpy as np
import pytest
from rogue import client, leave

from hopfed.errors import ArgumentError
from hopfed.experiments.serve import Config
from hopfed.federation.contract import Call, Context, Fault, Outcome
from hopfed.federation.machines import server as server_module
from hopfed.federation.machines.client import Node
from hopfed.federation.machines.keys import make_keys, own_key
from hopfed.federation.machines.server import Server
from hopfed.federation.machines.wire import OPTIONS, SERVICE, SESSION, write_reply

LINES = []  # of a server's log
LIMIT, CALL = 10**5, f"/{SERVICE}/{SESSION}"
CALLS = [Call({}, {}, Context(0, 0, 0, c)) for c in range(3)]


class Answer:
    """Every client answers a thousand numbers."""

    recipe = ""
    client_start = staticmethod(lambda client, seed: {})

    def client_step(self, state, down, context):
        return state, {"w": np.full(1000, float(context.client))}, {}


@pytest.fixture
def server(keys, monkeypatch):
    monkeypatch.setattr(server_module, "GRACE", 1.0)
    with Server("127.0.0.1:0", keys, 3, LINES.append, 30.0, limit=LIMIT) as listens:
        yield listens
    LINES.clear()


@contextmanager
def joined(keys, server, c):
    """A client that answers, in a thread; and what it says."""
    lines = []
    node = Node(lambda *_: Answer(), lines.append)
    made = client(keys, f"127.0.0.1:{server.port}", node, c)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        leave(made)
        thread.join(20)


@contextmanager
def stream(keys, server, c, *up, authority=None):
    """A client that sends these messages, and is silent then."""
    over = threading.Event()

    def sent():
        yield from up
        over.wait(30)

    certificate, key = own_key((authority or keys) / f"client-{c}.key", "--key")
    trust = (keys / "ca.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(trust, key, certificate)
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, OPTIONS) as channel:
        call = channel.stream_stream(CALL)(sent(), timeout=60)  # which ends where nobody holds it
        yield call
        over.set()


def answers(engine, *clients):
    return dict(zip(clients, engine.step(Answer(), [CALLS[c] for c in clients]), strict=True))


def test_a_stranger_ends_in_the_handshake_before_a_byte_is_read(keys, server, tmp_path):
    make_keys(tmp_path, 1, ["127.0.0.1"])
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as plain, pytest.raises(grpc.RpcError):
        next(plain.stream_stream(CALL)(iter([b"x"]), timeout=10))
    for c, own, code in ((0, tmp_path, "UNAVAILABLE"), (3, None, "PERMISSION_DENIED")):
        with stream(keys, server, c, b"x", authority=own) as theirs:
            with pytest.raises(grpc.RpcError) as error:
                next(theirs)
            assert error.value.code().name == code
    assert LINES == []


WRONG = [
    ((bytes(LIMIT + 1),), Fault.TIMED_OUT, "it is not there"),
    ((b"\xff" * 50,), Fault.MALFORMED, "sent not packed arrays"),
    ((b"",), Fault.MALFORMED, "sent not packed arrays"),
    ((write_reply(Outcome(fault=Fault.LATE)),), Fault.MALFORMED, "a reply with fault"),
    ((), Fault.TIMED_OUT, "it is silent"),
]


@pytest.mark.parametrize(("sent", "fault", "words"), WRONG, ids=[words for _, _, words in WRONG])
def test_what_is_no_answer_costs_the_others_its_time_and_no_more(keys, server, sent, fault, words):
    server.timeout, began = 2.0, time.monotonic()
    with joined(keys, server, 0), joined(keys, server, 1), stream(keys, server, 2, *sent):
        server.wait(3, 20.0)
        found = answers(server, 0, 1, 2)
    assert time.monotonic() - began < 20.0
    assert [found[c].fault for c in range(3)] == [Fault.NONE, Fault.NONE, fault]
    assert words in found[2].reason
    assert found[1].message["w"][0] == 1.0


def test_a_client_that_comes_back_is_asked_again(keys, server):
    found = {}
    asking = threading.Thread(target=lambda: found.update(answers(server, 0, 1)))
    with joined(keys, server, 0):
        with stream(keys, server, 1) as dying:
            server.wait(2, 20.0)
            asking.start()
            next(dying)  # it is asked, and dies
        with joined(keys, server, 1):
            asking.join(20)
    assert [found[c].fault for c in (0, 1)] == [Fault.NONE, Fault.NONE]


def test_one_that_is_gone_is_waited_for_once(keys, server):
    spent = []
    with joined(keys, server, 0):
        server.wait(1, 20.0)
        for _ in range(2):
            began = time.monotonic()
            found = answers(server, 0, 1)
            spent.append(time.monotonic() - began)
    assert found[1].reason.endswith("it is not there")
    assert spent[0] >= 1.0 > spent[1]


def test_a_key_or_an_address_in_use_is_said_to_be(keys, server):
    with pytest.raises(ArgumentError, match="--listen must be an address of this machine"):
        Server(f"127.0.0.1:{server.port}", keys, 3, print, 30.0).__enter__()
    with joined(keys, server, 0):
        server.wait(1, 20.0)
        with joined(keys, server, 0) as lines:
            while not lines:
                time.sleep(0.02)
    assert "this key is in use by another process" in lines[0]


def test_connections_of_strangers_leave_descriptors_for_the_run_file(keys, server):
    with joined(keys, server, 0):
        server.wait(1, 20.0)
        where = ("127.0.0.1", server.port)
        held = [socket.create_connection(where, 20) for _ in range(server_module.STRANGERS + 80)]
        for each in held[-20:]:  # these are let go at once; a handshake may take 20 seconds
            each.settimeout(10)
            with suppress(ConnectionError):
                assert each.recv(1) == b""
        assert answers(server, 0)[0].fault == Fault.NONE
        for each in held:
            each.close()


def test_more_than_half_must_answer_unless_said_otherwise(tmp_path, keys, hopfed):
    assert [Config(clients=L).least for L in (1, 2, 3, 4, 9, 10)] == [1, 2, 2, 3, 5, 6]
    assert Config(clients=10, minimum=1).least == 1
    serve = ["serve", "--keys", keys, "--columns", 40, "--out", tmp_path / "run.h5"]
    serve += ["--wait", 0.2, "--listen", "127.0.0.1:0", "--clients", 10]
    said = hopfed(*serve)[2]
    assert "0 of at least 6 clients joined within 0.2 s; start the others" in said
    assert not (tmp_path / "run.h5").exists()
