"""`hopfed bench neighbours`: which stored examples are nearest, approximately and exactly (B4).

Keys and queries are what a MobileNet-v2 with 1,280 features, as kNN-Per's, makes of CIFAR-10 and
CIFAR-100, cropped and flipped anew after every pass over both; no picture is key and query. Its
weights are the initial ones and the pictures are averaged down to 8 x 8, so that 200,000 of them
take minutes. The approximate way must find 95 of 100 of the true neighbours, or no time is taken.

Chosen on 200,000 of these keys, in time against all pairs (7 ms a query on a thread): 32, 48, 64 or
128 of 447 lists along 64 principal axes hold .950, .977, .988 or .999 of the neighbours and take
about 11, 10, 7.5 or 4 times less, with 6% of memory added and 10 s to build. A graph (HNSW) of
20,000 keys takes three times as long to build and is slower than all pairs, one matrix product.
Below some thousand keys, as most clients hold, exact search is the fastest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Target, Way
from hopfed.kernels.cpu.threads import thread_count

K = 10  # neighbours, as kNN-Per's
D = 1280  # features
RECALL = 0.95
INDEX = "ivf:48"
CHUNK = 250  # pictures that pass through the network together
SIDE = 8
_HELD: dict[str, str] = {}  # way -> what it held when it was last built


def _setup(n: int, Q: int) -> Data:
    """Keys (n, D) and queries (Q, D)."""
    keys = np.concatenate([_embedded(i, "key") for i in range(-(-n // CHUNK))])[:n]
    queries = np.concatenate([_embedded(i, "query") for i in range(-(-Q // CHUNK))])[:Q]
    return {"keys": keys, "queries": queries}


@cache  # sizes of a sweep share them
def _embedded(chunk: int, part: str) -> np.ndarray:
    """Features (CHUNK, D) of a chunk of the pictures that serve as keys, or as queries."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    from hopfed.neural.data.tensors import Augment, generator

    pictures = _pictures()
    cut = len(pictures.inputs) // 10
    rows = np.arange(cut, len(pictures.inputs)) if part == "key" else np.arange(cut)
    passes, first = divmod(chunk * CHUNK, len(rows))
    draws = generator(0, "bench", "neighbours", chunk)
    chosen = pictures.rows(rows[(first + np.arange(CHUNK)) % len(rows)])
    with torch.inference_mode():
        x, _ = pictures.batch(chosen, Augment() if passes else None, draws)
        x = adaptive_avg_pool2d(x, SIDE).contiguous(memory_format=torch.channels_last)
        return np.asarray(_network()(x))


@lru_cache(1)
def _network() -> Any:
    import torch

    from hopfed.neural.models import build

    model = build("mobilenet-v2", channels=3, size=SIDE, classes=10, seed=0).eval()
    return model.features.to(memory_format=torch.channels_last)


@lru_cache(1)
def _pictures() -> Any:
    """Pictures in random order, as `hopfed.neural.data.tensors.Tensors`."""
    import torch

    from hopfed.neural.data.tensors import Tensors, moments
    from hopfed.rng import stream

    found = np.concatenate([data.inputs for data in _data()[0]])
    if found.shape[1] == 1:
        found = np.repeat(found, 3, axis=1)
    order = stream(0, "bench", "neighbours").permutation(len(found))
    mean, std = (torch.tensor(m, dtype=torch.float32)[:, None, None] for m in moments(found, order))
    return Tensors(torch.from_numpy(found[order]), torch.zeros(len(found)), mean, std)


@lru_cache(1)
def _data() -> tuple[list[Any], str]:
    """CIFAR-10 and CIFAR-100, or scikit-learn's digits in their place, and what they are."""
    from hopfed.errors import DataError
    from hopfed.neural.data import load

    try:
        return [load("cifar10"), load("cifar100")], "pictures of CIFAR-10 and CIFAR-100"
    except DataError as error:
        return [load("digits")], f"scikit-learn's digits, since {error}"


def _index(kind: str) -> Callable[[Data], Data]:
    def prepare(data: Data) -> Data:
        from hopfed.neural.neighbours import Index

        before = _resident()
        index = Index(data["keys"], kind)
        grown = (_resident() - before) / 1e6
        held = f"{len(index):,} keys in {index.nbytes / 1e6:,.1f} MB"
        _HELD[kind] = f"{kind} holds {held}; the process grew by {grown:,.1f} MB"
        return {"index": index, **data}

    return prepare


def _flat(data: Data) -> Data:
    from hopfed.neural.neighbours import faiss

    index = faiss().IndexFlatL2(D)
    index.add(data["keys"])
    return {"index": index, **data}


def _search(data: Data) -> np.ndarray:
    """Rows (Q, K) of the nearest keys; FAISS has as many threads as our kernels."""
    from hopfed.neural.neighbours import faiss

    module = faiss()
    module.omp_set_num_threads(thread_count())
    try:
        return np.asarray(data["index"].search(data["queries"], K)[1])
    finally:
        module.omp_set_num_threads(1)


def _missed(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the neighbours of one that are not among the other's."""
    shared = (a[:, :, None] == b[:, None, :]).any(axis=2)
    return float(1 - shared.mean())


def _exact_cost(n: int, Q: int) -> Cost:
    return Cost(4.0 * D * (n + Q), {"float32": 2.0 * D * n * Q})


def _approximate_cost(n: int, Q: int) -> Cost:
    """Axes of the queries, centroids, lists of even length, and the best of them in full."""
    from hopfed.neural.neighbours import EXTRA, POOL, layout, parse_index

    lists, axes = layout(n, D)
    scanned = min(parse_index(INDEX)[1] / lists, 1.0) * n
    pool = min(POOL * (K + EXTRA), n)
    turned = 2 * D * axes if axes < D else 0
    operations = Q * (turned + 3 * axes * (lists + scanned) + 3 * D * pool)
    return Cost(4.0 * Q * (axes * scanned + D * pool), {"float32": operations})


def _notes() -> list[str]:
    """What was searched, and the memory that it took."""
    return [f"{_data()[1]}; {thread_count()} threads", *_HELD.values()] if _HELD else []


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


BENCHMARK = Benchmark(
    name="neighbours",
    summary=f"the {K} nearest of n keys of {D} features to Q queries; gap: share of them missed",
    setup=_setup,
    ways=(
        Way("approximate", _search, _approximate_cost, _index(INDEX)),
        Way("FAISS, all pairs", _search, _exact_cost, _flat, tolerance=1 - RECALL),
        Way("exact", _search, _exact_cost, _index("exact"), tolerance=1 - RECALL),
    ),
    gap=_missed,
    sizes={
        "small": (
            Sweep("n", (1_000, 2_000, 4_000), {"Q": 256}),
            Sweep("Q", (16, 64, 256), {"n": 4_000}),
        ),
        "full": (
            Sweep("n", (50_000, 100_000, 200_000), {"Q": 1024}),
            Sweep("Q", (64, 256, 1024), {"n": 200_000}),
        ),
    },
    notes=_notes,
    targets=(Target({"n": 200_000, "Q": 1024}, ratio=5.0),),
)
