"""Optimizers on plain lists of tensors, for one client and for many stacked clients.

PyTorch's optimizers keep one state per parameter object. That does not fit stacked clients: some
finish earlier, and later steps get views of the remaining clients. The arithmetic is PyTorch's in
the same order, equal bit for bit, unless it is `fused`.

An optimizer's state is a dict of tensors, so that a client can keep it from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.sgd import sgd

State = Mapping[str, Tensor]

COUNT = "count"  # the only entry that stacked clients share


class Optimizer(Protocol):
    """Moves parameters along gradients."""

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place; later steps may be given fewer leading clients."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Arrays on which the next step depends; empty before the first step."""
        ...

    def resume(self, state: State) -> None:
        """Continue from `state`, which is not changed."""
        ...


class SGD:
    """Gradient descent with momentum and weight decay: the arithmetic of `torch.optim.SGD`.

    With `fused` it makes one pass over the memory; the last bit of some numbers then differs, and
    parameters must be contiguous.
    """

    def __init__(self, *, lr: float, momentum: float, weight_decay: float, fused: bool = False):
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.fused = fused
        self.buffers: list[Tensor] = []

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place."""
        if self.fused:  # the fused kernel ignores strides
            grads = [g.contiguous() for g in grads]
        pairs = zip(self.buffers, grads, strict=True)
        buffers = [_leading(b, g) for b, g in pairs] if self.buffers else [None] * len(grads)
        sgd(
            list(params),
            list(grads),
            buffers,
            foreach=not self.fused,
            fused=self.fused,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        if self.momentum and not self.buffers:
            self.buffers = [b for b in buffers if b is not None]

    def state(self) -> dict[str, Tensor]:
        """Return the momentum."""
        return _numbered("momentum", self.buffers)

    def resume(self, state: State) -> None:
        """Continue from a momentum."""
        self.buffers = _copies(state, "momentum")


class Adam:
    """Adam, as `torch.optim.Adam`; with `amsgrad` the largest second moment is kept."""

    betas = (0.9, 0.999)
    epsilon = 1e-8
    amsgrad = False

    def __init__(self, *, lr: float, momentum: float, weight_decay: float, fused: bool = False):
        del momentum, fused
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

    def state(self) -> dict[str, Tensor]:
        """Return the moments and the number of steps."""
        if self.first is None:
            return {}
        moments = _numbered("first", self.first) | _numbered("second", self.second)
        largest = _numbered("largest", self.largest) if self.amsgrad else {}
        return moments | largest | {COUNT: torch.tensor(self.count)}

    def resume(self, state: State) -> None:
        """Continue from moments and a number of steps."""
        if state:
            self.first, self.second = _copies(state, "first"), _copies(state, "second")
            self.largest = _copies(state, "largest") if self.amsgrad else self.second  # unused
            self.count = int(state[COUNT].max())


class AMSGrad(Adam):
    """Adam with the largest second moment so far."""

    amsgrad = True


def _leading(whole: Tensor, part: Tensor) -> Tensor:
    """The state of the clients that are still stepping."""
    return whole if whole.shape == part.shape else whole[: len(part)]


def _numbered(name: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"{name}/{i}": t for i, t in enumerate(tensors)}


def _copies(state: State, name: str) -> list[Tensor]:
    count = sum(key.startswith(f"{name}/") for key in state)
    return [state[f"{name}/{i}"].clone() for i in range(count)]


def age(state: State) -> int:
    """Return the number of steps behind a state; states are stacked only with equal numbers."""
    return int(state[COUNT]) if COUNT in state else int(bool(state))


def stack(states: Sequence[State]) -> dict[str, Tensor]:
    """Stack the states of clients that made equally many steps.

    Examples
    --------
    >>> both = stack([{"momentum/0": torch.ones(3)}, {"momentum/0": torch.zeros(3)}])
    >>> both["momentum/0"].shape, of_client(both, 1)["momentum/0"]
    (torch.Size([2, 3]), tensor([0., 0., 0.]))
    """
    return {n: torch.stack([state[n] for state in states]) for n in states[0]}


def of_client(state: State, client: int, early: int = 0) -> dict[str, Tensor]:
    """Return the state of one stacked client, which stopped `early` steps before the end."""
    return {n: t - early if n == COUNT else t[client].clone() for n, t in state.items()}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam, "amsgrad": AMSGrad}
