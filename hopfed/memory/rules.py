"""Rules that define an energy from patterns: six frozen dataclasses, found by name.

With patterns ``xi`` (K, N), ``J`` an (N, N) matrix of couplings that is never formed:

    hebb         J = xi^T xi / N
    projector    J = xi^T (xi xi^T)^-1 xi, the projector on the span of the patterns
    dreamed      (1 + t) J (1 + t J)^-1 of Hebb's J: t = 0 is Hebb, t to infinity the projector
    layered      L copies of the spins with such a J, which repel each other
    dense        -(N / n) sum_mu (xi_mu . s / N)^n instead of the quadratic energy
    exponential  -(1 / beta) log sum_mu exp(beta xi_mu . s)

See theory/NOTES.md, Projector kernel, Closed form of dreaming, Energies of the layered memory, and
Recall energies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hopfed._lib.arrays import Array, namespace
from hopfed._lib.settings import check_types, hint, require
from hopfed.kernels.dense import COLDEST, HIGHEST
from hopfed.kernels.layered import COUPLINGS


@dataclass(frozen=True)
class Rule:
    """Common part of all rules: a name, and whether the energy is quadratic in the spins.

    >>> [rule.name for rule in RULES.values() if rule.quadratic]
    ['hebb', 'projector', 'dreamed', 'layered']
    """

    name: ClassVar[str] = ""
    quadratic: ClassVar[bool] = True

    @property
    def time(self) -> float:
        """Dreaming time of the couplings: `t` of rules that have it; infinite for the projector."""
        return float(getattr(self, "t", 0.0))


@dataclass(frozen=True)
class Hebb(Rule):
    """Hebb's rule: capacity .138 N patterns (Amit, Gutfreund, Sompolinsky 1985).

    >>> Hebb().time
    0.0
    """

    name: ClassVar[str] = "hebb"


@dataclass(frozen=True)
class Projector(Rule):
    """Pseudo-inverse rule: fewer than N linearly independent patterns are all fixed points.

    Basins shrink with the load: random patterns are all recalled from 10% flipped sites at a load
    of .3, and none from 20% at .5. N independent patterns have no basins (`advice` of the memory).

    >>> Projector().time
    inf
    """

    name: ClassVar[str] = "projector"

    @property
    def time(self) -> float:
        """Dreaming time of the projector: infinite."""
        return float("inf")


@dataclass(frozen=True)
class Dreamed(Rule):
    """Hebb's couplings after dreaming (Fachechi, Agliari, Barra 2019).

    The capacity rises with the dreaming time t, at least 0: .138 N random patterns at 0, .387 N at
    1, the default, and .870 N at 10 (`hopfed theory capacity`).

    >>> Dreamed(-1.0)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: t must be at least 0, got -1.0
    """

    name: ClassVar[str] = "dreamed"
    t: float = 1.0

    def __post_init__(self) -> None:
        number = isinstance(self.t, (int, float)) and not isinstance(self.t, bool)
        require(number, "t", "a number", repr(self.t))  # inf is the projector
        require(self.t >= 0, "t", "at least 0", self.t)


def dream(eigenvalues: Array, t: float) -> Array:
    """Rule of dreaming: eigenvalues sharpened to ``(1 + t) lam / (1 + t lam)`` after time `t`.

    ``t = 0`` is Hebb's rule; ``t -> inf`` the projector on the range of J (t = inf is allowed).
    It is the closed form of the iteration ``J <- J + eps_n (J - J^2)`` of arXiv:2603.19902, eqs.
    (17), (53) to (56), and the kernel ``(1 + t) J (I + t J)^-1`` of Fachechi, Agliari and Barra
    (theory/NOTES.md, "Closed form of dreaming").

    >>> dream(np.array([0.0, 0.5, 1.0]), 2.0)
    array([0.  , 0.75, 1.  ])
    """
    require(t >= 0, "t", "a dreaming time, at least 0", t)
    xp = namespace(eigenvalues)
    if np.isinf(t):
        return xp.astype(eigenvalues > 0, eigenvalues.dtype)
    return (1 + t) * eigenvalues / (1 + t * eigenvalues)


MOST = 1_000  # largest number of layers


@dataclass(frozen=True)
class Layered(Rule):
    """Layers with common couplings that repel each other towards different patterns.

    From a mixture of three patterns the layers find all three if the noise is annealed from a
    temperature that suits the repulsion: at N = 600 in a share of .96 with 3 patterns stored
    (repulsion .4, from T = .1), .91 with 10 (.3, .15), .80 with 20 (.3, .1), .42 with 40 (.2, .1);
    without noise or without repulsion, hardly ever (`hopfed run disentangle`).

    Attributes
    ----------
    layers : L, 1 to 1,000; the limit keeps a small file from demanding many states per cue.
    repulsion : lambda, in [0, 1 / (L - 1)).
    coupling : "quadratic" or "linear" in the overlap of two layers (arXiv:2603.19902, eqs. (6)
        and (8)).
    t : dreaming time of the couplings; infinite for the projector, the best in measurements.

    >>> Layered(layers=3, repulsion=0.7)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: repulsion must be in [0, 0.5), got 0.7
    >>> Layered(2, 0.2).matrix.tolist()
    [[1.0, -0.2], [-0.2, 1.0]]
    """

    name: ClassVar[str] = "layered"
    layers: int = 3
    repulsion: float = 0.45
    coupling: str = "quadratic"
    t: float = float("inf")

    def __post_init__(self) -> None:
        check_types(self)
        require(1 <= self.layers <= MOST, "layers", f"in 1 .. {MOST:,}", self.layers)
        most = 1 / (self.layers - 1) if self.layers > 1 else float("inf")
        require(0 <= self.repulsion < most, "repulsion", f"in [0, {most:g})", self.repulsion)
        known = f"one of {', '.join(COUPLINGS)}"
        require(self.coupling in COUPLINGS, "coupling", known, repr(self.coupling))
        require(self.t >= 0, "t", "at least 0", self.t)

    @property
    def matrix(self) -> np.ndarray:
        """Couplings g (L, L) of the layers: 1 on the diagonal and -lambda off it."""
        return (1 + self.repulsion) * np.eye(self.layers) - self.repulsion


@dataclass(frozen=True)
class Dense(Rule):
    """Dense memory: a power of every overlap (Krotov, Hopfield 2016, arXiv:1606.01164).

    The power n is 2 to 30; 2 is Hebb's rule. If it is odd, a pattern and its negative cancel
    (`advice` of the memory warns of it).

    >>> Dense(1)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: n must be in 2 .. 30, got 1
    """

    name: ClassVar[str] = "dense"
    quadratic: ClassVar[bool] = False
    n: int = 3

    def __post_init__(self) -> None:
        check_types(self)
        require(2 <= self.n <= HIGHEST, "n", f"in 2 .. {HIGHEST}", self.n)


@dataclass(frozen=True)
class Exponential(Rule):
    """Exponential memory; one step is attention (Ramsauer et al., arXiv:2008.02217).

    `beta` is the inverse temperature of the weights, in (0, 300]; for graded patterns 1 is Bayes'
    rule.

    >>> Exponential(0.0)
    Traceback (most recent call last):
        ...
    hopfed.errors.ArgumentError: beta must be in (0, 300], got 0.0
    """

    name: ClassVar[str] = "exponential"
    quadratic: ClassVar[bool] = False
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_types(self)
        require(0 < self.beta <= COLDEST, "beta", f"in (0, {COLDEST:g}]", self.beta)


Overlapping = Dense | Exponential  # energies that are sums over overlaps with single patterns

RULES: dict[str, type[Rule]] = {
    rule.name: rule for rule in (Hebb, Projector, Dreamed, Layered, Dense, Exponential)
}


def rule_named(rule: str | Rule) -> Rule:
    """Return the memory's rule of a name with default settings; a rule is returned unchanged.

    >>> rule_named("dense"), rule_named(Dense(4))
    (Dense(n=3), Dense(n=4))
    """
    if isinstance(rule, Rule):
        return rule
    known = f"one of {', '.join(RULES)}{hint(str(rule), RULES)}"
    require(rule in RULES, "rule", known, repr(rule))
    return RULES[rule]()


def capacity(rule: Rule, n_sites: int) -> float:
    """Largest load K / n_sites at which theory recalls random patterns by a rule; NaN for layers.

    >>> [round(capacity(rule, 100), 3) for rule in (Hebb(), Projector(), Dense(3))]
    [0.138, 1.0, 8.406]
    """
    from hopfed.theory import storage

    if isinstance(rule, Layered):
        return float("nan")
    if isinstance(rule, Exponential):
        rate = float(storage.exponential_capacity(rule.beta))
        return float(np.exp(min(n_sites * rate, 700.0))) / n_sites
    if isinstance(rule, Dense) and rule.n > 2:
        unit = float(n_sites) ** (rule.n - 1) / float(storage.pairings(rule.n))
        return storage.dense_capacity(rule.n) * unit / n_sites
    return float(storage.capacity(rule.time))
