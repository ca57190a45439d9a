"""Closed-form random-matrix predictions in float64, on NumPy and SciPy alone.

Conventions: `M` examples of `N` sites, aspect ratio `q = N / M`, spectra of `(1/M) eta^T eta`,
spike strengths `kappa` in units of the bulk variance. Functions broadcast over their arguments
and raise `hopfed.errors.ArgumentError`, which names the argument and its rule. A module, and SciPy,
is imported when it is first needed.

marchenko_pastur : law of the bulk for white noise.
tracy_widom : law of its largest eigenvalue, exact and fast.
spikes : where an archetype's eigenvalue lands, how well its eigenvector aligns, and back.
spiked : the same at finite size, exactly, at, below and above the threshold.
ensembles : Wigner and Wishart matrices, real, complex and quaternion: all of it by name.
shrinkage : signals and covariances out of singular values and eigenvalues.
planning : what can be detected, and how many examples that takes.
resolution : how many examples tell it apart, entry by entry.
exposures : standard errors of the shares of archetypes, and of the quality.
study : how many examples show, count and resolve all archetypes of a study.
covariance : edge, threshold, support, density and spikes for noise of any covariance.
graded : latent classes of any binary data, with gaps, as spikes in coordinates of unit noise,
    which classes may share or not.
assignment : how surely rows get their class, and how well class means are known.
graded_planning : how many rows tell a class from the rest, and what they show of it.
private : what Gaussian noise for privacy costs in detectability.
discrete_gaussian : what integer noise of that kind guarantees.
profile : clients of different qualities, a variance profile over the samples.
tyler : robust shape matrix for heavy-tailed noise.
concentration : non-asymptotic bounds on the deviation of the operator.
storage : how many patterns associative memories hold, and how well they return them.
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
