"""What clients remember beside their networks, kept in files, and classifiers made of it again.

kNN-Per classifies with a client's own examples, SoHip with memories, FedProto with prototypes. A
folder of kept networks then also holds each client's state and its last message from the server;
with the examples that the run was made of, these give the classifier of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import Message, below, digest
from hopfed.federation.packing import pack, unpack
from hopfed.federation.rounds import FederationState
from hopfed.tables.files import opened, reading

SERVER = "server.memory"


def write_memory(folder: Path, config: Any, method: Any, state: FederationState) -> dict[str, Any]:
    """Write states and messages of a round; return the words that tell of them."""
    _write(folder / SERVER, state.down.get(EVERYONE, {}))
    for c in range(len(method.loaded.split)):
        own = state.clients.get(c)
        own = method.client_start(c, method.task.seed) if own is None else own
        held = {f"state/{name}": array for name, array in own.items()}
        if c in state.down:
            held |= {"apart": np.array(1)}
            held |= {f"down/{name}": array for name, array in state.down[c].items()}
        _write(folder / f"client-{c}.memory", held)
    return {"config": to_plain(config), "examples": _named(method.loaded)}


def read_memory(
    folder: Path, about: dict[str, Any], client: int, trusted: tuple[str, ...]
) -> Callable[[Any], Any]:
    """Make the classifier of a client, from inputs (B, ...) to scores (B, classes).

    Code that the folder names must be `trusted`, and the examples of the run where they were.
    """
    from hopfed.experiments import fl

    name = about["method"]
    if "config" not in about or "examples" not in about:
        raise DataError(f"{folder}: lacks what {name} remembers beside its networks")
    try:
        config = replace(from_plain(fl.Config, about["config"]), device="cpu")
    except (ArgumentError, TypeError) as error:
        raise DataError(f"{folder}: its settings do not fit: {error}") from None
    for code in fl.code_of(config):
        if code not in trusted:
            raise DataError(f"{folder}: names code to run, {code}; say --models {code}")
    method = config.make(about["seed"])
    try:
        known = _named(method.loaded) == about["examples"]
    except (ArgumentError, DataError) as error:
        raise DataError(f"{name} classifies with the examples of its run: {error}") from None
    if not known:
        raise DataError(f"{config.data}: other examples than those that {name} remembers")
    held = _read(folder / f"client-{client}.memory")
    down = below(held, "down") if "apart" in held else _read(folder / SERVER)
    with reading(folder, f"not what {name} remembers"):
        made: Callable[[Any], Any] = method.classifier(below(held, "state"), down, client)
    return made


def _write(path: Path, arrays: Message) -> None:
    path.write_bytes(pack({name: np.asarray(array) for name, array in arrays.items()}).tobytes())


def _read(path: Path) -> Message:
    with opened(path) as file, reading(path):
        data = np.array(np.frombuffer(file.read(), dtype=np.uint8))  # PyTorch wants to write
    try:
        return unpack(data)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


@lru_cache(2)
def _named(task: Any) -> str:
    """Name of the examples of a task and of how they are divided."""
    split = task.split
    arrays = {"inputs": split.dataset.inputs, "labels": split.dataset.labels}
    for c, rows in enumerate(split.train):
        arrays |= {f"{c}/train": rows, f"{c}/validation": split.validation[c]}
    return digest(arrays).hex()
