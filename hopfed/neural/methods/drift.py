"""FedAvg that holds clients of unlike data together: SCAFFOLD, FedDyn and MOON.

All clients classify with the global model. Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from hopfed._lib.settings import require
from hopfed.federation.contract import EVERYONE, State
from hopfed.federation.messages import Message
from hopfed.federation.rounds import Session
from hopfed.neural.method import Answer, Client, Played, above, below, pack, setting, unpack
from hopfed.neural.methods.fedavg import FedAvg, stepped
from hopfed.neural.training.losses import Batch, Net, squared_distance
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Training

__all__ = ["MOON", "FedDyn", "Scaffold"]


@dataclass(frozen=True)
class Scaffold(FedAvg, name="scaffold", source="Karimireddy et al., ICML 2020", averages=True):
    """Karimireddy et al. (2020): local steps less the client's drift, ``y -= lr (g - c_i + c)``.

    After K steps from the global model x to y, the control variate of the client becomes
    ``c_i - c + (x - y) / (K lr)``, option II of the paper: the mean gradient of the steps. With
    momentum b, step j before the end counts ``(1 - b^j) / (1 - b)`` times, and K is the sum of
    these. The server takes equal means over the participants: ``x += step mean(y - x)`` and
    ``c += S / N mean(change of c_i)``, S of N clients being heard.

    Attributes
    ----------
    step : learning rate of the server.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("scaffold").traffic.up.tolist()  # bytes that each client sent
    [441680, 441680]
    """

    step: float = setting(1.0, "above 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        optimizer = self.training.optimizer
        require(optimizer == "sgd", "optimizer", f"sgd for {self.name}", optimizer)

    def server_start(self, seed: int) -> State:
        """The first model."""
        return super().server_start(seed) | pack(self.initial(0))

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train with corrected gradients; send the model and the change of the control variate."""
        first = self.begin(client, down)
        job = client.train(first, direct=corrected)
        zero = zeros(first, job.trained())
        own, server = zero | client.kept("control"), zero | unpack(down, "control")
        job.extra = {n: server[n] - own[n] for n in zero}
        reach = job.training.lr * weight_of_steps(job.training, len(job.steps()))
        trained = (yield job).params
        change = {
            n: (first[n] - trained[n]) / reach - server[n] if reach else zero[n] for n in zero
        }
        client.keep({n: own[n] + change[n] for n in zero}, "control")
        return pack(trained) | pack(change, "control")

    def started(self, state: State) -> Message:
        """The model; changes of control variates start from 0."""
        return super().started({n: a for n, a in state.items() if n.startswith("model/")})

    def play(self, state: State, session: Session) -> Played:
        """Move the model along the mean update, and the control variate by its share."""
        heard = session.ask()
        if not heard and not self.noise:
            return state, {EVERYONE: state}, {}
        mean = self.average(heard, state, session, sized=False)
        share = np.float32(self.turnout(heard, session))
        after = stepped(state, {n: a for n, a in mean.items() if n.startswith("model/")}, self.step)
        for n in mean.keys() - after.keys():
            after[n] = state.get(n, 0 * mean[n]) + share * mean[n]
        return after, {EVERYONE: after}, {}


