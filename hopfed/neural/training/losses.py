"""Losses of a batch, some of whose rows are padding."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of logits (B, classes) and labels y (B,) over the rows where `mask` is 1.

    Examples
    --------
    >>> import torch
    >>> logits, y = torch.tensor([[0.0, 0.0], [9.0, -9.0]]), torch.tensor([1, 1])
    >>> cross_entropy(logits, y, torch.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    if mask is None:
        return functional.cross_entropy(logits, y)
    # Written out, because under `vmap` PyTorch decomposes its own function slowly in Python.
    return masked_mean(-logits.log_softmax(dim=1).gather(1, y[:, None])[:, 0], mask)


def divergence(logits: Tensor, teacher: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean KL(teacher || student) of the softmaxes of logits (B, classes).

    No gradient flows into the teacher. `mask` (B,) is as in `cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> float(divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0]])))
    0.0
    """
    ours, theirs = logits.log_softmax(dim=1), teacher.detach().log_softmax(dim=1)
    return masked_mean((theirs.exp() * (theirs - ours)).sum(dim=1), mask)


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of `values` (B,) over the rows where `mask` (B,) is 1; over all rows if it is None.

    Examples
    --------
    >>> import torch
    >>> masked_mean(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 0.0]))
    tensor(1.)
    """
    if mask is None:
        return values.mean()
    return (values * mask).sum() / mask.sum().clamp(min=1)
