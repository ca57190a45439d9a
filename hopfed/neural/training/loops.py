"""Training of clients: one after the other, or stacked by architecture.

Both ways use the same batches in the same order; results differ only by rounding. In a stack,
parameters have the clients as first axis and `torch.func.vmap` maps the objective over it: the
gradient of the sum of all losses holds the gradient of each. Batches of unequal size are padded and
masked; clients with fewer steps leave the stack earlier.

Stacking saves PyTorch's overhead of every operation, and costs time if operations are large:
a stack does not fit into the caches, and convolutions with one group for each client are slow.
Measured once: time of a stack of ten clients on one processor, with batches of 32, relative to one
client after the other, by FLOPs of a step: mlp:32, digits (.3 million) .55; mlp, digits (10) .95;
LeNet, digits (12) .75; mlp, MNIST (38) 1.5; LeNet, MNIST (79) 1.45; LeNet, CIFAR-10 (120) 1.4.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from hopfed._lib.home_folder import home, own_folder
from hopfed._lib.random import derive
from hopfed.errors import BackendError, HopfedError
from hopfed.neural.data.tensors import Tensors, torch_generator
from hopfed.neural.models import Model
from hopfed.neural.models.networks import NetworkWarning, foreign_bodies
from hopfed.neural.training.job import (
    COUNT,
    Job,
    Optimizer,
    forward_of,
    has_batch_norm,
    move_beside,
    step_flops,
)
from hopfed.neural.training.losses import Batch, Net, Objective, Params

Loss = Callable[..., Tensor]  # (parameters, inputs, labels, mask, extra) -> loss, or losses

# Smallest FLOPs of a client's step (forward, backward, nothing frozen) without stacks on a CPU.
LARGE = 2.5e7
# Largest number of bytes of parameters, gradients and moments in one stack. On a CPU a wider stack
# gains nothing and does not fit into the caches; on other devices the limit is their memory.
ROOM = {"cpu": 1 << 26}
MOST = 1 << 30
CPU = torch.device("cpu")

_ALONE: WeakSet[nn.Module] = WeakSet()  # foreign networks that cannot be stacked
_HEADS: WeakKeyDictionary[nn.Module, Model] = WeakKeyDictionary()  # network -> model of its head


@contextmanager
def one_thread() -> Iterator[None]:
    """Let loops over clients use one thread of PyTorch, since its sums depend on the threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(jobs: Sequence[Job], data: Tensors) -> None:
    """Train clients in a loop: every job alone or in a stack, as its settings say."""
    jobs = [job for job in jobs if job.trained and (job.plan is None or len(job.plan))]
    with one_thread():
        for group in group_jobs(jobs, ROOM.get(data.device.type, MOST)):
            with reuse_features(group, data) as inputs:
                _train(group, inputs)


def _train(group: Sequence[Job], data: Tensors) -> None:
    """Train jobs of one kind together, or one by one."""
    if len(group) > 1 and _together(group[0], data):
        try:
            with seed_random_layers(group[0], data.device):
                train_together(group, data)
            return
        except Exception as error:  # `vmap` cannot batch every foreign network
            if isinstance(error, HopfedError) or not foreign_bodies(group[0].net):
                raise
            _ALONE.add(group[0].net)
            cause = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            warnings.warn(f"clients are trained one by one ({cause})", NetworkWarning, stacklevel=3)
    for job in group:
        with seed_random_layers(job, data.device):
            train_alone(job, data)


