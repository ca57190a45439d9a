"""FedAvg, and variants with other losses, shared parts or classifiers; private means.

Source: theory/NOTES.md, "Baselines", "Weighted means over participants", "Sensitivity and Gaussian
mechanism" and "Private records".
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus
from torch.nn.modules.batchnorm import _BatchNorm

from hopfed._lib.cache import Recent
from hopfed._lib.settings import require
from hopfed.federation.aggregate import Mean, round_to_dtype, weighted_mean
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Message, digest
from hopfed.federation.messages import part_of as inside
from hopfed.federation.rounds import Session
from hopfed.neural.method import (
    Answer,
    Client,
    NeuralMethod,
    Played,
    above,
    below,
    pack,
    setting,
    unpack,
    untrained,
)
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.job import Job, has_batch_norm, training_flops
from hopfed.neural.training.losses import Batch, Net, squared_distance
from hopfed.neural.training.task import Params
from hopfed.privacy.private_operator import accountant
from hopfed.theory.private import gaussian_epsilon

__all__ = [
    "MOON", "ClusteredFL", "FedALA", "FedAvg", "FedAvgPlus", "FedAvgPrior", "FedBABU", "FedBN",
    "FedDyn", "FedPer", "FedProx", "FedRep", "PFedMe", "PerFedAvg", "Scaffold",
]  # fmt: skip

_NETWORKS = Recent(1 << 28)


@dataclass(frozen=True)
class Averaged(NeuralMethod):
    """Base of methods whose server forms a mean of clients' arrays, which may be private.

    Privacy by client: with `noise`, the server's messages are differentially private for the
    addition or removal of all data of a client. A client's update, all arrays of its message
    together, is scaled to a norm of at most `bound`; noise of deviation ``noise bound`` is added to
    the sum, which is divided by the expected number of clients (McMahan et al., ICLR 2018). Each
    client takes part independently, with the participation's `rate`. The server is trusted. The
    guarantee does not cover the clients' own arrays and accuracies.

    Privacy by record: with `Training.record_noise`, a client's messages are private, also from the
    server, for one training example. In a step each example's gradient is cut to the norm
    `record_bound`, and noise of deviation ``record_noise record_bound`` is added to the sum
    (DP-SGD, Abadi et al., CCS 2016); examples are drawn with probability batch / examples. Not
    covered: numbers of examples, sums that scale inputs (set `scaling`), losses and accuracies.

    Noise, participation and steps are drawn from the seed of the run: for experiments only.

    Attributes
    ----------
    bound : largest norm of a client's update; 0 for none.
    noise : noise multiplier, the noise's standard deviation on the sum divided by `bound`.
    delta : delta of the guarantee, see `epsilon`.
    """

    bound: float = setting(0.0, "at least 0")
    noise: float = setting(0.0, "at least 0")
    delta: float = setting(1e-5, "in (0, 1)")

    by_record: ClassVar[bool] = True
    averages: ClassVar[bool] = True  # whether the server only averages clients' messages

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "play" in vars(cls) and "averages" not in vars(cls):
            cls.averages = False  # unless the class sets it
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
        """Whether clients take part in a round independently, see `Participation`."""
        return self.noise > 0

    def epsilon(self, rounds: int, rate: float = 1.0) -> float:
        """Return epsilon after `rounds` at `delta`, infinite without noise; exact at `rate` 1."""
        return _epsilon(self.noise, rounds, rate, self.delta)

    def record_epsilon(self, rounds: int, sizes: Iterable[int]) -> float:
        """Return the largest epsilon of an example after `rounds`, for clients of these `sizes`."""
        each, batch = self.training.record_noise, self.training.batch
        worst = {-(-n // batch): n for n in sorted(map(int, sizes), reverse=True) if n}
        return max(
            _epsilon(each, rounds * self.training.epochs * steps, min(1, batch / n), self.delta)
            for steps, n in worst.items()
        )

    def server_start(self, seed: int) -> State:
        """Return the initial state; refuse batch norm, as noisy variances can be negative."""
        private = self.noise > 0 or self.training.record_bound > 0
        plain, rule = not private or not has_batch_norm(self.net(0)), "without batch norm where "
        require(plain, "models", f"{rule}means are private", self.task.models[0])
        return super().server_start(seed)

    def started(self, state: State) -> Message:
        """Return the state by the names in clients' messages; in round 0 an untrained message."""
        first = {n: a for n, a in untrained(self).items() if n != "examples"}
        return first | {n: a for n, a in state.items() if n in first}

    def play(self, state: State, session: Session) -> Played:
        """Average messages as they arrive, and send the state, without arrays ``server/``."""
        mean, old = Mean(), self.started(state) if self.bound else {}

        def fold(_client: int, message: Message) -> Message:
            if not self.bound:
                mean.add(message)
                return {}
            update = {n: message[n] - a.astype(float) for n, a in old.items()}
            norm = np.sqrt(sum(float((u**2).sum()) for u in update.values()))
            mean.add(update, min(1.0, self.bound / norm if norm else 1.0))
            return {}

        heard = session.ask(fold=fold)
        if heard or self.noise:  # the mean is over clients that answered, or expected clients
            share = session.participation.rate if self.noise else len(heard) / session.clients
            private = self._private(old, mean, share * session.clients, session) if old else {}
            state = self.moved(state, private or mean.result(), share)
        down = {n: a for n, a in state.items() if not n.startswith("server/")}
        return state, {EVERYONE: down}, {}

    def _private(self, old: Message, mean: Mean, expected: float, session: Session) -> Message:
        """Return `old` plus the noisy sum of bounded updates over the `expected` clients."""
        rng, new = session.context.rng("noise"), dict(old)
        for n, a in old.items():
            noise = self.noise * self.bound * rng.standard_normal(a.shape)
            moved = a + (mean.total.get(n, 0) + noise) / max(expected, 1e-300)
            new[n] = round_to_dtype(moved, a.dtype)
        return new

    def moved(self, state: State, mean: Message, share: float) -> State:
        """Return the state after a round, from the `mean` of a `share` of all clients."""
        return mean


