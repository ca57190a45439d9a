"""Methods whose server forms a mean of clients' arrays, which may be private.

Source: theory/NOTES.md, "Sensitivity and Gaussian mechanism".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import NeuralMethod, Played, setting, untrained
from hopfed.neural.training.training import has_batch_norm
from hopfed.privacy.mechanism import accountant
from hopfed.theory.private import gaussian_epsilon


@dataclass(frozen=True)
class Averaged(NeuralMethod):
    """Base of methods whose server forms a mean of clients' arrays, with client-level privacy.

    With `noise` what the server sends is differentially private, for whoever sees all of it: a
    client's whole data may be there or not. A client's update, of all arrays of its message
    together, is scaled to a norm of at most `bound`; Gaussian noise of standard deviation
    ``noise bound`` is added to the sum of the updates, which is divided by the number of clients
    that is expected (McMahan et al., ICLR 2018). So all clients have one weight, and their numbers
    of examples are not used. Each client takes part in a round by itself, with the probability
    `rate` of the participation (Poisson sampling). The server is trusted, and noise and
    participation are drawn from the seed of the run: this is for experiments. What clients keep,
    and accuracies, are not covered.

    Attributes
    ----------
    bound : largest norm of a client's update; 0 for none.
    noise : noise multiplier, standard deviation of the noise on the sum over `bound`.
    delta : of the guarantee, see `epsilon`.
    """

    bound: float = setting(0.0, "at least 0")
    noise: float = setting(0.0, "at least 0")
    delta: float = setting(1e-5, "in (0, 1)")

    averages: ClassVar[bool] = True  # whether `average` alone reads what clients send

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "play" in vars(cls) and "averages" not in vars(cls):
            cls.averages = False  # until it says so

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.bound > 0 or not self.noise, "bound", "above 0 where there is noise", 0)
        plain = self.averages or not self.bound
        rule = f"0 for {self.name}, whose server does more than average"
        require(plain, "bound", rule, self.bound)

    @property
    def poisson(self) -> bool:
        """Whether each client takes part in a round by itself, see `Participation`."""
        return self.noise > 0

    def epsilon(self, rounds: int, rate: float = 1.0) -> float:
        """Epsilon of so many rounds at `delta`, infinite without noise; exact at a rate of 1."""
        if rate == 1 or not self.noise:
            return gaussian_epsilon(self.noise, self.delta, rounds)
        return accountant(self.noise, rounds, delta=self.delta, rate=rate)

    def server_start(self, seed: int) -> State:
        """Refuse running statistics under noise, which can turn negative."""
        normed = self.noise > 0 and has_batch_norm(self.net(0))
        require(
            not normed, "models", "without batch norm where there is noise", self.task.models[0]
        )
        return super().server_start(seed)

    def started(self, state: State) -> Message:
        """Arrays that clients start a round from, by the names of their messages."""
        first = {n: a for n, a in untrained(self).items() if n != "examples"}
        return first | {n: a for n, a in state.items() if n in first}

    def turnout(self, heard: Mapping[int, Message], session: Session) -> float:
        """Share of the clients that were heard; with noise, that are expected to be."""
        return session.participation.rate if self.noise else len(heard) / session.clients

    def average(
        self, heard: Mapping[int, Message], state: State, session: Session, sized: bool = True
    ) -> Message:
        """Mean of messages, weighted by their numbers of examples, which it leaves out."""
        parts = [{n: a for n, a in m.items() if n != "examples"} for m in heard.values()]
        if not self.bound and parts:
            return mean_tree(
                parts, [float(m["examples"]) for m in heard.values()] if sized else None
            )
        old, rng = self.started(state), session.context.rng("noise")
        expected = self.turnout(heard, session) * session.clients
        total = {n: np.zeros(a.shape) for n, a in old.items()}
        for part in parts:
            update = {n: part[n] - a.astype(float) for n, a in old.items()}
            norm = np.sqrt(sum(float((u**2).sum()) for u in update.values()))
            for n, u in update.items():
                total[n] += u * min(1.0, self.bound / norm if norm else 1.0)
        for a in total.values():
            a += self.noise * self.bound * rng.standard_normal(a.shape)
        new = {n: a + total[n] / max(expected, 1e-300) for n, a in old.items()}
        return {
            n: (a if old[n].dtype.kind == "f" else np.rint(a)).astype(old[n].dtype)
            for n, a in new.items()
        }

    def play(self, state: State, session: Session) -> Played:
        """Average: ``w = sum_k n_k w_k / sum_k n_k`` over the clients that answered."""
        heard = session.ask()
        mean = self.average(heard, state, session) if heard or self.noise else state
        return mean, {EVERYONE: mean}, {}
