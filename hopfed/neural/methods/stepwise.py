"""Methods whose rounds are minibatch steps, with public examples of all clients: AGG and FedMD.

Source: theory/NOTES.md, "Domains and public data" and "Baselines". FedH2L is in a file of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.aggregate import mean_tree
from hopfed.federation.contract import EVERYONE, Context, Metrics, State
from hopfed.federation.engines import Call, Outcome
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.data import splits
from hopfed.neural.data.partitions import Rows
from hopfed.neural.method import Rule, client_of, pack, unpack
from hopfed.neural.methods.standalone import Standalone
from hopfed.neural.training.cost import forward_flops
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.stacked_or_not import one_thread
from hopfed.neural.training.task import Params, TaskSpec, task_of
from hopfed.neural.training.training import Job, Phase, Plan

__all__ = ["AGG", "FedMD"]


@dataclass(frozen=True, eq=False)
class SeedSet:
    """Training examples of every node, divided into private and public ones.

    Attributes
    ----------
    private, public : one sorted index array per node; the two together are its training examples.
    """

    private: Rows = field(repr=False)
    public: Rows = field(repr=False)


@lru_cache(8)
def seed_set(task: TaskSpec, share: float) -> SeedSet:
    """Divide the training examples of a task's clients.

    Parameters
    ----------
    share : public examples of a client as a share of all its examples, which includes validation
        and test. This is alpha of FedH2L (arXiv:2101.11296), "compared with all data". Public
        examples are drawn from each client's training examples, stratified by class: at least
        one, or none if the share is 0.

    Raises
    ------
    DataError : a client would have no private example left.

    Examples
    --------
    >>> found = seed_set(TaskSpec(clients=2, partition="iid", examples=100), 0.1)
    >>> [len(rows) for rows in found.private], [len(rows) for rows in found.public]
    ([35, 35], [5, 5])
    """
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
            shown = splits.stratified(split.dataset.labels[rows], parts, rng) == 1
        private.append(rows[~shown])
        public.append(rows[shown])
    return SeedSet(tuple(private), tuple(public))


def draw(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `size` rows without replacement; return all rows if there are fewer."""
    return rng.choice(rows, min(size, len(rows)), replace=False)


@dataclass(frozen=True)
class Stepwise(Standalone):
    """Rounds of minibatch steps; a client's optimizer keeps its state from round to round.

    One optimizer makes all steps of a client, for all its losses; `training.epochs` is not used.
    Each minibatch is drawn without replacement, independently of the others.

    Attributes
    ----------
    public : share alpha of a client's examples that all clients know; see `seed_set`.
    labelled : whether the labels of public examples are known too.
    """

    public: float = 0.1
    labelled: bool = True

    rules: ClassVar[Mapping[str, Rule]] = {"public": "at least 0 and below 1"}

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

    def job(self, call: Call) -> Job:
        """The training of a step: planned, and with the optimizer as it was."""
        job = super().job(call)
        job.plans, job.moments = self.plans(call), unpack(call.state, "moments")
        return job

    def kept(self, job: Job) -> State:
        """State after training: model and optimizer."""
        return pack(job.params) | pack(job.moments or {}, "moments")

    def outcome(self, call: Call, job: Job, flops: float) -> Outcome:  # noqa: ARG002
        """What comes of a step."""
        return Outcome(self.kept(job), {}, {"loss": job.loss, "flops": flops})


