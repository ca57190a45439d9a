"""Private means: what a client can move, the noise, who takes part, and what epsilon is told."""

from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
import torch
from dp_accounting import pld, rdp

from hopfed.errors import ArgumentError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.faults import Fault
from hopfed.federation.participation import Participation
from hopfed.federation.rounds import play_round
from hopfed.neural.averaged import Averaged
from hopfed.neural.method import Client, untrained
from hopfed.neural.methods import METHODS, method
from hopfed.neural.training.task import TaskSpec
from hopfed.neural.training.training import Training

CLIENTS = 4
PRIVATE = [n for n in METHODS if issubclass(method(n), Averaged) and method(n).averages]
MORE = {"fml": {"proxy": "mlp:8"}, "fedmrl": {"proxy": "mlp:8"}, "fedrep": {"head": 1}}


def made(name, **settings):
    task = TaskSpec(models=("mlp:8",), clients=CLIENTS, examples=120)
    return method(name)(task, Training(lr=0.05), **MORE.get(name, {}), **settings)


def play(m, state=None, t=0, **who):
    who = {"clients": CLIENTS, "participation": Participation(**who) if who else None}
    return play_round(m, state, t, seed=0, engine=LocalEngine(), **who)


def update(m, state=None, t=0, **who):
    """How far the shared arrays moved in a round, and the round."""
    before = m.started(state.server if state else {})
    played = play(m, state, t, **who)
    after = played.state.server
    return np.concatenate([(after[n] - a).ravel() for n, a in before.items()]), played


def test_epsilon_is_exact_with_all_clients():
    m = made("fedavg", bound=1.0, noise=1.0)
    assert m.epsilon(10) == pytest.approx(17.8566, abs=1e-4)
    loose = rdp.RdpAccountant().compose(dp.GaussianDpEvent(1.0), 10).get_epsilon(1e-5)
    assert loose == pytest.approx(19.1, abs=0.1)


SETTINGS = ((4, 0.9, 3), (1, 0.1, 10), (0.8, 0.25, 5), (2, 0.5, 20), (1.2, 0.02, 100))


@pytest.mark.parametrize(
    ("z", "q", "rounds"),
    [SETTINGS[0], *(pytest.param(*s, marks=pytest.mark.slow) for s in SETTINGS[1:])],
)
def test_epsilon_of_clients_by_chance_is_the_library_s(z, q, rounds):
    event = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z))
    due, loose = (
        account.compose(event, rounds).get_epsilon(1e-6)
        for account in (pld.PLDAccountant(), rdp.RdpAccountant(range(2, 64)))
    )
    ours = made("fedavg", bound=1.0, noise=float(z), delta=1e-6).epsilon(rounds, q)
    assert ours == pytest.approx(due, rel=1e-6)
    assert ours < loose


