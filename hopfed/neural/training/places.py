"""Tensors on their way to the device where networks are trained, and back.

States and messages are arrays in main memory, and methods compute with them there. A job goes to
the device of the data when it is trained and comes back afterwards, at one place, `visiting`;
classifiers put their parameters beside their network, by `beside`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from hopfed.neural.training.optimizers import COUNT

if TYPE_CHECKING:
    from hopfed.neural.training.training import Job

CPU = torch.device("cpu")
PARTS = ("params", "extra", "moments", "gradient")  # of a job
Key = tuple[object, ...]


def moved(tensors: Mapping[Key, Tensor], device: torch.device) -> dict[Key, Tensor]:
    """Return tensors on `device`: themselves where they are there, else one copy for each dtype.

    Examples
    --------
    >>> held = {("a",): torch.ones(2)}
    >>> moved(held, CPU)["a",] is held["a",]
    True
    """
    found = dict(tensors)
    away: dict[torch.dtype, list[Key]] = {}
    for key, t in tensors.items():
        if t.device != device:
            away.setdefault(t.dtype, []).append(key)
    for keys in away.values():
        flat = torch.cat([tensors[key].detach().reshape(-1) for key in keys]).to(device)
        pieces = flat.split([tensors[key].numel() for key in keys])
        shaped = (p.view(tensors[key].shape) for key, p in zip(keys, pieces, strict=True))
        found.update(zip(keys, shaped, strict=True))
    return found


def beside(params: Mapping[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
    """Return parameters on the device of a network."""
    first = next(net.parameters(), None)
    named: dict[Key, Tensor] = {(n,): t for n, t in params.items()}
    found = moved(named, CPU if first is None else first.device)
    return {n: found[n,] for n in params}


@contextmanager
def visiting(jobs: Sequence[Job], device: torch.device) -> Iterator[None]:
    """Have jobs on `device` while they are trained; what they were trained to is then on the CPU.

    The number of steps of an optimizer stays on the CPU, where it is used.
    """
    if device == CPU:
        yield
        return
    extras = [job.extra for job in jobs]
    _carry(jobs, device)
    yield
    for job, extra in zip(jobs, extras, strict=True):
        job.extra = extra
    _carry(jobs, CPU)


def _carry(jobs: Sequence[Job], device: torch.device) -> None:
    """Move all tensors of some jobs."""
    held: dict[Key, Tensor] = {}
    for i, job in enumerate(jobs):
        for part in PARTS:
            tensors = getattr(job, part) or {}
            held |= {(i, part, n): t for n, t in tensors.items() if n != COUNT}
    there = moved(held, device)
    for i, job in enumerate(jobs):
        for part in PARTS:
            tensors = getattr(job, part)
            if tensors:
                placed = {n: there.get((i, part, n), t) for n, t in tensors.items()}
                setattr(job, part, placed)


__all__: list[str] = []
