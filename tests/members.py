"""Clients that have a key, some of which do not behave, for tests of the server on loopback."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import PushObjectRequest

from hopfed.federation.contract import Context
from hopfed.federation.engines import Call
from hopfed.federation.engines.flower.client import ClientProcess
from hopfed.federation.machines.kept_states import KeptStates
from hopfed.federation.machines.keys import private_key
from hopfed.federation.machines.node import Node
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


def started(kind, keys, server, c, folder=None):
    """Return a client with a key, and a folder of its own, that is to be run."""
    folder = (folder or keys.parent) / f"site-{c}"
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
