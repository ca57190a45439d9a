"""Clients that adapt the global model in training too: Per-FedAvg, pFedMe and FedALA.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Played, pack, setting
from hopfed.neural.methods.fedavg import FedAvg, Tuned, stepped
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job

__all__ = ["FedALA", "PFedMe", "PerFedAvg"]

WINDOW, CLOSE, MOST = 10, 0.1, 100  # epochs of FedALA's first weights: see its docstring


@dataclass(frozen=True)
class PerFedAvg(Tuned, name="per-fedavg", source="Fallah et al., NeurIPS 2020"):
    """Fallah et al. (2020): a global model from which a step of gradient descent is good.

    On each batch w follows the gradient of ``f(w - alpha grad f(w; D); D')``, second derivatives
    included. D and D' are every other example of the batch, and the same if it has but one. The
    learning rate of the step of w is `Training.lr`, beta in the paper. A client classifies with
    the global model after a step along the gradient of all of its training examples. Weights of
    the mean are the data sizes.

    Attributes
    ----------
    alpha : learning rate of the step inside.
    hessian : whether second derivatives count; without them it is the paper's first-order variant.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("per-fedavg").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    alpha: float = setting(0.01, "at least 0")
    hessian: bool = True

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy of the second half of a batch after a step on the first."""
        mask = torch.ones_like(batch.y, dtype=torch.float32) if batch.mask is None else batch.mask
        odd = mask * (torch.arange(len(mask), device=mask.device) % 2)
        first, second = mask - odd, torch.where(odd.sum() > 0, odd, mask)
        named = self.loaded.model(0).named_parameters()
        free = {n: net.params[n] for n, p in named if p.requires_grad}
        rest = {n: t for n, t in net.params.items() if n not in free}

        def loss(free: Params) -> Tensor:
            copies = {n: t.clone() for n, t in rest.items()}  # running statistics move but once
            return replace(batch, mask=first).cross_entropy(net.with_(copies | free)(batch.x)[1])

        slope = torch.func.grad(loss)(free)
        if not self.hessian:
            slope = {n: g.detach() for n, g in slope.items()}
        moved = net.with_({n: t - self.alpha * slope[n] for n, t in free.items()})
        return replace(batch, mask=second).cross_entropy(moved(batch.x)[1])

    def tuning(self, client: Client, down: Message) -> Job:
        """A step along the gradient of all examples."""
        plan = [client.rows] if len(client.rows) and self.alpha else []
        plain = replace(self.training, optimizer="sgd", momentum=0.0, weight_decay=0.0, clip=0.0)
        step = replace(plain, lr=self.alpha or 1.0)
        first = self.begin(client, down)
        return client.train(first, super().objective, training=step, augment=False, plan=plan)


@dataclass(frozen=True)
class PFedMe(
    FedAvg,
    name="pfedme",
    source="Dinh et al., NeurIPS 2020",
    averages=True,
    shared=False,
    trains_first=True,
):
    """Dinh et al. (2020): a personal model theta that is pulled to a shared w, and w to it.

    On each batch theta takes `steps` steps of plain gradient descent on
    ``CE + lam / 2 |theta - w|^2``, then w the step ``w -= lr lam (w - theta)`` with `Training.lr`
    and no momentum. In a round both start as the global model, and theta goes on from batch to
    batch. The server's model is ``(1 - beta) w + beta mean(w_i)``, with equal weights. A client
    classifies with theta; a client that never took part trains it for the epochs of a round.

    Attributes
    ----------
    lam : strength of the penalty.
    steps : steps of theta on a batch, K in the paper.
    theta_lr : learning rate of theta, which the paper tunes; below ``2 / lam``.
    beta : step of the server.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("pfedme").traffic.up.tolist()  # bytes that each client sent
    [220840, 220840]
    """

    lam: float = setting(15.0, "above 0")
    steps: int = setting(5, "at least 1")
    theta_lr: float = setting(0.05, "above 0")
    beta: float = setting(1.0, "above 0")

    def fetches(self, known: bool) -> bool:
        """A client that took part has its theta."""
        return not known

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train theta and w in turn; keep the first and send the second."""
        theta = w = self.begin(client, down)
        whole = client.train(w)
        inner = replace(whole.training, optimizer="sgd", lr=self.theta_lr, momentum=0.0)
        for rows in whole.steps():
            near, plan = {n: w[n] for n in whole.trained()}, [rows] * self.steps
            theta = (yield client.train(theta, training=inner, plan=plan, extra=near)).params
            step = whole.training.lr * self.lam
            w = theta | {n: t - step * (t - theta[n]) for n, t in near.items()}
        client.keep(theta)
        return pack(w)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and the penalty."""
        far = [((net.params[n] - t) ** 2).sum() for n, t in batch.extra.items()]
        return super().objective(net, batch) + self.lam / 2 * sum(far[1:], far[0])

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """The client's theta."""
        return client.kept()

    def play(self, state: State, session: Session) -> Played:
        """Move the model along the mean update."""
        heard, after = session.ask(), self.started(state)
        if heard or self.noise:
            after = stepped(after, self.average(heard, state, session, sized=False), self.beta)
        return after, {EVERYONE: after}, {}


@dataclass(frozen=True)
class FedALA(
    FedAvg, name="fedala", source="Zhang et al., AAAI 2023", shared=False, trains_first=True
):
    """Zhang et al. (2023): clients learn to mix their own head with the global one.

    With the global model g and the client's own after its last training, v, a round starts from
    g's body and the head ``v + W (g - v)``. The weights W in [0, 1], one for each parameter, start
    at 1 and stay with the client. They are learned on a share of its examples by
    ``W -= eta grad (g - v)``, cut to [0, 1]. The first time this goes on until the loss has a
    deviation below .1 over 10 epochs, at most 100 epochs; afterwards for one epoch. A client
    classifies with its own model after training. A client that never took part first trains one.

    Attributes
    ----------
    share : of the examples on which W is learned, drawn in each round.
    eta : learning rate of W.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("fedala").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    share: float = setting(0.8, "in (0, 1]")
    eta: float = setting(1.0, "at least 0")

    def fetches(self, known: bool) -> bool:
        """A client that took part has its own model."""
        return not known

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Learn the weights and train from the mixture; keep both, send the model."""
        first, weights = self.begin(client, down), client.kept("weights")
        if client.kept() and len(client.rows):
            weights = yield from self.learned(client, first, weights)
            first = first | mixed(client.kept(), first, weights)
        here = (client.context.round, client.context.exchange, client.number)
        trained = (yield client.train(first, path=here)).params
        client.state = pack(trained) | pack(weights, "weights")
        return pack(trained) | client.size

    def learned(
        self, client: Client, first: Params, weights: Params
    ) -> Generator[Job, Job, Params]:
        """Weights of the global head after training them."""
        own, epochs = client.kept(), 1 if weights else MOST
        w = weights or {n: torch.ones_like(t) for n, t in own.items() if n.startswith("head.")}
        rows = client.context.rng("weights").permutation(client.rows)
        rows, batch = rows[: max(1, round(self.share * len(rows)))], self.training.batch
        losses: list[float] = []
        for _ in range(epochs):
            for at in range(0, len(rows), batch):
                start = first | mixed(own, first, w)
                plan, body = [rows[at : at + batch]], ("features.",)
                job = yield client.train(start, augment=False, plan=plan, frozen=body, moments={})
                w = {
                    n: (t - self.eta * job.gradient[n] * (first[n] - own[n])).clamp(0, 1)
                    for n, t in w.items()
                }
            losses.append(job.loss)
            if len(losses) > WINDOW and np.std(losses[-WINDOW:]) < CLOSE:
                break
        return w

    def personal(self, client: Client, down: Message) -> Params:  # noqa: ARG002
        """The client's own model."""
        return client.kept()


def mixed(own: Params, other: Params, weights: Params) -> Params:
    """Return those parameters that have weights: ``own + weights (other - own)``."""
    return {n: own[n] + w * (other[n] - own[n]) for n, w in weights.items()}
