"""A node: what a client does with a request.

A request names the state to step from, which stays with the node, so that a request that is
repeated, or made again by a server that was resumed, is answered from the same state with the same
answer: steps draw from (seed, round, client) alone. Whatever a request holds, the answer to it is
an answer. The server knows a state by its name, a digest of its arrays, and chooses the names of
runs and the numbers of clients. What it chooses cannot lead out of the folder, and cannot fill the
disk: the last states of a client and the last few clients and runs are kept.

A log about a server that is not trusted, which that server cannot fill.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from hopfed._lib.arrays import blas_threads
from hopfed.errors import DataError, HopfedError, LocalError, RunFileError, shown
from hopfed.federation.contract import Method, State
from hopfed.federation.faults import Fault
from hopfed.federation.machines.keys import private_folder, replacing_private
from hopfed.federation.machines.wire import Reply, Request, read_request, write_reply
from hopfed.federation.messages import as_message, digest
from hopfed.federation.packing import chunks, unpack
from hopfed.federation.recipes import Trusted, rebuild

MOST = 5_000  # lines
KEPT = 8  # states of a client that are kept: those of two rounds and more
RUNS = 4  # runs of which states are kept, and clients of each

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")  # not hidden, and no way up


@dataclass
class Sparing:
    """Says each kind of line once, and at most so many lines.

    Attributes
    ----------
    say : is told them.
    most : lines, with the one that says that no more follow.
    """

    say: Callable[[str], object]
    most: int = MOST
    _said: set[str] = field(default_factory=set)

    def __call__(self, words: str, kind: str = "") -> None:
        """Say `words`, unless words of the same kind, or the same words, were said."""
        kind = kind or words
        if kind in self._said or len(self._said) >= self.most:
            return
        self._said.add(kind)
        if len(self._said) < self.most:
            self.say(words)
        else:
            self.say(
                f"that was line {self.most:,} of what the server made this client say: "
                "no more follow"
            )


Adapt = Callable[[Method, Request], Any]  # the client's half of a method
Watch = Callable[[Request, Reply], object]


@dataclass
class Node:
    """Answers requests.

    Attributes
    ----------
    kept : the states.
    adapt : puts what is the node's own into a method, such as its data, or refuses it.
    watch : is told of every answer before it leaves, and of every error in full.
    trusted : what recipes may name; None for anything, of oneself (`hopfed.federation.recipes`).
    private : keep the words of errors that are not ours to oneself, since they may quote examples,
        and of those about files of this machine.
    say : is told in words what of a request its owner would not hear of otherwise.
    """

    kept: KeptStates
    adapt: Adapt = lambda method, _: method
    watch: Watch = lambda _, __: None
    trusted: Trusted = field(kw_only=True)
    private: bool = False
    say: Callable[[str], object] = lambda _: None
    _answered: dict[tuple[Any, ...], Reply] = field(default_factory=dict)

    def written(self, data: bytes) -> bytes:
        """Answer a question in bytes; an error is an answer, too."""
        reply = self.answer(data)
        try:
            return write_reply(reply)
        except Exception as error:  # a step that answers what cannot travel
            reason = shown(error) if isinstance(error, HopfedError) else type(error).__name__
            self.say(f"an answer that cannot be sent: {reason}")
            return write_reply(Reply(fault=Fault.RAISED, reason=reason))

    def answer(self, data: bytes) -> Reply:
        """Answer a question."""
        try:
            request = read_request(data)
        except Exception as error:  # whatever was sent
            ours = isinstance(error, DataError)
            reason = shown(error if ours else f"no request: {type(error).__name__}")
            self.say(f"a request that is none: {reason}")
            return Reply(fault=Fault.RAISED, reason=reason)
        try:
            reply = told = self._reply(request)
        except Exception as error:  # whatever goes wrong here concerns this client alone
            words = shown(f"{type(error).__name__}: {error}")
            told = Reply(fault=Fault.RAISED, reason=words)
            reply = replace(told, reason=_told_to_others(error)) if self.private else told
        try:
            self.watch(request, told)
        except RunFileError:  # of the owner's own disk, which is to be known at once
            raise
        except Exception as error:  # of what was sent
            self.say(shown(f"what the server says cannot be used: {error}"))
        return reply

    def _reply(self, request: Request) -> Reply:
        c = request.context
        client = -1 if c.client is None else c.client
        if request.last:
            self.kept.drop(request.run, client)
            return Reply()
        asked = request.run, client, c.seed, c.round, c.exchange, request.recipe
        told = digest(dict(request.parts)), digest(request.down), digest(request.columns)
        key = *asked, request.base, *told
        if key in self._answered:
            return self._answered[key]
        method = self.adapt(_made(request.recipe, _Parts(request.parts), self.trusted), request)
        if request.base:
            state = self.kept.get(request.run, client, request.base)
        else:
            state = method.client_start(client, c.seed)
        with blas_threads(1):  # the order of summation depends on the number of threads
            after, up, metrics = method.client_step(state, request.down, c)
        name = self.kept.put(request.run, client, c.round, c.exchange, after, request.base)
        reply = Reply(name, as_message(up), metrics)
        if self.kept.folder is not None:  # in one process no request is ever repeated
            self._answered = {key: reply}
        return reply


def _told_to_others(error: Exception) -> str:
    """Words of an error for a server that is not trusted."""
    if isinstance(error, (RunFileError, LocalError)):
        return error.told if isinstance(error, LocalError) else LocalError.told
    if isinstance(error, HopfedError):
        return shown(error)
    return type(error).__name__


class _Parts(dict[str, np.ndarray]):
    """Arrays of a recipe, told apart by what is in them, so that a method is made once."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(digest(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and digest(self) == digest(other)


@lru_cache(2)  # a method may hold arrays that fill much memory
def _made(recipe: str, parts: _Parts, trusted: Trusted) -> Method:
    method: Method = rebuild(recipe, parts, trusted)
    return method


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
        base: bytes = b"",
    ) -> bytes:
        """Keep a state, and return its name."""
        state = as_message(state)
        name = digest(state)
        if self.folder is None:
            self._held[run, client, name] = state
            return name
        folder = self._made(run, client)
        path = folder / f"{t:08d}-{exchange:06d}-{name.hex()}.state"
        with replacing_private(path) as temporary, open(temporary, "wb") as file:
            file.writelines(chunks(state))
        for each in sorted(folder.glob("*.state"))[:-KEPT]:
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
        for path in self._folder(run, client).glob(f"*-{name.hex()}.state") if self.folder else ():
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
