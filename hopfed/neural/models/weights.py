"""Weights of a model from and to a file: safetensors, or PyTorch's own without pickled code."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hopfed.errors import BackendError, DataError
from hopfed.neural.models.adapter import Alone, HeadWarning, bodies
from hopfed.neural.models.base import Model
from hopfed.tables.files import opened, reading

SAFE = ".safetensors"
SHOWN = 3  # names in an error
INSIDE = ("state_dict", "model_state_dict", "model")  # where programs put weights in a larger file


def load_weights(model: Model, weights: str | Path | Mapping[str, Tensor]) -> None:
    """Give a model the weights in a file or a state dict; a head for other classes keeps its own.

    Parameters
    ----------
    model : its names are those of the weights, or the network it was made from has these.
    weights : a state dict, or a file: .safetensors, or what `torch.save` wrote of one.

    Raises
    ------
    DataError : one line: not such a file, or weights of another network.
    """
    known = model.state_dict()
    held = dict(weights) if isinstance(weights, Mapping) else read_tensors(weights)
    if not held.keys() & known.keys():  # those of the network that the model was made from
        ours = {net: name for name, net in _renamed(model).items()}
        held = {ours.get(n, n): t for n, t in held.items()}
    other = {n for n in known if n in held and held[n].shape != known[n].shape}
    wrong = sorted(n for n in other if not n.startswith("head."))
    missing = sorted(n for n in known if n not in held and not n.startswith("head."))
    strange = sorted(held.keys() - known.keys())
    where = "weights" if isinstance(weights, Mapping) else weights
    faults = []
    for what, names in (("lacks", missing), ("has other shapes for", wrong), ("adds", strange)):
        if names:
            more = ", ..." if len(names) > SHOWN else ""
            faults.append(f"{what} {len(names)} of {len(known)}: {', '.join(names[:SHOWN])}{more}")
    if faults:
        raise DataError(f"{where}: not of this network: {'; '.join(faults)}")
    if new := sorted(n for n in known if n in other or n not in held):
        said = f"{where}: {', '.join(new)} fits other classes or is not there, and stays new"
        warnings.warn(said, HeadWarning, stacklevel=2)
    kept = {n: known[n] if n not in held or n in other else held[n] for n in known}
    model.load_state_dict(kept)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """Tensors of a file by name.

    Raises
    ------
    DataError : not such a file.
    BackendError : safetensors is not installed.
    """
    if str(path).endswith(SAFE):
        safe = _safetensors()
        with opened(path), reading(path):
            return dict(safe.load_file(str(path)))
    with opened(path) as file, reading(path):
        try:
            held: Any = torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:  # its words advise to let the file run code
            raise DataError(f"{path}: not a file of weights alone, as torch.save writes") from None
        for name in INSIDE:
            if isinstance(held, Mapping) and isinstance(held.get(name), Mapping):
                held = held[name]
        if not isinstance(held, Mapping) or not all(isinstance(t, Tensor) for t in held.values()):
            raise DataError(f"{path}: a state_dict is due, names of tensors")
        return {str(n).removeprefix("module."): t for n, t in held.items()}


def write_tensors(folder: Path, name: str, tensors: Mapping[str, Tensor]) -> Path:
    """Write tensors below `folder` as safetensors where that is installed, else as PyTorch does."""
    held = {n: t.detach().cpu().contiguous() for n, t in tensors.items()}
    try:
        safe = _safetensors()
    except BackendError:
        path = folder / f"{name}.pt"
        torch.save(held, path)
        return path
    path = folder / f"{name}{SAFE}"
    safe.save_file(held, str(path))
    return path


def plain_names(tensors: Mapping[str, Tensor], model: Model) -> dict[str, Tensor]:
    """Name tensors of a model as the network that it was made from does.

    A foreign network can load them by its own `load_state_dict`, if it has as many classes.
    """
    names = _renamed(model)
    return {names.get(n, n): t for n, t in tensors.items()}


def _renamed(model: Model) -> dict[str, str]:
    """Name in the model -> name in the network that it was made from."""
    made = bodies(model.features)
    if not made:
        return {n: n for n in model.state_dict()}
    alone = isinstance(made[0].net, Alone)  # whose only layer, 0, is the head
    head = "" if alone else f"{made[0].head}."
    return {
        n: head + n.removeprefix("head.") if n.startswith("head.")
        else n.removeprefix("features.net.")
        for n in model.state_dict()
    }  # fmt: skip


def _safetensors() -> Any:
    try:
        return import_module("safetensors.torch")
    except ImportError:
        raise BackendError("safetensors is not installed: pip install safetensors") from None
