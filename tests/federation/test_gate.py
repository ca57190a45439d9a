"""The server's door, the keys, and what owners agree to; no process and no network."""

import asyncio
import stat
from base64 import b64encode

import pytest

from hopfed.errors import ArgumentError, DataError, HopfedError
from hopfed.federation.engines.flower.gate import SMALL, Gate
from hopfed.federation.engines.flower.keys import make_keys, private_key, public_keys
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.engines.flower.site import _alone


async def inner(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(gate, path, pieces=(b"",), key=b"a"):
    """Status and body that a request gets."""
    left = list(pieces)
    header = (b"flwr-public-key", b64encode(key))
    names = [(name, value) for name, value in (header,)]

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    sent = []

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "path": path, "headers": names, "client": ("10.0.0.1", 5)}
    asyncio.run(gate(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def gate(monkeypatch):
    from hopfed.federation.engines.flower import gate as module

    monkeypatch.setattr(module, "_HEADER", b"flwr-public-key")
    said = []
    made = Gate(inner, 100, {b"a": 0, b"b": 1}, said.append)
    made.said = said
    return made


def test_only_the_interface_of_clients_is_open(gate):
    for path in ("/v1/control/start-run", "/v1/runtime/push-object", "/docs", "/"):
        assert ask(gate, path)[0] == 404
    assert ask(gate, "/v1/fleet/pull-messages", [b"x", b"y"]) == (200, b"xy")
    assert "10.0.0.1 asked for /v1/control/start-run" in gate.said[0]


def test_a_client_may_send_so_much_in_an_exchange(gate):
    push = "/v1/fleet/push-object"
    assert ask(gate, push, [b"x" * 60])[0] == 200
    assert ask(gate, push, [b"x" * 30, b"x" * 30])[0] == 413
    assert gate.refused == {b"a": "sent more than 0.0001 MB"}
    assert ask(gate, push, [b"x" * 60], key=b"b")[0] == 200, "another client's share"
    gate.renew()
    assert not gate.refused
    assert ask(gate, push, [b"x" * 60])[0] == 200
    assert ask(gate, "/v1/fleet/push-messages", [b"x" * (SMALL + 1)])[0] == 413


def test_strangers_are_told_so_and_named_once(gate):
    for _ in range(3):
        assert ask(gate, "/v1/fleet/activate-node", key=b"c")[0] == 401
    assert len(gate.said) == 1
    assert ask(gate, "/v1/fleet/activate-node")[0] == 200
    assert gate.said[-1] == "client 0 joined"
    assert gate.joined == {b"a"}


def test_keys(tmp_path):
    files = make_keys(tmp_path / "keys", 2, ["127.0.0.1", "host.example"])
    assert len(files) == 7
    for path in files:
        private = path.suffix == ".key"
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if private else 0o644)
    first, second = public_keys(tmp_path / "keys", 2)
    assert first != second
    private_key(tmp_path / "keys" / "client-1.key")
    with pytest.raises(ArgumentError, match="without certificates"):
        make_keys(tmp_path / "keys", 2, ["x"])
    with pytest.raises(ArgumentError, match="clients must be at least 1"):
        make_keys(tmp_path / "other", 0, ["x"])
    with pytest.raises(ArgumentError, match="--keys must be a file"):
        public_keys(tmp_path / "keys", 3)
    (tmp_path / "keys" / "client-1.pub").write_bytes(first)
    with pytest.raises(DataError, match="two clients have the same key"):
        public_keys(tmp_path / "keys", 2)
    with pytest.raises(DataError, match="not a client's key"):
        private_key(tmp_path / "keys" / "ca.pem")


def test_a_server_listens_and_waits_no_longer_than_told(tmp_path):
    make_keys(tmp_path, 1, ["127.0.0.1"])
    listening = Listening("127.0.0.1", 0, tmp_path / "server.pem", tmp_path / "server.key")
    with FlowerServer(listening, public_keys(tmp_path, 1), print) as server:
        taken = Listening("127.0.0.1", server.port, listening.certificate, listening.key)
        with pytest.raises(HopfedError, match="0 of at least 1 clients joined within 0 s"):
            server.wait(1, 0.0)
        other = FlowerServer(taken, public_keys(tmp_path, 1), print)
        with pytest.raises(ArgumentError, match="that is free"):
            other.__enter__()
    with pytest.raises(ArgumentError, match=r"a folder with server\.pem"):
        Listening("127.0.0.1", 0, tmp_path / "none" / "server.pem", listening.key)
    (tmp_path / "server.key").write_bytes((tmp_path / "client-0.key").read_bytes())
    broken = FlowerServer(listening, public_keys(tmp_path, 1), print)
    with pytest.raises(ArgumentError, match="certificate and its own key"):
        broken.__enter__()


def test_a_site_runs_once(tmp_path):
    with _alone(tmp_path), pytest.raises(HopfedError, match="running already"), _alone(tmp_path):
        pass
