"""A global model with a memory of each client's own examples: kNN-Per and pFedGP.

Source: arXiv:2111.09360; theory/NOTES.md, "kNN-Per interpolation" and "Baselines". FedAvg trains
kNN-Per's global model h, eq. (13). A client stores h's features and the labels of its training
examples, eq. (3), and classifies by eq. (7), ``lam p_memory(y | x) + (1 - lam) p_h(y | x)``, where
p_memory are the label frequencies of the k nearest neighbours, weighted by a kernel, eq. (6).

pFedGP is Gaussian process classification in closed form (Milios et al., 2018): the logarithm of a
Gamma variable of shape ``a = EPSILON + [y = c]`` is nearly normal, so labels become targets ``t =
log a - s2 / 2`` with noise ``s2 = log(1/a + 1)``, for one regression per class. The kernel on d
features is ``scale exp(-|z - z'|^2 / (2 d length^2))``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from hopfed._lib.cache import Recent
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.federation.messages import Message, digest
from hopfed.neural import memory as stores
from hopfed.neural.method import Client, above, below, setting
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.methods.pairs import Parts
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier, Embedded, Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params

__all__ = ["KNNPer", "PFedGP"]

Stored = tuple[np.ndarray, np.ndarray]  # keys (n, d) and labels (n,)
Memory = stores.Hopfield | stores.Neighbours | stores.Prototypes

_EMBEDDED = Recent(1 << 29)  # (task, message down, client, part) -> Embedded
_PERSONAL = Recent(1 << 28)  # (method, message down, client) -> Interpolation


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A mixture of a global model and a memory, eq. (7)."""

    network: Network  # the global model
    memory: Memory | None  # features (Q, d) -> probabilities (Q, classes); None without examples
    weight: float  # lambda
    mixing: str  # see `hopfed.neural.memory.mix_with_memory`
    nbytes: int = 0  # bytes of the store behind the memory

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        features, logits = (t.cpu().numpy() for t in self.network.outputs(x))
        p = np.empty(0) if self.memory is None or self.weight == 0 else self.memory(features)
        mixed = stores.mix_with_memory(logits, p, self.weight, self.mixing)
        return torch.as_tensor(mixed, device=x.device)


