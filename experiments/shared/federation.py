"""Several federations on the same examples, round by round, with their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from hopfed.archetypes.overlap import retrieval
from hopfed.experiments import Arrays
from hopfed.federation.contract import Engine
from hopfed.federation.rounds import FederationState, Played, play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.guard import Guard
from hopfed.hopfield.patterns import Patterns

SERVER = ("n_detected", "eigenvalues")  # metrics that a run file keeps if they exist

# What else is measured of a variant: (name, round, state before it, the round) -> arrays.
More = Callable[[str, int, FederationState | None, Played], Arrays]


def hopfield(source: Any, n_sites: int, **how: Any) -> HopfieldFederation:
    """A federation of patterns on examples of `n_sites` columns; settings of both its parts."""
    guard = {f.name: how.pop(f.name) for f in fields(Guard) if f.name in how}
    return HopfieldFederation(source, Patterns(Encoding(n_sites), **how), guard=Guard(**guard))


def play(
    variants: Mapping[str, HopfieldFederation],
    archetypes: np.ndarray,
    at: tuple[int, Any, Engine],
    more: More | None = None,
    *,
    clients: int = 0,
    **federation: Any,
) -> Arrays:
    """Play all rounds of every variant: arrays (rounds, ...), with the variant's name as a prefix.

    Archetypes (K, N) are the truth, used only to score the patterns that servers remember
    (arXiv:2603.19902, eqs. (31) and (32)). `at` is what `measure` is given; clients are those of
    the settings where 0. The rest is for `play_round`.
    """
    seed, config, engine = at
    federation |= {"seed": seed, "clients": clients or config.clients, "engine": engine}
    found: dict[str, list[np.ndarray]] = {}
    for name, method in variants.items():
        state: FederationState | None = None
        for t in range(config.rounds):
            played = play_round(method, state, t, **federation)
            patterns = played.state.server["memory/patterns"]
            match, said = retrieval(patterns, archetypes), played.server_metrics
            arrays = played.arrays() | {
                "magnetisation": match.magnetisation,
                "false": np.array(match.false_discoveries),
            }
            arrays |= {key: np.asarray(said[key], dtype=float) for key in SERVER if key in said}
            arrays |= more(name, t, state, played) if more is not None else {}
            for key, value in arrays.items():
                found.setdefault(f"{name}/{key}", []).append(np.asarray(value))
            state = played.state
    return {key: np.stack(values) for key, values in found.items()}
