"""Optimizers on plain lists of tensors, for one client and for many stacked clients.

PyTorch's optimizers keep one state per parameter object. That does not fit stacked clients: some
finish earlier, and later steps get views of the remaining clients. The arithmetic is PyTorch's own.

An optimizer's state is a dict of tensors, so that a client can keep it from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

State = Mapping[str, Tensor]

COUNT = "count"  # the only entry that stacked clients share


class Optimizer:
    """Moves parameters along gradients.

    With `fused` it makes one pass over the memory; the last bit of some numbers then differs, and
    parameters must be contiguous.
    """

    names: ClassVar[tuple[str, ...]] = ()  # of the lists that it keeps, one tensor a parameter

    def __init__(self, *, lr: float, momentum: float, weight_decay: float, fused: bool = False):
        self.settings = {"lr": lr, "weight_decay": weight_decay}
        self.momentum, self.fused, self.count = momentum, fused, 0
        self.held: dict[str, list[Tensor]] = {}

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Make one step in place; later steps may be given fewer leading clients."""
        if not self.held:
            self.held = {n: [torch.zeros_like(p) for p in params] for n in self.names}
        lists = [
            [
                whole[: len(p)] if whole.shape != p.shape else whole
                for whole, p in zip(held, params, strict=True)
            ]
            for held in self.held.values()
        ]
        self.count += 1
        self._move(list(params), [g.contiguous() if self.fused else g for g in grads], *lists)

    def _move(self, params: list[Tensor], grads: list[Tensor], *lists: list[Tensor]) -> None:
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """Arrays on which the next step depends; empty before the first step."""
        named = {f"{n}/{i}": t for n, held in self.held.items() for i, t in enumerate(held)}
        return named | ({COUNT: torch.tensor(self.count)} if named else {})

    def resume(self, state: State) -> None:
        """Continue from `state`, which is not changed."""
        self.count = int(state[COUNT]) if state else 0
        size = (len(state) - 1) // max(len(self.names), 1)
        if state:
            self.held = {n: [state[f"{n}/{i}"].clone() for i in range(size)] for n in self.names}


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay, as `torch.optim.SGD`."""

    names: ClassVar[tuple[str, ...]] = ("momentum",)

    def _move(self, params: list[Tensor], grads: list[Tensor], *lists: list[Tensor]) -> None:
        how = {"foreach": not self.fused, "fused": self.fused, "momentum": self.momentum}
        rest = {"dampening": 0.0, "nesterov": False, "maximize": False}
        sgd(params, grads, list(lists[0]), **how, **rest, **self.settings)


class Adam(Optimizer):
    """Adam, as `torch.optim.Adam`."""

    names: ClassVar[tuple[str, ...]] = ("first", "second")
    amsgrad = False

    def _move(self, params: list[Tensor], grads: list[Tensor], *lists: list[Tensor]) -> None:
        steps = [torch.tensor(float(self.count - 1)) for _ in params]
        first, second, *largest = lists
        how = {"amsgrad": self.amsgrad, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        largest = largest[0] if largest else []
        rest = {"maximize": False, "foreach": False}
        adam(params, grads, first, second, largest, steps, **how, **rest, **self.settings)


class AMSGrad(Adam):
    """Adam with the largest second moment so far."""

    names: ClassVar[tuple[str, ...]] = ("first", "second", "largest")
    amsgrad = True


def stack(states: Sequence[State]) -> dict[str, Tensor]:
    """Stack the states of clients that made equally many steps."""
    names = states[0].keys()
    return {n: states[0][n] if n == COUNT else torch.stack([s[n] for s in states]) for n in names}


def of_client(state: State, client: int, early: int = 0) -> dict[str, Tensor]:
    """Return the state of one stacked client, which stopped `early` steps before the end."""
    return {n: t - early if n == COUNT else t[client].clone() for n, t in state.items()}


OPTIMIZERS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "amsgrad": AMSGrad}
