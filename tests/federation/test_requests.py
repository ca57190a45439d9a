"""The server's requests, the keys, and what owners agree to; no process and no network."""

import asyncio
from base64 import b64encode
from datetime import timedelta

import pytest
from flwr.proto.message_pb2 import PullObjectRequest
from flwr.supercore.date import now
from flwr.supercore.primitives import asymmetric

from hopfed.errors import ArgumentError, HopfedError
from hopfed.federation.engines.flower import uploads
from hopfed.federation.engines.flower.client import _alone
from hopfed.federation.engines.flower.connections import Connections, Limits
from hopfed.federation.machines.keys import make_keys, public_keys
from hopfed.federation.engines.flower.requests import PIECE, RequestFilter
from hopfed.federation.engines.flower.server import FlowerServer, Listening

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


async def asked(requests, path, pieces=(b"",), c=0, headers=(), method="POST", receive=None):
    """Events that a request is answered with."""
    left, sent = list(pieces), []

    async def next_piece():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(event):
        sent.append(event)

    length = {b"content-length": b"%d" % sum(map(len, pieces))}
    names = list((signed(c) | length | dict(headers)).items())
    scope = {"type": "http", "path": path, "method": method, "headers": names}
    await requests(scope | {"client": ("10.0.0.1", 5)}, receive or next_piece, send)
    return sent


def ask(requests, path, *arguments, **options):
    """Status and body that a request gets."""
    start, *bodies = asyncio.run(asked(requests, path, *arguments, **options))
    return start["status"], b"".join(body["body"] for body in bodies)


@pytest.fixture
def requests():
    return made()


def made(**limits):
    said = []
    requests = RequestFilter(
        inner, 100, {PUBLIC[0]: 0, PUBLIC[1]: 1}, said.append, Connections(Limits(**limits))
    )
    requests.said = said
    return requests


def test_only_the_interface_of_clients_is_open(requests):
    closed = ("/v1/control/start-run", "/v1/runtime/push-object", "/docs", "/", "/v1/fleet/get-fab")
    for path in (*closed, "/v1/fleet/register-node", "pull-messages", "/v1/fleet/../x\x1b[2J"):
        assert ask(requests, path)[0] == 404
    assert ask(requests, POLL, method="GET")[0] == 404
    assert ask(requests, POLL, [b"x", b"y"]) == (200, b"xy")
    assert "10.0.0.1 asked for POST /v1/control/start-run" in requests.said[0]
    assert len(requests.said) == 1, "one line for one visitor, whatever he asks for"
    ask(other := made(), "/\x1b[2J\n" + "x" * 999)
    assert other.said[0].isprintable()
    assert len(other.said[0]) < 150


def test_a_client_may_send_so_much_in_an_exchange(requests):
    assert ask(requests, PUSH, [b"x" * 60])[0] == 200
    assert ask(requests, PUSH, [b"x" * 30, b"x" * 30])[0] == 413
    assert requests.refused == {PUBLIC[0]: "sent more than 0.0001 MB"}
    assert ask(requests, PUSH, [b"x" * 60], c=1)[0] == 200, "another client's share"
    requests.renew()
    assert not requests.refused
    assert ask(requests, PUSH, [b"x" * 60])[0] == 200
    assert ask(requests, "/v1/fleet/push-messages", [b"x" * (uploads.SMALL + 1)])[0] == 413
    assert ask(requests, PUSH, [b"x"], headers={b"content-length": b"%d" % (PIECE + 1)})[0] == 413


def test_a_client_may_send_so_many_answers_in_an_exchange():
    requests = made(answers=3)
    found = [ask(requests, "/v1/fleet/push-messages", [b"x"])[0] for _ in range(5)]
    assert found == [200, 200, 200, 429, 429]
    assert ask(requests, POLL)[0] == 200


def test_strangers_are_told_so_and_named_once(requests):
    activate = "/v1/fleet/activate-node"
    for _ in range(3):
        assert ask(requests, activate, c=2)[0] == 401
    assert len(requests.said) == 1
    assert ask(requests, activate)[0] == 200
    assert requests.said[-1] == "client 0 joined"
    assert requests.joined == {PUBLIC[0]}


def test_a_client_fetches_nothing_but_parts_of_questions_to_it(requests):
    fetch, wanted = "/v1/fleet/pull-object", PullObjectRequest(object_id="a").SerializeToString()
    assert ask(requests, fetch, [wanted]) == (200, b"")
    requests.offered[PUBLIC[0]].add("a")
    assert ask(requests, fetch, [wanted]) == (200, wanted), "passed on"
    assert requests.fetched == {PUBLIC[0]: {"a"}, PUBLIC[1]: set()}
    assert ask(requests, fetch, [wanted], c=1) == (200, b"")
    assert ask(requests, fetch, [b"\xff" * 9]) == (200, b"")
    requests.renew()
    assert ask(requests, fetch, [wanted]) == (200, b"")


def test_a_client_that_comes_and_goes_does_not_fill_the_log(requests):
    for _ in range(60):
        ask(requests, "/v1/fleet/activate-node")
        ask(requests, "/v1/fleet/deactivate-node")
    assert len(requests.said) == 20
    requests.renew()
    ask(requests, "/v1/fleet/activate-node")
    assert len(requests.said) == 21


