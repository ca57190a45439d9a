"""Features of test examples in a plane, small enough for the run file.

A cell in `Bench.PICTURED` keeps, from its last round, features of `EACH` test examples of up to
`GROUPS` groups. They are embedded together in two dimensions and stored as bytes (groups, EACH, 3):
x, y, and the label plus one; missing examples are 0.

A picture by "clients" shows clients that hold one class in common, each under its own model. A
picture by "domains" shows examples of every domain, all under the model of client 0, as in FedH2L
(arXiv:2101.11296, Fig. 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import fl
from hopfed.federation.rounds import FederationState

GROUPS, EACH = 4, 50


def blank(clients: int) -> np.ndarray:
    """Return an empty plane (groups, EACH, 3)."""
    return np.zeros((min(GROUPS, clients), EACH, 3), np.uint8)


def plane(method: Any, state: FederationState, by: str, way: str) -> np.ndarray:
    """Return the places and labels of the features: (groups, EACH, 3).

    Parameters
    ----------
    by : "clients" or "domains".
    way : "pca" or "t-sne".
    """
    from hopfed.neural.memory.embedding import features_of, flattened

    split, tensors = method.loaded.split, method.loaded.tensors
    found = blank(len(split))
    clients = np.arange(len(found)) if by == "domains" else alike(split.counts(), len(found))
    features, labels, places = [], [], []
    for g, c in enumerate(clients):
        rows = stream(method.task.seed, "plane", int(c)).permutation(split.test[c])[:EACH]
        classifier = fl.classifier_of(method, state, 0 if by == "domains" else int(c))
        features.append(features_of(classifier, tensors, rows))
        labels.append(split.dataset.labels[rows])
        places += [(g, i) for i in range(len(rows))]
    xy = flattened(np.concatenate(features), way, method.task.seed)
    spread = np.ptp(xy, axis=0)
    scaled = np.rint(255 * (xy - xy.min(axis=0)) / np.where(spread > 0, spread, 1))
    group, place = np.array(places).T
    found[group, place, :2] = scaled
    found[group, place, 2] = np.concatenate(labels) + 1
    return found


def alike(counts: np.ndarray, wanted: int) -> np.ndarray:
    """Return the first clients that hold the class that most clients hold.

    Parameters
    ----------
    counts : (clients, classes) examples.

    Examples
    --------
    >>> alike(np.array([[3, 0], [0, 2], [1, 2]]), 2)
    array([0, 2])
    """
    holders = counts > 0
    first = np.flatnonzero(holders[:, holders.sum(axis=0).argmax()])
    return np.concatenate([first, np.setdiff1d(np.arange(len(counts)), first)])[:wanted]
