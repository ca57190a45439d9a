"""Clients that stall, or send what is no answer: the server goes on with the others."""

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from flwr.app import Error
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest
from members import CALLS, Answer, Rascal, started

from hopfed.federation.engines.flower import server as flower_server
from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.machines.keys import make_keys, public_keys
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
def listening(keys):
    where = Listening("127.0.0.1", 0, keys / "server.pem", keys / "server.key", 10**7)
    with FlowerServer(where, public_keys(keys, 3), lambda words: None) as server:
        yield server


@contextmanager
def running(*sites):
    """Threads of clients, which are to be started; all of them end with the context."""
    threads = [threading.Thread(target=one.run, daemon=True) for one in sites]
    try:
        yield threads
    finally:
        for one in sites:
            one.finished.set()
        for thread in threads:
            if thread.ident is not None:
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
    with listening(keys) as server:
        sites = [started(ClientProcess, keys, server, c, tmp_path) for c in range(2)]
        sites.append(started(Rascal, keys, server, 2, tmp_path))
        sites[2].trick, sites[2].victim = trick, server.nodes[0]
        with running(*sites) as threads:
            for thread in threads:
                thread.start()
            server.wait(3, 30.0)
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


class Stalls(ClientProcess):
    """Fetches the same part of its question again and again, and answers when it is told to."""

    def _push(self, client, reply, me, run):
        asked = reply.metadata.reply_to_message_id
        self.stalling.set()
        while not self.released.wait(0.1) and time.monotonic() < self.end:
            client.PullObject(PullObjectRequest(node=me, run_id=run, object_id=asked))
        super()._push(client, reply, me, run)


def stalling(keys, server, folder, seconds):
    made = started(Stalls, keys, server, 0, folder)
    made.stalling, made.released = threading.Event(), threading.Event()
    made.end = time.monotonic() + seconds
    return made


def test_who_stalls_does_not_keep_the_others_from_being_asked(keys, tmp_path):
    """Of ten that came within a second, one was asked, and stalled until the time was over."""
    with listening(keys) as server:
        first = stalling(keys, server, tmp_path, 30.0)
        others = [started(ClientProcess, keys, server, c, tmp_path) for c in (1, 2)]
        with running(first, *others) as threads, ThreadPoolExecutor(1) as pool:
            threads[0].start()
            server.wait(1, 30.0)
            step = pool.submit(server.engine("run", 9.0).step, Answer(), CALLS)
            assert first.stalling.wait(30.0)
            for thread in threads[1:]:
                thread.start()
            found = step.result(60.0)
            first.released.set()
    assert [o.fault for o in found] == [Fault.TIMED_OUT, Fault.NONE, Fault.NONE]


def test_who_asks_for_the_same_again_and_again_prolongs_nothing(keys, tmp_path, monkeypatch):
    monkeypatch.setattr(flower_server, "GOODBYE", 600.0)
    with listening(keys) as server:
        first = stalling(keys, server, tmp_path, 20.0)
        with running(first) as (thread,):
            thread.start()
            server.wait(1, 30.0)
            server.engine("run", 60.0).tell(Answer(), CALLS[:1], 1.0)
            assert time.monotonic() < first.end, "it was waited for as long as it stalled"
            first.released.set()
