"""Write files to store and recall: the alphabet, damaged letters, woven letters and a mixture.

The projector recalls plain letters, although they are similar. Layers that take a mixture apart
repel each other: woven letters have stripes as background, and overlap by .15 at most.

Run it with ``python -m hopfed.experiments.worked.woven_letters`` in an empty folder, and then

    hopfed store letters.npy --out letters.h5
    hopfed recall letters.h5 damaged.npy --free --shape 32x32 --figure recalled.png
    hopfed store woven.npy --out woven.h5 --rule layered
    hopfed recall woven.h5 mixture.npy --temperature 0.1:0 --shape 48x48 --figure apart.png
"""

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments.shared.silhouettes import LETTERS, render_letters

PLAIN, SIZE = 32, 48  # pixels of a side
SHOWN, WOVEN = "HOPFED", "MIXTUR"
FLIPPED = 0.25
WAVES = ((0, 12), (12, 0), (9, 9), (9, -9), (5, 12), (12, 5))  # stripes to the right and down


def weave_letters() -> np.ndarray:
    """Woven letters of the worked example: stripes are the background, int8 (6, 48 * 48)."""
    letters = render_letters(SIZE)[[LETTERS.index(c) for c in WOVEN]]
    right, down = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    waves = [np.sin(2 * np.pi * (a * right + b * down) / SIZE + 0.4).ravel() for a, b in WAVES]
    return np.where((letters > 0) | (np.array(waves) >= 0), 1, -1).astype(np.int8)


def main() -> None:
    """Worked example of woven letters: write letters, damaged, woven and mixture, each a .npy."""
    letters, xi = render_letters(PLAIN), weave_letters()
    chosen = letters[[LETTERS.index(c) for c in SHOWN]]
    flips = stream(0, "woven_letters").random(chosen.shape) < FLIPPED
    damaged = np.where(flips, -chosen, chosen)
    damaged[3:, : PLAIN * PLAIN // 2] = 0
    mixture = np.sign(xi[:3].sum(axis=0, dtype=np.int8))
    for name, rows, words in (
        ("letters", letters, f"the alphabet, {PLAIN} x {PLAIN} pixels"),
        ("damaged", damaged, f"{SHOWN}: {FLIPPED:.0%} flipped; three lack their upper half"),
        ("woven", xi, f"{WOVEN} before stripes, {SIZE} x {SIZE} pixels"),
        ("mixture", mixture[None], f"pixel by pixel the majority of {', '.join(WOVEN[:3])}"),
    ):
        np.save(f"{name}.npy", rows)
        print(f"{name}.npy: {words}")


if __name__ == "__main__":
    main()
