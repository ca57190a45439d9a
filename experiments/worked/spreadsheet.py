"""From a spreadsheet to an answer for every row: 178 wines, 13 measurements each.

    python -m hopfed.experiments.worked.spreadsheet

Run it in an empty folder: it writes ``wines.csv``, as a spreadsheet would export it, with a name
and a grower for each bottle and some cells blank, and takes the steps below. The same on the
command line, with other names:

    hopfed recover wines.csv --ignore grower --binarize median --out run.h5 --figure run.png
    hopfed assign run.h5 wines.csv --out bottles.csv
    hopfed export run.h5 --out types.csv

The table is real (M. Forina et al., PARVUS, 1988; it comes with scikit-learn). The three growers
are never shown to the recovery; they only score it.
"""

from __future__ import annotations

import csv

import numpy as np

import hopfed

BLANK = 0.05  # share of the cells that are left out


def write_table() -> np.ndarray:
    """Worked example of a spreadsheet: write wines.csv, and return its growers (178,)."""
    from sklearn.datasets import load_wine

    wines = load_wine()
    gone = np.random.default_rng(0).random(wines.data.shape) < BLANK
    with open("wines.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["bottle", "grower", *wines.feature_names])
        for i, (grower, row) in enumerate(zip(wines.target, wines.data, strict=True)):
            cells = ["" if no else f"{x:g}" for x, no in zip(row, gone[i], strict=True)]
            out.writerow([f"bottle {i + 1}", f"grower {'ABC'[grower]}", *cells])
    return np.asarray(wines.target)


def main() -> tuple[hopfed.Archetypes, np.ndarray]:
    """Worked example, spreadsheet: archetypes of wines; bottles by archetype (K + 1, 3)."""
    growers = write_table()

    table = hopfed.read_table("wines.csv", ignore=["grower"], binarize="median")
    found = hopfed.recover(table)
    print(found.summary())
    archetype, probability = found.assign(table)
    whole = found.complete(table)
    found.to_csv("archetypes.csv")
    found.plot(path="wines.png")
    found.save("wines.h5")

    counts = np.zeros((len(found) + 1, 3), int)
    np.add.at(counts, (archetype, growers), 1)
    print("\nbottles of each grower, by archetype, and of none:")
    print(counts)
    print(f"surest of {probability.max():.1%}, least sure of {probability.min():.1%}")
    filled = whole.probability[whole.probability < 1]
    print(f"{filled.size} gaps filled, {filled.mean():.1%} expected to be right")
    return found, counts


if __name__ == "__main__":
    main()
