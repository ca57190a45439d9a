"""Features of a client's examples under a model, computed once and reused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hopfed._lib.cache import Recent
from hopfed._lib.random import derive
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError
from hopfed.federation.messages import Message, digest
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.memory.recall import Scorer
from hopfed.neural.models import Model
from hopfed.neural.training.evaluation import Classifier, Network
from hopfed.neural.training.losses import beside
from hopfed.neural.training.task import Params
from hopfed.neural.training.together import one_thread
from hopfed.neural.training.training import forward_of

if TYPE_CHECKING:
    from hopfed.neural.method import Client, NeuralMethod

WAYS = ("pca", "t-sne")
PERPLEXITY = 30.0


@dataclass(frozen=True, eq=False)
class Embedded:
    """A model's features (n, d) and logits (n, C) of examples, float32, with labels (n,)."""

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
    """A model with given parameters, used to compute features."""

    model: Model
    params: Params = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", beside(self.params, self.model))

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits of the inputs `x`, without gradients."""
        with torch.inference_mode():
            features, logits = forward_of(self.model.eval())(self.params, x)
        return features, logits

    def outputs(self, data: Tensors, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return features (n, d) and logits (n, C) of the examples `rows`, on the CPU."""
        with one_thread():
            found = [self(x) for x, _ in data.batches(rows)]
        features, logits = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return features, logits

    def embed(self, data: Tensors, rows: np.ndarray) -> Embedded:
        """Return the examples `rows`, computed in batches."""
        parts = [(*self(x), y) for x, y in data.batches(rows)]
        features, logits, labels = (torch.cat(p).cpu().numpy() for p in zip(*parts, strict=True))
        return Embedded(features.astype(np.float32), logits.astype(np.float32), labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return sum(t.numel() * t.element_size() for t in self.params.values())


def features_of(classifier: Classifier, data: Tensors, rows: np.ndarray) -> np.ndarray:
    """Return the features (n, d) of the examples `rows` under a client's classifier."""
    if isinstance(classifier, Network) and isinstance(classifier.model, Model):
        return Extractor(classifier.model, classifier.params).embed(data, rows).features
    if isinstance(classifier, Scorer):
        with torch.inference_mode():
            return np.asarray(classifier.features(data.batch(data.rows(rows))[0])[0].cpu())
    raise ArgumentError("classifier", "a model with parameters", type(classifier).__name__)


def flattened(features: np.ndarray, way: str, seed: int = 0) -> np.ndarray:
    """Return points (n, 2) for features (n, d), by "pca" or "t-sne"."""
    require(way in WAYS, "way", f"one of {', '.join(WAYS)}", repr(way))
    if way == "pca":
        from sklearn.decomposition import PCA

        return np.asarray(PCA(2, svd_solver="full").fit_transform(features))
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
    law = derive(seed, "t-sne") % 2**32
    return np.asarray(TSNE(2, perplexity=perplexity, random_state=law).fit_transform(features))


_EXTRACTORS = Recent(1 << 28)


def shared_extractor(method: NeuralMethod, client: Client, down: Message) -> Extractor:
    """Return the model in the server's message to all, one object for all clients."""
    found: Extractor = _EXTRACTORS.get(
        (method.name, method.task, digest(down)),
        lambda: Extractor(client.model, method.personal(client, down)),
    )
    return found
