"""Local training of clients one after the other, and what both ways of training share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from hopfed._lib.home_folder import home
from hopfed._lib.other_accounts import own_folder
from hopfed._lib.random import derive
from hopfed.errors import BackendError
from hopfed.neural.data.tensors import Augment, Tensors, generator
from hopfed.neural.models.adapter import bodies
from hopfed.neural.training.task import Params
from hopfed.neural.training.training import Job, Objective, Training, forward_of

__all__: list[str] = []


def train_sequential(
    jobs: Sequence[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None = None,
) -> None:
    """Train every job, one after the other."""
    for job in jobs:
        with drawing([job], data.device):
            _train_one(job, data, training, objective, augment)


@contextmanager
def drawing(jobs: Sequence[Job], device: torch.device) -> Iterator[None]:
    """Let layers that draw, as dropout does, draw from a stream of the jobs of a foreign network.

    The networks of hopfed draw nothing.
    """
    if not bodies(jobs[0].net):
        yield
        return
    seed, *path = jobs[0].path
    kind = device.type if device.type != "cpu" else "cuda"
    with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=kind):
        torch.manual_seed(derive(seed, "layers", *path))
        yield


def _train_one(
    job: Job, data: Tensors, training: Training, objective: Objective, augment: Augment | None
) -> None:
    loss_of, names = loss_function(job.net.train(), objective, training.compile), job.trained()
    params = {n: t.detach().clone() for n, t in job.params.items()}
    weights = [params[n].requires_grad_() for n in names]
    optimizer, losses = training.make(), list[Tensor]()
    optimizer.resume(job.moments or {})
    steps = job.steps(training)
    draws = generator(job.path[0], "augment", *job.path[1:])
    for rows in uploaded(data, steps):
        x, y = data.batch(rows, augment, draws)
        with training.casting(data.device):
            loss = loss_of(params, x, y, None, job.extra)
        grads = torch.autograd.grad(loss, weights, allow_unused=True)
        with torch.no_grad():
            grads = [
                torch.zeros_like(w) if g is None else g for g, w in zip(grads, weights, strict=True)
            ]
            named = dict(zip(names, grads, strict=True))
            if job.direct is not None:
                grads = list(job.direct(named, job.extra).values())
            optimizer.step(weights, clipped(grads, training.clip, 0))
        losses.append(loss.detach().reshape(1))  # read after the last step: reading waits for it
        if job.moments is not None:
            job.gradient = named
    last = max(len(steps) // max(training.epochs, 1), 1)
    job.finish({n: t.detach() for n, t in params.items()}, numbers(losses), last)
    if job.moments is not None:
        job.moments = optimizer.state()


def uploaded(data: Tensors, steps: Sequence[np.ndarray]) -> list[Tensor]:
    """Index arrays of steps, of any shapes, on the device of the data by one copy."""
    if not steps:
        return []
    flat = data.rows(np.concatenate([rows.ravel() for rows in steps]))
    pieces = flat.split([rows.size for rows in steps])
    return [p.view(rows.shape) for p, rows in zip(pieces, steps, strict=True)]


def numbers(losses: Sequence[Tensor]) -> list[float]:
    """Losses (clients,) of all steps, one after the other, by one copy to the host."""
    found: list[float] = torch.cat(list(losses)).cpu().tolist() if losses else []
    return found


def loss_function(
    net: nn.Module, objective: Objective, backend: str, stacked: bool = False
) -> Callable[..., Tensor]:
    """Return the loss of a batch, a function of (parameters, inputs, labels, mask, extra).

    Parameters
    ----------
    backend : of `torch.compile`; "" does not compile.
    stacked : return the losses of stacked clients.
    """
    if backend:  # kept from round to round, because compiling takes long
        kept: Any = objective  # bound methods, functions: all can be hashed
        return _compiled(net, kept, backend, stacked)
    forward = forward_of(net)

    def loss(params: Params, x: Tensor, y: Tensor, mask: Tensor | None, extra: Params) -> Tensor:
        return objective(forward, params, x, y, mask, extra)

    made: Callable[..., Tensor] = vmap(loss, randomness="different") if stacked else loss
    return made


def _keep_compiled_at_home() -> None:
    """Let compiled code be kept where nobody else writes; PyTorch would take a folder in /tmp.

    Whoever makes that first may put libraries there that are loaded.
    """
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        folder = home() / "compiled"
        try:
            for mine in (folder.parent, folder):
                own_folder(mine)
        except OSError as error:
            raise BackendError(f"{folder}: {error.strerror}, for what is compiled") from None
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


@lru_cache(32)
def _compiled(net: nn.Module, objective: Any, backend: str, stacked: bool) -> Callable[..., Tensor]:
    from torch._dynamo.exc import TorchDynamoException

    _keep_compiled_at_home()
    plain = loss_function(net, objective, "", stacked)
    made: Any = torch.compile(plain, backend=backend)
    checked = False

    def loss(params: Params, x: Tensor, *rest: Any) -> Tensor:
        nonlocal checked
        try:
            if not checked:
                _check_gradients(plain, made, (params, x, *rest), backend)
                checked = True
            found: Tensor = made(params, x, *rest)
        except TorchDynamoException as error:  # no compiler, or a network that it cannot take
            words = " ".join(str(error).split())[:160]
            raise BackendError(f"compile={backend} does not work here: {words}") from error
        return found

    return loss


def _check_gradients(
    plain: Callable[..., Tensor], made: Callable[..., Tensor], batch: tuple[Any, ...], backend: str
) -> None:
    """Refuse a compiled loss with other gradients; one of a network that draws is not compared."""
    params, x = batch[:2]
    free = {n: t for n, t in params.items() if t.requires_grad}

    def gradients(loss: Callable[..., Tensor]) -> list[Tensor]:
        return list(
            torch.autograd.grad(loss(*batch).sum(), list(free.values()), materialize_grads=True)
        )

    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        due, again = gradients(plain), gradients(plain)
        if any(not torch.equal(a, b) for a, b in zip(due, again, strict=True)):
            return
        found = gradients(made)
    share = 0.2 if torch.is_autocast_enabled(x.device.type) else 0.02
    tiny = 1e-4 * max(float(g.abs().max()) for g in due)
    for name, a, b in zip(free, due, found, strict=True):
        if not float((a - b).abs().max()) <= share * float(a.abs().max()) + tiny:
            what = f"compile={backend} computes another gradient of {name} than PyTorch without it"
            raise BackendError(f"{what}: train without")


def clipped(grads: Sequence[Tensor], clip: float, lead: int) -> list[Tensor]:
    """Scale gradients to a norm of at most `clip`; each client separately if `lead` is 1."""
    if clip == 0:
        return list(grads)
    squares = sum((g**2).flatten(lead).sum(-1) for g in grads)
    scale = (clip / (torch.as_tensor(squares).sqrt() + 1e-6)).clamp(max=1.0)
    return [g * scale.reshape(scale.shape + (1,) * (g.ndim - lead)) for g in grads]