@dataclass(frozen=True)
class AGG(Stepwise):
    """Every client trains on its own examples and on the public ones of all, without exchange.

    Aggregation, a baseline of FedH2L (arXiv:2101.11296); with `public` 0 it is its baseline IND. A
    round of FedH2L learns from ``(E + N - 1) B`` images for E local steps, N nodes and minibatches
    of B; one step of AGG learns from B images. Set `images` to compare the two at equal numbers of
    images (theory/NOTES.md, "Domains and public data").

    Attributes
    ----------
    images : images per round, in minibatches of `training.batch`; 0 means one minibatch.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("agg", images=64).traffic.up.tolist()  # bytes that each client sent
    [0, 0]
    """

    images: int = 0

    name: ClassVar[str] = "agg"
    source: ClassVar[str] = "Li et al., 2021 (FedH2L), baseline AGG"
    rules: ClassVar[Mapping[str, Rule]] = {"images": "at least 0"}

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.public
        require(known, "labelled", "true for agg, which trains on public labels", self.labelled)

    def plans(self, call: Call) -> dict[int, Plan]:
        """Return minibatches from the client's own examples and all public ones."""
        rows = self.rows(client_of(call.context), "all")
        images = self.images or self.training.batch
        return {0: self.minibatches(rows, call.context.rng("minibatches"), images)}


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

    rules: ClassVar[Mapping[str, Rule]] = {
        "local": ("private", "own", "all"),
        "steps": "at least 1",
    }
    exchanges: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.public > 0, "public", f"above 0 for {self.name}", self.public)
        seen = self.labelled or self.local != "all"
        require(seen, "labelled", "true to train on what others show", self.labelled)

    @abstractmethod
    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Return the message of exchange 0, and the number of examples classified for it."""

    def own_steps(self, call: Call) -> Plan:
        """Minibatches of the client's own steps."""
        rows, images = self.rows(client_of(call.context), self.local), self.steps
        rng = call.context.rng("minibatches")
        return self.minibatches(rows, rng, images * self.training.batch)

    def batches(self, context: Context) -> tuple[np.ndarray, ...]:
        """Public minibatch of every client in this round.

        All clients draw the same rows from the seed of the run, so they send no indices.
        """
        return _batches(self.seeds, context.seed, context.round, self.training.batch)

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
        return super().server_step(state, timely, context)

    def remembers(self, call: Call, job: Job) -> State:  # noqa: ARG002
        """State of exchange 0 that exchange 1 needs."""
        return {}

    def reports(self, call: Call, job: Job) -> Metrics:  # noqa: ARG002
        """Return metrics; those of exchange 1 replace those of exchange 0 with the same name."""
        return {"loss": job.loss}

    def outcome(self, call: Call, job: Job, flops: float) -> Outcome:
        """What comes of a step: the message of exchange 0, nothing in exchange 1."""
        message: Message = {}
        state = self.kept(job)
        if call.context.exchange:
            flops += float(call.state["flops"])
        else:
            client = client_of(call.context)
            message, images = self.says(call, job.params)
            flops += images * forward_flops(self.task, self.loaded.names[client])
            state |= self.remembers(call, job) | {"flops": np.asarray(flops)}
        return Outcome(state, message, {"flops": flops, **self.reports(call, job)})


@lru_cache(4)  # all clients of a round ask for the same batches
def _batches(seeds: SeedSet, seed: int, t: int, size: int) -> Rows:
    streams = (stream(seed, "public batch", t, node) for node in range(len(seeds.public)))
    return tuple(draw(rows, size, rng) for rows, rng in zip(seeds.public, streams, strict=True))


@dataclass(frozen=True)
class FedMD(Consulting):
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

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedmd", transfer=2).traffic.up.tolist()  # bytes that each client sent
    [800, 800]
    """

    digest: int = 1
    transfer: int = 100

    name: ClassVar[str] = "fedmd"
    source: ClassVar[str] = "Li and Wang, NeurIPS workshop 2019"
    rules: ClassVar[Mapping[str, Rule]] = {"digest": "at least 1", "transfer": "at least 0"}

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.transfer
        require(known, "transfer", "0 where public data have no labels", self.transfer)

    def phases(self) -> tuple[Phase, ...]:
        """Transfer on public and on own examples; then digest and revisit."""
        return (
            Phase(1, self.objective, exchange=0),
            Phase(1, self.objective, exchange=0),
            Phase(1, self.match, exchange=1, augment=False),
            Phase(1, self.objective, exchange=1),
        )

    def plans(self, call: Call) -> dict[int, Plan]:
        """Steps of each phase; transfer has steps only in a client's first round."""
        if call.context.exchange:
            digest = self.digest if call.down else 0
            return {2: [self._shown(call.context)] * digest, 3: self.own_steps(call)}
        images = 0 if call.state else self.transfer * self.training.batch
        rng, own = call.context.rng("transfer"), self.rows(client_of(call.context), self.local)
        public = self.minibatches(np.concatenate(self.seeds.public), rng, images)
        return {0: public, 1: self.minibatches(own, rng, images)}

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The consensus."""
        return {n: torch.from_numpy(np.array(a)) for n, a in down.items()}

    def match(self, net: Net, batch: Batch) -> Tensor:
        """Mean absolute difference to the consensus."""
        logits = net(batch.x)[1]
        return batch.mean((logits - batch.extra["logits"][: len(logits)]).abs().mean(dim=1))

    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Logits of the public minibatch."""
        shown = self._shown(call.context)
        logits, _ = self.scores(client_of(call.context), params, shown)
        return {"logits": logits.numpy()}, len(shown)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Logits, then nothing."""
        if context.exchange:
            return {}
        return {"logits": Field((len(self._shown(context)), self.loaded.classes), "f")}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Send the mean to everyone."""
        return state, {EVERYONE: mean_tree(list(messages.values())) if messages else {}}

    def _shown(self, context: Context) -> np.ndarray:
        return np.concatenate(self.batches(context))
