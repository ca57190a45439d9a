"""`Patterns`: archetypes of the symmetric channel, whose columns are all flipped equally often.

The eigenvalues of the pooled second moment above the noise are counted, and their eigenvectors are
factored. Where many archetypes crowd a spectrum, they are found in layers: rows vote for patterns,
owners set aside the rows that a pattern explains, and the other rows show more. In the end the rows
say whether the channel holds. If fewer than `hopfed.archetypes.votes.FEW` rows support a pattern,
nobody learns more of it than that; no operator of fewer than `LEAST` rows is asked for.

*Joint diagonalisation.* In the basis V each group g of examples is a K x K matrix,
``A_g = V^T C_g V - s2 I``, about ``sum_mu w_mu^g a_mu a_mu^T``. Whitened by their mean, the
archetypes' coefficients are orthogonal and diagonalise every A_g. Counting noise between random
groups is difference enough.

*Search with one operator*, where groups cannot be told apart, and for the archetypes that are left.
Each pass starts many memories at mixtures ``sign(V c)`` (arXiv:2603.19902, eq. (21)) and lets them
fall in ``J = V diag(l^p) V^T``, between the projector (p = 0) and Hebb (p = 1). Patterns that pass
the theory's threshold are deflated in the operator's metric, so that others are easier to find.

Source: theory/NOTES.md, "Joint diagonalisation", "Search with one operator", "Deflation", "Exposure
fit", "Goodness of fit", "Peeling", "Check of the symmetric channel".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.session import Owner, Owners, Recovery, total
from hopfed.archetypes.subspace import DUPLICATE, SAME, SLACK, Subspace, drop_repeated, overlaps_of
from hopfed.archetypes.verdict import (
    ALIKE,
    FOUND,
    ONE_CLASS,
    KnownPatterns,
    Verdict,
    judge,
    judge_layers,
    judge_patterns,
)
from hopfed.archetypes.votes import (
    elect_patterns,
    measure_agreement,
    orient_patterns,
    refit_patterns,
    row_sum_cosine,
    rows_fit_patterns,
    unexplained_rows,
    vote,
)
from hopfed.federation.messages import Message
from hopfed.kernels import Rows
from hopfed.memory.layered_memory import LayeredMemory
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, Spectrum, Wanted, eigenpairs, site_gauge
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, PooledOperator
from hopfed.spectral.rank import (
    CountingRule,
    NoiseProfile,
    RankEstimate,
    RankRule,
    Sample,
    TracyWidom,
    noise_variance,
)
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import host_moments, times, transposed_times
from hopfed.theory.exposures import errors

DEALT = 1 << 20  # examples that are dealt to groups at once
STEPS, STARTS = 100, 4  # Newton steps from each start, and starts; at most
LONGEST = 0.3  # angle of a Newton step, per pair: far from the solution the first order is rough


def group_projections(
    rows: Rows, vectors: Array, groups: int, seed: int, client: int = 0, precision: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Second moments (G, K, K) in a basis, of random groups of rows, to find patterns; sizes.

    Among each `DEALT` examples of the client the sizes of groups differ by one at most.
    """
    V, M = namespace(vectors).astype(vectors, precision), rows.shape[0]

    def of_block(part: Rows, before: int) -> Sums:
        X, mine = times(part, V), [np.empty(0, np.int64)]
        for first in range(before // DEALT * DEALT, before + len(X), DEALT):
            draws = stream(seed, "groups", client, *([first] if first else []))
            label = draws.permutation(min(DEALT, M - first)) % groups
            mine.append(label[max(before - first, 0) : before + len(X) - first])
        label = np.concatenate(mine)
        X = X[like(np.argsort(label, kind="stable"), X)]  # group by group, rows as they follow
        sizes = np.bincount(label, minlength=groups)
        pieces = [X[a:b] for a, b in pairwise([0, *np.cumsum(sizes).tolist()])]
        sums = namespace(X).stack([piece.T @ piece for piece in pieces])
        return Sums((namespace(X).astype(sums, namespace(X).float64), sizes))

    sums, counts = rows.total(of_block, placed=True)
    return sums, counts.astype(np.float64)


def joint_candidates(
    space: Subspace, sums: Array, counts: np.ndarray, variance: float, seed: int
) -> np.ndarray:
    """Candidate patterns (C, N) int8 by joint diagonalisation of group sums (G, K, K)."""
    found = np.zeros((0, space.n_sites), dtype=np.int8)
    if space.dim == 0 or (counts > 0).sum() < 2:
        return found
    xp, some = namespace(sums), np.flatnonzero(counts > 0)
    sums, n = sums[some], like(counts[some], sums)
    A = sums / n[:, None, None] - variance * xp.eye(space.dim)
    mean, here = xp.tensordot(n / xp.sum(n), A, axes=1), isinstance(sums, np.ndarray)
    # W with ``W^T mean W = 1`` and B with ``B B^T = mean``, on its positive part. In eigenvectors
    # of all rows the mean is diagonal and positive: a device does without what it would wait for.
    values, E = xp.linalg.eigh(mean) if here else (xp.linalg.diagonal(mean), xp.eye(space.dim))
    keep = slice(None)
    if here:
        keep = values > xp.maximum(1e-3 * values[-1] / values.shape[0], 0 * values[-1])
    root = xp.sqrt(values[keep])
    whiten, lift = E[:, keep] / root, E[:, keep] * root
    dim = whiten.shape[1]
    # Every group's departure from the mean, times the root of its examples: equal noise.
    A = (whiten.T @ A @ whiten - xp.eye(dim)) * xp.sqrt(n)[:, None, None]
    rng, rest = stream(seed, "joint"), xp.eye(dim)
    for _ in range(STARTS):  # each works on the rest of the last one, until one finds none
        left = xp.astype(rest.T @ A @ rest, xp.float32)  # fine enough, and twice as fast
        U = rest @ joint_eigenbasis(left, rng, STEPS)
        fresh = space.candidates(lift @ U, found)
        before = len(found)
        found = space.joined(found, fresh) if len(fresh) else found
        if len(found) == before or dim - len(found) < 2:
            break
        directions = space.coefficients(found).astype(np.float64) @ to_host(whiten)
        rest = like(np.linalg.qr(directions.T, mode="complete")[0][:, len(found) :], sums)
    return found


def joint_eigenbasis(A: Array, rng: np.random.Generator, steps: int) -> Array:
    """Orthogonal U (K, K) for candidate patterns: all ``U^T A_g U`` as diagonal as they get."""
    xp = namespace(A)
    draws, A64 = like(rng.standard_normal(len(A)), A), xp.astype(A, xp.float64)
    U = xp.astype(xp.linalg.eigh(xp.tensordot(draws, A64, axes=1))[1], A.dtype)
    D = U.T @ A @ U
    two, last, here = 2 * xp.eye(U.shape[0], dtype=A.dtype), np.inf, isinstance(A, np.ndarray)
    gain = 1e-3 if here else 1e-2  # least of a step: a device's takes longer than what it is worth
    whole = xp.sum(D**2)  # which no turn changes, but for rounding
    finest = np.finfo(np.float64 if A.dtype == xp.float64 else np.float32)
    for _ in range(steps):
        d = xp.linalg.diagonal(D)
        square = xp.sum(d**2, axis=0)
        off = (xp.sum(D**2) if here else whole) - xp.sum(square)
        if bool(off > last * (1 - gain)):
            break
        last = off
        # sum_g (d_gi - d_gj) D_gij and sum_g (d_gi - d_gj)^2 for all pairs, from K x K products.
        above = xp.einsum("gi,gij->ij", d, D)
        below = square[:, None] + square[None, :] - 2 * d.T @ d
        below = xp.maximum(below, 4 * float(finest.eps) * xp.max(square) + float(finest.tiny))
        X = xp.clip((above - above.T) / below, -LONGEST, LONGEST)
        turn = xp.linalg.solve(two + X, two - X)  # Cayley: a rotation, 1 - X to first order
        U, D = U @ turn, turn.T @ D @ turn
    return U


# (p, beta), tried in turn: the next pair after a pass without finds. Archetypes nucleate at random
# times, at the highest rate for p from .25 to .35 and beta from 3.25 to 4.
SETTINGS = ((0.25, 3.5), (0.3, 3.75))
RETURN = 0.98  # overlap with itself to which an archetype falls back after `flips`
STOP = 0.03  # below the score of an archetype: a memory that scores more is on its way to one


@dataclass(frozen=True)
class Search:
    """Settings of the search for patterns with one operator."""

    # starts, sweeps: memories per pass and heat-bath sweeps of each; both grow after a pass that
    # found nothing
    starts: int = 32
    sweeps: int = 150
    settings: tuple[tuple[float, float], ...] = SETTINGS  # (p, beta)
    patience: int = 40  # passes in a row without a find before giving up
    reluctance: int = 5  # the same before any pattern is found, and once half of them are
    memory: LayeredMemory = field(default_factory=lambda: LayeredMemory(layers=1, order="serial"))
    slack: float = SLACK  # of the acceptance test; inf lets every rest state pass
    flips: float = 0.15  # share of sites turned at random to see whether a rest state attracts
    duplicate: float = DUPLICATE  # overlap from which two patterns are one; 1 keeps all that differ
    deflate: bool = True  # whether found patterns are taken out of the operator
    early_stop: bool = True  # whether a memory stops once its score is close to an archetype's
    most: float = np.inf  # memories, times sweeps, times directions, before it gives up


def search_candidates(
    space: Subspace, config: Search, seed: int, known: np.ndarray | None = None
) -> np.ndarray:
    """Candidate patterns (C, N) int8 by search with one operator, beside the `known` patterns."""
    space = replace(space, vectors=to_host(space.vectors))  # the heat bath is there
    found = np.zeros((0, space.n_sites), np.int8) if known is None else known
    gauge = site_gauge(space.vectors) if space.dim else np.ones(space.n_sites)
    base = space.vectors * gauge[:, None] * np.sqrt(space.metric / space.metric.mean())
    starts, sweeps, turn, failures, number, steps = config.starts, config.sweeps, 0, 0, 0, 0
    patience, remainder = config.reluctance, None
    # A direction close to the threshold says nothing of the score of an archetype; the mean does.
    floor = float(space.overlaps.mean()) - STOP if space.dim else None
    while len(found) < space.dim and failures < patience and steps < config.most:
        if remainder is None:  # eigenpairs of the operator without the found patterns
            left = base
            if config.deflate and len(found):
                t = space.whitened(found)
                left = base @ np.linalg.qr(t.T, mode="complete")[0][:, len(found) :]
            values, E = np.linalg.eigh(left.T @ left)
            values, E = values[::-1], E[:, ::-1]
            keep = values > 1e-9 * values[0]
            remainder = left @ E[:, keep] / np.sqrt(values[keep]), values[keep]
        U, values = remainder
        p, beta = config.settings[turn % len(config.settings)]
        draws = stream(seed, "mixtures", number).standard_normal((starts, U.shape[1]))
        state = config.memory.run(
            np.where(draws @ U.T >= 0, 1, -1).astype(np.int8),
            U * (values / values.mean()) ** (p / 2),
            beta=beta,
            updates=sweeps,
            seed=derive(seed, "heat bath", number),
            stop_score=floor if config.early_stop else None,
            score_weights=(values / values.mean()) ** (-p),
        )
        number, steps = number + 1, steps + starts * sweeps * U.shape[1]
        fresh = _rest(drop_repeated(_rest(state, U)) * gauge.astype(np.int8), space.vectors)
        before = len(found)
        fresh = fresh[space.accepted(fresh, config.slack)]
        if config.flips and len(fresh):  # keep patterns to which turned sites fall back
            drawn = stream(seed, "flips", number).random(fresh.shape) < config.flips
            back = _rest(np.where(drawn, -fresh, fresh), space.vectors).astype(np.float32)
            fresh = fresh[(back * fresh).mean(axis=1) >= RETURN]
        found = space.merge(found, fresh, config.duplicate)
        if len(found) > before:
            starts, sweeps, failures = config.starts, config.sweeps, 0
            patience = config.patience if 2 * len(found) < space.dim else config.reluctance
            remainder = None
            continue
        failures, turn = failures + 1, turn + 1
        starts, sweeps = min(128, starts + starts // 2), min(600, int(sweeps * 1.15))
    return found


def _rest(states: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Rest states (C, N) of the zero-noise dynamics in ``W W^T``, from states, site by site."""
    return kernels.descend(states, W).state


METHODS = ("auto", "joint", "layered")
# one of METHODS, or a baseline: a function of spectrum, rank and seed that returns patterns (C, N)
Method = str | Callable[[Spectrum, RankEstimate, int], np.ndarray]


class Groups(NamedTuple):
    """Group projections: ``V^T eta^T eta V`` of groups of examples, K x K."""

    sums: np.ndarray  # (G, K, K), one sum over examples for each group
    counts: np.ndarray  # (G,) examples in each


def factorize(
    spectrum: Spectrum,
    rank: RankEstimate,
    *,
    groups: Groups | None = None,
    method: Method = "auto",
    search: Search | None = None,
    known: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    seed: int = 0,
) -> Archetypes:
    """Factor the signal of a spectrum into patterns of +-1, their exposures and a verdict.

    Joint diagonalisation needs `groups`. The `method` is "joint", "layered" (search with one
    operator alone), or "auto": joint first, layered for the rest, and the exposure fit decides; the
    patterns of a function are all taken. First come the `known` patterns (C, N) of earlier rounds
    that this operator shows, as they are or as it shows them, whichever is surer; `sure` (C,) is
    the expected overlap of each with its archetype.
    """
    if known is None:
        known = np.zeros((0, spectrum.n_sites), dtype=np.int8)
    # Thousands of small products: handing each to a second BLAS thread costs more than it gains,
    # and ten times as much where another program holds the core that the thread waits for.
    with blas_threads(1):
        space = Subspace.of(spectrum, rank)
        candidates, rows = space.match_known(known, np.ones(len(known)) if sure is None else sure)
        if not isinstance(method, str):
            kept = method(spectrum, rank, seed)
            fit = space.fit_exposures(kept)
        else:
            kept, fit = space.select(candidates)
            if method != "layered" and (len(kept) < space.dim or space.dim == 0):
                new = np.zeros((0, space.n_sites), dtype=np.int8)
                if groups is not None:
                    new = joint_candidates(space, groups.sums, groups.counts, rank.variance, seed)
                kept, fit = space.select(space.merge(kept, new) if len(kept) else new)
            if method != "joint" and len(kept) < space.dim:
                found = search_candidates(space, search or Search(), seed, known=kept)
                kept, fit = space.select(found)
        weights = space.debiased_weights(kept)
        order = np.argsort(-weights, kind="stable")
        # The verdict takes the fit that chose the patterns: its weights are low for unsure ones.
        fit, kept, weights = fit.taken(order), kept[order], weights[order]
        place = {x.tobytes(): row for row, x in enumerate(kept.astype(np.int8)) if len(rows)}
        at = [place.get(x.tobytes(), -1) for x in candidates.astype(np.int8)]
        scores, gamma = space.judged(kept)
        verdict = judge(spectrum, rank, gamma, fit)
        left = np.append(spectrum.values[rank.n_detected :], np.nan)[0]
        return Archetypes(
            patterns=kept,
            scores=scores,
            predicted_scores=gamma,
            exposures=weights / max(rank.quality**2, 1e-12),
            quality=rank.quality,
            n_detected=rank.n_detected,
            explained=fit.explained,
            status=verdict.status,
            advice=verdict.advice,
            matches=np.array([at[row] if row >= 0 else -1 for row in rows], int),
            residual=float(left / rank.threshold) if rank.threshold > 0 else np.nan,
        )


DENSE_SITES = 1_024  # columns up to which the counts are fewer bytes than a few blocks of 64


def column_sums(owner: Owner, _: Message) -> Message:
    """Question about patterns: sums (N,) of the entries of each column, for the patterns' mean."""
    return {"columns": host_moments(owner.rows)[0].astype(np.int32)}


def products(owner: Owner, sent: Message) -> Message:
    """Question about patterns: product (N, k) of a summed second moment and a block of vectors."""
    X = like(sent["block"], owner.rows.home)
    if owner.rows.counts is not None:
        whole = FactorOperator.from_examples(owner.rows)
        return {"block": whole.matmat(X) * whole.mass}
    return {"block": owner.rows.total(lambda part: transposed_times(part, times(part, X)))}


def second_moment(owner: Owner, _: Message) -> Message:
    """Question about patterns: sums of products of two columns, a triangle of whole numbers."""
    matrix = to_host(DenseOperator.from_examples(owner.rows).matrix)
    kind: type = np.int16 if owner.rows.shape[0] <= np.iinfo(np.int16).max else np.int32
    kind = kind if owner.rows.counts is None else np.float32
    return {"counts": matrix[np.tril_indices(len(matrix))].astype(kind)}


def basis_energy(owner: Owner, sent: Message) -> Message:
    """Question about patterns: energy along vectors of a basis (K,); rows' energy and square."""
    V = like(sent["basis"], owner.rows.home)

    def of_block(part: Any) -> Sums:
        squares = to_host(times(part, V) ** 2).astype(np.float64)
        each = squares.sum(axis=1)
        return Sums((squares.sum(axis=0), np.array([each.sum(), (each**2).sum()])))

    along, energies = owner.rows.total(of_block)
    return {"along": to_host(_float32(along)), "energies": energies}


def group_moments(groups: int, seed: int, owner: Owner, sent: Message) -> Message:
    """Question about patterns: second moments of random groups in a basis; their sizes."""
    basis = sent["basis"]
    if isinstance(basis, np.ndarray):  # that of a single owner is where the rows are
        basis = like(basis, owner.rows.home)
    sums, sizes = group_projections(owner.rows, basis, groups, seed, owner.index)
    lower = np.tril_indices(basis.shape[1])
    return {"groups": _float32(sums)[:, *lower], "sizes": sizes.astype(np.int32)}


def _float32(x: Array) -> Array:
    """An array in single precision, on its device."""
    xp = namespace(x)
    return xp.astype(x, xp.float32)


def mean_of(session: Owners) -> np.ndarray:
    """(N,) mean of columns over all owners, for patterns; sums travel with the operator."""
    before = session.exchanges
    sums = total(session.once(column_sums), "columns")
    session.exchanges = before
    return sums / session.n_rows


@dataclass(frozen=True, eq=False)
class _Asked(PooledOperator):
    """The pooled operator of owners that keep their own: each product with it is a question."""

    session: Owners = field(repr=False)

    def matmat(self, X: Array) -> Array:
        answers = self.session.ask(products, {"block": to_host(X)})
        block = sum((a["block"] for a in answers[1:]), start=answers[0]["block"])
        return like((block / self.session.n_rows).astype(X.dtype), X)


def spectrum_of(session: Owners, wanted: Wanted) -> Spectrum:
    """Leading eigenpairs of the owners' pooled operator, which are factored into patterns."""
    if len(session.members) > 1:
        route = "auto" if session.n_columns <= DENSE_SITES else "krylov"
        return eigenpairs(pooled(session), wanted, route=route, seed=session.seed)
    rows, found = session.members[0].rows, list[Spectrum]()
    again = not rows.held and session.n_columns <= EXPLICIT_LIMIT
    form: Any = DenseOperator if again else FactorOperator

    def leading(_: Owner, __: Message) -> Message:
        found.append(eigenpairs(form.from_examples(rows), wanted, seed=session.seed))
        return {"values": to_host(_float32(found[0].values)), "vectors": _float32(found[0].vectors)}

    session.ask(leading, {}, there=True)
    return found[0]


def pooled(session: Owners) -> HebbianOperator:
    """Pooled operator to find patterns, as it travels from owners: sums, once, or products."""
    whole = PooledOperator.over([FactorOperator.from_examples(o.rows) for o in session.members])
    if len(session.members) == 1:
        return whole.parts[0]
    N, M = session.n_columns, session.n_rows
    if N > DENSE_SITES:
        return _Asked(N, whole.mass, whole.sum_sq_weights, whole.parts, session)
    S, lower = np.zeros((N, N)), np.tril_indices(N)
    S[lower] = total(session.once(second_moment), "counts")
    return DenseOperator(N, M, M, like(S + np.tril(S, -1).T, whole.home))


def profile_of(session: Owners, V: Array) -> NoiseProfile:
    """Noise profile of owners, to find patterns: parts of their traces along eigenvectors V."""
    m = session.sizes.astype(np.float64)
    answers = session.ask(basis_energy, {"basis": to_host(_float32(V))})
    along = np.array([a["along"] for a in answers], np.float64) / m[:, None]
    first, second = (np.array([a["energies"] for a in answers]) / m[:, None]).T
    spreads = np.sqrt(np.maximum(second - first**2, 0.0))
    return NoiseProfile(along, m / m.sum(), session.n_columns, rows=m, spreads=spreads)


def projections(session: Owners, V: Array, groups: int) -> tuple[Array, np.ndarray]:
    """Second moments (G, K, K) of groups of all owners' rows in V, to find patterns; sizes."""
    K, each = V.shape[1], -(-groups // len(session.members))
    alone = len(session.members) == 1
    question = partial(group_moments, each, session.seed)
    basis = _float32(V) if alone else to_host(_float32(V))
    answers = session.ask(question, {"basis": basis}, there=alone)
    held = answers[0]["groups"] if alone else np.concatenate([a["groups"] for a in answers])
    xp, (row, column) = namespace(held), np.tril_indices(K)
    place = np.zeros((K, K), int)  # of each entry among those of the triangle
    place[row, column] = place[column, row] = np.arange(len(row))
    sums = xp.astype(held, xp.float64)[:, place]
    return sums, np.concatenate([a["sizes"] for a in answers]).astype(np.float64)


CROWDED = 0.2  # archetypes per site beyond which the search with one operator finds no more
LAYERS = 40  # at most
BALLOTS = 3  # votes in each layer: one corrects a blurred pattern, the next gives it missed rows
MOST = 0.5  # part of the rows that the patterns must explain to be the answer
LEAST = 20  # rows whose operator is asked for, at least
MANY = 100  # directions from which incomplete patterns are not searched for classes: it takes long
CHANCE = 1e-3  # probability that noise alone makes some column's mean look like a class
STRAYS = 0.01  # of the rows, that may resemble no pattern shown beside those of hidden ones
NARROW = 20  # columns; in fewer the overlaps of rows cannot tell the channels apart
BLURRED = 50  # the same where the patterns are not all found, or not resolved


@dataclass(frozen=True)
class Patterns:
    """Estimator of the symmetric channel: `fit` finds patterns of +-1 in rows, and judges them."""

    rule: RankRule = field(default_factory=TracyWidom)  # counts the spectrum
    quality: float | None = None  # r in (0, 1] when known
    method: Method = "auto"  # of `factorize`
    groups: int = 10  # random groups formed inside the data, over all owners together
    refit: bool = False  # whether the rows are asked once more for the patterns
    support: int = 5  # rows that a pattern must have to be shown
    believed: bool = False  # whether the channel is taken for granted, so that rows are not asked

    def __post_init__(self) -> None:
        known, r = callable(self.method) or self.method in METHODS, self.quality
        require(known, "method", f"one of {', '.join(METHODS)}", self.method)
        for name, least in (("groups", 2), ("support", 1)):
            number = getattr(self, name)
            whole = isinstance(number, Integral) and int(number) >= least
            require(whole, name, f"a whole number, at least {least}", number)
        inside = r is None or (isinstance(r, Real) and 0 < float(r) <= 1)
        require(inside, "quality", "a number in (0, 1]", r)

    @property
    def asked(self) -> str:
        """Name of a setting that takes the channel for granted; empty for none."""
        asked = {
            "method": self.method != "auto",
            "rule": not isinstance(self.rule, TracyWidom),
            "quality": self.quality is not None,
            "refit": self.refit,
        }
        return next((name for name, given in asked.items() if given), "")

    @property
    def only(self) -> bool:
        """Whether no other channel is to be looked at."""
        return self.believed or bool(self.asked)

    def fit(self, session: Owners) -> Recovery:
        """Recover patterns from owners of complete rows."""
        mean = mean_of(session)
        found, rank, spectrum = self._one_pass(session, session.seed)
        layers, N = 1, session.n_columns
        crowded = found.n_detected > CROWDED * N or found.status == "incomplete"
        if len(found) and crowded and self.method == "auto" and N >= BLURRED:
            found, layers = self._peeled(session, found)
        if layers == 1:
            patterns = orient_patterns(found.patterns, mean)
            if self.refit and len(patterns):
                patterns = refit_patterns(session, patterns)
            found = replace(found, patterns=patterns)
        # Patterns are shown that enough rows resemble; the rows are asked only where it is close.
        rows = found.exposures * session.n_rows * min(found.quality, 1.0) ** 2
        shown = rows >= 2 * self.support
        if not shown.all():
            shown |= measure_agreement(session, found.patterns)[1].counts >= self.support
        hidden, fields = int((~shown).sum()), ("scores", "predicted_scores", "exposures")
        held = {n: getattr(found, n) for n in ("patterns", *fields, "exposure_errors")}
        found = replace(found, **{n: x[shown] for n, x in held.items() if x is not None})
        said, final, holds = Verdict(found.status, found.advice), True, True
        measures = len(found), hidden, self.support
        if not (self.believed or layers > 1):  # peeling has asked the rows
            if (np.abs(mean) < 1).sum() < 2:
                said = Verdict("too little data", ALIKE)
            else:
                now = judge_patterns(said, *measures).status
                holds = self._borne_out(session, mean, replace(found, status=now), hidden)
                final = holds or bool(self.asked)
        verdict = judge_patterns(said, *measures, holds, self.asked)
        if verdict.status == "ok" and len(found) == 1:  # as a fit of classes says
            verdict = Verdict("one class", ONE_CLASS)
        return Recovery(
            archetypes=replace(found, status=verdict.status, advice=verdict.advice),
            eigenvalues=spectrum.values,
            threshold=rank.threshold,
            rule=rank.rule,
            constant_columns=np.flatnonzero(np.abs(mean) == 1),
            layers=layers,
            final=final,
        )

    def _one_pass(self, session: Owners, seed: int) -> tuple[Archetypes, RankEstimate, Spectrum]:
        """Patterns, up to their signs, from one spectrum and the groups of a session."""
        rank, spectrum = count_spectrum(session, self.rule, self.quality)
        groups = None
        if self.method in ("auto", "joint") and rank.n_detected:
            groups = Groups(*projections(session, spectrum.vectors, self.groups))
        searched = rank.n_detected <= CROWDED * session.n_columns or self.method != "auto"
        method = self.method if searched else "joint"
        found = factorize(spectrum, rank, groups=groups, method=method, seed=seed)
        return self._with_errors(found, rank, spectrum), rank, spectrum

    def _with_errors(self, found: Archetypes, rank: RankEstimate, spectrum: Spectrum) -> Archetypes:
        """Archetypes with standard errors, and the quality read off beside the K spikes."""
        if rank.unequal or not len(found) or not 0 < found.quality <= 1:
            return found
        N, M, K = spectrum.n_sites, spectrum.n_examples, rank.n_detected
        shares, overlaps = np.minimum(found.exposures, 1.0), overlaps_of(found.patterns)
        of = errors(shares, found.quality, N, M, overlaps)
        if self.quality is not None:
            return replace(found, exposure_errors=of.exposures, quality_error=0.0)
        s2 = noise_variance(spectrum.values[:K], N, (N - K) / M)  # K of N directions hold no noise
        r = float(np.sqrt(max(1 - s2, 0.0)))
        return replace(found, quality=r, exposure_errors=of.exposures, quality_error=of.quality)

    def _peeled(self, session: Owners, first: Archetypes) -> tuple[Archetypes, int]:
        """More archetypes than one spectrum shows, oriented, and the number of layers."""
        patterns, quality, left = first.patterns, first.quality, session.n_rows
        for layer in range(LAYERS):
            for _ in range(BALLOTS):
                choice = elect_patterns(vote(session, patterns, quality), patterns)
                patterns, quality = choice.patterns, choice.quality
                if not len(patterns):
                    return first, 1
            rest = unexplained_rows(session, patterns, quality)
            more = 0
            if rest.n_rows < LEAST:
                break
            found = self._one_pass(rest, session.seed + layer)[0]
            session.exchanges += rest.exchanges
            more = found.n_detected
            if not len(found) or (layer > 0 and rest.n_rows >= left):
                break
            overlaps = np.abs(found.patterns.astype(np.float32) @ patterns.T.astype(np.float32))
            if (overlaps.max(axis=1) >= SAME * session.n_columns).all():
                return first, 1  # rows of the same archetypes: not all are of one quality
            left = rest.n_rows
            patterns = np.vstack([patterns, found.patterns])
        choice = elect_patterns(vote(session, patterns, quality, strict=True), patterns)
        r, M, rows = choice.quality, session.n_rows, choice.counts.sum()
        if rows < MOST * M or not rows_fit_patterns(session, choice.patterns, quality):
            return first, 1
        shares = choice.counts / M
        predicted = row_sum_cosine(choice.counts, r)
        known = KnownPatterns(predicted, choice.counts, r, session.n_columns, M)
        verdict = judge_layers(known, more, M - rows)
        peeled = Archetypes(
            patterns=choice.patterns,
            scores=choice.scores,
            predicted_scores=predicted,
            exposures=shares,
            exposure_errors=np.sqrt(shares * (1 - shares) / M),
            quality=r,
            n_detected=len(choice.patterns) + more,
            explained=float(rows / M),
            status=verdict.status,
            advice=verdict.advice,
        )
        return peeled, layer + 2

    def _borne_out(self, session: Owners, mean: np.ndarray, found: Archetypes, hidden: int) -> bool:
        """Whether rows bear out the symmetric channel: these patterns, or none at all."""
        if found.status == "no signal":
            most = -ndtri(CHANCE / (2 * len(mean))) / np.sqrt(session.n_rows)
            return bool(np.abs(mean).max() <= most)
        many = found.n_detected > MANY and found.status == "incomplete"
        if many or found.status == "too little data":
            return True
        # Overlaps of rows over few columns cannot tell the channels apart.
        narrow = session.n_columns < (NARROW if found.status == "ok" else BLURRED)
        if not len(found) or found.status not in FOUND or narrow:
            return False
        if not hidden:
            return rows_fit_patterns(session, found.patterns)
        explained = measure_agreement(session, found.patterns, found.quality)[1]
        rest = session.n_rows - float(explained.counts.sum())
        holds = rows_fit_patterns(session, found.patterns, found.quality)
        return holds and rest <= hidden * self.support + STRAYS * session.n_rows


def count_spectrum(
    session: Owners, rule: RankRule, quality: float | None
) -> tuple[RankEstimate, Spectrum]:
    """Count eigenvalues of the pooled operator above the noise, for patterns: rank, spectrum."""

    def sample(values: np.ndarray, whole: bool, profile: NoiseProfile | None = None) -> Sample:
        of = session.n_columns, session.n_rows, whole, quality
        return Sample(values, *of, profile)

    count = CountingRule(rule, sample)
    spectrum = spectrum_of(session, count)
    first = count.estimate
    if first.n_detected == 0 or quality is not None or len(session.members) == 1:
        return first, spectrum
    profile = profile_of(session, spectrum.vectors)
    if profile.alike():
        return first, spectrum
    rank = rule(sample(spectrum.values, spectrum.complete, profile))
    keep = min(rank.n_detected, first.n_detected)
    cut = replace(spectrum, vectors=spectrum.vectors[:, :keep], residuals=spectrum.residuals[:keep])
    strengths, overlaps = rank.strengths[:keep], rank.overlaps[:keep]
    return replace(rank, n_detected=keep, strengths=strengths, overlaps=overlaps), cut
