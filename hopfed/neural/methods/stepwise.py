"""Methods with rounds of minibatch steps and with public examples: AGG, FedMD, FedH2L.

Source: theory/NOTES.md, "Domains and public data", "Baselines" and "FedH2L mutual learning".
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.data.partitions import Rows, stratify_parts
from hopfed.neural.method import Answer, Client, NeuralMethod, Played, pack, setting
from hopfed.neural.methods.fedavg import mean_of_messages
from hopfed.neural.training.job import Direct, Job, Plan
from hopfed.neural.training.losses import Batch, Net, Objective
from hopfed.neural.training.task import Params, TaskSpec, task_of

__all__ = ["AGG", "FedH2L", "FedMD"]


class SeedSet(NamedTuple):
    """Sorted rows of the private and of the public training examples of every node."""

    private: Rows
    public: Rows


@lru_cache(8)
def draw_seed_set(task: TaskSpec, share: float) -> SeedSet:
    """Divide clients' training examples into private and public ones, for stepwise methods."""
    split, divided = task_of(task).split, []
    for client, rows in enumerate(split.train):
        count = max(1, round(share * split.sizes[client].sum())) if share else 0
        if count >= len(rows):
            short = f"client {client} of {len(split)} has {len(rows)} training examples"
            raise DataError(f"public: {short}, too few to publish {count} and keep one")
        shown, rng = np.zeros(len(rows), dtype=bool), stream(task.seed, "public", client)
        if count:
            shown = stratify_parts(split.dataset.labels[rows], (len(rows) - count, count), rng) == 1
        divided.append((rows[~shown], rows[shown]))
    return SeedSet(*zip(*divided, strict=True))


