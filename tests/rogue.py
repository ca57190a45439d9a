"""A server that does not behave, over TLS on loopback, for tests of what a client bears."""

import json
from concurrent import futures

import numpy as np

from hopfed.errors import HopfedError
from hopfed.federation.contract import Call, Context
from hopfed.federation.machines.client import ClientProcess, grpc
from hopfed.federation.machines.keys import own_key, read_authority
from hopfed.federation.machines.wire import OPTIONS, SERVICE, SESSION, WELCOME, write_question
from hopfed.federation.messages import pack, unpack


class Rogue:
    """Plays one trick after another: bytes of a question, or a code that ends the stream."""

    def __init__(self, keys, tricks):
        self.keys, self.tricks = keys, list(tricks)

    def __enter__(self):
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=OPTIONS)
        handler = {SESSION: grpc.stream_stream_rpc_method_handler(self.session)}
        generic = grpc.method_handlers_generic_handler(SERVICE, handler)
        self._server.add_generic_rpc_handlers((generic,))
        certificate, key = own_key(self.keys / "server.key", "--keys")
        ca = read_authority(self.keys / "ca.pem", "--keys")
        pairs = [(key, certificate)]
        credentials = grpc.ssl_server_credentials(pairs, ca, require_client_auth=True)
        self.address = f"127.0.0.1:{self._server.add_secure_port('127.0.0.1:0', credentials)}"
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()

    def session(self, answers, context):
        context.send_initial_metadata((WELCOME,))
        while self.tricks:
            trick = self.tricks.pop(0)
            if isinstance(trick, grpc.StatusCode):
                context.abort(trick, "\x1b]0;owned\x07 gone")
            yield trick
            if next(answers, None) is None:  # the next one is for when the client is back
                return


def client(keys, address, node, c=0, patience=20.0):
    """A client of these keys."""
    own, ca = own_key(keys / f"client-{c}.key", "--key"), read_authority(keys / "ca.pem", "--ca")
    return ClientProcess(address, ca, own, node, patience)


def leave(client):
    """End a client, whatever is under way."""
    client.node.ended = HopfedError("enough")
    if client._stream is not None:
        client._stream.cancel()


def question(down=(), recipe='["list", {}]', last=False):
    """Bytes of a question."""
    return write_question(Call({}, dict(down), Context(0, 0, 0, 0)), recipe, last)


def worded(data, **changes):
    """Bytes of a message with other words."""
    arrays = unpack(np.frombuffer(bytearray(data), np.uint8))
    words = json.loads(arrays[""].tobytes()) | changes
    arrays[""] = np.frombuffer(json.dumps(words).encode(), np.uint8)
    return pack(arrays).tobytes()