def never():
    raise AssertionError("a byte of the body was read")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (lambda: signed(2), "a key that is not of this federation, from 10.0.0.1"),
        (
            lambda: signed(0, by=2),
            "a request in the name of client 0, signed by another, from 10.0.0.1",
        ),
        (
            lambda: signed(0, by=1),
            "a request in the name of client 0, signed by another, from 10.0.0.1",
        ),
        (lambda: signed(0) | {b"flwr-signature": b""}, "client 0, signed by another"),
        (lambda: signed(0) | {b"flwr-signature": b"\xff garbage"}, "client 0, signed by another"),
        (
            lambda: signed(0) | {b"flwr-signature": b64encode(bytes(99))},
            "client 0, signed by another",
        ),
        (lambda: signed(0) | {b"flwr-timestamp": b"now"}, "client 0, signed by another"),
        (
            lambda: signed(0) | {b"flwr-public-key": b"no base64"},
            "a key that is not of this federation",
        ),
        (lambda: signed(0, age=3600), "client 0, signed 60 minutes ago by our clock"),
        (lambda: signed(0, age=-3600), "client 0, signed -60 minutes ago by our clock"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_whoever_has_no_key_is_refused_before_a_byte_is_read(requests, headers, words):
    """A public key alone takes nothing from the one whose it is."""
    for path in (PUSH, "/v1/fleet/push-messages", POLL):
        length = {b"content-length": b"100"}
        start, _ = asyncio.run(asked(requests, path, headers=headers() | length, receive=never))
        assert start["status"] == 401
        assert (b"connection", b"close") in start["headers"]
    assert [words in line for line in requests.said] == [True]
    assert ask(requests, PUSH, [b"x" * 100])[0] == 200, "the share of client 0 is all there"
    assert not requests.refused


def test_a_body_says_its_length(requests):
    for length in (b"", b"-1", b"1e3", b"9" * 40, b"\xb2"):
        assert ask(requests, PUSH, headers={b"content-length": length})[0] == 411
    assert ask(requests, PUSH, [b"xxx"], headers={b"content-length": b"2"})[0] == 400


def test_uploads_that_do_not_end_take_bounded_memory_and_bounded_time(monkeypatch):
    """Sixteen of them, of two clients, while a third request waits for its turn."""
    monkeypatch.setattr(uploads, "SMALL", 0)
    requests = made(unfinished=150, seconds=0.3, rate=1e9, bodies=2)
    requests.limit = 10**6

    async def stalled():
        await asyncio.sleep(60)

    async def attack():
        slow = {b"content-length": b"50"}
        several = [asked(requests, PUSH, headers=slow, c=i % 2, receive=stalled) for i in range(16)]
        tasks = [asyncio.create_task(one) for one in several]
        await asyncio.sleep(0.1)
        held = requests.uploads.held
        honest = await asked(requests, PUSH, [b"x" * 50], c=1)
        return held, honest[0]["status"], [(await t)[0]["status"] for t in tasks]

    held, honest, others = asyncio.run(attack())
    assert (held, honest) == (150, 200)
    assert set(others) == {408}
    assert (requests.uploads.held, requests.uploads.most) == (0, 150)
    assert set(requests.said) == {f"refused: client {c} sent too slowly" for c in (0, 1)}


def test_a_sender_that_is_gone_or_finds_no_room_takes_none(monkeypatch):
    monkeypatch.setattr(uploads, "SMALL", 0)
    monkeypatch.setattr(uploads, "_WAIT", 0.05)
    requests = made(unfinished=100, seconds=5.0)
    requests.limit = 10**6

    async def gone():
        return {"type": "http.disconnect"}

    async def stalled():
        await asyncio.sleep(60)

    async def play():
        first = await asked(requests, PUSH, headers={b"content-length": b"50"}, receive=gone)
        much = {b"content-length": b"90"}
        task = asyncio.create_task(asked(requests, PUSH, headers=much, receive=stalled))
        await asyncio.sleep(0.05)
        second = await asked(requests, PUSH, [b"x" * 20], c=1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        third = await asked(requests, PUSH, [b"x" * 20], c=1)
        return [events[0]["status"] for events in (first, second, third)]

    assert asyncio.run(play()) == [499, 503, 200]
    assert list(requests.refused.values()) == ["sent when there was no room"]  # not who was killed
    assert requests.uploads.held == 0


def test_an_answer_goes_out_in_pieces_and_whoever_takes_none_is_closed():
    requests = made(seconds=0.1, rate=1e9)
    closed, taken = [], []
    requests.connections.enter(("10.0.0.1", 5), lambda: closed.append(1))

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(200_000)})

    requests.inner = large
    assert ask(requests, POLL) == (200, bytes(200_000))

    async def play():
        async def send(event):
            taken.append(len(event.get("body", b"")))
            if len(taken) > 2:
                await asyncio.sleep(60)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        names = list((signed(0) | {b"content-length": b"0"}).items())
        scope = {"type": "http", "path": POLL, "method": "POST", "headers": names}
        await requests(scope | {"client": ("10.0.0.1", 5)}, receive, send)

    asyncio.run(play())
    assert taken == [0, 65536, 65536]
    assert closed == [1]
    assert requests.said == ["closed: client 0 does not take its answers"]


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
