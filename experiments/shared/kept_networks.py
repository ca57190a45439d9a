"""Networks that a run trained, kept in files and read back.

Below a folder, `seed-S` holds `model.json`, which says what the networks are, and a file of weights
for each client, or one for all where all have the same. They are those of the round that validation
chooses: whenever a round is better than all before, it takes the place of the folder.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopfed.errors import ArgumentError, DataError, RunFileError, shown
from hopfed.experiments import Arrays, fl
from hopfed.federation.contract import EVERYONE
from hopfed.federation.rounds import FederationState
from hopfed.tables.files import reading

ABOUT = "model.json"
ALL = "everyone"
_OURS = re.compile(rf"{re.escape(ABOUT)}|({ALL}|client-[0-9]+)\.pt")


def keep(
    config: Any, seed: int, t: int, arrays: Arrays, method: Any, state: FederationState
) -> None:
    """Keep the networks of round `t`, from 0, if its validation accuracy is the best yet."""
    held_out = arrays["validation"][arrays["scored"]]
    if not len(held_out) or np.isnan(held_out).any():  # a network that is not finite is not kept
        return
    score, folder = float(held_out.mean()), Path(config.keep) / f"seed-{seed}"
    fresh = folder.with_name(f"{folder.name}.new")
    try:
        if (folder / ABOUT).exists():
            held = json.loads((folder / ABOUT).read_text())
            if held["round"] <= t and held["validation"] >= score:  # else of a run before a resume
                return
        require_ours(folder, fresh)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        about = _written(fresh, method, state)
        about |= {"method": config.method, "round": t + 1, "validation": score, "seed": seed}
        (fresh / ABOUT).write_text(json.dumps(about, indent=1))
        shutil.rmtree(folder, ignore_errors=not folder.exists())
        fresh.rename(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFileError(f"{folder}: states cannot be kept: {error}") from None


def require_ours(*folders: Path) -> None:
    """Fail where a folder that is to be replaced is a link, or holds anything but kept networks."""
    for folder in folders:
        found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        strange = [name for name in found if not _OURS.fullmatch(name)]
        if folder.is_symlink() or strange:
            what = shown(strange[0]) if strange else "a link"
            raise RunFileError(f"{folder}: {what} is none of hopfed's: keep networks elsewhere")


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
    """A client's network that was kept, and what `model.json` says."""

    model: Any
    about: dict[str, Any]

    def probabilities(self, inputs: np.ndarray) -> np.ndarray:
        """Map inputs (n, ...) of the shape that it was trained on to probabilities (n, classes)."""
        import torch

        from hopfed.neural.data.tensors import Tensors

        if list(inputs.shape[1:]) != self.about["shape"]:
            got = tuple(inputs.shape[1:])
            raise DataError(f"examples of shape {got}, trained on {tuple(self.about['shape'])}")
        labels = torch.zeros(len(inputs), dtype=torch.int64)
        with torch.inference_mode(), reading(ABOUT, "does not fit what is beside it"):
            moments = (self.about["mean"], self.about["std"])
            mean, std = (None if m is None else torch.tensor(m)[:, None, None] for m in moments)
            data = Tensors(torch.from_numpy(np.array(inputs)), labels, mean, std)
            parts = [self.model(x).softmax(1) for x, _ in data.batches(np.arange(len(inputs)))]
            return np.asarray(torch.cat(parts))


def read(folder: str | Path, client: int, trusted: tuple[str, ...] = ()) -> Kept:
    """Read a client's network from a folder `seed-S`.

    Code of a user that the folder names is imported only if its name is `trusted`. A client that
    classifies with more than its network is refused.
    """
    from hopfed.neural.models import build
    from hopfed.neural.models.networks import HeadWarning, load_weights, own_code

    folder = Path(folder)
    path = folder / ABOUT
    if not path.is_file():
        raise DataError(f"{folder}: no folder of kept states, such as states/seed-0")
    with reading(path):
        about = json.loads(path.read_text())
        names, shape, images = about["models"], about["shape"], about["images"]
        about["classes"] = [str(word) for word in about["classes"]]
        if not 0 <= client < len(names):
            raise ArgumentError("--client", f"from 0 to {len(names) - 1}", client)
        if not about["alone"]:
            more = f"{about['method']} classifies with more than the network in a file"
            raise DataError(f"{folder}: {more}: score its clients in the run")
        for name in own_code([names[client]]):
            if name not in trusted:
                raise DataError(f"{folder}: names code to run, {name}; say --models {name}")
        channels, size = (shape[0], shape[-1]) if images else (about["tokens"], shape[0])
        how = {"channels": channels, "size": size, "classes": len(about["classes"]), "seed": 0}
        how |= {"norm": about["norm"], "head_layer": about["head_layer"], "tokens": not images}
        model = build(names[client], **how)
        with warnings.catch_warnings():
            warnings.simplefilter("error", HeadWarning)  # a head of other classes
            load_weights(model, folder / Path(about["files"][client]).name)
    return Kept(model.eval(), about)
