"""The messages of an exchange across machines: who is asked, who is waited for, and how long."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

from flwr.app import Message as FlowerMessage
from flwr.app.error import Error
from flwr.app.message import remove_content_from_message
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
)
from flwr.superlink.grid import InMemoryGrid

from hopfed.errors import DataError
from hopfed.federation.engines.flower.engine import UNREADABLE, Late
from hopfed.federation.engines.flower.link import Link
from hopfed.federation.engines.flower.objects import assembled
from hopfed.federation.engines.flower.requests import RequestFilter

PULL = 0.05  # seconds between two looks for replies


def nobody() -> list[FlowerMessage]:
    """Messages to those who came late, where nobody is waited for."""
    return []


class ServerGrid(InMemoryGrid):
    """Flower's grid on a link whose messages are stored in objects, as clients fetch them.

    Attributes
    ----------
    until : moment up to which clients are waited for, whoever is still at it.
    """

    def __init__(self, link: Link, requests: RequestFilter, keys: dict[int, bytes]):
        super().__init__(link.factory, pull_interval=PULL)
        self.set_run(link.run)
        self._id, self.requests, self._keys = link.run_id, requests, keys
        self._objects = link.objects
        self._arriving: dict[str, FlowerMessage] = {}
        self._asked: dict[str, FlowerMessage] = {}
        self._parts: dict[str, set[str]] = {}  # objects of each question
        self._moved: dict[str, tuple[int, float]] = {}  # how far each got, and when
        self.until = math.inf

    def send_and_receive(
        self,
        messages: Iterable[FlowerMessage],
        *,
        timeout: float | None = None,
        late: Late = nobody,
    ) -> Iterator[FlowerMessage]:
        """Send messages, also to those who come `late`, and yield the answers as they come.

        It ends when everybody has answered, when none of those who have not answered has got any
        further for `timeout` seconds, and at the moment `until`. Whoever stalls delays nobody
        else: the others are asked meanwhile. Clients that send at the same time are done at about
        the same time. If they were asked again before that, what they had sent would be lost, and
        they would begin again, without end.
        """
        self.push_messages(messages)
        while self._asked:
            yield from self.pull_messages(list(self._asked))
            for message in late():
                self._store(message)
            now = time.monotonic()
            quiet = self._quiet(now)
            if now > self.until or (timeout is not None and quiet > timeout):
                return
            time.sleep(self.pull_interval)

    def _quiet(self, now: float) -> float:
        """Seconds since anybody who has not answered got further with it than ever before."""
        moved = {}
        for asked in self._asked:
            before, since = self._moved.get(asked, (-1, now))
            far = self._progress(asked)
            moved[asked] = (far, now) if far > before else (before, since)
        self._moved = moved
        return now - max((since for _, since in moved.values()), default=-math.inf)

    def _progress(self, asked: str) -> int:
        """Steps towards the answer: parts fetched, the question confirmed, parts of the answer."""
        reply = self._arriving.get(asked)
        key = self._keys[self._asked[asked].metadata.dst_node_id]
        fetched = len(self._parts[asked] & self.requests.fetched[key])
        came = 0 if reply is None else 1 + self._objects.available(reply.metadata.message_id)
        return fetched + (asked not in self._objects) + came

    def push_messages(self, messages: Iterable[FlowerMessage]) -> Iterable[str]:
        """Store messages for the nodes they are for; what they left unanswered is withdrawn."""
        for asked in list(self._asked):
            self._withdraw(asked)
        # What else is there came unasked, or is the beginning of what never became whole.
        self.state.delete_sessions_in_run(self._id)
        self.state.object_store.clear()
        self.requests.renew()
        self._moved.clear()
        for message in messages:
            self._store(message)
        return list(self._asked)

    def _store(self, message: FlowerMessage) -> None:
        message.metadata.__dict__["_message_id"] = message.object_id
        objects, tree = get_all_nested_objects(message), get_object_tree(message)
        self.requests.offered[self._keys[message.metadata.dst_node_id]] |= set(objects)
        session = self.state.start_session(self._id)
        bare = remove_content_from_message(message)
        stored, names = self.state.store_message_and_object_tree(bare, tree, session)
        for name in names:
            self.state.store_object(self._id, session, name, objects[name].deflate())
        if stored:
            self._asked[message.object_id] = message
            self._parts[message.object_id] = set(objects)

    def _remind(self) -> None:
        """Ask those again who came back without the message that they fetched before."""
        joined = {self.requests.joined.pop() for _ in range(len(self.requests.joined))}
        for asked, message in list(self._asked.items()):
            if self._keys[message.metadata.dst_node_id] in joined:
                self._withdraw(asked)
                self._store(message)

    def _withdraw(self, asked: str) -> None:
        self.state.delete_messages({asked})
        self.state.object_store.delete(asked)
        self._arriving.pop(asked, None)
        self._asked.pop(asked, None)
        self._parts.pop(asked, None)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[FlowerMessage]:
        """Replies that are here as a whole, or that will not come."""
        self._remind()
        # Asked of again, a reply on its way would be taken for one that never comes.
        wanted = (set(message_ids) & set(self._asked)) - set(self._arriving)
        for reply in self.state.get_message_res(message_ids=wanted, run_id=self._id):
            self._arriving[reply.metadata.reply_to_message_id] = reply
        silent = wanted - set(self._arriving)
        done = [self._arrived(asked) for asked in list(self._arriving)]
        refused = [self._refused(asked) for asked in silent]
        return [message for message in (*done, *refused) if message is not None]

    def _arrived(self, asked: str) -> FlowerMessage | None:
        """Return the reply to `asked`, None while parts of it are missing."""
        reply, store = self._arriving[asked], self.state.object_store
        name = reply.metadata.message_id
        if reply.has_error():
            store.delete(name)
            return self._closed(asked, reply)
        try:
            whole = assembled(name, store.get, self.requests.limit)
        except DataError as error:
            store.delete(name)
            return self._error(asked, str(error))
        if whole is None:
            return self._refused(asked)
        store.delete(name)
        if not whole.has_content():
            return self._error(asked, "a message without content")
        # What is inside says who wrote it, too; that is known from the key.
        return self._closed(asked, FlowerMessage(whole.content, reply_to=self._asked[asked]))

    def _refused(self, asked: str) -> FlowerMessage | None:
        words = self.requests.refused.get(self._keys[self._asked[asked].metadata.dst_node_id])
        return None if words is None else self._error(asked, words)

    def _error(self, asked: str, words: str) -> FlowerMessage:
        reply = FlowerMessage(Error(UNREADABLE, words), reply_to=self._asked[asked])
        return self._closed(asked, reply)

    def _closed(self, asked: str, reply: FlowerMessage) -> FlowerMessage:
        self._withdraw(asked)
        return reply
