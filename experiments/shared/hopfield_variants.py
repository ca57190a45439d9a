"""Several federations on the same examples, round by round, with their scores."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from hopfed.archetypes.overlap import retrieval
from hopfed.experiments import Arrays
from hopfed.federation.contract import Engine
from hopfed.federation.rounds import FederationState, Session, play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.byzantine_guard import Guard
from hopfed.hopfield.example_sources import ArchetypeStream
from hopfed.hopfield.pattern_channel import Patterns

SERVER = ("n_detected", "eigenvalues")  # metrics that a run file keeps if they exist

# Further measures of a variant: (method, round, state before it, the round) -> arrays.
More = Callable[[Any, int, FederationState | None, Session], Arrays]


def make_federation(
    config: Any, xi: np.ndarray, seed: int, mixture: np.ndarray | None = None, **how: Any
) -> HopfieldFederation:
    """A variant of a Hopfield federation of patterns, on examples of archetypes `xi` (K, N).

    A `mixture` is (rounds, K) or (rounds, clients, K), equal shares if None. `how` replaces
    settings of the same names; its other entries are for the channel of patterns and for the guard.
    """
    drawn = {k: how.pop(k, None) for k in ("examples", "quality", "clients")}
    M, r, L = (getattr(config, k) if v is None else v for k, v in drawn.items())
    K, N = xi.shape
    mixture = np.full((config.rounds, K), 1 / K) if mixture is None else mixture
    mixtures = np.repeat(mixture[:, None], L, axis=1) if mixture.ndim == 2 else mixture
    guard = {f.name: how.pop(f.name) for f in fields(Guard) if f.name in how}
    source = ArchetypeStream(xi, mixtures, M, r, seed)
    return HopfieldFederation(source, Patterns(N, **how), guard=Guard(**guard))


def play_variants(
    variants: Mapping[str, HopfieldFederation],
    archetypes: np.ndarray,
    at: tuple[int, Any, Engine],
    more: More | None = None,
    *,
    clients: int = 0,
    **federation: Any,
) -> Arrays:
    """Play all rounds of every Hopfield variant: arrays (rounds, ...), with its name as a prefix.

    Archetypes (K, N) only score what servers remember (arXiv:2603.19902, eqs. (31), (32)); `at` has
    the arguments of `measure`; further arguments are for `play_round`.
    """
    seed, config, engine = at
    federation |= {"seed": seed, "clients": clients or config.clients, "engine": engine}
    found: dict[str, list[Any]] = {}
    for name, method in variants.items():
        state: FederationState | None = None
        for t in range(config.rounds):
            played = play_round(method, state, t, **federation)
            said = played.server_metrics
            match = retrieval(played.state.server["memory/patterns"], archetypes)
            arrays: dict[str, Any] = played.arrays() | {"magnetisation": match.magnetisation}
            arrays |= {"false": match.false_discoveries}
            arrays |= {key: np.asarray(said[key], dtype=float) for key in SERVER if key in said}
            arrays |= more(method, t, state, played) if more is not None else {}
            for key, value in arrays.items():
                found.setdefault(f"{name}/{key}", []).append(value)
            state = played.state
    return {key: np.stack(values) for key, values in found.items()}
