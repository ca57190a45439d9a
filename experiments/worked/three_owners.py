"""Recover prototypes held by three owners who may not pool their records.

    python -m hopfed.experiments.worked.three_owners

Each owner has yes/no records of 300 questions. The respondents belong to six unknown types; an
answer follows the type four times in five. The owners see the types in different shares, and the
third owner does not see the sixth type at all.
"""

from __future__ import annotations

import numpy as np

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.hopfield.channel import draw_examples, rademacher

SHARES = (
    (0.40, 0.20, 0.15, 0.10, 0.10, 0.05),
    (0.10, 0.10, 0.20, 0.20, 0.20, 0.20),
    (0.30, 0.30, 0.20, 0.10, 0.10, 0.00),
)


def owners_data(types: np.ndarray, seed: int) -> list[np.ndarray]:
    """Records (400, N) of each owner; in practice these are files that stay where they are."""
    rng = np.random.default_rng(seed)
    quality = 2 * 0.8 - 1  # an answer agrees with the type with probability (1 + r) / 2
    return [draw_examples(types, 400, quality, rng, exposures=np.array(s))[0] for s in SHARES]


def main(seed: int = 0) -> hopfed.Archetypes:
    """Recover the types, and compare them with the truth, which no owner knows."""
    types = rademacher(6, 300, np.random.default_rng(seed + 1))
    found = hopfed.recover(owners_data(types, seed), seed=seed)
    print(found.status)
    print(
        f"{found.n_detected} types stand above the noise; an answer follows its type with "
        f"probability {(1 + found.quality) / 2:.2f}"
    )

    match = retrieval(found.patterns, types)  # only for this check: it uses the truth
    for k, m in enumerate(match.magnetisation):
        share = np.mean([s[k] for s in SHARES])
        print(f"type {k}: {share:.0%} of the records, {(1 + m) / 2:.1%} of its answers recovered")
    print(f"made up: {match.false_discoveries}")
    return found


if __name__ == "__main__":
    main()
