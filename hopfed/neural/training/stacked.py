"""Local training of many clients of one architecture together, step by step.

Parameters are stacked along a first axis, and `torch.func.vmap` maps the objective over it, with
the layers of `batched`. The loss of a client depends only on its own parameters, so the gradient
of the sum of all losses holds the gradient of each client. Batches of unequal size are padded and
masked. Clients with fewer steps leave the stack earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from hopfed.neural.data.tensors import Augment, Tensors, generator
from hopfed.neural.training.batched import batched
from hopfed.neural.training.optimizers import age, of_client, stack
from hopfed.neural.training.sequential import clipped, drawing, loss_function, numbers, uploaded
from hopfed.neural.training.training import Job, Objective, Training

__all__: list[str] = []

# Largest number of bytes of parameters, gradients and moments in one stack. On a CPU a wider stack
# gains nothing and does not fit into the caches; on other devices the limit is their memory.
ROOM = {"cpu": 1 << 26}
MOST = 1 << 30


def train_stacked(
    jobs: Sequence[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None = None,
) -> None:
    """Train jobs of one architecture together; their optimizers made equally many steps before."""
    with drawing(jobs, data.device):
        _train(jobs, data, training, objective, augment)


def _train(
    jobs: Sequence[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None,
) -> None:
    planned = sorted(((j.steps(training), j) for j in jobs), key=lambda p: -len(p[0]))
    plans, jobs = [p for p, _ in planned], [j for _, j in planned]  # the last leave first
    net = _net(jobs[0], data, training)
    step = loss_function(net, objective, training.compile, stacked=True)
    names = jobs[0].trained()
    stacked = {n: torch.stack([job.params[n].detach() for job in jobs]) for n in jobs[0].params}
    extra = {n: torch.stack([job.extra[n] for job in jobs]) for n in jobs[0].extra}
    draws = [generator(job.path[0], "augment", *job.path[1:]) for job in jobs]
    direct = None if jobs[0].direct is None else vmap(jobs[0].direct)
    optimizer = training.make(fused=True)
    optimizer.resume(stack([job.moments or {} for job in jobs]))
    losses: list[Tensor] = []
    counts = [sum(len(plan) > s for plan in plans) for s in range(len(plans[0]))]
    batches = _batches(data, [[p[s] for p in plans[:a]] for s, a in enumerate(counts)])
    for active, batch in zip(counts, batches, strict=True):
        x, y, mask = _batch(data, batch, augment, draws)
        now = {n: t[:active] for n, t in stacked.items()}
        free = {n: now[n].detach().requires_grad_() for n in names}
        more = {n: t[:active] for n, t in extra.items()}
        with training.casting(data.device):
            values = step({**now, **free}, x, y, mask, more)
        found = torch.autograd.grad(values.sum(), list(free.values()), materialize_grads=True)
        with torch.no_grad():
            grads = dict(zip(names, found, strict=True))
            directed = grads if direct is None else direct(grads, more)
            weights = [t.detach() for t in free.values()]
            optimizer.step(weights, clipped(list(directed.values()), training.clip, 1))
        losses.append(values.detach())
        for i, job in enumerate(jobs[:active]):
            if job.moments is not None:
                job.gradient = {n: t[i] for n, t in grads.items()}
    found_losses = np.split(np.array(numbers(losses)), np.cumsum(counts)[:-1])
    for i, job in enumerate(jobs):
        last = max(len(plans[i]) // max(training.epochs, 1), 1)
        own = [float(values[i]) for values in found_losses[: len(plans[i])]]
        job.finish({n: t[i].clone() for n, t in stacked.items()}, own, last)
        if job.moments is not None:
            job.moments = of_client(optimizer.state(), i, len(plans[0]) - len(plans[i]))


def _net(job: Job, data: Tensors, training: Training) -> nn.Module:
    """Return the architecture in training; on a CPU it has the layers of `batched`."""
    net = job.net.train()
    fits = data.device.type == "cpu" and training.precision == "float32"
    return batched(net) if fits else net


@dataclass(frozen=True)
class _Batch:
    """One step: examples (clients, batch), padded with the first of each, mask, and counts."""

    index: Tensor
    mask: Tensor
    lengths: tuple[int, ...]


def _batches(data: Tensors, steps: Sequence[Sequence[np.ndarray]]) -> list[_Batch]:
    """All steps on the device of the data."""
    index, masks, lengths = [], [], []
    for rows in steps:
        count = np.array([len(r) for r in rows])
        width = count.max()
        masks.append(np.arange(width) < count[:, None])
        index.append(np.repeat([r[:1] for r in rows], width, axis=1))
        index[-1][masks[-1]] = np.concatenate(rows)
        lengths.append(tuple(count.tolist()))
    weights = (mask.float() for mask in uploaded(data, masks))
    parts = zip(uploaded(data, index), weights, lengths, strict=True)
    return [_Batch(*part) for part in parts]


def _batch(
    data: Tensors, batch: _Batch, augment: Augment | None, draws: list[torch.Generator]
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and mask (clients, batch, ...) of one step."""
    if augment is None:
        x, y = data.batch(batch.index)
        return x, y, batch.mask
    # Every client draws from its own generator, once per example, exactly as if trained alone.
    width = batch.index.shape[1]
    rows = [row[:n] for row, n in zip(batch.index, batch.lengths, strict=True)]
    parts = [data.batch(r, augment, g) for r, g in zip(rows, draws, strict=False)]
    x = torch.stack(
        [torch.cat([p[0], p[0][:1].expand(width - len(p[0]), *p[0].shape[1:])]) for p in parts]
    )
    y = torch.stack([torch.cat([p[1], p[1][:1].expand(width - len(p[1]))]) for p in parts])
    return x, y, batch.mask


def stacks(jobs: Sequence[Job], room: int) -> list[list[Job]]:
    """Divide jobs into groups of one architecture and similar size that fit into `room` bytes.

    In a group all optimizers that continue from a state have made equally many steps.
    """
    groups: list[list[Job]] = []
    by_net: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        by_net.setdefault((id(job.net), age(job.moments or {})), []).append(job)
    for same in by_net.values():
        nbytes = 4 * sum(t.numel() * t.element_size() for t in same[0].params.values())
        width = max(1, room // max(nbytes, 1))
        ordered = sorted(same, key=lambda job: -len(job.rows))
        count = -(-len(ordered) // width)
        cuts = [len(ordered) * i // count for i in range(count + 1)]
        groups += [ordered[a:b] for a, b in pairwise(cuts)]
    return groups
