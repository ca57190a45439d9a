"""From a matrix to its components: what noise does not explain, and what theory foresees of them.

    python -m hopfed.experiments.worked.spectrum

A matrix of 400 rows and 200 columns holds three components in noise: a strong one, a weak one, and
one that is too weak for any test. `hopfed.spectrum` counts them; the exact law of spiked matrices
says beforehand how often each is found, and how much of it its eigenvector holds.
"""

from __future__ import annotations

import numpy as np

import hopfed
from hopfed.spectral.spectrum import Spectrum
from hopfed.theory import spiked, spikes

ROWS, COLUMNS = 400, 200
STRENGTHS = np.array([4.0, 1.2, 0.3])  # in units of the noise variance
LEVEL = 0.01


def matrix(seed: int = 0) -> np.ndarray:
    """Gaussian noise with three components of random directions, (ROWS, COLUMNS)."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((COLUMNS, len(STRENGTHS))))[0].T
    amounts = rng.standard_normal((ROWS, len(STRENGTHS))) * np.sqrt(STRENGTHS)
    return rng.standard_normal((ROWS, COLUMNS)) + amounts @ directions


def main() -> Spectrum:
    """Count the components of a matrix, print them beside theory, and draw the spectrum."""
    foreseen = spiked.predict(STRENGTHS, COLUMNS, ROWS, false_alarm=LEVEL)
    found = hopfed.spectrum(matrix(), level=LEVEL)
    threshold = float(spikes.threshold(COLUMNS / ROWS))
    print(f"{found.n_components} components, status {found.status}; threshold {threshold:.2f}")
    print("strength  eigenvalue  foreseen       found in  overlap")
    for k, strength in enumerate(STRENGTHS):
        law = f"{foreseen.eigenvalue[k]:.2f} +- {foreseen.eigenvalue_sd[k]:.2f}"
        chance, overlap = foreseen.power[k], foreseen.overlap[k, k]
        print(f"{strength:8}  {found.eigenvalues[k]:10.2f}  {law}  {chance:9.0%}  {overlap:7.2f}")
    found.plot().savefig("spectrum.pdf")
    return found


if __name__ == "__main__":
    main()
