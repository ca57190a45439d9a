"""FedRAL: clients with different models share a square matrix that rotates their features.

Source: theory/NOTES.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from hopfed._lib.settings import require
from hopfed.federation.aggregate import weighted_mean
from hopfed.federation.contract import EVERYONE, Context, State
from hopfed.federation.messages import Field, Message, Spec
from hopfed.neural.methods._auxiliary import Auxiliary
from hopfed.neural.models.base import Model
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import cross_entropy
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Forward

MATRIX = "shared.weight"


class Turned(nn.Module):
    """A model whose head reads features with the direction of ``A z`` and the length of z.

    Examples
    --------
    >>> model = Turned(Model(nn.Flatten(), nn.Linear(4, 2), 4))
    >>> x = torch.ones(3, 1, 2, 2)
    >>> bool(torch.allclose(model(x), model.own(x)))
    True
    """

    def __init__(self, own: Model):
        super().__init__()
        self.own = own
        self.shared = nn.utils.skip_init(nn.Linear, own.feature_dim, own.feature_dim, bias=False)
        nn.init.eye_(self.shared.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, classes)."""
        z = self.own.features(x)
        turned = functional.normalize(self.shared(z), dim=1) * z.norm(dim=1, keepdim=True)
        logits: Tensor = self.own.head(turned)
        return logits


@dataclass(frozen=True)
class FedRAL(Auxiliary):
    """Representation angle learning of Yi et al. (2025), built from its abstract.

    The text of the paper is not public. According to the abstract, every client's model contains a
    square matrix of the same shape, which learns the angles of the representations. Clients with
    fewer resources send a matrix that is sparse around its diagonal. The server takes weighted
    means entry by entry.

    Decided here: the matrix A (d, d) stands between extractor and head and starts as the identity.
    It changes the direction of a feature vector but not its length, so that clients share only
    angles, at any scale of the features. It is trained with the model on cross-entropy. A client
    keeps, trains and sends the entries with |i - j| at most ``ceil(share (d - 1))``. The mean of an
    entry is over the clients that sent it, weighted by size; an entry that nobody sent keeps its
    value. The server sends the whole matrix. A client classifies with its own trained copy.

    Attributes
    ----------
    least, levels : clients take in turn one of `levels` levels of resources. The first level has
        all diagonals, the last has the share `least` of them; the others are evenly spaced.

    Examples
    --------
    >>> from hopfed.federation.engines.local import LocalEngine
    >>> from hopfed.federation.rounds import play_round
    >>> from hopfed.neural.training.task import TaskSpec
    >>> from hopfed.neural.training.training import Training
    >>> task = TaskSpec(models=("mlp",), clients=2, examples=200)
    >>> method = FedRAL(task, Training(way="sequential"), least=0.5)
    >>> played = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine())
    >>> played.traffic.up.tolist()  # bytes that each client sent
    [160008, 157608]
    """

    least: float = 0.2
    levels: int = 5

    name: ClassVar[str] = "fedral"
    source: ClassVar[str] = "Yi et al., ICCV 2025 (from the description)"
    keeps_shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.least <= 1, "least", "in [0, 1]", self.least)
        require(self.levels >= 1, "levels", "at least 1", self.levels)

    def server_start(self, seed: int) -> State:
        """The identity; an entry keeps its value until a client sends it."""
        super().server_start(seed)
        return {"model/weight": np.eye(self.loaded.feature_dim, dtype=np.float32)}

    def wrap(self, model: Model) -> nn.Module:
        """The model and the matrix."""
        return Turned(model)

    def band(self, client: int) -> np.ndarray:
        """Entries that a client has: bool (d, d)."""
        d = self.loaded.feature_dim
        share = np.linspace(1.0, self.least, self.levels)[client % self.levels]
        width = ceil(share * (d - 1))
        return np.abs(np.subtract.outer(np.arange(d), np.arange(d))) <= width

    def start_params(self, state: State, down: Message, client: int) -> Params:
        """The client's model, and its entries of the server's matrix."""
        params = super().start_params(state, down, client)
        return params | {MATRIX: params[MATRIX] * torch.as_tensor(self.band(client))}

    def extra(self, state: State, down: Message, client: int) -> Params:  # noqa: ARG002
        """The entries that the client has."""
        return {"band": torch.as_tensor(self.band(client), dtype=torch.float32)}

    def objective(self, net: Net, batch: Batch) -> Tensor:
        """Cross-entropy, with a gradient only for the entries of the band."""
        forward, params, x, y, mask, extra = net.forward, net.params, batch.x, batch.y, batch.mask, batch.extra  # noqa: E501
        params = params | {MATRIX: params[MATRIX] * extra["band"]}
        return cross_entropy(forward(params, x), y, mask)

    def finish(self, state: State, params: Params, client: int) -> tuple[State, Message]:
        """Send the entries of the band, row by row."""
        state, message = super().finish(state, params, client)
        return state, message | {"model/weight": message["model/weight"][self.band(client)]}

    def expects(self, down: Message, context: Context) -> Spec:  # noqa: ARG002
        """As many entries as the band has, and the number of examples."""
        entries = int(self.band(context.client or 0).sum())
        return {"model/weight": Field((entries,), "f"), "examples": Field((), "iu")}

    def answer(
        self, state: State, messages: Mapping[int, Message]
    ) -> tuple[State, Mapping[int, Message]]:
        """Average each entry over the clients that sent it."""
        if not messages:
            return state, {}
        bands = [self.band(c) for c in messages]
        before = np.asarray(state["model/weight"])
        parts = [np.zeros_like(before) for _ in bands]
        for part, band, message in zip(parts, bands, messages.values(), strict=True):
            part[band] = message["model/weight"]
        sizes = [float(m["examples"]) for m in messages.values()]
        mean = weighted_mean(parts, sizes, masks=bands, default=before)
        new = {"model/weight": np.asarray(mean)}
        return new, {EVERYONE: new}

    def classifier(self, state: State, down: Message, client: int) -> Classifier:
        """The model with its matrix as last trained."""
        del down
        return Network(self.net(client), self.start_params(state, {}, client))
