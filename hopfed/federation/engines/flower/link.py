"""Flower's link state, and a run in it."""

from __future__ import annotations

import logging
from typing import Any

from flwr.common.constant import SUPERLINK_NODE_ID, Status
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager

from hopfed.federation.engines.flower.objects import check_tree


class Link:
    """A link state in memory with one run that is under way.

    Attributes
    ----------
    factory, state : what Flower's own parts take, and the state itself.
    objects : parts of messages.
    run : the run.
    """

    def __init__(self) -> None:
        # Its errors quote what was sent, as it was sent; ours are told by whoever asks.
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        objects = ObjectStoreFactory()
        self.objects = objects.store_instance = Objects()
        self.factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), objects)
        self.state = self.factory.state()
        self.run_id = self.state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, None, TaskType.SERVER_APP
        )
        (self.run,) = self.state.get_run_info(run_ids=[self.run_id])
        self.task_id = self.run.primary_task_id or 0
        # The app of this run is this process: nobody else is to claim it.
        self.state.task_store[self.task_id].status.status = Status.RUNNING
        self.enter()

    def enter(self) -> None:
        """Speak for this run: Flower writes it into every message of the process."""
        TaskIdentity.task_id = self.task_id
        TaskIdentity.run_id = self.run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID


class Objects(InMemoryObjectStore):
    """Flower's store, which registers the objects of a message as one, and only what a message has.

    Equal objects of several messages are kept once. Registered one by one, an object that another
    message leaves behind at the same moment may be gone before its new owner is counted. All are
    asked for, also those that are here: a client that announces what it guesses of the answer of
    another would otherwise know which guess is right.
    """

    def preregister(self, run_id: int, object_tree: Any) -> list[str]:
        """Register the objects of a message; the names of all of them, for they are to be sent.

        Raises
        ------
        ValueError : they are more, or further below one another, than those of a message.
        """
        check_tree(object_tree)
        with self.lock_store:
            super().preregister(run_id, object_tree)
        return list(dict.fromkeys(part.object_id for part in iterate_object_tree(object_tree)))

    def delete(self, object_id: str) -> None:
        """Delete an object, and what is below it that nothing else names, however far below."""
        with self.lock_store:
            left = [object_id]
            while left:
                name = left.pop()
                entry = self.store.get(name)
                if entry is None or entry.ref_count > 0:
                    continue
                del self.store[name]
                for run in entry.runs:
                    self.run_objects_mapping[run].discard(name)
                for child in entry.child_object_ids:
                    self.store[child].ref_count -= 1
                left += entry.child_object_ids

    def available(self, object_id: str) -> int:
        """Return how many of an object and those below it are here."""
        with self.lock_store:
            found: dict[str, bool] = {}
            left = [object_id]
            while left:
                name = left.pop()
                entry = self.store.get(name)
                if entry is not None and name not in found:
                    found[name] = entry.is_available
                    left += entry.child_object_ids
            return sum(found.values())
