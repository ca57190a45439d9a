"""Crowds at the server, over TLS on loopback: whoever has a key comes in."""

import resource
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest
from flwr.proto.message_pb2 import PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node as FlowerNode
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from members import CALLS, Answer

from hopfed.errors import ArgumentError
from hopfed.federation.engines.flower.connections import Connections, Limits, make_room
from hopfed.federation.machines.keys import make_keys, private_key, public_keys
from hopfed.federation.engines.flower.link import Objects
from hopfed.federation.engines.flower.requests import PIECE
from hopfed.federation.engines.flower.server import FlowerServer, Listening

CLIENTS = 10


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, CLIENTS, ["127.0.0.1"])
    return folder


@contextmanager
def listening(keys, **limits):
    said = []
    where = Listening(
        "127.0.0.1", 0, keys / "server.pem", keys / "server.key", 10**8, Limits(**limits)
    )
    with FlowerServer(where, public_keys(keys, CLIENTS), said.append) as server:
        server.said = said
        yield server


@contextmanager
def member(keys, server, c=0):
    """A client with a key: its connection, and how to come in."""
    pair = private_key(keys / f"client-{c}.key")
    client = FleetHttpClient.from_server_address(
        f"127.0.0.1:{server.port}",
        insecure=False,
        root_certificates=(keys / "ca.pem").read_bytes(),
        interceptors=[NodeAuthHttpInterceptor(*pair)],
    )
    request = ActivateNodeRequest(public_key=public_key_to_bytes(pair[1]), heartbeat_interval=30)
    with client:
        client.come_in = lambda: client.ActivateNode(request).node_id
        client.ask = lambda node: client.PullMessages(
            PullMessagesRequest(node=FlowerNode(node_id=node))
        )
        client.headers = NodeAuthHttpInterceptor(*pair)
        yield client


