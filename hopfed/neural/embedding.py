"""Features of a client's examples under a model, computed once for all that asks for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopfed.federation.messages import Message, digest
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.evaluation import BATCH
from hopfed.neural.method import NeuralMethod
from hopfed.neural.models.base import Model
from hopfed.neural.task import Params
from hopfed.neural.training import forward_of


@dataclass(frozen=True, eq=False)
class Embedded:
    """Examples as a model sees them: features (n, d) and logits (n, C), float32; labels (n,)."""

    features: np.ndarray = field(repr=False)
    logits: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.features.nbytes + self.logits.nbytes + self.labels.nbytes


@dataclass(frozen=True, eq=False)
class Extractor:
    """A model with given parameters, as what makes features."""

    model: Model
    params: Params = field(repr=False)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits of the inputs `x`, without gradients."""
        with torch.inference_mode():
            features, logits = forward_of(self.model.eval())(self.params, x)
        return features, logits

    def embed(self, data: Tensors, rows: np.ndarray) -> Embedded:
        """Return the examples `rows`, computed in batches."""
        parts: list[tuple[Tensor, ...]] = []
        for i in range(0, max(len(rows), 1), BATCH):  # none at all is a batch of none
            x, y = data.batch(data.rows(rows[i : i + BATCH]))
            parts.append((*self(x), y))
        features, logits, labels = (torch.cat(p).cpu().numpy() for p in zip(*parts, strict=True))
        return Embedded(features.astype(np.float32), logits.astype(np.float32), labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return sum(t.numel() * t.element_size() for t in self.params.values())


class Recent:
    """The results asked for last, up to a total of `room` bytes by their `nbytes`.

    Examples
    --------
    >>> recent = Recent(room=16)
    >>> [int(recent.get(key, lambda: np.full(1, key))[0]) for key in (1, 2, 1, 3)]
    [1, 2, 1, 3]
    >>> list(recent.held)
    [1, 3]
    """

    def __init__(self, room: int):
        self.room, self.used = room, 0
        self.held: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of `key`, made by `make` if it is not held."""
        if key not in self.held:
            self.held[key] = make()
            self.used += self.held[key].nbytes
        self.held.move_to_end(key)
        while self.used > self.room and len(self.held) > 1:
            self.used -= self.held.popitem(last=False)[1].nbytes
        return self.held[key]


_EXTRACTORS = Recent(1 << 28)


def shared_extractor(method: NeuralMethod, down: Message) -> Extractor:
    """Return the model that `method` makes of a message to all, one object for all clients."""
    found: Extractor = _EXTRACTORS.get(
        (method.name, method.task, digest(down)),
        lambda: Extractor(method.made.model(0), method.personal({}, down, 0)),
    )
    return found
