"""The associative memory: patterns are stored by a rule, and recalled from parts of themselves.

Nothing of size N x N is formed. The quadratic rules hold a factor of their couplings with one
column for a pattern, the dense and exponential rules the patterns alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed._lib.outputs import check_run
from hopfed._lib.settings import require
from hopfed.memory import dynamics, energies
from hopfed.memory.cues import as_cues, as_patterns, as_spins, is_graded, masses
from hopfed.memory.rules import Dense, Exponential, Layered, Rule, dream, rule_named
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import HebbianOperator
from hopfed.spectral.rank import Sample, TracyWidom

ORDERS = ("serial", "synchronous")
DEPENDENT = 1e-8  # relative residual below which a pattern lies in the span of the others
NEARLY = 1e-3  # the same in the Gram matrix, below which its factor has lost digits
LEAST = 1e-300  # dreaming time: one over a shorter one is no number


@dataclass(frozen=True, eq=False)
class Recall:
    """What a memory made of cues.

    Attributes
    ----------
    states : (S, N) int8 of +-1; (S, L, N) of a layered memory; float means of a graded one.
    overlaps : (S, K) with the stored patterns, ``xi . s / N``; (S, L, K) of a layered memory;
        the responsibilities of a graded one; K = 0 where an operator was stored.
    energy : (S,) of the states, in the units of `AssociativeMemory.energy`.
    updates : (S,) sweeps or synchronous updates made.
    converged : (S,) whether a step without noise would change nothing.

    >>> memory = AssociativeMemory.store(np.array([[1, 1, 1, -1]]))
    >>> found = memory.recall(np.array([[1, -1, 1, -1]]))
    >>> found.states.tolist(), found.overlaps.tolist(), found.converged.tolist()
    ([[1, 1, 1, -1]], [[1.0]], [True])
    """

    states: Array = field(repr=False)
    overlaps: np.ndarray = field(repr=False)
    energy: np.ndarray
    updates: np.ndarray
    converged: np.ndarray


class _Couplings(NamedTuple):
    """``J = gain rows^T rows``."""

    rows: np.ndarray  # (R, N), of which no eigenvalue is above 1
    gain: float
    ridge: float


@dataclass(frozen=True, eq=False)
class AssociativeMemory:
    """Stored patterns and the rule that recalls them; made by `store`, never changed in place.

    Attributes
    ----------
    rule : one of `hopfed.memory.rules`.
    patterns : int8 (K, N) of +-1, or float64 (K, N) in [-1, 1] where they are graded; (0, N) where
        an operator was stored.
    weights : (K,) above 0: how strongly each is stored.
    factor : (N, R) float64, that of a stored operator.

    >>> rng = np.random.default_rng(0)
    >>> xi = rng.choice(np.array([-1, 1], np.int8), (20, 200))
    >>> cues = np.where(rng.random(xi.shape) < 0.2, -xi, xi)
    >>> for rule in ("hebb", "projector", "dense", "exponential"):
    ...     found = AssociativeMemory.store(xi, rule).recall(cues)
    ...     print(rule, round(float(found.overlaps.diagonal().mean()), 3))
    hebb 0.998
    projector 1.0
    dense 1.0
    exponential 1.0
    """

    rule: Rule
    patterns: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    factor: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def store(
        cls, source: Any, rule: str | Rule = "", *, weights: Any = None, rank: int | None = None
    ) -> AssociativeMemory:
        """Store patterns, a Hebbian operator, or what was recovered.

        Parameters
        ----------
        source : (K, N) of +-1 or bits; of means in [-1, 1], graded patterns; a recovery or its
            archetypes; or a `HebbianOperator`, of which the signal subspace is stored. Bits are
            booleans, or numbers that are 0 or 1 everywhere, some of them 1: a 0 is -1 then, and no
            mean of 0.
        rule : name or settings, see `hopfed.memory.rules`; "hebb" when left out, and "exponential"
            for graded patterns, which have no other.
        weights : (K,) above 0, 1 when left out; for graded patterns their shares.
        rank : components of an operator; the Tracy-Widom test counts them when left out.

        Raises
        ------
        ArgumentError : an unknown rule, patterns that are not of this kind, a rule that does not
            take them.

        >>> AssociativeMemory.store(np.array([[1, 1, -1], [1, -1, -1]]), "projector")
        AssociativeMemory(rule=Projector())
        """
        if isinstance(source, HebbianOperator):
            chosen = rule_named(rule or "hebb")
            require(chosen.quadratic, "rule", "quadratic for an operator", chosen.name)
            require(weights is None, "weights", "left out for an operator", "given")
            W = _operator_factor(source, chosen.time, rank)
            return cls(chosen, np.zeros((0, len(W)), np.int8), np.zeros(0), factor=W)
        source = getattr(source, "archetypes", source)
        patterns = as_patterns(
            getattr(source, "patterns", source), bits=not hasattr(source, "patterns")
        )
        chosen = rule_named(rule or ("exponential" if is_graded(patterns) else "hebb"))
        if is_graded(patterns):
            exponential = isinstance(chosen, Exponential)
            require(exponential, "rule", "exponential for graded patterns", chosen.name)
        return cls(chosen, patterns, masses(weights, len(patterns)))

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def n_sites(self) -> int:
        """N."""
        return int(self.patterns.shape[1])

    @property
    def is_graded(self) -> bool:
        """Whether the patterns are means, not signs."""
        return is_graded(self.patterns)

    def recall(
        self,
        cues: Any,
        *,
        observed: Any = None,
        hold: bool = True,
        temperature: Any = 0.0,
        updates: int = 100,
        order: str = "serial",
        seed: int = 0,
    ) -> Recall:
        """Recall from cues.

        Where a cue has gaps, the sites that were observed keep their spins, and the others start at
        the sign of the field that those exert. Where it has none, and in layers, any site may turn.

        Parameters
        ----------
        cues : (S, N) or (N,) of +1, -1, and 0 or NaN for "not observed"; or bits: booleans, or an
            array in which every number is 0 or 1, some of them 1, where only NaN is a gap. A cue
            of +1 and gaps alone is therefore written with NaN, or with ``observed=cues != 0``.
        observed : bool, broadcasts to (S, N): False marks further gaps, whatever the cue has there.
        hold : False lets the observed sites of a cue with gaps turn as well.
        temperature : T, at least 0; or one for each update, never rising. The heat bath samples
            ``exp(-E / T)`` in serial order; layers see the energy of their kernel
            (theory/NOTES.md, Field and update of the layered memory).
        updates : most sweeps, or synchronous updates.
        order : "serial", one spin at a time, or "synchronous", all at once.
        seed : of the noise.

        Raises
        ------
        ArgumentError : cues of another width or other values, settings out of range.

        >>> memory = AssociativeMemory.store(np.array([[1, 1, 1, -1, -1], [1, -1, 1, 1, -1]]))
        >>> memory.recall(np.array([1, -1, 0, 0, 0])).states.tolist()
        [[1, -1, 1, 1, -1]]
        >>> memory.recall(np.array([1, 0, 1, 1, 0])).states.tolist()  # bits
        [[1, -1, 1, 1, -1]]
        """
        require(order in ORDERS, "order", f"one of {', '.join(ORDERS)}", repr(order))
        times = dynamics.Schedule.of(temperature, updates, seed)
        states, seen = as_cues(cues, observed, self.n_sites)
        require(len(self) > 0 or self.factor is not None, "memory", "not empty", "no patterns")
        if self.is_graded and isinstance(self.rule, Exponential):
            require(times.hot == 0, "temperature", "0 for graded patterns", temperature)
            return self._completed(states, self.rule.beta, hold)
        held = None
        if seen is not None:
            states = self._filled(states, seen)
            held = seen & ~seen.all(axis=1, keepdims=True) if hold else None
        found, used, settled = self._run(states, times, order, held)
        host = to_host(found)
        sums = self._sums(host.reshape(-1, self.n_sites)).reshape(*host.shape[:-1], len(self))
        return Recall(found, sums / self.n_sites, self._energy(host, sums), used, settled)

    def energy(self, states: Any) -> np.ndarray:
        """Energy (S,) of states.

        ``-1/2 sum_{i != j} J_ij s_i s_j``, or that of the dense or the exponential rule
        (theory/NOTES.md, Recall energies); with n = 2 the dense one is Hebb's, less a constant.
        Products are made in float32. States are (S, N) or (N,) of +-1 or bits; of a layered memory
        (S, L, N) as well.

        >>> memory = AssociativeMemory.store(np.array([[1, 1, 1, -1]]))
        >>> memory.energy(np.array([[1, 1, 1, -1]], np.int8)).tolist()
        [-1.5]
        """
        return self._energy(as_spins(states, self.n_sites, isinstance(self.rule, Layered)))

    def _energy(self, states: np.ndarray, sums: np.ndarray | None = None) -> np.ndarray:
        """Energy (S,) of states (S, N), or layers (S, L, N); `sums`, if known, are of overlaps."""
        if isinstance(self.rule, Dense | Exponential):
            sums = self._sums(states) if sums is None else sums
            return energies.energy(sums, self.rule, self.n_sites, self.weights)
        W, scale = self.coupling_factor
        if isinstance(self.rule, Layered) and states.ndim == 3:
            return dynamics.layers_energy(states, W * np.sqrt(scale, dtype=np.float64), self.rule)
        field_sums = energies.overlap_sums(states.astype(np.float32), W.T)
        diagonal = np.einsum("nr,nr->", W, W, dtype=np.float64)
        return -scale / 2 * ((field_sums**2).sum(axis=1) - diagonal)

    def save(self, path: str | Path) -> None:
        """Write an .h5 file to `path`, which `hopfed.load` reads; it replaces no other file.

        Raises ArgumentError for another ending, or a file that is no run file; RunFileError where
        it cannot be written: what stood there before is untouched.

        >>> import tempfile, hopfed
        >>> memory = AssociativeMemory.store(np.array([[1, 1, -1], [1, -1, -1]]), "dense")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     memory.save(f"{folder}/m.h5")
        ...     hopfed.load(f"{folder}/m.h5").patterns.tolist()
        [[1, 1, -1], [1, -1, -1]]
        """
        from hopfed.memory import storage

        check_run("path", path)
        storage.as_run(self).save(path)

    @cached_property
    def couplings(self) -> _Couplings | None:
        """Factor of the couplings of a projector or dreamed memory; None of another."""
        if not self.rule.quadratic or self.rule.time == 0 or not len(self):
            return None
        X = self.patterns * np.sqrt(self.weights / self.n_sites)[:, None]
        return _couplings(X, self.rule.time)

    @cached_property
    def coupling_factor(self) -> tuple[np.ndarray, float]:
        """(W, scale) with ``J = scale W W^T``: W (N, R) float32, whole numbers for Hebb's rule."""
        if self.factor is not None:
            return self.factor.astype(np.float32), 1.0
        if self.couplings is not None:
            rows, gain, _ = self.couplings
            root = 2.0 ** round(np.log2(gain) / 2)  # exact; a short dream has rows next to nothing
            return np.ascontiguousarray(rows.T * root, np.float32), gain / root**2
        root = np.sqrt(self.weights).astype(np.float32)
        return np.ascontiguousarray(self.patterns.T * root), 1 / self.n_sites

    @cached_property
    def rounding(self) -> float:
        """Size of a field, in units of the factor's, that is its rounding; 0 where it has none."""
        W, _ = self.coupling_factor
        if self.couplings is None and self.factor is None and (self.weights == 1).all():
            return 0.0
        norm = float(np.linalg.norm(W))
        if self.couplings is not None:  # no eigenvalue of the rows is above 1
            norm = min(norm, float(np.sqrt(self.couplings.gain / self.coupling_factor[1])))
        return dynamics.rounding(W, np.float32, norm)

    @property
    def advice(self) -> tuple[str, ...]:
        """What the rule cannot do with these patterns, a sentence each; empty if nothing is odd."""
        said, xi = [], self.patterns
        pure = self.couplings is not None and self.couplings.ridge == 0
        if pure and len(self.couplings.rows) == self.n_sites:  # type: ignore[union-attr]
            said.append(
                f"{self.n_sites:,} independent patterns of as many sites leave no basins: every "
                "state is at rest. Store fewer, or use the rule dreamed or dense."
            )
        if isinstance(self.rule, Dense) and self.rule.n % 2:
            lost = len({*map(bytes, xi)} & {*map(bytes, -xi)}) // 2
            if lost:
                said.append(
                    "In an odd power a pattern and its negative cancel, and neither is kept "
                    f"(pairs: {lost:,}). Store one of each, or take an even power."
                )
        return tuple(said)

    def _sums(self, states: np.ndarray) -> np.ndarray:
        """Overlap sums (S, K), float64."""
        real = self.patterns.astype(np.float32)
        return energies.overlap_sums(states.astype(np.float32), real)

    def _run(
        self, states: Array, times: dynamics.Schedule, order: str, held: np.ndarray | None
    ) -> dynamics.Outcome:
        if isinstance(self.rule, Dense | Exponential):
            args = (self.weights, self.rule, times, order, held)
            return dynamics.overlapping(states, self.patterns, *args)
        W, scale = self.coupling_factor
        if isinstance(self.rule, Layered):
            root = np.float32(np.sqrt(scale))
            tie = self.rounding * float(scale)
            W = like(W * root, states)
            return dynamics.layered(states, W, self.rule, times, order, tie)
        tie = self.rounding
        found = dynamics.quadratic(states, like(W, states), scale, times, order, held, tie)
        if not tie:
            return found
        exact = self.factor  # W of `coupling_factor` in float64
        if exact is None and self.couplings is not None:
            root = np.sqrt(self.couplings.gain / scale)
            exact = np.ascontiguousarray(self.couplings.rows.T * root)
        elif exact is None:
            exact = self.patterns.T * np.sqrt(self.weights)
        return dynamics.finer(found, exact, times, order, held)

    def _filled(self, states: Array, seen: np.ndarray) -> Array:
        """States with the sites that were not seen at the sign of the field of the others."""
        xp = namespace(states)
        real = xp.astype(states, xp.float32)
        if isinstance(self.rule, Dense | Exponential):
            xi, mass = like(self.patterns.astype(np.float32), states), like(self.weights, states)
            h = energies.fields(real, energies.overlap_sums(real, xi), xi, self.rule, mass)
        else:
            W = like(self.coupling_factor[0], states)
            h = xp.matmul(xp.matmul(real, W), W.T)
        first = np.argmax(seen, axis=1)[:, None]  # where no field says more than another site
        first = like(np.take_along_axis(to_host(states), first, axis=1), states)
        h = xp.where(h == 0, xp.astype(first + (first == 0), h.dtype), h)
        return xp.where(like(seen, states), states, xp.astype(xp.sign(h), states.dtype))

    def _completed(self, cues: Array, beta: float, hold: bool) -> Recall:
        """Recall of graded patterns: one step, exact, on the host."""
        x, count = to_host(cues), len(cues)
        means, shares, energy = energies.complete(x, self.patterns, self.weights, beta)
        gaps = (x == 0).any(axis=1, keepdims=True)
        states = like(np.where((x != 0) & gaps, x, means) if hold else means, cues)
        return Recall(states, shares, energy, np.ones(count, np.int64), np.ones(count, np.bool_))


