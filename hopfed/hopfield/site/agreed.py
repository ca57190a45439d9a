"""A method to whose steps an owner agrees: each answer is checked before, and recorded after."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.messages import Message, digest
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.site.limits import Limits
from hopfed.hopfield.site.released import Allowance, Question, Released


@dataclass(frozen=True)
class AgreedMethod:
    """A method whose clients' steps are checked before, and recorded after.

    Attributes
    ----------
    method : holds the rows.
    batches : the rows.
    limits, released : of the owner of the rows.
    secret : of the owner.
    """

    method: Any
    batches: Batches
    limits: Limits
    released: Released
    secret: int = field(repr=False)

    @property
    def exchanges(self) -> int:
        """Exchanges of a round that are answered."""
        return int(self.method.exchanges)

    def client_start(self, client: int, seed: int) -> State:
        """State of a client before its first round.

        The server knows a state by a digest of it. With a number in it that only the owner knows,
        nobody can find out by the digest whether a guess of the rows is right.
        """
        salt = blake2b(f"state {self.secret}".encode(), digest_size=16).digest()
        return {**self.method.client_start(client, seed), "salt": np.frombuffer(salt, np.uint8)}

    def check_exchange(self, context: Context) -> int:
        """Return the exchange that is asked for; fail where the round has no such one."""
        exchange = context.exchange
        require(0 <= exchange < self.exchanges, "exchange", "one of the round", exchange)
        return exchange

    def deal(self) -> None:
        """Fix over how many rounds the rows are dealt out; fail where that was another number."""
        self.released.deal(self.batches.rounds, own=self.limits.rounds > 0)

    def answer(
        self,
        state: State,
        down: Message,
        context: Context,
        question: Question,
        allowance: Allowance,
    ) -> tuple[State, Message, Metrics]:
        """Answer a question if the record allows it, and record the answer; metrics stay here."""
        self.released.check(question, allowance)
        state, up, _ = self.method.client_step(state, down, context)
        exact = replace(question, numbers=sum(int(np.size(array)) for array in up.values()))
        self.released.add(exact, allowance, digest(up).hex())
        return state, up, {}
