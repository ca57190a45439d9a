"""Rounds of several federations on the same examples, with their scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hopfed.archetypes.overlap import retrieval
from hopfed.experiments import Arrays
from hopfed.experiments.shared.tracking import held_mixture
from hopfed.federation.engines import Engine
from hopfed.federation.messages import below
from hopfed.federation.rounds import FederationState, Played, play_round
from hopfed.hopfield import HopfieldFederation

# Metrics of the server that a run file keeps if they exist.
SERVER = (
    "n_detected", "threshold", "quality", "eigenvalues", "examples", "archetypes", "explained",
)  # fmt: skip


def play_variants(
    variants: Mapping[str, HopfieldFederation],
    archetypes: np.ndarray,
    at: tuple[int, Any, int, Arrays | None, Engine],
    *,
    mixtures: bool = False,
    clients: int = 0,
    **federation: Any,
) -> tuple[Arrays, Arrays]:
    """Play a round of every variant; return its arrays and the state after it.

    Each continues from its own part of the state; arrays and states carry the variant's name as a
    prefix. Archetypes (K, N) are the truth, used only to score the patterns that servers remember.
    `at` is what `measure_round` is given; `mixtures` keeps the shares of the archetypes in what a
    server holds as well; clients are those of the settings where 0. The rest is for `play_round`.
    """
    seed, config, t, state, engine = at
    federation |= {"seed": seed, "clients": clients or config.clients, "engine": engine}
    arrays: Arrays = {}
    after: Arrays = {}
    for name, method in variants.items():
        before = None if state is None else FederationState.unflatten(below(state, name))
        played = play_round(method, before, t, **federation)
        measured = played.arrays() | kept_metrics(played) | score(played, archetypes)
        if mixtures:
            earlier = {} if before is None else before.server
            measured["mixture"] = held_mixture(method, t, earlier, played, archetypes)
        arrays |= {f"{name}/{key}": value for key, value in measured.items()}
        after |= {f"{name}/{key}": value for key, value in played.state.flatten().items()}
    return arrays, after


def score(played: Played, archetypes: np.ndarray) -> Arrays:
    """Scores of what is remembered (arXiv:2603.19902, eqs. (31) and (32)), and its number."""
    patterns = played.state.server["memory/patterns"]
    match = retrieval(patterns, archetypes)
    return {
        "magnetisation": match.magnetisation,
        "matched": match.matched,
        "frobenius": np.array(match.frobenius),
        "false": np.array(match.false_discoveries),
        "patterns": np.array(len(patterns)),
    }


def kept_metrics(played: Played) -> Arrays:
    """Server metrics of a round, as arrays."""
    metrics = played.server_metrics
    return {name: np.asarray(metrics[name], dtype=float) for name in SERVER if name in metrics}
