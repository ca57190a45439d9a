"""Similar pictures are recovered to the last pixel.

The paper (arXiv:2603.19902, Section 5.3) flips pixels of three silhouettes until they hardly
overlap. Here the same federation gets the unchanged pictures, and then 13 and 25 of them, with the
same number of examples; letters without a file (`hopfed.experiments.shared.silhouettes`). The
paper's own federation is ``--set factoriser=paper --set memory=literal --set discount=0``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.archetypes.factorize import METHODS as FACTORISERS
from hopfed.experiments import Arrays
from hopfed.experiments.settings import Floats, Ints, Settings, among, at_least, within
from hopfed.experiments.shared.federation import play_variants
from hopfed.experiments.shared.silhouettes import Pictures, decorrelate, deflate, load_silhouettes
from hopfed.experiments.shared.statistics import mean_and_sd
from hopfed.federation.engines import Engine
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.channel import draw_examples
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.patterns import Patterns
from hopfed.hopfield.plasticity import Fixed
from hopfed.hopfield.stream import ArchetypeStream, budget

THE_PAPERS = 3  # three pictures are the paper's; other numbers are spread over all classes


@dataclass(frozen=True)
class Setting:
    """One federation of the experiment."""

    K: int
    overlap: float
    quality: float

    @property
    def name(self) -> str:
        """Name of its arrays and of its rows of the summary."""
        changed = {1.0: "", 0.0: " deflated"}.get(self.overlap, " decorrelated")
        return f"{self.K}{changed}, r={self.quality:g}"


@dataclass(frozen=True)
class Config(Settings):
    """Settings."""

    data: Annotated[str, "file of silhouettes; empty for letters"] = ""
    pictures: Annotated[Ints, at_least(2), "in each set"] = (THE_PAPERS, THE_PAPERS, 13, 25)
    overlap: Annotated[Floats, within("[0, 1]"), "most after decorrelation; 0 deflates"] = (
        1.0, 0.1, 1.0, 1.0,
    )  # fmt: skip
    qualities: Annotated[Floats, within("(0, 1)"), "r of all clients, for each set"] = (0.6, 0.8)
    clients: Annotated[int, at_least(1)] = 3
    rounds: Annotated[int, at_least(1)] = 12
    examples: Annotated[int, "over all rounds and clients"] = 4_000
    weight: Annotated[float, "w, share of fresh data in what clients send"] = 0.6
    discount: Annotated[float, "share of the evidence that is left after a round"] = 1.0
    memory: Annotated[str, "separate, common or literal"] = "separate"
    factoriser: Annotated[str, among(FACTORISERS), "of the server"] = "auto"
    seeds: int = 3

    def validate(self) -> None:
        """Refuse sets of one name, and rounds without an example."""
        self.same_length("pictures", "overlap")
        names = [setting.name for setting in self.settings()]
        own = len(set(names)) == len(names)
        require(own, "pictures", "a set of its own each", ", ".join(names))
        least = self.clients * self.rounds
        require(self.examples >= least, "examples", f"at least {least}, one each", self.examples)

    def settings(self) -> Iterator[Setting]:
        """Yield every set of pictures at every quality."""
        for K, overlap in zip(self.pictures, self.overlap, strict=True):
            for quality in self.qualities:
                yield Setting(K, overlap, quality)


PRESETS = {
    "quick": {
        "pictures": (3, 13), "overlap": (1.0, 1.0), "rounds": 3, "examples": 999, "seeds": 2,
    },
    "default": {},
    "paper": {"seeds": 10},
}  # fmt: skip
MINUTES = {"quick": 0.2, "default": 1.5, "paper": 4}
_PAPER = {"3 decorrelated, r=0.6": "less, varying", "3 decorrelated, r=0.8": "> .9"}
_NAMES = tuple(s.name for s in Config().settings())
COMPARED = {
    "source": "pictures",
    **{f"m/{s}": (f"{s}: m", _PAPER.get(s, ""), "1") for s in _NAMES},
    **{f"rounds/{s}": f"{s}: rounds until exact" for s in _NAMES},
    "lowest": ("lowest m of all, last round", "", "1"),
    "matched": ("lowest mean retrieval under a matching, last round", "", "1"),
    "frobenius": ("largest Frobenius error of the broadcast operator, last round", "", "0"),
    "false_last": ("false, last round, most", "", "0"),
    "false_ever": "false, any round, most",
}


def measure_round(
    seed: int, config: Config, t: int, state: Arrays | None, engine: Engine
) -> tuple[Arrays, Arrays]:
    """Play one round of every setting."""
    arrays: Arrays = {}
    after: Arrays = {}
    for setting in config.settings():
        xi = archetypes(config.data, setting.K, setting.overlap, seed)
        methods = {setting.name: _method(config, setting, xi, seed)}
        played, kept = play_variants(methods, xi, (seed, config, t, state, engine))
        after |= kept
        remembered = after[f"{setting.name}/server/memory/patterns"]
        pictures = _pictures(xi, remembered, setting.quality, seed)
        arrays |= played | {f"{setting.name}/{key}": value for key, value in pictures.items()}
    return arrays, after


def archetypes(data: str, K: int, overlap: float, seed: int) -> np.ndarray:
    """Return the K pictures as int8 (K, N) of +-1; each seed decorrelates them differently."""
    patterns = _load(data, K).patterns
    if overlap == 0:
        return deflate(patterns)
    return patterns if overlap == 1 else decorrelate(patterns, overlap, seed)


@lru_cache(maxsize=8)
def _load(data: str, K: int) -> Pictures:
    return load_silhouettes(data) if K == THE_PAPERS else load_silhouettes(data, ()).spread(K)


def _method(config: Config, setting: Setting, xi: np.ndarray, seed: int) -> HopfieldFederation:
    """One federation in which every client sees all pictures, equally often."""
    mixtures = np.full((config.rounds, config.clients, setting.K), 1 / setting.K)
    sizes = budget(config.examples, config.rounds, config.clients)
    paper = config.factoriser == "paper"
    how = {name: getattr(config, name) for name in ("discount", "memory", "factoriser")}
    how |= {"rule": Fixed(config.weight), "votes": not paper, "groups": 0 if paper else 4}
    source = ArchetypeStream(xi, mixtures, sizes, setting.quality, seed)
    return HopfieldFederation(source, Patterns(Encoding(xi.shape[1]), **how))


def _pictures(xi: np.ndarray, remembered: np.ndarray, quality: float, seed: int) -> Arrays:
    """Pixels as bits, (K, N / 8): each archetype, an example of it, and its reconstruction."""
    rng = stream(seed, "pictures to show")
    examples = np.concatenate([draw_examples(x[None], 1, quality, rng)[0] for x in xi])
    best = np.full_like(xi, -1)
    if len(remembered):
        overlaps = xi.astype(np.int64) @ remembered.T
        best = remembered[np.abs(overlaps).argmax(axis=1)]
    shown = {"archetypes": xi, "examples": examples, "reconstructions": best}
    return {name: np.packbits(pixels > 0, axis=1) for name, pixels in shown.items()}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    """Magnetisations, rounds until all are exact, and false discoveries."""
    source = "silhouettes" if config.data else "letters (no data=PATH)"
    summary: dict[str, Any] = {"source": source}
    names = [setting.name for setting in config.settings()]
    for name in names:
        m = arrays[f"{name}/magnetisation"]
        summary[f"m/{name}"] = mean_and_sd(m[:, -1].mean(axis=1))
        summary[f"rounds/{name}"] = mean_and_sd(rounds_until(m.min(axis=2) == 1))
    false = np.stack([arrays[f"{name}/false"] for name in names])
    return summary | {
        "lowest": float(min(arrays[f"{name}/magnetisation"][:, -1].min() for name in names)),
        "matched": float(min(arrays[f"{n}/matched"][:, -1].mean(axis=1).min() for n in names)),
        "frobenius": float(max(arrays[f"{n}/frobenius"][:, -1].max() for n in names)),
        "false_last": int(false[..., -1].max()),
        "false_ever": int(false.max()),
    }


def rounds_until(holds: np.ndarray) -> np.ndarray:
    """Rounds after which `holds`, bool (seeds, rounds), stays True; NaN if the last is False."""
    lasting = np.logical_and.accumulate(holds[:, ::-1], axis=1)[:, ::-1]
    first = lasting.argmax(axis=1) + 1.0
    return np.where(lasting.any(axis=1), first, np.nan)
