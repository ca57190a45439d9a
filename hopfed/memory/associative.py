"""Associative memory: patterns are stored by a rule and recalled from incomplete or noisy cues.

No N x N matrix is formed. Quadratic rules hold a factor of their couplings with one column per
pattern; the dense and exponential rules hold the patterns alone.
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
from hopfed.memory.cues import as_cues, as_patterns, as_spins, check_weights, is_graded
from hopfed.memory.rules import Dense, Exponential, Layered, Rule, capacity, dream, rule_named
from hopfed.spectral.eigenpairs import eigenpairs
from hopfed.spectral.operators import HebbianOperator
from hopfed.spectral.rank import Sample, TracyWidom

ORDERS = ("serial", "synchronous")
DEPENDENT = 1e-8  # relative residual below which a pattern lies in the span of the others
NEARLY = 1e-3  # relative eigenvalue of the Gram matrix below which its factor has lost digits
CROWDED = 1.5  # times the capacity, and two patterns, beyond which most are lost
LEAST = 1e-300  # smallest dreaming time: the inverse of a shorter time overflows


@dataclass(frozen=True, eq=False)
class Recall:
    """Result of the recall of cues.

    Attributes
    ----------
    states : (S, N) int8 of +-1; (S, L, N) for a layered memory; float means for a graded memory.
    overlaps : (S, K) with the stored patterns, ``xi . s / N``; (S, L, K) for a layered memory;
        responsibilities for a graded memory; K = 0 if an operator was stored.
    energy : (S,) of the states, in the units of `AssociativeMemory.energy`.
    updates : (S,) number of sweeps or synchronous updates.
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

    rows: np.ndarray  # (R, N), with no singular value above 1
    gain: float
    ridge: float


