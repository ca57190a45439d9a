"""Two models trained side by side on the same batches: a client's own and one that is shared."""

from __future__ import annotations

from torch import Tensor, nn

from hopfed.neural.models.base import Model


class Pair(nn.Module):
    """The parameters of the parts start with ``own.`` and ``shared.``.

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
        """Return (features, logits) of either model."""
        own, shared = self.own.features(x), self.shared.features(x)
        return (own, self.own.head(own)), (shared, self.shared.head(shared))
