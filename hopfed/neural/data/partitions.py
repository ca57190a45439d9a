"""`partition`: divides a dataset among clients, each with training, validation and test parts.

Sources: arXiv:2003.00295 (pachinko); theory/NOTES.md, "Domains and public data". A scheme returns
the data (rotated, for `rotation`) and the rows of each client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from hopfed._lib.guarded_reading import guard_reading, open_file
from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import hint, require
from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data.dataset import PARTS, Dataset

Generator = np.random.Generator
Count = int | None
Rows = tuple[np.ndarray, ...]
Own = list[np.ndarray]  # rows of each client
Shares = Sequence[float] | np.ndarray  # relative sizes of the parts
TRAIN, VALIDATION, TEST = range(3)
LOW, HIGH = 0.4, 0.6  # range of the weights that divide a class among its clients
LEAST = 3  # smallest number of examples of a client, one for each part
PER_CLASS = 100  # images per class in each domain of Rotated MNIST
MORE = "take fewer clients, or a larger alpha, or dirichlet:ALPHA:redistribute"
ARRAYS = "given:arrays:"  # starts the name of a partition that is given as arrays

_GIVEN: dict[str, Any] = {}


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of a dataset that each client has for training, validation and test.

    Attributes
    ----------
    scheme, seed : the arguments of `partition`.
    dataset : the dataset that rows refer to: the given dataset, or its rotations.
    train, validation, test : one sorted index array per client, all disjoint and not empty.

    Examples
    --------
    >>> from hopfed.neural.data import load
    >>> part = partition("iid", load("digits"), clients=3)
    >>> len(part), [len(rows) for rows in part.train], part.dataset.classes
    (3, [479, 479, 479], 10)
    """

    scheme: str
    seed: int
    dataset: Dataset
    train: Rows = field(repr=False)
    validation: Rows = field(repr=False)
    test: Rows = field(repr=False)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def sizes(self) -> np.ndarray:
        """(clients, 3) numbers of training, validation and test examples."""
        return np.array([[len(rows) for rows in getattr(self, part)] for part in PARTS]).T

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients: domain or writer if the scheme uses it, otherwise the number."""
        kind = re.match(r"domain|rotation|writer|role|given$", self.scheme)
        if kind is None:
            return tuple(map(str, range(len(self))))
        origin = "domain" if kind[0] in ("domain", "rotation") else "writer"
        code, words = getattr(self.dataset, origin), getattr(self.dataset, f"{origin}_names")
        return tuple(words[code[rows[0]]] for rows in self.train)

    @property
    def unused(self) -> int:
        """Number of examples that belong to no client."""
        return len(self.dataset) - int(self.sizes.sum())

    def counts(self, part: str = "all") -> np.ndarray:
        """(clients, classes) numbers of examples in a part: train, validation, test or all."""
        parts = [getattr(self, name) for name in PARTS if part in (name, "all")]
        labels, classes = self.dataset.labels, self.dataset.classes
        own = map(np.concatenate, zip(*parts, strict=True))
        return np.stack([np.bincount(labels[rows], minlength=classes) for rows in own])

    @property
    def held(self) -> dict[str, np.ndarray]:
        """The `client` of each row, -1 for none, and its `part`, both (n,)."""
        client, part = np.full(len(self.dataset), -1), np.zeros(len(self.dataset), np.int8)
        for number, name in enumerate(PARTS):
            for k, rows in enumerate(getattr(self, name)):
                client[rows], part[rows] = k, number
        return {"client": client, "part": part}

    def save(self, path: str | Path) -> None:
        """Write client and part of each row to the .npz file `path`, for the scheme given:FILE."""
        np.savez_compressed(path, client=self.held["client"], part=self.held["part"])


def partition(
    scheme: Any,
    dataset: Dataset,
    clients: int | None = None,
    seed: int = 0,
    *,
    shares: Sequence[float] = (8, 1, 1),
    published: bool = False,
) -> Partition:
    """Divide `dataset` among clients by a scheme, and split each client's examples.

    `shares` and `published` only decide the part in which a client holds an example.

    Parameters
    ----------
    scheme : arrays of the rows of each client; a `Partition`, whose parts are kept; or a name:

        "iid" : at random.
        "classes:K" : K classes per client, with unequal sizes as in FedSSA.
        "dirichlet:ALPHA[:redistribute]" : each class by weights from a symmetric Dirichlet law, as
            in kNN-Per; `redistribute` moves examples of the largest to clients with fewer than 3.
        "pachinko[:COARSE[:FINE]]" : by superclasses; 0.3 and 10 as in kNN-Per.
        "writer" or "role" : one client per writer; fewer clients are writers drawn at random.
        "domain" : one client per domain; a multiple of that number divides each domain.
        "rotation:ANGLES[:PER_CLASS][:same]" : one domain per angle in degrees, as in
            "rotation:0,20,40,60:100", of different images, by default at most 100 per class;
            with "same" of the same images, each in the same part in every domain.
        "given" : the clients of a folder of clients, see `load`; test rows stay test rows.
        "given:FILE" : an .npz of the `client` of each row, -1 for none, and optionally its `part`,
            as `Partition.save` writes it (0 training, 1 validation, 2 test; without any 1, some
            rows of part 0 are used for validation); or a .json of the rows of each client.

        A name that ends with "@SEED", such as "dirichlet:0.5@7", is drawn with that seed instead of
        `seed`, so that clients stay the same while seeds vary.
    clients : number of clients; may be omitted if the scheme takes it from the data.
    seed : seed of all draws.
    shares : proportions of training, validation and test examples, 8:1:1 as in FedSSA, stratified
        by class; or of whole groups (speeches) if the dataset has groups.
    published : keep the dataset's own test set; `shares` divide a client's other examples.

    Raises
    ------
    ArgumentError : an unknown scheme (with the nearest name), or an argument out of its range.
    DataError : the dataset lacks a column that the scheme needs, or a client has too few examples.

    Examples
    --------
    >>> from hopfed.neural.data import load
    >>> part = partition("dirichlet:0.5", load("digits"), clients=10, seed=1)
    >>> len(part), int(part.sizes.sum())
    (10, 1797)
    """
    fractions = np.asarray(shares, dtype=np.float64)
    sound = fractions.shape == (3,) and bool((np.isfinite(fractions) & (fractions > 0)).all())
    require(sound, "shares", "three numbers above 0: training, validation, test", tuple(shares))
    scheme, parts, training = name_partition(scheme), None, None
    fixed = re.fullmatch(r"(?!given)(.+)@(\d{1,18})", scheme)
    seed = check_seed(int(fixed[2]) if fixed else seed)
    if scheme.startswith("given:"):
        own, parts = read_given_partition(scheme, len(dataset))
        rule = f"{len(own)}, as in {scheme.removeprefix('given:')}"
        require(clients in (None, len(own)), "clients", rule, clients)
    else:
        dataset, own = _divided(fixed[1] if fixed else scheme, dataset, clients, seed)
    if short := [f"{k} ({len(rows)})" for k, rows in enumerate(own) if len(rows) < LEAST]:
        few = f"too few examples for {_listed(short, len(own))}, at least {LEAST} each"
        raise DataError(f"partition: {few}; {MORE}")
    if parts is not None and not (parts == VALIDATION).any():
        parts, training = None, np.asarray(parts != TEST)
    elif parts is None and (published or scheme == "given"):
        training = dataset.train
        if published and training is None:
            raise DataError(f"{dataset.name}: there is no published split")
    if parts is None:
        parts = assign_parts(dataset, own, fractions / fractions.sum(), training, seed)
    held = [tuple(rows[parts[rows] == k] for rows in own) for k in range(3)]
    for each, part in zip(held, ("training", "validation", "test"), strict=True):
        if none := [str(k) for k, rows in enumerate(each) if not len(rows)]:
            raise DataError(f"partition: no {part} examples for {_listed(none, len(own))}")
    return Partition(scheme, seed, dataset, *held)


def _listed(clients: list[str], of: int) -> str:
    """List of clients for an error message."""
    return f"client{'s' * (len(clients) > 1)} {', '.join(clients)} of {of}"


def assign_parts(
    dataset: Dataset, own: Own, shares: np.ndarray, training: np.ndarray | None, seed: int
) -> np.ndarray:
    """Divide rows into parts: training, validation, test; a shared group is in one for all."""
    parts, lots = np.full(len(dataset), TEST), dict[int | str, np.ndarray](enumerate(own))
    group = np.arange(len(dataset)) if dataset.group is None else dataset.group
    if dataset.group is not None:
        each = np.concatenate([np.unique(group[rows]) for rows in own])
        lots = lots if len(np.unique(each)) == len(each) else {"all": np.concatenate(own)}
    for client, rows in lots.items():
        if training is not None:  # all other examples are test examples
            rows, shares = rows[training[rows]], shares[:2]
        _, first, code = np.unique(group[rows], return_index=True, return_inverse=True)
        if len(first) < len(shares):
            whose = "all clients" if client == "all" else f"client {client} of {len(own)}"
            units = "examples" if dataset.group is None else "groups of examples"
            fault = f"{len(first)} {units} cannot be split into {len(shares)} parts ({whose})"
            raise DataError(f"partition: {fault}")
        rng, labels = stream(seed, "split", client), dataset.labels[rows]
        if (labels[first][code] == labels).all():
            parts[rows] = stratify_parts(labels[first], shares, rng)[code]
        else:
            parts[rows] = group_parts(code, shares, rng)
    return parts


def stratify_parts(labels: np.ndarray, shares: Shares, rng: Generator) -> np.ndarray:
    """Divide examples into parts by class: counts differ from their shares by less than 1."""
    n = len(labels)
    sizes = np.diff(np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int), prepend=0)
    while sizes.min() == 0:  # each part gets at least one example
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    parts = np.zeros(n, dtype=np.int64)
    classes, code = np.unique(labels, return_inverse=True)
    line = np.lexsort((rng.random(n), rng.permutation(len(classes))[code]))
    for part in range(len(shares) - 1, 0, -1):
        size, n = sizes[part], len(line)
        picks = (np.arange(size) * n + rng.integers(n)) // size
        parts[line[picks]] = part
        line = np.delete(line, picks)
    return parts


def group_parts(group: np.ndarray, shares: Shares, rng: Generator) -> np.ndarray:
    """Divide examples into training and other parts, (n,) ints; groups 0, 1, ... stay whole."""
    counts = np.bincount(group)
    order = rng.permutation(len(counts))
    middle = np.cumsum(counts[order]) - counts[order] / 2
    bounds = np.cumsum(shares)[:-1] / np.sum(shares) * len(group)
    of_group = np.empty(len(counts), dtype=np.int64)
    of_group[order] = np.searchsorted(bounds, middle)
    for part in range(len(shares)):
        if not (of_group == part).any():
            present = np.bincount(of_group, minlength=len(shares))
            donors = np.flatnonzero(of_group == present.argmax())
            of_group[donors[counts[donors].argmin()]] = part
    return of_group[group]


# Schemes: functions of the data, the number of clients, a random stream, and parts of the name


def _divided(scheme: str, data: Dataset, clients: Count, seed: int) -> tuple[Dataset, Own]:
    """Divide by a named scheme: the data, rotated for `rotation`, and the rows of each client."""
    name = scheme.partition(":")[0]
    known = f"one of {', '.join(_SCHEMES)}, given:FILE{hint(name, _SCHEMES, 0.5)}"
    require(name in _SCHEMES, "partition", known, repr(scheme))
    method, form, usage = _SCHEMES[name]
    match: Any = re.fullmatch(name + form, scheme, re.ASCII)
    require(match is not None, "partition", f"of the form {usage}", repr(scheme))
    words = match.groups()
    if name == "rotation":
        data = _rotated(data, stream(seed, "partition", name), *words)
        name, words = "domain", ()
    rng = stream(seed, "partition", "group" if name in ("writer", "role") else name)
    own = method(data, clients, rng, *words)
    return data, [np.sort(np.asarray(rows, dtype=np.int64)) for rows in own]


def _count(clients: Count, most: int, least: int = 1) -> int:
    """Return the number of clients, if each can get `least` out of `most` examples."""
    if clients is None:
        raise ArgumentError("clients", "given for this partition", None)
    require(clients >= 1, "clients", "1 or more", clients)
    each = f" with {least} each" if least > 1 else ""
    require(clients * least <= most, "clients", f"within the {most} available{each}", clients)
    return clients


def _iid(data: Dataset, clients: Count, rng: Generator) -> Own:
    return np.array_split(rng.permutation(len(data)), _count(clients, len(data)))


def _classes(data: Dataset, clients: Count, rng: Generator, each: str) -> Own:
    """Give each client `each` classes; numbers of clients per class differ by at most one."""
    clients, classes = _count(clients, len(data)), len(np.unique(data.labels))
    require(1 <= int(each) <= classes, "classes per client", f"from 1 to {classes}", int(each))
    held = np.zeros((classes, clients), dtype=bool)
    for client in range(clients):
        held[np.lexsort((rng.random(classes), held.sum(axis=1)))[: int(each)], client] = True
    return _shared_out(data, held, rng, lambda count: rng.uniform(LOW, HIGH, size=count), 1)


def _dirichlet(data: Dataset, clients: Count, rng: Generator, alpha: str, fill: str | None) -> Own:
    clients, law = _count(clients, len(data), LEAST), _above_zero("alpha", alpha)
    every = np.ones((len(np.unique(data.labels)), clients), dtype=bool)
    own = _shared_out(data, every, rng, lambda count: rng.dirichlet(np.full(count, law)))
    if fill is None:
        return own
    lists = [rng.permutation(rows).tolist() for rows in own]
    for short in lists:  # takes single examples, drawn at random, from the largest client
        while len(short) < LEAST:
            short.append(max(lists, key=len).pop())
    return lists


def _above_zero(name: str, text: str) -> float:
    """Read a parameter of a Dirichlet law."""
    require(0 < float(text) < np.inf, name, "a number above 0", float(text))
    return float(text)


def _shared_out(
    data: Dataset, held: np.ndarray, rng: Generator, law: Callable[[int], Any], least: int = 0
) -> Own:
    """Divide each class among its holders, (classes, clients), by weights that a `law` draws."""
    own: list[Own] = [[] for _ in held.T]
    for label, holders in zip(np.unique(data.labels), map(np.flatnonzero, held), strict=True):
        rows = rng.permutation(np.flatnonzero(data.labels == label))
        free = len(rows) - least * len(holders)
        got = f"{len(own)} with class {label} at {len(holders)} of them, of {len(rows)} examples"
        require(free >= 0, "clients", "few enough for one example of each class", got)
        weights = law(len(holders))
        cuts = np.rint(np.cumsum(weights) / weights.sum() * free).astype(int)
        cuts += least * np.arange(1, len(holders) + 1)
        for client, part in zip(holders, np.split(rows, cuts[:-1]), strict=False):
            own[client].append(part)
    return [np.concatenate(parts) for parts in own]


def _pachinko(
    data: Dataset, clients: Count, rng: Generator, alpha: str | None, beta: str | None
) -> Own:
    """Draw examples by a coarse, then a fine label (Reddi et al., 2021), without replacement."""
    coarse = _needed(data, "coarse", "pachinko needs superclasses, which the data lack")
    clients = _count(clients, len(data))
    a, b = _above_zero("alpha", alpha or "0.3"), _above_zero("beta", beta or "10")
    each = (np.flatnonzero(data.labels == k) for k in range(data.classes))
    stock = [rng.permutation(rows).tolist() for rows in each]
    families = [np.flatnonzero(coarse == k) for k in np.unique(coarse)]
    left = [np.array([len(stock[k]) for k in family]) for family in families]
    total = np.array([n.sum() for n in left])

    def drawn(weights: np.ndarray, left: np.ndarray) -> int:
        law = np.where(left > 0, np.maximum(weights, 1e-300), 0.0).cumsum()
        k = int(np.searchsorted(law[:-1], rng.random() * law[-1], side="right"))
        left[k] -= 1
        return k

    own: list[Any] = [[] for _ in range(clients)]
    for rows in own:
        first = rng.dirichlet(np.full(len(families), a))
        fine = [rng.dirichlet(np.full(len(family), b)) for family in families]
        for _example in range(len(data) // clients):
            c = drawn(first, total)
            rows.append(stock[families[c][drawn(fine[c], left[c])]].pop())
    return own


def _writer(data: Dataset, clients: Count, rng: Generator) -> Own:
    """Rows of all writers with enough examples or speeches, or of a random choice of them."""
    writer = _needed(data, "writer", "there are no writers or roles")
    units = np.arange(len(data)) if data.group is None else data.group
    writers, counts = np.unique(np.unique([writer, units], axis=1)[0], return_counts=True)
    large = writers[counts >= LEAST]
    if len(large) == 0:
        raise DataError(f"no writer has {LEAST} examples or speeches")
    clients = _count(len(large) if clients is None else clients, len(large))
    return [np.flatnonzero(writer == k) for k in np.sort(rng.permutation(large)[:clients])]


def _own(data: Dataset, clients: Count, rng: Generator) -> Own:  # noqa: ARG001
    """Rows of the clients that the data name."""
    way = "name a folder of clients, or given:FILE, or another partition"
    writer = _needed(data, "writer", f"the data do not name their clients; {way}")
    count = len(data.writer_names)
    require(clients in (None, count), "clients", f"{count}, the number in the data", clients)
    return [np.flatnonzero(writer == k) for k in range(count)]


def _domain(data: Dataset, clients: Count, rng: Generator) -> Own:
    """Give each client a domain, or divide each domain among clients of consecutive numbers."""
    domain = _needed(data, "domain", "there are no domains")
    present = np.unique(domain)
    clients = len(present) if clients is None else clients
    rule = f"a multiple of the {len(present)} domains"
    require(clients > 0 and clients % len(present) == 0, "clients", rule, clients)
    each = (rng.permutation(np.flatnonzero(domain == k)) for k in present)
    return [part for rows in each for part in np.array_split(rows, clients // len(present))]


def _rotated(
    data: Dataset, rng: Generator, words: str, each: str | None, same: str | None
) -> Dataset:
    """Return a domain of rotated images, or of the `same`, per angle (arXiv:2101.11296, IV)."""
    from scipy.ndimage import rotate

    if not data.is_images or data.shape[1:] == (1, 1):
        raise DataError(f"{data.name}: only images can be rotated")
    angles = [float(angle) for angle in words.split(",")]
    distinct = len({angle % 360 for angle in angles}) == len(angles)
    require(distinct, "angles", "one or more different angles", angles)
    counts = np.bincount(data.labels, minlength=data.classes)
    most = int(counts[counts > 0].min()) // (1 if same else len(angles))
    size = min(PER_CLASS, most) if each is None else int(each)
    require(1 <= size <= most, "images per class", f"from 1 to {most}", size)
    orders = [rng.permutation(np.flatnonzero(data.labels == k)) for k in range(data.classes)]
    starts = [0 if same else size * j for j in range(len(angles))]
    shown = [np.concatenate([order[i : i + size] for order in orders]) for i in starts]
    images = [data.inputs[rows] for rows in shown]
    for j, angle in enumerate(angles):
        if angle % 360:
            block = images[j].astype(np.float32)
            turned = rotate(block, -angle, axes=(3, 2), reshape=False, order=1)
            images[j] = np.rint(turned) if data.inputs.dtype == np.uint8 else turned
    base, domain = np.concatenate(shown), np.arange(len(angles)).repeat(len(shown[0]))
    inputs, names = np.concatenate(images), tuple(f"{angle:g}°" for angle in angles)
    new: dict[str, Any] = {"inputs": inputs.astype(data.inputs.dtype), "group": base}  # per image
    return replace(data.take(base), **new, domain=domain, domain_names=names)


def _needed(data: Dataset, column: str, fault: str) -> np.ndarray:
    """Return a column that a scheme needs; DataError without it."""
    if (found := getattr(data, column)) is None:
        raise DataError(f"{data.name}: {fault}")
    return np.asarray(found)


_N = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"  # a number

# Name -> function, regular expression after the name, whose groups it takes, and usage.
_SCHEMES: dict[str, tuple[Callable[..., Own], str, str]] = {
    "iid": (_iid, "", "iid"),
    "classes": (_classes, r":(\d{1,9})", "classes:K"),
    "dirichlet": (_dirichlet, rf":({_N})(:redistribute)?", "dirichlet:ALPHA[:redistribute]"),
    "pachinko": (_pachinko, rf"(?::({_N})(?::({_N}))?)?", "pachinko[:COARSE[:FINE]]"),
    "given": (_own, "", "given"),
    "writer": (_writer, "", "writer"),
    "role": (_writer, "", "role"),
    "domain": (_domain, "", "domain"),
    "rotation": (_domain, rf":({_N}(?:,{_N})*)(?::(\d{{1,9}}))?(:same)?", "rotation:ANGLES"),
}


def name_partition(scheme: Any) -> str:
    """Return the name of a partition; a partition of arrays is kept, and gets a name."""
    if isinstance(scheme, str):
        return scheme
    try:
        held = scheme.held if isinstance(scheme, Partition) else list(scheme)
        text = json.dumps(held, default=lambda rows: np.asarray(rows).tolist())
    except (TypeError, ValueError):
        rule = "a name, a Partition, or arrays of the rows of each client"
        raise ArgumentError("partition", rule, type(scheme).__name__) from None
    name = ARRAYS + sha256(text.encode()).hexdigest()[:16]
    _GIVEN[name] = json.loads(text)
    return name


def read_given_partition(scheme: str, examples: int | None = None) -> tuple[Own, np.ndarray | None]:
    """Return each client's rows, and any part of each row, of a partition ``given:...``."""
    path, held = scheme.removeprefix("given:"), _GIVEN.get(scheme)
    if held is None and scheme.startswith(ARRAYS):
        raise DataError(f"{scheme}: known only to the process that got it; pass it again")
    with guard_reading("partition" if scheme.startswith(ARRAYS) else path):
        if held is None:
            with open_file(path) as file:
                text = path.lower().endswith(".json")
                held = json.load(file) if text else dict(np.load(file, allow_pickle=False))
        if isinstance(held, dict):
            client = np.asarray(held["client"])
            part = np.asarray(held["part"]) if "part" in held else None
            due = (len(client) if examples is None else examples,)
            if client.shape != due or (part is not None and part.shape != due):
                raise ValueError(f"a partition of {len(client)} rows, not of {due[0]}")
            return [np.flatnonzero(client == k) for k in range(int(client.max()) + 1)], part
        own = [np.sort(np.asarray(rows)) for rows in held]
        if any(r.ndim != 1 or (r.size and r.dtype.kind not in "iu") for r in own):
            raise ValueError("rows of a client must be a list of integers")
        every = np.sort(np.concatenate([*own, [-1, examples or 1 << 62]]))
        if not (np.diff(every) > 0).all():
            raise ValueError(f"rows of clients must be disjoint and below {examples}")
        return [rows.astype(np.int64) for rows in own], None


def domain_of(split: Partition, part: str = "test") -> np.ndarray:
    """For evaluation: each client's domain, (clients,); each has its own if any mixes domains."""
    rows, code = getattr(split, part), split.dataset.domain
    if code is None or any(len(np.unique(code[r])) != 1 for r in rows):
        return np.arange(len(split))
    return np.unique([code[r[0]] for r in rows], return_inverse=True)[1]
