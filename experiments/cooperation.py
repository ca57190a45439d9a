"""Clients with noisy data profit from a client with clean data, and from one another.

Each row is a federation of clients of given qualities, compared with each client alone on the same
examples. The paper's rows are (.8, .8, .8), (.8, .2, .2) and (.2, .2, .2); in two harder ones no
batch shows an archetype: three clients of quality .08, and 24 with so few examples that each stays
below its threshold after all rounds. The prediction treats all examples so far alike: gamma of the
spiked model, and ``erf(sqrt(gamma / (1 - gamma) / 2))``. Source: arXiv:2603.19902, supplement;
theory/NOTES.md, "Outliers and overlaps" and "Score and acceptance".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.experiments.structured import rounds_until
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.guard import Guard
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.plasticity import Fixed, Structure
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.theory import planning
from hopfed.theory.profile import profile_spikes

FOUND = 0.9  # |m| from which an archetype is found; a pattern below it is a false discovery


@dataclass(frozen=True)
class Row:
    """One federation: its clients' qualities, and the examples per client and round."""

    qualities: tuple[float, ...]
    examples: int

    @property
    def name(self) -> str:
        """Name of its arrays and of its rows of the summary."""
        if len(self.qualities) <= 3:
            return " ".join(f"{r:g}" for r in self.qualities)
        first, last = self.qualities[0], self.qualities[-1]
        return f"{len(self.qualities)} of {first:g}" + (f", {last:g}" if last != first else "")


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(50), "sites"] = 400
    K: Annotated[int, at_least(1), "archetypes"] = 3
    rounds: Annotated[int, at_least(1)] = 12
    first: Annotated[Floats, within("(0, 1)"), "quality of a row's first client"] = (
        0.8, 0.8, 0.2, 0.08, 0.08,
    )  # fmt: skip
    others: Annotated[Floats, within("(0, 1)"), "of all others"] = (0.8, 0.2, 0.2, 0.08, 0.08)
    clients: Annotated[Ints, at_least(2), "of each row"] = (3, 3, 3, 3, 24)
    examples: Annotated[Ints, "per client and round, of each row"] = (400, 400, 400, 400, 33)
    alone: Annotated[int, at_least(1), "clients of each row that also work alone"] = 3
    weight: Annotated[float, "w of the fixed rule"] = 0.6
    discount: Annotated[float, "share of the evidence that is left after a round"] = 1.0
    persistence: Annotated[int, "rounds that must support a pattern before it is used"] = 3
    votes: Annotated[bool, "whether clients vote on the patterns"] = True
    alpha: Annotated[float, "false-alarm rate of each round's count"] = 1e-3
    seeds: int = 3

    def validate(self) -> None:
        """Refuse rows of one name, and batches that cannot show K spikes."""
        self.same_length("first", "others", "clients", "examples")
        names = [row.name for row in self.rows()]
        require(len(set(names)) == len(names), "first", "a row of its own each", "; ".join(names))
        require(min(self.examples) >= self.K, "examples", f"at least K = {self.K}", self.examples)

    def rows(self) -> Iterator[Row]:
        """Yield the federations."""
        columns = (self.first, self.others, self.clients, self.examples)
        for first, others, clients, examples in zip(*columns, strict=True):
            yield Row((first, *[others] * (clients - 1)), examples)


