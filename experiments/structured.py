"""Similar pictures, recovered by a federation to the last pixel; letters without a file.

The paper flips pixels of three silhouettes until they hardly overlap; its own federation is ``--set
factoriser=paper --set memory=literal --set discount=0``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.archetypes.factorize import METHODS
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, among, at_least, like, within
from hopfed.experiments.shared.federation import hopfield, play
from hopfed.experiments.shared.published import published_patterns
from hopfed.experiments.shared.silhouettes import decorrelate, load_silhouettes, spread
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import Panel, by_round, pictures
from hopfed.hopfield.channel import draw_examples
from hopfed.hopfield.plasticity import Fixed
from hopfed.hopfield.stream import ArchetypeStream

SHOWN = ("archetypes", "examples", "reconstructions")  # as pictures
MEMORY = "memory/patterns"
THE_PAPERS = 3  # three pictures are the paper's; other numbers are spread over all classes


class Config(Settings):
    """Settings."""

    data: Annotated[str, "file of silhouettes; empty for letters"] = ""
    pictures: Annotated[Ints, at_least(2), "in each set"] = (THE_PAPERS, THE_PAPERS, 13, 25)
    overlap: Annotated[Floats, within("(0, 1]"), like("pictures"), "most after decorrelation"] = (
        1.0, 0.1, 1.0, 1.0,
    )  # fmt: skip
    qualities: Annotated[Floats, within("(0, 1)"), "r of all clients, for each set"] = (0.6, 0.8)
    clients: Annotated[int, at_least(1)] = 3
    rounds: Annotated[int, at_least(1)] = 12
    examples: Annotated[int, lambda s: at_least(s.clients * s.rounds), "over all of them"] = 4_000
    weight: Annotated[float, "w, share of fresh data in what clients send"] = 0.6
    discount: Annotated[float, "share of the evidence that is left after a round"] = 1.0
    memory: Annotated[str, "separate, common or literal"] = "separate"
    factoriser: Annotated[str, among((*METHODS, "paper")), "of the server"] = "auto"
    seeds: int = 3

    @property
    def sets(self) -> dict[str, tuple[int, float, float]]:
        """Name of every set of pictures at every quality -> number, overlap and quality."""
        return {
            f"{K}{' decorrelated' * (overlap < 1)}, r={r:g}": (K, overlap, r)
            for K, overlap in zip(self.pictures, self.overlap, strict=True)
            for r in self.qualities
        }


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    """Play every set; every client sees all of its pictures, equally often."""
    arrays: Arrays = {}
    paper = config.factoriser == "paper"
    how: dict[str, Any] = {n: getattr(config, n) for n in ("discount", "memory")}
    how["factoriser"] = published_patterns if paper else config.factoriser
    how |= {"rule": Fixed(config.weight), "votes": not paper, "groups": 0 if paper else 4}
    cells = config.rounds * config.clients
    ends = np.arange(cells + 1) * config.examples // cells
    sizes = np.diff(ends).reshape(config.rounds, config.clients)  # eq. (24)
    for name, (K, overlap, r) in config.sets.items():
        patterns = _load(config.data, K)  # each seed decorrelates them differently
        xi = patterns if overlap == 1 else decorrelate(patterns, overlap, seed)
        mixtures = np.full((config.rounds, config.clients, K), 1 / K)
        source = ArchetypeStream(xi, mixtures, sizes, r, seed)
        method = hopfield(source, xi.shape[1], **how)

        def shown(_: str, t: int, before: Any, played: Any, xi: Any = xi, r: float = r) -> Arrays:  # noqa: ARG001
            """Pixels as bits, (K, N / 8): each archetype, an example of it, what is remembered."""
            rng, remembered = stream(seed, "pictures to show"), played.state.server[MEMORY]
            examples = np.concatenate([draw_examples(x[None], 1, r, rng)[0] for x in xi])
            best = np.full_like(xi, -1)
            if len(remembered):
                best = remembered[np.abs(xi.astype(np.int64) @ remembered.T).argmax(axis=1)]
            pairs = zip(SHOWN, (xi, examples, best), strict=True)
            return {name: np.packbits(pixels > 0, axis=1) for name, pixels in pairs}

        arrays |= play({name: method}, xi, (seed, config, engine), shown)
    return arrays


@lru_cache(maxsize=8)
def _load(data: str, K: int) -> np.ndarray:
    return load_silhouettes(data) if K == THE_PAPERS else spread(load_silhouettes(data, ()), K)


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Magnetisations, rounds until all are exact, and false discoveries."""
    summary: dict[str, Any] = {"source": "silhouettes" if config.data else "letters (no data=PATH)"}
    for name in config.sets:
        m = arrays[f"{name}/magnetisation"]
        summary[f"m/{name}"] = mean_and_sd(m[:, -1].mean(axis=1))
    false = np.stack([arrays[f"{name}/false"] for name in config.sets])
    return summary | {
        "lowest": float(min(arrays[f"{n}/magnetisation"][:, -1].min() for n in config.sets)),
        "false_last": int(false[..., -1].max()),
        "false_ever": int(false.max()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    """Pictures of the first seed, examples and found, and the lowest m (Figs. 9, 10)."""
    curves, mosaics = [], []
    for r in sorted(config.qualities):
        mine = {name: K for name, (K, _, quality) in config.sets.items() if quality == r}
        lines = {n.split(",")[0]: arrays[f"{n}/magnetisation"].min(axis=2) for n in mine}
        curves.append(by_round(f"lowest m, r = {r:g}", lines, ylim=(0.4, 1.03)))
        for name in sorted(mine, key=lambda n: -mine[n]):
            truth, shown, made = (arrays[f"{name}/{what}"][0] for what in SHOWN)
            mosaics += [
                pictures(f"examples: {name}", shown[0]),
                pictures(f"after 1 round: {name}", made[0], truth[0]),
                pictures(f"after {config.rounds}: {name}", made[-1], truth[0]),
            ]
    return [*mosaics[:3], *curves, *mosaics[3:]]
