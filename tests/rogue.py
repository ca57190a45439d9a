"""A server that does not behave, over TLS on loopback, for tests of what a client bears."""

import json
import ssl
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from flwr.app import Array
from flwr.app import Message as FlowerMessage
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_to_proto
from flwr.proto import fleet_pb2 as fleet
from flwr.proto import message_pb2 as messages
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import get_object_id

from hopfed.federation.contract import Context
from hopfed.federation.machines.wire import PACKED, Request, write_request

NODE, RUN, SERVER = 7, 3, 1

_ANSWERS = {
    "activate-node": fleet.ActivateNodeResponse(node_id=NODE),
    "deactivate-node": fleet.DeactivateNodeResponse(),
    "send-node-heartbeat": None,
    "pull-messages": fleet.PullMessagesResponse(),
    "push-messages": fleet.PushMessagesResponse(),
    "confirm-message-received": messages.ConfirmMessageReceivedResponse(),
}


class Raw(bytes):
    """Bytes that go out in place of a whole HTTP answer."""


class Rogue(ThreadingHTTPServer):
    """Plays one trick after another, each time that a client asks for messages.

    A trick takes the server and returns a message, an answer (status, headers, body) or `Raw`
    bytes; or it is one of these. When there are no more, there are no more messages.
    """

    daemon_threads = True

    def __init__(self, keys, tricks):
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "server.pem", keys / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.tricks, self.objects = list(tricks), {}
        self.asked, self.pushed = [], []

    def __enter__(self):
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that closes a connection is no news."""

    @property
    def address(self):
        return f"127.0.0.1:{self.server_port}"

    def answer(self, step, body):
        """Return what a request is answered with."""
        self.asked.append(step)
        if step == "pull-messages" and self.tricks:
            trick = self.tricks.pop(0)
            trick = trick(self) if callable(trick) else trick
            return self.offered(trick) if isinstance(trick, FlowerMessage) else trick
        if step == "pull-object":
            asked = messages.PullObjectRequest.FromString(body)
            content = self.objects.get(asked.object_id)
            if not isinstance(content, bytes | None):
                return content
            found = {"object_found": content is not None, "object_available": bool(content)}
            answer = messages.PullObjectResponse(object_content=content or b"", **found)
            return 200, {}, answer.SerializeToString()
        if step == "push-messages":
            self.pushed.append(fleet.PushMessagesRequest.FromString(body))
        answer = _ANSWERS.get(step)
        return 200, {}, b"" if answer is None else answer.SerializeToString()

    def offered(self, message):
        """Offer a message as Flower does."""
        nested = get_all_nested_objects(message)
        self.objects |= {name: part.deflate() for name, part in nested.items()}
        return offer(message, get_object_tree(message))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        answer = self.server.answer(self.path.removeprefix("/v1/fleet/"), body)
        if isinstance(answer, Raw):
            self.wfile.write(answer)
            self.close_connection = True
            return
        status, headers, body = answer
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def offer(message, tree):
    """Return the answer that announces a message with a tree of parts."""
    bare = message_to_proto(remove_content_from_message(message))
    trees = [] if tree is None else [tree]
    found = fleet.PullMessagesResponse(messages_list=[bare], message_object_trees=trees)
    return 200, {}, found.SerializeToString()


def message(content, kind="query"):
    """Return a message to the client."""
    moment = now().timestamp()
    metadata = Metadata(RUN, "", SERVER, NODE, "", "0.0", moment, 1e4, kind)
    made = make_message(metadata, content)
    metadata.__dict__["_message_id"] = made.object_id
    return made


def request(run="run", last=False, down=None, **call):
    """Return a request, some entries of which are as given."""
    context = Context(0, 0, 0, 0)
    made = write_request(Request(run, context, b"", '["list", []]', {}, down or {}, last=last))
    for name, value in call.items():
        made["call"][name] = value
    return message(made)


def packed(header, body=b""):
    """Return a request whose message down is packed as said."""
    data = json.dumps(header).encode()
    data = b"hopfed-1" + len(data).to_bytes(8, "little") + data + bytes(-len(data) % 64) + body
    made = request()
    made.content["arrays"]["down"] = Array("uint8", (len(data),), PACKED, data)
    return message(made.content)


def bomb(server, times=10**6):
    """Offer an array that names the same piece of a megabyte a million times."""
    made = request(down={"w": np.zeros(2**20, np.uint8)})
    names, offered = {}, None
    for name, part in get_all_nested_objects(made).items():  # what is below comes first
        content = part.deflate()
        for old, new in names.items():
            content = content.replace(old.encode(), new.encode())
        if content.startswith(b"Array "):
            content = _repeating(content, times)
        names[name] = get_object_id(content)
        server.objects[names[name]] = content
        offered = ObjectTree(object_id=names[name])
    offered.children.extend(ObjectTree(object_id=name) for name in list(names.values())[:-1])
    return offer(made, offered)


def _repeating(content, times):
    head, _, body = content.partition(b"\0")
    kind, children, _ = head.decode().split(" ")
    body = json.dumps(json.loads(body) | {"arraychunk_ids": [0] * times}).encode()
    return part(kind, children.split(","), body)


def zipped(size):
    """Return an answer of few bytes that unpack to many."""
    return 200, {"content-encoding": "deflate"}, zlib.compress(bytes(size))


def part(kind, children=(), body=b""):
    """Return the content of a Flower object."""
    return f"{kind} {','.join(children)} {len(body)}".encode() + b"\0" + body
