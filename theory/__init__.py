"""Closed-form random-matrix predictions in float64, on NumPy and SciPy alone.

Conventions: `M` examples of `N` sites, aspect ratio `q = N / M`, spectra of `(1/M) eta^T eta`,
spike strengths `kappa` in units of the bulk variance. Functions broadcast over their arguments
and raise `hopfed.errors.ArgumentError`, which names the argument and its rule. Each module, and
SciPy, is imported on first use.

marchenko_pastur : law of the bulk for white noise.
tracy_widom : law of the largest eigenvalue of noise, exact and fast.
spikes : eigenvalue and eigenvector alignment of an archetype, and the inverse.
spiked : exact draws at finite size, at, below and above the threshold.
ensembles : Wigner and Wishart matrices, real, complex and quaternion, by name.
shrinkage : signals from singular values, and covariances from eigenvalues.
planning : detection limits, and the number of examples that detection takes.
resolution : number of examples that recovers an archetype entry by entry.
exposures : standard errors of the shares of archetypes, and of the quality.
study : number of examples that shows, counts and resolves all archetypes of a study.
covariance : edge, threshold, support, density and spikes for noise of any covariance.
graded : latent classes of any binary data with missing entries, as spikes in coordinates of
    unit noise; the noise may differ between classes.
assignment : accuracy of assigning rows to classes, and errors of class means.
graded_planning : number of rows that detects a class, and predictions at that number.
private : cost in detectability of Gaussian noise for privacy.
discrete_gaussian : privacy guarantee of integer noise.
profile : clients of different qualities, a variance profile over the samples.
tyler : robust shape matrix for heavy-tailed noise.
concentration : non-asymptotic bounds on the deviation of the operator.
storage : capacity of associative memories, and quality of retrieval.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(m.name for m in iter_modules(__path__) if not m.name.startswith("_"))
