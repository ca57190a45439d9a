"""Local training: alone and stacked, against plain PyTorch, and its choice of the way."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.func import functional_call, vmap  # noqa: E402

from hopfed._lib.random import stream  # noqa: E402
from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.neural.data.tensors import Augment  # noqa: E402
from hopfed.neural.models import build  # noqa: E402
from hopfed.neural.training.batched import batched  # noqa: E402
from hopfed.neural.training.losses import cross_entropy  # noqa: E402
from hopfed.neural.training.optimizers import SGD  # noqa: E402
from hopfed.neural.training.sequential import train_sequential  # noqa: E402
from hopfed.neural.training.stacked import stacks, train_stacked  # noqa: E402
from hopfed.neural.training.stacked_or_not import train  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402
from hopfed.neural.training.training import Job, Training, forward_of  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def task(model="mlp", clients=4, **settings):
    return task_of(TaskSpec(models=(model,), clients=clients, examples=400, **settings))


def jobs_of(made, epochs_path=0):
    return [
        Job(made.model(c), made.initial(c), made.split.train[c], (0, epochs_path, 0, c))
        for c in range(len(made.split))
    ]


def objective(forward, params, x, y, mask, extra):
    return cross_entropy(forward(params, x)[1], y, mask)


def plain(made, training, client, optimizer):
    """The loop that anybody would write."""
    model = made.model(client)
    model.load_state_dict(made.initial(client))
    model.train()
    opt = optimizer(model.parameters())
    for epoch in range(training.epochs):
        path = ("batches", 0, 0, client, epoch)
        order = stream(0, *path).permutation(made.split.train[client])
        for i in range(0, len(order), training.batch):
            x, y = made.tensors.batch(made.tensors.rows(order[i : i + training.batch]))
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
    return {n: t.clone() for n, t in model.state_dict().items()}


OPTIMIZERS = {
    "sgd": lambda t: (
        lambda p: torch.optim.SGD(p, t.lr, t.momentum, weight_decay=t.weight_decay, foreach=False)
    ),
    "adam": lambda t: (
        lambda p: torch.optim.Adam(p, t.lr, weight_decay=t.weight_decay, foreach=False)
    ),
    "amsgrad": lambda t: (
        lambda p: torch.optim.Adam(
            p, t.lr, weight_decay=t.weight_decay, amsgrad=True, foreach=False
        )
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("decay", [0.0, 1e-2])
def test_one_client_is_plain_pytorch_to_the_bit(name, decay):
    made = task()
    start = {n: t.clone() for n, t in made.model(0).state_dict().items()}
    training = Training(name, lr=0.01, weight_decay=decay, epochs=2, batch=16)
    job = jobs_of(made)[0]
    train_sequential([job], made.tensors, training, objective)
    expected = plain(made, training, 0, OPTIMIZERS[name](training))
    made.model(0).load_state_dict(start)
    for n, t in expected.items():
        torch.testing.assert_close(job.params[n], t, rtol=0, atol=0)


@pytest.mark.parametrize("model", ["mlp", "lenet", "cnn-1"])
@pytest.mark.parametrize("name", ["sgd", "amsgrad"])
def test_stacked_clients_of_unequal_size_train_as_each_would_alone(model, name):
    made = task(model, partition="dirichlet:0.5")
    assert len(set(made.split.sizes[:, 0])) > 1
    training = Training(name, lr=0.01, weight_decay=1e-3, epochs=2, batch=16, clip=1.0)
    alone, together = jobs_of(made), jobs_of(made)
    train_sequential(alone, made.tensors, training, objective)
    train_stacked(together, made.tensors, training, objective)
    # Adam moves by the sign of a gradient, which near zero is that of the rounding.
    few = 1e-5 if name == "amsgrad" else 0.0
    for a, b in zip(alone, together, strict=True):
        assert abs(a.loss - b.loss) < 1e-4
        for n in a.params:
            far = (a.params[n] - b.params[n]).abs() > 1e-5 + 1e-3 * a.params[n].abs()
            assert far.float().mean() <= few


def test_pools_go_before_the_rectifiers_and_parameters_keep_their_names():
    net = build("lenet", channels=1, size=28, classes=10, seed=0)
    twin = batched(net)
    kinds = [type(layer).__name__ for layer in twin.features][:6]
    assert kinds == ["Convolution", "Maximum", "ReLU"] * 2
    assert [type(layer) for layer in net.features][:3] == [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert all(p is q for p, q in zip(twin.parameters(), net.parameters(), strict=True))


def gradients(net, params, x, y):
    """Of the loss of stacked clients: (values, gradients), each by the layers of `net`."""
    free = {n: t.clone().requires_grad_() for n, t in params.items()}
    values = vmap(lambda p, *batch: objective(forward_of(net), p, *batch, None, {}))(free, x, y)
    grads = torch.autograd.grad(values.sum(), [*free.values(), *([x] if x.requires_grad else [])])
    return values.detach(), grads


@pytest.mark.parametrize("size", [8, 11, 28])
@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn-2", "cnn-5"])
def test_batched_layers_are_the_layers(name, size):
    net = build(name, channels=3, size=size, classes=5, seed=0)
    assert batched(net) is batched(net)
    draw = torch.Generator().manual_seed(size)
    x = torch.randn(3, 4, 3, size, size, generator=draw).requires_grad_()
    y = torch.randint(5, (3, 4), generator=draw)
    params = {
        n: torch.stack([p.detach() * (1 + c) / 2 for c in range(3)])
        for n, p in net.named_parameters()
    }
    before = [p.clone() for p in net.parameters()]
    found, expected = gradients(batched(net), params, x, y), gradients(net, params, x, y)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-6)
    for a, b in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))
    assert all(torch.equal(p, q) for p, q in zip(before, net.parameters(), strict=True))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 5, 3, stride=2),
        nn.Conv2d(3, 5, (3, 2), stride=(1, 2), padding=(1, 0), bias=False),
        nn.Conv2d(2, 4, 3, groups=2),
        nn.Conv2d(3, 4, 3, padding="same"),
        nn.Conv2d(3, 4, 2, dilation=2),
        nn.Conv2d(6, 10, 3, dilation=2, padding=1),
        nn.Conv2d(8, 16, 3, padding=1, padding_mode="circular"),
        nn.MaxPool2d(3),
        nn.MaxPool2d(2, stride=1),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2),
        nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)),
    ],
    ids=str,
)
def test_layers_of_every_setting_are_what_they_were(layer):
    channels = next((m.in_channels for m in layer.modules() if hasattr(m, "in_channels")), 3)
    draw = torch.Generator().manual_seed(0)
    # Few values, so that many of the maxima are shared.
    x = torch.randint(-2, 3, (2, 4, channels, 8, 8), generator=draw).float().requires_grad_()
    params = {n: torch.stack([p.detach(), -p.detach()]) for n, p in layer.named_parameters()}
    results = []
    for net in (layer, batched(layer)):
        free = {n: t.clone().requires_grad_() for n, t in params.items()}
        y = vmap(lambda p, x, net=net: functional_call(net, p, (x,)))(free, x)
        weights = torch.arange(y.numel()).reshape(y.shape) % 7
        results.append((y, *torch.autograd.grad((y * weights).sum(), [x, *free.values()])))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


def test_a_fused_step_is_the_step_and_minds_the_strides():
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, 5, generator=draw)
    grads = [torch.randn(3, 5, 4, generator=draw).mT for _ in range(3)]
    ends = []
    for fused in (False, True):
        p, sgd = start.clone(), SGD(lr=0.1, momentum=0.9, weight_decay=0.01, fused=fused)
        for count, g in zip((3, 2, 2), grads, strict=True):  # the last client leaves early
            sgd.step([p[:count]], [g[:count]])
        ends.append((p, sgd.state()["momentum/0"]))
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b)


def test_batches_are_the_same_for_everyone_who_asks():
    made = task()
    a, b = jobs_of(made)[1], jobs_of(made)[1]
    training = Training(epochs=3, batch=16)
    for x, y in zip(a.steps(training), b.steps(training), strict=True):
        np.testing.assert_array_equal(x, y)
    per_epoch = len(a.steps(training)) // 3
    first = np.concatenate(a.steps(training)[:per_epoch])
    np.testing.assert_array_equal(np.sort(first), np.sort(made.split.train[1]))


def test_frozen_parameters_stay():
    made = task("lenet")
    for run in (train_sequential, train_stacked):
        jobs = [replace(job, frozen=("features.",)) for job in jobs_of(made)]
        run(jobs, made.tensors, Training(batch=16), objective)
        for c, job in enumerate(jobs):
            for n, t in made.initial(c).items():
                same = torch.equal(t, job.params[n])
                assert same == n.startswith("features.")


def test_augmented_clients_draw_what_each_would_alone():
    made = task("cnn-1", clients=3)
    training = Training(batch=16)
    alone, together = jobs_of(made), jobs_of(made)
    train_sequential(alone, made.tensors, training, objective, Augment(1))
    train_stacked(together, made.tensors, training, objective, Augment(1))
    for a, b in zip(alone, together, strict=True):
        for n in a.params:
            torch.testing.assert_close(a.params[n], b.params[n], rtol=1e-3, atol=2e-5)


def test_stacks_hold_one_architecture_and_fit_the_memory():
    made = task_of(TaskSpec(models=("mlp", "lenet"), clients=10, examples=400))
    nbytes = 4 * sum(t.numel() * 4 for t in made.initial(0).values())
    groups = stacks(jobs_of(made), 100 * nbytes)
    assert [{made.names[job.path[3]] for job in g} for g in groups] == [{"mlp"}, {"lenet"}]
    assert [len(g) for g in groups] == [5, 5]
    mlp = [g for g in stacks(jobs_of(made), 4 * nbytes) if g[0].net is made.model(0)]
    assert [len(g) for g in mlp] == [2, 3]  # rather than 4 and one alone
    assert sorted(job.path[3] for g in mlp for job in g) == [0, 2, 4, 6, 8]
    assert max(len(g) for g in stacks(jobs_of(made), 1)) == 1


def test_batch_norm_statistics_move_in_both_ways():
    made = task_of(
        TaskSpec(models=("mobilenet-v2",), clients=2, examples=120, norm="batch", partition="iid")
    )
    training = Training(batch=48)
    alone, together = jobs_of(made), jobs_of(made)
    train_sequential(alone[:1], made.tensors, training, objective)
    train_stacked(together, made.tensors, training, objective)
    name = next(n for n in alone[0].params if n.endswith("running_mean"))
    assert not torch.equal(alone[0].params[name], made.initial(0)[name])
    torch.testing.assert_close(
        alone[0].params[name], together[0].params[name], rtol=1e-3, atol=1e-4
    )


def test_the_way_is_measured_once_and_remembered(tmp_path, monkeypatch):
    from hopfed.neural.training import stacked_or_not

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stacked_or_not._read.cache_clear()
    made = task(clients=8)
    training = Training(batch=8)
    stacked_or_not.train(jobs_of(made), made.tensors, training, objective)
    written = stacked_or_not.cache_file().read_text()
    stacked_or_not._read.cache_clear()
    stacked_or_not.train(jobs_of(made), made.tensors, training, objective)
    assert stacked_or_not.cache_file().read_text() == written
    stacked_or_not._read.cache_clear()
    stacked_or_not.cache_file().write_text("not json")
    stacked_or_not.train(jobs_of(made), made.tensors, training, objective)
    stacked_or_not._read.cache_clear()


@pytest.mark.parametrize(
    ("timing", "way"),
    [
        ((1.0, 0.0, 2.0), "sequential"),
        ((1.0, 0.0, 0.5), "stacked"),
        ((1.0, 1.1, 0.5), "stacked"),  # four steps at 1.1 and nine at .5 against nine at 1
        ((1.0, 1.2, 0.5), "sequential"),
    ],
)
def test_the_choice_is_the_less_of_the_predicted_times(timing, way, monkeypatch):
    from hopfed.neural.training import stacked_or_not

    monkeypatch.setattr(stacked_or_not, "FEW", 1)
    monkeypatch.setattr(stacked_or_not, "_read", dict)
    monkeypatch.setattr(stacked_or_not, "_write", lambda known: None)
    monkeypatch.setattr(stacked_or_not, "_measure", lambda *args: timing)
    made, lengths = task(clients=3), (4, 3, 2)
    group = [
        replace(job, rows=job.rows[:length])
        for job, length in zip(jobs_of(made), lengths, strict=False)
    ]
    settings = Training(batch=1)
    assert stacked_or_not._faster(group, made.tensors, settings, objective, None) == way


def test_a_stack_that_pays_is_told_from_one_that_does_not(monkeypatch):
    from hopfed.neural.training import stacked_or_not

    clock, made = [0.0], task(clients=4)
    monkeypatch.setattr(stacked_or_not.time, "thread_time", lambda: clock[0])

    def taking(fixed, each):
        def way(jobs, *args):
            steps = len(jobs[0].plan)
            # Every other time something else was running.
            clock[0] += steps * (fixed + each * len(jobs)) * (1 + (steps + len(calls)) % 2)
            calls.append(len(jobs))

        return way

    calls = []
    monkeypatch.setattr(stacked_or_not, "train_sequential", taking(0.0, 5.0))
    monkeypatch.setattr(stacked_or_not, "train_stacked", taking(3.0, 2.0))
    found = stacked_or_not._measure(jobs_of(made), made.tensors, Training(batch=8), objective, None)
    np.testing.assert_allclose(found, (5.0, 3.0, 2.0))
    assert calls[:6] == [1, 2, 4] * 2
    assert len(calls) == 3 * (1 + stacked_or_not.REPEATS)


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
        jobs = jobs_of(made)
        settings = Training(lr=0.05, epochs=3, way=way, precision=precision)
        train(jobs, made.tensors, settings, objective)
        assert all(t.dtype == torch.float32 for job in jobs for t in job.params.values())
        losses[precision] = np.array([job.loss for job in jobs])
    assert not np.array_equal(losses["float32"], losses["bfloat16"])
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=0.05)
