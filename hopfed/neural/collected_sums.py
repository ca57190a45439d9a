"""Sums of a Hebbian read-out at a server, to which clients are added and from which they leave.

When a client leaves, the state is then the same, to the bit, as if the client had never answered.
The server cannot remove copies that others made, nor read-outs that clients computed before.

Where the method has an epsilon, what is kept of a client has noise from a secret: the same examples
on the same terms get the same noise, so that a client that comes back tells nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Self

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Message, below
from hopfed.neural.methods.hebbian import COUNTED, SENT, Hebbian, added, broadcast
from hopfed.neural.training.evaluation import accuracies
from hopfed.privacy.discrete_gaussian import Coins


@dataclass(frozen=True, eq=False)
class Collected:
    """Sums of clients, and what each of them gave.

    Attributes
    ----------
    method : one that keeps, with public bits, in which each client chooses its settings for itself.
    state : of its server, arrays by name: `numpy.savez("sums.npz", **collected.state)` keeps it.

    Raises
    ------
    ArgumentError : a method that does otherwise.

    Examples
    --------
    >>> from hopfed.neural.training.task import TaskSpec
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
        for name, due in (("choose", "own"), ("bits", "public")):
            rule = f"{due}, as what all agree on outlives a client that leaves"
            require(getattr(self.method, name) == due, name, rule, getattr(self.method, name))

    @classmethod
    def of(cls, method: Hebbian, clients: Iterable[int], secret: bytes = b"") -> Self:
        """Ask some `clients` of a `method` for their sums.

        Where it has an epsilon, a `secret` is due, 32 bytes that nobody else knows: whoever has
        them takes the noise off. ArgumentError for a method that does otherwise, no such client, or
        no secret.
        """
        return cls(method, {})._with(sorted(set(clients)), secret)

    @property
    def members(self) -> list[int]:
        """Clients in the sums."""
        return [int(c) for c in self.state.get("members", ())]

    def forget(self, client: int) -> Self:
        """Return what would be there if a client had never taken part."""
        require(client in self.members, "client", f"among {self.members}", client)
        others = {c: below(self.state, f"{SENT}{c}") for c in self.members if c != client}
        gone = {*COUNTED, "members", "choice"}
        rest = {n: a for n, a in self.state.items() if not (n in gone or n.startswith(SENT))}
        return replace(self, state=added(rest, others, keep=True) if others else rest)

    def admit(self, client: int, secret: bytes = b"") -> Self:
        """Return what would be there if a further `client` had taken part from the beginning.

        `secret` and errors are those of `of`.
        """
        require(client not in self.members, "client", "one that is not in the sums", client)
        return self._with([client], secret)

    def accuracy(self) -> np.ndarray:
        """Test accuracy of every client of the task, (clients,), member or not."""
        task, down = self.method.loaded, broadcast(self.state)
        made = [self.method.classifier({}, down, c) for c in range(len(task.split))]
        return accuracies(made, task.tensors, [task.split.test])[0]

    def _with(self, clients: list[int], secret: bytes) -> Self:
        """Ask clients of which none is in the sums."""
        method, last, messages = self.method, len(self.method.loaded.split) - 1, {}
        state = self.state if "thresholds" in self.state else method.public()
        for c in clients:
            require(0 <= c <= last, "client", f"from 0 to {last}", c)
            if method.epsilon:
                messages[c] = _with_noise(method, state, c, secret)
            else:
                context = Context(method.task.seed, 0, method.questions.index("sums"), c)
                messages[c] = method.client_step({}, broadcast(state), context)[1]
        return replace(self, state=method.added(state, messages, "sums")[0])


def _with_noise(method: Hebbian, down: Message, client: int, secret: bytes) -> Message:
    """Release what a client has, with noise that its examples, the terms and the secret decide."""
    rule = "32 bytes that nobody else knows, as whoever has the seed takes its noise off"
    require(len(secret) == 32, "secret", rule, f"{len(secret)} bytes")  # never the secret
    bits, labels = method.bits_of(down, client, "train")
    rows = np.column_stack([bits.astype(np.int64), labels.astype(np.int64)])
    terms = f"{float(method.epsilon).hex()} {float(method.delta).hex()} {method.loaded.classes}"
    said = f"noise of client {client}, {terms}, of {rows.shape[1]} numbers ".encode()
    marked = blake2b(said + b"".join(sorted(row.tobytes() for row in rows)), digest_size=32,
                     key=secret)  # fmt: skip
    return method.released(bits, labels, Coins(marked.digest()))
