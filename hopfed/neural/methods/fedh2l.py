"""FedH2L: peers learn from each other's predictions on public minibatches.

Source: arXiv:2101.11296, eqs. (1) to (8), (14); theory/NOTES.md, "FedH2L mutual learning".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.federation.contract import Context, Metrics, State
from hopfed.federation.engines import Call
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.gradients import inner, pcgrad, project
from hopfed.neural.method import client_of, pack, unpack
from hopfed.neural.methods._stepwise import Consulting
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Direct, Forward, Job, Phase, Plan

RULES: dict[str, Direct | None] = {"project": project, "pcgrad": pcgrad, "ignore": None}


@dataclass(frozen=True)
class FedH2L(Consulting):
    """FedH2L of Li et al. (2021). The method has no server; here the server only relays messages.

    Exchange 0 is local, eqs. (1), (2). A node makes E steps on the cross-entropy of its own
    examples. It then classifies a minibatch of its own public examples, and broadcasts the
    posteriors p_j and their accuracy Acc_j: B K + 1 numbers for K classes.

    Exchange 1 is global. On the peers' minibatches, ``1/(N-1) sum_j Acc_j KL(p_j || p_i)``, eqs.
    (3), (4), and the cross-entropy, eq. (5), give the gradient g_pub, eq. (6). If g_pub conflicts
    with the local gradient g_loc, it is projected, eqs. (7), (8), (14).

    Decided where the paper is silent: with E = 1, g_loc is the minibatch gradient of eq. (2) before
    the local step; g_pub is computed after that step. With E > 1, g_loc is the displacement of the
    E steps, start minus end, which has the direction of a gradient. The projection applies to
    gradients; moments and weight decay of the optimizer are not constrained. Both kinds of steps
    use the same optimizer state. All nodes know the minibatch of a round from the seed. Sums run
    over the peers whose messages arrived; a node without messages makes only its local steps.

    Attributes
    ----------
    kl : whether nodes learn from posteriors; if False, nodes send no messages.
    conflict : "project"; "pcgrad", which also projects g_loc and adds it; "ignore", which uses
        g_pub without projection.
    pairs : whether nodes learn in random pairs, drawn in every round ("asynchronous" in the paper);
        with an odd number of nodes one has no partner.
    labelled : whether public labels are known. If not, only the KL term is used; every Acc_j is
        then 1 and is not sent.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedH2L(task, Training(way="sequential"), conflict="ignore")
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [444, 364]
    """

    kl: bool = True
    conflict: str = "project"
    pairs: bool = False

    name: ClassVar[str] = "fedh2l"
    source: ClassVar[str] = "Li et al., 2021"

    def __post_init__(self) -> None:
        super().__post_init__()
        alone = "2 or more for fedh2l: a peer alone has nobody to learn from"
        require(self.task.clients >= 2, "clients", alone, self.task.clients)
        require(self.labelled or self.kl, "labelled", "true where kl is false", self.labelled)
        require(self.conflict in RULES, "conflict", f"one of {', '.join(RULES)}", self.conflict)

    def phases(self) -> tuple[Phase, ...]:
        """Local, then global."""
        direct = None if RULES[self.conflict] is None else self.directed
        return (
            Phase(1, self.objective, exchange=0),
            Phase(1, self.mutual, exchange=1, augment=False, direct=direct),
        )

    def plans(self, call: Call) -> dict[int, Plan]:
        """Steps on own minibatches; then one step on the peers' minibatches."""
        if call.context.exchange == 0:
            return {0: self.own_steps(call)}
        batches = [self.batches(call.context)[j] for j in self.peers(call)]
        return {1: [np.concatenate(batches)] if batches else []}

    def circles(self, seed: int, t: int) -> list[list[int]]:
        """Groups of nodes that learn from each other in round `t`."""
        if not self.pairs:
            return [list(range(self.task.clients))]
        order = stream(seed, "pairs", t).permutation(self.task.clients).tolist()
        return [sorted(order[i : i + 2]) for i in range(0, len(order), 2)]

    def peers(self, call: Call) -> list[int]:
        """Nodes whose messages arrived; without `kl`, all nodes of the group."""
        if self.kl:
            return sorted({int(name.partition("/")[0]) for name in call.down})
        me, context = client_of(call.context), call.context
        circles = self.circles(context.seed, context.round)
        return [j for circle in circles if me in circle for j in circle if j != me]

    def mutual(self, net: Net, batch: Batch) -> Tensor:
        """Sum of eqs. (3) and (5); padding rows have weight 0."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        del mask
        logits = forward(params, x)[1]
        share, confidence, p = (extra[n][: len(y)] for n in ("share", "confidence", "posteriors"))
        loss = torch.zeros(())
        if self.labelled:
            loss = loss + (share * functional.cross_entropy(logits, y, reduction="none")).sum()
        if self.kl:
            divergence = (torch.xlogy(p, p) - p * logits.log_softmax(dim=1)).sum(dim=1)
            loss = loss + (confidence * divergence).sum()
        return loss

    def directed(self, gradient: Params, extra: Params) -> Params:
        """Gradient that the optimizer gets instead of g_pub."""
        rule = RULES[self.conflict]
        return gradient if rule is None else rule(gradient, _local(gradient, extra))

    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Posteriors on the own public minibatch, and their accuracy."""
        if not self.kl:
            return {}, 0
        client = client_of(call.context)
        shown = self.batches(call.context)[client]
        logits, y = self.scores(client, params, shown)
        message = {"posteriors": logits.softmax(dim=1).cpu().numpy()}
        if self.labelled:
            right = (logits.argmax(dim=1) == y).float().mean()
            message["accuracy"] = right.cpu().numpy()
        return message, len(shown)

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Posteriors and accuracy, then nothing."""
        if context.exchange or not self.kl:
            return {}
        count = len(self.batches(context)[client_of(context)])
        spec = {"posteriors": Field((count, self.loaded.classes), "f")}
        return spec | ({"accuracy": Field((), "f")} if self.labelled else {})

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Relay every message to the other nodes; array names start with the sender's number."""
        return state, {
            i: {f"{j}/{name}": a for j, m in messages.items() if j != i for name, a in m.items()}
            for i in messages
        }

    def server_step(
        self, state: State, messages: Mapping[int, Message], context: Context
    ) -> tuple[State, Mapping[int, Message], Metrics]:
        """Relay messages within each group."""
        if context.exchange or not self.pairs:
            return super().server_step(state, messages, context)
        down: dict[int, Message] = {}
        for circle in self.circles(context.seed, context.round):
            heard = {c: messages[c] for c in circle if c in messages}
            down |= super().server_step(state, heard, context)[1]
        return state, down, {}

    def remembers(self, call: Call, job: Job) -> State:
        """g_loc."""
        if self.steps == 1:
            return pack(job.gradient, "local")
        start = self.start_params_at(call)
        return pack({n: start[n] - job.params[n] for n in job.trained()}, "local")

    def reports(self, call: Call, job: Job) -> Metrics:
        """Loss of the local and the global step; 1 if their gradients conflict, else 0."""
        if call.context.exchange == 0:
            return {"loss": job.loss, "public_loss": np.nan, "conflict": np.nan}
        if not job.gradient:
            return {}
        overlap = inner(job.gradient, _local(job.gradient, job.extra))
        return {"public_loss": job.loss, "conflict": float(overlap < 0)}

    def _job(self, call: Call) -> Job:
        job = super()._job(call)
        if call.context.exchange:
            job.extra = self._signals(call) | {
                f"local/{n}": t for n, t in _remembered(call).items()
            }
        return job

    def _signals(self, call: Call) -> Params:
        """Weights and posteriors for the rows of the global step, equally many at every node."""
        peers, batches = self.peers(call), self.batches(call.context)
        width = self.training.batch * (1 if self.pairs else self.task.clients - 1)
        share = [np.full(len(batches[j]), 1 / (len(peers) * len(batches[j]))) for j in peers]
        trust = [float(call.down.get(f"{j}/accuracy", 1.0)) for j in peers]
        posteriors = np.zeros((width, self.loaded.classes), dtype=np.float32)
        weights = np.zeros((2, width), dtype=np.float32)
        if peers:
            count = sum(map(len, share))
            weights[0, :count] = np.concatenate(share)
            weights[1, :count] = np.concatenate([a * s for a, s in zip(trust, share, strict=True)])
            if self.kl:
                rows = [call.down[f"{j}/posteriors"] for j in peers]
                posteriors[:count] = np.concatenate(rows)
        tensors = map(torch.from_numpy, (posteriors, *weights))
        return dict(zip(("posteriors", "share", "confidence"), tensors, strict=True))


def _remembered(call: Call) -> Params:
    return unpack(call.state, "local")


def _local(gradient: Params, extra: Params) -> Params:
    return {name: extra[f"local/{name}"] for name in gradient}
