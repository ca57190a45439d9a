"""From second moments to archetypes: what owners say of them, two kinds of candidates, and a fit.

*Questions.* The operator comes once: of few sites its sums of products, of many those with a block
in each step of a block Krylov method; a single owner sends its leading eigenpairs. Then the basis V
goes down: the part of an owner's trace along each eigenvector, and how much its rows differ in it,
tell good owners from noisy ones. Column sums orient the patterns.

| question | numbers up | what it reveals of the rows |
| --- | --- | --- |
| `column_sums` | N | the mean of each column |
| `second_moment` | N (N + 1) / 2 | how often two columns agree |
| `products` | N k | the same along the directions of a block of k columns |
| `captured` | K + 2 | how much of the rows lies along each eigenvector |
| `projected` | groups (K (K + 1) / 2 + 1) | second moments of random groups in a basis |

*Joint diagonalisation.* In the basis V each group g of examples is a K x K matrix,
``A_g = V^T C_g V - s2 I``, about ``sum_mu w_mu^g a_mu a_mu^T``. Whitened by their mean, the
archetypes' coefficients are orthogonal and diagonalise every A_g: only linear independence is
needed, and no search. Counting noise between random groups of one client is difference enough. Near
the load at which eigenvalues sink below the threshold some basis vectors are mixtures: they come
apart once all candidates are fitted to the operator together (`Subspace.candidates`).

*Search with one operator*, where groups cannot be told apart (secure aggregation, the paper's own
setting) and for what is left over. Each pass starts many memories at mixtures ``sign(V c)``
(arXiv:2603.19902, eq. (21)) and lets them fall in ``J = V diag(l^p) V^T``, between the projector
(p = 0) and Hebb (p = 1): slightly heavier archetypes nucleate first. What passes the theory's
threshold is deflated in the metric of the operator, which makes everything left easier.

Source: theory/NOTES.md, "Joint diagonalisation", "Search with one operator", "Deflation", "Exposure
fit" and "Goodness of fit".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hopfed import kernels
from hopfed._lib.arrays import Array, blas_threads, like, namespace, to_host
from hopfed._lib.random import derive, stream
from hopfed._lib.settings import require
from hopfed.archetypes.archetypes import Archetypes
from hopfed.archetypes.session import Owner, Owners, total
from hopfed.archetypes.status import judge
from hopfed.archetypes.subspace import (
    DUPLICATE,
    SLACK,
    ExposureFit,
    Subspace,
    accepted,
    debiased_weights,
    distinct,
    fit_exposures,
    joined,
    match_known,
    merge,
    select,
)
from hopfed.federation.messages import Message
from hopfed.kernels import Rows
from hopfed.memory.layered import LayeredMemory
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, Spectrum, Wanted, eigenpairs, site_gauge
from hopfed.spectral.noise import NoiseProfile
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, PooledOperator
from hopfed.spectral.rank import RankEstimate
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import host_moments, times, transposed_times

DEALT = 1 << 20  # examples that are dealt to groups at once
STEPS, STARTS = 100, 4  # Newton steps from each start, and starts; at most
LONGEST = 0.3  # angle of a Newton step, per pair: far from the solution the first order is rough


def group_labels(
    n_rows: int, groups: int, seed: int, client: int, start: int, stop: int
) -> np.ndarray:
    """Random group of each of the client's examples; of `DEALT` of them, groups differ by one."""
    found = [np.empty(0, np.int64)]
    for first in range(start // DEALT * DEALT, stop, DEALT):
        draws = stream(seed, "groups", client, *([first] if first else []))
        label = draws.permutation(min(DEALT, n_rows - first)) % groups
        found.append(label[max(start - first, 0) : stop - first])
    return np.concatenate(found)


def group_projections(
    rows: Rows, vectors: Array, groups: int, seed: int, client: int = 0, precision: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """What a client answers to the basis V: the K x K sums of its random groups, where rows are."""
    V = namespace(vectors).astype(vectors, precision)
    deal = partial(group_labels, rows.shape[0], groups, seed, client)
    asked = partial(_projections, V=V, groups=groups, deal=deal)
    sums, counts = rows.total(asked, placed=True)
    return sums, counts.astype(np.float64)


def _projections(
    part: Rows, before: int, V: Array, groups: int, deal: Callable[[int, int], np.ndarray]
) -> Sums:
    """K x K sums and sizes of the groups, of one block of rows that has so many `before` it."""
    X = times(part, V)
    mine = deal(before, before + len(X))
    order = like(np.argsort(mine, kind="stable"), X)  # group by group, rows as they follow
    sizes = np.bincount(mine, minlength=groups)
    pieces = [X[order[a:b]] for a, b in pairwise([0, *np.cumsum(sizes).tolist()])]
    sums = namespace(X).stack([piece.T @ piece for piece in pieces])
    return Sums((namespace(X).astype(sums, namespace(X).float64), sizes))


def joint_candidates(
    space: Subspace, sums: Array, counts: np.ndarray, variance: float, seed: int
) -> np.ndarray:
    """Archetype candidates (C, N) int8 from group projections, where the sums (G, K, K) are."""
    found = np.zeros((0, space.n_sites), dtype=np.int8)
    if space.dim == 0 or (counts > 0).sum() < 2:
        return found
    xp, some = namespace(sums), np.flatnonzero(counts > 0)
    sums, n = sums[some], like(counts[some], sums)
    A = sums / n[:, None, None] - variance * xp.eye(space.dim)
    # W with ``W^T mean W = 1`` and B with ``B B^T = mean``, on its positive part.
    values, E = xp.linalg.eigh(xp.tensordot(n / xp.sum(n), A, axes=1))
    keep = values > xp.maximum(1e-3 * values[-1] / values.shape[0], 0 * values[-1])
    root = xp.sqrt(values[keep])
    whiten, lift = E[:, keep] / root, E[:, keep] * root
    dim = whiten.shape[1]
    # Every group's departure from the mean, times the root of its examples: equal noise.
    A = (whiten.T @ A @ whiten - xp.eye(dim)) * xp.sqrt(n)[:, None, None]
    rng = stream(seed, "joint")
    rest = xp.eye(dim)
    for _ in range(STARTS):  # each works on what the last one left; one that finds none is the last
        left = xp.astype(rest.T @ A @ rest, xp.float32)  # fine enough, and twice as fast
        U = rest @ joint_eigenbasis(left, rng, STEPS)
        fresh = space.candidates(lift @ U, found)
        before = len(found)
        found = joined(space, found, fresh) if len(fresh) else found
        if len(found) == before or dim - len(found) < 2:
            break
        directions = space.coefficients(found).astype(np.float64) @ to_host(whiten)
        rest = np.linalg.qr(directions.T, mode="complete")[0][:, len(found) :]
        rest = like(rest, sums)
    return found


def joint_eigenbasis(A: Array, rng: np.random.Generator, steps: int) -> Array:
    """Orthogonal U (K, K) for which all ``U^T A_g U`` are as diagonal as they get."""
    xp = namespace(A)
    draws = like(rng.standard_normal(len(A)), A)
    mixture = xp.tensordot(draws, xp.astype(A, xp.float64), axes=1)
    U = xp.astype(xp.linalg.eigh(mixture)[1], A.dtype)
    D = U.T @ A @ U
    one = xp.eye(U.shape[0], dtype=A.dtype)
    finest = np.finfo(np.float64 if A.dtype == xp.float64 else np.float32)
    last = np.inf
    for _ in range(steps):
        d = xp.linalg.diagonal(D)
        off = xp.astype(xp.sum(D**2) - xp.sum(d**2), xp.float64)
        if bool(off > last * (1 - 1e-3)):
            break
        last = off
        # sum_g (d_gi - d_gj) D_gij and sum_g (d_gi - d_gj)^2 for all pairs, from K x K products.
        above = xp.einsum("gi,gij->ij", d, D)
        square = xp.sum(d**2, axis=0)
        below = square[:, None] + square[None, :] - 2 * d.T @ d
        below = xp.maximum(below, 4 * float(finest.eps) * xp.max(square) + float(finest.tiny))
        X = xp.clip((above - above.T) / below, -LONGEST, LONGEST) / 2
        turn = xp.linalg.solve(one + X, one - X)  # Cayley: a rotation, 1 - 2 X to first order
        U, D = U @ turn, turn.T @ D @ turn
    return U


# (p, beta), tried in turn; the next one after a pass without a find. Archetypes nucleate at random
# times, at the highest rate for p from .25 to .35 and beta from 3.25 to 4.
SETTINGS = ((0.25, 3.5), (0.3, 3.75))
RETURN = 0.98  # overlap with itself to which an archetype falls back after `flips`
STOP = 0.03  # below the score of an archetype: a memory that scores more is on its way to one


@dataclass(frozen=True)
class Search:
    """Settings of the search.

    Attributes
    ----------
    starts, sweeps : memories per pass and heat-bath sweeps of each; both grow after a pass that
        found nothing.
    settings : pairs (p, beta) of eigenvalue exponent and inverse temperature.
    patience, reluctance : passes in a row without a find before giving up; the second while nothing
        at all is found, and once half is. The longest wait that ended in a find was 42 passes.
    memory : the layered memory that is run; one layer, serial heat bath, by default.
    slack : of the acceptance test (`hopfed.archetypes.subspace.accepted`); inf lets every rest
        state pass.
    flips : share of its sites that are turned at random to see whether a rest state attracts; 0
        takes any.
    duplicate : overlap of two likenesses of one (`hopfed.archetypes.subspace.merge`); 1 keeps all
        that differ.
    deflate : take what was found out of the operator before the next pass.
    early_stop : stop a memory once its score is close to that of an archetype.
    most : memories, times sweeps, times directions, of all passes together, before it gives up.
    """

    starts: int = 32
    sweeps: int = 150
    settings: tuple[tuple[float, float], ...] = SETTINGS
    patience: int = 40
    reluctance: int = 5
    memory: LayeredMemory = field(default_factory=lambda: LayeredMemory(layers=1, order="serial"))
    slack: float = SLACK
    flips: float = 0.15
    duplicate: float = DUPLICATE
    deflate: bool = True
    early_stop: bool = True
    most: float = np.inf

    def __post_init__(self) -> None:
        for name in ("starts", "sweeps", "patience", "reluctance"):
            require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        require(bool(self.settings), "settings", "at least one pair (p, beta)", "none")
        require(self.slack >= 0, "slack", "at least 0", self.slack)
        require(0 <= self.flips < 0.5, "flips", "in [0, 0.5)", self.flips)
        require(0 < self.duplicate <= 1, "duplicate", "an overlap in (0, 1]", self.duplicate)


def search_candidates(
    space: Subspace, config: Search, seed: int, known: np.ndarray | None = None
) -> np.ndarray:
    """Archetype candidates (C, N) int8, the `known` ones, deflated first, among them."""
    space = replace(space, vectors=to_host(space.vectors))  # as the heat bath
    found = np.zeros((0, space.n_sites), np.int8) if known is None else known
    gauge = site_gauge(space.vectors) if space.dim else np.ones(space.n_sites)
    base = space.vectors * gauge[:, None] * np.sqrt(space.metric / space.metric.mean())
    starts, sweeps, turn, failures, number = config.starts, config.sweeps, 0, 0, 0
    steps = 0
    patience, remainder = config.reluctance, None
    # One direction close to the threshold says nothing of the score of an archetype; the mean does.
    floor = float(space.overlaps.mean()) - STOP if space.dim else None
    while len(found) < space.dim and failures < patience and steps < config.most:
        if remainder is None:  # eigenpairs of the operator once those found are taken out of it
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
        fresh = _rest(distinct(_rest(state, U)) * gauge.astype(np.int8), space.vectors)
        before = len(found)
        fresh = fresh[accepted(space, fresh, config.slack)]
        if config.flips and len(fresh):  # those stay to which turned sites fall back
            drawn = stream(seed, "flips", number).random(fresh.shape) < config.flips
            back = _rest(np.where(drawn, -fresh, fresh), space.vectors).astype(np.float32)
            fresh = fresh[(back * fresh).mean(axis=1) >= RETURN]
        found = merge(space, found, fresh, config.duplicate)
        if len(found) > before:
            starts, sweeps, failures = config.starts, config.sweeps, 0
            patience = config.patience if 2 * len(found) < space.dim else config.reluctance
            remainder = None
            continue
        failures, turn = failures + 1, turn + 1
        starts, sweeps = min(128, starts + starts // 2), min(600, int(sweeps * 1.15))
    return found


def _rest(states: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Zero-noise rest states (C, N) in ``W W^T``, reached site by site."""
    return kernels.descend(states, W).state


METHODS = ("auto", "joint", "layered")
# one of these, or a baseline: patterns (C, N) from what is counted, and a seed
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
    """Factor the signal of `spectrum` into archetypes.

    Without `groups` joint diagonalisation has nothing to work on. The `method` is "joint",
    "layered" (one operator, search alone), or "auto": joint first, layered for what is left, the
    exposure fit decides; of a function all patterns are taken. Of `known` patterns (C, N) of
    earlier rounds those that this operator shows come first, as they are or as it shows them,
    whichever is surer; `sure` (C,) is the overlap to expect of each with its archetype.
    """
    require(callable(method) or method in METHODS, "method", f"one of {', '.join(METHODS)}", method)
    if known is None:
        known = np.zeros((0, spectrum.n_sites), dtype=np.int8)
    # Thousands of small products: handing each to a second BLAS thread costs more than it gains,
    # and ten times as much where another program holds the core that the thread waits for.
    with blas_threads(1):
        space = Subspace.of(spectrum, rank)
        candidates, rows = match_known(space, known, np.ones(len(known)) if sure is None else sure)
        if isinstance(method, str):
            kept, fit = _search(space, rank, groups, method, search, candidates, seed)
        else:
            kept = method(spectrum, rank, seed)
            fit = fit_exposures(space, kept)
        weights = debiased_weights(space, kept)
        order = np.argsort(-weights, kind="stable")
        # The verdict keeps to the fit that chose the patterns: it reads low where one is unsure.
        fit = replace(fit, weights=fit.weights[order], shares=fit.shares[order])
        kept, weights = kept[order], weights[order]
        place = {x.tobytes(): row for row, x in enumerate(kept.astype(np.int8))}
        at = [place.get(x.tobytes(), -1) for x in candidates.astype(np.int8)]
        scores, gamma = space.judged(kept)
        verdict = judge(spectrum, rank, kept, gamma, fit)
        left = spectrum.values[rank.n_detected :]
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
            residual=float(left[0] / rank.threshold)
            if len(left) and rank.threshold > 0
            else np.nan,
        )


def _search(
    space: Subspace,
    rank: RankEstimate,
    groups: Groups | None,
    method: str,
    search: Search | None,
    candidates: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, ExposureFit]:
    """Find more by `method` beside the `candidates` of earlier rounds; the fit decides."""
    kept, fit = select(space, candidates)
    search = search or Search()
    if len(kept) < space.dim or space.dim == 0:
        new = np.zeros((0, space.n_sites), dtype=np.int8)
        if method in ("auto", "joint") and groups is not None:
            new = joint_candidates(space, groups.sums, groups.counts, rank.variance, seed)
        kept, fit = select(space, merge(space, kept, new) if len(kept) else new)
    if method in ("auto", "layered") and len(kept) < space.dim:
        candidates = search_candidates(space, search, seed, known=kept)
        kept, fit = select(space, candidates)
    return kept, fit


DENSE_SITES = 1_024  # up to here the counts are fewer bytes than a few blocks of 64 columns


def column_sums(owner: Owner, _: Message) -> Message:
    """Sums (N,) of the entries of each column."""
    return {"columns": host_moments(owner.rows)[0].astype(np.int32)}


def products(owner: Owner, sent: Message) -> Message:
    """Product (N, k) of the owner's sum of products with a block."""
    X = like(sent["block"], owner.rows.home)
    if owner.rows.counts is not None:
        whole = FactorOperator.from_examples(owner.rows)
        return {"block": whole.matmat(X) * whole.mass}
    return {"block": owner.rows.total(lambda part: transposed_times(part, times(part, X)))}


def second_moment(owner: Owner, _: Message) -> Message:
    """Sums of products of two columns, the lower triangle of them: whole numbers."""
    matrix = to_host(DenseOperator.from_examples(owner.rows).matrix)
    kind: type = np.int16 if owner.rows.shape[0] <= np.iinfo(np.int16).max else np.int32
    kind = kind if owner.rows.counts is None else np.float32
    return {"counts": matrix[np.tril_indices(len(matrix))].astype(kind)}


def captured(owner: Owner, sent: Message) -> Message:
    """Energy along each column of a basis (K,), and that of rows and its square added up (2,)."""
    V = like(sent["basis"], owner.rows.home)

    def of_block(part: Any) -> Sums:
        squares = to_host(times(part, V) ** 2).astype(np.float64)
        each = squares.sum(axis=1)
        return Sums((squares.sum(axis=0), np.array([each.sum(), (each**2).sum()])))

    along, energies = owner.rows.total(of_block)
    return {"along": _single(along), "energies": energies}


def projected(groups: int, seed: int, owner: Owner, sent: Message) -> Message:
    """Second moments of random groups of rows in a basis, as lower triangles, and their sizes."""
    basis = sent["basis"]
    if isinstance(basis, np.ndarray):  # that of a single owner is where the rows are
        basis = like(basis, owner.rows.home)
    sums, sizes = group_projections(owner.rows, basis, groups, seed, owner.index)
    lower = np.tril_indices(basis.shape[1])
    return {"groups": _float32(sums)[:, *lower], "sizes": sizes.astype(np.int32)}


def _single(x: Array) -> np.ndarray:
    return np.asarray(to_host(x), np.float32)


def _float32(x: Array) -> Array:
    """Single precision, where it is."""
    xp = namespace(x)
    return xp.astype(x, xp.float32)


def mean_of(session: Owners) -> np.ndarray:
    """(N,) mean of all examples; its sums travel with the operator."""
    before = session.exchanges
    sums = total(session.once(column_sums), "columns")
    session.exchanges = before
    return sums / session.n_rows


@dataclass(frozen=True, eq=False)
class _Asked(PooledOperator):
    """The pooled operator of owners who keep theirs: products with it are asked for."""

    product: Callable[[Array], Array] = field(repr=False)

    def matmat(self, X: Array) -> Array:
        return self.product(X)


def spectrum_of(session: Owners, wanted: Wanted) -> Spectrum:
    """Leading eigenpairs of the pooled operator."""
    if len(session.members) > 1:
        route = "auto" if session.n_columns <= DENSE_SITES else "krylov"
        return eigenpairs(pooled(session), wanted, route=route, seed=session.seed)
    rows, found = session.members[0].rows, list[Spectrum]()
    again = not rows.held and session.n_columns <= EXPLICIT_LIMIT
    form: Any = DenseOperator if again else FactorOperator

    def leading(_: Owner, __: Message) -> Message:
        found.append(eigenpairs(form.from_examples(rows), wanted, seed=session.seed))
        return {"values": _single(found[0].values), "vectors": _float32(found[0].vectors)}

    session.ask(leading, {}, there=True)
    return found[0]


def pooled(session: Owners) -> HebbianOperator:
    """Return the pooled operator as it travels: its sums, once, or products with it."""
    whole = PooledOperator.over([FactorOperator.from_examples(o.rows) for o in session.members])
    if len(session.members) == 1:
        return whole.parts[0]
    N, M = session.n_columns, session.n_rows
    if N > DENSE_SITES:
        masses = N, whole.mass, whole.sum_sq_weights
        return _Asked(*masses, whole.parts, product=partial(_product, session))
    S, lower = np.zeros((N, N)), np.tril_indices(N)
    S[lower] = total(session.once(second_moment), "counts")
    return DenseOperator(N, M, M, like(S + np.tril(S, -1).T, whole.home))


def _product(session: Owners, X: Array) -> Array:
    """The pooled operator times a block: one exchange."""
    answers = session.ask(products, {"block": to_host(X)})
    block = sum((a["block"] for a in answers[1:]), start=answers[0]["block"]) / session.n_rows
    return like(block.astype(X.dtype), X)


def profile_of(session: Owners, V: Array) -> NoiseProfile:
    """How much of each owner's trace lies along each eigenvector."""
    answers, m = session.ask(captured, {"basis": _single(V)}), session.sizes.astype(np.float64)
    along = np.array([a["along"] for a in answers], np.float64) / m[:, None]
    first, second = (np.array([a["energies"] for a in answers]) / m[:, None]).T
    spreads = np.sqrt(np.maximum(second - first**2, 0.0))
    return NoiseProfile(along, m / m.sum(), session.n_columns, rows=m, spreads=spreads)


def projections(session: Owners, V: Array, groups: int) -> tuple[Array, np.ndarray]:
    """K x K sums of random groups over all owners, and counts; of one owner where its rows are."""
    K, each = V.shape[1], -(-groups // len(session.members))
    alone = len(session.members) == 1
    question = partial(projected, each, session.seed)
    answers = session.ask(question, {"basis": _float32(V) if alone else _single(V)}, there=alone)
    held = answers[0]["groups"] if alone else np.concatenate([a["groups"] for a in answers])
    xp, (row, column) = namespace(held), np.tril_indices(K)
    place = np.zeros((K, K), int)  # of each entry among those of the triangle
    place[row, column] = place[column, row] = np.arange(len(row))
    sums = xp.astype(held, xp.float64)[:, place]
    return sums, np.concatenate([a["sizes"] for a in answers]).astype(np.float64)
