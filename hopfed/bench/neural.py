"""Pairs of the neural methods: models trained together, and nearest stored examples.

**train** was measured at batch 16 on one thread of a busy two-core machine. Times are CPU times,
the shortest of 3 to 12 samples taken in turn; ranges are over separate runs. Ratios are relative to
the loop of this package, which took between .7 and 1.2 times the time of models with
`torch.optim.SGD`.

- LeNet on 28 x 28, 10 clients: 1.5 to 2.0, median of seven runs 1.7 (aim 1.7).
- 50 clients with 15,000 parameters (64-200-10): 6.0 to 7.3 (aim 5).
- 50 clients with 55,000 parameters (64-200-200-10): 2.5 to 3.7. The aim of 5 is missed, because
  products and updates alone, without any overhead, take a fourth of the loop's time.
- CNN-1, of 2 million parameters, is bound by memory: .97 in stacks of two; "auto" chooses the loop.

At 12 sizes of the full sweeps "auto" chose the way that was measured as faster afterwards.

**neighbours**: keys and queries are features of CIFAR-10 and CIFAR-100 under a MobileNet-v2 with
1,280 features, as in kNN-Per. The pictures get a new crop and flip after every pass over both data
sets; no picture is both key and query. The network has its initial weights, and the pictures are
averaged down to 8 x 8, so that 200,000 of them take minutes. The approximate way must find 95 of
100 true neighbours; otherwise no time is reported.

Its settings were chosen on 200,000 of these keys. The search of 32, 48, 64 or 128 of 447 lists
along 64 principal axes finds .950, .977, .988 or .999 of the neighbours, and is about 11, 10, 7.5
or 4 times faster than all pairs (7 ms a query on one thread). It adds 6% of memory and takes 10 s
to build. A graph (HNSW) of 20,000 keys takes three times as long to build, and is slower than all
pairs, which are one matrix product. Below some thousand keys, which is the usual size at a client,
exact search is fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from hopfed._lib.random import stream
from hopfed.bench.harness.machine import process_bytes
from hopfed.bench.harness.record import Cost, Data, Pair, Sweep, Target, Way, cross
from hopfed.kernels.cpu.threads import thread_count

# Number -> architecture, its settings, side of the images. Sizes of a pair are numbers.
MODELS: dict[int, tuple[str, dict[str, Any], int]] = {
    1: ("mlp", {}, 8),
    2: ("lenet", {}, 28),
    3: ("cnn-1", {}, 28),
    4: ("mlp", {"hidden": (200,)}, 8),
    5: ("mlp", {}, 28),
    6: ("cnn-5", {}, 28),
}
CLASSES = 10
STEPS = 6
K = 10  # neighbours, as in kNN-Per
D = 1280  # features
RECALL = 0.95
INDEX = "ivf:48"
CHUNK = 250  # pictures that pass through the network together
SIDE = 8
_HELD: dict[str, str] = {}  # index -> its size when it was last built


def _images(rng: np.random.Generator, model: int, clients: int, batch: int) -> Data:
    """Random images; every client has enough for `STEPS` batches."""
    import torch

    from hopfed.neural.data.tensors import Tensors

    n, side = clients * STEPS * batch, MODELS[model][2]
    x = torch.as_tensor(rng.standard_normal((n, 1, side, side)), dtype=torch.float32)
    y = torch.as_tensor(rng.integers(0, CLASSES, n))
    one = torch.ones(1, 1, 1)
    data = Tensors(x, y, 0 * one, one)
    return {"data": data, "model": _build(model), "clients": clients, "batch": batch}


def _build(model: int) -> Any:
    from hopfed.neural.models import build

    name, settings, side = MODELS[model]
    return build(name, channels=1, size=side, classes=CLASSES, seed=0, **settings)


def _train_by(way: str, data: Data) -> np.ndarray:
    """Losses of the clients after `STEPS` steps."""
    from hopfed.neural.training.stacked_or_not import train
    from hopfed.neural.training.training import Job, Training

    def objective(net, batch):
        return batch.cross_entropy(net(batch.x)[1])

    net, each = data["model"], STEPS * data["batch"]
    jobs = [
        Job(net, dict(net.state_dict()), np.arange(c * each, (c + 1) * each), (0, 0, 0, c))
        for c in range(data["clients"])
    ]
    train(jobs, data["data"], Training(batch=data["batch"], way=way), objective)
    return np.array([job.loss for job in jobs])


def _train(model: int, clients: int, batch: int) -> tuple[Way, ...]:
    import torch

    from hopfed.neural.training.cost import measure

    # Products are counted by running the model once; bytes of parameters, gradients and moments.
    side = MODELS[model][2]
    one = measure(_build(model), torch.zeros(2, 1, side, side))
    steps = clients * STEPS
    cost = Cost(7.0 * one.nbytes * steps, {"float32": float(one.training * batch * steps)})
    return tuple(
        Way(way, partial(_train_by, way), cost, tolerance=1e-3)
        for way in ("auto", "sequential", "stacked")
    )


def _relative_gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(a).max())


def _keys(_: np.random.Generator, n: int, Q: int) -> Data:
    """Keys (n, D) and queries (Q, D)."""
    keys = np.concatenate([_embedded(i, "key") for i in range(-(-n // CHUNK))])[:n]
    queries = np.concatenate([_embedded(i, "query") for i in range(-(-Q // CHUNK))])[:Q]
    return {"keys": keys, "queries": queries}


@cache  # the sizes of a sweep share features
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

    found = np.concatenate([data.inputs for data in _datasets()[0]])
    if found.shape[1] == 1:
        found = np.repeat(found, 3, axis=1)
    order = stream(0, "bench", "neighbours").permutation(len(found))
    mean, std = (torch.tensor(m, dtype=torch.float32)[:, None, None] for m in moments(found, order))
    return Tensors(torch.from_numpy(found[order]), torch.zeros(len(found)), mean, std)


@lru_cache(1)
def _datasets() -> tuple[list[Any], str]:
    """Return CIFAR-10 and CIFAR-100, or else scikit-learn's digits, and a description."""
    from hopfed.errors import DataError
    from hopfed.neural.data import load

    try:
        return [load("cifar10"), load("cifar100")], "pictures of CIFAR-10 and CIFAR-100"
    except DataError as error:
        return [load("digits")], f"scikit-learn's digits, since {error}"


