"""Choice between sequential and stacked training, measured once per model, cohort and batch size.

The measurement times a step of one client alone and steps of stacks of two sizes, in turn and
several times. The shortest times count, because other work of the machine only makes times longer.
The times are stored in a file of the user's cache, so that two runs on one machine train the same
way and give the same bits.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from weakref import WeakSet

import numpy as np
import torch
from torch import nn

from hopfed._lib.outputs import replacing
from hopfed.errors import HopfedError
from hopfed.neural.data.tensors import Augment, Tensors
from hopfed.neural.models.adapter import bodies
from hopfed.neural.training.places import visiting
from hopfed.neural.training.sequential import train_sequential
from hopfed.neural.training.stacked import MOST, ROOM, stacks, train_stacked
from hopfed.neural.training.training import Job, Objective, Training

TRIAL = 5  # steps in one timing
REPEATS = 5  # largest number of repeats of every timing
PATIENCE = 1.0  # after this many seconds two repeats are enough
FEW = 24  # with fewer steps in a group, measuring costs more than it can save

_ALONE: WeakSet[nn.Module] = WeakSet()  # foreign networks that cannot be stacked


class AloneWarning(UserWarning):
    """Clients that were to be trained together are trained one by one."""


# Seconds of a step: of one client alone; of a stack of any size; of each client in a stack.
Timing = tuple[float, float, float]


def train(
    jobs: Sequence[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None = None,
) -> None:
    """Train every job in the way that `training` names; "auto" takes the faster way."""
    with one_thread():
        for group in stacks(jobs, ROOM.get(data.device.type, MOST)):
            with visiting(group, data.device):
                _train(group, data, training, objective, augment)


def _train(
    group: list[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None,
) -> None:
    """Train jobs of one architecture, which are where the data are."""
    way = training.way if _stackable(group[0]) else "sequential"
    try:
        if way == "auto":
            way = _faster(group, data, training, objective, augment)
        if way == "stacked" and len(group) > 1:
            train_stacked(group, data, training, objective, augment)
            return
    except HopfedError:
        raise
    except Exception as error:  # of a network of others that `vmap` cannot batch
        if not bodies(group[0].net):
            raise
        _ALONE.add(group[0].net)
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        warnings.warn(f"clients are trained one by one ({what})", AloneWarning, 3)
    train_sequential(group, data, training, objective, augment)


def _stackable(job: Job) -> bool:
    """Whether clients with this net may be trained together, as far as is known."""
    return job.net not in _ALONE and not job.alone()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, because the order of its sums depends on the number of threads.

    On small networks a second thread also costs more than it gains; more processes gain more.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cache_file() -> Path:
    """Path of the file of measurements, below XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "hopfed" / "ways.json"


def _faster(
    group: list[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None,
) -> str:
    """Return the way with fewer predicted seconds for the whole group."""
    planned = group[0].plan is not None  # later rounds have plans too, so measuring pays
    counts = [
        -(-len(job.rows) // training.batch) * training.epochs if job.plan is None else len(job.plan)
        for job in group
    ]
    if len(group) == 1 or sum(counts) < (1 if planned else FEW):
        return "sequential"
    key = "|".join(
        str(part)
        for part in (
            torch.__version__,
            data.device.type,
            torch.get_num_threads(),
            sum(t.numel() for t in group[0].params.values()),
            type(getattr(group[0].net, "features", group[0].net)).__name__,
            *(type(body.net).__qualname__ for body in bodies(group[0].net)),
            len(list(group[0].net.modules())),
            tuple(data.inputs.shape[1:]),
            len(group).bit_length(),
            len(_first(group[0], training)),
            training.optimizer,
            training.precision,
            training.compile,
            getattr(objective, "__qualname__", type(objective).__name__),
        )
    )
    known = _read()
    if key not in known:
        known[key] = _measure(group, data, training, objective, augment)
        _write(known)
    one, fixed, each = known[key]
    together = fixed * max(counts) + each * sum(counts)
    return "stacked" if together < one * sum(counts) else "sequential"


def _measure(
    group: list[Job],
    data: Tensors,
    training: Training,
    objective: Objective,
    augment: Augment | None,
) -> Timing:
    """Time a client alone, half of the group, and the whole group."""
    trial = replace(training, epochs=1)
    rows = max((job.rows for job in group), key=len)[: training.batch * TRIAL]
    if group[0].plan is None:
        plan = [rows[i : i + training.batch] for i in range(0, len(rows), training.batch)]
    else:
        plan = [group[0].plan[0]] * TRIAL
    clock = time.thread_time if data.device.type == "cpu" else time.perf_counter

    def seconds(way: Callable[..., None], count: int, steps: int) -> float:
        jobs = [replace(job, plan=plan[:steps]) for job in group[:count]]
        began = clock()
        way(jobs, data, trial, objective, augment)
        return (clock() - began) / steps

    everyone, half = len(group), len(group) // 2
    calls = (train_sequential, 1), (train_stacked, half), (train_stacked, everyone)
    for way, count in calls:  # warm-up: imports and allocations
        seconds(way, count, 1)
    best, began = [float("inf")] * len(calls), time.perf_counter()
    for repeat in range(REPEATS):
        if repeat >= 2 and time.perf_counter() - began > PATIENCE:
            break
        best = [min(b, seconds(*call, len(plan))) for b, call in zip(best, calls, strict=True)]
    alone, some, everything = best
    each = max((everything - some) / (everyone - half), 0.0)
    return alone, max(everything - each * everyone, 0.0), each


def _first(job: Job, training: Training) -> np.ndarray:
    """Rows of the first step."""
    return job.rows[: training.batch] if job.plan is None else job.plan[0]


@cache
def _read() -> dict[str, Timing]:
    try:
        held = json.loads(cache_file().read_text())
        return {str(k): (float(a), float(b), float(c)) for k, (a, b, c) in held.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # no measurement yet, or an unreadable file: measure again


def _write(known: dict[str, Timing]) -> None:
    path = cache_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(known))
    except OSError:
        return  # with a read-only home the next process measures again
