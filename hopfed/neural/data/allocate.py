"""Functions that assign examples to clients; each returns one sorted index array per client.

They are pure functions of labels and seed. The arrays are disjoint and hold all examples, with
three exceptions: `by_classes` omits classes that no client holds, `pachinko` omits the remainder
of n / clients, and `by_group` omits groups that are too small or not drawn.
"""

from __future__ import annotations

import math

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError

Clients = list[np.ndarray]

LOW, HIGH = 0.4, 0.6  # range of the weights that divide a class among its clients


def iid(labels: np.ndarray, clients: int, seed: int) -> Clients:
    """Deal the examples out at random; sizes differ by at most one.

    Examples
    --------
    >>> [len(c) for c in iid(np.zeros(10), 3, seed=0)]
    [4, 3, 3]
    """
    check_clients(clients, len(labels))
    order = stream(seed, "partition", "iid").permutation(len(labels))
    return [np.sort(own) for own in np.array_split(order, clients)]


def by_classes(labels: np.ndarray, clients: int, seed: int, per_client: int) -> Clients:
    """Give every client examples of exactly `per_client` classes, in unequal numbers.

    Source: arXiv:2312.09006, Section 6; theory/NOTES.md, "Data splits of the neural experiments".

    This is the split of FedSSA, which follows Shamsian et al. (2021). The numbers of clients per
    class differ by at most one. A class is divided among its clients in proportion to weights
    drawn uniformly from [0.4, 0.6]; a single client gets the whole class. The authors' program
    differs in two points: it can draw a class twice for one client, and it can leave examples of
    an assigned class over.

    Raises
    ------
    ArgumentError : more classes per client than there are, or a class with too few examples for
        its clients.

    Examples
    --------
    >>> labels = np.repeat(np.arange(10), 60)
    >>> [len(np.unique(labels[c])) for c in by_classes(labels, 5, seed=0, per_client=4)]
    [4, 4, 4, 4, 4]
    """
    check_clients(clients, len(labels))
    classes = np.unique(labels)
    rule = f"from 1 to the {len(classes)} classes there are"
    require(1 <= per_client <= len(classes), "classes per client", rule, per_client)
    rng = stream(seed, "partition", "classes")
    holders: list[list[int]] = [[] for _ in classes]
    for client in range(clients):
        taken = np.array([len(h) for h in holders])
        for k in np.lexsort((rng.random(len(classes)), taken))[:per_client]:
            holders[k].append(client)
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label, who in zip(classes, holders, strict=True):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) < len(who):
            got = f"{clients} with class {label} at {len(who)} of them, of {len(rows)} examples"
            raise ArgumentError("clients", "few enough for one example of each class", got)
        weights = rng.uniform(LOW, HIGH, size=len(who))
        for client, part in zip(who, _share_out(rows, weights, at_least=1), strict=True):
            own[client].append(part)
    return [np.sort(np.concatenate(parts)) for parts in own]


def dirichlet(
    labels: np.ndarray,
    clients: int,
    seed: int,
    alpha: float,
    *,
    minimum: int = 1,
    redistribute: bool = False,
) -> Clients:
    """Divide every class among the clients by weights from a symmetric Dirichlet distribution.

    Source: arXiv:2111.09360, Section 5; theory/NOTES.md, "Data splits of the neural experiments".

    Parameters
    ----------
    alpha : concentration; small values give heterogeneous clients. As in kNN-Per, each class has
        one draw over the clients, so the sizes of the clients are unequal too.
    minimum : smallest number of examples of a client.
    redistribute : if True, a client below the minimum gets examples drawn from the largest client;
        if False, such a client is an error. The weights are drawn once, not repeatedly until the
        sizes fit.

    Examples
    --------
    >>> labels = np.repeat(np.arange(10), 60)
    >>> sum(len(c) for c in dirichlet(labels, 5, seed=0, alpha=0.3))
    600
    """
    check_clients(clients, len(labels), minimum)
    require(math.isfinite(alpha) and alpha > 0, "alpha", "a number above 0", alpha)
    rng = stream(seed, "partition", "dirichlet")
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        weights = rng.dirichlet(np.full(clients, alpha))
        for parts, part in zip(own, _share_out(rows, weights), strict=True):
            parts.append(part)
    drawn = [np.concatenate(parts) for parts in own]
    if redistribute:
        drawn = _fill(drawn, minimum, rng)
    advice = f"take a larger alpha, fewer clients, or dirichlet:{alpha:g}:redistribute"
    check_sizes([len(rows) for rows in drawn], minimum, advice)
    return [np.sort(rows) for rows in drawn]


