"""`partition`: divides a dataset among clients, each with training, validation and test parts.

Sources of the schemes: theory/NOTES.md, "Data splits of the neural experiments" and "Domains and
public data". A scheme is a function of the data, the number of clients, the seed, and the
words behind its name; it returns the data (turned, by `rotation`) and the rows of each client.
Schemes draw from streams of their own under the seed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

import numpy as np

from hopfed._lib.random import check_seed, stream
from hopfed._lib.settings import require
from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data.dataset import Dataset, rotated
from hopfed.neural.data.splits import TEST, VALIDATION, Partition, parts_of
from hopfed.tables.files import opened, reading

Divided = tuple[Dataset, list[np.ndarray]]
LOW, HIGH = 0.4, 0.6  # range of the weights that divide a class among its clients
LEAST = 3  # examples of a client, one for each part
ARRAYS = "given:arrays:"  # of the name of a partition that is given as arrays

_GIVEN: dict[str, Any] = {}


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

    The labels (or writers, or domains), the scheme, the number of clients and the seed determine
    which client holds an example. `shares` and `published` only assign it to one of the parts.

    Parameters
    ----------
    scheme : arrays of the rows of each client; a `Partition`, whose parts are kept; or one of

        "iid" : at random.
        "classes:K" : K classes per client, with unequal sizes as in FedSSA.
        "dirichlet:ALPHA[:redistribute]" : each class is divided by weights drawn from a symmetric
            Dirichlet distribution, as in kNN-Per, so sizes differ too; `redistribute` gives
            clients with fewer than 3 some of the largest client's examples.
        "pachinko[:COARSE[:FINE]]" : by superclasses; 0.3 and 10 as in kNN-Per.
        "writer" or "role" : one client per writer; fewer clients are writers drawn at random.
        "domain" : one client per domain; a multiple of that number divides each domain.
        "rotation:ANGLES[:PER_CLASS][:same]" : one domain per angle in degrees, such as
            "rotation:0,20,40,60:100", of different images, 100 per class or all if there are
            fewer; with "same" of the same images, each in one part in every domain.
        "given" : as a folder of clients has it, see `load`; test rows stay test rows.
        "given:FILE" : an .npz of the `client` of each row, -1 for none, and perhaps its `part`,
            as `Partition.save` writes it (0 training, 1 validation, 2 test; without a 1 some of
            0 are taken); or a .json of the rows of each client.

        A name that ends in "@SEED", such as "dirichlet:0.5@7", is drawn with that seed whatever
        `seed` is, so that clients stay while seeds vary.
    clients : number of clients; may be omitted if the scheme takes it from the data.
    seed : of all draws.
    shares : shares of training, validation and test examples, 8:1:1 as in FedSSA, stratified by
        class. If the dataset has groups (speeches), the split keeps groups whole instead.
    published : keep the dataset's own split: a client's test examples are those of its examples
        that are in the published test set, and `shares` divide the rest.

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
    fractions = np.asarray(shares, dtype=np.float64)
    if fractions.shape != (3,) or not (np.isfinite(fractions) & (fractions > 0)).all():
        rule = "three numbers above 0: training, validation, test"
        raise ArgumentError("shares", rule, tuple(shares))
    scheme = as_named(scheme)
    fixed = re.fullmatch(r"(?!given)(.+)@(\d{1,18})", scheme)
    seed = int(fixed[2]) if fixed else seed
    check_seed(seed)
    parts: np.ndarray | None = None
    training: np.ndarray | None = None
    if scheme.startswith("given:"):
        own, parts = _read(scheme, len(dataset))
        rule = f"{len(own)}, as in {_held(scheme)[0]}"
        require(clients in (None, len(own)), "clients", rule, clients)
        if parts is not None and not (parts == VALIDATION).any():
            training = parts != TEST
            parts = None
    else:
        dataset, own = _divided(fixed[1] if fixed else scheme, dataset, clients, seed)
    if training is None and (published or scheme == "given"):
        training = dataset.train
        if published and training is None and parts is None:
            raise DataError(f"{dataset.name}: there is no published split")
    check_sizes(own, "take fewer clients")
    parts = (
        parts_of(dataset, own, fractions / fractions.sum(), training, seed)
        if parts is None
        else parts
    )
    train, validation, test = (tuple(rows[parts[rows] == k] for rows in own) for k in range(3))
    result = Partition(scheme, seed, dataset, train, validation, test)
    for k, what in enumerate(("training", "validation", "test")):
        none = np.flatnonzero(result.sizes[:, k] == 0).tolist()
        if none:
            who = _named([str(k) for k in none], len(own))
            raise DataError(f"partition: no {what} examples for {who}")
    return result


def as_named(scheme: Any) -> str:
    """Return the name of a partition; one that is given is kept, and gets a name."""
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


def check_clients(clients: int | None, most: int, minimum: int = 1) -> int:
    """Return `clients`; ArgumentError unless each can get `minimum` out of `most` examples."""
    each = f" with {minimum} each" if minimum > 1 else ""
    if clients is None:
        raise ArgumentError("clients", "given for this partition", None)
    require(clients >= 1, "clients", "1 or more", clients)
    require(clients * minimum <= most, "clients", f"within the {most} there are{each}", clients)
    return clients


def check_sizes(own: Sequence[np.ndarray], advice: str) -> None:
    """Raise DataError if clients have too few examples; name all of them."""
    short = [f"{k} ({len(rows)})" for k, rows in enumerate(own) if len(rows) < LEAST]
    if short:
        raise DataError(
            f"partition: too few examples for {_named(short, len(own))}, at least {LEAST} each; "
            f"{advice}"
        )


def _named(clients: list[str], of: int) -> str:
    return f"client{'s' * (len(clients) > 1)} {', '.join(clients)} of {of}"


def _divided(scheme: str, data: Dataset, clients: int | None, seed: int) -> Divided:
    """The data and each client's rows by a scheme's name."""
    name = scheme.partition(":")[0]
    if name not in _SCHEMES:
        near = get_close_matches(name, _SCHEMES, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        known = f"one of {', '.join(_SCHEMES)}, given:FILE{hint}"
        raise ArgumentError("partition", known, repr(scheme))
    method, form, usage = _SCHEMES[name]
    match = re.fullmatch(name + form, scheme, re.ASCII)
    if match is None:
        raise ArgumentError("partition", f"of the form {usage}", repr(scheme))
    return method(data, clients, seed, *match.groups())


def _iid(data: Dataset, clients: int | None, seed: int) -> Divided:
    clients = check_clients(clients, len(data))
    order = stream(seed, "partition", "iid").permutation(len(data))
    return data, [np.sort(own) for own in np.array_split(order, clients)]


def _classes(data: Dataset, clients: int | None, seed: int, each: str) -> Divided:
    """Exactly so many classes for each client; the numbers of holders differ by at most one."""
    clients, labels = check_clients(clients, len(data)), data.labels
    classes = np.unique(labels)
    rule = f"from 1 to the {len(classes)} classes there are"
    require(1 <= int(each) <= len(classes), "classes per client", rule, int(each))
    rng = stream(seed, "partition", "classes")
    holders: list[list[int]] = [[] for _ in classes]
    for client in range(clients):
        taken = np.array([len(held) for held in holders])
        for k in np.lexsort((rng.random(len(classes)), taken))[: int(each)]:
            holders[k].append(client)
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label, held in zip(classes, holders, strict=True):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) < len(held):
            got = f"{clients} with class {label} at {len(held)} of them, of {len(rows)} examples"
            raise ArgumentError("clients", "few enough for one example of each class", got)
        weights = rng.uniform(LOW, HIGH, size=len(held))
        for client, part in zip(held, _share_out(rows, weights, at_least=1), strict=True):
            own[client].append(part)
    return data, [np.sort(np.concatenate(parts)) for parts in own]


def _dirichlet(
    data: Dataset, clients: int | None, seed: int, alpha: str, fill: str | None
) -> Divided:
    clients, law = check_clients(clients, len(data), LEAST), _above_zero("alpha", alpha)
    rng = stream(seed, "partition", "dirichlet")
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(data.labels):
        rows = rng.permutation(np.flatnonzero(data.labels == label))
        weights = rng.dirichlet(np.full(clients, law))
        for parts, part in zip(own, _share_out(rows, weights), strict=True):
            parts.append(part)
    drawn = [np.concatenate(parts) for parts in own]
    if fill is not None:  # single examples of the largest client, drawn at random
        lists = [rng.permutation(part).tolist() for part in drawn]
        for short in lists:
            while len(short) < LEAST:
                short.append(max(lists, key=len).pop())
        drawn = [np.array(rows, dtype=np.int64) for rows in lists]
    advice = f"take a larger alpha, fewer clients, or dirichlet:{law:g}:redistribute"
    check_sizes(drawn, advice)
    return data, [np.sort(rows) for rows in drawn]


def _pachinko(
    data: Dataset, clients: int | None, seed: int, alpha: str | None, beta: str | None
) -> Divided:
    """For each example a client draws a coarse label, then a fine label (Reddi et al., 2021).

    Examples are drawn without replacement; a label without remaining examples is not drawn again.
    """
    if data.coarse is None:
        raise DataError(f"{data.name}: pachinko needs superclasses, and there are none")
    clients = check_clients(clients, len(data))
    a, b = _above_zero("alpha", alpha or "0.3"), _above_zero("beta", beta or "10")
    rng = stream(seed, "partition", "pachinko")
    each = (np.flatnonzero(data.labels == k) for k in range(data.classes))
    stock = [rng.permutation(rows).tolist() for rows in each]
    families = [np.flatnonzero(data.coarse == k) for k in np.unique(data.coarse)]
    left = [np.array([len(stock[k]) for k in family]) for family in families]
    total = np.array([n.sum() for n in left])

    def drawn(weights: np.ndarray, left: np.ndarray) -> int:
        law = np.where(left > 0, np.maximum(weights, 1e-300), 0.0).cumsum()
        return int(np.searchsorted(law[:-1], rng.random() * law[-1], side="right"))

    own: list[list[int]] = [[] for _ in range(clients)]
    for rows in own:
        coarse = rng.dirichlet(np.full(len(families), a))
        fine = [rng.dirichlet(np.full(len(family), b)) for family in families]
        for _example in range(len(data) // clients):
            c = drawn(coarse, total)
            k = drawn(fine[c], left[c])
            left[c][k] -= 1
            total[c] -= 1
            rows.append(stock[families[c][k]].pop())
    return data, [np.sort(np.array(rows, dtype=np.int64)) for rows in own]


def _writer(data: Dataset, clients: int | None, seed: int) -> Divided:
    """Writers with enough examples, or speeches, all or a draw."""
    if data.writer is None:
        raise DataError(f"{data.name}: there are no writers or roles")
    units = np.arange(len(data)) if data.group is None else data.group
    pairs = np.unique(np.stack([data.writer, units]), axis=1)[0]
    writers, counts = np.unique(pairs, return_counts=True)
    large = writers[counts >= LEAST]
    if len(large) == 0:
        raise DataError(f"no writer has {LEAST} examples or speeches")
    clients = check_clients(len(large) if clients is None else clients, len(large))
    chosen = np.sort(stream(seed, "partition", "group").permutation(large)[:clients])
    return data, [np.flatnonzero(data.writer == k) for k in chosen]


def _own(data: Dataset, clients: int | None, seed: int) -> Divided:  # noqa: ARG001
    """The clients that the data have."""
    if data.writer is None:
        way = "name a folder of clients, or given:FILE, or another partition"
        raise DataError(f"{data.name}: the data say not which client has what; {way}")
    count = len(data.writer_names)
    require(clients in (None, count), "clients", f"{count}, as the data have", clients)
    return data, [np.flatnonzero(data.writer == k) for k in range(count)]


def _domain(data: Dataset, clients: int | None, seed: int) -> Divided:
    """A domain for each client, or for several of consecutive numbers."""
    if data.domain is None:
        raise DataError(f"{data.name}: there are no domains")
    present = np.unique(data.domain)
    clients = len(present) if clients is None else clients
    rule = f"a multiple of the {len(present)} domains"
    require(clients > 0 and clients % len(present) == 0, "clients", rule, clients)
    rng = stream(seed, "partition", "domain")
    own = []
    for k in present:
        rows = rng.permutation(np.flatnonzero(data.domain == k))
        own += [np.sort(part) for part in np.array_split(rows, clients // len(present))]
    return data, own


def _rotated(
    data: Dataset, clients: int | None, seed: int, angles: str, each: str | None, same: str | None
) -> Divided:
    """Domains of turned images, equally many of a class (arXiv:2101.11296, Section IV)."""
    turns, size = [float(angle) for angle in angles.split(",")], None if each is None else int(each)
    turned = rotated(data, turns, size, same is not None, stream(seed, "partition", "rotation"))
    return _domain(turned, clients, seed)


_N = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"  # a number

# Name -> function that takes the groups of a regular expression after the name, and an example.
_SCHEMES: dict[str, tuple[Callable[..., Divided], str, str]] = {
    "iid": (_iid, "", "iid"),
    "classes": (_classes, r":(\d{1,9})", "classes:K"),
    "dirichlet": (_dirichlet, rf":({_N})(:redistribute)?", "dirichlet:ALPHA[:redistribute]"),
    "pachinko": (_pachinko, rf"(?::({_N})(?::({_N}))?)?", "pachinko[:COARSE[:FINE]]"),
    "given": (_own, "", "given"),
    "writer": (_writer, "", "writer"),
    "role": (_writer, "", "role"),
    "domain": (_domain, "", "domain"),
    "rotation": (_rotated, rf":({_N}(?:,{_N})*)(?::(\d{{1,9}}))?(:same)?", "rotation:ANGLES"),
}


def in_order(name: str) -> tuple[int, str]:
    """Sort key of the names of clients: numbers by size, then words."""
    return (int(name), "") if name.isdecimal() else (1 << 63, name)


def clients_in(scheme: str) -> int:
    """Return how many clients a partition has whose name is given:..."""
    path, held = _held(scheme)
    with reading(path):
        return len(held) if isinstance(held, list) else int(np.max(held["client"])) + 1


def _held(scheme: str) -> tuple[str, Any]:
    """Name for messages and content of a partition whose name is given:..."""
    path = scheme.removeprefix("given:")
    if scheme in _GIVEN:
        return "partition", _GIVEN[scheme]
    if scheme.startswith(ARRAYS):
        raise DataError(f"{scheme}: known only to the process that got it; give it again")
    with opened(path) as file, reading(path):
        whole = path.lower().endswith(".json")
        return path, list(json.load(file)) if whole else dict(np.load(file, allow_pickle=False))


def _read(scheme: str, examples: int) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Rows of each client, and the part of each row if it is told, of a name given:..."""
    path, held = _held(scheme)
    with reading(path):
        if not isinstance(held, list):
            client = np.asarray(held["client"])
            part = np.asarray(held["part"]) if "part" in held else None
            if not client.shape == (client if part is None else part).shape == (examples,):
                raise ValueError(f"a partition of {len(client)} rows, not of {examples}")
            return [np.flatnonzero(client == k) for k in range(int(client.max()) + 1)], part
        own = [np.sort(np.asarray(rows)) for rows in held]
        if any(r.ndim != 1 or (r.size and r.dtype.kind not in "iu") for r in own):
            raise ValueError("rows of a client are a list of whole numbers")
        every = np.sort(np.concatenate([*own, [-1, examples]]))
        if not (np.diff(every) > 0).all():
            raise ValueError(f"clients have different rows of the {examples} there are, not others")
        return [rows.astype(np.int64) for rows in own], None


def _above_zero(name: str, text: str) -> float:
    value = float(text)
    require(math.isfinite(value) and value > 0, name, "a number above 0", value)
    return value


def _share_out(rows: np.ndarray, weights: np.ndarray, at_least: int = 0) -> list[np.ndarray]:
    """Cut `rows` into parts in proportion to `weights`, none smaller than `at_least`."""
    if len(weights) == 0:
        return []
    free = len(rows) - at_least * len(weights)
    cuts = np.rint(np.cumsum(weights) / weights.sum() * free).astype(int)
    return np.split(rows, (cuts + at_least * np.arange(1, len(weights) + 1))[:-1])