@dataclass(frozen=True)
class FedDyn(FedAvg, name="feddyn", source="Acar et al., ICLR 2021", averages=True):
    """Acar et al. (2021): ``CE - <g_i, w> + alpha / 2 |w - w_global|^2``, linear at each client.

    After training ``g_i -= alpha (w_i - w_global)``, the gradient of the client's loss at its
    optimum. The server keeps ``h -= alpha / N sum(w_i - w_global)`` over the participants, of N
    clients; the global model is ``mean(w_i) - h / alpha``, with equal weights. Buffers are
    averaged.

    Attributes
    ----------
    alpha : strength of the penalty.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("feddyn").traffic.up.tolist()  # bytes that each client sent
    [220840, 220840]
    """

    alpha: float = setting(0.01, "above 0")

    def server_start(self, seed: int) -> State:
        """The first model, and an h of zeros."""
        first, names = self.initial(0), [n for n, _ in self.net(0).named_parameters()]
        return super().server_start(seed) | pack(first) | pack(zeros(first, names), "h")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train with the linear term and the penalty; keep the gradient, send the model."""
        first = self.begin(client, down)
        job = client.train(first)
        slope = zeros(first, job.trained()) | client.kept("slope")
        job.extra = above({n: first[n] for n in slope}, "first") | above(slope, "slope")
        trained = (yield job).params
        moves = {n: g - self.alpha * (trained[n] - first[n]) for n, g in slope.items()}
        client.keep(moves, "slope")
        return pack(trained)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy, linear term and penalty."""
        first, slope = below(batch.extra, "first"), below(batch.extra, "slope")
        along = [(g * net.params[n]).sum() for n, g in slope.items()]
        far = squared_distance(net.params, first)
        return super().objective(net, batch) - sum(along[1:], along[0]) + self.alpha / 2 * far

    def play(self, state: State, session: Session) -> Played:
        """Move h, and subtract it from the mean model."""
        heard = session.ask()
        model = {n: a for n, a in state.items() if n.startswith("model/")}
        if not heard and not self.noise:
            return state, {EVERYONE: model}, {}
        mean, h = self.average(heard, state, session, sized=False), dict[str, np.ndarray]()
        scale = np.float32(self.alpha * self.turnout(heard, session))
        for name in (n for n in state if n.startswith("h/")):
            of = name.replace("h/", "model/", 1)
            h[name] = state[name] - scale * (mean[of] - model[of])
            mean[of] = mean[of] - h[name] / np.float32(self.alpha)
        return mean | h, {EVERYONE: mean}, {}


@dataclass(frozen=True)
class MOON(FedAvg, name="moon", source="Li et al., CVPR 2021"):
    """Li et al. (2021): FedAvg with a contrast of features between models.

    The features z of an example are drawn to those of the global model, z_g, away from those of
    the client's own model after its last training, z_p:
    ``CE + mu softplus((cos(z, z_p) - cos(z, z_g)) / temperature)``. A client that takes part for
    the first time has no such model, and the term has no gradient. The paper's projection head is
    left out: z is what the head reads.

    Attributes
    ----------
    mu : weight of the contrast; 0 is FedAvg.
    temperature : temperature of the contrast.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("moon").traffic.up.tolist()  # bytes that each client sent
    [220848, 220848]
    """

    mu: float = setting(5.0, "at least 0")
    temperature: float = setting(0.5, "above 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:  # noqa: ARG002
        """Train beside the global and the last own model; keep the model and send it."""
        first = self.begin(client, down)
        extra = above(first, "first") | above(client.kept() or first, "last") if self.mu else {}
        trained = yield client.train(first, extra=extra)
        client.keep(trained.params)
        return pack(trained.params) | client.size

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy and contrast."""
        features, logits = net(batch.x)
        loss = batch.cross_entropy(logits)
        if not self.mu:
            return loss
        others = (net.with_(below(batch.extra, n))(batch.x)[0].detach() for n in ("last", "first"))
        last, first = (cosine_similarity(features, z, dim=1) for z in others)
        return loss + self.mu * batch.mean(softplus((last - first) / self.temperature))


def zeros(params: Params, names: Iterable[str]) -> Params:
    """Return zeros in place of some parameters."""
    return {n: torch.zeros_like(params[n]) for n in names}


def corrected(gradient: Params, extra: Params) -> Params:
    """Return a gradient plus what a job has as `extra`."""
    return {n: g + extra[n] for n, g in gradient.items()}


def weight_of_steps(training: Training, steps: int) -> float:
    """Sum of the weights of the gradients of so many steps in the way that SGD went, over lr."""
    b = training.momentum
    if b == 1:
        return steps * (steps + 1) / 2
    return (steps - b * (1 - b**steps) / (1 - b)) / (1 - b)
