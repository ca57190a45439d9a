"""Write the files of three owners: noisy letters, in three formats that `hopfed recover` reads.

Run it with ``python -m hopfed.experiments.worked.owners_files`` in an empty folder, and then
``hopfed recover museum.npy school.csv club.npz --shape 28x28 --figure archetypes.png``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments.shared.silhouettes import load_silhouettes, spread
from hopfed.hopfield.channel import draw_examples

LETTERS = 7
QUALITY = 0.6  # one pixel in five is flipped
SHARES = np.array([7, 6, 5, 4, 3, 2, 1]) / 28  # shares of the letters; some are rare
ROWS = {"museum.npy": 400, "school.csv": 300, "club.npz": 500}


def main(folder: str | Path = ".") -> None:
    """Draw every owner's examples and write them to `folder`."""
    hidden = spread(load_silhouettes(classes=()), LETTERS)  # of 28 x 28 pixels
    for name, rows in ROWS.items():
        rng = stream(0, "owners_files", name)
        examples, _ = draw_examples(hidden, rows, QUALITY, rng, exposures=SHARES)
        path = Path(folder) / name
        if path.suffix == ".npy":
            np.save(path, examples)
        elif path.suffix == ".csv":
            np.savetxt(path, examples, fmt="%d", delimiter=",")
        else:
            np.savez_compressed(path, examples=examples)
        print(f"{name}: {rows} examples of {LETTERS} letters")


if __name__ == "__main__":
    main()
