"""Local training, alone and together, against plain PyTorch; its rates over rounds; scores."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from asked import short_run
from torch import nn

from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.neural.data.tensors import Tensors
from hopfed.neural.models import build
from hopfed.neural.training import loops
from hopfed.neural.training.evaluation import (
    MEASURES,
    Network,
    bottom_decile,
    chance_measures,
    mark_correct,
    score_domains,
)
from hopfed.neural.training.job import Job, Optimizer, Training, step_flops
from hopfed.neural.training.loops import group_jobs, train, train_alone, train_together
from hopfed.neural.training.task import TaskSpec, task_of

ADAM = partial(torch.optim.Adam, foreach=False)
PLAIN = {"sgd": partial(torch.optim.SGD, momentum=0.9), "adam": ADAM}
PLAIN["amsgrad"] = partial(ADAM, amsgrad=True)


def task(model="mlp:30", clients=4, **settings):
    return task_of(TaskSpec(models=(model,), clients=clients, examples=200, **settings))


def objective(net, batch):
    out = net(batch.x)
    return batch.cross_entropy(out[1] if isinstance(out, tuple) else out)


def jobs_of(made, training=Training(batch=16), augment=False):  # noqa: B008  (frozen)
    more = objective, training, augment
    return [
        Job(made.model(c), made.initial(c), rows, (0, 0, 0, c), *more)
        for c, rows in enumerate(made.split.train)
    ]


@pytest.mark.parametrize(
    ("model", "name", "augment"),
    [("mlp:30", "sgd", False), ("mlp:30", "amsgrad", False), ("lenet", "sgd", True)],
)
def test_together_clients_of_unequal_size_train_as_each_would_alone(model, name, augment):
    made = task(model, partition="dirichlet:0.5")
    assert len(set(made.split.sizes[:, 0])) > 1
    training = Training(name, lr=0.01, weight_decay=1e-3, epochs=2, batch=16, clip=1.0)
    alone, stacked = (jobs_of(made, training, augment) for _ in range(2))
    for job in alone:
        train_alone(job, made.tensors)
    train_together(stacked, made.tensors)
    # Adam moves by the sign of a gradient, which near zero is that of the rounding.
    few = 1e-4 if name == "amsgrad" else 0.0
    for a, b in zip(alone, stacked, strict=True):
        assert abs(a.loss - b.loss) < 1e-4
        for n in a.params:
            far = (a.params[n] - b.params[n]).abs() > 1e-5 + 1e-3 * a.params[n].abs()
            assert far.float().mean() <= few


def test_stacks_hold_one_architecture_and_fit_the_memory():
    made = task_of(TaskSpec(models=("mlp:30", "lenet"), clients=10, examples=400))
    nbytes = 4 * sum(t.numel() * 4 for t in made.initial(0).values())
    groups = group_jobs(jobs_of(made), 100 * nbytes)
    assert [{made.names[job.path[3]] for job in g} for g in groups] == [{"mlp:30"}, {"lenet"}]
    mlp = [g for g in group_jobs(jobs_of(made), 4 * nbytes) if g[0].net is made.model(0)]
    assert [len(g) for g in mlp] == [2, 3]  # rather than 4 and one alone
    assert max(len(g) for g in group_jobs(jobs_of(made), 1)) == 1


@pytest.mark.parametrize(
    ("way", "large", "calls"),
    [("auto", loops.LARGE, 1), ("auto", 1e3, 4), ("stacked", 1e3, 1), ("sequential", 1e9, 4)],
)
def test_clients_whose_steps_are_large_are_trained_one_by_one(monkeypatch, way, large, calls):
    made, seen = task("lenet"), []
    monkeypatch.setattr(loops, "LARGE", large)
    for name in ("train_together", "train_alone"):
        monkeypatch.setattr(loops, name, lambda *a: seen.append(a))
    train(jobs_of(made, Training(way=way)), made.tensors)
    assert len(seen) == calls


def test_batch_norm_statistics_move_and_the_last_example_joins_the_batch_before():
    made = task("asked:Normed", clients=2, partition="iid")
    job = jobs_of(made, Training(batch=12, way="stacked"))[0]
    assert not loops._together(job, made.tensors)
    job.rows = job.rows[:25]  # and padding would count, so nobody is stacked
    assert [len(rows) for rows in job.steps()] == [12, 13]
    train_alone(job, made.tensors)
    name = next(n for n in job.params if n.endswith("running_mean"))
    assert not torch.equal(job.params[name], made.initial(0)[name])


@pytest.mark.parametrize("name", PLAIN)
def test_an_optimizer_is_that_of_pytorch_and_goes_on_with_fewer_clients(name):
    draw, training = torch.Generator().manual_seed(0), Training(name, lr=0.1, weight_decay=0.01)
    parts, state = torch.randn(3, 4, 5, generator=draw), {}
    p = parts.clone().requires_grad_()
    optimizer = PLAIN[name]([p], lr=0.1, weight_decay=0.01)
    for count in (3, 3, 3, 2):  # the last client leaves early
        p.grad = torch.randn(3, 5, 4, generator=draw).mT
        optimizer.step()
        ours = Optimizer(training, [parts], state)
        ours.step([parts[:count]], [p.grad[:count]])
        state = ours.state()
    torch.testing.assert_close(p[:2].detach(), parts[:2], rtol=1e-5, atol=1e-6)
    assert int(state["count"]) == 4


@pytest.mark.parametrize("way", ["sequential", "stacked"])
def test_mixed_precision_changes_products_and_nothing_else(way):
    made, losses = task("lenet"), []
    for precision in ("float32", "bfloat16"):
        jobs = jobs_of(made, Training(lr=0.05, epochs=3, way=way, precision=precision))
        train(jobs, made.tensors)
        assert all(t.dtype == torch.float32 for job in jobs for t in job.params.values())
        losses.append([job.loss for job in jobs])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.05)


def test_schedules_by_hand():
    warm, steps = Training(lr=1.0, warmup=3), Training(lr=1.0, schedule="step:3:0.1")
    assert [warm.at(t).lr for t in range(5)] == [0.25, 0.5, 0.75, 1, 1]
    assert [steps.at(t).lr for t in (0, 2, 3, 6)] == pytest.approx([1, 1, 0.1, 0.01])
    cosine = [Training(lr=1.0, schedule="cosine", rounds=100).at(t).lr for t in range(100)]
    assert cosine == pytest.approx([np.cos(np.pi * t / 200) ** 2 for t in range(100)])
    assert 0 < Training(schedule="cosine", rounds=4).at(9).lr <= 1e-12  # a round beyond the last
    plain = Training(lr=0.3)
    assert plain.at(7) is plain


ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=8, models=("mlp:16",), shares=(75, 10, 15)
)


def networks(made):
    """A network of each client, with weights of its own."""
    draw = torch.Generator().manual_seed(0)
    noise = lambda t: torch.randn(t.shape, generator=draw) / 10  # noqa: E731
    weights = map(made.initial, range(len(made.split)))
    noisy = ({n: t + noise(t) for n, t in each.items()} for each in weights)
    return [Network(made.model(c), params) for c, params in enumerate(noisy)]


def test_scores_within_and_across_domains_count_every_test_example():
    made, of = task_of(ROTATED), np.arange(8) // 2
    found = score_domains(networks(made), made.tensors, made.split)
    assert found["sizes"].tolist() == [30] * 4
    tests = [np.concatenate(made.split.test[2 * d : 2 * d + 2]) for d in range(4)]
    for c, network in enumerate(networks(made)):
        right = [mark_correct(network, made.tensors, rows) for rows in tests]
        others = np.concatenate([r for d, r in enumerate(right) if d != of[c]])
        assert found["wdp"][c] == right[of[c]].mean()
        np.testing.assert_allclose(found["cdp"][c], others.mean())
        np.testing.assert_allclose(found["acc"][c], np.concatenate(right).mean())
    assert found["accuracy"].std() > 0
    for clients, own in ((3, [0, 1, 2]), (1, [0])):  # without domains, each is its own
        made = task(clients=clients)
        found = score_domains(networks(made), made.tensors, made.split, "validation")
        assert found["own"].tolist() == own
        np.testing.assert_array_equal(found["sizes"], made.split.sizes[:, 1])
        assert np.isnan(found["cdp"]).all() == (clients == 1)  # as one alone has no others


def test_means_by_size_and_the_worst_tenth():
    assert bottom_decile(np.linspace(0.05, 1, 20)) == pytest.approx(0.075)
    assert bottom_decile(np.array([0.5, 0.1, 0.9])) == 0.1
    names = ("validation", "test", "traffic/up", "traffic/down", "client/flops")
    arrays = dict.fromkeys(names, np.ones((1, 1, 2))) | {"sizes": np.zeros((1, 1, 2, 3), int)}
    arrays["sizes"][0, 0, :, 2] = 30, 10
    found = fl.accuracies_and_costs(arrays, np.zeros(1, int), np.array([[1.0, 0.5]]))
    assert found["weighted"].tolist() == [0.875]


CHANCES = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.4, 0.5, 0.1], [0.2, 0.7, 0.1]])
LABELS = np.array([0, 0, 1, 1])  # class 2 does not occur


def test_measures_are_those_of_their_definitions():
    found = chance_measures(CHANCES, LABELS, 3)
    assert found["confusion"].tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    # Pairs in order: class 0 has 3 of 4 above the rest, class 1 has 3 of 4.
    due = {"auc": 0.75, "balanced": (1 / 2 + 1) / 2, "f1": (2 / 3 + 4 / 5) / 2}
    due["loss"] = -np.log([0.8, 0.3, 0.5, 0.7]).mean()
    assert {name: found[name] for name in due} == pytest.approx(due)
    one, lost = (
        chance_measures(CHANCES[:2], LABELS[:2], 3),
        chance_measures(CHANCES * np.nan, LABELS, 3),
    )
    assert (np.isnan(one["auc"]), one["balanced"]) == (True, 0.5)
    assert all(np.isnan(lost[name]) for name in MEASURES)


def test_a_run_has_measures_where_they_are_asked_for():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    rows = rng.normal(size=(120, 4)) + labels[:, None]
    plain = short_run(data=(rows, labels), partition="iid", unseen=0.25)
    run = execute(fl, replace(plain, measures=True))
    confusion = run.arrays["measures/confusion"]
    right = np.trace(confusion, axis1=-2, axis2=-1) / confusion.sum(axis=(-2, -1))
    assert right == pytest.approx(run.arrays["test"])
    assert {"auc", "f1", "balanced", "loss", "train_loss", "newcomers"} <= set(run.summary)
    best = int(run.summary["round"][0]) - 1
    assert run.summary["newcomers"][0] == pytest.approx(run.arrays["test"][0, best, 3])
    assert not any(name.startswith("measures/") for name in execute(fl, plain).arrays)


# FLOPs by hand: matrix products and convolutions, forward and backward


def images(channels, size, batch=2):
    return torch.zeros(batch, channels, size, size)


def measured(model, batch):
    """FLOPs of a training step, for each example."""
    labels = torch.zeros(len(batch), dtype=torch.int64)
    scale = () if batch.dtype == torch.int64 else (torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    rows, start = np.arange(len(batch)), dict(model.state_dict())
    job = Job(model, start, rows, (0, 0, 0, 0), objective, Training())
    return step_flops(job, Tensors(batch, labels, *scale), len(batch))


MLP = build("mlp:17x30", channels=1, size=8, classes=5, seed=0)
DENSE = 64 * 17 + 17 * 30 + 30 * 5
CNN, FIRST = build("cnn-1", channels=3, size=32, classes=10, seed=0), 28**2 * 16 * 25 * 3
LSTM, TOKENS = build("lstm", channels=90, size=7, classes=90, seed=0), torch.zeros(2, 7).long()
GROUPED = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten())
WIDER = nn.Conv2d(3, 4, 1), nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), nn.Flatten()


@pytest.mark.parametrize(
    ("model", "batch", "products", "first"),
    [
        (MLP, images(1, 8), DENSE, 64 * 17),
        (MLP, images(1, 8, 5), DENSE, 64 * 17),
        # Output pixels, filters, taps, channels; then the dense layers.
        (CNN, images(3, 32), FIRST + 100 * 32 * 25 * 16 + 800 * 2000 + 2000 * 500 + 5000, FIRST),
        # The initial hidden states have no gradient.
        (LSTM, TOKENS, 4 * 256 * 7 * (264 + 512) + 256 * 90, 2 * 4 * 256**2),
        (GROUPED, images(4, 5), 9 * 6 * 9 * 2, 9 * 6 * 9 * 2),
        (nn.Sequential(*WIDER), images(3, 5), 300 + 25 * 9 * 4 * 6 // 2, 25 * 3 * 4),
    ],
)
def test_flops_of_a_step(model, batch, products, first):
    """Backward, every weight has its gradient, every layer but the first that of its input."""
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert measured(model, batch) == 2 * (3 * products - first)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(v, before[k]) for k, v in model.named_parameters())


def test_frozen_parameters_spare_their_gradients():
    model, frozen = (build("cnn-5", channels=1, size=8, classes=10, seed=0) for _ in range(2))
    first = 64 * 16 * 25  # products of the first layer, whose input has no gradient
    forward = (measured(model, images(1, 8)) / 2 + first) / 3
    assert measured(frozen.freeze(), images(1, 8)) == 2 * (forward + 500 * 10)
