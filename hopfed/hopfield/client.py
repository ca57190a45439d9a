"""The client's side: what it answers to the server, from its own examples."""

from __future__ import annotations

import numpy as np

from hopfed import kernels
from hopfed.archetypes.joint_diagonalization import group_labels, group_projections
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.leaks.columns_apart import lines_apart
from hopfed.hopfield.plasticity.rules import Broadcast
from hopfed.kernels import PackedBits
from hopfed.spectral.rows import times, transposed_times

MOST_PATTERNS = 10  # for each column that a server may name; more are refused
EACH = 10  # rows of a group for each direction, at least
ALONE = 3  # rows of a group: no combination of directions may single out fewer
SPREADS = (
    4.0  # standard deviations by which the overlap of an example that votes may be below its mean
)


def pack_patterns(patterns: np.ndarray) -> np.ndarray:
    """Pack patterns of +-1, (K, N), to bytes (K, ceil(N / 8)): the form in which they travel.

    Examples
    --------
    >>> pack_patterns(np.array([[1, -1, 1, 1]])).tolist()
    [[176]]
    """
    return np.packbits(patterns > 0, axis=1)


def unpack_patterns(packed: np.ndarray, n_sites: int) -> np.ndarray:
    """Undo `pack_patterns`: int8 (K, N)."""
    return (2 * np.unpackbits(packed, axis=1, count=n_sites).astype(np.int8) - 1).astype(np.int8)


def broadcast_of(down: Message, n_sites: int) -> Broadcast:
    """Read what the server says it remembers; nothing before the first broadcast."""
    if "patterns" not in down:
        return Broadcast(np.zeros((0, n_sites), np.int8), 1.0)
    patterns = unpack_patterns(down["patterns"], n_sites)
    return Broadcast(patterns, float(np.clip(down["quality"], 1e-3, 1.0)))


