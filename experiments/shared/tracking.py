"""How a federation's picture of the mixture follows the mixture itself, on the simplex of shares.

A round's operator is a sum over archetypes, each weighted by its share of the examples. The
patterns that the server remembers, fitted to the operator that it factors, give these shares back:
its picture of the mixture. What it still holds of earlier rounds makes the picture late.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.optimize import linear_sum_assignment, nnls

from hopfed.federation.messages import Message, below
from hopfed.federation.rounds import Played
from hopfed.hopfield import HopfieldFederation
from hopfed.hopfield.evidence import Blended, Evidence
from hopfed.hopfield.patterns import Patterns
from hopfed.kernels import pack
from hopfed.spectral.operators import HebbianOperator

OWN = 0.5  # overlap from which a pattern stands for an archetype
STEP = 0.25  # rounds between two lags that are tried


def held_mixture(
    method: HopfieldFederation, t: int, before: Message, played: Played, archetypes: np.ndarray
) -> np.ndarray:
    """Shares (K,) of archetypes (K, N) in the operator that the server factored in round `t`.

    `before` is the server's state before the round. A share is 0 where no remembered pattern stands
    for an archetype; they sum to 1, or are all 0.
    """
    shares, after = np.zeros(len(archetypes)), played.state.server
    patterns = after["memory/patterns"].astype(np.float64)
    said = played.client_metrics["weight"]
    weights = {int(c): float(said[c]) for c in np.flatnonzero(said > 0)}
    channel = cast(Patterns, method.channel)
    evidence = Evidence.unflatten(channel.encoding, below(after, "evidence"))
    if channel.discount == 0:  # the server has kept none of what the clients of the round sent
        code, sent = channel.encoding, []
        for c, weight in weights.items():
            rows = method.source.examples(t, c)
            sums = rows.sum(axis=0, dtype=np.float64)
            sent.append((c, code.decode(code.encode(pack(rows))), sums, weight))
        evidence = evidence.extend(sent)
    if evidence.operator is None or not len(patterns):
        return shares
    earlier = before.get("memory/patterns", np.zeros((0, patterns.shape[1])))
    held = Blended.of(channel.memory, evidence, earlier, weights, channel.alpha)
    m = np.abs(patterns @ archetypes.T) / patterns.shape[1]
    rows, columns = linear_sum_assignment(-m)
    own = m[rows, columns] >= OWN
    found = shares_of(held.operator, patterns[rows[own]])
    if found.sum() > 0:
        shares[columns[own]] = found / found.sum()
    return shares


def shares_of(operator: HebbianOperator, patterns: np.ndarray) -> np.ndarray:
    """Shares (C,), up to a factor, with which patterns (C, N) make up an operator off its diagonal.

    The diagonal holds the same whatever the examples are: rows of +-1 have squares of 1.
    """
    if not len(patterns):
        return np.zeros(0)
    x = patterns.astype(np.float64)
    N = x.shape[1]
    energies = (x * np.asarray(operator.matmat(x.T)).T).sum(axis=1) - operator.trace
    return nnls(((x @ x.T) ** 2 - N) / N, energies)[0]


def lag(held: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """How late held shares (T, K) are, and their distance from the true ones.

    The lag is the number of rounds, up to a third of T, by which the true path has to be moved for
    the smallest mean total variation (half the sum of absolute differences).
    """
    rounds, tried = np.arange(len(true)), np.arange(0, len(true) / 3 + STEP / 2, STEP)
    means = []
    for shift in tried:
        at = np.maximum(rounds - shift, 0)
        moved = np.column_stack([np.interp(at, rounds, column) for column in true.T])
        means.append(float(np.abs(held - moved).sum(axis=1).mean() / 2))
    return float(tried[int(np.argmin(means))]), means[0]
