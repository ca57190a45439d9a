"""File of the sums of a Hebbian read-out at a server, to which clients are added and removed.

The file holds the sums of all clients, and what each one gave. When a client leaves, its sums are
subtracted and deleted; the file then has the same bytes as if the client had never answered. This
requires bits that do not depend on the clients (``bits=public``); with pooled bits the filters and
thresholds still depend on the client that left, see `Collected.exact`. The server cannot remove
copies that others made, nor read-outs that clients computed before.

Where the method has an epsilon, what the file holds of a client has noise from a secret, which is
not in the file, and not from the seed, which is. The same examples on the same terms get the same
noise under the same secret, so that a client that leaves and comes back tells nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from hopfed._lib.settings import from_plain, require, to_plain
from hopfed.errors import RunFileError
from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Message, malformed
from hopfed.hopfield.site.row_marks import keyed
from hopfed.neural.methods.hebbian import Hebbian
from hopfed.neural.readouts.contributions import added, broadcast, forgotten, gave
from hopfed.neural.training.evaluation import accuracies
from hopfed.neural.training.task import TaskSpec
from hopfed.privacy.discrete_gaussian import Coins
from hopfed.runs import Run, blaming

KIND = "collected"


@dataclass(frozen=True, eq=False)
class Collected:
    """Sums of clients, and what each of them gave.

    Attributes
    ----------
    method : one that keeps, and in which each client chooses its settings for itself.
    state : of its server.

    Raises
    ------
    ArgumentError : a method that does otherwise.

    Examples
    --------
    >>> task = TaskSpec(models=("mlp",), clients=3, examples=200)
    >>> method = Hebbian(task, filters=4, bits="public", choose="own", keep=True)
    >>> all_three, two = Collected.of(method, range(3)), Collected.of(method, [0, 2])
    >>> left = all_three.forget(1)
    >>> left.members, all(np.array_equal(left.state[n], a) for n, a in two.state.items())
    ([0, 2], True)
    """

    method: Hebbian
    state: State = field(repr=False)

    def __post_init__(self) -> None:
        require(self.method.keep, "keep", "True, to forget clients", self.method.keep)
        own = self.method.choose == "own"
        require(own, "choose", "own, as a choice of all outlives who leaves", self.method.choose)

    @classmethod
    def of(cls, method: Hebbian, clients: Iterable[int], secret: bytes = b"") -> Self:
        """Play the exchanges of a round with some of the clients.

        Parameters
        ----------
        method, clients : which of its clients take part.
        secret : of the noise, 32 bytes; wanted where the method has an epsilon, and not else.

        Raises
        ------
        ArgumentError : a method that does otherwise, no such client, or no secret.
        """
        state: State = {}
        chosen = _known(method, clients)
        for exchange in range(method.agreeing):
            state = _exchange(method, state, chosen, exchange)
        return cls(method, _summed(method, state, chosen, secret))

    @property
    def members(self) -> list[int]:
        """Clients in the sums."""
        return [int(c) for c in self.state.get("members", ())]

    @property
    def examples(self) -> int:
        """Examples in the sums."""
        return int(self.state.get("examples", 0))

    @property
    def exact(self) -> bool:
        """Whether nothing is left of a client that is forgotten."""
        return self.method.bits == "public"

    def forget(self, client: int) -> Self:
        """Return what would be there if a client had never taken part."""
        return replace(self, state=forgotten(self.state, client))

    def admit(self, client: int, secret: bytes = b"") -> Self:
        """Return what would be there if a client had taken part from the beginning.

        Parameters
        ----------
        client : that is not in the sums.
        secret : as for `of`.

        Raises
        ------
        ArgumentError : no such client, or no secret.
        """
        chosen = _known(self.method, [client])
        require(client not in self.members, "client", "one that is not in the sums", client)
        state = _summed(self.method, self.state, chosen, secret)
        return replace(self, state=state)

    def accuracy(self) -> np.ndarray:
        """Test accuracy of every client of the task, (clients,), member or not."""
        task, down = self.method.loaded, broadcast(self.state)
        made = [self.method.classifier({}, down, c) for c in range(len(task.split))]
        return accuracies(made, task.tensors, [task.split.test])[0]

    def save(self, path: str | Path) -> None:
        """Write the file for its owner alone, whole or not at all; equal states, equal bytes."""
        arrays = {name: np.asarray(array) for name, array in self.state.items()}
        own = {f.name for f in fields(self.method)} - {"task", "training"}
        options = {n: v for n, v in to_plain(self.method).items() if n in own}
        config = {"task": to_plain(self.method.task), "options": options}
        summary = {"members": self.members, "examples": self.examples}
        Run(KIND, config, arrays, summary).save(path, private=True)

    @classmethod
    def load(cls, path: str | Path, data: str | None = None) -> Self:
        """Read a file.

        Parameters
        ----------
        path : of the file.
        data : what its data must be called where that is no built-in name: a file of somebody else
            may lead to one of yours, and would take its sums along. None trusts it.

        Raises
        ------
        RunFileError : it is none of this kind, or its sums are not those of what clients gave.
        """
        run = Run.load(path, complete=True)
        if run.kind != KIND:
            raise RunFileError(f"{path}: a run of {run.kind}, not the sums of hopfed fl collect")
        with blaming(path, KIND):
            named = str(run.config["task"]["data"])
            if data is not None and data != named and not re.fullmatch(r"\w+", named):
                raise RunFileError(f"{path}: its clients' data are in {named}; if so, say --data")
            method = _method(run.config)
            found = cls(method, dict(run.arrays))
            found._check(path)
        return found

    def _check(self, path: str | Path) -> None:
        """Fail unless the sums are those of well-formed contributions."""
        method, down = self.method, broadcast(self.state)
        agreed = {name: down[name] for name in ("kernel", "mean", "thresholds")}
        given = {c: gave(self.state, c) for c in self.members}
        for c, message in given.items():
            complaint = malformed(message, method.expects(agreed, self._context(c)))
            if complaint:
                raise RunFileError(f"{path}: what client {c} gave: {complaint}")
        whole = added(agreed, given, keep=True) if given else agreed
        same = whole.keys() == self.state.keys()
        if not same or not all(np.array_equal(whole[n], a) for n, a in self.state.items()):
            raise RunFileError(f"{path}: its sums are not those of what its clients gave")

    def _context(self, client: int) -> Context:
        return Context(self.method.task.seed, 0, self.method.agreeing, client)


def _known(method: Hebbian, clients: Iterable[int]) -> list[int]:
    """Check that there are such clients, with examples."""
    train = method.loaded.split.train
    for c in (found := sorted(set(clients))):
        require(0 <= c < len(train), "client", f"from 0 to {len(train) - 1}", c)
        require(len(train[c]) > 0, "client", "one with examples", c)
    return found


def _exchange(method: Hebbian, state: State, clients: list[int], exchange: int) -> State:
    """Play an exchange with clients of which none is in the sums."""
    seed, down, messages = method.task.seed, broadcast(state), {}
    for c in clients:
        messages[c] = method.client_step({}, down, Context(seed, 0, exchange, c))[1]
    return method.server_step(state, messages, Context(seed, 0, exchange))[0]


def _summed(method: Hebbian, state: State, clients: list[int], secret: bytes) -> State:
    """Add the operators and class sums of clients of which none is in the sums."""
    if not method.epsilon:
        return _exchange(method, state, clients, method.agreeing)
    rule = "32 bytes that nobody else knows, as whoever has the seed takes its noise off"
    require(len(secret) == 32, "secret", rule, f"{len(secret)} bytes")  # never the secret
    down = broadcast(state)
    messages = {c: _with_noise(method, down, c, secret) for c in clients}
    return method.server_step(state, messages, Context(method.task.seed, 0, method.agreeing))[0]


def _with_noise(method: Hebbian, down: Message, client: int, secret: bytes) -> Message:
    """Release what a client has, with noise that its examples, the terms and the secret decide."""
    bits, labels = method.bits_of(down, client, "train")
    rows = np.column_stack([bits.astype(np.int64), labels.astype(np.int64)])
    terms = f"{float(method.epsilon).hex()} {float(method.delta).hex()} {method.loaded.classes}"
    said = f"noise of client {client}, {terms}, of {rows.shape[1]} numbers ".encode()
    key = keyed(secret, said + b"".join(sorted(row.tobytes() for row in rows)), 32)
    return method.private.release(bits, labels, Coins(key))


def _method(config: dict[str, Any]) -> Hebbian:
    kinds = {f.name: f.type for f in fields(Hebbian)}
    options: dict[str, Any] = {
        n: float(v) if kinds.get(n) == "float" else v for n, v in config["options"].items()
    }
    task = from_plain(TaskSpec, config["task"])
    if task.code:  # a file is no reason to run what it names
        raise RunFileError(f"names code to run, {task.code[0]}")
    return Hebbian(task, **options)
