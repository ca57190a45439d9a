"""Clients with noisy data profit from a client with clean data, and from one another.

Source: arXiv:2603.19902, supplement; theory/NOTES.md, "Outliers and overlaps" and "Score and
acceptance".

Each row is a federation of clients of given qualities. It is compared with federations of one: each
client alone on the same examples. The paper's rows have the qualities (.8, .8, .8), (.8, .2, .2)
and (.2, .2, .2); K = 3 and three clients are our choice. Two harder rows are added, in which no
client's batch shows an archetype: three clients of quality .08, which find the archetypes alone
after many rounds; and 24 clients of quality .08 with so few examples that each stays below its
threshold even after all rounds (margin .85 after 12 rounds; 1.2 to 4.2 for all together).

The prediction treats all examples so far alike: gamma of the spiked model, and the magnetisation
``erf(sqrt(gamma / (1 - gamma) / 2))`` of the signs of an archetype's projection.

Measured (paper preset, 10 seeds; m is a mean over archetypes, +- sd over seeds; `worst alone` is
the client with the lowest m alone). The paper's rows are easy: in theory a client of quality .2 is
at 5.6 times its threshold in the first round. Together with a clean client or with equal ones it
has m = 1 from the first round on. The hard rows:

    quality .08         m in the last round       predicted  rounds to find all
    3 clients           .9997 +- .0007            .9998      3
      worst alone       .945 +- .012              .960       10
    24 clients          .996 +- .003              .997       5
      worst alone       0 +- 0                    0          never

So pooling shows archetypes that no client can see alone, as well as theory allows: the server reads
patterns again when it has more evidence (`hopfed.hopfield.memory.remembered`). Examples this noisy
do not identify their archetype (r sqrt(N) = 1.6) and have no votes
(`hopfed.hopfield.memory.voting`): without the exchange (``--set votes=false``, three seeds) all
results are the same. No false discovery is left at the end. The first patterns may be mixtures of
archetypes that the spectrum does not yet separate, so a pattern is used only after three rounds of
support (`persistence`). With 1 round (three seeds) up to 2 mixtures are left, and the structure
rule, which weights clients by known patterns, has m = .74 +- .33 with 24 clients.

The structure rule gives a client of quality .2 the weight .06 beside a client of .8 with .5, with
equal m. It excludes four in ten of the 24 clients, whose batches of 33 show no structure, and has
m = .987 +- .005.

Run it with ``hopfed run cooperation --preset paper --workers 2 --out cooperation.h5``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed._lib.settings import check_types, require
from hopfed.experiments import Arrays, Measure, Record
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.experiments.structured import rounds_until
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.plasticity.rules import Fixed, Structure
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
class Config:
    """Settings.

    Attributes
    ----------
    N, K, rounds : sites, archetypes, rounds.
    first, others : for each row the quality of the first client, and of all others.
    clients, examples : for each row the number of clients, and of examples per client and round.
    alone : number of clients of each row that also work alone.
    weight : w of the fixed rule.
    discount : share of the evidence that is left after a round.
    persistence : rounds whose operators must support a pattern before it is used.
    votes : whether clients vote on the patterns.
    alpha : false-alarm rate of each round's count.
    seeds : draws.
    """

    N: int = 400
    K: int = 3
    rounds: int = 12
    first: tuple[float, ...] = (0.8, 0.8, 0.2, 0.08, 0.08)
    others: tuple[float, ...] = (0.8, 0.2, 0.2, 0.08, 0.08)
    clients: tuple[int, ...] = (3, 3, 3, 3, 24)
    examples: tuple[int, ...] = (400, 400, 400, 400, 33)
    alone: int = 3
    weight: float = 0.6
    discount: float = 1.0
    persistence: int = 3
    votes: bool = True
    alpha: float = 1e-3
    seeds: int = 3

    def __post_init__(self) -> None:
        check_types(self)
        require(self.N >= 50, "N", "at least 50", self.N)
        for name in ("K", "rounds", "alone", "seeds"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("others", "clients", "examples"):
            same = len(getattr(self, name)) == len(self.first)
            require(same, name, f"one for each of {len(self.first)} rows", getattr(self, name))
        for name in ("first", "others"):
            values = getattr(self, name)
            require(min(values) > 0 and max(values) < 1, name, "in (0, 1) each", values)
        names = [row.name for row in self.rows()]
        require(len(set(names)) == len(names), "first", "a row of its own each", "; ".join(names))
        require(min(self.clients) >= 2, "clients", "at least 2 in each row", self.clients)
        # Theory predicts one spike per archetype, so a batch needs at least K examples.
        require(min(self.examples) >= self.K, "examples", f"at least K = {self.K}", self.examples)

    def rows(self) -> Iterator[Row]:
        """Yield the federations."""
        columns = (self.first, self.others, self.clients, self.examples)
        for first, others, clients, examples in zip(*columns, strict=True):
            yield Row((first, *[others] * (clients - 1)), examples)


PRESETS = {
    "quick": Config(
        N=200,
        rounds=5,
        first=(0.8, 0.2, 0.08),
        others=(0.2, 0.2, 0.08),
        clients=(3, 3, 24),
        examples=(100, 100, 100),
        alone=2,
        seeds=2,
    ),
    "default": Config(),
    "paper": Config(seeds=10),
}

_ROWS = tuple(row.name for row in PRESETS["paper"].rows())

RECORD = Record(
    claim="noisy clients profit from a clean one, and from one another",
    source="hopfield federation, supplement",
    minutes={"quick": 0.2, "default": 1.5, "paper": 2},
    measures={
        f"{key}/{row}": Measure(f"{row}: {label}", "", aim)
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
    },
)


@dataclass(frozen=True)
class Alone:
    """One client of a federation as the only client of another federation."""

    source: ArchetypeStream
    client: int

    def examples(self, t: int, client: int) -> np.ndarray:  # noqa: ARG002
        """Return the batch of that client in round t, (M, N)."""
        return self.source.examples(t, self.client)


def run_round(
    config: Config, seed: int, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays | None]:
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
            played, kept = play_variants(
                {f"{row.name}/{k}": _method(config, *v) for k, v in sources.items()},
                xi,
                state,
                t,
                rounds=config.rounds,
                seed=seed,
                clients=clients,
                engine=engine,
            )
            arrays |= played
            after |= kept or {}
        arrays |= {f"{row.name}/foreseen/{k}": v for k, v in foreseen(config, row, t).items()}
    return arrays, (after if t + 1 < config.rounds else None)


def _method(config: Config, source: ArchetypeStream | Alone, rule: Any) -> HopfieldFederation:
    return HopfieldFederation(
        source,
        Encoding(config.N),
        rule=rule,
        discount=config.discount,
        alpha=config.alpha,
        persistence=config.persistence,
        votes=config.votes,
    )


def foreseen(config: Config, row: Row, t: int) -> Arrays:
    """Predict from the qualities the results for the pooled examples of rounds 0 .. t.

    Source: theory/NOTES.md, "Outliers and overlaps" and "Score and acceptance".

    Returns
    -------
    for the federation and then each client that works alone, (1 + alone,): `margin`, spike
    strength over the threshold; `power`, probability that all archetypes are counted;
    `magnetisation`.

    Examples
    --------
    >>> row = Row((0.08, 0.08, 0.08), 400)
    >>> {k: v.round(2).tolist() for k, v in foreseen(Config(alone=1), row, 0).items()}
    {'margin': [1.49, 0.86], 'power': [0.7, 0.0], 'magnetisation': [0.58, 0.0]}
    """
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
    """Score each row: magnetisations, median rounds until all are found, false discoveries.

    `alone` is the client with the lowest magnetisation over all rounds.
    """
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
