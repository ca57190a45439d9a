"""Numbers of every round for other programs: TensorBoard, Weights & Biases, where installed.

A callback is a function of (seed, t, arrays), called as soon as the arrays of round t, from 0, are
committed. `hopfed.experiments.runner.execute` takes any number of them. They see results
and cannot change them; an error of theirs ends the run, whose committed rounds are kept. A resumed
run tells them of the rounds that were left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.other_accounts import followed
from hopfed.errors import BackendError, HopfedError, shown
from hopfed.experiments import Arrays

HARMLESS = {"entity", "project"}  # what a file of wandb's settings in a folder may name

Callback = Callable[[int, int, Arrays], object]

# Name of a number -> the array (clients,) that it is the mean of, and its unit.
MEANS = {
    "test": ("test", 1.0),
    "validation": ("validation", 1.0),
    "loss": ("client/loss", 1.0),
    "gigaflops": ("client/flops", 1e9),
    "megabytes_up": ("traffic/up", 1e6),
    "megabytes_down": ("traffic/down", 1e6),
}


def numbers(arrays: Arrays) -> dict[str, float]:
    """Numbers of a round: means over the clients that have one.

    Parameters
    ----------
    arrays : of a round of `hopfed fl run`; NaN where a client has no number.

    Examples
    --------
    >>> numbers({"test": np.array([0.5, 1.0]), "client/loss": np.array([2.0, np.nan])})
    {'test': 0.75, 'loss': 2.0}
    """
    held = {
        name: (np.asarray(arrays[a], float), u) for name, (a, u) in MEANS.items() if a in arrays
    }
    known = {name: (array[~np.isnan(array)], unit) for name, (array, unit) in held.items()}
    return {name: float(v.mean() / unit) for name, (v, unit) in known.items() if v.size}


class TensorBoard:
    """Callback that writes event files for TensorBoard, a folder for each seed.

    Parameters
    ----------
    folder : below which `seed-S` is written.

    Raises
    ------
    BackendError : neither `tensorboard` nor `tensorboardX` is installed.
    HopfedError : the folder cannot be written.
    """

    def __init__(self, folder: str | Path):
        self._make = _summary_writer()
        self._folder, self._writers = Path(folder), dict[int, Any]()
        with _of("tensorboard"):
            self._folder = followed(folder)
            self._folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, seed: int, t: int, arrays: Arrays) -> None:
        """Write the numbers of a round."""
        with _of("tensorboard"):
            if seed not in self._writers:
                self._writers[seed] = self._make(str(followed(self._folder / f"seed-{seed}")))
            for name, value in numbers(arrays).items():
                self._writers[seed].add_scalar(name, value, t + 1)

    def close(self) -> None:
        """Write what is left."""
        with _of("tensorboard"):
            for writer in self._writers.values():
                writer.close()


class WandB:
    """Callback that logs to a run of Weights & Biases, with names such as `seed-0/test`.

    Parameters
    ----------
    project : name of the project.
    config : settings to show with the run.

    Raises
    ------
    BackendError : `wandb` is not installed.
    HopfedError : it cannot begin a run, because nobody is logged in, for example.
    """

    def __init__(self, project: str, config: dict[str, Any] | None = None):
        try:
            wandb = import_module("wandb")
        except ImportError:
            raise BackendError("--wandb needs wandb: pip install wandb") from None
        for name in ("wandb", ".wandb"):  # it takes the hidden folder where there is one
            _check_wandb(Path(os.environ.get("WANDB_DIR") or ".", name, "settings"))
        with _of("wandb"):
            self._run = wandb.init(project=project, config=config or {})
            self._run.define_metric("round")
            self._run.define_metric("*", step_metric="round")

    def __call__(self, seed: int, t: int, arrays: Arrays) -> None:
        """Log the numbers of a round."""
        named = {f"seed-{seed}/{name}": value for name, value in numbers(arrays).items()}
        with _of("wandb"):
            self._run.log({"round": t + 1} | named)

    def close(self) -> None:
        """End the run."""
        with _of("wandb"):
            self._run.finish()


def _check_wandb(path: Path) -> None:
    """Refuse a file of settings that says who gets the user's key.

    wandb reads that of the current folder, or of WANDB_DIR, whoever put it there.
    """
    try:
        words = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError as error:
        raise HopfedError(f"{path}: {error.strerror}") from None
    names = {line.partition("=")[0].partition(":")[0].strip() for line in words.splitlines()}
    odd = {name for name in names if name and not name.startswith(("[", "#", ";"))} - HARMLESS
    if odd:
        rule = "may name entity and project only here; set the rest by WANDB_ variables"
        raise HopfedError(f"{path}: names {shown(sorted(odd)[0])}, {rule}")


def _summary_writer() -> Callable[[str], Any]:
    """Class of writers of `tensorboard`, by PyTorch, or else of `tensorboardX`."""
    places = {"tensorboard": "torch.utils.tensorboard", "tensorboardX": "tensorboardX"}
    for package, module in places.items():
        if find_spec(package) is not None:
            try:
                made: Callable[[str], Any] = import_module(module).SummaryWriter
            except ImportError:  # some part of it is missing
                continue
            return made
    raise BackendError("--tensorboard needs tensorboard: pip install tensorboard")


@contextmanager
def _of(program: str) -> Iterator[None]:
    """Errors of another program in one line."""
    try:
        yield
    except Exception as error:  # of any class: it is not ours
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise HopfedError(f"{program}: {shown(reason)}") from error
