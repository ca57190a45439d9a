"""Features of a network that is not trained, in place of filters.

All clients have the same network: with initial weights from the seed, or with those of a file or a
library (`weights` of a task). Each feature is made a bit: whether it is at least its mean over all
examples.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hopfed._lib.cache import Recent
from hopfed.neural.memory.embedding import Extractor
from hopfed.neural.training.task import TaskSpec, task_of

_ENCODERS = Recent(1 << 28)


@dataclass(frozen=True, eq=False)
class Encoder:
    """The features of a frozen network.

    Attributes
    ----------
    extractor : the network and its weights.
    """

    extractor: Extractor

    @classmethod
    def of(cls, spec: TaskSpec) -> Encoder:
        """Return that of the first model of a task, with its initial weights.

        Examples
        --------
        >>> import torch
        >>> encoder = Encoder.of(TaskSpec(models=("lenet",), clients=2, examples=100))
        >>> encoder(torch.rand(5, 1, 8, 8)).shape[1] == encoder.length
        True
        """
        task = task_of(spec)
        found: Encoder = _ENCODERS.get(spec, lambda: cls(Extractor(task.model(0), task.initial(0))))
        return found

    @property
    def length(self) -> int:
        """Features of an input."""
        return self.extractor.model.feature_dim

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return self.extractor.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Return the features (B, length) of inputs (B, ...)."""
        return self.extractor(x)[0].flatten(1)
