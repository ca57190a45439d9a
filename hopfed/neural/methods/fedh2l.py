"""FedH2L: peers learn from each other's predictions on public minibatches.

Source: arXiv:2101.11296, eqs. (1) to (8), (14); theory/NOTES.md, "FedH2L mutual learning".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Played, pack, setting
from hopfed.neural.methods.stepwise import Consulting, timely
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Direct

__all__ = ["FedH2L"]


@dataclass(frozen=True)
class FedH2L(Consulting, questions=("local", "mutual"), name="fedh2l", source="Li et al., 2021"):
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
    """

    kl: bool = True
    conflict: str = setting("project", ("project", "pcgrad", "ignore"))
    pairs: bool = False

    tells: ClassVar[tuple[str, ...]] = ("loss", "flops", "public_loss", "conflict")

    def __post_init__(self) -> None:
        super().__post_init__()
        alone = "2 or more for fedh2l: a peer alone has nobody to learn from"
        require(self.task.clients >= 2, "clients", alone, self.task.clients)
        require(self.labelled or self.kl, "labelled", "true where kl is false", self.labelled)

    def circles(self, seed: int, t: int) -> list[list[int]]:
        """Groups of nodes that learn from each other in round `t`."""
        if not self.pairs:
            return [list(range(self.task.clients))]
        order = stream(seed, "pairs", t).permutation(self.task.clients).tolist()
        return [sorted(order[i : i + 2]) for i in range(0, len(order), 2)]

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        """Make the local steps, and tell posteriors; then make the global step."""
        if question == "local":
            return (yield from self._local(client))
        peers, shown = self.peers(client, down), self.batches(client.context)
        client.metrics = {}
        if peers:
            local = client.kept("local")
            plan, signals = [np.concatenate([shown[j] for j in peers])], self._signals(client, down)
            direct = None if RULES[self.conflict] is None else self.directed
            more = {"extra": signals | local, "direct": direct, "augment": False}
            job = yield from self.learn(client, plan, self.mutual, **more)
            overlap = inner(job.gradient, local)
            client.metrics = {"public_loss": job.loss, "conflict": float(overlap < 0)}
        return {}

    def play(self, state: State, session: Session) -> Played:
        """Relay every message within its group; names of arrays start with the sender's number."""
        heard = timely(session)
        relayed = {
            i: {f"{j}/{n}": a for j in circle if j in heard and j != i for n, a in heard[j].items()}
            for circle in self.circles(session.context.seed, session.context.round)
            for i in circle
            if i in heard
        }
        session.ask(relayed)
        return state, {EVERYONE: {}}, {}

    def _local(self, client: Client) -> Answer:
        """Steps on own examples, eqs. (1), (2); posteriors on the own public minibatch."""
        start = self.begin(client, {})
        job = yield from self.learn(client, self.own_steps(client))
        # With one step, g_loc is its gradient; else the way back has the direction of a gradient.
        moved = {n: start[n] - job.params[n] for n in job.trained()}
        client.state |= pack(job.gradient if self.steps == 1 else moved, "local")
        client.metrics = {"loss": job.loss, "public_loss": np.nan, "conflict": np.nan}
        if not self.kl:
            return {}
        shown = self.batches(client.context)[client.number]
        seen = self.shown(client, shown)
        message = {"posteriors": softmax(seen.logits, axis=1)}
        if self.labelled:
            message["accuracy"] = np.float32((seen.logits.argmax(axis=1) == seen.labels).mean())
        return message

    def peers(self, client: Client, down: Message) -> list[int]:
        """Nodes whose messages arrived; without `kl`, all nodes of the group."""
        if self.kl:
            return sorted({int(name.partition("/")[0]) for name in down})
        circles = self.circles(client.context.seed, client.context.round)
        return [j for circle in circles if client.number in circle for j in circle
                if j != client.number]  # fmt: skip

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

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """Posteriors and accuracy, then nothing."""
        if context.exchange or not self.kl:
            return {}
        count = len(self.batches(context)[context.client or 0])
        spec = {"posteriors": Field((count, self.loaded.classes), "f")}
        return spec | ({"accuracy": Field((), "f")} if self.labelled else {})

    def _signals(self, client: Client, down: Message) -> Params:
        """Weights and posteriors for the rows of the global step, equally many at every node."""
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


def inner(a: Params, b: Params) -> Tensor:
    """Return the inner product of two gradients, dicts of tensors of which each is one vector."""
    products = [(a[name] * b[name]).sum() for name in a]
    return sum(products[1:], products[0])


def project(public: Params, local: Params) -> Params:
    """Return the vector nearest to `public` that has no negative inner product with `local`.

    Eq. (8) solved: ``g_pub + v g_loc``, ``v = max(0, -<g_pub, g_loc> / |g_loc|^2)``, eq. (14).
    """
    square = inner(local, local)
    least = torch.finfo(square.dtype).tiny
    v = (-inner(public, local) / square.clamp(min=least)).clamp(min=0)
    return {name: g + v * local[name] for name, g in public.items()}


def pcgrad(public: Params, local: Params) -> Params:
    """Sum of both gradients, each projected off the other (Yu et al., 2020, Algorithm 1)."""
    ours, theirs = project(local, public), project(public, local)
    return {name: g + ours[name] for name, g in theirs.items()}


RULES: dict[str, Direct | None] = {"project": project, "pcgrad": pcgrad, "ignore": None}
