"""The client's side: what it answers to the server, from its own examples."""

from __future__ import annotations

import numpy as np

from hopfed import kernels
from hopfed.archetypes.joint_diagonalization import group_projections
from hopfed.errors import ArgumentError
from hopfed.federation.messages import Field, Message, Spec
from hopfed.hopfield.plasticity.rules import Broadcast
from hopfed.kernels import PackedBits
from hopfed.spectral.rows import times, transposed_times

MOST_PATTERNS = 10  # for each column that a server may name; more are refused
SPREADS = (
    4.0  # standard deviations by which the overlap of an example that votes may be below its mean
)


def pack_patterns(patterns: np.ndarray) -> np.ndarray:
    """Pack patterns of +-1, (K, N), to bytes (K, ceil(N / 8)): the form in which they travel."""
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


def project(rows: PackedBits, basis: np.ndarray, groups: int, seed: int, client: int) -> Message:
    """Answer the basis V (N, K) with ``V^T eta^T eta V`` of random groups.

    The sums are symmetric, (groups, K, K); only their lower triangles travel. The rows fill as many
    groups as they can, one at least, and the others are empty.
    """
    K, filled = basis.shape[1], min(groups, max(1, rows.shape[0]))
    sums, counts = np.zeros((groups, K * (K + 1) // 2), np.float32), np.zeros(groups, np.int32)
    full, sizes = group_projections(rows, basis, filled, seed, client, np.float32)
    sums[:filled], counts[:filled] = full[:, np.tri(K, dtype=bool)], sizes
    return {"groups": sums, "sizes": counts}


def project_spec(K: int, groups: int) -> Spec:
    """Form of `project`'s answer."""
    triangle = K * (K + 1) // 2
    return {
        "groups": Field((groups, triangle), "f"),
        "sizes": Field((groups,), "iu"),
    }


def vote(rows: PackedBits, memory: Broadcast, sure: np.ndarray) -> Message:
    """Sums of the examples nearest to each remembered pattern.

    Source: theory/NOTES.md, "Refit by one more exchange".

    An example counts only where its overlap is what the quality lets expect: those of archetypes
    not yet known, and of noise, stay out.
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
    votes = np.rint(transposed_times(rows, chosen)).T
    return {"votes": votes.astype(np.int32), "voters": np.abs(chosen).sum(axis=0).astype(np.int32)}


def vote_spec(K: int, n_sites: int) -> Spec:
    """Form of `vote`'s answer."""
    return {"votes": Field((K, n_sites), "iu"), "voters": Field((K,), "iu")}


def checked(examples: object, n_sites: int) -> PackedBits:
    """Pack a batch of examples, which must be over the sites of the federation."""
    rows = examples if isinstance(examples, PackedBits) else kernels.pack(np.asarray(examples))
    if rows.shape[1] != n_sites:
        raise ArgumentError("examples", f"over the {n_sites} sites of the federation", rows.shape)
    return rows
