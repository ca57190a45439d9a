"""Methods whose rounds are minibatch steps, with public examples of all clients: AGG and FedMD.

Source: theory/NOTES.md, "Domains and public data" and "Baselines". FedH2L is in a file of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.federation.rounds import Session
from hopfed.neural.data.splits import Rows, stratified
from hopfed.neural.method import Answer, Client, NeuralMethod, Played, pack, setting
from hopfed.neural.training.cost import forward_flops
from hopfed.neural.training.evaluation import Embedded, Network
from hopfed.neural.training.losses import Batch, Net, Objective
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.neural.training.training import Job, Plan

__all__ = ["AGG", "FedMD"]


@dataclass(frozen=True, eq=False)
class SeedSet:
    """Training examples of every node, divided into private and public ones: sorted rows each."""

    private: Rows = field(repr=False)
    public: Rows = field(repr=False)


@lru_cache(8)
def seed_set(task: TaskSpec, share: float) -> SeedSet:
    """Divide the training examples of a task's clients."""
    split = task_of(task).split
    private, public = [], []
    for client, rows in enumerate(split.train):
        count = max(1, round(share * split.sizes[client].sum())) if share else 0
        if count >= len(rows):
            who = f"client {client} of {len(split)} has {len(rows)} training examples"
            raise DataError(f"public: {who}, too few to show {count} and keep one")
        shown = np.zeros(len(rows), dtype=bool)
        if count:
            parts, rng = (len(rows) - count, count), stream(task.seed, "public", client)
            shown = stratified(split.dataset.labels[rows], parts, rng) == 1
        private.append(rows[~shown])
        public.append(rows[shown])
    return SeedSet(tuple(private), tuple(public))


