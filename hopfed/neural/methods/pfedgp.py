"""pFedGP: a shared kernel on learned features, and a Gaussian process at each client.

Source: theory/NOTES.md, "Baselines". Gaussian process classification in closed form (Milios et al.,
2018): the logarithm of a Gamma variable of shape ``a = EPSILON + [y = c]`` is about normal, so
labels become targets ``t = log a - s2 / 2`` with noise ``s2 = log(1/a + 1)``, of one regression for
each class. The kernel on d features is ``scale exp(-|z - z'|^2 / (2 d length^2))``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from hopfed._lib.random import stream
from hopfed.federation.messages import Message
from hopfed.neural.method import Client, above, below, setting
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.methods.pairs import Parts
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier
from hopfed.neural.training.losses import Batch, Net, masked_mean
from hopfed.neural.training.task import Params

__all__ = ["PFedGP"]

EPSILON = 0.01  # shape of the Gamma variable of each class other than the example's own


def dirichlet_targets(labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return targets and noise variances, both (classes, n)."""
    shape = EPSILON + one_hot(labels, classes).T
    noise = (1 / shape + 1).log()
    return shape.log() - noise / 2, noise


def kernel(a: Tensor, b: Tensor, log_length: Tensor, log_scale: Tensor) -> Tensor:
    """Return the covariance of the features (n, d) and (m, d): (n, m)."""
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    width = 2 * a.shape[1] * (2 * log_length).exp()
    return log_scale.exp() * (-squared.clamp(min=0) / width).exp()


def log_evidence(
    features: Tensor,
    labels: Tensor,
    classes: int,
    log_length: Tensor,
    log_scale: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Log marginal likelihood of a batch, a Gaussian process a class; per example and class."""
    real = torch.ones_like(features[:, 0]) if mask is None else mask
    targets, noise = dirichlet_targets(labels, classes)
    mean = (targets * real).sum(1, keepdim=True) / real.sum().clamp(min=1)
    off = (targets - mean) * real
    covariance = kernel(features, features, log_length, log_scale) * real[:, None] * real
    covariance = covariance + torch.diag_embed(noise * real + (1 - real))
    factor = torch.linalg.cholesky(covariance)
    half = torch.linalg.solve_triangular(factor, off[..., None], upper=False)[..., 0]
    log_root = factor.diagonal(dim1=-2, dim2=-1).log()
    each = -(half**2) / 2 - log_root - math.log(2 * math.pi) / 2
    return masked_mean(each.mean(0), mask)


def posterior(
    features: Tensor, labels: Tensor, classes: int, log_length: Tensor, log_scale: Tensor
) -> Callable[[Tensor], Tensor]:
    """Log-probabilities (Q, classes) at features (Q, d), given examples (n, d), in float64.

    They are the softmax of the latent means ``mean + weights @ kernel(features, z)``.
    """
    x, scales = features.double(), (log_length.double(), log_scale.double())
    targets, noise = (t.double() for t in dirichlet_targets(labels, classes))
    mean = targets.mean(dim=1, keepdim=True)
    covariance = kernel(x, x, *scales) + torch.diag_embed(noise)
    weights = torch.linalg.solve(covariance, (targets - mean)[..., None])[..., 0]

    def at(z: Tensor) -> Tensor:
        with torch.no_grad():
            near = kernel(x, z.double(), *scales)
            return (mean + weights @ near).T.log_softmax(dim=1)

    return at


@dataclass(frozen=True)
class PFedGP(FedAvg, name="pfedgp", source="Achituve et al., NeurIPS 2021"):
    """pFedGP of Achituve et al. (2021), with a simpler Gaussian process.

    The clients maximise the evidence of their batches. The server averages features and kernel;
    there is no head. A client, also one that never took part, classifies with the posterior given
    its own examples.

    In the paper each client has a tree of binary processes, with Polya-Gamma variables and Gibbs
    sampling; here one regression on transformed labels for each class, in closed form. It uses all
    examples up to `most`, without inducing points, and a random sample of that size above.

    Attributes
    ----------
    most : largest number of examples of a client's process; its cost is cubic in this number.
    scale : initial prior variance of the latent functions.
    """

    most: int = setting(500, "at least 1")
    scale: float = setting(10.0, "above 0")

    def wrap(self, model: Model) -> nn.Module:
        scale = torch.full((1,), math.log(self.scale))
        kernel = {"log_length": torch.zeros(1), "log_scale": scale}
        named = {name: nn.Parameter(number) for name, number in kernel.items()}
        return Parts(lambda net, x: net.features(x), features=model.features, **named)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        kernel = net.params["log_length"], net.params["log_scale"]
        classes = self.loaded.classes
        return -classes * log_evidence(net(batch.x), batch.y, classes, *kernel, batch.mask)

    def personal(self, client: Client, down: Message) -> Params:
        """The global features; the head is the initial one and is not used."""
        features = below(self.begin(client, down), "features")
        return client.task.initial(client.number) | above(features, "features")

    def decide(self, client: Client, down: Message) -> Classifier:
        """The posterior of the client's process, on the CPU, on features of the device."""
        params, network = self.begin(client, down), self.network(client, down)
        order = stream(self.task.seed, "process", client.number).permutation(client.rows)
        seen = network.embed(self.loaded.tensors, np.sort(order[: self.most]))
        features, labels = torch.as_tensor(seen.features), torch.as_tensor(seen.labels)
        scales = params["log_length"], params["log_scale"]
        at = posterior(features, labels, self.loaded.classes, *scales)
        return lambda x: at(network.outputs(x)[0].cpu()).to(x.device)