PRESETS = {
    "quick": {
        "N": 200, "rounds": 5, "first": (0.8, 0.2, 0.08), "others": (0.2, 0.2, 0.08),
        "clients": (3, 3, 24), "examples": (100, 100, 100), "alone": 2, "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 10},
}  # fmt: skip
MINUTES = {"quick": 0.2, "default": 1.5, "paper": 2}
_ROWS = tuple(row.name for row in Config().rows())
COMPARED = {
    f"{key}/{row}": (f"{row}: {label}", "", aim)
    for row in _ROWS
    for key, label, aim in (
        ("mean_alone", "mean m, worst alone", ""),
        ("mean_fixed", "mean m, together", ""),
        ("mean_structure", "mean m, structure rule", ""),
        ("last_alone", "last m, worst alone", ""),
        ("last_fixed", "last m, together", "as foreseen"),
        ("last_foreseen", "last m, foreseen", ""),
        ("rounds_alone", "rounds, worst alone", ""),
        ("rounds_fixed", "rounds, together", ""),
        ("false_fixed", "false, last round, most", "0"),
    )
}


@dataclass(frozen=True)
class Alone:
    """One client of a federation as the only client of another federation."""

    source: ArchetypeStream
    client: int

    def examples(self, t: int, client: int) -> np.ndarray:  # noqa: ARG002
        """Return the batch of that client in round t, (M, N)."""
        return self.source.examples(t, self.client)


def measure_round(
    seed: int, config: Config, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays]:
    """Play one round of every row, together and alone."""
    xi = rademacher(config.K, config.N, stream(seed, "cooperation"))
    arrays: Arrays = {}
    after: Arrays = {}
    for row in config.rows():
        size = len(row.qualities)
        mixtures = np.full((config.rounds, size, config.K), 1 / config.K)
        source = ArchetypeStream(xi, mixtures, row.examples, row.qualities, seed)
        fixed = Fixed(config.weight)
        together = {"fixed": (source, fixed), "structure": (source, Structure())}
        alone = {f"alone {c}": (Alone(source, c), fixed) for c in range(min(config.alone, size))}
        for clients, sources in ((size, together), (1, alone)):
            methods = {f"{row.name}/{k}": _method(config, *v) for k, v in sources.items()}
            at = seed, config, t, state, engine
            played, kept = play_variants(methods, xi, at, clients=clients)
            arrays, after = arrays | played, after | kept
        arrays |= {f"{row.name}/foreseen/{k}": v for k, v in foreseen(config, row, t).items()}
    return arrays, after


def _method(config: Config, source: ArchetypeStream | Alone, rule: Any) -> HopfieldFederation:
    names = ("discount", "alpha", "votes")
    own = {name: getattr(config, name) for name in names}
    channel = Patterns(Encoding(config.N), rule=rule, **own)
    return HopfieldFederation(source, channel, guard=Guard(persistence=config.persistence))


def foreseen(config: Config, row: Row, t: int) -> Arrays:
    """Predict from the qualities the results for the pooled examples of rounds 0 .. t."""
    groups = [row.qualities, *((r,) for r in row.qualities[: config.alone])]
    found = [_pooled(config, g, len(g) * row.examples * (t + 1)) for g in groups]
    names = ("margin", "power", "magnetisation")
    return dict(zip(names, np.array(found).T, strict=True))


def _pooled(
    config: Config, qualities: tuple[float, ...], examples: int
) -> tuple[float, float, float]:
    exposures = np.full((len(qualities), config.K), 1 / config.K)
    spike = profile_spikes(qualities, exposures, config.N, examples)
    margin, gamma = float(spike.margin[0]), float(spike.overlaps[0])
    # Clients of several qualities are replaced by clients of one quality with the same margin.
    odds = margin * config.K / np.sqrt(config.N * examples)
    quality = float(np.sqrt(odds / (1 + odds)))
    power = planning.detection_power(
        quality, 1 / config.K, config.N, examples, config.alpha, stronger=config.K - 1
    )
    return margin, float(power), float(erf(np.sqrt(gamma / (1 - gamma) / 2)))


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Score each row: magnetisations, median rounds until all are found, false discoveries."""
    summary: dict[str, Any] = {}
    for row in (r.name for r in config.rows()):
        alone = sorted({k.split("/")[1] for k in arrays if k.startswith(f"{row}/alone ")})
        m = {k: arrays[f"{row}/{k}/magnetisation"] for k in ("fixed", "structure", *alone)}
        worst = np.stack([m[k] for k in alone]).mean(axis=(2, 3)).argmin(axis=0)
        m["alone"] = np.stack([m[alone[w]][s] for s, w in enumerate(worst)])
        for k in ("alone", "fixed", "structure"):
            summary[f"mean_{k}/{row}"] = mean_and_sd(m[k].mean(axis=(1, 2)))
            summary[f"last_{k}/{row}"] = mean_and_sd(m[k][:, -1].mean(axis=1))
            rounds = rounds_until(m[k].min(axis=2) >= FOUND)
            summary[f"rounds_{k}/{row}"] = float(np.median(np.nan_to_num(rounds, nan=np.inf)))
        summary[f"last_foreseen/{row}"] = float(arrays[f"{row}/foreseen/magnetisation"][0, -1, 0])
        for k in ("fixed", "structure"):
            summary[f"false_{k}/{row}"] = int(arrays[f"{row}/{k}/false"][:, -1].max())
    return summary
