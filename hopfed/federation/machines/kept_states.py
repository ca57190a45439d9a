"""States that stay with the clients of a node, by run, client and name.

The server knows a state by its name, a digest of its arrays, and chooses the names of runs and the
numbers of clients. What it chooses cannot lead out of the folder, and cannot fill the disk: the
last states of a client and the last few clients and runs are kept.

A state in the middle of a round may hold examples. It is removed when the next round begins, and
when the client ends or gives up; what a round ends with is kept, as a server that is resumed goes
on from it.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

import numpy as np

from hopfed.errors import DataError, LocalError
from hopfed.federation.contract import State
from hopfed.federation.machines.private import private_folder, replacing_private
from hopfed.federation.messages import as_message, digest
from hopfed.federation.packing import chunks, unpack

KEPT = 8  # states of a client that are kept: those of two rounds and more
OPEN = "open.state"  # ending of a state in the middle of a round
RUNS = 4  # runs of which states are kept, and clients of each

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")  # not hidden, and no way up


@dataclass
class KeptStates:
    """States of the clients at this node.

    Attributes
    ----------
    folder : where they are kept in files, None for memory only.
    """

    folder: Path | None = None
    _held: OrderedDict[tuple[str, int, bytes], State] = field(default_factory=OrderedDict)

    def put(
        self,
        run: str,
        client: int,
        t: int,
        exchange: int,
        state: State,
        *,
        over: bool = True,
        base: bytes = b"",
    ) -> bytes:
        """Keep a state, and return its name."""
        state = as_message(state)
        name = digest(state)
        if self.folder is None:
            self._held[run, client, name] = state
            return name
        folder = self._made(run, client)
        ending = "state" if over else OPEN
        path = folder / f"{t:08d}-{exchange:02d}-{name.hex()}.{ending}"
        with replacing_private(path) as temporary, open(temporary, "wb") as file:
            file.writelines(chunks(state))
        old = sorted(folder.glob("*.state"))[:-KEPT]
        old += [each for each in folder.glob(f"*.{OPEN}") if each.name < f"{t:08d}"]
        for each in old:
            if not base or base.hex() not in each.name:
                each.unlink(missing_ok=True)
        self._held[run, client, name] = state
        for key in [key for key in self._held if key[:2] != (run, client)]:
            del self._held[key]  # it is in its file
        while len(self._held) > KEPT:
            self._held.popitem(last=False)
        return name

    def get(self, run: str, client: int, name: bytes) -> State:
        """Return the state called `name`."""
        found = self._held.get((run, client, name))
        if found is not None:
            return found
        for path in self._folder(run, client).glob(f"*-{name.hex()}.*state") if self.folder else ():
            try:
                found = unpack(np.fromfile(path, dtype=np.uint8))
            except (OSError, DataError):  # somebody was at the file
                continue
            if digest(found) == name:
                return found
        raise DataError(f"client {client} no longer has the state that round starts from")

    def clear(self) -> None:
        """Forget what is in memory."""
        self._held.clear()

    def close(self) -> None:
        """Remove the states of all rounds that are not over, as their client ends or gives up."""
        self.clear()
        for path in self.folder.glob(f"*/*/*.{OPEN}") if self.folder is not None else ():
            if not any(each.is_symlink() for each in (path.parent, path.parent.parent)):
                path.unlink(missing_ok=True)

    def drop(self, run: str, client: int) -> None:
        """Remove the states of a run that is over."""
        self.clear()
        if self.folder is not None:
            rmtree(self._folder(run, client), ignore_errors=True)

    def _made(self, run: str, client: int) -> Path:
        """Folder of a client, made for its owner alone; those used longest ago make room."""
        folder = self._folder(run, client)
        try:
            for made in (folder.parent.parent, folder.parent, folder):
                private_folder(made)
            for kept in (folder.parent, folder):
                os.utime(kept)
                others = [path for path in kept.parent.iterdir() if path != kept]
                for old in sorted(others, key=_touched)[: -(RUNS - 1)]:
                    rmtree(old, ignore_errors=True)
        except OSError as error:
            rule = f"HOPFED_HOME must be writable ({error.strerror}), got {folder}"
            raise LocalError(rule) from None
        return folder

    def _folder(self, run: str, client: int) -> Path:
        if self.folder is None or not _PLAIN_NAME.fullmatch(run) or client < -1:
            raise DataError(f"{run[:80]!r} cannot be the name of a run")
        return self.folder / run / str(client)


def _touched(path: Path) -> float:
    return path.lstat().st_mtime
