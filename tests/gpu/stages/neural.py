"""Training of clients' networks with their data and weights on the processor and on the device."""

import time

import numpy as np

from stages import Rows, run, torch_on

# Architecture, its settings, side of the images, clients, batch.
FULL = (
    ("mlp", {}, 8, 50, 16),
    ("lenet", {}, 28, 10, 16),
    ("lenet", {}, 28, 10, 256),
    ("cnn-1", {}, 28, 50, 64),
)
SMALL = (("mlp", {}, 8, 3, 4),)
CLASSES, STEPS, REPEATS = 10, 6, 3
TOLERANCE = 1e-2  # of the losses after some steps, relative


def work(rows: Rows) -> None:
    """Train every case in both places and both ways; losses must agree."""
    kind = "cpu" if rows.emulate else "cuda"
    torch_on(kind)
    for name, settings, side, clients, batch in SMALL if rows.emulate else FULL:
        for way in ("sequential", "stacked"):
            label = f"{way} training of {name}, {clients} clients, batch {batch}"
            with rows.attempt(label):
                here, cpu = _trained("cpu", way, name, settings, side, clients, batch)
                there, seconds = _trained(kind, way, name, settings, side, clients, batch)
                gap = float(np.abs(here - there).max() / np.abs(here).max())
                rows.add(label, seconds=seconds, cpu=cpu, ratio=cpu / seconds, gap=gap)
                rows.failed |= not gap <= TOLERANCE


def _trained(kind, way, name, settings, side, clients, batch) -> tuple[np.ndarray, float]:
    """Losses of the clients, and the shortest seconds of a round."""
    import torch

    from hopfed.neural.data.tensors import Tensors
    from hopfed.neural.models import build
    from hopfed.neural.training.job import Job, Training
    from hopfed.neural.training.loops import train

    def objective(net, batch):
        return batch.cross_entropy(net(batch.x)[1])

    rng, each = np.random.default_rng(0), STEPS * batch
    x = torch.as_tensor(rng.standard_normal((clients * each, 1, side, side)), dtype=torch.float32)
    y, one = torch.as_tensor(rng.integers(0, CLASSES, clients * each)), torch.ones(1, 1, 1)
    data = Tensors(*(t.to(kind) for t in (x, y, 0 * one, one)))
    net = build(name, channels=1, size=side, classes=CLASSES, seed=0, **settings)
    weights = {n: t.detach().to(kind) for n, t in net.state_dict().items()}
    best = np.inf
    for _ in range(REPEATS):
        jobs = [
            Job(net, weights, np.arange(c * each, (c + 1) * each), (0, 0, 0, c), objective,
                Training(batch=batch, way=way))
            for c in range(clients)
        ]  # fmt: skip
        start = time.perf_counter()
        train(jobs, data)  # losses come to the host
        best = min(best, time.perf_counter() - start)
    return np.array([job.loss for job in jobs]), best


if __name__ == "__main__":
    run(work)
