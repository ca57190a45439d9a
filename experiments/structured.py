"""Similar pictures, recovered by a federation to the last pixel; letters without a file."""

from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, at_least, like, within
from hopfed.experiments.shared.hopfield_variants import make_federation, play_variants
from hopfed.experiments.shared.silhouettes import choose_patterns, decorrelate, load_silhouettes
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.contract import Engine
from hopfed.figures.kinds import Panel, mosaic, round_plot
from hopfed.hopfield.channel import draw_examples
from hopfed.hopfield.plasticity import Fixed

SHOWN = ("archetypes", "examples", "reconstructions")  # arrays that are drawn as pictures
CLIENTS = 3
THE_PAPERS = 3  # three pictures are the paper's; other numbers are spread over all classes
HOW: dict[str, Any] = {"rule": Fixed(0.6), "discount": 1.0}  # all evidence is kept


class Config(Settings):
    data: Annotated[str, "file of silhouettes; empty for letters"]
    pictures: Annotated[Ints, at_least(2), "number in each set"]
    overlap: Annotated[Floats, within("(0, 1]"), like("pictures"), "largest one allowed"]
    qualities: Annotated[Floats, within("(0, 1)"), "r of all clients, for each set"]
    rounds: Annotated[int, at_least(1)]
    examples: Annotated[int, lambda s: at_least(CLIENTS * s.rounds), "total number"]

    @property
    def sets(self) -> dict[str, tuple[int, float, float]]:
        """Name of every set of pictures at every quality -> number, overlap and quality."""
        return {
            f"{K}{' decorrelated' * (overlap < 1)}, r={r:g}": (K, overlap, r)
            for K, overlap in zip(self.pictures, self.overlap, strict=True)
            for r in self.qualities
        }


def measure(seed: int, config: Config, engine: Engine) -> Arrays:
    cells = config.rounds * CLIENTS
    sizes = np.diff(np.arange(cells + 1) * config.examples // cells)  # eq. (24)
    how = HOW | {"examples": sizes.reshape(config.rounds, CLIENTS)}

    def shown(method: Any, t: int, before: Any, played: Any) -> Arrays:  # noqa: ARG001
        """Pixels as bits, (K, N / 8): archetypes, an example of each, remembered patterns."""
        xi, r = method.source.archetypes, float(method.source.qualities[0])
        rng, found = stream(seed, "pictures to show"), played.state.server["memory/patterns"]
        examples = np.concatenate([draw_examples(x[None], 1, r, rng)[0] for x in xi])
        best = np.full_like(xi, -1)
        if len(found):
            best = found[np.abs(xi.astype(np.int64) @ found.T).argmax(axis=1)]
        pairs = zip(SHOWN, (xi, examples, best), strict=True)
        return {name: np.packbits(pixels > 0, axis=1) for name, pixels in pairs}

    arrays: Arrays = {}
    three, every = load_silhouettes(config.data), load_silhouettes(config.data, ())
    for name, (K, overlap, r) in config.sets.items():
        patterns = three if K == THE_PAPERS else choose_patterns(every, K)
        xi = patterns if overlap == 1 else decorrelate(patterns, overlap, seed)
        method = make_federation(config, xi, seed, quality=r, clients=CLIENTS, **how)
        arrays |= play_variants({name: method}, xi, (seed, config, engine), shown, clients=CLIENTS)
    return arrays


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    last = {name: arrays[f"{name}/magnetisation"][:, -1] for name in config.sets}
    false = np.stack([arrays[f"{name}/false"] for name in config.sets])
    return {
        "source": "silhouettes" if config.data else "letters (no data=PATH)",
        **{f"m/{name}": mean_and_sd(m.mean(axis=1)) for name, m in last.items()},
        "lowest": float(min(m.min() for m in last.values())),
        "false_last": int(false[..., -1].max()),
        "false_ever": int(false.max()),
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:  # noqa: ARG001
    name = max(config.sets, key=lambda n: (config.sets[n][0], -config.sets[n][2]))
    truth, shown, found = (arrays[f"{name}/{kind}"][0] for kind in SHOWN)
    made = [
        mosaic(f"examples: {name}", shown[0]),
        mosaic(f"after 1 round: {name}", found[0], truth[0]),
        mosaic(f"after {config.rounds}: {name}", found[-1], truth[0]),
    ]
    for r in sorted(config.qualities):
        mine = [n for n, (_, _, quality) in config.sets.items() if quality == r]
        lines = {n.split(",")[0]: arrays[f"{n}/magnetisation"].min(axis=2) for n in mine}
        made.append(round_plot(f"lowest m, r = {r:g}", lines, ylim=(0.4, 1.03)))
    return made
