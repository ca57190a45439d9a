"""A client that has a key and does not behave, over TLS on loopback: the others go on."""

import threading
from dataclasses import replace

import pytest
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
)
from helpers import rest_slow
from members import CALLS, Answer, Rascal, started
from rogue import part

from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.machines.keys import make_keys, public_keys
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.faults import Fault


def contents_of(reply):
    return {name: one.deflate() for name, one in get_all_nested_objects(reply).items()}


def doubled(self, client, reply, me, run):
    """A tree of which every part has the one below twice, ninety levels deep."""
    names = [get_object_id(b"%d" % i) for i in range(90)]
    tree = ObjectTree(object_id=names[0])
    for name in names[1:]:
        again = ObjectTree(object_id=tree.object_id)
        tree = ObjectTree(object_id=name, children=[tree, again])
    self.announce(client, reply, me, ObjectTree(object_id=reply.object_id, children=[tree]))


def never_whole(self, client, reply, me, run):
    """All parts but one."""
    contents = contents_of(reply)
    told = self.announce(client, reply, me, get_object_tree(reply))
    contents.pop(reply.content.object_id)
    self.send(client, me, run, told, contents)


def bomb(self, client, reply, me, run):
    """An array that names its piece a million times."""
    names, contents = {}, {}
    for name, content in contents_of(reply).items():
        for old, new in names.items():
            content = content.replace(old.encode(), new.encode())
        if content.startswith(b"Array "):
            body = b'{"dtype": "u1", "shape": [1], "stype": "x", "arraychunk_ids": %s}'
            piece = content.partition(b"\0")[0].decode().split(" ")[1]
            content = part("Array", [piece], body % str([0] * 10**6).encode())
        names[name] = get_object_id(content)
        contents[names[name]] = content
    root = names[reply.object_id]
    reply.metadata.__dict__["_message_id"] = root
    tree = ObjectTree(object_id=root)
    tree.children.extend(ObjectTree(object_id=name) for name in contents if name != root)
    self.send(client, me, run, self.announce(client, reply, me, tree), contents)


def noise(self, client, reply, me, run):
    """Parts of a kind that there is not."""
    content = part("Message", body=b"\xff" * 50)
    root = get_object_id(content)
    reply.metadata.__dict__["_message_id"] = root
    told = self.announce(client, reply, me, ObjectTree(object_id=root))
    self.send(client, me, run, told, {root: content})


def no_parts(self, client, reply, me, run):
    """An answer that speaks of nothing that is sent."""
    self.announce(client, reply, me, ObjectTree(object_id="0" * 64))


def poisoned(self, client, reply, me, run):
    """Parts that others send as well, announced with parts below that never come."""
    tree = get_object_tree(reply)
    for below in tree.children[0].children:
        below.children.append(ObjectTree(object_id="1" * 64))
    self.announce(client, reply, me, tree)


def another(self, client, reply, me, run):
    """An answer that says inside that another client wrote it."""
    reply.metadata.__dict__["_src_node_id"] = self.victim
    contents = contents_of(reply)
    root = reply.object_id
    reply.metadata.__dict__["_message_id"] = root
    tree = get_object_tree(reply)
    reply.metadata.__dict__["_src_node_id"] = me.node_id
    self.send(client, me, run, self.announce(client, reply, me, tree), contents)


@pytest.fixture
def keys(tmp_path):
    make_keys(tmp_path / "keys", 3, ["127.0.0.1"])
    return tmp_path / "keys"


@pytest.mark.parametrize(
    ("trick", "fault"),
    rest_slow(
        [
            (doubled, Fault.MALFORMED),
            (never_whole, Fault.TIMED_OUT),
            (bomb, Fault.MALFORMED),
            (another, Fault.NONE),
            (poisoned, Fault.TIMED_OUT),
            (noise, Fault.MALFORMED),
            (no_parts, Fault.MALFORMED),
        ],
        4,
    ),
)
def test_the_others_are_heard(keys, trick, fault):
    listening = Listening("127.0.0.1", 0, keys / "server.pem", keys / "server.key", 10**7)
    with FlowerServer(listening, public_keys(keys, 3), lambda words: None) as server:
        sites = [started(Rascal if c == 1 else ClientProcess, keys, server, c) for c in range(3)]
        sites[1].trick, sites[1].victim = trick, server.nodes[0]
        threads = [threading.Thread(target=one.run) for one in sites]
        for thread in threads:
            thread.start()
        server.wait(3, 30.0)
        engine, store = server.engine("run", 8.0), server._link.state.object_store
        for t in range(2):
            calls = [replace(call, context=replace(call.context, round=t)) for call in CALLS]
            found = engine.step(Answer(), calls)
            assert [o.fault for o in found] == [Fault.NONE, fault, Fault.NONE]
            for c in (0, 2) if fault else (0, 1, 2):
                assert found[c].message["w"].tolist() == [float(c)] * 1000
        engine.tell(Answer(), CALLS, 0.5)
        sites[1].finished.set()
        for thread in threads:
            thread.join(15.0)
            assert not thread.is_alive()
        list(engine.grid.push_messages([]))  # the next exchange begins
        assert len(store) == 0, "what never became whole is not kept"
