"""Methods whose server forms a mean of clients' arrays, which may be private.

Source: theory/NOTES.md, "Weighted means over participants", "Sensitivity and Gaussian mechanism"
and "Private records".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hopfed._lib.settings import require
from hopfed.federation.aggregate import mean_tree, weighted_mean
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import NeuralMethod, Played, setting, untrained
from hopfed.neural.training.training import has_batch_norm
from hopfed.privacy.mechanism import accountant
from hopfed.theory.private import gaussian_epsilon


@dataclass(frozen=True)
class Averaged(NeuralMethod):
    """Base of methods whose server forms a mean of clients' arrays, which may be private.

    By client: with `noise` what the server sends is differentially private: a client's whole data
    may be there or not. A client's update, of all arrays of its message together, is scaled to a
    norm of at most `bound`; noise of deviation ``noise bound`` is added to their sum, which is
    divided by the expected number of clients (McMahan et al., ICLR 2018): all weigh the same. Each
    takes part by itself, with the probability `rate` of the participation. The server is trusted.
    What clients keep, and accuracies, are not covered.

    By record: with `Training.record_noise` a client's messages are so, for the server too: one of
    its training examples may be there or not. In every step the gradient of each example is cut to
    the norm `record_bound`, and noise of deviation ``record_noise record_bound`` added to their sum
    (DP-SGD, Abadi et al., CCS 2016); each is in a step by itself, with probability batch /
    examples. Not covered are numbers of examples, the sums by which inputs are scaled (give
    `scaling`), losses and accuracies.

    Noise, participation and steps are drawn from the seed of the run: this is for experiments.

    Attributes
    ----------
    bound : largest norm of a client's update; 0 for none.
    noise : noise multiplier, standard deviation of the noise on the sum over `bound`.
    delta : of the guarantee, see `epsilon`.
    """

    bound: float = setting(0.0, "at least 0")
    noise: float = setting(0.0, "at least 0")
    delta: float = setting(1e-5, "in (0, 1)")

    by_record: ClassVar[bool] = True
    averages: ClassVar[bool] = True  # whether `average` alone reads what clients send

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "play" in vars(cls) and "averages" not in vars(cls):
            cls.averages = False  # until it says so
        clients = {"answer", "extra", "objective", "sent", "wrap"}
        if clients & vars(cls).keys() and "by_record" not in vars(cls):
            cls.by_record = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.bound > 0 or not self.noise, "bound", "above 0 where there is noise", 0)
        rule = f"0 for {self.name}, whose server does more than average"
        require(self.averages or not self.bound, "bound", rule, self.bound)

    @property
    def poisson(self) -> bool:
        """Whether each client takes part in a round by itself, see `Participation`."""
        return self.noise > 0

    def epsilon(self, rounds: int, rate: float = 1.0) -> float:
        """Epsilon of so many rounds at `delta`, infinite without noise; exact at a rate of 1."""
        return _epsilon(self.noise, rounds, rate, self.delta)

    def record_epsilon(self, rounds: int, sizes: Iterable[int]) -> float:
        """Epsilon of an example at `delta`, of clients of some `sizes` in so many rounds each.

        The largest of all clients. That only some take part is not made use of.
        """
        each, batch = self.training.record_noise, self.training.batch
        worst = {-(-n // batch): n for n in sorted(map(int, sizes), reverse=True) if n}
        return max(
            _epsilon(each, rounds * self.training.epochs * steps, min(1, batch / n), self.delta)
            for steps, n in worst.items()
        )

    def server_start(self, seed: int) -> State:
        """Refuse running statistics under noise, which can turn negative."""
        private = self.noise > 0 or self.training.record_bound > 0
        plain, rule = not private or not has_batch_norm(self.net(0)), "without batch norm where "
        require(plain, "models", f"{rule}means are private", self.task.models[0])
        return super().server_start(seed)

    def started(self, state: State) -> Message:
        """Arrays that clients start a round from, by the names of their messages."""
        first = {n: a for n, a in untrained(self).items() if n != "examples"}
        return first | {n: a for n, a in state.items() if n in first}

    def turnout(self, heard: Mapping[int, Message], session: Session) -> float:
        """Share of the clients that were heard; with noise, that are expected to be."""
        return session.participation.rate if self.noise else len(heard) / session.clients

    def average(self, heard: Mapping[int, Message], state: State, session: Session) -> Message:
        """Mean of messages, by their numbers of examples where they tell them."""
        if heard and not self.bound:
            return mean_of(heard.values())
        old, rng = self.started(state), session.context.rng("noise")
        expected = self.turnout(heard, session) * session.clients
        total = {n: np.zeros(a.shape) for n, a in old.items()}
        for part in heard.values():
            update = {n: part[n] - a.astype(float) for n, a in old.items()}
            norm = np.sqrt(sum(float((u**2).sum()) for u in update.values()))
            for n, u in update.items():
                total[n] += u * min(1.0, self.bound / norm if norm else 1.0)
        for n, a in old.items():
            total[n] += self.noise * self.bound * rng.standard_normal(a.shape)
            new = a + total[n] / max(expected, 1e-300)
            total[n] = (new if a.dtype.kind == "f" else np.rint(new)).astype(a.dtype)
        return total

    def play(self, state: State, session: Session) -> Played:
        """Average, and send what is not the server's own."""
        heard = session.ask()
        if heard or self.noise:
            mean = self.average(heard, state, session)
            state = self.moved(state, mean, self.turnout(heard, session))
        down = {n: a for n, a in state.items() if not n.startswith("server/")}
        return state, {EVERYONE: down}, {}

    def moved(self, state: State, mean: Message, share: float) -> State:  # noqa: ARG002
        """State after a round, given the mean over a `share` of the clients: the mean itself.

        Arrays whose names begin with ``server/`` are not sent to clients.
        """
        return mean


def mean_of(messages: Iterable[Message]) -> Message:
    """Mean of messages, weighted by their numbers of examples where they tell them."""
    told = list(messages)
    sizes = [float(m["examples"]) for m in told if "examples" in m]
    parts = [{n: a for n, a in m.items() if n != "examples"} for m in told]
    return mean_tree(parts, sizes or None)


def mean_of_holders(
    sent: Iterable[np.ndarray],
    held: Sequence[np.ndarray],
    default: np.ndarray,
    weights: Sequence[float] | None = None,
) -> np.ndarray:
    """Mean of each entry over the clients that hold it, who send only those; else its `default`."""
    parts = [np.zeros_like(default) for _ in held]
    for part, own, entries in zip(parts, held, sent, strict=True):
        part[own] = entries
    return np.asarray(weighted_mean(parts, weights, masks=held, default=default))


def _epsilon(noise: float, steps: int, rate: float, delta: float) -> float:
    """Epsilon of steps with Poisson sampling; in closed form where all take part."""
    if rate == 1 or not noise:
        return gaussian_epsilon(noise, delta, steps)
    return accountant(noise, steps, delta=delta, rate=rate)
