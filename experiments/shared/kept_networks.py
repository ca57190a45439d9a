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
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.settings import from_plain, to_plain
from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.experiments import Arrays, fl
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import pack, unpack
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
        if (folder / ABOUT).exists():
            held = json.loads((folder / ABOUT).read_text())
            if held["round"] <= t and held["validation"] >= score:  # else of a run before a resume
                return
        fresh = folder.with_name(f"{folder.name}.new")
        _require_ours(folder, fresh)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        about = _written(fresh, method, state)
        if not about["alone"]:
            (fresh / STATE).write_bytes(pack(state.arrays()).tobytes())
            about |= {"config": to_plain(config), "examples": fl.examples_of(method.loaded)}
        about |= {"method": config.method, "round": t + 1, "validation": score, "seed": seed}
        (fresh / ABOUT).write_text(json.dumps(about, indent=1))
        shutil.rmtree(folder, ignore_errors=not folder.exists())
        fresh.rename(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFileError(f"{folder}: states cannot be kept: {error}") from None


def _require_ours(*folders: Path) -> None:
    """Fail where a folder that is to be replaced holds anything but kept networks."""
    for folder in folders:
        found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        strange = [name for name in found if not _OURS.fullmatch(name)]
        if folder.is_symlink() or strange:
            fault = f"holds {shown(strange[0])}, which" if strange else "is a link, which"
            raise RunFileError(f"{folder}: {fault} is none of hopfed's: keep networks elsewhere")


def _written(folder: Path, method: Any, state: FederationState) -> dict[str, Any]:
    """Write the weights of all clients; return what the networks are."""
    import torch

    from hopfed.neural.models.networks import plain_names
    from hopfed.neural.training.evaluation import Network

    task = method.loaded
    clients = range(len(task.split))
    same = type(method).shared and set(state.down) <= {EVERYONE}
    files = [f"{ALL if same else f'client-{c}'}.pt" for c in clients]
    for c in clients[:1] if same else clients:
        params = plain_names(method.personal(*fl.readied(method, state, c)), task.model(c))
        held = {n: t.detach().cpu().contiguous() for n, t in params.items()}
        torch.save(held, folder / files[c])
    data, tensors = task.split.dataset, task.tensors
    scoring = fl.classifier_of(method, state, 0)
    moments = [None if m is None else m.flatten().tolist() for m in (tensors.mean, tensors.std)]
    return {
        "files": files,
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
    path = folder / ABOUT
    if not path.is_file():
        raise DataError(f"{folder}: no folder of kept states, such as states/seed-0")

    def fits(holds: bool, words: str) -> None:
        if not holds:
            raise ValueError(words)

    with reading(path):
        fits(path.stat().st_size <= LARGEST, f"{path.stat().st_size:,} bytes, above {LARGEST:,}")
        about = json.loads(path.read_text())
        for name, kind in KINDS.items():
            fits(type(about[name]) is kind, f"{name} is {about[name]!r:.60}")
        classes, names, shape = about["classes"], about["models"], about["shape"]
        fits(all(isinstance(word, str) for word in classes), "classes are not words")
        if not 0 <= client < len(names):
            raise ArgumentError("--client", f"from 0 to {len(names) - 1}", client)
        _require_trusted(folder, own_code([names[client]]), trusted)
        weights, images = folder / Path(about["files"][client]).name, bool(about["images"])
        room = weights.stat().st_size if weights.is_file() else len(classes)  # a number for each
        fits(len(classes) <= room, f"{len(classes):,} classes, more than {weights.name} has bytes")
        for moments in ("mean", "std"):
            due = (shape[0] if images else 0,)
            known = about[moments] is None or np.array(about[moments], np.float32).shape == due
            fits(known, f"{moments} is not a number for each of {due[0]} channels")
        channels, size = (shape[0], shape[-1]) if images else (about["tokens"], shape[0])
        how = {"channels": channels, "size": size, "classes": len(classes), "seed": 0}
        how |= {"norm": about["norm"], "head_layer": about["head_layer"], "tokens": not images}
        model = build(names[client], **how)
        load_weights(model, weights)
    made = model.eval()
    return Kept(made, about, made if about["alone"] else _memory(folder, about, client, trusted))


def _require_trusted(folder: Path, code: tuple[str, ...], trusted: tuple[str, ...]) -> None:
    """Refuse code to run that nobody but the folder names."""
    for name in code:
        if name not in trusted:
            raise DataError(f"{folder}: names code to run, {name}; say --models {name}")


def _memory(
    folder: Path, about: dict[str, Any], client: int, trusted: tuple[str, ...]
) -> Callable[[Any], Any]:
    """Make the classifier of a client, from inputs (B, ...) to scores (B, classes)."""
    name = about["method"]
    if "config" not in about or "examples" not in about:
        raise DataError(f"{folder}: lacks what {name} remembers beside its networks")
    try:
        config = replace(from_plain(fl.Config, about["config"]), device="cpu")
    except (ArgumentError, TypeError) as error:
        raise DataError(f"{folder}: its settings do not fit: {error}") from None
    _require_trusted(folder, fl.code_of(config), trusted)
    method = config.make(about["seed"])
    try:
        known = fl.examples_of(method.loaded) == about["examples"]
    except (ArgumentError, DataError) as error:
        raise DataError(f"{name} classifies with the examples of its run: {error}") from None
    if not known:
        raise DataError(f"{config.data}: other examples than those that {name} remembers")
    path = folder / STATE
    with opened(path) as file, reading(path):
        data = np.array(np.frombuffer(file.read(), dtype=np.uint8))  # PyTorch wants to write
    try:
        state = FederationState.of_arrays(unpack(data))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    with reading(folder, f"not what {name} remembers"):
        made: Callable[[Any], Any] = fl.classifier_of(method, state, client)
        return made