def draw(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `size` rows without replacement; return all rows if there are fewer."""
    return rng.choice(rows, min(size, len(rows)), replace=False)


@dataclass(frozen=True)
class Stepwise(NeuralMethod):
    """Rounds of minibatch steps; a client's optimizer keeps its state from round to round.

    One optimizer makes all steps of a client, for all its losses; `training.epochs` is not used.
    Each minibatch is drawn without replacement, independently of the others.

    Attributes
    ----------
    public : share alpha of a client's examples that all clients know; see `seed_set`.
    labelled : whether the labels of public examples are known too.
    """

    public: float = setting(0.1, "at least 0 and below 1")
    labelled: bool = True

    @property
    def seeds(self) -> SeedSet:
        """Private and public examples of every client."""
        return seed_set(self.task, self.public)

    def rows(self, client: int, whose: str) -> np.ndarray:
        """Return the examples of a client that `whose` names: "private", "own" or "all"."""
        public = {"private": (), "own": self.seeds.public[client : client + 1]}
        return np.concatenate([self.seeds.private[client], *public.get(whose, self.seeds.public)])

    def minibatches(self, rows: np.ndarray, rng: np.random.Generator, images: int) -> Plan:
        """Rows of the steps that cover `images` examples; the last step may be smaller."""
        batch = self.training.batch
        return [draw(rows, min(batch, images - i), rng) for i in range(0, images, batch)]

    def learn(
        self, client: Client, plan: Plan, objective: Objective | None = None, **more: Any
    ) -> Generator[Job, Job, Job]:
        """Make the steps of a plan from the client's model and optimizer, and keep both."""
        start, moments = self.begin(client, {}), client.kept("moments")
        job = yield client.train(start, objective, plan=plan, moments=moments, **more)
        client.state = pack(job.params) | pack(job.moments or {}, "moments")
        return job


@dataclass(frozen=True)
class AGG(Stepwise, name="agg", source="Li et al., 2021 (FedH2L), baseline AGG"):
    """Every client trains on its own examples and on the public ones of all, without exchange.

    Aggregation, a baseline of FedH2L (arXiv:2101.11296); with `public` 0 it is its baseline IND. A
    round of FedH2L learns from ``(E + N - 1) B`` images for E local steps, N nodes and minibatches
    of B; one step of AGG learns from B images. Set `images` to compare the two at equal numbers of
    images (theory/NOTES.md, "Domains and public data").

    Attributes
    ----------
    images : images per round, in minibatches of `training.batch`; 0 means one minibatch.
    """

    images: int = setting(0, "at least 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.public
        require(known, "labelled", "true for agg, which trains on public labels", self.labelled)

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Make steps on the client's own examples and all public ones."""
        rows, images = self.rows(client.number, "all"), self.images or self.training.batch
        yield from self.learn(
            client, self.minibatches(rows, client.context.rng("minibatches"), images)
        )
        return {}


@dataclass(frozen=True)
class Consulting(Stepwise):
    """Clients tell outputs for a public minibatch, and then learn from those of all.

    Attributes
    ----------
    local : examples of a client's own steps: "private"; "own", private and its own public ones;
        "all", private and everybody's public ones.
    steps : number E of a client's own steps in a round.
    """

    local: str = setting("private", ("private", "own", "all"))
    steps: int = setting(1, "at least 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.public > 0, "public", f"above 0 for {self.name}", self.public)
        seen = self.labelled or self.local != "all"
        require(seen, "labelled", "true to train on what others show", self.labelled)

    def own_steps(self, client: Client) -> Plan:
        """Minibatches of the client's own steps."""
        rows, rng = self.rows(client.number, self.local), client.context.rng("minibatches")
        return self.minibatches(rows, rng, self.steps * self.training.batch)

    def batches(self, context: Context) -> tuple[np.ndarray, ...]:
        """Public minibatch of every client in this round.

        All clients draw the same rows from the seed of the run, so they send no indices.
        """
        return _batches(self.seeds, context.seed, context.round, self.training.batch)

    def shown(self, client: Client, rows: np.ndarray) -> Embedded:
        """Return outputs and labels of the examples `rows` under the client's present model."""
        client.spend(len(rows) * forward_flops(self.task, client.task.names[client.number]))
        return Network(client.model, self.begin(client, {})).embed(client.task.tensors, rows)


def timely(session: Session) -> dict[int, Message]:
    """Ask, and leave out late messages, which belong to the minibatch of another round."""
    heard = session.ask()
    return {c: m for c, m in heard.items() if c not in session.ages}


@lru_cache(4)  # all clients of a round ask for the same batches
def _batches(seeds: SeedSet, seed: int, t: int, size: int) -> Rows:
    streams = (stream(seed, "public batch", t, node) for node in range(len(seeds.public)))
    return tuple(draw(rows, size, rng) for rows, rng in zip(seeds.public, streams, strict=True))


@dataclass(frozen=True)
class FedMD(Consulting, questions=("consult", "digest"), name="fedmd", source="Li and Wang, 2019"):
    """Li and Wang (2019): communicate, aggregate, distribute, digest, revisit.

    Rounds consist of steps, as in FedH2L. The public minibatches of all nodes together form the
    public minibatch of a round. Clients send their logits on it; the server sends the mean to all.
    A client then makes `digest` steps towards the mean, and `steps` steps on its own examples. The
    loss of the first is the mean absolute difference of the logits, as in the authors' program.
    Before its first round a client makes `transfer` steps on the labelled public examples, then as
    many on its own.

    Attributes
    ----------
    digest : steps towards the mean logits (the consensus) in a round.
    transfer : steps on public and then on own examples before the first round; 0 means none.
    """

    digest: int = setting(1, "at least 1")
    transfer: int = setting(100, "at least 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.transfer
        require(known, "transfer", "0 where public data have no labels", self.transfer)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        """Tell the logits of the public minibatch; then digest their mean, and revisit."""
        shown = np.concatenate(self.batches(client.context))
        if question == "consult":
            if not client.state and self.transfer:
                yield from self._transfer(client)
            client.state = client.state or pack(client.initial)
            return {"logits": self.shown(client, shown).logits}
        if down:
            consensus = {n: torch.from_numpy(np.array(a)) for n, a in down.items()}
            plan = [shown] * self.digest
            yield from self.learn(client, plan, self.match, extra=consensus, augment=False)
        yield from self.learn(client, self.own_steps(client))
        return {}

    def play(self, state: State, session: Session) -> Played:
        """Send the mean to everyone; after that there is no answer, and the old one is dropped."""
        heard = list(timely(session).values())
        session.ask({EVERYONE: mean_tree(heard) if heard else {}})
        return state, {EVERYONE: {}}, {}

    def _transfer(self, client: Client) -> Generator[Job, Job, None]:
        rng, images = client.context.rng("transfer"), self.transfer * self.training.batch
        for rows in (np.concatenate(self.seeds.public), self.rows(client.number, self.local)):
            yield from self.learn(client, self.minibatches(rows, rng, images))

    def match(self, net: Net, batch: Batch) -> Tensor:
        """Mean absolute difference to the consensus."""
        logits = net(batch.x)[1]
        return batch.mean((logits - batch.extra["logits"][: len(logits)]).abs().mean(dim=1))

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Logits, then nothing."""
        if context.exchange:
            return {}
        shown = sum(len(rows) for rows in self.batches(context))
        return {"logits": Field((shown, self.loaded.classes), "f")}
