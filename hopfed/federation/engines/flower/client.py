"""The client's side: one process that asks the server for work, and answers.

It speaks Flower's Fleet API as a SuperNode does, with Flower's own client: signed requests over
TLS, heartbeats, messages fetched and answers sent in objects. Unlike a SuperNode it runs the node
of the hopfed that is installed here, in this process: it neither fetches nor runs an app that the
server offers, opens no port, and does not start a new process for every message.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Context as FlowerContext
from flwr.app import Message as FlowerMessage
from flwr.app import RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node as FlowerNode
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_objects,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient

from hopfed._lib.home_folder import HOME
from hopfed._lib.other_accounts import own_folder
from hopfed.errors import ArgumentError, DataError, HopfedError, shown
from hopfed.federation.engines.flower.fleet_client import fleet_client
from hopfed.federation.engines.flower.node import Node
from hopfed.federation.engines.flower.objects import OBJECTS, assembled
from hopfed.federation.engines.flower.private import private_folder, replacing_private
from hopfed.federation.engines.flower.wire import LIMIT

LINES = 20  # about a server that makes no sense; it must not fill the log with them
FETCH = 60.0  # seconds in which all parts of a message are to be there
SOON, RARELY = 0.05, 2.0  # seconds between two questions, after an answer and after a long silence


class GarbledError(Exception):
    """What the server sent is not what a server of hopfed sends."""


class KeyInUseError(Exception):
    """Whoever has this key is at the server already, or was until moments ago."""

    def __str__(self) -> str:
        return "this key is in use by another process, here or on another machine"


@dataclass
class ClientProcess:
    """A client and its way to the server.

    Attributes
    ----------
    server : host:port.
    authority : certificate that the server's must be signed by, PEM.
    keys : private and public key.
    node : what answers.
    folder : of this client alone.
    patience : seconds without a server after which to give up.
    say : is told in words what happens.
    limit : bytes that a message of the server may have.
    finished : whether there is nothing more to wait for.
    """

    server: str
    authority: bytes
    keys: tuple[Any, Any]
    node: Node
    folder: Path
    patience: float
    say: Callable[[str], object]
    limit: int = LIMIT
    finished: threading.Event = field(default_factory=threading.Event)
    _heard: float = 0.0  # moment of the server's last word that made sense
    _told: set[str] = field(default_factory=set)  # what was said of it since it made sense
    _away: bool = True

    def run(self) -> None:
        """Answer until the federation is over, whatever the server sends.

        Raises
        ------
        HopfedError : the server is not the one of the certificate, refuses the key, or is gone.
        """
        self.node.say = self.say
        with _alone(self.folder), self._client() as client:
            try:
                self._stay(client)
            except HopfedError:  # and not where it is stopped, to go on when it is started again
                self.node.kept.close()
                raise
            self.node.kept.close()

    def _stay(self, client: FleetHttpClient) -> None:
        """Come back to the server until the federation is over."""
        app = self.node.app()
        self._heard = time.monotonic()
        while not self.finished.is_set():
            try:
                self._listen(client, app, self._activate(client))
            except HopfedError:
                raise
            except Exception as error:  # a server that was restarted knows no nodes
                self._bear(error)

    def _client(self) -> FleetHttpClient:
        try:
            return fleet_client(self.server, self.authority, self.keys)
        except (ValueError, OSError):  # OSError: what ssl raises
            raise HopfedError("--ca: not a certificate, as `hopfed certs` makes them") from None

    def _activate(self, client: FleetHttpClient) -> int:
        """Say that this client is here, and no longer where it was before it was killed."""
        path = self.folder / "node"
        before = _remembered(path)
        if before is not None:
            with suppress(httpx.HTTPStatusError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=before))
        request = ActivateNodeRequest(
            public_key=public_key_to_bytes(self.keys[1]),
            heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL,
        )
        try:
            node: int = client.ActivateNode(request).node_id
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.PRECONDITION_FAILED:
                raise KeyInUseError from None
            if error.response.status_code != httpx.codes.UNAUTHORIZED:
                raise
            raise HopfedError(
                f"{self.server} refuses this client's key: it is not of that federation, or the "
                "clocks of the two machines differ by minutes"
            ) from None
        with replacing_private(path) as temporary:
            temporary.write_text(str(node))
        if self._away:
            self.say(f"joined {self.server}")
        self._away = False
        return node

    def _listen(self, client: FleetHttpClient, app: Any, node: int) -> None:
        pause = SOON
        with _beating(client, node):
            while not self.finished.is_set():
                if self._answered(client, app, node):
                    pause = SOON
                else:
                    self.finished.wait(pause)
                    pause = min(1.3 * pause, RARELY)
            with suppress(httpx.HTTPError, ValueError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=node))

    def _answered(self, client: FleetHttpClient, app: Any, node: int) -> bool:
        """Answer one message, if there is one."""
        me = FlowerNode(node_id=node)
        found = client.PullMessages(PullMessagesRequest(node=me))
        if not found.messages_list:
            self._heard = time.monotonic()
            return False
        if not found.message_object_trees:
            raise GarbledError("a message without its parts")
        run = found.messages_list[0].metadata.run_id
        message = self._fetched(client, found.message_object_trees[0], me, run)
        if message is not None:
            context = FlowerContext(run, node, {}, RecordDict(), {})
            self._push(client, app(message, context), me, run)
            self._told.clear()
        self._heard = time.monotonic()
        return message is not None

    def _fetched(
        self, client: FleetHttpClient, tree: ObjectTree, me: FlowerNode, run: int
    ) -> FlowerMessage | None:
        """Fetch a message; None where it was withdrawn meanwhile."""
        names = list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree)))
        if len(names) > OBJECTS:
            raise GarbledError(f"a message of {len(names)} parts")
        pull = make_pull_object_fn_protobuf(client.PullObject, me, run)
        size = 0

        def bounded(name: str) -> bytes:
            nonlocal size
            content: bytes = pull(name)
            size += len(content)
            if size > self.limit:
                raise GarbledError(f"a message of more than {self.limit / 1e6:g} MB")
            return content

        try:
            parts = pull_objects(names, bounded, max_time=min(self.patience, FETCH))
        except ObjectPullError:
            return None
        make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, me, run)(
            tree.object_id
        )
        try:
            return assembled(tree.object_id, parts.get, self.limit)
        except DataError as error:
            raise GarbledError(str(error)) from None

    def _push(
        self, client: FleetHttpClient, reply: FlowerMessage, me: FlowerNode, run: int
    ) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        request = PushMessagesRequest(
            node=me,
            messages_list=[message_to_proto(remove_content_from_message(reply))],
            message_object_trees=[get_object_tree(reply)],
        )
        try:
            told = client.PushMessages(request)
            push = make_push_object_fn_protobuf(client.PushObject, me, run, told.session_id)
            wanted = set(told.objects_to_push)
            push_objects(get_all_nested_objects(reply), push, object_ids_to_push=wanted)
        except ObjectPushError:  # the question was withdrawn meanwhile
            return
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.REQUEST_ENTITY_TOO_LARGE:
                raise
            self.say("the server refused the answer: it is larger than its limit")

    def _bear(self, error: Exception) -> None:
        """Wait a while after a failure, or give up."""
        if isinstance(error, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise HopfedError(
                f"{self.server}: its certificate is not signed by the authority in --ca, or is not "
                f"for this address; nothing was sent"
            )
        words = _words(error)
        silent = time.monotonic() - self._heard
        if silent > self.patience:
            raise HopfedError(f"{self.server}: {words}, for {silent:.0f} s{_way(error)}")
        if words not in self._told and len(self._told) < LINES:
            way = f"{_way(error)}; asked again for {self.patience:.0f} s (--patience)"
            self.say(f"waiting for {self.server}: {words}{way}")
            self._told.add(words)
            self._away = True
        self.finished.wait(min(0.2 + silent / 4, RARELY))


def _words(error: Exception) -> str:
    """What went wrong, in one line of which the server chose nothing that steers a terminal."""
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, (httpx.HTTPError, GarbledError, KeyInUseError)):
        return shown(first.rstrip(".") or "no connection")
    return shown(f"what it sends makes no sense ({type(error).__name__}: {first})")


def _way(error: Exception) -> str:
    """What to look at where nobody answers."""
    if not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return ""
    return (
        "; does hopfed serve run there, with this address and port (--listen), and let others in?"
    )


def _remembered(path: Path) -> int | None:
    """Number of the node that this client was, None where that is not known."""
    try:
        number = int(path.read_bytes()[:30])
    except (OSError, ValueError):
        return None
    return number if 0 <= number < 1 << 64 else None


def client_folder(home: Path, public: Any) -> Path:
    """Folder of the client that has this key, for its owner alone.

    Raises
    ------
    ArgumentError : it cannot be made, or nothing can be written there.
    """
    folder = home / "sites" / hashlib.sha256(public_key_to_bytes(public)).hexdigest()[:16]
    try:
        own_folder(home)
        for mine in (folder.parent, folder):
            private_folder(mine)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        rule = f"a folder that can be used ({getattr(error, 'strerror', None) or error})"
        raise ArgumentError(HOME, rule, home) from None
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second process of the same client out."""
    path = folder / "lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HopfedError(f"{path}: cannot be used: {error.strerror}") from None
    with open(handle, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HopfedError("this client is running already, in another process") from None
        yield


@contextmanager
def _beating(client: FleetHttpClient, node: int) -> Iterator[None]:
    """Tell the server now and then that the node is there, however long a step takes."""
    over = threading.Event()

    def beat() -> None:
        request = SendNodeHeartbeatRequest(
            node=FlowerNode(node_id=node), heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        while not over.wait(HEARTBEAT_DEFAULT_INTERVAL / 3):
            with suppress(httpx.HTTPError, ValueError):  # ValueError: an answer that is none
                client.SendNodeHeartbeat(request)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
