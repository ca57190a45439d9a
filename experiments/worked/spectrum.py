"""From a matrix to its components: structure beyond noise, beside the predictions of theory.

    python -m hopfed.experiments.worked.spectrum

A matrix of 400 rows and 200 columns holds three components in noise: a strong one, a weak one, and
one that is too weak for any test. `hopfed.spectrum` counts them; the exact law of spiked matrices
says beforehand how often each is found, and how much of it its eigenvector holds.
"""

from __future__ import annotations

import numpy as np

import hopfed
from hopfed.theory import spiked

ROWS, COLUMNS = 400, 200
STRENGTHS = np.array([4.0, 1.2, 0.3])  # in units of the noise variance


def main() -> None:
    """Worked example of a spectrum: count components, print them beside theory, and draw it."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((COLUMNS, 3)))[0].T
    amounts = rng.standard_normal((ROWS, 3)) * np.sqrt(STRENGTHS)
    found = hopfed.spectrum(rng.standard_normal((ROWS, COLUMNS)) + amounts @ directions)
    law = spiked.predict(STRENGTHS, COLUMNS, ROWS, false_alarm=0.01)
    print(f"{found.n_components} components, status {found.status}")
    for k, strength in enumerate(STRENGTHS):
        print(
            f"strength {strength}: eigenvalue {found.eigenvalues[k]:.2f}, foreseen "
            f"{law.eigenvalue[k]:.2f} +- {law.eigenvalue_sd[k]:.2f}; found in {law.power[k]:.0%} "
            f"of draws, with an overlap of {law.overlap[k, k]:.2f}"
        )
    found.plot().savefig("spectrum.pdf")


if __name__ == "__main__":
    main()
