"""A cache of bounded size for results of pure functions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any


class Recent:
    """Keep the most recently used results, up to a total of `room` bytes."""

    def __init__(self, room: int, size: Callable[[Any], int] = attrgetter("nbytes")):
        self.room, self.size, self.used = room, size, 0
        self.held: OrderedDict[Hashable, Any] = OrderedDict()
        self.sizes: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result kept under `key`, or make it by `make` and keep it."""
        with self._lock:
            if key in self.held:
                self.held.move_to_end(key)
                return self.held[key]
        made = make()  # without the lock: it may use this cache, or take long
        self.put(key, made)
        return made

    def put(self, key: Hashable, made: Any) -> None:
        """Keep a result under `key`, as large as it is now."""
        with self._lock:
            self.held[key] = made
            self.held.move_to_end(key)
            self.used += self.size(made) - self.sizes.get(key, 0)
            self.sizes[key] = self.size(made)
            while self.used > self.room and len(self.held) > 1:
                self.used -= self.sizes.pop(self.held.popitem(last=False)[0])
