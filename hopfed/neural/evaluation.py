"""How well clients classify: every client scored on all of its examples, none dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.func import functional_call

from hopfed.neural.data.tensors import Tensors
from hopfed.neural.models.base import Model
from hopfed.neural.task import Params

BATCH = 1024  # examples in a forward pass


def correct(model: Model, params: Params, data: Tensors, rows: np.ndarray) -> np.ndarray:
    """Which of the examples `rows` are classified right: bool (n,)."""
    model.eval()
    found = []
    with torch.inference_mode():
        for i in range(0, len(rows), BATCH):
            x, y = data.batch(data.rows(rows[i : i + BATCH]))
            logits = functional_call(model, params, (x,))
            found.append((logits.argmax(dim=1) == y).cpu().numpy())
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def accuracies(
    models: Sequence[Model],
    params: Sequence[Params],
    data: Tensors,
    parts: Sequence[Sequence[np.ndarray]],
) -> np.ndarray:
    """Share of right answers of every client in every part, (parts, clients).

    Clients with one and the same model are scored together, in full batches.

    Parameters
    ----------
    models, params : of each client.
    parts : for each part (validation, test) the rows of each client.
    """
    shares = np.full((len(parts), len(params)), np.nan)
    for clients in _sharing(params):
        rows = [np.concatenate([part[c] for c in clients]) for part in parts]
        right = correct(models[clients[0]], params[clients[0]], data, np.concatenate(rows))
        cuts = np.cumsum([len(part[c]) for part in parts for c in clients])[:-1]
        means = [piece.mean() if len(piece) else np.nan for piece in np.split(right, cuts)]
        shares[:, clients] = np.reshape(means, (len(parts), len(clients)))
    return shares


def bottom_decile(accuracy: np.ndarray) -> np.ndarray:
    """Mean over the worst tenth of the clients, one at least: over the last axis.

    Examples
    --------
    >>> float(bottom_decile(np.linspace(0.1, 2.0, 20)).round(2))
    0.15
    """
    count = max(1, accuracy.shape[-1] // 10)
    return np.asarray(np.sort(accuracy, axis=-1)[..., :count].mean(axis=-1))


def _sharing(params: Sequence[Params]) -> list[list[int]]:
    """Clients by the parameters they share, which are the same object then."""
    groups: dict[int, list[int]] = {}
    for c, p in enumerate(params):
        groups.setdefault(id(p), []).append(c)
    return list(groups.values())
