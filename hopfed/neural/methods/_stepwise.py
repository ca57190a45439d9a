"""Base of methods whose rounds are minibatch steps, and of those that use public minibatches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.messages import Message
from hopfed.neural.method import client_of, pack, unpack
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.public import SeedSet, draw, seed_set
from hopfed.neural.training.cost import forward_flops
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.stacked_or_not import one_thread
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job, Phase, Plan

WHOSE = ("private", "own", "all")


@dataclass(frozen=True)
class Stepwise(Standalone):
    """Rounds of minibatch steps; a client's optimizer keeps its state from round to round.

    One optimizer makes all steps of a client, for all its losses; `training.epochs` is not used.
    Each minibatch is drawn without replacement, independently of the others.

    Attributes
    ----------
    public : share alpha of a client's examples that all clients know; see `public.seed_set`.
    labelled : whether the labels of public examples are known too.
    """

    public: float = 0.1
    labelled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.public < 1, "public", "at least 0 and below 1", self.public)

    @property
    def seeds(self) -> SeedSet:
        """Private and public examples of every client."""
        return seed_set(self.task, self.public)

    @abstractmethod
    def plans(self, call: Call) -> dict[int, Plan]:
        """Rows of the steps of each phase of an exchange."""

    def phases(self) -> tuple[Phase, ...]:
        """One phase, which consists of the planned steps."""
        return (Phase(1, self.objective),)

    def rows(self, client: int, whose: str) -> np.ndarray:
        """Return the examples of a client that `whose` names: "private", "own" or "all"."""
        public = {"private": (), "own": self.seeds.public[client : client + 1]}
        return np.concatenate([self.seeds.private[client], *public.get(whose, self.seeds.public)])

    def minibatches(self, rows: np.ndarray, rng: np.random.Generator, images: int) -> Plan:
        """Rows of the steps that cover `images` examples; the last step may be smaller."""
        batch = self.training.batch
        return [draw(rows, min(batch, images - i), rng) for i in range(0, images, batch)]

    def kept(self, job: Job) -> State:
        """State after training: model and optimizer."""
        return pack(job.params) | pack(job.moments or {}, "moments")

    def _job(self, call: Call) -> Job:
        job = super()._job(call)
        job.plans, job.moments = self.plans(call), unpack(call.state, "moments")
        return job

    def _outcome(self, call: Call, job: Job, flops: float) -> Outcome:  # noqa: ARG002
        return Outcome(self.kept(job), {}, {"loss": job.loss, "flops": flops})


@dataclass(frozen=True)
class Consulting(Stepwise):
    """Clients send outputs for a public minibatch in exchange 0, and learn from them in exchange 1.

    The server ignores late messages, because they belong to the minibatch of another round.

    Attributes
    ----------
    local : examples of a client's own steps: "private"; "own", private and its own public ones;
        "all", private and everybody's public ones.
    steps : number E of a client's own steps in a round.
    """

    local: str = "private"
    steps: int = 1

    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.public > 0, "public", f"above 0 for {self.name}", self.public)
        require(self.local in WHOSE, "local", f"one of {', '.join(WHOSE)}", self.local)
        seen = self.labelled or self.local != "all"
        require(seen, "labelled", "true to train on what others show", self.labelled)
        require(self.steps >= 1, "steps", "at least 1", self.steps)

    @abstractmethod
    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Return the message of exchange 0, and the number of examples classified for it."""

    def own_steps(self, call: Call) -> Plan:
        """Minibatches of the client's own steps."""
        rows = self.rows(client_of(call.context), self.local)
        return self.minibatches(
            rows, call.context.rng("minibatches"), self.steps * self.training.batch
        )

    def batches(self, context: Context) -> tuple[np.ndarray, ...]:
        """Public minibatch of every client in this round."""
        return self.seeds.batches(context.seed, context.round, self.training.batch)

    def scores(self, client: int, params: Params, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return logits and labels of the examples `rows` under a client's model, on the CPU."""
        x, y = self.loaded.tensors.batch(self.loaded.tensors.rows(rows))
        with torch.inference_mode(), one_thread():
            return Network(self.loaded.model(client), params)(x).cpu(), y.cpu()

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Answer exchange 0; after exchange 1 there is no answer, and the old one is dropped."""
        if context.exchange:
            return state, {EVERYONE: {}}, {}
        timely = {c: m for c, m in messages.items() if c not in context.ages}
        state, down = self.answer(state, timely)
        return state, down, {}

    def remembers(self, call: Call, job: Job) -> State:  # noqa: ARG002
        """State of exchange 0 that exchange 1 needs."""
        return {}

    def reports(self, call: Call, job: Job) -> Metrics:  # noqa: ARG002
        """Return metrics; those of exchange 1 replace those of exchange 0 with the same name."""
        return {"loss": job.loss}

    def _outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        if call.context.exchange:
            flops += float(call.state["flops"])
            return Outcome(self.kept(job), {}, {"flops": flops, **self.reports(call, job)})
        client = client_of(call.context)
        message, images = self.says(call, job.params)
        flops += images * forward_flops(self.task, self.loaded.names[client])
        state = self.kept(job) | self.remembers(call, job) | {"flops": np.asarray(flops)}
        return Outcome(state, message, {"flops": flops, **self.reports(call, job)})
