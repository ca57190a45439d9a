"""Names of columns for `hopfed join`: are they those of the federation, and what is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopfed.errors import OtherColumnsError

if TYPE_CHECKING:
    from hopfed.federation.messages import Message
    from hopfed.hopfield.site.named_owner import NamedOwner

OUT = (".npy", ".csv", ".json", ".parquet")  # endings of what a client writes
TRAVELS = (
    "Names of columns do not leave. But a server that tells its own learns whether yours are "
    "these, and one that tells none gets two digests of yours (SHA-256), by which it can see "
    "whether a guess of all of them is right.\n"
)


@dataclass
class Joined:
    """The owner of a table in a federation, and whether its columns are those of that.

    Attributes
    ----------
    named : the owner.
    say : is told in words what it would not hear of otherwise.
    refused : why the columns are others.
    """

    named: NamedOwner
    say: Callable[[str], object]
    refused: OtherColumnsError | None = None
    _said: bool = False

    def adapt(self, method: Any, request: Any) -> Any:
        """As `NamedOwner.adapt`; remembers a refusal."""
        try:
            adapted = self.named.adapt(method, request.columns, request.run)
        except OtherColumnsError as error:
            self.refused = error
            raise
        self._say_place(method, request.columns)
        return adapted

    def order(self, request: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Columns of the federation (N,) in the order of the file, and as they are called."""
        return self.named.order(request.columns, request.run)

    def _say_place(self, method: Any, told: Message) -> None:
        """Say once that columns go by place where names might tell otherwise."""
        from hopfed.hopfield.headers import Headers, kind_of

        if self._said or isinstance(method, Headers):
            return
        self._said = True
        kind, names = kind_of(told), bool(self.named.names)
        if names and not kind:
            self.say("columns go by place: the server says nothing of their names")
        elif not names and kind:
            self.say("this table has no names of columns, and others have: its columns go by place")


def write_found(path: Path, found: np.ndarray, names: Sequence[str] | None) -> None:
    """Write archetypes (K, N): an array, or a table with the names of its columns.

    Parameters
    ----------
    path : of the file, with one of the endings OUT.
    found : patterns or means.
    names : of the columns; None where they have none.
    """
    from hopfed._lib.outputs import replacing
    from hopfed.data.writers import write
    from hopfed.tables.table import made_up

    if path.suffix.lower() != ".npy":
        called = made_up(found.shape[1]) if names is None else names
        write(path, list(zip(called, found.T, strict=True)), endings=OUT)
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.save(file, found)
