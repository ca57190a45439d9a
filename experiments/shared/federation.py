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
from hopfed.federation.rounds import FederationState, play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.encoding import Encoding

SERVER = ("n_detected", "eigenvalues")  # metrics that a run file keeps if they exist


def hopfield(source: Any, n_sites: int, **how: Any) -> HopfieldFederation:
    """A federation of patterns on examples of `n_sites` columns."""
    return HopfieldFederation(source, Encoding(n_sites), **how)


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
    prefix. Archetypes (K, N) are the truth, used only to score the patterns that servers remember
    (arXiv:2603.19902, eqs. (31) and (32)). `at` is what `measure_round` is given; `mixtures` keeps
    the shares of the archetypes in what a server holds as well; clients are those of the settings
    where 0. The rest is for `play_round`.
    """
    seed, config, t, state, engine = at
    federation |= {"seed": seed, "clients": clients or config.clients, "engine": engine}
    arrays: Arrays = {}
    after: Arrays = {}
    for name, method in variants.items():
        before = None if state is None else FederationState.unflatten(below(state, name))
        played = play_round(method, before, t, **federation)
        patterns = played.state.server["memory/patterns"]
        match, said = retrieval(patterns, archetypes), played.server_metrics
        measured = played.arrays() | {
            "magnetisation": match.magnetisation,
            "matched": match.matched,
            "frobenius": np.array(match.frobenius),
            "false": np.array(match.false_discoveries),
        }
        measured |= {key: np.asarray(said[key], dtype=float) for key in SERVER if key in said}
        if mixtures:
            earlier = {} if before is None else before.server
            measured["mixture"] = held_mixture(method, t, earlier, played, archetypes)
        arrays |= {f"{name}/{key}": value for key, value in measured.items()}
        after |= {f"{name}/{key}": value for key, value in played.state.flatten().items()}
    return arrays, after
