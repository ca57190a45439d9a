"""Write files to store and recall: the alphabet, damaged letters, woven letters and a mixture.

The projector recalls plain letters, although they are similar. To separate a mixture, layers repel
each other towards different patterns, which must not be similar. So each woven letter has stripes
of its own direction as background, and no two overlap by more than .15.

Run it with ``python -m hopfed.experiments.worked.woven_letters`` in an empty folder, and then

    hopfed store letters.npy --out letters.h5
    hopfed recall letters.h5 damaged.npy --free --shape 32x32 --figure recalled.png
    hopfed store woven.npy --out woven.h5 --rule layered
    hopfed recall woven.h5 mixture.npy --temperature 0.1:0 --shape 48x48 --figure apart.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments.shared.silhouettes import LETTERS, render_letters

PLAIN, SIZE = 32, 48  # pixels of a side
SHOWN = "HOPFED"  # the damaged letters
FLIPPED = 0.25
WOVEN = "MIXTUR"
WAVES = ((0, 12), (12, 0), (9, 9), (9, -9), (5, 12), (12, 5))  # stripes to the right and down
MIXED = 3


def woven() -> np.ndarray:
    """Letters with stripes as background, int8 (6, 48 * 48)."""
    letters = render_letters(SIZE)[[LETTERS.index(c) for c in WOVEN]]
    right, down = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    stripes = [
        np.where(np.sin(2 * np.pi * (a * right + b * down) / SIZE + 0.4) >= 0, 1, -1).ravel()
        for a, b in WAVES
    ]
    return np.where(letters > 0, 1, stripes).astype(np.int8)


def main(folder: str | Path = ".") -> None:
    """Write letters.npy, damaged.npy, woven.npy and mixture.npy to `folder`."""
    letters = render_letters(PLAIN)
    chosen = letters[[LETTERS.index(c) for c in SHOWN]]
    flips = stream(0, "woven_letters").random(chosen.shape) < FLIPPED
    damaged = np.where(flips, -chosen, chosen)
    damaged[3:, : PLAIN * PLAIN // 2] = 0  # the last three lack their upper half
    xi = woven()
    mixture = np.where(xi[:MIXED].sum(axis=0) > 0, 1, -1).astype(np.int8)
    rows = {"letters": letters, "damaged": damaged, "woven": xi, "mixture": mixture[None]}
    for name, table in rows.items():
        np.save(Path(folder) / f"{name}.npy", table)
    print(f"letters.npy: the alphabet, {PLAIN} x {PLAIN} pixels")
    print(f"damaged.npy: {FLIPPED:.0%} of the pixels of {', '.join(SHOWN)} flipped; "
          "three without their upper half")  # fmt: skip
    print(f"woven.npy: {', '.join(WOVEN)} before stripes, {SIZE} x {SIZE} pixels")
    print(f"mixture.npy: pixel by pixel the majority of {', '.join(WOVEN[:MIXED])}")


if __name__ == "__main__":
    main()
