"""Questions about the second moment of rows, and what the server makes of the answers.

The operator comes once: of few sites its sums of products, of many those with a block in each step
of a block Krylov method; a single owner sends its leading eigenpairs. Then the basis V goes down:
the part of an owner's trace along each eigenvector, and how much its rows differ in it, tell good
owners from noisy ones. Column sums orient the patterns, which second moments know up to a sign.

| question | numbers up | what it reveals of the rows |
| --- | --- | --- |
| `column_sums` | N | the mean of each column |
| `second_moment` | N (N + 1) / 2 | how often two columns agree |
| `products` | N k | the same along the directions of a block of k columns |
| `captured` | K + 2 | how much of the rows lies along each eigenvector |
| `projected` | groups (K (K + 1) / 2 + 1) | second moments of random groups in a basis |

Each costs one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hopfed._lib.arrays import Array, like, namespace, to_host
from hopfed.archetypes.factorize import group_projections
from hopfed.archetypes.session import Owner, Owners, total
from hopfed.federation.messages import Message
from hopfed.spectral.eigenpairs import EXPLICIT_LIMIT, Spectrum, Wanted, eigenpairs
from hopfed.spectral.noise import NoiseProfile
from hopfed.spectral.operators import DenseOperator, FactorOperator, HebbianOperator, PooledOperator
from hopfed.spectral.reread_rows import Sums
from hopfed.spectral.rows import host_moments, times, transposed_times

DENSE_SITES = 1_024  # up to here the counts are fewer bytes than a few blocks of 64 columns


def column_sums(owner: Owner, _: Message) -> Message:
    """Sums (N,) of the entries of each column."""
    return {"columns": host_moments(owner.rows)[0].astype(np.int32)}


def products(owner: Owner, told: Message) -> Message:
    """Product (N, k) of the owner's sum of products with a block."""
    X = like(told["block"], owner.rows.home)
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


def captured(owner: Owner, told: Message) -> Message:
    """Energy along each column of a basis (K,), and that of rows and its square added up (2,)."""
    V = like(told["basis"], owner.rows.home)

    def of_block(part: Any) -> Sums:
        squares = to_host(times(part, V) ** 2).astype(np.float64)
        each = squares.sum(axis=1)
        return Sums((squares.sum(axis=0), np.array([each.sum(), (each**2).sum()])))

    along, energies = owner.rows.total(of_block)
    return {"along": _single(along), "energies": energies}


def projected(groups: int, seed: int, owner: Owner, told: Message) -> Message:
    """Second moments of random groups of rows in a basis, as lower triangles, and their sizes."""
    basis = told["basis"]
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
