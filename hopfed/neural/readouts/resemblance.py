"""How much the examples of one client count for another, by their class means.

Source: theory/NOTES.md, "Ridge and privacy of the read-out", *Resemblance*.

Clients whose inputs differ, by rotation, camera or style, have different class means of their bits.
Let ``d^2`` be the squared distance of two clients' means of one class, less its expectation for
equal means and as many examples, and v the variance of an example around its mean. Then the mean of
n examples of the other client has the squared error ``v / n + d^2`` in place of ``v / n``, so these
examples count as ``n / (1 + n d^2 / v)`` of the client's own: all of them if the clients agree, and
never more than ``v / d^2``. This is the weight of a random-effects model; it has no settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hopfed.federation.messages import Message

SUMMED = ("counts", "by_class", "classes", "examples")


def worth(by_class: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return what an example of one client is worth to another, (L, L) from 0 to 1.

    Parameters
    ----------
    by_class : (L, D, C) sums of bits of L clients by class.
    counts : (L, C) examples of each class.

    Returns
    -------
    Row c has the weights of the clients' examples for client c: 1 for its own, and for those of
    clients with which it has no class in common, as they cannot be compared.

    Examples
    --------
    >>> counts = np.full((3, 1), 100)
    >>> sums = np.array([[[60], [20]], [[60], [20]], [[-60], [20]]])
    >>> worth(sums, counts).round(2).tolist()
    [[1.0, 1.0, 0.01], [1.0, 1.0, 0.01], [0.01, 0.01, 1.0]]
    """
    L, D, C = by_class.shape
    distance, spread = np.zeros((L, L)), np.zeros((L, L))
    for label in range(C):
        n = counts[:, label].astype(np.float64)
        means = by_class[:, :, label] / np.maximum(n, 1)[:, None]
        norms = np.einsum("ld,ld->l", means, means)
        squares = norms[:, None] + norms - 2 * means @ means.T
        several = n > 1
        variance = np.where(several, (D - norms) * n / np.maximum(n - 1, 1), 0.0)
        chance = variance / np.maximum(n, 1)
        weight = np.outer(n, n) / np.maximum(n[:, None] + n, 1) * np.outer(several, several)
        distance += weight * (squares - chance[:, None] - chance)
        spread += weight * (variance[:, None] + variance) / 2
    held = counts.sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1)  # in a class that it has
    unlike = np.divide(distance, spread, out=np.zeros((L, L)), where=spread > 0)
    found: np.ndarray = 1 / (1 + np.maximum(unlike, 0.0) * held)
    np.fill_diagonal(found, 1.0)
    return found


def weighted(messages: Sequence[Message], weights: np.ndarray) -> Message:
    """Return the sum of clients' counts and class sums, each times its weight, as floats.

    Parameters
    ----------
    messages : "counts", "by_class", "classes" and "examples" of L clients.
    weights : (L,).

    Examples
    --------
    >>> one = {name: np.array([2, -2]) for name in SUMMED}
    >>> weighted([one, one], np.array([1.0, 0.5]))["counts"].tolist()
    [3.0, -3.0]
    """
    sums = {}
    for name in SUMMED:
        total = np.zeros(np.shape(messages[0][name]))
        for weight, message in zip(weights, messages, strict=True):
            total += weight * message[name]
        sums[name] = total.astype(np.float32) if name == "counts" else total
    return sums


def personal(given: Mapping[int, Message]) -> dict[int, Message]:
    """Return sums for each client, in which others count as much as they are worth to it.

    Parameters
    ----------
    given : what each client gave.

    Examples
    --------
    >>> one = {"counts": np.array([1]), "by_class": np.ones((2, 1)), "classes": np.array([1])}
    >>> personal({4: one | {"examples": np.array(1)}})[4]["examples"].tolist()
    1.0
    """
    clients, messages = list(given), list(given.values())
    sums = np.array([m["by_class"] for m in messages], dtype=np.float64)
    found = worth(sums, np.array([m["classes"] for m in messages]))
    return {c: weighted(messages, row) for c, row in zip(clients, found, strict=True)}
