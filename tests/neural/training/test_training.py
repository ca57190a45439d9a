"""Local training: alone and together, against plain PyTorch, and the rule that chooses."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed._lib.random import stream  # noqa: E402
from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.neural.data.tensors import Augment  # noqa: E402
from hopfed.neural.training import together  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402
from hopfed.neural.training.together import (  # noqa: E402
    stacks,
    train,
    train_alone,
    train_together,
)
from hopfed.neural.training.training import OPTIMIZERS, Job, Training, of_client, stack  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
PLAIN = {
    "sgd": lambda p, t: torch.optim.SGD(p, t.lr, t.momentum, weight_decay=t.weight_decay),
    "adam": lambda p, t: torch.optim.Adam(p, t.lr, weight_decay=t.weight_decay, foreach=False),
    "amsgrad": lambda p, t: torch.optim.Adam(
        p, t.lr, weight_decay=t.weight_decay, amsgrad=True, foreach=False
    ),
}


class Normed(torch.nn.Sequential):
    def __init__(self):
        maps = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
        super().__init__(*maps, torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10))


def task(model="mlp:30", clients=4, **settings):
    return task_of(TaskSpec(models=(model,), clients=clients, examples=200, **settings))


def objective(net, batch):
    return batch.cross_entropy(net(batch.x)[1])


def jobs_of(made, training=Training(batch=16), augment=None):  # noqa: B008  (frozen)
    return [
        Job(made.model(c), made.initial(c), made.split.train[c], (0, 0, 0, c), objective, training,
            augment)
        for c in range(len(made.split))
    ]  # fmt: skip


def each_alone(jobs, data):
    for job in jobs:
        train_alone(job, data)


@pytest.mark.parametrize("name", PLAIN)
def test_one_client_is_plain_pytorch(name):
    made = task()
    training = Training(name, lr=0.01, weight_decay=1e-2, epochs=2, batch=16)
    job, model = jobs_of(made, training)[0], made.build("mlp:30")
    train_alone(job, made.tensors)
    optimizer = PLAIN[name](model.parameters(), training)
    for epoch in range(2):
        order = stream(0, "batches", 0, 0, 0, epoch).permutation(made.split.train[0])
        for i in range(0, len(order), 16):
            x, y = made.tensors.batch(made.tensors.rows(order[i : i + 16]))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    for n, t in model.state_dict().items():
        # To the bit on most processors; some have other vector code for some of the operations.
        torch.testing.assert_close(job.params[n], t, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "name"), [("mlp:30", "sgd"), ("mlp:30", "amsgrad"), ("lenet", "sgd")]
)
def test_together_clients_of_unequal_size_train_as_each_would_alone(model, name):
    made = task(model, partition="dirichlet:0.5")
    assert len(set(made.split.sizes[:, 0])) > 1
    training = Training(name, lr=0.01, weight_decay=1e-3, epochs=2, batch=16, clip=1.0)
    alone, stacked = jobs_of(made, training), jobs_of(made, training)
    each_alone(alone, made.tensors)
    train_together(stacked, made.tensors)
    # Adam moves by the sign of a gradient, which near zero is that of the rounding.
    few = 1e-4 if name == "amsgrad" else 0.0
    for a, b in zip(alone, stacked, strict=True):
        assert abs(a.loss - b.loss) < 1e-4
        for n in a.params:
            far = (a.params[n] - b.params[n]).abs() > 1e-5 + 1e-3 * a.params[n].abs()
            assert far.float().mean() <= few


def test_batches_cover_the_examples_of_every_epoch():
    training = Training(epochs=3, batch=16)
    a, b = (jobs_of(task(), training)[1].steps() for _ in range(2))
    np.testing.assert_array_equal(np.concatenate(a), np.concatenate(b))
    first = np.concatenate(a[: len(a) // 3])
    np.testing.assert_array_equal(np.sort(first), np.sort(task().split.train[1]))


@pytest.mark.parametrize("run", [each_alone, train_together])
def test_frozen_parameters_stay(run):
    made = task()
    jobs = [replace(job, frozen=("features.",)) for job in jobs_of(made)]
    run(jobs, made.tensors)
    for c, job in enumerate(jobs):
        for n, t in made.initial(c).items():
            assert torch.equal(t, job.params[n]) == n.startswith("features.")


def test_augmented_clients_draw_what_each_would_alone():
    made = task("lenet", clients=3)
    alone, stacked = (jobs_of(made, augment=Augment(1)) for _ in range(2))
    each_alone(alone, made.tensors)
    train_together(stacked, made.tensors)
    for a, b in zip(alone, stacked, strict=True):
        for n in a.params:
            torch.testing.assert_close(a.params[n], b.params[n], rtol=1e-3, atol=2e-5)


def test_stacks_hold_one_architecture_and_fit_the_memory():
    made = task_of(TaskSpec(models=("mlp:30", "lenet"), clients=10, examples=400))
    nbytes = 4 * sum(t.numel() * 4 for t in made.initial(0).values())
    groups = stacks(jobs_of(made), 100 * nbytes)
    assert [{made.names[job.path[3]] for job in g} for g in groups] == [{"mlp:30"}, {"lenet"}]
    mlp = [g for g in stacks(jobs_of(made), 4 * nbytes) if g[0].net is made.model(0)]
    assert [len(g) for g in mlp] == [2, 3]  # rather than 4 and one alone
    assert max(len(g) for g in stacks(jobs_of(made), 1)) == 1


@pytest.mark.parametrize(
    ("settings", "large", "wide"),
    [
        ({}, together.LARGE, True),
        ({}, 1e3, False),  # a step is large
        ({"way": "stacked"}, 1e3, True),
        ({"way": "sequential"}, together.LARGE, False),
    ],
)
def test_the_rule_goes_by_the_size_of_a_step(monkeypatch, settings, large, wide):
    made, seen = task("lenet"), []
    monkeypatch.setattr(together, "LARGE", large)
    monkeypatch.setattr(together, "train_together", lambda *a: seen.append("together"))
    monkeypatch.setattr(together, "train_alone", lambda *a: seen.append("alone"))
    train(jobs_of(made, Training(**settings)), made.tensors)
    assert seen == (["together"] if wide else ["alone"] * 4)


def test_batch_norm_statistics_move_and_the_last_example_joins_the_batch_before():
    made = task(f"{__name__}:Normed", clients=2, partition="iid")
    job = jobs_of(made, Training(batch=12, way="stacked"))[0]
    assert not together._together(job, made.tensors)
    job.rows = job.rows[:25]  # and padding would count, so nobody is stacked
    assert [len(rows) for rows in job.steps()] == [12, 13]
    train_alone(job, made.tensors)
    name = next(n for n in job.params if n.endswith("running_mean"))
    assert not torch.equal(job.params[name], made.initial(0)[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_had_never_stopped_also_in_a_stack(name):
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, 5, generator=draw)
    grads = [torch.randn(3, 5, 4, generator=draw).mT for _ in range(4)]
    whole = Training(name, lr=0.1, weight_decay=0.01).make()
    p = start.clone()
    for g in grads:
        whole.step([p], [g])
    q, states = start.clone(), [{} for _ in range(3)]
    for g, count in zip(grads, (3, 3, 3, 2), strict=True):  # the last client leaves early
        part = Training(name, lr=0.1, weight_decay=0.01).make(fused=True)
        part.resume(stack(states[:count]))
        part.step([q[:count]], [g[:count]])
        states[:count] = [of_client(part.state(), i) for i in range(count)]
    torch.testing.assert_close(p[:2], q[:2], rtol=1e-5, atol=1e-6)
    assert int(states[0]["count"]) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "lbfgs"}, "optimizer must be one of sgd, adam, amsgrad"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"way": "fast"}, "way must be one of auto, sequential, stacked"),
        ({"clip": -1.0}, "clip must be at least 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        Training(**settings)


@pytest.mark.parametrize("way", ["sequential", "stacked"])
def test_mixed_precision_changes_products_and_nothing_else(way):
    made, losses = task("lenet"), {}
    for precision in ("float32", "bfloat16"):
        jobs = jobs_of(made, Training(lr=0.05, epochs=3, way=way, precision=precision))
        train(jobs, made.tensors)
        assert all(t.dtype == torch.float32 for job in jobs for t in job.params.values())
        losses[precision] = np.array([job.loss for job in jobs])
    assert not np.array_equal(losses["float32"], losses["bfloat16"])
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.05)