def _operator_factor(operator: HebbianOperator, time: float, rank: int | None) -> np.ndarray:
    """Return W (N, R) with ``J = W W^T``, the leading eigenpairs, of mean 1, dreamed."""
    if rank is None:

        def wanted(values: np.ndarray, whole: bool) -> int:
            sample = Sample(values, operator.n_sites, operator.n_examples, whole)
            return TracyWidom()(sample).n_detected

        spectrum = eigenpairs(operator, wanted)
    else:
        most = operator.n_sites
        whole = isinstance(rank, Integral) and 1 <= rank <= most
        require(whole, "rank", f"a whole number in 1 .. {most}", rank)
        spectrum = eigenpairs(operator, rank)
    vectors = to_host(spectrum.vectors).astype(np.float64)
    count = vectors.shape[1]
    require(count > 0, "source", "an operator with a component above the noise", "none")
    values = spectrum.values[:count]
    return vectors * np.sqrt(dream(values / values.mean(), time))


def _couplings(X: np.ndarray, time: float) -> _Couplings:
    """Return the couplings of patterns X (K, N) after dreaming `time`, above 0 or infinite."""
    # J(t) = (1 + t) X^T (1 + t X X^T)^-1 X = gain X^T (X X^T + ridge)^-1 X, ridge = 1 / t, and with
    # L L^T = X X^T + ridge the rows L^-1 X (theory/NOTES.md, Closed form of dreaming).
    ridge = 0.0 if np.isinf(time) else 1 / max(time, LEAST)
    gram, values = X @ X.T, np.ones(1)
    if ridge == 0:
        values = np.linalg.eigvalsh(gram)
        if values[0] <= DEPENDENT * values[-1]:
            Q, R, _ = scipy.linalg.qr(X.T, mode="economic", pivoting=True)
            rank = int((np.abs(np.diag(R)) > DEPENDENT * np.abs(R[0, 0])).sum())
            return _Couplings(np.ascontiguousarray(Q[:, :rank].T), 1.0, 0.0)
    try:
        lower = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
    except np.linalg.LinAlgError:  # the ridge is lost in the rounding of the Gram matrix
        return _couplings(X, np.inf)
    rows = scipy.linalg.solve_triangular(lower, X, lower=True)
    if ridge == 0 and values[0] <= NEARLY * values[-1]:  # a second pass makes rows orthonormal
        again = np.linalg.cholesky(rows @ rows.T)
        rows = scipy.linalg.solve_triangular(again, rows, lower=True)
    return _Couplings(rows, 1 + ridge, ridge)
