"""Trained networks of a run, kept in files; and predictions of clients for other data.

Below a folder, `seed-S` holds `model.json`, which describes the networks, and a file of weights for
each client, or one for all where all have the same. They are of the round that validation chooses:
a round that is better than all before replaces the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.settings import require
from hopfed.errors import DataError, RunFileError
from hopfed.experiments import Arrays, fl
from hopfed.experiments.machinery.checkpoint import STATES
from hopfed.federation.contract import EVERYONE
from hopfed.federation.messages import unpack
from hopfed.federation.rounds import FederationState
from hopfed.runs import Run, blame_file, first_seed

ABOUT = "model.json"
ALL = "everyone"


def keep_networks(
    config: Any, seed: int, t: int, arrays: Arrays, method: Any, state: FederationState
) -> None:
    """Keep the networks of round `t`, from 0, in files, if validation accuracy is the best yet."""
    held_out = arrays["validation"][arrays["scored"]]
    if not len(held_out) or np.isnan(held_out).any():  # a network that is not finite is not kept
        return
    best, folder = float(held_out.mean()), Path(config.keep) / f"seed-{seed}"
    about = folder / ABOUT  # written last, and removed first: it marks complete files
    try:
        if about.exists():
            held = json.loads(about.read_text())
            if held["round"] <= t and held["validation"] >= best:  # else from an older run
                return
        folder.mkdir(parents=True, exist_ok=True)
        about.unlink(missing_ok=True)
        found = _written(folder, method, state)
        found |= {"method": config.method, "round": t + 1, "validation": best, "seed": seed}
        about.write_text(json.dumps(found, indent=1))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFileError(f"{folder}: states cannot be kept: {error}") from None


def _written(folder: Path, method: Any, state: FederationState) -> dict[str, Any]:
    """Write the weights of all clients; return a description of the networks."""
    import torch

    from hopfed.neural.models.networks import rename_as_source

    task = method.loaded
    clients = range(len(task.split))
    same = type(method).shared and set(state.down) <= {EVERYONE}
    files = [f"{ALL if same else f'client-{c}'}.pt" for c in clients]
    for c in clients[:1] if same else clients:
        params = rename_as_source(
            method.personal(*fl.ready_client(method, state, c)), task.model(c)
        )
        held = {n: t.detach().cpu().contiguous() for n, t in params.items()}
        torch.save(held, folder / files[c])
    data = task.split.dataset
    return {"files": files, "models": list(task.names), "classes": list(data.class_names)}


def predict_classes(
    path: str | Path, config: fl.Config, client: int, inputs: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """Classes and probabilities (n, classes) of `inputs`, by kept networks of a client, first seed.

    The client has its state at the end of the run in `path`, whose data must not have moved.
    """
    import torch

    from hopfed.neural.data.tensors import Tensors

    run = Run.load(path)
    seed = first_seed(run.config)
    method, packed = config.make(seed), run.arrays.get(f"{STATES}/{seed}")
    require(0 <= client < config.clients, "--client", f"below {config.clients}", client)
    if packed is None or fl.digest_examples(method.loaded) != run.provenance.get("data"):
        raise RunFileError(f"{path}: holds no networks of its end, or its data have changed")
    with blame_file(path, run.kind):
        classifier = fl.classifier_of(method, FederationState.of_arrays(unpack(packed)), client)
    dataset, held = method.loaded.split.dataset, method.loaded.tensors
    if inputs.shape[1:] != tuple(dataset.shape):
        raise DataError(f"examples of shape {inputs.shape[1:]}, trained on {dataset.shape}")
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    data = Tensors(torch.from_numpy(np.array(inputs)), labels, held.mean, held.std)
    with torch.inference_mode():
        parts = [classifier(x).softmax(1).cpu() for x, _ in data.batches(np.arange(len(inputs)))]
    return dataset.class_names, torch.cat(parts).numpy()
