"""Archetypes that groups of clients agree on, where the sum of all says another thing.

To archetypes a client that lies adds a product or a majority of them, and the sum of all operators
is as well that of other patterns, each half of every one of these. Such patterns leave much of the
honest operators unexplained. Then archetypes are looked for in groups of clients, more than twice
as many as may lie; the clients that are explained best by what groups agree on are factored again.
That is one step of least trimmed squares (P. J. Rousseeuw, J. Amer. Statist. Assoc. 79 (1984) 871).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from hopfed.archetypes.archetypes import Archetypes
from hopfed.hopfield.memory.blending import Counted
from hopfed.privacy.mechanism import PrivateOperator
from hopfed.spectral.operators import HebbianOperator

ALIKE = 0.7  # overlap of a pattern of one group and of another from which both are of one archetype


def agreed(
    found: Archetypes,
    counted: Counted,
    operators: Mapping[int, HebbianOperator],
    liars: int,
    level: float,
    factored: Callable[[Sequence[int]], Archetypes],
) -> Archetypes:
    """Return `found`, or archetypes that explain all clients but some better than noise does."""
    clients, K = list(operators), counted.rank.n_detected
    kept = len(clients) - liars
    if liars == 0 or kept < 2 or K == 0:
        return found

    def explained(patterns: np.ndarray) -> tuple[list[int], float]:
        """Clients whose operators patterns explain best, and what they leave of these."""
        left = unexplained(operators, counted, patterns)
        order = np.argsort(left, kind="stable")[:kept]
        return [clients[i] for i in order], float(left[order].sum())

    number = kept * max(K * (K + 1) / 2 - len(found), 1.0)
    left = explained(found.patterns)[1]
    if left <= number + level * np.sqrt(2 * number):
        return found
    parts = np.array_split(np.array(clients), min(2 * liars + 1, len(clients)))
    common = _common([factored(part.tolist()).patterns for part in parts], liars)
    others = factored(explained(common)[0])
    return others if explained(others.patterns)[1] < left - level**2 else found


def _common(parts: Sequence[np.ndarray], liars: int) -> np.ndarray:
    """Patterns that more groups have than may hold a liar, as the first of these has them."""
    found: list[np.ndarray] = []
    for pattern in np.concatenate(parts).astype(np.float64):
        shown = sum(bool((np.abs(part @ pattern) >= ALIKE * pattern.size).any()) for part in parts)
        if shown > liars and not any(abs(x @ pattern) >= ALIKE * pattern.size for x in found):
            found.append(pattern)
    return np.array(found).reshape(-1, parts[0].shape[1])


def unexplained(
    operators: Mapping[int, HebbianOperator], counted: Counted, patterns: np.ndarray
) -> np.ndarray:
    """What patterns with any shares leave of each operator along the counted eigenvectors: (L,).

    One is expected for each number of such a view, K (K + 1) / 2, but for the shares: an entry of
    M rows scatters by ``M^(-1/2)`` where the view of the operator itself is the unit matrix.
    """
    V = counted.spectrum.vectors[:, : counted.rank.n_detected].astype(np.float64)
    found = []
    for c, operator in operators.items():
        held = V.T @ operator.matmat(V)
        added = operator.noise / operator.mass if isinstance(operator, PrivateOperator) else 0.0
        scale = np.sqrt(np.maximum(np.diag(held), 1e-3) + np.sqrt(added))
        signal = held - counted.variances.get(c, counted.rank.variance) * np.eye(len(held))
        S, b = signal / np.outer(scale, scale), patterns @ V / scale
        root, E = np.linalg.eigh((b @ b.T) ** 2) if len(b) else (np.zeros(0), b[:, :0])
        some = root > 1e-13 * root.max(initial=0.0)
        root, E = np.sqrt(root[some]), E[:, some]
        target = np.einsum("ck,ck->c", b @ S, b) @ E / root
        rest = (S**2).sum() - target @ target
        rest += nnls(root[:, None] * E.T, target)[1] ** 2 if len(root) else 0.0
        found.append(operator.n_examples / 2 * max(rest, 0.0))
    return np.array(found)
