"""Cost of a model: parameters, bytes, and floating-point operations (FLOPs), counted by running it.

FLOPs are counted for matrix multiplications and convolutions, forward and backward; a
multiplication with its addition counts as two. PyTorch's `FlopCounterMode` counts them, but this
module replaces its formula for the gradient of a convolution. PyTorch's formula (2.13) ignores that
a weight of a grouped convolution acts on one group of channels only: it counts MobileNet-v2's
training step seven times too high.

Biases, activations, norms, pools, embeddings and the loss are not counted; `Cost.uncounted` gives
the number of their outputs. A fused operator that contains products, such as `nn.LSTM` on a CPU,
would appear there too. The LSTM of `models` is written out and is counted in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from hopfed.neural.training.places import beside
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.neural.training.training import Job, Objective, forward_of


@dataclass(frozen=True)
class Cost:
    """Cost of a model.

    Attributes
    ----------
    parameters : count of all parameters.
    trainable : count of the parameters that require gradients.
    buffers : count of the numbers in buffers, such as running statistics.
    nbytes : bytes of parameters and buffers as stored.
    forward : FLOPs of a forward pass, per example.
    training : FLOPs of the forward and backward pass of a training step, per example. The update
        of the weights, a few operations per parameter and batch, is not included.
    uncounted : operator of the training step without a FLOP formula -> numbers that it outputs
        per example. Outputs made once per batch are divided by the number of examples.
    """

    parameters: int
    trainable: int
    buffers: int
    nbytes: int
    forward: int
    training: int
    uncounted: Mapping[str, int] = field(default_factory=dict)


def measure(model: nn.Module, batch: Tensor) -> Cost:
    """Return the cost of `model`, which is not changed.

    Parameters
    ----------
    model : module from inputs to logits; gradients of frozen parameters are not counted.
    batch : (B, ...) inputs; their values do not matter. Use two, since batch normalisation may
        refuse a single one.

    Examples
    --------
    >>> cost = measure(nn.Linear(20, 5), torch.zeros(2, 20))
    >>> cost.parameters, cost.nbytes, cost.forward, cost.training
    (105, 420, 200, 400)
    """
    forward, _ = _count(model, batch, train=False)
    training, uncounted = _count(model, batch, train=True)
    parameters, buffers = list(model.parameters()), list(model.buffers())
    return Cost(
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        buffers=sum(b.numel() for b in buffers),
        nbytes=sum(t.numel() * t.element_size() for t in parameters + buffers),
        forward=forward,
        training=training,
        uncounted=uncounted,
    )


def step_flops(job: Job, x: Tensor, y: Tensor, objective: Objective) -> float:
    """FLOPs per example of a training step of `job`: forward and backward pass of `objective`.

    Parameters
    ----------
    x, y : a batch of the usual size, because an objective may do some work once per batch.
    """
    params = {n: t.detach().clone() for n, t in beside(job.params, job.net).items()}
    weights = [params[n].requires_grad_() for n in job.trained()]
    forward, extra = forward_of(job.net.train()), beside(job.extra, job.net)
    with _counter() as flops:
        loss = objective(forward, params, x, y, None, extra)
        torch.autograd.grad(loss, weights, allow_unused=True)
    return flops.get_total_flops() / len(x)


@lru_cache(32)
def forward_flops(spec: TaskSpec, architecture: str) -> int:
    """FLOPs per example of a forward pass of an architecture on the data of a task.

    Examples
    --------
    >>> forward_flops(TaskSpec(models=("mlp",), clients=2, examples=100), "mlp")
    109600
    """
    made = task_of(spec)
    batch, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    return measure(made.templates[architecture], batch).forward


class _Made(TorchDispatchMode):
    """Counts the output numbers of each operator that is not a view."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            results = result if isinstance(result, (tuple, list)) else (result,)
            made = sum(r.numel() for r in results if isinstance(r, Tensor))
            self.numbers[func.overloadpacket] += made
        return result


def _convolution_backward(
    gradient: Sequence[int], x: Sequence[int], weight: Sequence[int], *args: Any, **_results: Any
) -> int:
    """FLOPs from the shapes: each of the two gradients costs as much as the forward pass."""
    *_, transposed, _output_padding, _groups, wanted = args
    positions = x if transposed else gradient
    products = prod(positions[2:]) * positions[0] * prod(weight)
    return 2 * products * (wanted[0] + wanted[1])


def _counter() -> FlopCounterMode:
    return FlopCounterMode(
        display=False,
        custom_mapping={torch.ops.aten.convolution_backward: _convolution_backward},
    )


def _count(model: nn.Module, batch: Tensor, train: bool) -> tuple[int, dict[str, int]]:
    """FLOPs per example, and numbers per example made by operators without a formula."""
    twin = deepcopy(model).train(train)
    train = train and any(p.requires_grad for p in twin.parameters())
    flops = _counter()
    # The outer mode sees what the inner one lets through: composite operators taken apart.
    with _Made() as made, flops, torch.set_grad_enabled(train):
        logits = twin(batch)
        if train:
            labels = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
            cross_entropy(logits, labels).backward()
    shares = {
        packet.__name__: numbers // len(batch)
        for packet, numbers in made.numbers.most_common()
        if packet not in flops.flop_registry and numbers >= len(batch)
    }
    return flops.get_total_flops() // len(batch), shares