@dataclass(frozen=True)
class KNNPer(FedAvg, name="knn-per", source="Marfoq et al., ICML 2022", reads=FedAvg):
    """kNN-Per of Marfoq et al. (2022).

    Training, bytes and FLOPs are FedAvg's; the cost of classification is not counted.

    Attributes
    ----------
    k : number of neighbours; a store with fewer examples uses all of them, with a warning.
    sigma : scale of the kernel.
    lam : weight of the memory in eq. (7); with -1 each client takes the weight with the most
        correct answers on its validation examples.
    capacity : largest number of stored examples or prototypes; a value up to 1 is a share of the
        client's training examples.
    spread : clients with even numbers have the capacity ``capacity - spread``, clients with odd
        numbers ``capacity + spread``; without capacity a client uses only the global model.
    rule : kept examples in random order of arrival: "fifo" the last, "fixed" the first,
        "concatenate" all.
    kernel : "paper" or "program".
    mixing : "probabilities" or "logits".
    store : "neighbours"; "prototypes", learned; or "hopfield", the softmax over all stored keys.
    steps : steps of learning prototypes; 0 keeps the k-means centres.
    beta : inverse temperature of "hopfield".
    """

    k: int = setting(10, "at least 1")
    sigma: float = setting(1.0, "above 0")
    lam: float = -1.0
    capacity: float = setting(1.0, "above 0")
    spread: float = 0.0
    rule: str = setting("fifo", ("fifo", "fixed", "concatenate"))
    kernel: str = setting("paper", ("paper", "program"))
    mixing: str = setting("probabilities", ("probabilities", "logits"))
    store: str = setting("neighbours", ("neighbours", "prototypes", "hopfield"))
    steps: int = setting(100, "at least 0")
    beta: float = setting(16.0, "above 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lam == -1 or 0 <= self.lam <= 1, "lam", "in [0, 1], or -1", self.lam)
        rule = "1 with the rule concatenate, which keeps all examples"
        require(self.rule != "concatenate" or self.capacity == 1, "capacity", rule, self.capacity)
        most = min(self.capacity, 1 - self.capacity) + 1e-9  # as floats, 1 - .9 is just below .1
        inside = self.spread == 0 or 0 < self.spread <= most
        rule = "a share such that capacity - spread and capacity + spread are in [0, 1]"
        require(inside, "spread", rule, self.spread)

    def decide(self, client: Client, down: Message) -> Interpolation:
        c, key = client.number, (self, digest(down), client.number)
        return _PERSONAL.get(key, lambda: self.mixed(self.remember(down, c), down, c))

    def remember(
        self, down: Message, client: int, rows: np.ndarray | None = None, held: Stored | None = None
    ) -> Stored:
        """Return the client's store `held` and further `rows`; by default its own, shuffled."""
        if rows is None:
            found = self.embedded(down, client, "train")
            seen = stream(self.task.seed, "arrival", client).permutation(len(found.labels))
            keys, labels = found.features[seen], found.labels[seen]
        else:
            found = self.network(down).embed(self.loaded.tensors, rows)
            keys, labels = found.features, found.labels
        if held is not None:
            keys, labels = np.concatenate([held[0], keys]), np.concatenate([held[1], labels])
        every = len(self.loaded.split.train[client])
        room = len(keys) if self.rule == "concatenate" else self._room(every, client)
        if room and self.store == "prototypes":
            room = max(room, every)  # prototypes are learned from all examples
        kept = slice(max(len(keys) - room, 0), None) if self.rule == "fifo" else slice(room)
        return keys[kept], labels[kept]

    def mixed(self, store: Stored, down: Message, client: int) -> Interpolation:
        """Return the global model mixed with a store."""
        network = self.network(down)
        if len(store[0]) == 0:
            said = "an empty store: the global model alone is used"
            warnings.warn(said, stores.SmallStoreWarning, stacklevel=2)
            return Interpolation(network, None, 0.0, self.mixing)
        memory, weight = self.memory(store, client), self.lam
        if weight == -1:
            held = self.embedded(down, client, "validation")
            p = memory(held.features)
            weight = stores.choose_weight(held.logits, p, held.labels, self.mixing)
        return Interpolation(network, memory, weight, self.mixing, sum(a.nbytes for a in store))

    def memory(self, store: Stored, client: int) -> Memory:
        """Return the memory of a store, in the form of the setting `store`."""
        (keys, labels), classes = store, self.loaded.classes
        if self.store == "hopfield":
            return stores.Hopfield(keys, labels, classes, self.beta)
        if self.store == "prototypes":
            more = {"count": self._room(len(keys), client), "steps": self.steps}
            seed = derive(self.task.seed, "memory", client)
            return stores.Prototypes(keys, labels, classes, **more, seed=seed)
        if self.k > len(keys):
            fault = f"k = {self.k} exceeds the number of examples in a store: all of them are used"
            warnings.warn(fault, stores.SmallStoreWarning, stacklevel=2)  # equal, so shown once
        index = stores.Index(keys, self.task.device)
        return stores.Neighbours(index, labels, classes, self.k, self.kernel, self.sigma)

    def embedded(self, down: Message, client: int, part: str) -> Embedded:
        """Return h's features of the client's examples in a part, "train" or "validation"."""
        rows, tensors = getattr(self.loaded.split, part)[client], self.loaded.tensors
        key = self.task, digest(down), client, part
        return _EMBEDDED.get(key, lambda: self.network(down).embed(tensors, rows))

    def _room(self, count: int, client: int) -> int:
        """Return the number of `count` examples or prototypes that the client's capacity allows."""
        if self.capacity > 1:
            return min(int(self.capacity), count)
        share = self.capacity + (self.spread if client % 2 else -self.spread)
        return max(1, round(share * count)) if share > 0 else 0


Scales = tuple[Tensor, Tensor]  # logarithms of length and scale of the kernel
EPSILON = 0.01  # shape of the Gamma variable of each class other than the example's own


def dirichlet_targets(labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """For pFedGP, beside kNN-Per: return targets and noise variances, both (classes, n)."""
    shape = EPSILON + one_hot(labels, classes).T
    noise = (1 / shape + 1).log()
    return shape.log() - noise / 2, noise


def covariance_kernel(a: Tensor, b: Tensor, log_length: Tensor, log_scale: Tensor) -> Tensor:
    """For pFedGP, beside kNN-Per: return covariance (n, m) of features (n, d) and (m, d)."""
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    width = 2 * a.shape[1] * (2 * log_length).exp()
    return log_scale.exp() * (-squared.clamp(min=0) / width).exp()


def fit_posterior(features: Tensor, labels: Tensor, classes: int, scales: Scales) -> Classifier:
    """For pFedGP, beside kNN-Per: function of features (Q, d) to log-probabilities, float64."""
    x, scales = features.double(), (scales[0].double(), scales[1].double())
    targets, noise = (t.double() for t in dirichlet_targets(labels, classes))
    mean = targets.mean(dim=1, keepdim=True)
    covariance = covariance_kernel(x, x, *scales) + torch.diag_embed(noise)
    weights = torch.linalg.solve(covariance, (targets - mean)[..., None])[..., 0]

    def at(z: Tensor) -> Tensor:
        with torch.no_grad():
            return (mean + weights @ covariance_kernel(x, z.double(), *scales)).T.log_softmax(dim=1)

    return at


@dataclass(frozen=True)
class PFedGP(FedAvg, name="pfedgp", source="Achituve et al., NeurIPS 2021"):
    """pFedGP of Achituve et al. (2021), with a simpler Gaussian process.

    The clients maximise the evidence of their batches. The server averages extractor and kernel;
    there is no head. A client, even if it never took part, classifies with the posterior given
    its own examples.

    In the paper each client has a tree of binary processes, with Polya-Gamma variables and Gibbs
    sampling; here it has one regression on transformed labels per class, in closed form, on at
    most `most` examples, drawn at random, without inducing points.

    Attributes
    ----------
    most : largest number of examples of a client's process; the cost is cubic in this number.
    scale : initial prior variance of the latent functions.
    """

    most: int = setting(500, "at least 1")
    scale: float = setting(10.0, "above 0")

    def wrap(self, model: Model) -> nn.Module:
        length, scale = torch.zeros(1), torch.full((1,), math.log(self.scale))
        named = {"log_length": nn.Parameter(length), "log_scale": nn.Parameter(scale)}
        return Parts(lambda net, x: net.features(x), features=model.features, **named)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Return minus the log marginal likelihood of a batch, per example, of all classes."""
        z, classes = net(batch.x), self.loaded.classes
        real = torch.ones_like(z[:, 0]) if batch.mask is None else batch.mask
        targets, noise = dirichlet_targets(batch.y, classes)
        mean = (targets * real).sum(1, keepdim=True) / real.sum().clamp(min=1)
        off = (targets - mean) * real
        kernel = covariance_kernel(z, z, net.params["log_length"], net.params["log_scale"])
        covariance = kernel * real[:, None] * real + torch.diag_embed(noise * real + (1 - real))
        factor = torch.linalg.cholesky(covariance)
        half = torch.linalg.solve_triangular(factor, off[..., None], upper=False)[..., 0]
        log_root = factor.diagonal(dim1=-2, dim2=-1).log()
        each = -(half**2) / 2 - log_root - math.log(2 * math.pi) / 2
        return -classes * batch.mean(each.mean(0))

    def personal(self, client: Client, down: Message) -> Params:
        """Return the global extractor with the initial head, which is not used."""
        features = below(self.begin(client, down), "features")
        return client.task.initial(client.number) | above(features, "features")

    def decide(self, client: Client, down: Message) -> Classifier:
        """Return the posterior of the client's process, on the CPU; features are on the device."""
        params, network = self.begin(client, down), self.network(down)
        order = stream(self.task.seed, "process", client.number).permutation(client.rows)
        seen = network.embed(self.loaded.tensors, np.sort(order[: self.most]))
        features, labels = torch.as_tensor(seen.features), torch.as_tensor(seen.labels)
        scales = params["log_length"], params["log_scale"]
        at = fit_posterior(features, labels, self.loaded.classes, scales)
        return lambda x: at(network.outputs(x)[0].cpu()).to(x.device)