def mean_of_messages(messages: Iterable[Message]) -> Message:
    """Return FedAvg's mean of messages, weighted by any numbers of examples; empty for none."""
    mean = Mean()
    for message in messages:
        mean.add(message)
    return mean.result()


def mean_of_holders(
    sent: Iterable[np.ndarray],
    held: Sequence[np.ndarray],
    default: np.ndarray,
    weights: Sequence[float] | None = None,
) -> np.ndarray:
    """Return FedAvg's mean of each entry, over clients that hold and send it, else `default`."""
    parts = [np.zeros_like(default) for _ in held]
    for part, own, entries in zip(parts, held, sent, strict=True):
        part[own] = entries
    return np.asarray(weighted_mean(parts, weights, masks=held, default=default))


def _epsilon(noise: float, steps: int, rate: float, delta: float) -> float:
    """Return epsilon of steps with Poisson sampling; in closed form at rate 1."""
    if rate == 1 or not noise:
        return gaussian_epsilon(noise, delta, steps)
    return accountant(noise, steps, delta=delta, rate=rate)


@dataclass(frozen=True)
class FedAvg(
    Averaged,
    name="fedavg",
    source="McMahan et al., 2017",
    same_model=True,
    shares="",
    shared=True,
    scored_with="all",
):
    """McMahan et al. (2017): ``w = sum_k n_k w_k / sum_k n_k``, of parameters and buffers.

    Attributes
    ----------
    bound, noise, delta : settings of private means, see `Averaged`: the norm to which a client's
        update is cut, the noise multiplier, and the delta for which epsilon is computed.
    """

    def network(self, down: Message) -> Network:
        """Return the model in the server's message to all; all clients share the object."""
        key, place = (self.name, self.task, digest(down)), Context(self.task.seed, 0, 0, 0)
        client = Client(self, {}, place)
        return _NETWORKS.get(key, lambda: Network(client.model, self.personal(client, down)))


