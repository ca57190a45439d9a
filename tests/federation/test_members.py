"""A client that has a key and does not behave, over TLS on loopback: the others go on."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
)
from rogue import part

from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.engines.flower.kept_states import KeptStates
from hopfed.federation.engines.flower.keys import make_keys, private_key, public_keys
from hopfed.federation.engines.flower.node import Node
from hopfed.federation.engines.flower.server import FlowerServer, Listening
from hopfed.federation.faults import Fault
from hopfed.federation.messages import Field


@dataclass(frozen=True)
class Answer:
    """Every client answers a thousand numbers."""

    def client_start(self, client, seed):
        return {}

    def client_step(self, state, down, context):
        return state, {"w": np.full(1000, float(context.client))}, {}

    def expects(self, down, context):
        return {"w": Field((1000,), "f")}


class Rascal(ClientProcess):
    """Answers as its trick says."""

    trick: Any = None

    def _push(self, client, reply, me, run):
        reply.metadata.__dict__["_message_id"] = reply.object_id
        self.trick(self, client, reply, me, run)

    def announce(self, client, reply, me, tree):
        bare = message_to_proto(remove_content_from_message(reply))
        return client.PushMessages(
            PushMessagesRequest(node=me, messages_list=[bare], message_object_trees=[tree])
        )

    def send(self, client, me, run, told, contents):
        for name in told.objects_to_push:
            if name in contents:
                client.PushObject(
                    PushObjectRequest(
                        node=me,
                        run_id=run,
                        session_id=told.session_id,
                        object_id=name,
                        object_content=contents[name],
                    )
                )


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


def started(kind, keys, server, c):
    folder = keys.parent / f"site-{c}"
    folder.mkdir()
    made = kind(
        f"127.0.0.1:{server.port}",
        (keys / "ca.pem").read_bytes(),
        private_key(keys / f"client-{c}.key"),
        Node(KeptStates(folder / "states"), trusted=None),
        folder,
        patience=20.0,
        say=lambda words: None,
    )
    made.node.watch = lambda request, _: made.finished.set() if request.last else None
    return made


CALLS = [Call({}, {}, Context(0, 0, 0, c)) for c in range(3)]


@pytest.mark.parametrize(
    ("trick", "fault"),
    [
        (doubled, Fault.TIMED_OUT),
        (never_whole, Fault.TIMED_OUT),
        (poisoned, Fault.TIMED_OUT),
        (bomb, Fault.MALFORMED),
        (noise, Fault.MALFORMED),
        (no_parts, Fault.MALFORMED),
        (another, Fault.NONE),
    ],
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
