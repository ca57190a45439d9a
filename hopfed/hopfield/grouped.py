"""Groups of the clients' rows, whose differences say which archetypes a sum is made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hopfed.archetypes.factorize import Groups
from hopfed.federation.messages import Message
from hopfed.hopfield.liars.impossible_messages import unfolded
from hopfed.hopfield.memory.blending import Counted
from hopfed.spectral.operators import HebbianOperator


def clients_as_groups(
    operators: Mapping[int, HebbianOperator], weights: Mapping[int, float], counted: Counted
) -> Groups | None:
    """Take each client's operator, along the counted eigenvectors, for a group of its own.

    The sum alone does not always say which patterns it is made of. Where a client that lies adds
    the product of three archetypes, as often as each of them occurs, it is also the sum of four
    other patterns, each of which agrees by half with each of these four. The operators of the
    other clients are not made of those.
    """
    V = counted.spectrum.vectors[:, : counted.rank.n_detected]
    if not operators or V.shape[1] == 0:
        return None
    common, eye = counted.rank.variance, np.eye(V.shape[1])
    sums, counts = [], []
    for c, operator in operators.items():
        excess = counted.variances.get(c, common) - common
        mass = weights[c] * operator.n_examples
        sums.append(mass * (V.T @ operator.matmat(V) - excess * eye))
        counts.append(mass)
    return Groups(np.stack(sums), np.array(counts))


def joined(one: Groups | None, other: Groups | None) -> Groups | None:
    """Put the groups of both together."""
    if one is None or other is None:
        return other if one is None else one
    return Groups(
        np.concatenate([one.sums, other.sums]), np.concatenate([one.counts, other.counts])
    )


def projected(
    messages: Mapping[int, Message], weights: Mapping[int, float], counted: Counted
) -> Groups:
    """Group projections of all clients, each brought to the common noise variance."""
    common = counted.rank.variance
    eye = np.eye(counted.rank.n_detected)
    sums, counts = [], []
    for c, message in messages.items():
        full = unfolded(message["groups"])
        sizes = message["sizes"].astype(np.float64)
        excess = counted.variances.get(c, common) - common
        full -= sizes[:, None, None] * excess * eye
        sums.append(full * weights[c])
        counts.append(sizes * weights[c])
    return Groups(np.concatenate(sums), np.concatenate(counts))