@pytest.mark.parametrize("name", PRIVATE)
def test_every_mean_is_bounded_and_noisy(name):
    """The same round with noise and without: what is between them is the noise, and its size."""
    bound, z = 0.01, 2.0
    moved, _ = update(made(name, bound=bound))
    factor = 1 if name != "feddyn" else 2  # mean - h / alpha moves twice in its first round
    assert 0 < np.linalg.norm(moved) <= factor * bound * (1 + 1e-3)
    noisy, played = update(made(name, bound=bound, noise=z))
    noise = (noisy - moved)[: len(moved) // 2] if name == "scaffold" else noisy - moved
    # 5 standard errors of a standard deviation of so many numbers
    due = factor * z * bound / CLIENTS
    assert noise.std() == pytest.approx(due, rel=5 / np.sqrt(2 * len(noise)))
    assert not played.faults.words()


def test_a_client_alone_moves_the_sum_by_at_most_the_bound():
    m = made("fedavg", bound=0.05)
    messages = {c: untrained(m, c) for c in range(2)}
    messages[1] = {n: a + 1000 if n != "examples" else a for n, a in messages[1].items()}

    class Heard:
        clients, ask = 2, staticmethod(lambda: messages)
        context = type("Where", (), {"rng": staticmethod(lambda *_: np.random.default_rng(0))})
        participation = Participation()

    after, _, _ = m.play({}, Heard)
    far = np.concatenate([(after[n] - a).ravel() for n, a in m.started({}).items()])
    assert np.linalg.norm(far) == pytest.approx(0.05 / 2, rel=1e-3)


def test_clients_take_part_by_themselves_and_perhaps_nobody_does():
    m, heard = made("fedavg", bound=1.0, noise=1.0), []
    state = None
    for t in range(12):
        moved, played = update(m, state, t, rate=0.2)
        state = played.state
        heard.append(int((played.faults.codes != Fault.ABSENT).sum()))
        assert moved.std() == pytest.approx(1 / (0.2 * CLIENTS), rel=0.25)  # as much for nobody
    assert 0 in heard
    assert len(set(heard)) > 1
    assert state.down[EVERYONE].keys() == state.server.keys()
    chosen = [len(Participation(rate=0.3, poisson=True).cohort(0, t, 50)) for t in range(200)]
    assert np.mean(chosen) == pytest.approx(15, abs=5 * np.sqrt(10.5 / 200))
    assert np.var(chosen) == pytest.approx(10.5, rel=0.5)  # 5 standard errors of a variance


@pytest.mark.parametrize(
    ("name", "settings", "rule"),
    [
        ("fedavg", {"noise": 1.0}, "bound must be above 0 where there is noise"),
        ("fedavg", {"bound": 1.0, "noise": 1.0, "delta": 0.0}, r"delta must be in \(0, 1\)"),
        *((n, {"bound": 1.0}, "bound must be 0 for") for n in ("fedgen", "clustered-fl", "fedkd")),
    ],
)
def test_what_cannot_be_private_says_so(name, settings, rule):
    with pytest.raises(ArgumentError, match=rule):
        made(name, **settings)


def test_an_own_server_is_not_private_until_it_says_so():
    class Own(method("fedavg")):
        def play(self, state, session):
            return super().play(state, session)

    class Said(Own):
        averages = True

    task = TaskSpec(models=("mlp:8",), clients=2, examples=60)
    assert Said(task, bound=1.0).bound == 1.0
    with pytest.raises(ArgumentError, match="bound must be 0"):
        Own(task, bound=1.0)
    with pytest.raises(ArgumentError, match="late must be 0 where updates are private"):
        play(made("fedavg", bound=1.0, noise=1.0), late=0.5)
    normed = TaskSpec(models=("mobilenet-v2",), norm="batch", clients=2, examples=60)
    with pytest.raises(ArgumentError, match="models must be without batch norm"):
        method("fedavg")(normed, bound=1.0, noise=1.0).server_start(0)


@pytest.mark.parametrize("name", ["fedproto", "fedgh", "fedtgp", "fedgen", "lg-fedavg", "fedssa"])
def test_networks_of_different_lengths_share_features(name):
    settings = {"models": ("mlp:8", "mlp:12"), "clients": 4, "examples": 120, "rounds": 1}
    run = execute(fl, fl.Config(method=name, features=6, **settings))
    assert not run.arrays["faults/code"].any()
    models = fl.Config(method=name, features=6, **settings).make(0).loaded.templates.values()
    assert {m.feature_dim for m in models} == {6}
    first, second = (m.head.weight for m in models)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


RECORDS = [n for n in METHODS if method(n).by_record]


def test_the_gradient_of_each_example_is_cut_and_noise_is_added():
    """A round of one step as a plain loop over examples, and the size of the noise."""
    training = Training(lr=1.0, momentum=0.0, batch=1000, record_bound=0.1)
    task = TaskSpec(models=("mlp:8",), clients=1, partition="iid", examples=60)
    m = method("fedavg")(task, training)
    client = m.loaded
    first, rows = client.initial(0), client.split.train[0]
    total = {n: torch.zeros_like(t) for n, t in first.items()}
    for row in rows:
        x, y = client.tensors.batch(torch.as_tensor([row]))
        net = client.model(0)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        grads = dict(zip(total, torch.autograd.grad(loss, net.parameters()), strict=True))
        norm = torch.sqrt(sum((g**2).sum() for g in grads.values()))
        for n, g in grads.items():
            total[n] += g * min(1.0, 0.1 / norm) / len(rows)
    after = play_round(m, None, 0, seed=0, clients=1, engine=LocalEngine()).state.server
    for n, t in first.items():
        np.testing.assert_allclose(after[f"model/{n}"], t - total[n], atol=1e-6)
    noisy = method("fedavg")(task, replace(training, record_noise=5.0))
    far = play_round(noisy, None, 0, seed=0, clients=1, engine=LocalEngine()).state.server
    noise = np.concatenate([(far[n] - after[n]).ravel() for n in after])
    assert noise.std() == pytest.approx(0.1 * 5 / len(rows), rel=5 / np.sqrt(2 * len(noise)))


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_private_in_every_method_that_says_so(name):
    training = Training(lr=0.05, batch=8, record_bound=0.5, record_noise=1.0)
    m = method(name)(TaskSpec(models=("mlp:8",), clients=CLIENTS, examples=120), training)
    played = play(m)
    assert not played.faults.words()
    assert np.isfinite(np.concatenate([a.ravel() for a in played.state.server.values()])).all()


def test_examples_are_in_a_step_by_themselves():
    training = Training(batch=10, epochs=20, record_bound=1.0)
    m = method("fedavg")(TaskSpec(models=("mlp:8",), clients=1, partition="iid"), training)
    client = Client(m, {}, Context(seed=0, round=0, exchange=0, client=0))
    steps = client.train(client.initial).steps()
    count = len(client.rows)
    assert len(steps) == 20 * -(-count // 10)
    sizes = np.array([len(rows) for rows in steps])
    assert sizes.mean() == pytest.approx(10, abs=5 * np.sqrt(10 / len(sizes)))
    assert sizes.var() == pytest.approx(10, rel=0.3)
    assert len(np.unique(np.concatenate(steps))) == count


@pytest.mark.parametrize(("size", "epochs"), [(40, 1), (40, 3), (100, 1), (33, 2), (8, 1)])
def test_epsilon_of_an_example_is_the_library_s(size, epochs):
    training = Training(batch=16, epochs=epochs, record_bound=1.0, record_noise=1.5)
    m = method("fedavg")(TaskSpec(models=("mlp:8",), clients=CLIENTS, examples=120), training)
    event, steps = dp.GaussianDpEvent(1.5), 3 * epochs * -(-size // 16)
    if size > 16:
        event = dp.PoissonSampledDpEvent(16 / size, event)
    due = pld.PLDAccountant().compose(event, steps).get_epsilon(1e-5)
    assert m.record_epsilon(3, [size]) == pytest.approx(due, rel=1e-3)
    assert m.record_epsilon(3, [size, 10_000]) == m.record_epsilon(3, [size])


@pytest.mark.parametrize("name", ["fedproto", "fedclassavg", "pfedme", "ditto", "fedala", "pfedgp"])
def test_methods_that_tell_more_of_examples_refuse_private_records(name):
    training = Training(record_bound=1.0)
    with pytest.raises(ArgumentError, match="record_bound must be 0 for"):
        method(name)(TaskSpec(models=("mlp:8",), clients=CLIENTS, examples=120), training)
    with pytest.raises(ArgumentError, match="record_bound must be above 0 where records have"):
        Training(record_noise=1.0)


def test_a_run_tells_its_epsilons():
    settings = {"models": ("mlp:8",), "clients": 4, "examples": 120, "rounds": 3, "rate": 0.5}
    told = ["bound=1", "noise=1", "record_bound=1", "record_noise=2"]
    config = fl.with_options(fl.Config(**settings), told)
    summary, made_so = execute(fl, config).summary, config.make(0)
    sizes = [len(rows) for rows in made_so.loaded.split.train]
    assert summary["epsilon"][0] == pytest.approx(made_so.epsilon(3, 0.5))
    assert summary["record_epsilon"][0] == pytest.approx(made_so.record_epsilon(3, sizes))
    assert not {"epsilon", "record_epsilon"} & execute(fl, fl.Config(**settings)).summary.keys()