def _indexed(kind: str) -> Callable[[Data], Data]:
    def prepare(data: Data) -> Data:
        from hopfed.neural.memory.neighbours import Index

        before = process_bytes()
        index = Index(data["keys"], kind)
        grown = (process_bytes() - before) / 1e6
        held = f"{len(index):,} keys in {index.nbytes / 1e6:,.1f} MB"
        _HELD[kind] = f"{kind} holds {held}; the process grew by {grown:,.1f} MB"
        return {"index": index, **data}

    return prepare


def _flat(data: Data) -> Data:
    from hopfed.neural.memory.neighbours import faiss

    index = faiss().IndexFlatL2(D)
    index.add(data["keys"])
    return {"index": index, **data}


def _search(data: Data) -> np.ndarray:
    """Rows (Q, K) of the nearest keys; FAISS uses as many threads as hopfed's kernels."""
    from hopfed.neural.memory.neighbours import faiss

    module = faiss()
    module.omp_set_num_threads(thread_count())
    try:
        return np.asarray(data["index"].search(data["queries"], K)[1])
    finally:
        module.omp_set_num_threads(1)


def _neighbours(n: int, Q: int) -> tuple[Way, ...]:
    from hopfed.neural.memory.neighbours import EXTRA, POOL, layout, parse_index

    # Projections of the queries, centroids, lists of equal length, best candidates in full.
    lists, axes = layout(n, D)
    scanned = min(parse_index(INDEX)[1] / lists, 1.0) * n
    pool = min(POOL * (K + EXTRA), n)
    turned = 2 * D * axes if axes < D else 0
    operations = Q * (turned + 3 * axes * (lists + scanned) + 3 * D * pool)
    some = Cost(4.0 * Q * (axes * scanned + D * pool), {"float32": operations})
    every = Cost(4.0 * D * (n + Q), {"float32": 2.0 * D * n * Q})
    return (
        Way("approximate", _search, some, _indexed(INDEX)),
        Way("FAISS, all pairs", _search, every, _flat, tolerance=1 - RECALL),
        Way("exact", _search, every, _indexed("exact"), tolerance=1 - RECALL),
    )


def _missed(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the neighbours in one result that are missing in the other."""
    return float(1 - (a[:, :, None] == b[:, None, :]).any(axis=2).mean())


def _searched() -> list[str]:
    """Return notes on the searched data and on the memory of the indexes."""
    return [f"{_datasets()[1]}; {thread_count()} threads", *_HELD.values()] if _HELD else []


PAIRS = (
    Pair(
        "train",
        f"{STEPS} steps of SGD of clients with one architecture, one thread (1 mlp 64-200-200-10, "
        "2 lenet 28 x 28, 3 cnn-1 28 x 28, 4 mlp 64-200-10, 5 mlp 784-200-200-10, 6 cnn-5 28 x 28)",
        _images,
        _train,
        _relative_gap,
        small=(
            Sweep("clients", (5, 20, 50), {"model": 1, "batch": 16}),
            Sweep("model", (1, 2, 3, 4), {"clients": 10, "batch": 16}),
            Sweep("batch", (16, 64), {"model": 2, "clients": 10}),
        ),
        full=(
            Sweep("clients", (5, 10, 20, 50, 100), {"model": 1, "batch": 16}),
            Sweep("model", (1, 2, 3, 4, 5, 6), {"clients": 50, "batch": 16}),
            Sweep("batch", (16, 64, 256), {"model": 2, "clients": 10}),
        ),
        targets=(
            Target({"model": 2, "clients": 10, "batch": 16}, 1.7),
            Target({"model": 1, "clients": 50, "batch": 16}, 5.0),
            Target({"model": 4, "clients": 50, "batch": 16}, 5.0),
        ),
    ),
    Pair(
        "neighbours",
        f"the {K} nearest of n keys of {D} features to Q queries; gap: share of them missed",
        _keys,
        _neighbours,
        _missed,
        small=cross({"n": 4_000, "Q": 256}, n=(1_000, 2_000, 4_000), Q=(16, 64, 256)),
        full=cross({"n": 200_000, "Q": 1024}, n=(50_000, 100_000, 200_000), Q=(64, 256, 1024)),
        targets=(Target({"n": 200_000, "Q": 1024}, 5.0),),
        notes=_searched,
    ),
)
