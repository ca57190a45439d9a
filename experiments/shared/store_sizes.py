"""The weight of neighbours that is best for a client, by the size of its store.

Source: kNN-Per (arXiv:2111.09360), Figs. 2 and 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from hopfed.experiments import Arrays
from hopfed.experiments.shared import cells as _cells
from hopfed.experiments.shared.cells import Bench, Reading
from hopfed.experiments.shared.statistics import mean_and_sd

WEIGHTS = "weight by size"  # the section
SIZES = (5, 10, 25, 50, 100, 250)  # of stores; a client with fewer examples keeps them all
SHARED_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def readings(cell: str, last: int) -> list[Reading]:
    """Readings of the cell's network after its `last` round: all sizes with all weights."""
    return [
        Reading(WEIGHTS, f"{n} examples", f"{lam:g}", cell, f"capacity={n},lam={lam:g}", last)
        for n in SIZES
        for lam in SHARED_WEIGHTS
    ]


def summarise(config: Bench, arrays: Arrays, cell: str) -> dict[str, Any]:
    """Best weight by size over seeds, and its rank correlation with the size."""
    summary, found = {}, best_weights(config, arrays, cell)
    for n in SIZES:
        means = [weights[sizes == n].mean() for sizes, weights in found if n in sizes]
        if means:
            summary[f"{WEIGHTS}/best/{n}"] = mean_and_sd(np.array(means))
    if all(len(set(sizes)) > 1 and len(set(weights)) > 1 for sizes, weights in found):
        ranks = [spearmanr(*pair).statistic for pair in found]
        summary[f"{WEIGHTS}/rank correlation"] = mean_and_sd(np.array(ranks))
    return summary


def best_weights(config: Bench, arrays: Arrays, cell: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sizes (n,) of stores, and the weight (n,) that is best on the client's test examples.

    A pair for each seed. Of weights that tie the middle one is taken, as clients do. A client with
    fewer examples than asked for counts once, with all that it has.
    """
    base = [each.key for each in _cells.cells_of(config)].index(cell)
    asked = [i for i, r in enumerate(_cells.readings_of(config)) if r.section == WEIGHTS]
    scores = arrays["readings"][:, (base + 1) * config.rounds - 1, asked]
    scores = scores.reshape(-1, len(SIZES), len(SHARED_WEIGHTS), config.clients)
    found = []
    for seed, score in enumerate(scores):
        held = np.minimum(np.array(SIZES)[:, None], arrays["sizes"][seed, 0, :, 0])
        best = score == score.max(axis=1, keepdims=True)
        nth = (best.sum(axis=1, keepdims=True) + 1) // 2
        middle = (best & (best.cumsum(axis=1) == nth)).argmax(axis=1)
        fresh = np.diff(held, axis=0, prepend=0) > 0
        found.append((held[fresh], np.array(SHARED_WEIGHTS)[middle][fresh]))
    return found
