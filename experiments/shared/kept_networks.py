"""Networks that a run trained, kept in files and read back.

Below a folder, `seed-S` holds `model.json`, which says what the networks are, and a file of weights
for each client, or one for all where all have the same. They are those of the round that validation
chooses: whenever a round is better than all before, it takes the place of the folder. kNN-Per
classifies with a client's own examples, SoHip with memories, FedProto with prototypes: then the
folder also holds the state of the federation, which with the examples that the run was made of
gives the classifier of the run.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.experiments import Arrays
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import digest, pack, unpack
from hopfed.federation.rounds import FederationState
from hopfed.tables.files import opened, reading

ABOUT = "model.json"
KINDS = {"method": str, "round": int, "seed": int, "alone": bool, "classes": list}  # of words in it
LARGEST = 1 << 24  # bytes of it
ALL = "everyone"
STATE = "state.memory"
_OURS = re.compile(rf"{re.escape(ABOUT)}|({ALL}|client-[0-9]+)\.pt|{re.escape(STATE)}")


def keep(
    config: Any, seed: int, t: int, arrays: Arrays, method: Any, state: FederationState
) -> None:
    """Keep the networks of round `t`, from 0, if its validation accuracy is the best yet."""
    held_out = arrays["validation"][arrays["scored"]]
    if not len(held_out) or np.isnan(held_out).any():  # a network that is not finite is not kept
        return
    score, folder = float(held_out.mean()), Path(config.keep) / f"seed-{seed}"
    try:
        held = json.loads((folder / ABOUT).read_text()) if (folder / ABOUT).exists() else None
        earlier = held is not None and held["round"] < t + 1  # else of a run before a resume
        if held is not None and earlier and held["validation"] >= score:
            return
        fresh = folder.with_name(f"{folder.name}.new")
        _require_ours(folder, fresh)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        about = _written(fresh, method, state)
        if not about["alone"]:
            (fresh / STATE).write_bytes(pack(state.arrays()).tobytes())
            about |= {"config": to_plain(config), "examples": _named(method.loaded)}
        about |= {"method": config.method, "round": t + 1, "validation": score, "seed": seed}
        (fresh / ABOUT).write_text(json.dumps(about, indent=1))
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFileError(f"{folder}: states cannot be kept: {error}") from None


def _require_ours(*folders: Path) -> None:
    """Fail where a folder that is to be replaced holds anything but kept networks."""
    for folder in folders:
        found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        strange = [name for name in found if not _OURS.fullmatch(name)]
        if folder.is_symlink() or strange:
            what = f"holds {shown(strange[0])}, which" if strange else "is a link, which"
            raise RunFileError(f"{folder}: {what} is none of hopfed's: keep networks elsewhere")


def _written(folder: Path, method: Any, state: FederationState) -> dict[str, Any]:
    """Write the weights of all clients; return what the networks are."""
    import torch

    from hopfed.experiments.fl import classifier_of, readied
    from hopfed.neural.models.networks import plain_names
    from hopfed.neural.training.evaluation import Network

    task = method.loaded
    files = []
    same = type(method).shared and set(state.down) <= {EVERYONE}
    for c in range(1 if same else len(task.split)):
        params = plain_names(method.personal(*readied(method, state, c)), task.model(c))
        files.append(f"{ALL if same else f'client-{c}'}.pt")
        torch.save(
            {n: t.detach().cpu().contiguous() for n, t in params.items()}, folder / files[-1]
        )
    data, tensors = task.split.dataset, task.tensors
    scoring = classifier_of(method, state, 0)
    moments = [None if m is None else m.flatten().tolist() for m in (tensors.mean, tensors.std)]
    return {
        "files": files * len(task.split) if same else files,
        "models": list(task.names),
        "shape": list(data.shape),
        "images": data.is_images,
        "tokens": 0 if data.is_images else int(data.inputs.max()) + 1,
        "classes": list(data.class_names),
        "mean": moments[0],
        "std": moments[1],
        "norm": task.spec.norm,
        "head_layer": task.spec.head_layer,
        "alone": isinstance(scoring, Network) and scoring.model is task.model(0),
    }


@dataclass(frozen=True, eq=False)
class Kept:
    """A client's network that was kept, what `model.json` says, and how the client classifies.

    The classifier, from inputs to scores of the classes, is the network, or made of it and of the
    client's memory.
    """

    model: Any
    about: dict[str, Any]
    classifier: Callable[[Any], Any]

    def probabilities(self, inputs: np.ndarray) -> np.ndarray:
        """Map inputs (n, ...) of the shape that it was trained on to probabilities (n, classes)."""
        import torch

        from hopfed.neural.data.tensors import Tensors

        if list(inputs.shape[1:]) != self.about["shape"]:
            got = tuple(inputs.shape[1:])
            raise DataError(f"examples of shape {got}, trained on {tuple(self.about['shape'])}")
        moments = (self.about["mean"], self.about["std"])
        mean, std = (None if m is None else torch.tensor(m)[:, None, None] for m in moments)
        labels = torch.zeros(len(inputs), dtype=torch.int64)
        data = Tensors(torch.from_numpy(np.array(inputs)), labels, mean, std)
        due = len(inputs), len(self.about["classes"])
        with torch.inference_mode(), reading(ABOUT, "does not fit what is beside it"):
            parts = [self.classifier(x).softmax(1) for x, _ in data.batches(np.arange(len(inputs)))]
            found = np.asarray(torch.cat(parts))
        if found.shape != due:
            raise DataError(f"{ABOUT}: {due[1]} classes, but what is beside it has others")
        return found


def read(folder: str | Path, client: int, trusted: tuple[str, ...] = ()) -> Kept:
    """Read a client's network from a folder `seed-S`, and what it remembers beside it.

    Code of a user that the folder names is imported only if its name is `trusted`.
    """
    from hopfed.neural.models import build
    from hopfed.neural.models.networks import load_weights, own_code

    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise DataError(f"{folder}: no folder of kept states, such as states/seed-0")
    with reading(folder / ABOUT):
        if (size := (folder / ABOUT).stat().st_size) > LARGEST:
            raise ValueError(f"{size:,} bytes, above {LARGEST:,}")
        about = json.loads((folder / ABOUT).read_text())
        for name, kind in KINDS.items():
            if type(about[name]) is not kind:
                raise ValueError(f"{name} is {about[name]!r:.60}")
        if not all(isinstance(word, str) for word in about["classes"]):
            raise ValueError("classes are not words")
        names, files, shape = about["models"], about["files"], about["shape"]
        if not 0 <= client < len(names):
            raise ArgumentError("--client", f"from 0 to {len(names) - 1}", client)
        for name in own_code([names[client]]):
            if name not in trusted:
                raise DataError(f"{folder}: names code to run, {name}; say --models {name}")
        path = folder / Path(files[client]).name
        if path.is_file() and len(about["classes"]) > path.stat().st_size:  # a number for each
            raise ValueError(f"{len(about['classes']):,} classes, more than {path.name} has bytes")
        images = bool(about["images"])
        for moments in ("mean", "std"):
            due = (shape[0] if images else 0,)
            if about[moments] is not None and np.array(about[moments], np.float32).shape != due:
                raise ValueError(f"{moments} is not a number for each of {due[0]} channels")
        channels, size = (shape[0], shape[-1]) if images else (about["tokens"], shape[0])
        how = {"channels": channels, "size": size, "classes": len(about["classes"]), "seed": 0}
        how |= {"norm": about["norm"], "head_layer": about["head_layer"], "tokens": not images}
        model = build(names[client], **how)
        load_weights(model, path)
    made = model.eval()
    if about["alone"]:
        return Kept(made, about, made)
    return Kept(made, about, read_memory(folder, about, client, trusted))


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
    path = folder / STATE
    with opened(path) as file, reading(path):
        data = np.array(np.frombuffer(file.read(), dtype=np.uint8))  # PyTorch wants to write
    try:
        held = unpack(data)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    with reading(folder, f"not what {name} remembers"):
        made: Callable[[Any], Any] = fl.classifier_of(
            method, FederationState.of_arrays(held), client
        )
    return made


@lru_cache(2)
def _named(task: Any) -> str:
    """Name of the examples of a task and of how they are divided."""
    split = task.split
    arrays = {"inputs": split.dataset.inputs, "labels": split.dataset.labels}
    for c, rows in enumerate(split.train):
        arrays |= {f"{c}/train": rows, f"{c}/validation": split.validation[c]}
    return digest(arrays).hex()
