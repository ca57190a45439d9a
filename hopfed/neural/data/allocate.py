"""Who holds which example: pure functions of (labels, seed), one sorted index array per client.

The arrays are disjoint, and hold every example but these: `by_classes` leaves classes that no
client holds, `pachinko` the remainder of n / clients, `by_group` groups too small or not drawn.
"""

from __future__ import annotations

import math

import numpy as np

from hopfed._lib.random import stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError

Clients = list[np.ndarray]

LOW, HIGH = 0.4, 0.6  # of the weights that share a class out among its clients


def iid(labels: np.ndarray, clients: int, seed: int) -> Clients:
    """Deal the examples at random; sizes differ by one at most.

    Examples
    --------
    >>> [len(c) for c in iid(np.zeros(10), 3, seed=0)]
    [4, 3, 3]
    """
    check_clients(clients, len(labels))
    order = stream(seed, "partition", "iid").permutation(len(labels))
    return [np.sort(own) for own in np.array_split(order, clients)]


def by_classes(labels: np.ndarray, clients: int, seed: int, per_client: int) -> Clients:
    """Give every client examples of exactly `per_client` classes, sizes unequal.

    Source: arXiv:2312.09006, Section 6; theory/NOTES.md, "Data splits of the neural experiments".

    As in FedSSA, which follows Shamsian et al. (2021): every class has the same number of
    clients, up to one, and is shared out among them in proportion to weights drawn uniformly
    from [0.4, 0.6]; a class of one client goes to it whole. Unlike in their program no class is
    drawn twice for one client, and nothing of a held class is left over.

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
    """Share every class out among the clients by weights from a symmetric Dirichlet law.

    Source: arXiv:2111.09360, Section 5; theory/NOTES.md, "Data splits of the neural experiments".

    Parameters
    ----------
    alpha : concentration; small is heterogeneous. As in kNN-Per the law is over clients, one
        draw per class, so sizes are unequal too.
    minimum : fewest examples of a client.
    redistribute : whether a client below the minimum is filled up with examples drawn from the
        then largest client; otherwise it is an error. The law is drawn once either way, never
        until it happens to fit.

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
    advice = "take a larger alpha, fewer clients, or redistribute"
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
    """Pachinko allocation: every client draws a coarse label, then a fine one, for each example.

    As in Reddi et al. (2021) and kNN-Per (arXiv:2111.09360, Section 5; theory/NOTES.md, "Data
    splits of the neural experiments"): a client's law over coarse labels is Dirichlet of `alpha`,
    that over the fine labels of each coarse one Dirichlet of `beta`; examples are drawn without
    replacement, and a label that is used up leaves the law. All clients get ``n // clients``
    examples; later ones choose from what is left.

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
    """Make each group, such as a writer, a client.

    Parameters
    ----------
    group : (n,) ints, 0 or more.
    clients : how many groups, drawn at random; all of them where it is None.
    units : (n,) ints, 0 or more; a group is left out if it has fewer than `minimum` different ones.

    Raises
    ------
    DataError : no group is large enough.
    ArgumentError : more clients than groups that are.
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
    """Give every client one domain; with a multiple of their number, deal each out among several.

    Clients of one domain stand together, in the order of the domains.
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
    """Raise ArgumentError unless `most` things suffice for `minimum` at each client."""
    each = f" with {minimum} each" if minimum > 1 else ""
    require(clients >= 1, "clients", "1 or more", clients)
    require(clients * minimum <= most, "clients", f"within {what}, {most}{each}", clients)


def check_sizes(sizes: list[int], minimum: int, advice: str) -> None:
    """Raise DataError naming the first client with fewer than `minimum` examples."""
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

    Draws that find their label used up are drawn again, among the fine labels of the same coarse
    one as long as any is left: every pass either ends or uses a label up.
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
    """Multinomial counts over the possible labels; even where their weights all vanish."""
    law = np.where(possible, weights, 0.0)
    law = law if law.sum() > 0 else possible.astype(float)
    return rng.multinomial(size, law / law.sum())
