"""Losses that `torch.compile` makes faster, checked against the plain ones before they are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from hopfed._lib.home_folder import home
from hopfed._lib.other_accounts import own_folder
from hopfed.errors import BackendError

__all__: list[str] = []

Loss = Callable[..., Tensor]  # (parameters, inputs, labels, mask, extra) -> loss, or losses


def keep_compiled_at_home() -> None:
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


@lru_cache(32)  # kept from round to round, because compiling takes long
def compiled(make: Callable[..., Loss], net: nn.Module, objective: Any, backend: str) -> Loss:
    """Compile the loss that ``make(net, objective)`` returns.

    Raises
    ------
    BackendError : there is no compiler, it cannot take the network, or gradients are others.
    """
    from torch._dynamo.exc import TorchDynamoException

    keep_compiled_at_home()
    plain = make(net, objective)
    made: Any = torch.compile(plain, backend=backend)
    checked = False

    def loss(params: dict[str, Tensor], x: Tensor, *rest: Any) -> Tensor:
        nonlocal checked
        try:
            if not checked:
                _check_gradients(plain, made, (params, x, *rest), backend)
                checked = True
            found: Tensor = made(params, x, *rest)
        except TorchDynamoException as error:
            words = " ".join(str(error).split())[:160]
            raise BackendError(f"compile={backend} does not work here: {words}") from error
        return found

    return loss


def _check_gradients(plain: Loss, made: Loss, batch: tuple[Any, ...], backend: str) -> None:
    """Refuse a compiled loss with other gradients; one of a network that draws is not compared."""
    params, x = batch[:2]
    free = {n: t for n, t in params.items() if t.requires_grad}

    def gradients(loss: Loss) -> tuple[Tensor, ...]:
        total = loss(*batch).sum()
        return torch.autograd.grad(total, list(free.values()), materialize_grads=True)

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
