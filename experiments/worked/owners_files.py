"""Write the files of three owners: noisy letters, in three formats that `hopfed recover` reads.

Run it with ``python -m hopfed.experiments.worked.owners_files`` in an empty folder, and then
``hopfed recover museum.npy school.csv club.npz --shape 28x28 --figure archetypes.png``.
"""

import numpy as np

from hopfed._lib.random import stream
from hopfed.experiments.shared.silhouettes import choose_patterns, load_silhouettes
from hopfed.hopfield.channel import draw_examples

QUALITY = 0.6  # one pixel in five is flipped
SHARES = np.array([7, 6, 5, 4, 3, 2, 1]) / 28  # shares of seven letters; some are rare


def main() -> None:
    """Worked example of owners' files: draw every owner's examples and write them."""
    hidden = choose_patterns(load_silhouettes(classes=()), len(SHARES))  # 28 x 28 pixels each
    drawn = {}
    for name, rows in {"museum.npy": 400, "school.csv": 300, "club.npz": 500}.items():
        rng = stream(0, "owners_files", name)
        drawn[name] = draw_examples(hidden, rows, QUALITY, rng, exposures=SHARES)[0]
        print(f"{name}: {rows} examples of {len(SHARES)} letters")
    np.save("museum.npy", drawn["museum.npy"])
    np.savetxt("school.csv", drawn["school.csv"], fmt="%d", delimiter=",")
    np.savez_compressed("club.npz", examples=drawn["club.npz"])


if __name__ == "__main__":
    main()
