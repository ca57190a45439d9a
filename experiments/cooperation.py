"""Gain of clients with noisy data from a client with clean data, and from one another."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.special import erf

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, at_least, like, within
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import Panel, round_plot
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.plasticity import Fixed
from hopfed.theory.profile import profile_spikes

K = 3  # archetypes
# Settings of all federations: all evidence counts alike, and a pattern must be seen three times.
HOW: dict[str, Any] = {"rule": Fixed(0.6), "discount": 1.0, "alpha": 1e-3, "persistence": 3}


class Config(Settings):
    N: Annotated[int, at_least(50), "sites"]
    rounds: Annotated[int, at_least(1)]
    first: Annotated[Floats, within("(0, 1)"), "quality of a row's first client"]
    others: Annotated[Floats, within("(0, 1)"), like("first"), "quality of its other clients"]
    clients: Annotated[Ints, at_least(2), like("first"), "clients of each row"]
    examples: Annotated[Ints, at_least(K), like("first"), "per client and round"]
    alone: Annotated[int, at_least(1), "clients of each row that also work alone"]

    @property
    def rows(self) -> dict[str, tuple[Floats, int]]:
        """Name of a federation -> its clients' qualities, and examples per client and round."""
        made = {}
        for r, s, n, M in zip(self.first, self.others, self.clients, self.examples, strict=True):
            qualities = (r, *[s] * (n - 1))
            name = " ".join(f"{x:g}" for x in qualities) if n <= 3 else f"{n} of {s:g}"
            made[name] = qualities, M
        return made

    def loners(self, row: str) -> list[str]:
        """Names of a row's clients that also work alone."""
        return [f"alone {c}" for c in range(min(self.alone, len(self.rows[row][0])))]


@dataclass(frozen=True)
class Alone:
    """A client of a federation as the only client of another federation."""

    source: Any
    client: int

    def examples(self, t: int, client: int) -> np.ndarray:  # noqa: ARG002
        """Return the batch of that client in round t, (M, N)."""
        batch: np.ndarray = self.source.examples(t, self.client)
        return batch


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    xi, at = rademacher(K, config.N, stream(seed, "cooperation")), (seed, config, engine)
    arrays: Arrays = {}
    for row, (qualities, M) in config.rows.items():
        loners = config.loners(row)
        data: dict[str, Any] = {"clients": len(qualities), "examples": M, "quality": qualities}
        together = make_federation(config, xi, seed, **data, **HOW)
        alone = {
            f"{row}/{name}": replace(together, source=Alone(together.source, c))
            for c, name in enumerate(loners)
        }
        arrays |= play_variants({f"{row}/fixed": together}, xi, at, clients=len(qualities))
        arrays |= play_variants(alone, xi, at, clients=1)
        margin, m = np.empty((2, config.rounds, 1 + len(loners)))  # predictions for pooled examples
        for g, group in enumerate([qualities, *((r,) for r in qualities[: len(loners)])]):
            exposures = np.full((len(group), K), 1 / K)
            for t in range(config.rounds):
                spike = profile_spikes(group, exposures, config.N, len(group) * M * (t + 1))
                gamma = float(spike.overlaps[0])
                margin[t, g], m[t, g] = spike.margin[0], erf(np.sqrt(gamma / (1 - gamma) / 2))
        arrays |= {f"{row}/foreseen/margin": margin, f"{row}/foreseen/magnetisation": m}
    return arrays


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for row in config.rows:
        m = np.stack([arrays[f"{row}/{k}/magnetisation"] for k in config.loners(row)])
        worst = m.mean(axis=(2, 3)).argmin(axis=0)  # worst client of each seed
        both = m[worst, np.arange(len(worst))], arrays[f"{row}/fixed/magnetisation"]
        for k, values in zip(("alone", "fixed"), both, strict=True):
            summary[f"mean_{k}/{row}"] = mean_and_sd(values.mean(axis=(1, 2)))
            summary[f"last_{k}/{row}"] = mean_and_sd(values[:, -1].mean(axis=1))
        summary[f"last_foreseen/{row}"] = float(arrays[f"{row}/foreseen/magnetisation"][0, -1, 0])
        summary[f"false_fixed/{row}"] = int(arrays[f"{row}/fixed/false"][:, -1].max())
    return summary


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    names = sorted(config.rows, key=lambda n: float(arrays[f"{n}/foreseen/margin"][0, 0, 0]))[:3]
    made = []
    for name in names:
        alone = [arrays[f"{name}/{k}/magnetisation"] for k in config.loners(name)]
        held = {"fixed": arrays[f"{name}/fixed/magnetisation"], "alone": np.concatenate(alone)}
        theory = arrays[f"{name}/foreseen/magnetisation"][0]
        guess = {"fixed": theory[:, 0], "alone": theory[:, 1:].mean(axis=1)}
        lines = {k: v.mean(axis=2) for k, v in held.items()}
        made.append(round_plot(f"magnetisation: {name}", lines, guess))
    return made