def connected(server, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", server.port), 10, (source, 0))


def secured(keys, server, source="127.0.0.1"):
    context = ssl.create_default_context(cafile=keys / "ca.pem")
    return context.wrap_socket(connected(server, source), server_hostname="127.0.0.1")


def silent(keys, server):
    return connected(server)


def half_a_greeting(keys, server):
    plain = connected(server)
    plain.sendall(b"\x16\x03\x01\x02\x00")  # how a TLS handshake begins
    return plain


def no_request(keys, server):
    return secured(keys, server)


def half_a_request(keys, server):
    secure = secured(keys, server)
    secure.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nx-header: ")
    return secure


def is_closed(connection, seconds=10.0):
    connection.settimeout(seconds)
    try:
        while connection.recv(1000):
            pass
        return True
    except TimeoutError:
        return False
    except OSError:
        return True


def until(holds, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("kind", [silent, half_a_greeting, no_request, half_a_request])
def test_idle_connections_of_strangers_do_not_keep_a_client_out(keys, kind):
    """Three hundred from the client's own address, where there is room for 64."""
    with ExitStack() as crowd, listening(keys, strangers=64, seconds=60.0) as server:
        for _ in range(300 if kind in (silent, half_a_greeting) else 100):
            crowd.enter_context(kind(keys, server))
        connections = server.requests.connections
        assert until(lambda: connections.open(known=False) == 64)
        with member(keys, server) as client:
            node = client.come_in()
            assert not client.ask(node).messages_list
            assert connections.open(known=True) == 1
        assert connections.open(known=False) <= 64
        assert server.said == ["client 0 joined"]


@pytest.mark.slow
def test_twelve_hundred_idle_connections_do_not_keep_a_client_out(keys):
    with ExitStack() as crowd, listening(keys, seconds=120.0) as server:
        for _ in range(1200):
            crowd.enter_context(connected(server))
        began = time.monotonic()
        with member(keys, server) as client:
            client.come_in()
        assert time.monotonic() - began < 5.0
        assert server.requests.connections.open(known=False) <= 128


@pytest.mark.parametrize("kind", [silent, half_a_greeting, no_request, half_a_request])
def test_a_stranger_leaves_after_seconds(keys, kind):
    with listening(keys, seconds=0.5) as server, kind(keys, server) as stranger:
        began = time.monotonic()
        assert is_closed(stranger)
        assert time.monotonic() - began < 5.0
        assert until(lambda: server.requests.connections.open(known=False) == 0)


def test_a_crowd_that_keeps_coming_does_not_keep_a_client_out(keys):
    """From another address, as fast as one thread can; the client's own place is not touched."""
    stop, came = threading.Event(), []

    def crowd():
        with ExitStack() as held:
            while not stop.is_set():
                held.enter_context(connected(server, "127.0.0.2"))
                came.append(1)
                time.sleep(0.002)

    with listening(keys, strangers=32, seconds=60.0) as server:
        thread = threading.Thread(target=crowd)
        thread.start()
        try:
            assert until(lambda: len(came) > 100)
            for c in range(5):
                with member(keys, server, c) as client:
                    client.ask(client.come_in())
        finally:
            stop.set()
            thread.join()
    assert len(came) > 150


def test_a_client_has_few_connections_and_others_keep_theirs(keys):
    with listening(keys, connections=3) as server, ExitStack() as several:
        connections = server.requests.connections
        other = several.enter_context(member(keys, server, 1))
        node = other.come_in()
        for _ in range(6):
            several.enter_context(member(keys, server)).ask(server.nodes[0])
        assert until(lambda: connections.open(known=True) == 4)
        assert len(connections._of(1)) == 1
        other.ask(node)


def test_requests_without_a_key_or_with_the_key_of_another_read_no_body(keys):
    """A public key and a made-up signature: refused while the body is not even sent."""
    with listening(keys) as server:
        with member(keys, server) as client:
            client.come_in()
        for key in (public_keys(keys, 1)[0], b"nobody"):
            with secured(keys, server) as stranger:
                stranger.sendall(head(key, 5 * 10**6))
                stranger.settimeout(5)
                assert stranger.recv(100).startswith(b"HTTP/1.1 401")
                assert is_closed(stranger)
        assert server.requests.uploads.most < 1000
        assert not server.requests._sent
        assert not server.requests.refused


def head(key, length, headers=None):
    from base64 import b64encode

    signed = headers or {"flwr-timestamp": "2030-01-01T00:00:00+00:00", "flwr-signature": "AAAA"}
    lines = [f"{name}: {value}" for name, value in signed.items()]
    lines += [f"flwr-public-key: {b64encode(key).decode()}", f"content-length: {length}"]
    lines += ["host: x", "content-type: application/x-protobuf"]
    return ("POST /v1/fleet/push-object HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode()


def truly_signed(keys, c):
    from base64 import b64encode

    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import sign_message

    moment = now().isoformat()
    signature = sign_message(private_key(keys / f"client-{c}.key")[0], moment.encode())
    return {"flwr-timestamp": moment, "flwr-signature": b64encode(signature).decode()}


def test_unfinished_uploads_take_bounded_memory_and_end(keys):
    """Sixteen of five megabytes, of eight clients, each stopped after half of it."""
    room, known = 4 * PIECE, public_keys(keys, CLIENTS)
    limits = {"unfinished": room, "seconds": 2.0, "rate": 1e9}
    with listening(keys, **limits) as server, ExitStack() as crowd:
        for i in range(16):
            upload = crowd.enter_context(secured(keys, server))
            upload.sendall(head(known[i % 8], PIECE, truly_signed(keys, i % 8)))
            upload.settimeout(0.1)
            with suppress(OSError):  # what is not read stays with the sender
                upload.sendall(bytes(PIECE // 2))
        uploads = server.requests.uploads
        assert 2 * PIECE < uploads.held <= room
        with member(keys, server, 9) as client:
            began = time.monotonic()
            me = FlowerNode(node_id=client.come_in())
            assert time.monotonic() - began < 1.5, "small requests wait for no upload"
            run = server._link.run_id
            client.PushObject(PushObjectRequest(node=me, run_id=run, object_content=bytes(10**6)))
        assert until(lambda: not uploads.held, 20.0), "they are dropped"
        assert uploads.most <= room
    slow = {f"refused: client {c} sent too slowly" for c in range(8)}
    assert len(slow & set(server.said)) >= 2


def test_headers_without_end_are_refused(keys):
    with listening(keys) as server, secured(keys, server) as stranger:
        with suppress(OSError):
            stranger.sendall(b"POST / HTTP/1.1\r\n" + b"x-header: y\r\n" * 50_000)
        assert is_closed(stranger)


def test_as_many_files_may_be_open_as_there_are_connections():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        make_room(Limits(), 20)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(before[1], 128 + 20 * 8 + 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_crowd_pushes_out_its_own_first():
    left = []
    connections = Connections(Limits(strangers=4))
    places = ["::1", "2001:db8::1", "2001:db8::2", "10.0.0.1", "2001:db8::3", "10.0.0.1"]
    for port, place in enumerate(places):
        connections.enter((place, port), lambda port=port: left.append(port))
    assert left == [1, 2], "one network of version 6 is one place"
    with connections.serving(("::1", 0), 7):
        assert (connections.open(known=True), connections.open(known=False)) == (1, 3)
    for port in range(6, 20):
        connections.enter(("10.0.0.1", port), lambda port=port: left.append(port))
    assert 0 not in left, "a client is no stranger any more"
    before = connections.open(known=False)
    connections.make_way()  # as where the system opens no more files
    assert connections.open(known=False) == before - 1
    for _ in range(9):
        connections.make_way()
    assert (connections.open(known=True), connections.open(known=False)) == (1, 0)
    with pytest.raises(ArgumentError, match="strangers must be above 0"):
        Limits(strangers=0)


def test_a_client_does_not_get_what_another_has_under_its_name(keys):
    with listening(keys) as server, member(keys, server, 0) as first, member(keys, server, 1) as me:
        mine, other = me.come_in(), first.come_in()
        engine = server.engine("run", 8.0)
        requests = [engine._request(Answer(), call) for call in CALLS[:2]]
        nodes = (other, mine)
        messages = [engine._message(r, n) for r, n in zip(requests, nodes, strict=True)]
        engine.grid.push_messages(messages)
        names = [engine.grid._parts[message.object_id] for message in messages]

        def pulled(name):
            question = PullObjectRequest(
                node=FlowerNode(node_id=mine), run_id=server._link.run_id, object_id=name
            )
            return me.PullObject(question).object_found

        assert all(pulled(name) for name in names[1])
        hidden = names[0] - names[1]
        assert hidden
        assert all(server._link.state.object_store.get(name) for name in hidden)
        assert not any(pulled(name) for name in hidden)


def test_all_parts_of_an_answer_are_asked_for_whoever_sent_the_same():
    """From what is asked for nobody knows whether another sent what it guessed."""
    objects, guess = Objects(), Message(RecordDict({"w": ConfigRecord({"x": 1})}), 1, "query")
    tree, parts = get_object_tree(guess), get_all_nested_objects(guess)
    objects.verify = True
    names = objects.preregister(1, tree)
    assert set(names) == set(parts)
    for name in names:
        objects.put(name, parts[name].deflate())
    assert objects.preregister(1, tree) == names
    for name in names:
        objects.put(name, parts[name].deflate())
        assert objects.get(name)
