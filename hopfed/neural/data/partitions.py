"""`Partition`: a dataset divided among clients, each with training, validation and test parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import require
from hopfed.errors import DataError
from hopfed.neural.data import allocate, splits
from hopfed.neural.data.dataset import Dataset
from hopfed.neural.data.schemes import Request, divide

Rows = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of a dataset that each client has for training, validation and test.

    Attributes
    ----------
    scheme, seed : the arguments of `partition`.
    dataset : the dataset to which rows refer: the given one, or its rotations.
    train, validation, test : one sorted index array per client, all disjoint and none empty.
    ids : (clients,) numbers of the clients in the whole federation.

    Examples
    --------
    >>> from hopfed.neural.data.sources import digits
    >>> part = partition("iid", digits(), clients=3)
    >>> len(part), [len(rows) for rows in part.train], part.dataset.classes
    (3, [479, 479, 479], 10)
    """

    scheme: str
    seed: int
    dataset: Dataset
    train: Rows = field(repr=False)
    validation: Rows = field(repr=False)
    test: Rows = field(repr=False)
    ids: tuple[int, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> np.ndarray:
        """(clients, 3) numbers of training, validation and test examples."""
        parts = (self.train, self.validation, self.test)
        return np.array([[len(rows) for rows in part] for part in parts]).T

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients: their domain or writer if the scheme uses it, else their number."""
        data, kind = self.dataset, self.scheme.partition(":")[0]
        if kind in ("domain", "rotation"):
            code, words = data.domain, data.domain_names
        elif kind in ("writer", "role"):
            code, words = data.writer, data.writer_names
        else:
            return tuple(str(k) for k in self.ids)
        return tuple(words[np.asarray(code)[rows[0]]] for rows in self.train)

    @property
    def unused(self) -> int:
        """Number of examples that no client has."""
        return len(self.dataset) - int(self.sizes.sum())

    def counts(self, part: str = "all") -> np.ndarray:
        """(clients, classes) numbers of examples in a part: "train", "validation", "test", "all".

        Examples
        --------
        >>> from hopfed.neural.data.sources import digits
        >>> partition("classes:2", digits(), clients=5).counts("test").astype(bool).sum(axis=1)
        array([2, 2, 2, 2, 2])
        """
        every = ("train", "validation", "test")
        require(part in (*every, "all"), "part", f"one of {', '.join(every)} or all", repr(part))
        names = every if part == "all" else (part,)
        total = np.zeros((len(self), self.dataset.classes), dtype=np.int64)
        for name in names:
            for client, rows in enumerate(getattr(self, name)):
                labels = self.dataset.labels[rows]
                total[client] += np.bincount(labels, minlength=self.dataset.classes)
        return total

    def take(self, clients: Sequence[int] | np.ndarray) -> Partition:
        """Return the partition of the clients at these positions."""

        def chosen(rows: Rows) -> Rows:
            return tuple(rows[k] for k in clients)

        return replace(
            self,
            train=chosen(self.train),
            validation=chosen(self.validation),
            test=chosen(self.test),
            ids=tuple(self.ids[k] for k in clients),
        )


def partition(
    scheme: str,
    dataset: Dataset,
    clients: int | None = None,
    seed: int = 0,
    *,
    shares: Sequence[float] = (8, 1, 1),
    minimum: int = 3,
    published: bool = False,
) -> Partition:
    """Divide `dataset` among clients by a scheme, and split each client's examples.

    The labels (or writers, or domains), the scheme, the number of clients and the seed determine
    which client holds an example. `shares` and `published` only assign it to one of the parts.

    Parameters
    ----------
    scheme : one of

        "iid" : at random.
        "classes:K" : K classes per client, with unequal sizes as in FedSSA.
        "dirichlet:ALPHA[:redistribute]" : see :func:`allocate.dirichlet`.
        "pachinko[:COARSE[:FINE]]" : by superclasses; 0.3 and 10 as in kNN-Per.
        "writer" or "role" : one client per writer; fewer clients are writers drawn at random.
        "domain" : one client per domain; a multiple of that number divides each domain.
        "rotation:ANGLES[:PER_CLASS][:same]" : one domain per angle in degrees, such as
            "rotation:0,20,40,60:100"; 100 images per class by default, or all if there are fewer.
            The domains show different images. With "same" they show the same images, and an image
            is in the same part in every domain.
    clients : number of clients; may be omitted if the scheme takes it from the data.
    shares : shares of training, validation and test examples, 8:1:1 as in FedSSA, stratified by
        class. If the dataset has groups (speeches), the split keeps groups whole instead.
    minimum : smallest number of examples per client, 3 or more.
    published : keep the dataset's own split: a client's test examples are those of its examples
        that are in the published test set, and `shares` divide the rest. A client without a
        published test example is an error.

    Raises
    ------
    ArgumentError : an unknown scheme (with the nearest one), or an argument out of its range.
    DataError : the dataset lacks what the scheme needs, or a client would get too little; the
        client is named.

    Examples
    --------
    >>> from hopfed.neural.data.sources import digits
    >>> part = partition("dirichlet:0.5", digits(), clients=10, seed=1)
    >>> len(part), int(part.sizes.sum())
    (10, 1797)
    """
    fractions = splits.check_shares(shares)
    require(minimum >= 3, "minimum", "3 or more", minimum)
    request = Request(dataset, clients, check_seed(seed), minimum)
    dataset, own = divide(scheme, request)
    allocate.check_sizes([len(rows) for rows in own], minimum, "take fewer clients")
    parts = _parts(dataset, own, fractions, published, seed)
    train, validation, test = (tuple(rows[parts[rows] == k] for rows in own) for k in range(3))
    result = Partition(scheme, seed, dataset, train, validation, test, tuple(range(len(own))))
    for client, sizes in enumerate(result.sizes):
        if not sizes.all():
            what = ("training", "validation", "test")[sizes.argmin()]
            raise DataError(f"partition: client {client} of {len(own)} gets no {what} examples")
    return result


def hold_out(part: Partition, share: float = 0.2, seed: int = 0) -> tuple[Partition, Partition]:
    """Divide the clients at random into those that train and those held out until the end.

    Source: arXiv:2111.09360, Section 5; theory/NOTES.md, "Data splits of the neural experiments".

    Parameters
    ----------
    share : share of the clients that are held out; kNN-Per uses 0.2.
    part : of all clients.
    seed : of the draw.

    Raises
    ------
    ArgumentError : a share outside (0, 1), or one client only.

    Examples
    --------
    >>> from hopfed.neural.data.sources import digits
    >>> seen, unseen = hold_out(partition("iid", digits(), clients=10))
    >>> len(seen), len(unseen)
    (8, 2)
    """
    require(0 < share < 1, "share", "between 0 and 1", share)
    require(len(part) > 1, "partition", "of two clients or more", len(part))
    count = min(max(round(share * len(part)), 1), len(part) - 1)
    order = stream(seed, "hold out").permutation(len(part))
    return part.take(np.sort(order[count:])), part.take(np.sort(order[:count]))


def _parts(
    dataset: Dataset, own: allocate.Clients, shares: Sequence[float], published: bool, seed: int
) -> np.ndarray:
    """Return the part of each row of the dataset, client by client.

    If several clients hold rows of one group, such as the rotations of one image, the group is in
    the same part at all of them: no client trains on a test example of another client.
    """
    if published and dataset.train is None:
        raise DataError(f"{dataset.name}: there is no published split")
    parts = np.full(len(dataset), splits.TEST)
    shared = dataset.group is not None and _overlap([dataset.group[rows] for rows in own])
    for client, rows in enumerate([np.concatenate(own)] if shared else own):
        rng = stream(seed, "split", "all" if shared else client)
        if published:  # the published test examples stay test examples
            rows = rows[np.asarray(dataset.train)[rows]]
        group = None if dataset.group is None else dataset.group[rows]
        fractions = shares[:2] if published else shares
        try:
            parts[rows] = splits.split(dataset.labels[rows], group, fractions, rng)
        except DataError as error:
            whose = "all clients" if shared else f"client {client} of {len(own)}"
            raise DataError(f"{error} ({whose})") from None
    return parts


def _overlap(groups: list[np.ndarray]) -> bool:
    """Whether two clients hold rows of one group."""
    each = np.concatenate([np.unique(g) for g in groups])
    return len(np.unique(each)) < len(each)
