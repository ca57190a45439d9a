"""The server's door, the keys, and what owners agree to; no process and no network."""

import asyncio
import stat
from base64 import b64encode
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from flwr.supercore.date import now
from flwr.supercore.primitives import asymmetric

from hopfed.data.batches import Batches, Elsewhere
from hopfed.data.channel import draw_examples, rademacher
from hopfed.data.readers import as_examples
from hopfed.errors import ArgumentError, DataError, HopfedError
from hopfed.experiments import serve
from hopfed.federation.engines.flower import uploads
from hopfed.federation.engines.flower.door import Door, Limits
from hopfed.federation.engines.flower.gate import PIECE, Gate
from hopfed.federation.engines.flower.keys import make_keys, private_key, public_keys
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.engines.flower.site import _alone
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.messages import digest
from hopfed.federation.rounds import play_round
from hopfed.hopfield.private import PrivateFederation
from hopfed.hopfield.site import Owner, Releases, inventory
from hopfed.rng import stream

KEYS = [asymmetric.generate_key_pairs() for _ in range(3)]  # the third is a stranger's
PUBLIC = [asymmetric.public_key_to_bytes(public) for _, public in KEYS]
PUSH, POLL = "/v1/fleet/push-object", "/v1/fleet/pull-messages"


async def inner(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def signed(c, by=None, age=0.0):
    """Headers of a request in the name of client c."""
    moment = (now() - timedelta(seconds=age)).isoformat()
    signature = asymmetric.sign_message(KEYS[c if by is None else by][0], moment.encode())
    return {
        b"flwr-public-key": b64encode(PUBLIC[c]),
        b"flwr-timestamp": moment.encode(),
        b"flwr-signature": b64encode(signature),
    }


async def asked(gate, path, pieces=(b"",), c=0, headers=(), method="POST", receive=None):
    """Events that a request is answered with."""
    left, sent = list(pieces), []

    async def next_piece():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(event):
        sent.append(event)

    length = {b"content-length": b"%d" % sum(map(len, pieces))}
    names = list((signed(c) | length | dict(headers)).items())
    scope = {"type": "http", "path": path, "method": method, "headers": names}
    await gate(scope | {"client": ("10.0.0.1", 5)}, receive or next_piece, send)
    return sent


def ask(gate, path, *arguments, **options):
    """Status and body that a request gets."""
    start, *bodies = asyncio.run(asked(gate, path, *arguments, **options))
    return start["status"], b"".join(body["body"] for body in bodies)


@pytest.fixture
def gate():
    return made()


def made(**limits):
    said = []
    gate = Gate(inner, 100, {PUBLIC[0]: 0, PUBLIC[1]: 1}, said.append, Door(Limits(**limits)))
    gate.said = said
    return gate


def test_only_the_interface_of_clients_is_open(gate):
    closed = ("/v1/control/start-run", "/v1/runtime/push-object", "/docs", "/", "/v1/fleet/get-fab")
    for path in (*closed, "/v1/fleet/register-node", "pull-messages", "/v1/fleet/../x\x1b[2J"):
        assert ask(gate, path)[0] == 404
    assert ask(gate, POLL, method="GET")[0] == 404
    assert ask(gate, POLL, [b"x", b"y"]) == (200, b"xy")
    assert "10.0.0.1 asked for POST /v1/control/start-run" in gate.said[0]
    assert len(gate.said) == 1, "one line for one visitor, whatever he asks for"
    ask(other := made(), "/\x1b[2J\n" + "x" * 999)
    assert other.said[0].isprintable()
    assert len(other.said[0]) < 150


def test_a_client_may_send_so_much_in_an_exchange(gate):
    assert ask(gate, PUSH, [b"x" * 60])[0] == 200
    assert ask(gate, PUSH, [b"x" * 30, b"x" * 30])[0] == 413
    assert gate.refused == {PUBLIC[0]: "sent more than 0.0001 MB"}
    assert ask(gate, PUSH, [b"x" * 60], c=1)[0] == 200, "another client's share"
    gate.renew()
    assert not gate.refused
    assert ask(gate, PUSH, [b"x" * 60])[0] == 200
    assert ask(gate, "/v1/fleet/push-messages", [b"x" * (uploads.SMALL + 1)])[0] == 413
    assert ask(gate, PUSH, [b"x"], headers={b"content-length": b"%d" % (PIECE + 1)})[0] == 413


def test_a_client_may_send_so_many_answers_in_an_exchange():
    gate = made(answers=3)
    found = [ask(gate, "/v1/fleet/push-messages", [b"x"])[0] for _ in range(5)]
    assert found == [200, 200, 200, 429, 429]
    assert ask(gate, POLL)[0] == 200


def test_strangers_are_told_so_and_named_once(gate):
    activate = "/v1/fleet/activate-node"
    for _ in range(3):
        assert ask(gate, activate, c=2)[0] == 401
    assert len(gate.said) == 1
    assert ask(gate, activate)[0] == 200
    assert gate.said[-1] == "client 0 joined"
    assert gate.joined == {PUBLIC[0]}


def never():
    raise AssertionError("a byte of the body was read")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (signed(2), "a key that is not of this federation, from 10.0.0.1"),
        (signed(0, by=2), "a request in the name of client 0, signed by another, from 10.0.0.1"),
        (signed(0, by=1), "a request in the name of client 0, signed by another, from 10.0.0.1"),
        (signed(0) | {b"flwr-signature": b""}, "client 0, signed by another"),
        (signed(0) | {b"flwr-signature": b"\xff garbage"}, "client 0, signed by another"),
        (signed(0) | {b"flwr-signature": b64encode(bytes(99))}, "client 0, signed by another"),
        (signed(0) | {b"flwr-timestamp": b"now"}, "client 0, signed by another"),
        (signed(0) | {b"flwr-public-key": b"no base64"}, "a key that is not of this federation"),
        (signed(0, age=3600), "client 0, signed 60 minutes ago by our clock"),
        (signed(0, age=-3600), "client 0, signed -60 minutes ago by our clock"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_whoever_has_no_key_is_refused_before_a_byte_is_read(gate, headers, words):
    """A public key alone takes nothing from the one whose it is."""
    for path in (PUSH, "/v1/fleet/push-messages", POLL):
        length = {b"content-length": b"100"}
        start, _ = asyncio.run(asked(gate, path, headers=headers | length, receive=never))
        assert start["status"] == 401
        assert (b"connection", b"close") in start["headers"]
    assert [words in line for line in gate.said] == [True]
    assert ask(gate, PUSH, [b"x" * 100])[0] == 200, "the share of client 0 is all there"
    assert not gate.refused


def test_a_body_says_its_length(gate):
    for length in (b"", b"-1", b"1e3", b"9" * 40, b"\xb2"):
        assert ask(gate, PUSH, headers={b"content-length": length})[0] == 411
    assert ask(gate, PUSH, [b"xxx"], headers={b"content-length": b"2"})[0] == 400


def test_uploads_that_do_not_end_take_bounded_memory_and_bounded_time(monkeypatch):
    """Sixteen of them, of two clients, while a third request waits for its turn."""
    monkeypatch.setattr(uploads, "SMALL", 0)
    gate = made(unfinished=150, seconds=0.3, rate=1e9, bodies=2)
    gate.limit = 10**6

    async def stalled():
        await asyncio.sleep(60)

    async def attack():
        slow = {b"content-length": b"50"}
        several = [asked(gate, PUSH, headers=slow, c=i % 2, receive=stalled) for i in range(16)]
        tasks = [asyncio.create_task(one) for one in several]
        await asyncio.sleep(0.1)
        held = gate.uploads.held
        honest = await asked(gate, PUSH, [b"x" * 50], c=1)
        return held, honest[0]["status"], [(await t)[0]["status"] for t in tasks]

    held, honest, others = asyncio.run(attack())
    assert (held, honest) == (150, 200)
    assert set(others) == {408}
    assert (gate.uploads.held, gate.uploads.most) == (0, 150)
    assert set(gate.said) == {f"refused: client {c} sent too slowly" for c in (0, 1)}


def test_a_sender_that_is_gone_or_finds_no_room_takes_none(monkeypatch):
    monkeypatch.setattr(uploads, "SMALL", 0)
    monkeypatch.setattr(uploads, "_WAIT", 0.05)
    gate = made(unfinished=100, seconds=5.0)
    gate.limit = 10**6

    async def gone():
        return {"type": "http.disconnect"}

    async def stalled():
        await asyncio.sleep(60)

    async def play():
        first = await asked(gate, PUSH, headers={b"content-length": b"50"}, receive=gone)
        much = {b"content-length": b"90"}
        task = asyncio.create_task(asked(gate, PUSH, headers=much, receive=stalled))
        await asyncio.sleep(0.05)
        second = await asked(gate, PUSH, [b"x" * 20], c=1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        third = await asked(gate, PUSH, [b"x" * 20], c=1)
        return [events[0]["status"] for events in (first, second, third)]

    assert asyncio.run(play()) == [400, 503, 200]
    assert gate.uploads.held == 0


def test_an_answer_goes_out_in_pieces_and_whoever_takes_none_is_closed():
    gate = made(seconds=0.1, rate=1e9)
    closed, taken = [], []
    gate.door.enter(("10.0.0.1", 5), lambda: closed.append(1))

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(200_000)})

    gate.inner = large
    assert ask(gate, POLL) == (200, bytes(200_000))

    async def play():
        async def send(event):
            taken.append(len(event.get("body", b"")))
            if len(taken) > 2:
                await asyncio.sleep(60)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        names = list((signed(0) | {b"content-length": b"0"}).items())
        scope = {"type": "http", "path": POLL, "method": "POST", "headers": names}
        await gate(scope | {"client": ("10.0.0.1", 5)}, receive, send)

    asyncio.run(play())
    assert taken == [0, 65536, 65536]
    assert closed == [1]
    assert gate.said == ["closed: client 0 does not take its answers"]


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
    assert np.std(noise) == pytest.approx(np.sqrt(2) * method.mechanism.scale(30), rel=0.1)


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
