"""A server that does not behave, over TLS on loopback, for tests of what a client bears."""

import json
from concurrent import futures
from dataclasses import replace

import grpc

from hopfed.federation.contract import Context
from hopfed.federation.machines.server import CALL, NUMBER, OPTIONS, WELCOME
from hopfed.federation.machines.wire import Gathered, Request, parts, write_request

ASKED = Request(Context(0, 0, 0, 0), '["list", {}]', {}, {})


class Raw(list):
    """Parts that go down as they are, whatever they are."""


class Rogue:
    """Plays one trick after another: bytes of a question, `Raw` parts, or a code that ends it."""

    def __init__(self, keys, tricks):
        self.keys, self.tricks, self.answers = keys, list(tricks), []

    def __enter__(self):
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._session)
        service, _, name = CALL[1:].partition("/")
        generic = grpc.method_handlers_generic_handler(service, {name: handler})
        self._server.add_generic_rpc_handlers((generic,))
        key, chain, ca = (
            (self.keys / n).read_bytes() for n in ("server.key", "server.pem", "ca.pem")
        )
        credentials = grpc.ssl_server_credentials([(key, chain)], ca, require_client_auth=True)
        self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def _session(self, requests, context):
        context.send_initial_metadata((WELCOME,))
        while self.tricks:
            trick = self.tricks.pop(0)
            if isinstance(trick, grpc.StatusCode):
                context.abort(trick, "\x1b]0;owned\x07 gone")
            if isinstance(trick, Raw):
                yield from trick
                return  # the next one is for when the client is back
            yield from parts(bytes(NUMBER) + trick)
            self.answers.append(self._answer(requests))

    def _answer(self, requests):
        gathered = Gathered(1 << 28)
        for part in requests:
            if (whole := gathered.add(part)) is not None:
                return whole[NUMBER:]
        return b""


def request(**changes):
    """Bytes of a question; entries of its context, of `Request`, or of the JSON may be given."""
    context = {k: changes.pop(k) for k in ("round", "exchange", "client") if k in changes}
    made = {k: changes.pop(k) for k in list(changes) if hasattr(ASKED, k)}
    data = write_request(replace(ASKED, context=replace(ASKED.context, **context), **made))
    return worded(data, changes) if changes else data


def worded(data, changes):
    """Bytes of a message with other words in its JSON."""
    size = int.from_bytes(data[8:16], "little")
    entries = json.loads(data[16 : 16 + size])
    (_, _, (length,)), start = entries[0], 16 + size
    words = json.dumps(json.loads(data[start : start + length]) | changes).encode()
    entries[0][2] = [len(words)]
    rest = data[start + length + -length % 64 :]
    return packed(entries, words + bytes(-len(words) % 64) + rest)


def packed(entries, body=b""):
    """Bytes whose header is as said."""
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    header += b" " * (-(16 + len(header)) % 64)
    return b"hopfed-1" + len(header).to_bytes(8, "little") + header + body