@contextmanager
def reuse_features(group: Sequence[Job], data: Tensors) -> Iterator[Tensors]:
    """Let loops over clients that train only a head, for several epochs, compute features once.

    This requires equal features in every step: the extractor is in test mode, or it is neither
    random nor has batch norm.
    """
    first, net = group[0], group[0].net
    alike = isinstance(net, Model) and (
        net.frozen or not (foreign_bodies(net) or has_batch_norm(net))
    )
    several = first.training.epochs > 1 and first.plan is None and not first.augment
    if not (alike and several) or any(n.startswith("features.") for n in first.trained):
        yield data
        return
    forward, head = forward_of(net), _HEADS.setdefault(net, Model(nn.Identity(), net.head, 0))
    before, inputs, labels = [job.rows for job in group], list[Tensor](), list[Tensor]()
    for job in group:
        params = move_beside(job.params, net)
        with torch.no_grad(), job.training.casting(data.device):
            for x, y in data.batches(job.rows):
                inputs.append(forward(params, x)[0].float())
                labels.append(y)
    zero, start = torch.zeros(1, device=data.device), 0
    try:
        for job in group:
            own = np.arange(start, start + len(job.rows))
            job.net, job.rows, start = head, own, start + len(own)
        yield Tensors(torch.cat(inputs), torch.cat(labels), zero, zero + 1)
    finally:
        for job, rows in zip(group, before, strict=True):
            job.net, job.rows = net, rows


def _together(job: Job, data: Tensors) -> bool:
    """Whether clients of the job's architecture are trained together."""
    training = job.training
    if training.way == "sequential" or training.record_bound:
        return False
    if job.net in _ALONE or has_batch_norm(job.net):
        return False  # rows of padding would enter the statistics of a batch
    if training.way == "stacked" or data.device.type != "cpu" or not len(job.rows):
        return True
    size = len(job.rows[: training.batch]) if job.plan is None else len(job.plan[0])
    return size * step_flops(replace(job, frozen=()), data, size) < LARGE


