"""pFedGP: a shared kernel on learned features, and a Gaussian process at each client.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hopfed._lib.random import stream
from hopfed.federation.messages import Message
from hopfed.neural.memory.embedding import Extractor, shared_extractor
from hopfed.neural.memory.gaussian import Process, log_evidence, process
from hopfed.neural.method import Client, Rule, above, below
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.models import Model
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params

__all__ = ["PFedGP"]


class DeepKernel(nn.Module):
    """A feature extractor, and the log-length and log-scale (1,) of a kernel on its features."""

    def __init__(self, features: nn.Module, scale: float):
        super().__init__()
        self.features = features
        self.log_length = nn.Parameter(torch.zeros(1))
        self.log_scale = nn.Parameter(torch.full((1,), float(np.log(scale))))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (B, d)."""
        z: Tensor = self.features(x)
        return z


@dataclass(frozen=True, eq=False)
class Personal:
    """A client's Gaussian process on the shared features, as a classifier.

    The features are computed on the device, the process in float64 on the CPU.
    """

    extractor: Extractor
    process: Process

    def __call__(self, x: Tensor) -> Tensor:
        """Return log-probabilities (B, classes), float64."""
        return self.process(self.extractor(x)[0].cpu()).to(x.device)


@dataclass(frozen=True)
class PFedGP(FedAvg):
    """pFedGP of Achituve et al. (2021), with a simpler Gaussian process.

    The clients maximise the evidence of their batches. The server takes size-weighted means of
    features and kernel; there is no head. A client classifies with the posterior given its own
    examples, even if it never took part.

    In the paper each client has a tree of binary processes, with Polya-Gamma variables and Gibbs
    sampling. Here it has one regression on transformed labels for each class, in closed form (see
    `hopfed.neural.memory.gaussian`). It uses all examples up to `most`, without inducing points,
    and a random sample of that size above. Class probabilities are the softmax of the posterior
    means.

    Attributes
    ----------
    most : largest number of examples of a client's process; its cost is cubic in this number.
    scale : initial prior variance of the latent functions.

    Examples
    --------
    >>> from hopfed.neural.methods import first_round
    >>> first_round("pfedgp").traffic.up.tolist()  # bytes that each client sent
    [212816, 212816]
    """

    most: int = 500
    scale: float = 10.0

    name: ClassVar[str] = "pfedgp"
    source: ClassVar[str] = "Achituve et al., NeurIPS 2021"
    rules: ClassVar[Mapping[str, Rule]] = {"most": "at least 1", "scale": "above 0"}
    shared: ClassVar[bool] = False

    def wrap(self, model: Model) -> nn.Module:
        """The feature extractor with a kernel on its features."""
        return DeepKernel(model.features, self.scale)

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Minus the evidence of the batch, summed over the classes, per example."""
        kernel = net.params["log_length"], net.params["log_scale"]
        classes = self.loaded.classes
        return -classes * log_evidence(net(batch.x), batch.y, classes, *kernel, batch.mask)

    def personal(self, client: Client, down: Message) -> Params:
        """The global features; the head is the initial one and is not used."""
        features = below(self.begin(client, down), "features")
        return client.task.initial(client.number) | above(features, "features")

    def decide(self, client: Client, down: Message) -> Personal:
        """The posterior of the client's process."""
        params, extractor = self.begin(client, down), shared_extractor(self, client, down)
        order = stream(self.task.seed, "process", client.number).permutation(client.rows)
        seen = extractor.embed(self.loaded.tensors, np.sort(order[: self.most]))
        features, labels = torch.as_tensor(seen.features), torch.as_tensor(seen.labels)
        kernel = params["log_length"], params["log_scale"]
        return Personal(extractor, process(features, labels, self.loaded.classes, *kernel))