def draw_minibatch(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a stepwise method's minibatch: `size` rows without replacement, or all if fewer."""
    return rng.choice(rows, min(size, len(rows)), replace=False)


@dataclass(frozen=True)
class Stepwise(NeuralMethod):
    """Base of methods with rounds of minibatch steps, drawn independently without replacement.

    A client uses one optimizer in all rounds; `training.epochs` is not used.

    Attributes
    ----------
    public : share alpha of a client's examples that all clients know; see `draw_seed_set`.
    """

    public: float = setting(0.1, "at least 0 and below 1")

    @property
    def seeds(self) -> SeedSet:
        """Private and public examples of every client."""
        return draw_seed_set(self.task, self.public)

    def minibatches(self, rows: np.ndarray, rng: np.random.Generator, images: int) -> Plan:
        """Draw rows of steps that cover `images` examples; the last step may be smaller."""
        batch = self.training.batch
        return [draw_minibatch(rows, min(batch, images - i), rng) for i in range(0, images, batch)]

    def learn(
        self, client: Client, plan: Plan, objective: Objective | None = None, **more: Any
    ) -> Generator[Job, Job, Job]:
        """Make the steps of a plan with the client's model and optimizer, and keep both."""
        start, moments = self.begin(client, {}), client.kept("moments")
        job = yield client.train(start, objective, plan=plan, moments=moments, **more)
        client.state = pack(job.params) | pack(job.moments or {}, "moments")
        return job


@dataclass(frozen=True)
class AGG(Stepwise, name="agg", source="Li et al., 2021 (FedH2L), baseline AGG"):
    """Every client trains on its own and on all public examples, without exchange.

    A baseline of FedH2L (arXiv:2101.11296); with `public` 0 it is the baseline IND. A round of
    FedH2L learns from ``(E + N - 1) B`` images for E local steps, N nodes and minibatches of B: set
    `images` to compare at equal numbers (theory/NOTES.md, "Domains and public data").

    Attributes
    ----------
    images : number of images per round, in minibatches of `training.batch`; 0 is one minibatch.
    """

    images: int = setting(0, "at least 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        rows = np.concatenate([self.seeds.private[client.number], *self.seeds.public])
        images, rng = self.images or self.training.batch, client.context.rng("minibatches")
        yield from self.learn(client, self.minibatches(rows, rng, images))
        return {}


@dataclass(frozen=True)
class ConsultingMethod(Stepwise):
    """Base of methods whose clients send outputs for public minibatches, and learn from them.

    Attributes
    ----------
    labelled : whether the labels of public examples are known, too.
    steps : number E of a client's own steps in a round, on its private examples.
    """

    public: float = setting(0.1, "in (0, 1)")
    labelled: bool = True
    steps: int = setting(1, "at least 1")

    def own_steps(self, client: Client) -> Plan:
        """Draw the minibatches of the client's own steps."""
        rows, rng = self.seeds.private[client.number], client.context.rng("minibatches")
        return self.minibatches(rows, rng, self.steps * self.training.batch)

    def batches(self, context: Context) -> tuple[np.ndarray, ...]:
        """Return every client's public minibatch of this round, which depends on the seed."""
        return _batches(self.task, self.public, context.seed, context.round, self.training.batch)


def ask_in_time(session: Session) -> dict[int, Message]:
    """Ask the clients of a stepwise method, and omit late messages of another minibatch."""
    return {c: m for c, m in session.ask().items() if c not in session.ages}


@lru_cache(4)  # all clients of a round use the same batches
def _batches(task: TaskSpec, share: float, seed: int, t: int, size: int) -> Rows:
    nodes = enumerate(draw_seed_set(task, share).public)
    return tuple(draw_minibatch(own, size, stream(seed, "public batch", t, c)) for c, own in nodes)


@dataclass(frozen=True)
class FedMD(
    ConsultingMethod, questions=("consult", "digest"), name="fedmd", source="Li and Wang, 2019"
):
    """Li and Wang (2019): clients learn from the mean logits of all clients on public examples.

    Clients send their logits on the public minibatches of all nodes; the server sends the mean to
    all. A client then takes `digest` steps on the mean absolute difference from the mean logits, as
    in the authors' program, and `steps` steps on its own examples. Before its first round a client
    takes `transfer` steps on the labelled public examples, then as many on its own examples.

    Attributes
    ----------
    digest : steps towards the mean logits (the consensus) in a round.
    transfer : steps on public and then on own examples before the first round; 0 for none.
    """

    digest: int = setting(1, "at least 1")
    transfer: int = setting(100, "at least 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.labelled or not self.transfer
        require(known, "transfer", "0 where public data have no labels", self.transfer)

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        shown = np.concatenate(self.batches(client.context))
        if question == "consult":
            if not client.state and self.transfer:
                rng, images = client.context.rng("transfer"), self.transfer * self.training.batch
                for rows in (np.concatenate(self.seeds.public), self.seeds.private[client.number]):
                    yield from self.learn(client, self.minibatches(rows, rng, images))
            client.state = client.state or pack(client.initial)
            return {"logits": client.look(self.begin(client, {}), shown).logits}
        if down:
            consensus = {n: torch.from_numpy(np.array(a)) for n, a in down.items()}
            plan = [shown] * self.digest
            yield from self.learn(client, plan, self.match, extra=consensus, augment=False)
        yield from self.learn(client, self.own_steps(client))
        return {}

    def play(self, state: State, session: Session) -> Played:
        session.ask({EVERYONE: mean_of_messages(ask_in_time(session).values())})
        return state, {EVERYONE: {}}, {}  # clients send nothing after the digest

    def match(self, net: Net, batch: Batch) -> Tensor:
        """Return the mean absolute difference from the consensus."""
        logits = net(batch.x)[1]
        return batch.mean((logits - batch.extra["logits"][: len(logits)]).abs().mean(dim=1))


@dataclass(frozen=True)
class FedH2L(
    ConsultingMethod, questions=("local", "mutual"), name="fedh2l", source="Li et al., 2021"
):
    """FedH2L of Li et al. (2021, arXiv:2101.11296), eqs. (1) to (8), (14).

    The server only relays messages. In exchange 0 a node takes E steps on the cross-entropy of its
    own examples, eqs. (1), (2). It then classifies a minibatch of its public examples, and
    broadcasts the posteriors p_j and their accuracy Acc_j.

    In exchange 1, on the peers' minibatches, ``1/(N-1) sum_j Acc_j KL(p_j || p_i)``, eqs. (3), (4),
    and the cross-entropy, eq. (5), give the gradient g_pub, eq. (6). If it conflicts with the local
    gradient g_loc, it is projected, eqs. (7), (8), (14).

    Decided where the paper is silent: with E = 1, g_loc is the gradient of eq. (2) before the local
    step, and g_pub is computed after it; with E > 1, g_loc is the displacement of the E steps,
    start minus end. Moments and weight decay of the single optimizer are not constrained. All nodes
    derive the minibatch of a round from the seed. Sums run over the peers whose messages arrived; a
    node without messages takes only its local steps.

    Attributes
    ----------
    kl : whether nodes learn from posteriors; if False, nodes send no messages.
    conflict : "project"; "pcgrad", which also projects g_loc and adds it; "ignore", plain g_pub.
    pairs : whether nodes learn in random pairs in each round ("asynchronous" in the paper); with an
        odd number, a node has no partner.
    labelled : whether public labels are known; if not, only the KL term is used, every Acc_j is 1.
    """

    kl: bool = True
    conflict: str = setting("project", ("project", "pcgrad", "ignore"))
    pairs: bool = False

    tells: ClassVar[tuple[str, ...]] = ("loss", "flops", "public_loss", "conflict")

    def __post_init__(self) -> None:
        super().__post_init__()
        alone = "2 or more for fedh2l, where clients learn from each other"
        require(self.task.clients >= 2, "clients", alone, self.task.clients)
        require(self.labelled or self.kl, "labelled", "true where kl is false", self.labelled)

    def circles(self, seed: int, t: int) -> list[list[int]]:
        """Return the groups of nodes that learn from each other in round `t`."""
        if not self.pairs:
            return [list(range(self.task.clients))]
        order = stream(seed, "pairs", t).permutation(self.task.clients).tolist()
        return [sorted(order[i : i + 2]) for i in range(0, len(order), 2)]

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        if question == "local":
            return (yield from self._local(client))
        peers, shown = self.peers(client, down), self.batches(client.context)
        client.metrics = {}
        if peers:
            local = client.kept("local")
            plan, signals = [np.concatenate([shown[j] for j in peers])], self._signals(client, down)
            more = {"extra": signals | local, "direct": self.directed, "augment": False}
            job = yield from self.learn(client, plan, self.mutual, **more)
            overlap = gradient_inner_product(job.gradient, local)
            client.metrics = {"public_loss": job.loss, "conflict": float(overlap < 0)}
        return {}

    def play(self, state: State, session: Session) -> Played:
        heard = ask_in_time(session)
        relayed = {  # names of arrays start with the sender's number
            i: {f"{j}/{n}": a for j in circle if j in heard and j != i for n, a in heard[j].items()}
            for circle in self.circles(session.context.seed, session.context.round)
            for i in circle
            if i in heard
        }
        session.ask(relayed)
        return state, {EVERYONE: {}}, {}

    def _local(self, client: Client) -> Answer:
        """Take steps on own examples, eqs. (1), (2); return posteriors on public examples."""
        start = self.begin(client, {})
        job = yield from self.learn(client, self.own_steps(client))
        # With one step, g_loc is its gradient; otherwise it is start minus end.
        moved = {n: start[n] - job.params[n] for n in job.trained}
        client.state |= pack(job.gradient if self.steps == 1 else moved, "local")
        client.metrics = {"loss": job.loss, "public_loss": np.nan, "conflict": np.nan}
        if not self.kl:
            return {}
        seen = client.look(self.begin(client, {}), self.batches(client.context)[client.number])
        message = {"posteriors": softmax(seen.logits, axis=1)}
        if self.labelled:
            message["accuracy"] = np.float32((seen.logits.argmax(axis=1) == seen.labels).mean())
        return message

    def peers(self, client: Client, down: Message) -> list[int]:
        """Return the peers whose messages arrived; without `kl`, all peers of the group."""
        if self.kl:
            return sorted({int(name.partition("/")[0]) for name in down})
        c, circles = client.number, self.circles(client.context.seed, client.context.round)
        return [j for circle in circles if c in circle for j in circle if j != c]

    def mutual(self, net: Net, batch: Batch) -> Tensor:
        """Return the sum of eqs. (3) and (5); padding rows have weight 0."""
        logits, extra = net(batch.x)[1], batch.extra
        share, trust, p = (extra[n][: len(logits)] for n in ("share", "trust", "posteriors"))
        right = functional.cross_entropy(logits, batch.y, reduction="none")
        divergence = (torch.xlogy(p, p) - p * logits.log_softmax(dim=1)).sum(dim=1)
        return self.labelled * (share * right).sum() + self.kl * (trust * divergence).sum()

    def directed(self, gradient: Params, extra: Params) -> Params:
        """Return the gradient for the optimizer instead of g_pub; `extra` has g_loc."""
        return RULES[self.conflict](gradient, {n: extra[n] for n in gradient})

    def _signals(self, client: Client, down: Message) -> Params:
        """Return weights and posteriors for the rows of the global step, padded to equal length."""
        peers, batches = self.peers(client, down), self.batches(client.context)
        width = self.training.batch * (1 if self.pairs else self.task.clients - 1)
        found = {n: np.zeros(width, np.float32) for n in ("share", "trust")}
        found["posteriors"] = np.zeros((width, self.loaded.classes), np.float32)
        end = 0
        for j in peers:
            rows = slice(end, end := end + len(batches[j]))
            found["share"][rows] = 1 / (len(peers) * len(batches[j]))
            found["trust"][rows] = float(down.get(f"{j}/accuracy", 1.0)) * found["share"][rows]
            if self.kl:
                found["posteriors"][rows] = down[f"{j}/posteriors"]
        return {name: torch.from_numpy(array) for name, array in found.items()}


def gradient_inner_product(a: Params, b: Params) -> Tensor:
    """For stepwise methods: inner product of two gradients, each a dict of tensors."""
    return sum(((a[name] * b[name]).sum() for name in a), torch.zeros(()))


def project_gradient(public: Params, local: Params) -> Params:
    """For stepwise methods: vector nearest to `public`, no negative inner product with `local`.

    Solution of eq. (8): ``g_pub + v g_loc``, ``v = max(0, -<g_pub, g_loc> / |g_loc|^2)``, eq. (14).
    """
    square = gradient_inner_product(local, local)
    least = torch.finfo(square.dtype).tiny
    v = (-gradient_inner_product(public, local) / square.clamp(min=least)).clamp(min=0)
    return {name: g + v * local[name] for name, g in public.items()}


def pcgrad(public: Params, local: Params) -> Params:
    """For stepwise methods: sum of both gradients, each projected (Yu et al., 2020, Alg. 1)."""
    ours, theirs = project_gradient(local, public), project_gradient(public, local)
    return {name: g + ours[name] for name, g in theirs.items()}


RULES: dict[str, Direct] = {"project": project_gradient, "pcgrad": pcgrad, "ignore": lambda g, _: g}
