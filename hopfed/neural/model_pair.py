"""A pair of models trained on the same batches: a client's own model and a shared one."""

from __future__ import annotations

from torch import Tensor, nn

from hopfed.neural.models.base import Model


class Pair(nn.Module):
    """A client's own model and the shared model; names start with ``own.`` or ``shared.``.

    Examples
    --------
    >>> import torch
    >>> a, b = (Model(nn.Flatten(), nn.Linear(4, 2), 4) for _ in range(2))
    >>> (features, logits), _ = Pair(a, b)(torch.ones(3, 1, 2, 2))
    >>> features.shape, logits.shape
    (torch.Size([3, 4]), torch.Size([3, 2]))
    """

    def __init__(self, own: Model, shared: Model):
        super().__init__()
        self.own = own
        self.shared = shared

    def forward(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return (features, logits) of both models."""
        own, shared = self.own.features(x), self.shared.features(x)
        return (own, self.own.head(own)), (shared, self.shared.head(shared))