def group_jobs(jobs: Sequence[Job], room: int) -> list[list[Job]]:
    """Divide jobs for training loops: equal network, settings, earlier steps; in `room` bytes."""
    groups: list[list[Job]] = []
    by_net: dict[tuple[Any, ...], list[Job]] = {}
    for job in jobs:
        made = int((job.moments or {}).get(COUNT, 0))
        kind = id(job.net), made, job.objective, job.training, job.frozen, job.augment
        by_net.setdefault(kind, []).append(job)
    for same in by_net.values():
        nbytes = 4 * sum(t.numel() * t.element_size() for t in same[0].params.values())
        width = max(1, room // max(nbytes, 1))
        ordered = sorted(same, key=lambda job: -len(job.rows))
        count = -(-len(ordered) // width)
        cuts = [len(ordered) * i // count for i in range(count + 1)]
        groups += [ordered[a:b] for a, b in pairwise(cuts)]
    return groups


@contextmanager
def seed_random_layers(job: Job, device: torch.device) -> Iterator[None]:
    """Let random layers of foreign networks, as dropout, draw in a loop from the job's stream."""
    if not foreign_bodies(job.net):
        yield
        return
    seed, *path = job.path
    kind = device.type if device.type != "cpu" else "cuda"
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=kind):
        torch.manual_seed(derive(seed, "layers", *path))
        yield


def train_alone(job: Job, data: Tensors) -> None:
    """Train one client, by a plain loop over its batches."""
    training, names = job.training, job.trained
    loss_of = _loss(job.net.train(), job.objective, training.compile)
    params = {n: t.detach().clone() for n, t in move_beside(job.params, job.net).items()}
    extra = {n: t.to(data.device) for n, t in job.extra.items()}
    weights = [params[n].requires_grad_() for n in names]
    optimizer = Optimizer(training, weights, _move_tensors(job.moments or {}, data.device))
    seed, *path = job.path
    draws, noises = (torch_generator(seed, name, *path) for name in ("augment", "record noise"))
    losses: list[Tensor] = []
    for rows in job.steps():
        x, y = data.batch(data.rows(rows), draws if job.augment else None)
        lone = len(x) == 1 and has_batch_norm(job.net)
        if lone:
            job.net.eval()  # running statistics, as one example has none
        if training.record_bound:
            loss, grads = _private_gradient(job, params, x, y, extra, noises)
        else:
            with training.casting(data.device):
                loss = loss_of(params, x, y, None, extra)
            grads = torch.autograd.grad(loss, weights, materialize_grads=True)
        if lone:
            job.net.train()
        with torch.no_grad():
            named = dict(zip(names, grads, strict=True))
            directed = named if job.direct is None else job.direct(named, extra)
            optimizer.step(weights, _clip_gradients(list(directed.values()), training.clip, 0))
        losses.append(loss.detach().reshape(1))  # read after the last step, because reading waits
        if job.moments is not None:
            job.gradient = named
    job.finish({n: t.detach().cpu().contiguous() for n, t in params.items()}, _numbers(losses))
    if job.moments is not None:
        job.gradient = _move_tensors(job.gradient, CPU)
        job.moments = _move_tensors(optimizer.state(), CPU)


def _private_gradient(
    job: Job, params: Params, x: Tensor, y: Tensor, extra: Params, noises: torch.Generator
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the mean loss and the gradient of DP-SGD, from cut gradients of examples and noise."""
    training, loss_of = job.training, _loss(job.net, job.objective)
    free = {n: params[n].detach() for n in job.trained}

    def loss(free: Params, x: Tensor, y: Tensor) -> Tensor:
        return loss_of({**params, **free}, x[None], y[None], None, extra)

    scale = training.record_noise * training.record_bound
    total = {n: scale * torch.randn(t.shape, generator=noises).to(t) for n, t in free.items()}
    losses = torch.full((1,), torch.nan)
    if len(x):  # a step without examples has noise too
        each, losses = vmap(grad_and_value(loss), (None, 0, 0), randomness="different")(free, x, y)
        norms = torch.stack([g.flatten(1).square().sum(1) for g in each.values()]).sum(0).sqrt()
        shares = (training.record_bound / norms.clamp(min=1e-30)).clamp(max=1)
        for n, g in each.items():
            total[n] += torch.tensordot(shares, g, 1)
    expected = min(training.batch, len(job.rows))
    return losses.detach().mean(), tuple(t / expected for t in total.values())


def train_together(jobs: Sequence[Job], data: Tensors) -> None:
    """Train clients stacked in one loop: jobs of one kind, with equally many earlier steps."""
    planned = sorted(((j.steps(), j) for j in jobs), key=lambda p: -len(p[0]))
    plans, jobs = [p for p, _ in planned], [j for _, j in planned]  # last jobs end first
    training, names, device = jobs[0].training, jobs[0].trained, data.device
    loss_of = _loss(jobs[0].net.train(), jobs[0].objective, training.compile, stacked=True)
    params, extra, state = (
        _stack_clients(parts, device)
        for parts in zip(*((j.params, j.extra, j.moments or {}) for j in jobs), strict=True)
    )
    draws = [torch_generator(job.path[0], "augment", *job.path[1:]) for job in jobs]
    direct = None if jobs[0].direct is None else vmap(jobs[0].direct)
    optimizer = Optimizer(training, [params[n] for n in names], state)
    losses = list[Tensor]()
    counts = [sum(len(plan) > s for plan in plans) for s in range(len(plans[0]))]
    each = [[p[s] for p in plans[:a]] for s, a in enumerate(counts)]  # rows of step and client
    padded = [_pad_batches(data, rows) for rows in each]
    for active, own, (rows, mask) in zip(counts, each, padded, strict=True):
        x, y = data.batch(rows)
        if jobs[0].augment:  # each client draws once per example, as in `train_alone`
            x = x.clone()
            for i, n in enumerate(map(len, own)):
                x[i, :n] = data.batch(rows[i, :n], draws[i])[0]
        now, more = ({n: t[:active] for n, t in d.items()} for d in (params, extra))
        free = {n: now[n].detach().requires_grad_() for n in names}
        with training.casting(device):
            values = loss_of({**now, **free}, x, y, mask, more)
        found = torch.autograd.grad(values.sum(), list(free.values()), materialize_grads=True)
        with torch.no_grad():
            grads = dict(zip(names, found, strict=True))
            directed = grads if direct is None else direct(grads, more)
            weights = [t.detach() for t in free.values()]
            optimizer.step(weights, _clip_gradients(list(directed.values()), training.clip, 1))
        losses.append(values.detach())
        for i, job in enumerate(jobs[:active]):
            if job.moments is not None:
                job.gradient = {n: t[i] for n, t in grads.items()}
    by_step = np.split(_numbers(losses), np.cumsum(counts)[:-1])
    trained, state = (_move_tensors(d, CPU) for d in (params, optimizer.state()))
    for i, job in enumerate(jobs):
        mine = np.array([values[i] for values in by_step[: len(plans[i])]])
        job.finish({n: t[i].clone() for n, t in trained.items()}, mine)
        if job.moments is not None:
            early = len(plans[0]) - len(plans[i])
            job.gradient = _move_tensors(job.gradient, CPU)
            job.moments = {n: t - early if n == COUNT else t[i].clone() for n, t in state.items()}


def _loss(net: nn.Module, objective: Objective, backend: str = "", stacked: bool = False) -> Loss:
    """Return the function for the loss of a batch, or for losses of stacked clients."""
    if backend:
        return compile_loss(net, objective, backend, stacked)
    forward = forward_of(net)

    def loss(params: Params, x: Tensor, y: Tensor, mask: Tensor | None, extra: Params) -> Tensor:
        return objective(Net(forward, params), Batch(x, y, mask, extra))

    return vmap(loss, randomness="different") if stacked else loss


@lru_cache(32)  # cached over rounds, because compilation takes long
def compile_loss(net: nn.Module, objective: Objective, backend: str, stacked: bool) -> Loss:
    """Compile the loss of a batch, or of stacked clients, for the training loops."""
    from torch._dynamo.exc import TorchDynamoException

    keep_compiled_at_home()
    made: Any = torch.compile(_loss(net, objective, stacked=stacked), backend=backend)

    def loss(*batch: Any) -> Tensor:
        try:
            return made(*batch)
        except TorchDynamoException as error:
            words = " ".join(str(error).split())[:160]
            raise BackendError(f"compile={backend} does not work here: {words}") from error

    return loss


def keep_compiled_at_home() -> None:
    """Keep compiled code of training loops in a private folder, not in /tmp like PyTorch."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        folder = home() / "compiled"
        try:
            for mine in (folder.parent, folder):
                own_folder(mine)
        except OSError as error:
            raise BackendError(f"{folder}: {error.strerror}, for compiled code") from None
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def _move_tensors(tensors: Params, device: torch.device) -> Params:
    """Return tensors on a device; an optimizer's number of steps stays on the CPU."""
    return {n: t if n == COUNT else t.to(device).contiguous() for n, t in tensors.items()}


def _stack_clients(parts: Sequence[Params], device: torch.device) -> Params:
    """Stack the tensors of all clients along a first axis, with one copy to the device per name."""
    return {
        n: parts[0][n] if n == COUNT else torch.stack([p[n].detach() for p in parts]).to(device)
        for n in parts[0]
    }


def _pad_batches(data: Tensors, rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Return rows and mask (clients, batch) of a step, padded with each client's first example."""
    count = np.array([len(r) for r in rows])
    mask = np.arange(count.max()) < count[:, None]
    index = np.repeat([r[:1] for r in rows], count.max(), axis=1)
    index[mask] = np.concatenate(rows)
    return data.rows(index), data.rows(mask).float()


def _numbers(losses: Sequence[Tensor]) -> np.ndarray:
    """Return the losses of all steps, concatenated, by one copy to the host."""
    return np.array(torch.cat(list(losses)).cpu().tolist() if losses else [])


def _clip_gradients(grads: Sequence[Tensor], clip: float, lead: int) -> list[Tensor]:
    """Scale gradients to a norm of at most `clip`; each client separately if `lead` is 1."""
    if clip == 0:
        return list(grads)
    squares = sum((g**2).flatten(lead).sum(-1) for g in grads)
    scale = (clip / (torch.as_tensor(squares).sqrt() + 1e-6)).clamp(max=1.0)
    return [g * scale.reshape(scale.shape + (1,) * (g.ndim - lead)) for g in grads]
