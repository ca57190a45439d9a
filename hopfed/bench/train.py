"""`hopfed bench train`: clients of one architecture trained alone, stacked, and by choice.

Measured at batch 16 on one thread of a busy two-core machine, by CPU time, the shortest of 3 to 12
samples taken in turn; ranges are over separate runs. Ratios are to the loop of this package, which
took between .7 and 1.2 times the time of models with `torch.optim.SGD`. LeNet on 28 x 28, 10
clients: 1.5 to 2.0, median of seven runs 1.7 (aim 1.7). 50 clients with 15,000 parameters
(64-200-10): 6.0 to 7.3 (aim 5). 50 clients with 55,000 (64-200-200-10): 2.5 to 3.7; the aim of 5 is
missed, since products and updates alone, without any overhead, take a fourth of the loop's time.
CNN-1, of 2 million parameters, is bound by memory: .97 in stacks of two, and the choice is the
loop. At 12 sizes of the full sweeps the choice was the way that was measured faster afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hopfed.bench.record import Benchmark, Cost, Data, Sweep, Target, Way

# By number, since sizes are numbers: architecture, its settings, side of the images.
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


def _setup(model: int, clients: int, batch: int) -> Data:
    """Random images; every client has as many as `STEPS` batches take."""
    import torch

    from hopfed.neural.data.tensors import Tensors
    from hopfed.rng import stream

    rng = stream(0, "bench", "train")
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


def _jobs(data: Data) -> list[Any]:
    from hopfed.neural.training import Job

    net, each = data["model"], STEPS * data["batch"]
    return [
        Job(net, dict(net.state_dict()), np.arange(c * each, (c + 1) * each), (0, 0, 0, c))
        for c in range(data["clients"])
    ]


def _train(way: str) -> Any:
    def run(data: Data) -> np.ndarray:
        from hopfed.neural.training import Training, cross_entropy
        from hopfed.neural.ways import train

        def objective(forward, params, x, y, mask, extra):
            del extra
            return cross_entropy(forward(params, x)[1], y, mask)

        jobs = _jobs(data)
        train(jobs, data["data"], Training(batch=data["batch"], way=way), objective)
        return np.array([job.loss for job in jobs])

    return run


def _cost(model: int, clients: int, batch: int) -> Cost:
    """Products counted by running the model once; bytes of parameters, gradients and moments."""
    import torch

    from hopfed.neural.cost import measure

    side = MODELS[model][2]
    cost = measure(_build(model), torch.zeros(2, 1, side, side))
    steps = clients * STEPS
    return Cost(7.0 * cost.nbytes * steps, {"float32": float(cost.training * batch * steps)})


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(a).max())


BENCHMARK = Benchmark(
    name="train",
    summary=(
        f"{STEPS} steps of SGD of clients with one architecture, one thread (1 mlp 64-200-200-10, "
        "2 lenet 28 x 28, 3 cnn-1 28 x 28, 4 mlp 64-200-10, 5 mlp 784-200-200-10, 6 cnn-5 28 x 28)"
    ),
    setup=_setup,
    ways=(
        Way("auto", _train("auto"), _cost),
        Way("sequential", _train("sequential"), _cost, tolerance=1e-3),
        Way("stacked", _train("stacked"), _cost, tolerance=1e-3),
    ),
    gap=_gap,
    sizes={
        "small": (
            Sweep("clients", (5, 20, 50), {"model": 1, "batch": 16}),
            Sweep("model", (1, 2, 3, 4), {"clients": 10, "batch": 16}),
            Sweep("batch", (16, 64), {"model": 2, "clients": 10}),
        ),
        "full": (
            Sweep("clients", (5, 10, 20, 50, 100), {"model": 1, "batch": 16}),
            Sweep("model", (1, 2, 3, 4, 5, 6), {"clients": 50, "batch": 16}),
            Sweep("batch", (16, 64, 256), {"model": 2, "clients": 10}),
        ),
    },
    targets=(
        Target({"model": 2, "clients": 10, "batch": 16}, 1.7),
        Target({"model": 1, "clients": 50, "batch": 16}, 5.0),
        Target({"model": 4, "clients": 50, "batch": 16}, 5.0),
    ),
)
