"""Local training of many clients of one architecture together, step by step.

Parameters are stacked along a first axis, and `torch.func.vmap` maps the objective over it, with
the layers of `batched`. The loss of a client depends only on its own parameters, so the gradient
of the sum of all losses holds the gradient of each client. Batches of unequal size are padded and
masked. Clients with fewer steps leave the stack earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from hopfed.neural.data.tensors import Augment, Tensors, generator
from hopfed.neural.training.batched import batched
from hopfed.neural.training.optimizers import age, of_client, stack
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import (
    Forward,
    Job,
    Objective,
    Training,
    clipped,
    drawing,
    forward_of,
)

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
    forward, names = _forward(jobs[0], data, training), jobs[0].trained()
    stacked = {n: torch.stack([job.params[n].detach() for job in jobs]) for n in jobs[0].params}
    extra = {n: torch.stack([job.extra[n] for job in jobs]) for n in jobs[0].extra}
    draws = [generator(job.path[0], "augment", *job.path[1:]) for job in jobs]

    def loss(params: Params, x: Tensor, y: Tensor, mask: Tensor, more: Params) -> Tensor:
        return objective(forward, params, x, y, mask, more)

    step = vmap(loss, randomness="different")
    direct = None if jobs[0].direct is None else vmap(jobs[0].direct)
    optimizer = training.make(fused=True)
    optimizer.resume(stack([job.moments or {} for job in jobs]))
    losses: list[list[float]] = [[] for _ in jobs]
    for s in range(len(plans[0])):
        active = sum(len(plan) > s for plan in plans)
        x, y, mask = _batch(data, [plan[s] for plan in plans[:active]], augment, draws)
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
        for i, value in enumerate(values.tolist()):
            losses[i].append(value)
            if jobs[i].moments is not None:
                jobs[i].gradient = {n: t[i] for n, t in grads.items()}
    for i, job in enumerate(jobs):
        last = max(len(plans[i]) // max(training.epochs, 1), 1)
        job.finish({n: t[i].clone() for n, t in stacked.items()}, losses[i], last)
        if job.moments is not None:
            job.moments = of_client(optimizer.state(), i, len(plans[0]) - len(plans[i]))


def _forward(job: Job, data: Tensors, training: Training) -> Forward:
    """Return the forward pass of the architecture; on a CPU it uses the layers of `batched`."""
    net = job.net.train()
    fits = data.device.type == "cpu" and training.precision == "float32"
    return forward_of(batched(net) if fits else net)


def _batch(
    data: Tensors,
    rows: list[np.ndarray],
    augment: Augment | None,
    draws: list[torch.Generator],
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and mask (clients, batch, ...) of one step, padded with the first row."""
    lengths = np.array([len(r) for r in rows])
    width = lengths.max()
    mask = np.arange(width) < lengths[:, None]
    weights = torch.as_tensor(mask, dtype=torch.float32, device=data.device)
    if augment is None:
        index = np.repeat([r[:1] for r in rows], width, axis=1)
        index[mask] = np.concatenate(rows)
        x, y = data.batch(data.rows(index))
        return x, y, weights
    # Every client draws from its own generator, once per example, exactly as if trained alone.
    parts = [data.batch(data.rows(r), augment, g) for r, g in zip(rows, draws, strict=False)]
    x = torch.stack(
        [torch.cat([p[0], p[0][:1].expand(width - len(p[0]), *p[0].shape[1:])]) for p in parts]
    )
    y = torch.stack([torch.cat([p[1], p[1][:1].expand(width - len(p[1]))]) for p in parts])
    return x, y, weights


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
