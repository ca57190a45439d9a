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
from hopfed.neural.method import Rule, client_of, pack, unpack
from hopfed.neural.methods.stepwise import Consulting
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Direct, Job, Phase, Plan

__all__ = ["FedH2L"]


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
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedh2l", conflict="ignore").traffic.up.tolist()  # bytes that each client sent
    [444, 364]
    """

    kl: bool = True
    conflict: str = "project"
    pairs: bool = False

    name: ClassVar[str] = "fedh2l"
    source: ClassVar[str] = "Li et al., 2021"
    rules: ClassVar[Mapping[str, Rule]] = {"conflict": ("project", "pcgrad", "ignore")}

    def __post_init__(self) -> None:
        super().__post_init__()
        alone = "2 or more for fedh2l: a peer alone has nobody to learn from"
        require(self.task.clients >= 2, "clients", alone, self.task.clients)
        require(self.labelled or self.kl, "labelled", "true where kl is false", self.labelled)

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
        logits, extra = net(batch.x)[1], batch.extra
        share, trust, p = (extra[n][: len(logits)] for n in ("share", "trust", "posteriors"))
        loss = torch.zeros(())
        if self.labelled:
            right = functional.cross_entropy(logits, batch.y, reduction="none")
            loss = loss + (share * right).sum()
        if self.kl:
            divergence = (torch.xlogy(p, p) - p * logits.log_softmax(dim=1)).sum(dim=1)
            loss = loss + (trust * divergence).sum()
        return loss

    def directed(self, gradient: Params, extra: Params) -> Params:
        """Gradient that the optimizer gets instead of g_pub; `extra` has g_loc."""
        rule = RULES[self.conflict]
        return gradient if rule is None else rule(gradient, {n: extra[n] for n in gradient})

    def says(self, call: Call, params: Params) -> tuple[Message, int]:
        """Posteriors on the own public minibatch, and their accuracy."""
        if not self.kl:
            return {}, 0
        client = client_of(call.context)
        shown = self.batches(call.context)[client]
        logits, y = self.scores(client, params, shown)
        message = {"posteriors": logits.softmax(dim=1).numpy()}
        if self.labelled:
            right = (logits.argmax(dim=1) == y).float().mean()
            message["accuracy"] = right.numpy()
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
        overlap = inner(job.gradient, job.extra)
        return {"public_loss": job.loss, "conflict": float(overlap < 0)}

    def job(self, call: Call) -> Job:
        """The training of a step; the global one knows the peers' posteriors and g_loc."""
        job = super().job(call)
        if call.context.exchange:
            job.extra = self._signals(call) | unpack(call.state, "local")
        return job

    def _signals(self, call: Call) -> Params:
        """Weights and posteriors for the rows of the global step, equally many at every node."""
        peers, batches = self.peers(call), self.batches(call.context)
        width = self.training.batch * (1 if self.pairs else self.task.clients - 1)
        found = {n: np.zeros(width, np.float32) for n in ("share", "trust")}
        found["posteriors"] = np.zeros((width, self.loaded.classes), np.float32)
        end = 0
        for j in peers:
            rows = slice(end, end := end + len(batches[j]))
            found["share"][rows] = 1 / (len(peers) * len(batches[j]))
            found["trust"][rows] = float(call.down.get(f"{j}/accuracy", 1.0)) * found["share"][rows]
            if self.kl:
                found["posteriors"][rows] = call.down[f"{j}/posteriors"]
        return {name: torch.from_numpy(array) for name, array in found.items()}


def inner(a: Params, b: Params) -> Tensor:
    """Return the inner product of two gradients, dicts of tensors of which each is one vector.

    Examples
    --------
    >>> inner({"w": torch.ones(2), "b": torch.ones(1)}, {"w": torch.ones(2), "b": torch.zeros(1)})
    tensor(2.)
    """
    products = [(a[name] * b[name]).sum() for name in a]
    return sum(products[1:], products[0])


def project(public: Params, local: Params) -> Params:
    """Return the vector nearest to `public` that has no negative inner product with `local`.

    This solves the quadratic program of eq. (8), which has one constraint, in closed form: the
    result is ``g_pub + v g_loc``, and ``v = max(0, -<g_pub, g_loc> / |g_loc|^2)`` solves its dual,
    eq. (14). Without a conflict the result is `public` itself, bit for bit. With a conflict its
    inner product with `local` is 0 up to rounding.

    Examples
    --------
    >>> project({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([1., 0.])
    """
    square = inner(local, local)
    least = torch.finfo(square.dtype).tiny
    v = (-inner(public, local) / square.clamp(min=least)).clamp(min=0)
    return {name: g + v * local[name] for name, g in public.items()}


def pcgrad(public: Params, local: Params) -> Params:
    """Return the sum of both gradients, each projected off the other where they conflict.

    Source: Yu et al. (2020), Algorithm 1, for two tasks.

    Examples
    --------
    >>> pcgrad({"w": torch.tensor([1.0, -1.0])}, {"w": torch.tensor([0.0, 2.0])})["w"]
    tensor([2., 1.])
    """
    ours, theirs = project(local, public), project(public, local)
    return {name: g + ours[name] for name, g in theirs.items()}


RULES: dict[str, Direct | None] = {"project": project, "pcgrad": pcgrad, "ignore": None}
