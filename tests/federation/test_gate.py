"""The server's door, the keys, and what owners agree to; no process and no network."""

import asyncio
import stat
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest

from hopfed.data.batches import Batches, Elsewhere
from hopfed.data.channel import draw_examples, rademacher
from hopfed.data.readers import as_examples
from hopfed.errors import ArgumentError, DataError, HopfedError
from hopfed.experiments import serve
from hopfed.federation.engines.flower.gate import SMALL, Gate
from hopfed.federation.engines.flower.keys import make_keys, private_key, public_keys
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.engines.flower.site import _alone
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import digest
from hopfed.federation.rounds import play_round
from hopfed.hopfield.private import PrivateFederation
from hopfed.hopfield.site import Owner, Releases, inventory
from hopfed.rng import stream


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


def examples(n=40, columns=30):
    rng = stream(0, "owners")
    return as_examples(draw_examples(rademacher(2, columns, rng), n, 0.8, rng)[0])


def test_every_row_is_in_one_batch():
    rows = examples(41)
    parts = [Batches((rows,), 3).examples(t, 7) for t in range(3)]
    assert sorted(p.shape[0] for p in parts) == [13, 14, 14]
    dealt = np.concatenate([p.words for p in parts])
    assert sorted(dealt.tolist()) == sorted(rows.words.tolist())
    with pytest.raises(ArgumentError, match=r"round must be in 0 \.\. 2"):
        Batches((rows,), 3).examples(3, 0)
    with pytest.raises(ArgumentError, match="rounds must be 1 to 20"):
        Batches((rows,), 21)
    with pytest.raises(DataError, match="not on this machine"):
        Elsewhere().examples(0, 1)


def test_an_owner_agrees_to_what_was_agreed_and_no_more():
    rows = examples()
    plain = serve.Config(columns=30, rounds=2).make()
    private = serve.Config(columns=30, rounds=2, epsilon=1.0).make()
    open_, careful = Owner(rows, 7), Owner(rows, 7, epsilon=1.0)
    assert open_.adapt(plain).source.examples(0, 2).shape == (20, 30)
    few = serve.Config(columns=30, rounds=2, groups=0, votes=False).make()
    assert Owner(rows, 7, questions=False).adapt(few).source.rounds == 2
    assert open_.adapt(private).secret == careful.adapt(private).secret == 7
    for owner, method, words in (
        (careful, plain, "with noise only"),
        (Owner(rows, 7, epsilon=0.5), private, "more than this client's epsilon"),
        (Owner(rows, 7, epsilon=1.0, delta=1e-7), private, "more than this client's epsilon"),
        (Owner(rows, 7, questions=False), plain, "answers no questions"),
        (open_, serve.Config(columns=31).make(), "31 columns"),
        (open_, open_.adapt(plain), "does not leave the examples where they are"),
        (open_, LocalEngine(), "does not take part in LocalEngine"),
    ):
        with pytest.raises(DataError, match=words):
            owner.adapt(method)


def test_the_same_examples_are_not_released_on_other_terms(tmp_path):
    """Nor by a new process; on the same terms there is nothing against it."""
    owner = Owner(examples(), 7, epsilon=2.0, releases=Releases(tmp_path / "releases.json"))
    first = serve.Config(columns=30, epsilon=1.0)
    for _ in range(2):
        owner.adapt(first.make())
    for change in ({"epsilon": 0.5}, {"rounds": 2}, {"delta": 1e-6}):
        with pytest.raises(DataError, match="released with epsilon 1, delta 1e-05, 1 round"):
            owner.adapt(replace(first, **change).make())
    other = Owner(examples(41), 7, epsilon=2.0, releases=owner.releases)
    other.adapt(replace(first, epsilon=0.5).make())


def test_a_release_that_is_repeated_has_the_same_noise_and_another_owner_has_other():
    rows = examples()
    method = serve.Config(columns=30, epsilon=1.0).make()

    def released(secret):
        played = []

        class Listening(LocalEngine):
            def step(self, method, calls):
                outcomes = super().step(method, calls)
                played.append(outcomes[0].message)
                return outcomes

        mine = Owner(rows, secret).adapt(method)
        play_round(mine, None, 0, seed=0, clients=1, engine=Listening())
        return played[0]

    assert digest(released(7)) == digest(released(7)) != digest(released(8))
    noise = released(7)["counts"] - released(8)["counts"]
    assert np.std(noise) == pytest.approx(np.sqrt(2) * method.mechanism.scale, rel=0.1)


def test_what_a_message_reveals_is_said_of_every_array():
    rows = examples()
    for method in (serve.Config(columns=30), serve.Config(columns=30, form="factors", width=3)):
        made = method.make(Batches((rows,)))
        _, message, _ = made.client_step({}, {}, _context())
        found = inventory(made, message)
        assert {name for name, *_ in found} == set(message)
        assert all(reveals for *_, reveals in found)
    made = serve.Config(columns=30, epsilon=2.0).make(Batches((rows,)))
    assert isinstance(made, PrivateFederation)
    _, message, _ = made.client_step({}, {}, _context())
    assert set(message) == {"counts", "examples"}, "column sums and weights are releases too"
    assert "epsilon 2" in inventory(made, message)[0][-1]


def _context():
    from hopfed.federation.contract import Context

    return Context(0, 0, 0, 0)
