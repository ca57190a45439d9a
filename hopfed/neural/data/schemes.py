"""Partition schemes by name: from a text such as "dirichlet:0.3" to the rows of each client."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from hopfed.errors import ArgumentError, DataError
from hopfed.neural.data import allocate
from hopfed.neural.data.dataset import Dataset
from hopfed.neural.data.rotate import rotated


@dataclass(frozen=True)
class Request:
    """Arguments of a scheme; if `clients` is None, the scheme takes the number from the data."""

    dataset: Dataset
    clients: int | None
    seed: int
    minimum: int

    @property
    def count(self) -> int:
        """Number of clients; ArgumentError if it was not given."""
        if self.clients is None:
            raise ArgumentError("clients", "given for this partition", None)
        return self.clients


Answer = tuple[Dataset, allocate.Clients]


def divide(scheme: str, request: Request) -> Answer:
    """Return the dataset, rotated if the scheme says so, and each client's rows of it.

    Raises
    ------
    ArgumentError : an unknown scheme (the nearest name is suggested), or a malformed one.
    """
    name = scheme.partition(":")[0]
    if name not in _SCHEMES:
        near = get_close_matches(name, _SCHEMES, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ArgumentError("partition", f"one of {', '.join(_SCHEMES)}{hint}", repr(scheme))
    usage, form, method = _SCHEMES[name]
    match = re.fullmatch(form, scheme, re.ASCII)
    if match is None:
        raise ArgumentError("partition", f"of the form {usage}", repr(scheme))
    return method(request, *match.groups())


def _iid(request: Request) -> Answer:
    rows = allocate.iid(request.dataset.labels, request.count, request.seed)
    return request.dataset, rows


def _classes(request: Request, per_client: str) -> Answer:
    labels = request.dataset.labels
    rows = allocate.by_classes(labels, request.count, request.seed, int(per_client))
    return request.dataset, rows


def _dirichlet(request: Request, alpha: str, redistribute: str | None) -> Answer:
    rows = allocate.dirichlet(
        request.dataset.labels,
        request.count,
        request.seed,
        float(alpha),
        minimum=request.minimum,
        redistribute=redistribute is not None,
    )
    return request.dataset, rows


def _pachinko(request: Request, alpha: str | None, beta: str | None) -> Answer:
    data = request.dataset
    if data.coarse is None:
        raise DataError(f"{data.name}: pachinko needs superclasses, and there are none")
    laws = float(alpha or 0.3), float(beta or 10)
    return data, allocate.pachinko(data.labels, request.count, request.seed, data.coarse, *laws)


def _writer(request: Request) -> Answer:
    data = request.dataset
    if data.writer is None:
        raise DataError(f"{data.name}: there are no writers or roles")
    units = np.arange(len(data)) if data.group is None else data.group
    rows = allocate.by_group(
        data.writer, request.clients, request.seed, units=units, minimum=request.minimum
    )
    return data, rows


def _domain(request: Request) -> Answer:
    data = request.dataset
    if data.domain is None:
        raise DataError(f"{data.name}: there are no domains")
    return data, allocate.by_domain(data.domain, request.clients, request.seed)


def _rotation(request: Request, angles: str, per_class: str | None, same: str | None) -> Answer:
    turned = rotated(
        request.dataset,
        tuple(float(angle) for angle in angles.split(",")),
        None if per_class is None else int(per_class),
        request.seed,
        same=same is not None,
    )
    domain = np.asarray(turned.domain)
    return turned, allocate.by_domain(domain, request.clients, request.seed)


_N = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"  # a number

# Name -> usage text, regular expression, and the function that takes the expression's groups.
_SCHEMES: dict[str, tuple[str, str, Callable[..., Answer]]] = {
    "iid": ("iid", "iid", _iid),
    "classes": ("classes:K, such as classes:2", r"classes:(\d{1,9})", _classes),
    "dirichlet": (
        "dirichlet:ALPHA[:redistribute], such as dirichlet:0.3",
        rf"dirichlet:({_N})(:redistribute)?",
        _dirichlet,
    ),
    "pachinko": (
        "pachinko[:COARSE[:FINE]], such as pachinko:0.3:10",
        rf"pachinko(?::({_N})(?::({_N}))?)?",
        _pachinko,
    ),
    "writer": ("writer", "writer", _writer),
    "role": ("role", "role", _writer),
    "domain": ("domain", "domain", _domain),
    "rotation": (
        "rotation:ANGLES[:PER_CLASS][:same], such as rotation:0,20,40,60",
        rf"rotation:({_N}(?:,{_N})*)(?::(\d{{1,9}}))?(:same)?",
        _rotation,
    ),
}