@dataclass(frozen=True)
class FedProx(FedAvg, name="fedprox", source="Li et al., MLSys 2020", by_record=True):
    """Li et al. (2020): cross-entropy + ``mu / 2 |w - w_global|^2``.

    Attributes
    ----------
    mu : strength of the penalty; 0 is FedAvg.
    """

    mu: float = setting(0.01, "at least 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return {n: first[n] for n, _ in client.net.named_parameters()}  # without buffers

    def objective(self, net: Net, batch: Batch) -> Tensor:
        far = squared_distance(net.params, batch.extra)
        return super().objective(net, batch) + self.mu / 2 * far


@dataclass(frozen=True)
class Tuned(FedAvg, tunes=True, by_record=True):
    """FedAvg whose clients adapt the global model before scoring; its FLOPs count in each round."""

    def tuning(self, client: Client, down: Message) -> Job:
        """Return the training by which a client adapts the global model."""
        raise NotImplementedError

    def ready(self, client: Client, down: Message) -> Answer:
        tuned = yield self.tuning(client, down)
        client.keep(tuned.params, "tuned")
        return {}

    def personal(self, client: Client, down: Message) -> Params:
        return client.kept("tuned")

    def reading_flops(self, client: int) -> float:
        made = Client(self, {}, Context(self.task.seed, 0, 0, client))
        return training_flops(self.tuning(made, {}), self.loaded.tensors)


@dataclass(frozen=True)
class FedAvgPlus(Tuned, name="fedavg+", source="Jiang et al., 2019", reads=FedAvg):
    """Jiang et al. (2019): FedAvg, then fine-tuning; the fine-tuned model stays with the client.

    Attributes
    ----------
    tune : number of epochs of fine-tuning.
    """

    tune: int = setting(1, "at least 0")

    def tuning(self, client: Client, down: Message) -> Job:
        first, path = self.begin(client, down), ("tune", client.number)
        return client.train(first, path=path, training=self.training, epochs=self.tune)


@dataclass(frozen=True)
class FedAvgPrior(FedAvg, name="fedavg-prior", source="control, proposed here", reads=FedAvg):
    """FedAvg with each client's label prior, a control in kNN-Per's tables, proposed here.

    ``p(y | x)`` is proportional to ``p_global(y | x) pi_client(y)`` (theory/NOTES.md, "Label
    prior"), the correct posterior if clients differ only in the frequencies of labels, and the
    global model saw all labels equally often.

    Attributes
    ----------
    smooth : number of pseudo-examples, divided equally among the labels; with 0, a label that the
        client has not seen gets probability 0.
    """

    smooth: float = setting(1.0, "at least 0")

    def decide(self, client: Client, down: Message) -> Classifier:
        classes = self.loaded.classes
        counts = np.bincount(client.labels, minlength=classes)
        prior = torch.as_tensor((counts + self.smooth / classes) / (counts.sum() + self.smooth))
        scores = super().decide(client, down)
        return lambda x: scores(x) + prior.log().to(x.device)


@dataclass(frozen=True)
class FedPer(
    FedAvg, name="fedper", source="Arivazhagan et al., 2019", shares="features.", trains_first=True
):
    """Arivazhagan et al. (2019): the body is averaged, the head stays local, trained together.

    A client classifies with its head, the last layer, on the latest global body. A client that
    never took part first trains a head, and a body that it drops, for the epochs of a round.
    """


@dataclass(frozen=True)
class FedRep(FedPer, name="fedrep", source="Collins et al., ICML 2021"):
    """Collins et al. (2021): as FedPer, but body and head are trained in turn.

    A participant trains its head with the global body frozen, then the body with its head frozen,
    and sends the body. Frozen parts keep their running statistics too.

    Attributes
    ----------
    head : number of epochs for the head; the body is trained for `training.epochs`.
    """

    head: int = setting(10, "at least 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        head = yield client.train(self.begin(client, down), epochs=self.head, frozen=("features.",))
        body = yield client.train(head.params, frozen=("head.",))
        return self.sent(client, body.params)


@dataclass(frozen=True)
class FedBABU(
    FedAvgPlus, name="fedbabu", source="Oh et al., ICLR 2022", shares="features.", opens=""
):
    """Oh et al. (2022): bodies are trained and averaged under a head that keeps its first values.

    Before scoring, a client fine-tunes body and head on its examples.

    Attributes
    ----------
    tune : epochs of fine-tuning the whole model, 5 as in the paper and its authors' program.
    """

    tune: int = 5

    frozen: ClassVar[tuple[str, ...]] = ("head.",)


@dataclass(frozen=True)
class FedBN(FedAvg, name="fedbn", source="Li et al., ICLR 2021", trains_first=True):
    """Li et al. (2021): FedAvg of all but batch normalisation, which stays local.

    Scales, shifts and running statistics are local; networks of hopfed have these layers with
    ``norm=batch``. A client that never took part first trains for the epochs of a round, and keeps
    only these layers.
    """

    def shared_of(self, client: Client, params: Params) -> Params:
        own = tuple(f"{n}." for n, m in client.net.named_modules() if isinstance(m, _BatchNorm))
        return {n: t for n, t in params.items() if not n.startswith(own)}

    def sent(self, client: Client, params: Params) -> Message:
        message = super().sent(client, params)
        client.state |= client.size  # marks participation, also without batch norm
        return message


def _step_towards(old: Mapping[str, np.ndarray], new: Message, step: float) -> Message:
    """Return ``old + step (new - old)`` of arrays of the same names, in their dtypes."""
    if step == 1:
        return new
    return {n: (old[n] + step * (a - old[n])).astype(a.dtype) for n, a in new.items()}


@dataclass(frozen=True)
class Scaffold(FedAvg, name="scaffold", source="Karimireddy et al., ICML 2020", by_record=True):
    """Karimireddy et al. (2020): local steps without client drift, ``y -= lr (g - c_i + c)``.

    After K steps from the global model x to y, ``c_i += (x - y) / (K lr) - c``, option II of the
    paper. With momentum b, the j-th step from the end counts ``(1 - b^j) / (1 - b)`` times, and K
    is the sum of these. The server takes equal means over the S of N clients that answered,
    ``x += step mean(y - x)`` and ``c += S / N mean(change of c_i)``.

    Attributes
    ----------
    step : learning rate of the server; 1 as in the paper.
    """

    step: float = setting(1.0, "above 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        optimizer = self.training.optimizer
        require(optimizer == "sgd", "optimizer", f"sgd for {self.name}", optimizer)

    def server_start(self, seed: int) -> State:
        return super().server_start(seed) | pack(self.initial(0))

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        first = self.begin(client, down)
        job = client.train(first, direct=lambda g, extra: {n: g[n] + extra[n] for n in g})
        zero = {n: torch.zeros_like(first[n]) for n in job.trained}
        own, server = zero | client.kept("control"), zero | unpack(down, "control")
        job.extra = {n: server[n] - own[n] for n in zero}
        b, steps = job.training.momentum, len(job.steps())
        reach = job.training.lr * sum(b**i * (steps - i) for i in range(steps))
        trained = (yield job).params
        change = zero | {n: (first[n] - trained[n]) / reach - server[n] for n in zero if reach}
        client.keep({n: own[n] + change[n] for n in zero}, "control")
        return pack(trained) | pack(change, "control")

    def started(self, state: State) -> Message:
        model = {n: a for n, a in state.items() if n.startswith("model/")}
        return super().started(model)  # changes of control variates start from 0

    def moved(self, state: State, mean: Message, share: float) -> State:
        model = {n: a for n, a in mean.items() if n.startswith("model/")}
        changes = {n: a * np.float32(share) for n, a in mean.items() if n not in model}
        control = {n: state.get(n, 0 * a) + a for n, a in changes.items()}
        return _step_towards(state, model, self.step) | control


@dataclass(frozen=True)
class FedDyn(FedAvg, name="feddyn", source="Acar et al., ICLR 2021", by_record=True):
    """Acar et al. (2021): ``CE - <g_i, w> + alpha / 2 |w - w_global|^2``, with g_i per client.

    After training ``g_i -= alpha (w_i - w_global)``, the gradient of the client's loss at its
    optimum. The server keeps ``h -= alpha / N sum(w_i - w_global)``, a sum over the participants
    among N clients; the global model is ``mean(w_i) - h / alpha``. Buffers are averaged.

    Attributes
    ----------
    alpha : strength of the penalty; the paper tries 0.1, 0.01 and 0.001, and its authors' program
        uses 0.01 for CIFAR-10, divided by the client's size relative to the mean size.
    """

    alpha: float = setting(0.01, "above 0")

    def server_start(self, seed: int) -> State:
        zero = {n: torch.zeros_like(t) for n, t in self.net(0).named_parameters()}
        return super().server_start(seed) | pack(self.initial(0)) | pack(zero, "server")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        first = self.begin(client, down)
        job = client.train(first)
        slope = {n: torch.zeros_like(first[n]) for n in job.trained} | client.kept("slope")
        job.extra = above({n: first[n] for n in slope}, "first") | above(slope, "slope")
        trained = (yield job).params
        moves = {n: g - self.alpha * (trained[n] - first[n]) for n, g in slope.items()}
        client.keep(moves, "slope")
        return pack(trained)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        first, slope = below(batch.extra, "first"), below(batch.extra, "slope")
        along = [(g * net.params[n]).sum() for n, g in slope.items()]
        far = squared_distance(net.params, first)
        return super().objective(net, batch) - sum(along[1:], along[0]) + self.alpha / 2 * far

    def moved(self, state: State, mean: Message, share: float) -> State:
        h, scale = dict[str, np.ndarray](), np.float32(self.alpha * share)
        for name in (n for n in state if n.startswith("server/")):
            of = name.replace("server/", "model/", 1)
            h[name] = state[name] - scale * (mean[of] - state[of])
            mean[of] = mean[of] - h[name] / np.float32(self.alpha)
        return mean | h


@dataclass(frozen=True)
class MOON(FedAvg, name="moon", source="Li et al., CVPR 2021", keeps=True, by_record=True):
    """Li et al. (2021): FedAvg with a contrastive loss on the features of several models.

    Features z are pulled to the features z_g of the global model, and pushed from the features z_p
    of the client's own model after its last training: ``CE + mu softplus((cos(z, z_p) - cos(z,
    z_g)) / temperature)``. In the first training the term is constant. The paper's projection head
    is omitted: z is the input of the head.

    Attributes
    ----------
    mu : weight of the contrast; the paper has 5 for CIFAR-10, 1 for its other data; 0 is FedAvg.
    temperature : temperature of the contrast, 0.5 as in the paper.
    """

    mu: float = setting(5.0, "at least 0")
    temperature: float = setting(0.5, "above 0")

    def extra(self, client: Client, first: Params, down: Message) -> Params:
        return above(first, "first") | above(client.kept() or first, "last")

    def objective(self, net: Net, batch: Batch) -> Tensor:
        features, logits = net(batch.x)
        others = (net.with_(below(batch.extra, n))(batch.x)[0].detach() for n in ("last", "first"))
        last, first = (cosine_similarity(features, z, dim=1) for z in others)
        contrast = batch.mean(softplus((last - first) / self.temperature))
        return batch.cross_entropy(logits) + self.mu * contrast


@dataclass(frozen=True)
class PerFedAvg(Tuned, name="per-fedavg", source="Fallah et al., NeurIPS 2020"):
    """Fallah et al. (2020): a global model that fits a client after one gradient step.

    On each batch w follows the gradient of ``f(w - alpha grad f(w; D); D')``, with second
    derivatives. D and D' are alternate examples of the batch, equal if it has only one. The rate of
    w is `Training.lr`, beta in the paper. A client classifies with the global model after a step
    along the gradient of all of its examples. The mean is weighted by data sizes.

    Attributes
    ----------
    alpha : learning rate of the inner step, 0.01 as in the paper, whose beta is 0.001.
    hessian : whether second derivatives count; False is the paper's first-order variant.
    """

    alpha: float = setting(0.01, "above 0")
    hessian: bool = True

    def objective(self, net: Net, batch: Batch) -> Tensor:
        mask = torch.ones_like(batch.y, dtype=torch.float32) if batch.mask is None else batch.mask
        odd = mask * (torch.arange(len(mask), device=mask.device) % 2)
        first, second = mask - odd, torch.where(odd.sum() > 0, odd, mask)
        named = self.loaded.model(0).named_parameters()
        free = {n: net.params[n] for n, p in named if p.requires_grad}
        rest = {n: t for n, t in net.params.items() if n not in free}

        def loss(free: Params) -> Tensor:
            copies = {n: t.clone() for n, t in rest.items()}  # moves running statistics only once
            return replace(batch, mask=first).cross_entropy(net.with_(copies | free)(batch.x)[1])

        slope = torch.func.grad(loss)(free)
        if not self.hessian:
            slope = {n: g.detach() for n, g in slope.items()}
        moved = net.with_({n: t - self.alpha * slope[n] for n, t in free.items()})
        return replace(batch, mask=second).cross_entropy(moved(batch.x)[1])

    def tuning(self, client: Client, down: Message) -> Job:
        plan = [client.rows] if len(client.rows) else []
        plain = replace(self.training, optimizer="sgd", momentum=0.0, weight_decay=0.0, clip=0.0)
        first = self.begin(client, down)
        how = replace(plain, lr=self.alpha)
        return client.train(first, super().objective, training=how, augment=False, plan=plan)


@dataclass(frozen=True)
class PFedMe(FedAvg, name="pfedme", source="Dinh et al., NeurIPS 2020", scored_with="new"):
    """Dinh et al. (2020): a personal model theta and a shared model w, each pulled to the other.

    On each batch theta takes `steps` steps of plain gradient descent on
    ``CE + lam / 2 |theta - w|^2``, then w takes the step ``w -= lr lam (w - theta)`` with
    `Training.lr` and no momentum. In a round both start as the global model, ``(1 - beta) w + beta
    mean(w_i)`` with equal weights. A client classifies with theta; a client that never took part
    trains theta for the epochs of a round.

    Attributes
    ----------
    lam : strength of the penalty, 15 as in the paper's comparisons on MNIST.
    steps : steps of theta on a batch, K in the paper, which has 5.
    theta_lr : learning rate of theta, below ``2 / lam``; 0.05 is the paper's tuned value for its
        network on MNIST; its untuned 0.09 diverges on our digits.
    beta : step of the server; the paper has 1, and 2 if tuned.
    """

    lam: float = setting(15.0, "above 0")
    steps: int = setting(5, "at least 1")
    theta_lr: float = setting(0.05, "above 0")
    beta: float = setting(1.0, "above 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        first = self.begin(client, down)
        whole = client.train(first)
        inner = replace(whole.training, optimizer="sgd", lr=self.theta_lr, momentum=0.0)
        plan = [rows for rows in whole.steps() for _ in range(self.steps)]
        start = first | {"near": self.joined(first), "step": torch.zeros(())}
        rate = torch.tensor(whole.training.lr * self.lam)
        job = yield client.train(start, training=inner, plan=plan, extra={"rate": rate})
        theta, near = {n: job.params[n] for n in first}, job.params["near"]
        client.keep(theta)
        near = near - rate * (near - self.joined(theta))
        parts = near.split([first[n].numel() for n in whole.trained])
        named = zip(whole.trained, parts, strict=True)
        return pack(theta | {n: part.view_as(first[n]) for n, part in named})

    def joined(self, params: Params) -> Tensor:
        """Return the trained parameters as one vector, w or theta."""
        named = self.net(0).named_parameters()
        return torch.cat([params[n].flatten() for n, p in named if p.requires_grad])

    def objective(self, net: Net, batch: Batch) -> Tensor:
        step, near = net.params["step"], net.params["near"]
        model = {n: t for n, t in net.params.items() if n not in ("step", "near")}
        theta = self.joined(model)
        with torch.no_grad():  # w moves before the first step of each batch except the first batch
            due = (step > 0) & (step % self.steps == 0)
            near.sub_(batch.extra["rate"] * due * (near - theta))
            step.add_(1)
        far = ((theta - near) ** 2).sum()
        return super().objective(Net(net.forward, model), batch) + self.lam / 2 * far

    def moved(self, state: State, mean: Message, share: float) -> State:
        return _step_towards(self.started(state), mean, self.beta)


Learned = Generator[Job, Job, Params]
WINDOW, CLOSE, MOST = 10, 0.1, 100  # end of FedALA's first training of weights


@dataclass(frozen=True)
class FedALA(
    FedAvg, name="fedala", source="Zhang et al., AAAI 2023", keeps=True, scored_with="new"
):
    """Zhang et al. (2023): clients learn to mix their own head with the global head.

    With the global model g and the client's model v after its last training, a round starts from
    g's body and the head ``v + W (g - v)``. The weights W in [0, 1], one for each parameter, start
    at 1 and stay with the client. They are learned on a share of its examples by ``W -= eta grad (g
    - v)``, cut to [0, 1]: the first time until the loss over 10 epochs has a deviation below .1, at
    most for 100 epochs, later for one epoch. A client classifies with its own trained model; a
    client that never took part first trains a model.

    Attributes
    ----------
    share : share of the examples on which W is learned, drawn in each round; 0.8 as in the paper
        and its authors' program, which also learns W for the last layer.
    eta : learning rate of W, 1 as in paper and program.
    """

    share: float = setting(0.8, "in (0, 1]")
    eta: float = setting(1.0, "at least 0")

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        first, weights = self.begin(client, down), client.kept("weights")
        if client.kept() and len(client.rows):
            weights = yield from self.learned(client, first, weights)
            first = first | _mix_parameters(client.kept(), first, weights)
        here = (client.context.round, client.context.exchange, client.number)
        message = self.sent(client, (yield client.train(first, path=here)).params)
        client.state |= pack(weights, "weights")
        return message

    def learned(self, client: Client, first: Params, weights: Params) -> Learned:
        """Train the weights of the global head, and return them."""
        own, epochs = client.kept(), 1 if weights else MOST
        w = weights or {n: torch.ones_like(t) for n, t in own.items() if n.startswith("head.")}
        rows = client.context.rng("weights").permutation(client.rows)
        rows, batch = rows[: max(1, round(self.share * len(rows)))], self.training.batch
        losses: list[float] = []
        for _ in range(epochs):
            for at in range(0, len(rows), batch):
                start = first | _mix_parameters(own, first, w)
                plan, body = [rows[at : at + batch]], ("features.",)
                job = yield client.train(start, augment=False, plan=plan, frozen=body, moments={})
                slopes = {n: job.gradient[n] * (first[n] - own[n]) for n in w}
                w = {n: (t - self.eta * slopes[n]).clamp(0, 1) for n, t in w.items()}
            losses.append(job.loss)
            if len(losses) > WINDOW and np.std(losses[-WINDOW:]) < CLOSE:
                break
        return w


def _mix_parameters(own: Params, other: Params, weights: Params) -> Params:
    """Parameters that have weights, mixed: ``own + weights (other - own)``."""
    return {n: own[n] + w * (other[n] - own[n]) for n, w in weights.items()}


LEAST = 3  # smallest number of clients of a cluster that can be split


@dataclass(frozen=True)
class ClusteredFL(FedAvg, name="clustered-fl", source="Sattler et al., TNNLS 2020"):
    """Clustered federated learning of Sattler et al. (2020).

    A cluster is split if ``|mean update| < tol_1`` and ``max |update| > tol_2`` for the updates
    that arrived in time this round. The other members of a split cluster, and clients that never
    took part, choose the cluster whose model is best on their validation examples: they receive the
    models of all clusters if there are several, and every message names its cluster.

    The paper minimises the largest similarity across the parts, which is single linkage, and
    tends to cut off one client. The authors' program and the program of kNN-Per use complete
    linkage, the default here. The paper's test on the norms of the gradients' noise is in neither
    program, and is left out here, too.

    Attributes
    ----------
    tol_1, tol_2 : thresholds as in the programs. They are norms of updates of all weights, and
        depend on model and learning rate: LeNet on digits is never split.
    linkage : "complete" or "single".
    """

    tol_1: float = setting(0.4, "at least 0")
    tol_2: float = setting(1.6, "at least 0")
    linkage: str = setting("complete", ("complete", "single"))

    def begin(self, client: Client, down: Message) -> Params:
        return self.choose(client, down)[1]

    def choose(self, client: Client, down: Message) -> tuple[int, Params]:
        """Return number and model of the client's cluster; a client without cluster chooses it."""
        if "models" not in down:
            return int(down.get("cluster", 0)), super().begin(client, down)
        models = [unpack(down, f"{k}/model") for k in range(int(down["models"]))]
        return max(enumerate(models), key=lambda model: self._fits(model[1], client))

    def server_start(self, seed: int) -> State:
        """Return one cluster with the initial model, and the cluster of each client, -1: none."""
        model = {f"0/{n}": a for n, a in pack(self.initial(0)).items()}
        of = {"cluster_of": np.full(len(self.loaded.split), -1), "models": np.asarray(1)}
        return super().server_start(seed) | model | of

    def answer(self, client: Client, question: str, down: Message) -> Answer:
        cluster, model = self.choose(client, down)
        trained = yield client.train(model)
        return self.sent(client, trained.params) | {"cluster": np.asarray(cluster)}

    def play(self, state: State, session: Session) -> Played:
        messages = {c: dict(m) for c, m in session.ask().items()}
        named = {c: int(m.pop("cluster")) for c, m in messages.items()}
        models = [inside(state, str(k)) for k in range(int(state["models"]))]
        cluster_of = np.array(state["cluster_of"])
        for k in range(len(models)):
            heard = {c: m for c, m in messages.items() if named[c] == k}
            timely = [c for c in heard if c not in session.ages]
            cluster_of[timely] = k  # the cluster of a late message may have been split meanwhile
            part = self.parts({c: heard[c] for c in timely}, models[k])
            if part is not None:
                first, second = part
                cluster_of[cluster_of == k] = -1  # clients that sent no update will choose
                cluster_of[first], cluster_of[second] = k, len(models)
                models.append(mean_of_messages(heard[c] for c in second))
                heard = {c: heard[c] for c in first}
            models[k] = mean_of_messages(heard.values()) or models[k]
        every = {f"{k}/{n}": a for k, model in enumerate(models) for n, a in model.items()}
        every["models"] = np.asarray(len(models))
        own = [model | {"cluster": np.asarray(k)} for k, model in enumerate(models)]
        down = {EVERYONE: every if len(models) > 1 else own[0]}
        if len(models) > 1:
            down |= {c: own[k] for c, k in enumerate(cluster_of.tolist()) if k >= 0}
        return every | {"cluster_of": cluster_of}, down, {"clusters": len(models)}

    def parts(
        self, messages: Mapping[int, Message], model: Message
    ) -> tuple[list[int], list[int]] | None:
        """Return the two parts of a cluster's participants, or None without a split."""
        if len(messages) < LEAST:
            return None
        gram = np.zeros((len(messages), len(messages)))  # inner products of the clients' updates
        for name, _ in self.loaded.model(0).named_parameters():
            moved = [m[f"model/{name}"] - model[f"model/{name}"] for m in messages.values()]
            updates = np.stack([u.ravel() for u in moved]).astype(np.float64)
            gram += updates @ updates.T
        sizes = np.array([float(m["examples"]) for m in messages.values()])
        weights, norms = sizes / sizes.sum(), np.sqrt(gram.diagonal())
        at_rest = np.sqrt(max(weights @ gram @ weights, 0.0)) < self.tol_1
        if not (at_rest and norms.max() > self.tol_2):
            return None
        scale = np.where(norms > 0, norms, 1)
        second = bipartition(gram / np.outer(scale, scale), self.linkage)
        clients = np.array(list(messages))
        return clients[~second].tolist(), clients[second].tolist()

    def _fits(self, params: Params, client: Client) -> tuple[float, float]:
        """Return accuracy and log-likelihood of a model on the client's validation examples."""
        rows = self.loaded.split.validation[client.number]
        seen = Network(client.model, params).embed(self.loaded.tensors, rows)
        logits = seen.logits.astype(np.float64)
        chances = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        right = (logits.argmax(axis=1) == seen.labels).mean()
        return float(right), float(chances[np.arange(len(rows)), seen.labels].mean())


def bipartition(similarity: np.ndarray, method: str) -> np.ndarray:
    """Divide clients in two for clustered FedAvg: bool (n,), True for the part without client 0."""
    apart = np.clip(1 - (similarity + similarity.T) / 2, 0, 2)
    np.fill_diagonal(apart, 0)
    part = cut_tree(linkage(squareform(apart), method), n_clusters=2).ravel()
    return np.asarray(part != part[0])
