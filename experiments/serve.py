"""A Hopfield federation whose examples are on other machines (`hopfed serve`, `hopfed join`).

Every client deals the rows of its file out over the rounds, each row to one of them, and the server
adds up what it hears. With epsilon the clients release their operators with Gaussian noise, once,
and nothing else. A client that misses a round keeps the rows of that round to itself.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopfed.config import check_types, require
from hopfed.data.batches import Elsewhere
from hopfed.experiments import Arrays, Measure, Record
from hopfed.federation.engines import Engine
from hopfed.federation.rounds import FederationState, Played, play_round
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.client import pack_patterns, unpack_patterns
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.limits import Limits
from hopfed.hopfield.private import PrivateFederation
from hopfed.hopfield.settings import Source


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes
    ----------
    columns : N, columns of every client's file.
    clients : number of clients.
    rounds : rounds, over which clients deal out their rows.
    minimum : clients that must be heard in a round.
    form, width, carry, groups, votes, alpha : see `hopfed.hopfield.settings`.
    epsilon, delta : what a client's release may tell about one of its examples; epsilon inf asks
        for releases without noise.
    most : archetypes that the run file keeps.
    name : under which clients keep what they need between rounds; `hopfed serve` draws one.
    seeds : 1: these data are there once.
    """

    columns: int = 784
    clients: int = 3
    rounds: int = 1
    minimum: int = 1
    form: str = "counts"
    width: int = 64
    carry: float = 1.0
    groups: int = 4
    votes: bool = True
    alpha: float = 1e-3
    epsilon: float = math.inf
    delta: float = 1e-5
    most: int = 256
    name: str = "federation"
    seeds: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("clients", "rounds", "most"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        least = 1 <= self.minimum <= self.clients
        require(least, "minimum", f"1 to the {self.clients} clients", self.minimum)
        require(self.seeds == 1, "seeds", "1: these data are there once", self.seeds)
        self.make()

    def make(self, source: Source | None = None) -> HopfieldFederation | PrivateFederation:
        """Return the method; the examples are elsewhere unless there is a source."""
        source = Elsewhere(self.rounds) if source is None else source
        if self.epsilon < math.inf:
            return PrivateFederation(source, self.columns, self.epsilon, self.delta, self.alpha)
        return HopfieldFederation(
            source,
            Encoding(self.columns, self.form, min(self.width, self.columns)),
            carry=self.carry,
            alpha=self.alpha,
            groups=self.groups,
            smallest_group=Limits().group,  # what clients insist on, unless told otherwise
            votes=self.votes,
            smallest_vote=Limits().smallest_vote,
        )


PRESETS = {name: Config() for name in ("quick", "default", "paper")}

RECORD = Record(
    claim="a Hopfield federation across machines",
    source="hopfed serve",
    minutes=dict.fromkeys(PRESETS, 0.0),
    measures={
        "archetypes": Measure("archetypes remembered"),
        "khat": Measure("directions that the spectrum shows"),
        "quality": Measure("quality r"),
        "examples": Measure("examples heard"),
        "missed": Measure("answers missed"),
        "megabytes_up": Measure("MB sent up by a client, at most"),
        "megabytes_down": Measure("MB sent down to a client, at most"),
    },
)


def run_round(
    config: Config, seed: int, t: int, state: FederationState | None, engine: Engine
) -> tuple[Arrays, FederationState | None]:
    """Play one round."""
    return play(config, config.make(), seed, t, state, engine)


def play(
    config: Config,
    method: HopfieldFederation | PrivateFederation,
    seed: int,
    t: int,
    state: FederationState | None,
    engine: Engine,
) -> tuple[Arrays, FederationState | None]:
    """Play round t with this method."""
    if state is None:
        start = method.server_start(seed)
        if "secret" in start:  # one that no client can derive from the run's seed
            start["secret"] = np.array(secrets.randbits(62))
        state = FederationState(start)
    settings: dict[str, Any] = {"seed": seed, "clients": config.clients, "engine": engine}
    played = play_round(method, state, t, minimum=config.minimum, **settings)
    return _arrays(config, played), None if t + 1 == config.rounds else played.state


def _arrays(config: Config, played: Played) -> Arrays:
    patterns = played.state.server["memory/patterns"]
    packed = np.zeros((config.most, -(-config.columns // 8)), dtype=np.uint8)
    packed[: len(patterns)] = pack_patterns(patterns[: config.most])
    numbers = {
        name: np.asarray(played.server_metrics.get(name, np.nan), dtype=float)
        for name in ("khat", "quality", "examples")
    }
    found = {"archetypes/packed": packed, "archetypes/number": np.array(len(patterns))}
    arrays = {k: v for k, v in played.arrays().items() if not k.startswith("client/")}
    return arrays | numbers | found


def archetypes(config: Config, arrays: Arrays) -> np.ndarray:
    """Archetypes after the last round, int8 (K, N), from the arrays of a run."""
    number = min(int(arrays["archetypes/number"][0, -1]), config.most)
    return unpack_patterns(arrays["archetypes/packed"][0, -1, :number], config.columns)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:  # noqa: ARG001
    """What was found, and what it took."""
    last = {name: float(arrays[name][0, -1]) for name in ("khat", "quality", "examples")}
    up, down = (arrays[f"traffic/{way}"][0].sum(axis=0).max() / 1e6 for way in ("up", "down"))
    return last | {
        "archetypes": int(arrays["archetypes/number"][0, -1]),
        "missed": int((arrays["faults/code"] != 0).sum()),
        "megabytes_up": float(up),
        "megabytes_down": float(down),
    }
