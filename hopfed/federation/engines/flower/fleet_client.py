"""Flower's client of a server, with bounds on the bytes and seconds of an answer.

Flower's client reads whatever it is sent, as long as it is sent something, unpacks it, and goes
where it is sent to. Here an answer is read within bounds and as it stands; a redirection is an
error like any other.
"""

from __future__ import annotations

import math
import ssl
import time
from typing import Any

import httpx
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from hopfed.federation.engines.flower.requests import PIECE

SECONDS = 30.0  # without a byte
LONGEST = 300.0  # seconds that an answer may take


class Connection(ssl.SSLSocket):
    """A connection in which an answer takes LONGEST seconds at most.

    The time runs from the request: before its answer a server may send any number of lines that
    say to go on waiting.
    """

    _asked = math.inf

    def send(self, data: Any, flags: int = 0) -> int:
        """Send bytes of a request."""
        self._asked = time.monotonic()
        return super().send(data, flags)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive bytes of its answer."""
        if time.monotonic() - self._asked > LONGEST:
            raise TimeoutError(f"an answer that takes more than {LONGEST:.0f} s")
        return super().recv(buflen, flags)


class Answers:
    """The last of the interceptors of a Flower client: sends the request itself.

    Parameters
    ----------
    trust : what the server's certificate is checked against.
    limit : bytes that an answer may have.
    """

    def __init__(self, trust: ssl.SSLContext, limit: int = PIECE):
        self.limit = limit
        self._client = httpx.Client(verify=trust, timeout=SECONDS, follow_redirects=False)

    def intercept(self, context: ProtobufRequestContext, _: ProtobufCall) -> httpx.Response:
        """Send a request, and read the answer."""
        request = context.request
        request.headers["accept-encoding"] = "identity"
        response = self._client.send(request, stream=True)
        try:
            return httpx.Response(
                response.status_code, content=self._read(response), request=request
            )
        finally:
            response.close()
            self._client.cookies.clear()  # nothing of a server stays but what was asked for

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _read(self, response: httpx.Response) -> bytes:
        content, end = bytearray(), time.monotonic() + LONGEST
        for piece in response.iter_raw():
            content += piece
            if len(content) > self.limit:
                raise httpx.ReadError(f"an answer of more than {self.limit / 1e6:.1f} MB")
            if time.monotonic() > end:
                raise httpx.ReadError(f"an answer that takes more than {LONGEST:.0f} s")
        return bytes(content)


def fleet_client(server: str, authority: bytes, keys: tuple[Any, Any]) -> FleetHttpClient:
    """Return Flower's client, whose requests are signed and whose answers are bounded.

    Raises
    ------
    ValueError, OSError : `authority` is no certificate.
    """
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.sslsocket_class = Connection
    trust.load_verify_locations(cadata=authority.decode("ascii"))
    return _Fleet(server, trust, keys)


class _Fleet(FleetHttpClient):
    def __init__(self, server: str, trust: ssl.SSLContext, keys: tuple[Any, Any]):
        self._answers = Answers(trust)
        signed = NodeAuthHttpInterceptor(*keys)
        super().__init__(f"https://{server}", interceptors=[signed, self._answers], verify=trust)

    def close(self) -> None:
        """Close the connections."""
        self._answers.close()
        super().close()