def pachinko(
    labels: np.ndarray,
    clients: int,
    seed: int,
    coarse: np.ndarray,
    alpha: float = 0.3,
    beta: float = 10.0,
) -> Clients:
    """Pachinko allocation: for each example a client draws a coarse label, then a fine label.

    Source: Reddi et al. (2021) and kNN-Per (arXiv:2111.09360, Section 5); theory/NOTES.md, "Data
    splits of the neural experiments".

    Each client draws its distribution over coarse labels from a Dirichlet of `alpha`, and its
    distribution over the fine labels of each coarse label from a Dirichlet of `beta`. Examples are
    drawn without replacement; a label without remaining examples is not drawn again. All clients
    get ``n // clients`` examples. Later clients draw from those that earlier clients left.

    Parameters
    ----------
    coarse : (classes,) superclass of each class.
    """
    check_clients(clients, len(labels))
    for name, value in (("alpha", alpha), ("beta", beta)):
        require(math.isfinite(value) and value > 0, name, "a number above 0", value)
    rng = stream(seed, "partition", "pachinko")
    classes = len(coarse)
    stock = [rng.permutation(np.flatnonzero(labels == k)) for k in range(classes)]
    left = np.array([len(rows) for rows in stock])
    families = [np.flatnonzero(coarse == k) for k in np.unique(coarse)]
    drawn = []
    for _ in range(clients):
        over_coarse = rng.dirichlet(np.full(len(families), alpha))
        over_fine = [rng.dirichlet(np.full(len(family), beta)) for family in families]
        taken = _draw(len(labels) // clients, left, families, over_coarse, over_fine, rng)
        drawn.append(np.concatenate([stock[k][left[k] - t : left[k]] for k, t in enumerate(taken)]))
        left -= taken
    return [np.sort(rows) for rows in drawn]


def by_group(
    group: np.ndarray, clients: int | None, seed: int, *, units: np.ndarray, minimum: int
) -> Clients:
    """Make each group, such as the examples of one writer, a client.

    Parameters
    ----------
    group : (n,) ints, 0 or more.
    clients : number of groups, drawn at random; None takes all of them.
    units : (n,) ints, 0 or more; a group with fewer than `minimum` different units is left out.

    Raises
    ------
    DataError : no group is large enough.
    ArgumentError : more clients than groups that are large enough.
    """
    width = int(units.max()) + 1
    groups, counts = np.unique(np.unique(group * width + units) // width, return_counts=True)
    large = groups[counts >= minimum]
    if len(large) == 0:
        raise DataError(f"no writer has {minimum} examples or speeches")
    if clients is None:
        clients = len(large)
    check_clients(clients, len(large), what="the writers with enough examples")
    chosen = np.sort(stream(seed, "partition", "group").permutation(large)[:clients])
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], chosen)
    last = np.searchsorted(group[order], chosen, side="right")
    return [order[a:b] for a, b in zip(first, last, strict=True)]


def by_domain(domain: np.ndarray, clients: int | None, seed: int) -> Clients:
    """Give every client one domain.

    If there are several times as many clients as domains, each domain is divided among several
    clients. Clients of one domain have consecutive numbers, in the order of the domains.
    """
    present = np.unique(domain)
    clients = len(present) if clients is None else clients
    rule = f"a multiple of the {len(present)} domains"
    require(clients > 0 and clients % len(present) == 0, "clients", rule, clients)
    rng = stream(seed, "partition", "domain")
    own = []
    for k in present:
        rows = rng.permutation(np.flatnonzero(domain == k))
        own += [np.sort(part) for part in np.array_split(rows, clients // len(present))]
    return own


def check_clients(clients: int, most: int, minimum: int = 1, what: str = "the examples") -> None:
    """Raise ArgumentError unless each of `clients` can get `minimum` out of `most` things."""
    each = f" with {minimum} each" if minimum > 1 else ""
    require(clients >= 1, "clients", "1 or more", clients)
    require(clients * minimum <= most, "clients", f"within {what}, {most}{each}", clients)


def check_sizes(sizes: list[int], minimum: int, advice: str) -> None:
    """Raise DataError if a client has fewer than `minimum` examples; name the first such client."""
    short = next((k for k, size in enumerate(sizes) if size < minimum), None)
    if short is not None:
        who = f"client {short} of {len(sizes)} gets {sizes[short]} examples"
        raise DataError(f"partition: {who}, fewer than {minimum}; {advice}")


def _share_out(rows: np.ndarray, weights: np.ndarray, at_least: int = 0) -> list[np.ndarray]:
    """Cut `rows` into parts in proportion to `weights`, none smaller than `at_least`."""
    if len(weights) == 0:
        return []
    free = len(rows) - at_least * len(weights)
    cuts = np.rint(np.cumsum(weights) / weights.sum() * free).astype(int)
    return np.split(rows, (cuts + at_least * np.arange(1, len(weights) + 1))[:-1])


def _fill(own: Clients, minimum: int, rng: np.random.Generator) -> Clients:
    """Move single examples, drawn at random, from the largest client to those below `minimum`."""
    rows = [rng.permutation(part).tolist() for part in own]
    for short in rows:
        while len(short) < minimum:
            short.append(max(rows, key=len).pop())
    return [np.array(part, dtype=np.int64) for part in rows]


def _draw(
    size: int,
    left: np.ndarray,
    families: list[np.ndarray],
    over_coarse: np.ndarray,
    over_fine: list[np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    """Return how many examples of each class one client draws.

    A draw of a label without remaining examples is repeated. It is repeated among the fine labels
    of the same coarse label while these have examples. Every pass either ends or uses up a label.
    """
    taken = np.zeros_like(left)
    while taken.sum() < size:
        some = np.array([(left[f] > taken[f]).any() for f in families])
        for k, draws in enumerate(_multinomial(size - taken.sum(), over_coarse, some, rng)):
            family = families[k]
            while draws and (left[family] > taken[family]).any():
                rest = left[family] - taken[family]
                new = np.minimum(_multinomial(draws, over_fine[k], rest > 0, rng), rest)
                taken[family] += new
                draws -= new.sum()
    return taken


def _multinomial(
    size: int, weights: np.ndarray, possible: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Multinomial counts over the possible labels; equal weights if all their weights are 0."""
    law = np.where(possible, weights, 0.0)
    law = law if law.sum() > 0 else possible.astype(float)
    return rng.multinomial(size, law / law.sum())
