"""Plan a study: the number of records that shows a rare prototype, and a check by simulation.

    python -m hopfed.experiments.worked.plan_a_study

A type makes up 2% of the respondents of a questionnaire of 400 items; an answer follows the
respondent's type four times in five. Theory gives the numbers of records for a 90% chance of seeing
all types, and of knowing every answer of theirs. Simulated studies of half, once and twice the
first number check the prediction. On the command line the first part is
``hopfed theory plan --r 0.6 --N 400 --exposure 0.49,0.49,0.02``.
"""

from __future__ import annotations

import numpy as np

import hopfed
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.theory.study import Study, promises

SITES, QUALITY = 400, 0.6
SHARES = np.array([0.49, 0.49, 0.02])


def chance(size: int) -> float:
    """Probability, by theory, that the rare type exceeds the threshold of the count."""
    return Study(QUALITY, SHARES, SITES).powers(size)["all"]


def seen(size: int, seed: int) -> bool:
    """Simulate one study; return whether all three types exceed the noise."""
    rng = np.random.default_rng(seed)
    types = rademacher(len(SHARES), SITES, rng)
    records, _ = draw_examples(types, size, QUALITY, rng, exposures=SHARES)
    return hopfed.recover(records, seed=seed).n_detected == len(SHARES)


def main(studies: int = 40) -> list[tuple[int, float, float]]:
    """Compare theory and simulation at three sizes: (records, predicted, observed)."""
    plan = promises(QUALITY, SHARES, SITES, power=0.9).samples
    needed, resolved = int(plan["all"]), int(plan["resolved"])
    print(f"theory, for a chance of 90%: {needed} records show all types, {resolved} resolve them")
    rows = []
    for size in (needed // 2, needed, 2 * needed):
        share = float(np.mean([seen(size, seed) for seed in range(studies)]))
        rows.append((size, chance(size), share))
        print(
            f"{size:6} records: predicted {rows[-1][1]:.2f}, "
            f"seen in {share:.2f} of {studies} simulated studies"
        )
    return rows


if __name__ == "__main__":
    main()
