"""Optimizers on plain lists of tensors, so that one client and many stacked ones step alike.

PyTorch's own keep one state per parameter object; stacked clients leave a step early, and theirs
are views of the first clients. The arithmetic is PyTorch's, in the same order, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """Moves parameters along gradients."""

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place; later steps may be given fewer leading clients."""
        ...


class SGD:
    """Gradient descent with momentum and weight decay, as `torch.optim.SGD`."""

    def __init__(self, *, lr: float, momentum: float, weight_decay: float):
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.buffers: list[Tensor] | None = None

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place."""
        if self.weight_decay:
            grads = [g.add(p, alpha=self.weight_decay) for g, p in zip(grads, params, strict=True)]
        if self.momentum:
            if self.buffers is None:
                self.buffers = [g.clone() for g in grads]
            else:
                for b, g in zip(self.buffers, grads, strict=True):
                    _leading(b, g).mul_(self.momentum).add_(g)
            grads = [_leading(b, g) for b, g in zip(self.buffers, grads, strict=True)]
        for p, g in zip(params, grads, strict=True):
            p.add_(g, alpha=-self.lr)


class Adam:
    """Adam, as `torch.optim.Adam`; with `amsgrad` the largest second moment is kept."""

    betas = (0.9, 0.999)
    epsilon = 1e-8
    amsgrad = False

    def __init__(self, *, lr: float, momentum: float, weight_decay: float):  # noqa: ARG002
        self.lr, self.weight_decay = lr, weight_decay
        self.first: list[Tensor] | None = None
        self.second: list[Tensor] = []
        self.largest: list[Tensor] = []
        self.count = 0

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place."""
        if self.first is None:
            self.first, self.second, self.largest = (
                [torch.zeros_like(g) for g in grads] for _ in range(3)
            )
        self.count += 1
        b1, b2 = self.betas
        correction1, correction2 = 1 - b1**self.count, 1 - b2**self.count
        moments = zip(params, grads, self.first, self.second, self.largest, strict=True)
        for p, g, whole1, whole2, whole3 in moments:
            m, v, top = (_leading(whole, g) for whole in (whole1, whole2, whole3))
            if self.weight_decay:
                g = g.add(p, alpha=self.weight_decay)
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            if self.amsgrad:
                torch.maximum(top, v, out=top)
                v = top
            scale = (v.sqrt() / correction2**0.5).add_(self.epsilon)
            p.addcdiv_(m, scale, value=-self.lr / correction1)


class AMSGrad(Adam):
    """Adam with the largest second moment so far."""

    amsgrad = True


def _leading(whole: Tensor, part: Tensor) -> Tensor:
    """The state of the clients that are still stepping."""
    return whole if whole.shape == part.shape else whole[: len(part)]


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam, "amsgrad": AMSGrad}
