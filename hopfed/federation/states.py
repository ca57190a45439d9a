"""States of many clients: those used last in memory, the others in files.

A state is never changed once a client has answered with it; the next one takes its place. So a
state is written at most once, and a file of it stays right for as long as anyone refers to it: a
commit writes the states of the clients that took part, and refers to the files of the others.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import WeakSet, finalize, ref

import numpy as np

from hopfed._lib.other_accounts import check_own
from hopfed._lib.outputs import replacing
from hopfed.errors import DataError, RunFileError
from hopfed.federation.contract import State
from hopfed.federation.packing import chunks, pack, unpack

BUDGET = 1 << 31  # bytes of states in memory
OWN_FILE = 1 << 20  # bytes from which a state has a file of its own: about what a file costs
_SUFFIX = ".state"
_NAME = re.compile(rf"[0-9]{{8,}}\{_SUFFIX}")
_OURS = re.compile(rf"\.?[0-9]{{8,}}(-[0-9a-f]+)?\{_SUFFIX}")  # also of a writer that was killed


class Held:
    """A dict of arrays that is in memory, in a file, or in both, and never changes.

    Between processes it travels as the name of its file, where it has one.

    Attributes
    ----------
    nbytes : of its arrays.
    path, size : its file and the length of that, None and 0 without one.
    store : what keeps it within the budget, None when nothing does.
    """

    __slots__ = ("__weakref__", "arrays", "nbytes", "path", "size", "store")

    def __init__(
        self, arrays: State | None, nbytes: int = 0, path: Path | None = None, size: int = 0
    ):
        self.arrays, self.path, self.size = arrays, path, size
        self.nbytes = nbytes
        if arrays is not None:
            self.nbytes = sum(int(np.asarray(a).nbytes) for a in arrays.values())
        self.store: StateStore | None = None

    def read(self) -> State:
        """Return the arrays."""
        arrays = _load(self) if self.arrays is None else self.arrays
        if self.store is not None:
            self.store.used(self, arrays)
        return arrays

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = self.arrays if self.path is None else None
        return Held, (arrays, self.nbytes, self.path, self.size)


class StateMap(Mapping[int, State]):
    """States by client, read where they are when they are asked for."""

    def __init__(self, held: Mapping[int, Held] | None = None, store: StateStore | None = None):
        self.held, self.store = dict(held or {}), store

    @classmethod
    def of(cls, states: Mapping[int, State]) -> StateMap:
        """Hold `states`, in memory."""
        return cls().replaced(states)

    def replaced(self, changes: Mapping[int, State]) -> StateMap:
        """Return a map with other states for some clients; the rest are shared, not copied."""
        fresh = StateMap({c: Held(state) for c, state in changes.items()})
        if self.store is not None:
            self.store.keep(fresh)
        return StateMap(self.held | fresh.held, self.store)

    def with_those_of(self, other: StateMap, client: int) -> StateMap:
        """Return a map with the state of `client` in `other`, or without one if it has none."""
        held = {c: state for c, state in self.held.items() if c != client}
        if client in other.held:
            held[client] = other.held[client]
        return StateMap(held, self.store)

    def __getitem__(self, client: int) -> State:
        return self.held[client].read()

    def __contains__(self, client: object) -> bool:
        return client in self.held

    def __iter__(self) -> Iterator[int]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __reduce__(self) -> tuple[Any, ...]:
        return StateMap, (self.held,)


class StateStore:
    """Keeps states within a budget of memory, and in files between commits."""

    def __init__(self, folder: Path | None = None, budget: int = BUDGET):
        self.budget, self.nbytes = budget, 0
        self._folder, self._durable = folder, folder is not None
        self._resident: OrderedDict[int, ref[Held]] = OrderedDict()
        self._files: dict[Path, WeakSet[Held]] = {}
        self._kept: set[Path] = set()
        self._count = 0
        if folder is not None:
            self._check()

    def keep(self, *maps: StateMap) -> None:
        """Take care of what is in `maps`, and of nothing that is in no map any more."""
        for states in maps:
            states.store = self
            for held in states.held.values():
                if held.store is None:
                    self._adopt(held)
        self._evict()
        self._sweep()

    def used(self, held: Held, arrays: State) -> None:
        """Note that `held` was asked for."""
        if held.arrays is None:
            held.arrays = arrays
            self._reside(held)
            self._evict()
        elif id(held) in self._resident:
            self._resident.move_to_end(id(held))

    def freeze(self, parts: Mapping[str, Held], whole: bool = False) -> np.ndarray:
        """What stands for `parts` in a run file: small ones, or all, whole; others by file."""
        index: list[list[Any]] = []
        small: dict[str, Any] = {}
        for i, (name, held) in enumerate(parts.items()):
            if not whole and held.path is None and held.nbytes >= OWN_FILE:
                self._write(held)
            if not whole and held.path is not None:
                index.append([name, None, held.path.name, held.size, held.nbytes])
                continue
            arrays = held.read()
            index.append([name, list(arrays)])
            small |= {f"{i}/{key}": value for key, value in arrays.items()}
        words = np.frombuffer(json.dumps(index).encode(), dtype=np.uint8)
        return pack({"index": words} | small)

    def thaw(self, data: np.ndarray) -> dict[str, Held]:
        """Return the parts that `data` stands for; their files are looked for, but not yet read."""
        flat = unpack(data)
        parts = {}
        for i, (name, keys, *file) in enumerate(json.loads(flat["index"].tobytes())):
            if keys is not None:
                parts[name] = Held({key: flat[f"{i}/{key}"] for key in keys})
                continue
            if not _NAME.fullmatch(file[0]):  # no other file of this machine
                raise RunFileError(f"{self.folder}: {file[0]!r} is not the name of a state")
            path, size, nbytes = self.folder / file[0], int(file[1]), int(file[2])
            if path.is_symlink():  # it would lead to a file of another run, or out of the folder
                raise RunFileError(f"{path}: a link, which is not followed; put its file there")
            found = path.stat().st_size if path.is_file() else None
            if found != size:
                what = "missing" if found is None else f"{found} of its {size} bytes are there"
                raise RunFileError(f"{path}: {what}; without it the run must start anew")
            parts[name] = Held(None, nbytes, path, size)
            self._count = max(self._count, int(path.stem))
        return parts

    def committed(self, parts: Mapping[str, Held]) -> None:
        """Note what the run file refers to now, and remove what nobody refers to any more."""
        self._kept = {held.path for held in parts.values() if held.path is not None}
        self._sweep()

    def clear(self, parts: Mapping[str, Held]) -> None:
        """Remove what a killed process left in the folder, all but the files of `parts`."""
        kept = {held.path for held in parts.values()}
        for path in self._folder.glob(f"*{_SUFFIX}") if self._folder else ():
            if path not in kept and _OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
        self.committed(parts)

    def close(self) -> None:
        """Remove the folder; nothing in it can be read any more."""
        if self._folder is None:
            return
        with suppress(OSError):  # not there, not ours, or not ours alone
            check_own(self._folder)
            self.clear({})
            self._folder.rmdir()

    @property
    def folder(self) -> Path:
        """Where the files are; the folder itself need not be there yet."""
        if self._folder is None:
            self._folder = Path(mkdtemp(prefix="hopfed-states-"))
            finalize(self, rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _adopt(self, held: Held) -> None:
        held.store = self
        if held.path is not None:
            self._files.setdefault(held.path, WeakSet()).add(held)
        if held.arrays is not None:
            self._reside(held)

    def _reside(self, held: Held) -> None:
        key, size = id(held), held.nbytes

        def gone(_: ref[Held]) -> None:
            if self._resident.pop(key, None) is not None:
                self.nbytes -= size

        self._resident[key] = ref(held, gone)
        self.nbytes += size

    def _evict(self) -> None:
        while self.nbytes > self.budget and self._resident:
            held = next(iter(self._resident.values()))()
            if held is None:  # on its way out
                break
            if held.path is None:
                self._write(held)
            del self._resident[id(held)]
            held.arrays = None
            self.nbytes -= held.nbytes

    def _check(self) -> None:
        """Fail where the folder is there and others can change what is in it."""
        try:
            check_own(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            words = f"{error.strerror}: remove it, or write the run elsewhere"
            raise RunFileError(f"{self.folder}: {words}") from None

    def _write(self, held: Held) -> None:
        with suppress(FileExistsError):  # by whom, is asked next
            self.folder.mkdir(mode=0o700)
        self._check()
        self._count += 1
        path = self.folder / f"{self._count:08d}{_SUFFIX}"
        pieces = chunks(held.arrays or {})
        private = replacing(path, private=True, follow=False)  # examples may be among the arrays
        with private as temporary, open(temporary, "wb") as file:
            file.writelines(pieces)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())  # a run file that refers to it may follow
        held.path, held.size = path, sum(len(piece) for piece in pieces)
        self._files[path] = WeakSet([held])

    def _sweep(self) -> None:
        for path in [p for p, users in self._files.items() if not users and p not in self._kept]:
            path.unlink(missing_ok=True)
            del self._files[path]


def _load(held: Held) -> State:
    try:
        return unpack(np.fromfile(str(held.path), dtype=np.uint8))
    except (OSError, DataError) as error:
        raise RunFileError(f"{held.path}: a client's state cannot be read: {error}") from None