@dataclass(frozen=True, eq=False)
class AssociativeMemory:
    """Stored patterns and the rule that recalls them; made by `store`, never changed in place.

    Attributes
    ----------
    rule : a rule of `hopfed.memory.rules`.
    patterns : int8 (K, N) of +-1, or float64 (K, N) in [-1, 1] for graded patterns; (0, N) if an
        operator was stored.
    weights : (K,) weights of the patterns in the energy, above 0.
    factor : (N, R) float64 factor of a stored operator, else None.

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
        """Store patterns, the archetypes of a recovery, or a Hebbian operator.

        Parameters
        ----------
        source : (K, N) of +-1 or bits; (K, N) means in [-1, 1], which are graded patterns; a
            recovery or its archetypes; or a `HebbianOperator`, whose signal subspace is stored.
            Bits are booleans, or numbers that are all 0 or 1 and not all 0: a 0 then means -1, not
            a mean of 0.
        rule : name or settings, see `hopfed.memory.rules`; by default "hebb" (of `hopfed store`
            "projector"), and "exponential" for graded patterns, for which it is the only rule.
        weights : (K,) above 0, by default 1; for graded patterns their shares.
        rank : number of components of an operator; by default counted by the Tracy-Widom test.

        Raises
        ------
        ArgumentError : an unknown rule, invalid patterns, or a rule that does not support the
            source.

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
        return cls(chosen, patterns, check_weights(weights, len(patterns)))

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def n_sites(self) -> int:
        """Number of sites N."""
        return int(self.patterns.shape[1])

    @property
    def is_graded(self) -> bool:
        """Whether the patterns are means instead of signs."""
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

        If a cue has gaps, its observed sites keep their spins, and the other sites start at the
        sign of the field from the observed sites. Without gaps, and in layers, any site may flip.

        Parameters
        ----------
        cues : (S, N) or (N,) of +1, -1, and 0 or NaN for "not observed"; or bits: booleans, or an
            array of 0 and 1, not all 0, where only NaN is a gap. A cue with +1 and gaps alone is
            therefore written with NaN, or with ``observed=cues != 0``.
        observed : bool, broadcasts to (S, N): False marks further gaps, whatever the cue has there.
        hold : False lets the observed sites of a cue with gaps flip as well.
        temperature : T, at least 0; or a value for each update, never rising. The heat bath samples
            ``exp(-E / T)`` in serial order; layers use the energy of their kernel
            (theory/NOTES.md, "Energies of the layered memory").
        updates : largest number of sweeps or synchronous updates.
        order : "serial", one spin at a time, or "synchronous", all at once.
        seed : seed of the noise.

        Raises
        ------
        ArgumentError : cues of the wrong width or with invalid values, or settings out of range.

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

        ``-1/2 sum_{i != j} J_ij s_i s_j``, or the energy of the dense or the exponential rule
        (theory/NOTES.md, Recall energies); the dense energy at n = 2 is Hebb's, less a constant.
        Products are computed in float32. States are (S, N) or (N,) of +-1 or bits; for a layered
        memory also (S, L, N).

        >>> memory = AssociativeMemory.store(np.array([[1, 1, 1, -1]]))
        >>> memory.energy(np.array([[1, 1, 1, -1]], np.int8)).tolist()
        [-1.5]
        """
        return self._energy(as_spins(states, self.n_sites, isinstance(self.rule, Layered)))

    def _energy(self, states: np.ndarray, sums: np.ndarray | None = None) -> np.ndarray:
        """Energy (S,) of states (S, N), or layers (S, L, N); `sums` are known overlap sums."""
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
        """Write a run file to `path`, which must end in .h5; `hopfed.load` reads it.

        Raises ArgumentError for another ending, or if `path` is a file that is not a run file, and
        RunFileError if it cannot be written; an existing file is then unchanged.

        >>> import tempfile, hopfed
        >>> memory = AssociativeMemory.store(np.array([[1, 1, -1], [1, -1, -1]]), "dense")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     memory.save(f"{folder}/m.h5")
        ...     hopfed.load(f"{folder}/m.h5").patterns.tolist()
        [[1, 1, -1], [1, -1, -1]]
        """
        from hopfed.memory import run_file

        check_run("path", path)
        run_file.memory_to_run(self).save(path)

    @cached_property
    def couplings(self) -> _Couplings | None:
        """Factor of the couplings of a projector or dreamed memory, otherwise None."""
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
            root = 2.0 ** round(np.log2(gain) / 2)  # exact; rows are tiny at short dreaming times
            return np.ascontiguousarray(rows.T * root, np.float32), gain / root**2
        root = np.sqrt(self.weights).astype(np.float32)
        return np.ascontiguousarray(self.patterns.T * root), 1 / self.n_sites

    @cached_property
    def rounding(self) -> float:
        """Rounding error of a field, in units of the factor's; 0 if fields are exact."""
        W, _ = self.coupling_factor
        if self.couplings is None and self.factor is None and (self.weights == 1).all():
            return 0.0
        norm = float(np.linalg.norm(W))
        if self.couplings is not None:  # no singular value of the rows is above 1
            norm = min(norm, float(np.sqrt(self.couplings.gain / self.coupling_factor[1])))
        return dynamics.rounding_error(W, np.float32, norm)

    @property
    def advice(self) -> tuple[str, ...]:
        """Limits of the rule with these patterns, a sentence each; empty if nothing is odd."""
        said, xi = [], self.patterns
        pure = self.couplings is not None and self.couplings.ridge == 0
        if pure and len(self.couplings.rows) == self.n_sites:  # type: ignore[union-attr]
            said.append(
                f"{self.n_sites:,} independent patterns on as many sites leave no basins: every "
                "state is a fixed point. Store fewer, or use the rule dreamed or dense."
            )
        most, distinct = capacity(self.rule, self.n_sites) * self.n_sites, {*map(bytes, xi)}
        if not (pure or self.is_graded) and len(distinct) > CROWDED * most + 2:
            said.append(
                f"{len(distinct):,} patterns are far beyond the capacity, about {most:,.0f} random "
                "ones: recall leaves most of them. Store fewer, or use the rule exponential."
            )
        if isinstance(self.rule, Dense) and self.rule.n % 2:
            lost = len(distinct & {*map(bytes, -xi)}) // 2
            if lost:
                said.append(
                    "With an odd power a pattern and its negative cancel, and both are lost "
                    f"(pairs: {lost:,}). Store one of each, or use an even power."
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
            return dynamics.relax_by_overlaps(states, self.patterns, *args)
        W, scale = self.coupling_factor
        if isinstance(self.rule, Layered):
            root = np.float32(np.sqrt(scale))
            tie = self.rounding * float(scale)
            W = like(W * root, states)
            return dynamics.relax_layers(states, W, self.rule, times, order, tie)
        tie = self.rounding
        found = dynamics.relax_quadratic(states, like(W, states), scale, times, order, held, tie)
        if not tie:
            return found
        exact = self.factor  # W of `coupling_factor` in float64
        if exact is None and self.couplings is not None:
            root = np.sqrt(self.couplings.gain / scale)
            exact = np.ascontiguousarray(self.couplings.rows.T * root)
        elif exact is None:
            exact = self.patterns.T * np.sqrt(self.weights)
        return dynamics.continue_in_float64(found, exact, times, order, held)

    def _filled(self, states: Array, seen: np.ndarray) -> Array:
        """States with unobserved sites set to the sign of the field from the observed sites."""
        xp = namespace(states)
        real = xp.astype(states, xp.float32)
        if isinstance(self.rule, Dense | Exponential):
            xi, mass = like(self.patterns.astype(np.float32), states), like(self.weights, states)
            h = energies.fields(real, energies.overlap_sums(real, xi), xi, self.rule, mass)
        else:
            W = like(self.coupling_factor[0], states)
            h = xp.matmul(xp.matmul(real, W), W.T)
        first = np.argmax(seen, axis=1)[:, None]  # replaces fields of 0: the first observed spin
        first = like(np.take_along_axis(to_host(states), first, axis=1), states)
        h = xp.where(h == 0, xp.astype(first + (first == 0), h.dtype), h)
        return xp.where(like(seen, states), states, xp.astype(xp.sign(h), states.dtype))

    def _completed(self, cues: Array, beta: float, hold: bool) -> Recall:
        """Recall of graded patterns: one exact step, computed on the host."""
        x, count = to_host(cues), len(cues)
        means, shares, energy = energies.complete_cues(x, self.patterns, self.weights, beta)
        gaps = (x == 0).any(axis=1, keepdims=True)
        states = like(np.where((x != 0) & gaps, x, means) if hold else means, cues)
        return Recall(states, shares, energy, np.ones(count, np.int64), np.ones(count, np.bool_))


def _operator_factor(operator: HebbianOperator, time: float, rank: int | None) -> np.ndarray:
    """Return W (N, R), ``J = W W^T``: leading eigenpairs, dreamed after scaling to mean 1."""
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
    """Return the couplings of patterns X (K, N) after dreaming `time` > 0, perhaps infinite."""
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
