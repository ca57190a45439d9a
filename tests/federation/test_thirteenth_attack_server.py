"""What a thirteenth attack on the server found, as tests."""

import hashlib
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from flwr.app import Error
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from members import CALLS, Answer, Rascal, started

from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.engines.flower.keys import make_keys, public_keys
from hopfed.federation.engines.flower.link import Link
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.faults import Fault

DEEP, LINKS = 90, 20  # Protobuf takes a hundred levels; so many trees are more than Python's stack


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder / "keys", 3, ["127.0.0.1"])
    return folder / "keys"


@contextmanager
def federation(keys, folder, rascal):
    """A server, and clients that are there, the last of which does as its trick says."""
    listening = Listening("127.0.0.1", 0, keys / "server.pem", keys / "server.key", 10**7)
    with FlowerServer(listening, public_keys(keys, 3), lambda words: None) as server:
        sites = [started(ClientProcess, keys, server, c, folder) for c in range(2)]
        sites.append(started(Rascal, keys, server, 2, folder))
        sites[2].trick, sites[2].victim = rascal, server.nodes[0]
        threads = [threading.Thread(target=one.run, daemon=True) for one in sites]
        try:
            for thread in threads:
                thread.start()
            server.wait(3, 30.0)
            yield server
        finally:
            for one in sites:
                one.finished.set()
            for thread in threads:
                thread.join(30.0)


def name(i):
    return hashlib.sha256(b"part %d" % i).hexdigest()


def chain(link):
    """A tree without branches, at whose end is the root of the one before."""
    first = link * DEEP
    tree = ObjectTree(object_id=name(first))
    if link:
        tree.children.append(ObjectTree(object_id=name(first - 1)))
    for i in range(first + 1, first + DEEP):
        tree = ObjectTree(object_id=name(i), children=[tree])
    return tree


def pushed(client, me, tree, source, run, asked):
    """Send an error from somebody in answer to a question, or to none."""
    address = source, me.node_id if source == 1 else 1
    said = Metadata(run, tree.object_id, *address, asked, "0.0", time.time(), 3600.0, "query")
    bare = message_to_proto(make_message(said, error=Error(0, "none")))
    request = PushMessagesRequest(node=me, messages_list=[bare], message_object_trees=[tree])
    client.PushMessages(request)


def deep(self, client, reply, me, run):
    """Chain trees to one that is deeper than Python's stack, in the name of the server."""
    for link in range(LINKS - 1):
        pushed(client, me, chain(link), 1, run, "")
    pushed(client, me, chain(LINKS - 1), me.node_id, run, reply.metadata.reply_to_message_id)


def foreign(self, client, reply, me, run):
    """Answer in the name of another."""
    tree = ObjectTree(object_id=name(0))
    pushed(client, me, tree, self.victim, run, reply.metadata.reply_to_message_id)


@pytest.mark.parametrize("trick", [deep, foreign])
def test_what_is_no_answer_neither_ends_the_server_nor_keeps_the_others(keys, tmp_path, trick):
    with federation(keys, tmp_path, trick) as server:
        engine, store = server.engine("run", 20.0), server._link.state.object_store
        for t in range(2):
            calls = [replace(call, context=replace(call.context, round=t)) for call in CALLS]
            found = engine.step(Answer(), calls)
            assert [o.fault for o in found] == [Fault.NONE, Fault.NONE, Fault.MALFORMED]
            assert found[2].reason == "sent what is no answer"
            assert not any(name(i) in store for i in range(LINKS * DEEP))


def test_the_store_takes_what_a_message_has_and_deletes_however_deep():
    store = Link().state.object_store
    for tree in (chain(0), ObjectTree(object_id=name(0), children=[chain(9)] * 1001)):
        with pytest.raises(ValueError, match="a message of"):
            store.preregister(1, tree)
    assert len(store) == 0
    tree = ObjectTree(object_id=name(0))
    for i in range(1, DEEP * LINKS):  # each knows the one below already
        store.preregister(1, ObjectTree(object_id=name(i), children=[tree]))
        tree = ObjectTree(object_id=name(i))
    assert len(store) == DEEP * LINKS
    store.delete(name(DEEP * LINKS - 1))
    assert len(store) == 0
