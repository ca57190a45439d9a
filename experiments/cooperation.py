"""What clients with noisy data gain from a client with clean data, and from one another.

Each row is a federation of clients of given qualities, beside each client alone on the same
examples. In the last two no batch shows an archetype. Theory takes all examples so far alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, at_least, like, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import Panel, by_round
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Fixed
from hopfed.hopfield.stream import ArchetypeStream
from hopfed.theory.profile import profile_spikes

# Of every federation; all evidence so far counts alike, and a pattern must be seen three times.
HOW: dict[str, Any] = {"rule": Fixed(0.6), "discount": 1.0, "alpha": 1e-3, "persistence": 3}


class Config(Settings):
    """Settings."""

    N: Annotated[int, at_least(50), "sites"] = 400
    K: Annotated[int, at_least(1), "archetypes"] = 3
    rounds: Annotated[int, at_least(1)] = 12
    first: Annotated[Floats, within("(0, 1)"), "quality of a row's first client"] = (
        0.8, 0.8, 0.2, 0.08, 0.08,
    )  # fmt: skip
    others: Annotated[Floats, within("(0, 1)"), like("first"), "of all others"] = (
        0.8, 0.2, 0.2, 0.08, 0.08,
    )  # fmt: skip
    clients: Annotated[Ints, at_least(2), like("first"), "of each row"] = (3, 3, 3, 3, 24)
    examples: Annotated[Ints, lambda s: at_least(s.K), like("first"), "per client and round"] = (
        400, 400, 400, 400, 33,
    )  # fmt: skip
    alone: Annotated[int, at_least(1), "clients of each row that also work alone"] = 3
    seeds: int = 3

    @property
    def rows(self) -> dict[str, tuple[Floats, int]]:
        """Name of a federation -> its clients' qualities, and examples per client and round."""
        made = {}
        columns = self.first, self.others, self.clients, self.examples
        for first, others, clients, examples in zip(*columns, strict=True):
            qualities = (first, *[others] * (clients - 1))
            name = " ".join(f"{r:g}" for r in qualities)
            if clients > 3:
                name = f"{clients} of {first:g}" + (f", {others:g}" if others != first else "")
            made[name] = qualities, examples
        return made


@dataclass(frozen=True)
class Alone:
    """One client of a federation as the only client of another federation."""

    source: ArchetypeStream
    client: int

    def examples(self, t: int, client: int) -> np.ndarray:  # noqa: ARG002
        """Return the batch of that client in round t, (M, N)."""
        return self.source.examples(t, self.client)


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every row, together and alone."""
    xi = rademacher(config.K, config.N, stream(seed, "cooperation"))
    arrays: Arrays = {}
    for row, (qualities, M) in config.rows.items():
        size = len(qualities)
        mixtures = np.full((config.rounds, size, config.K), 1 / config.K)
        source = ArchetypeStream(xi, mixtures, M, qualities, seed)
        alone = {f"alone {c}": Alone(source, c) for c in range(min(config.alone, size))}
        for clients, held in ((size, {"fixed": source}), (1, alone)):
            methods = {f"{row}/{k}": hopfield(b, config.N, **HOW) for k, b in held.items()}
            arrays |= play(methods, xi, (seed, config, engine), clients=clients)
        groups = [qualities, *((r,) for r in qualities[: config.alone])]
        foreseen = np.empty((config.rounds, len(groups), 2))  # of pooled examples
        for t, g in np.ndindex(foreseen.shape[:2]):
            exposures = np.full((len(groups[g]), config.K), 1 / config.K)
            pooled = len(groups[g]) * M * (t + 1)
            spike = profile_spikes(groups[g], exposures, config.N, pooled)
            gamma = float(spike.overlaps[0])
            foreseen[t, g] = spike.margin[0], erf(np.sqrt(gamma / (1 - gamma) / 2))
        for i, name in enumerate(("margin", "magnetisation")):
            arrays[f"{row}/foreseen/{name}"] = foreseen[..., i]
    return arrays


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Score each row: magnetisations and false discoveries."""
    summary: dict[str, Any] = {}
    for row, (qualities, _) in config.rows.items():
        alone = [f"alone {c}" for c in range(min(config.alone, len(qualities)))]
        m = {k: arrays[f"{row}/{k}/magnetisation"] for k in ("fixed", *alone)}
        worst = np.stack([m[k] for k in alone]).mean(axis=(2, 3)).argmin(axis=0)
        m["alone"] = np.stack([m[alone[w]][s] for s, w in enumerate(worst)])
        for k in ("alone", "fixed"):
            summary |= {
                f"mean_{k}/{row}": mean_and_sd(m[k].mean(axis=(1, 2))),
                f"last_{k}/{row}": mean_and_sd(m[k][:, -1].mean(axis=1)),
            }
        summary[f"last_foreseen/{row}"] = float(arrays[f"{row}/foreseen/magnetisation"][0, -1, 0])
        summary[f"false_fixed/{row}"] = int(arrays[f"{row}/fixed/false"][:, -1].max())
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Magnetisation and false discoveries, alone and together, those that see least first."""
    names = sorted(config.rows, key=lambda n: float(arrays[f"{n}/foreseen/margin"][0, 0, 0]))[:3]
    made = []
    for what in ("magnetisation", "false"):
        for name in names:
            held = {"fixed": arrays[f"{name}/fixed/{what}"]}
            alone = range(min(config.alone, len(config.rows[name][0])))
            held["alone"] = np.concatenate([arrays[f"{name}/alone {c}/{what}"] for c in alone])
            lines = {k: v.mean(axis=2) if v.ndim == 3 else v for k, v in held.items()}
            theory = arrays[f"{name}/foreseen/magnetisation"][0]
            guess = {"fixed": theory[:, 0], "alone": theory[:, 1:].mean(axis=1)}
            foreseen = guess if what == "magnetisation" else {}
            made.append(by_round(f"{what}: {name}", lines, foreseen))
    return made
