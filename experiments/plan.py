"""Share of studies of the planned size that keep their promises (theory/study.py)."""

from functools import lru_cache
from itertools import product
from typing import Annotated, Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments import Arrays
from hopfed.experiments.machinery.settings import Floats, Ints, Settings, at_least, within
from hopfed.experiments.shared.statistics import format_by_name
from hopfed.figures.kinds import Panel, error_bars
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.recovery.recover import recover
from hopfed.spectral.rank import Sample, TracyWidom
from hopfed.theory.study import PROMISES, promises

ERRORS = 2.0  # binomial standard errors within which a promise counts as kept


class Config(Settings):
    N: Annotated[Ints, at_least(50), "numbers of sites"]
    K: Annotated[Ints, lambda s: within(f"[1, {min(50, *s.N)})"), "numbers of archetypes"]
    qualities: Annotated[Floats, within("(0, 1)"), "r of the examples"]
    power: Annotated[float, within("(0, 1)"), "promised probability"]

    @property
    def kinds(self) -> list[tuple[int, int, float]]:
        """Kinds of study: sites, archetypes, quality."""
        return list(product(self.N, self.K, self.qualities))


_planned = lru_cache(maxsize=1024)(
    lambda N, K, r, power: promises(r, np.full(K, 1 / K), N, power).samples
)


def measure(seed: int, config: Config, device: str = "cpu") -> Arrays:
    """Experiment `plan`: planned sizes (kinds, promises), and the result of one table of each."""
    sizes, shown = np.zeros((2, len(config.kinds), len(PROMISES)))
    for (i, (N, K, r)), (j, promise) in product(enumerate(config.kinds), enumerate(PROMISES)):
        sizes[i, j] = M = int(_planned(N, K, r, config.power)[promise])
        rng = stream(seed, "plan", N, K, f"{r:g}", promise)
        xi = rademacher(K, N, rng)
        rows, _ = draw_examples(xi, M, r, rng, exposures=np.full(K, 1 / K))
        if promise == "resolved":
            shown[i, j] = recover(rows, seed=seed, device=device).status in ("ok", "one class")
        else:
            x = rows.astype(np.float64)
            values = np.linalg.eigvalsh(x @ x.T if M < N else x.T @ x)[::-1] / M
            count = min(TracyWidom()(Sample(np.maximum(values, 0), N, M)).n_detected, K)
            shown[i, j] = count / K if promise == "seen" else count == K
    return {"sizes": sizes, "shown": shown}


def summarise(config: Config, arrays: Arrays) -> dict[str, Any]:
    frequency = arrays["shown"].mean(axis=0)
    error = np.sqrt(config.power * (1 - config.power) / len(arrays["shown"]))
    kept = (frequency >= config.power - ERRORS * error).sum(axis=0)
    return {
        **dict(zip(PROMISES, frequency.mean(axis=0).tolist(), strict=True)),
        "kept": format_by_name(PROMISES, kept, f"{{}} {{}} of {len(frequency)}"),
        "lowest": format_by_name(PROMISES, frequency.min(axis=0)),
        "error": float(error),
        "frequencies": frequency.tolist(),
        "sizes": arrays["sizes"][0].tolist(),
        "kinds": [f"N={N} K={K} r={r:g}" for N, K, r in config.kinds],
    }


def panels(config: Config, arrays: Arrays, summary: dict[str, Any]) -> list[Panel]:
    found, near = np.array(summary["frequencies"]), ERRORS * summary["error"]
    band, made = (config.power - near, min(config.power + near, 1)), []
    for j, title in enumerate(("each is seen", "all are counted", "all are resolved")):
        sizes = arrays["sizes"][0, :, j]
        rows = [f"{kind} M={M:,.0f}" for kind, M in zip(summary["kinds"], sizes, strict=True)]
        marks = {"frequency": (found[:, j], 0 * found[:, j])}
        made.append(error_bars(title, rows, marks, level=config.power, band=band, xlabel="share"))
    return made
