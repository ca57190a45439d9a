"""Cost of a model in floating-point operations (FLOPs), counted by PyTorch while it runs.

PyTorch's formula for the gradient of a convolution (2.13) ignores that a weight of a grouped one
acts on one group of channels only, seven times too much for MobileNet-v2: here is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from hopfed.neural.data.tensors import Tensors
from hopfed.neural.training.losses import Batch, Net, beside
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.neural.training.training import Job, forward_of, has_batch_norm


def training_flops(job: Job, data: Tensors) -> float:
    """FLOPs of a training."""
    if not len(job.rows) or not job.trained():
        return 0.0
    each = step_flops(job, data, job.training.batch)
    return each * len(job.rows) * job.training.epochs


def step_flops(job: Job, data: Tensors, batch: int) -> float:
    """FLOPs per example of a training step: counted once for each network, objective and size."""
    known = _COUNTED.setdefault(job.net, {})
    rows = job.rows[:batch] if job.plan is None else job.plan[0][:batch]
    key = job.objective, job.frozen, len(rows)
    if key not in known:
        x, y = data.batch(data.rows(rows))
        params = {n: t.detach().clone() for n, t in beside(job.params, job.net).items()}
        weights = [params[n].requires_grad_() for n in job.trained()]
        alone = len(rows) == 1 and has_batch_norm(job.net)  # one example has no statistics
        net = Net(forward_of(job.net.train(not alone)), params)
        with _counter() as flops:
            loss = job.objective(net, Batch(x, y, None, beside(job.extra, job.net)))
            torch.autograd.grad(loss, weights, allow_unused=True)
        known[key] = flops.get_total_flops() / len(x)
    return known[key]


_COUNTED: WeakKeyDictionary[nn.Module, dict[Any, float]] = WeakKeyDictionary()


@lru_cache(32)
def forward_flops(spec: TaskSpec, architecture: str) -> int:
    """FLOPs per example of a forward pass of an architecture on the data of a task."""
    made = task_of(spec)
    batch, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    twin = deepcopy(made.templates[architecture]).eval()
    with _counter() as flops, torch.no_grad():
        twin(batch)
    return flops.get_total_flops() // len(batch)


def _convolution_backward(
    gradient: Sequence[int], x: Sequence[int], weight: Sequence[int], *args: Any, **_results: Any
) -> int:
    """FLOPs from the shapes: each of the two gradients costs as much as the forward pass."""
    *_, transposed, _output_padding, _groups, wanted = args
    positions = x if transposed else gradient
    products = prod(positions[2:]) * positions[0] * prod(weight)
    return 2 * products * (wanted[0] + wanted[1])


def _counter() -> FlopCounterMode:
    gradient = torch.ops.aten.convolution_backward
    return FlopCounterMode(display=False, custom_mapping={gradient: _convolution_backward})
