"""Sums of a Hebbian read-out at a server, to which clients can be added, and which they can leave.

After a client has left, the state is the same, to the bit, as if the client had never answered.
The server cannot remove copies that others made, nor read-outs that clients computed before.

If the method has an epsilon, the kept sums of a client have noise from a secret: the same examples
on the same terms get the same noise, so that a client that returns reveals nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Self

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import Context, State
from hopfed.federation.messages import Message, part_of
from hopfed.neural.methods.hebbian import COUNTED, SENT, Hebbian, add_client_sums, state_for_clients
from hopfed.neural.training.evaluation import accuracies
from hopfed.privacy.integer_noise import Coins


@dataclass(frozen=True, eq=False)
class Collected:
    """Sums of clients, in total and for each client.

    Attributes
    ----------
    method : method with ``keep=True``, ``bits="public"`` and ``choose="own"``, or ArgumentError.
    state : arrays of the server by name; `numpy.savez("sums.npz", **collected.state)` saves them.

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
        where = "to forget clients, which a joint choice would outlive"
        self.method.require_settings(where, keep=True, choose="own", bits="public")

    @classmethod
    def of(cls, method: Hebbian, clients: Iterable[int], secret: bytes = b"") -> Self:
        """Ask some `clients` of a `method` for their sums.

        A method with an epsilon needs a `secret`: 32 bytes that must stay private, because the
        noise can be removed with them. ArgumentError for a method with other settings, an unknown
        client, or a missing secret.
        """
        return cls(method, {})._with(sorted(set(clients)), secret)

    @property
    def members(self) -> list[int]:
        """Clients in the sums."""
        return [int(c) for c in self.state.get("members", ())]

    def forget(self, client: int) -> Self:
        """Return the sums as if a `client` had never taken part."""
        require(client in self.members, "client", f"among {self.members}", client)
        others = {c: part_of(self.state, f"{SENT}{c}") for c in self.members if c != client}
        gone = {*COUNTED, "members", "choice"}
        rest = {n: a for n, a in self.state.items() if not (n in gone or n.startswith(SENT))}
        return replace(self, state=add_client_sums(rest, others, keep=True) if others else rest)

    def admit(self, client: int, secret: bytes = b"") -> Self:
        """Return the sums as if a `client` had been in from the beginning; `secret` as for `of`."""
        require(client not in self.members, "client", "absent from the sums", client)
        return self._with([client], secret)

    def accuracy(self) -> np.ndarray:
        """Test accuracy of every client of the task, (clients,), member or not."""
        task, down = self.method.loaded, state_for_clients(self.state)
        made = [self.method.classifier({}, down, c) for c in range(len(task.split))]
        return accuracies(made, task.tensors, [task.split.test])[0]

    def _with(self, clients: list[int], secret: bytes) -> Self:
        """Add the sums of clients that are not yet among the members."""
        method, last, messages = self.method, len(self.method.loaded.split) - 1, {}
        state = self.state if "thresholds" in self.state else method.public()
        for c in clients:
            require(0 <= c <= last, "client", f"from 0 to {last}", c)
            if method.epsilon:
                messages[c] = _with_noise(method, state, c, secret)
            else:
                context = Context(method.task.seed, 0, method.questions.index("sums"), c)
                messages[c] = method.client_step({}, state_for_clients(state), context)[1]
        return replace(self, state=method.added(state, messages, "sums")[0])


def _with_noise(method: Hebbian, down: Message, client: int, secret: bytes) -> Message:
    """Sums of a client with noise that depends on its examples, the terms and the secret."""
    rule = "32 bytes that stay private, as noise from known bytes can be removed"
    require(len(secret) == 32, "secret", rule, f"{len(secret)} bytes")  # does not show the secret
    bits, labels = method.bits_of(down, client, "train")
    rows = np.column_stack([bits.astype(np.int64), labels.astype(np.int64)])
    terms = f"{float(method.epsilon).hex()} {float(method.delta).hex()} {method.loaded.classes}"
    said = f"noise of client {client}, {terms}, of {rows.shape[1]} numbers ".encode()
    marked = blake2b(said + b"".join(sorted(row.tobytes() for row in rows)), digest_size=32,
                     key=secret)  # fmt: skip
    return method.released(bits, labels, Coins(marked.digest()))