def project(
    rows: PackedBits, basis: np.ndarray, groups: int, seed: int, client: int, least: int = 1
) -> Message:
    """Answer the basis V (N, K) with ``V^T eta^T eta V`` of random groups.

    The sums are symmetric, (groups, K, K); only their lower triangles travel. With `least` above 1
    a group has so many rows, and ten for each direction: the table of fewer, along single columns,
    holds rows that two columns set apart. (Of 784 rows of quality .9 in groups of 50, 50 columns of
    377 rows were read off.) The rows fill as many groups as they can, one at least, and the others
    are empty. Then the basis is also rounded, see `on_grid`, and groups in which the directions
    single a row out, see `spread`, are put together, in the end to the whole batch.

    Raises
    ------
    DataError : with `least` above 1, a direction that is longer than 1.
    """
    K = basis.shape[1]
    fewest = 1
    if least > 1:
        fewest = max(least, EACH * K)
        basis = on_grid(basis)
    filled = min(groups, max(1, rows.shape[0] // fewest))
    while least > 1 and filled > 1 and not spread(rows, basis, filled, seed, client):
        filled //= 2
    sums, counts = np.zeros((groups, K * (K + 1) // 2), np.float32), np.zeros(groups, np.int32)
    full, sizes = group_projections(
        rows, basis, filled, seed, client, np.float64 if least > 1 else np.float32
    )
    sums[:filled], counts[:filled] = full[:, np.tri(K, dtype=bool)], sizes
    return {"groups": sums, "sizes": counts}


def spread(rows: PackedBits, basis: np.ndarray, groups: int, seed: int, client: int) -> bool:
    """Whether no combination of directions (N, K) is of fewer than 3 rows of a random group alone.

    A direction in which one row of a group alone has a value, beside others whose entries are
    powers of 2, gives that row away, as digits. The largest share that a row has of the squares of
    any combination is its leverage, whatever the basis: of s rows alone, it is 1 / s for one.
    """
    X = kernels.matmat(rows, basis)
    label = group_labels(rows.shape[0], groups, seed, client)
    X = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    for g in range(groups):
        U, sizes, _ = np.linalg.svd(X[label == g], full_matrices=False)
        own = U[:, sizes > 1e-10 * sizes.max(initial=0.0)]
        if (np.square(own).sum(axis=1) > 1 / ALONE + 1e-9).any():
            return False
    return True


def on_grid(basis: np.ndarray) -> np.ndarray:
    """Round directions (N, K) so that sums over a group of rows are exact in double precision.

    Rounding on the way is a question of its own: beside two large entries that cancel, the others
    of a direction are rounded away in every row but those that resemble a pattern, and the sum of a
    group is over these alone. On a grid of ``2^-b`` with ``4^b N 2^12`` at most 2^53, no bit of a
    row is lost before a thousand rows are added up, however they lie.

    Parameters
    ----------
    basis : (N, K), of length 1 at most.

    Raises
    ------
    DataError : a direction that is longer than 1.

    Examples
    --------
    >>> on_grid(np.array([[0.6], [1e-9]])).ravel().tolist()
    [0.6000003814697266, 0.0]
    """
    lengths = np.einsum("nk,nk->k", basis, basis, dtype=np.float64)
    if not (lengths <= 1.01).all():
        raise DataError("directions that are longer than 1")
    scale = 2.0 ** (int(41 - np.log2(len(basis))) // 2)
    rounded: np.ndarray = np.rint(basis * scale) / scale
    return rounded


def project_spec(K: int, groups: int) -> Spec:
    """Form of `project`'s answer."""
    triangle = K * (K + 1) // 2
    return {
        "groups": Field((groups, triangle), "f"),
        "sizes": Field((groups,), "iu"),
    }


def vote(rows: PackedBits, memory: Broadcast, sure: np.ndarray, least: int = 1) -> Message:
    """Sums of the examples nearest to each remembered pattern.

    Source: theory/NOTES.md, "Refit by one more exchange".

    An example counts only where its overlap is what the quality lets expect: those of archetypes
    not yet known, and of noise, stay out.

    Parameters
    ----------
    sure : (K,) overlap of each pattern with its archetype, as the server expects it: the examples
        of a blurred pattern overlap with it by less.
    least : examples that a sum is over. One over fewer is not sent, see `discreet`.
    """
    K, N = memory.patterns.shape
    if K == 0:
        return {"votes": np.zeros((0, N), np.int32), "voters": np.zeros(0, np.int32)}
    overlap = times(rows, memory.patterns.T.astype(np.float32)) / N
    r = np.clip(memory.quality * sure, 0.0, 1.0)
    floor = np.maximum(r - SPREADS * np.sqrt((1 - r * r) / N), r / 2)
    nearest = np.abs(overlap).argmax(axis=1)
    at = np.arange(len(nearest)), nearest
    chosen = np.zeros_like(overlap)
    chosen[at] = np.where(np.abs(overlap[at]) >= floor[nearest], np.sign(overlap[at]), 0.0)
    chosen = discreet(chosen, overlap, least, rows)
    while least > 1 and (k := lines_apart(rows, chosen, least)) is not None:
        chosen[:, k] = 0.0
        chosen = discreet(chosen, overlap, least, rows)
    votes = np.rint(transposed_times(rows, chosen)).T
    return {"votes": votes.astype(np.int32), "voters": np.abs(chosen).sum(axis=0).astype(np.int32)}


def discreet(
    chosen: np.ndarray, overlap: np.ndarray, least: int, rows: PackedBits | None = None
) -> np.ndarray:
    """Leave votes out, so that no sum of the client is over a few examples only.

    A sum over few examples is nearly each of them, and is not sent. The server can also subtract:
    the sums of all columns, which it has, less the votes leave the examples that voted for nothing
    and twice those that voted with the rarer sign. A line of the operator, which is the sum of all
    examples signed by one column, less the votes leaves those that voted for nothing and twice
    those whose column is of the rarer sign among the voters for a pattern. Where these would be a
    few, the weakest votes for the pattern that has most are left out, until as many examples as
    are not a few voted for nothing.

    Parameters
    ----------
    chosen : (M, K) of -1, 0 and 1, the pattern that each example votes for and its sign.
    overlap : (M, K) of the examples with the patterns.
    least : examples that are not a few.
    rows : (M, N) the examples, whose columns are looked at.

    Returns
    -------
    (M, K) like `chosen`, with zeros for the votes that are left out.

    Examples
    --------
    >>> chosen = np.zeros((9, 3))
    >>> chosen[:5, 0] = chosen[5:8, 1] = chosen[8, 2] = 1
    >>> discreet(chosen, chosen, 2).sum(axis=0).tolist(), discreet(chosen, chosen, 4).sum(axis=0)
    ([4.0, 3.0, 0.0], array([5., 0., 0.]))
    """
    if least <= 1:  # a simulation: nothing is few
        return chosen
    chosen = np.where(np.abs(chosen).sum(axis=0) < least, 0.0, chosen)
    while True:
        voters = np.abs(chosen).sum(axis=0)
        away = len(chosen) - int(voters.sum())
        sums = chosen.sum(axis=0)[None]
        if rows is not None and away < least:
            sums = np.concatenate([sums, np.rint(transposed_times(rows, chosen))])
        left = len(chosen) - (voters + np.abs(sums)).sum(axis=1) / 2
        few = 0 < away < least or bool(((left > 0) & (left < least)).any())
        if not few or not chosen.any():
            return chosen
        k = int(voters.argmax())
        at = np.flatnonzero(chosen[:, k])
        weakest = at[np.argsort(np.abs(overlap[at, k]), kind="stable")][: least - away]
        enough = voters[k] - len(weakest) >= least
        chosen[weakest if enough else slice(None), k] = 0.0


def vote_spec(K: int, n_sites: int) -> Spec:
    """Form of `vote`'s answer."""
    return {"votes": Field((K, n_sites), "iu"), "voters": Field((K,), "iu")}


def checked(examples: object, n_sites: int) -> PackedBits:
    """Pack a batch of examples, which must be over the sites of the federation."""
    rows = examples if isinstance(examples, PackedBits) else kernels.pack(np.asarray(examples))
    if rows.shape[1] != n_sites:
        raise ArgumentError("examples", f"over the {n_sites} sites of the federation", rows.shape)
    return rows
