"""Private means: what a client can move, the noise, who takes part, and what epsilon is told."""

from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
import torch
from asked import Asked, play, short_run
from dp_accounting import pld, rdp
from helpers import rest_slow

from hopfed.errors import ArgumentError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.federation.contract import EVERYONE, Context, Fault
from hopfed.federation.rounds import Participation
from hopfed.neural.method import Client, untrained
from hopfed.neural.methods import METHODS, method
from hopfed.neural.methods.fedavg import Averaged
from hopfed.neural.training.job import Training
from hopfed.neural.training.task import TaskSpec

CLIENTS = 4
PRIVATE = [n for n in METHODS if issubclass(method(n), Averaged) and method(n).averages]
MORE = {"fml": {"proxy": "mlp:8"}, "fedmrl": {"proxy": "mlp:8"}, "fedrep": {"head": 1}}
TASK = TaskSpec(models=("mlp:8",), clients=CLIENTS, examples=120)


def made(name, training=Training(lr=0.05), **settings):  # noqa: B008
    return method(name)(TASK, training, **MORE.get(name, {}), **settings)


def update(m, state=None, t=0, **who):
    """How far the shared arrays moved in a round, and the round."""
    before = m.started(state.server if state else {})
    played = play(m, 1, state, t, **who)
    after = played.state.server
    return np.concatenate([(after[n] - a).ravel() for n, a in before.items()]), played


SETTINGS = ((4, 0.9, 3), (1, 0.1, 10), (0.8, 0.25, 5), (2, 0.5, 20), (1.2, 0.02, 100))


@pytest.mark.parametrize(("z", "q", "rounds"), rest_slow(SETTINGS, 1))
def test_epsilon_of_clients_by_chance_is_the_library_s_and_of_all_is_exact(z, q, rounds):
    event = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z))
    due, loose = (
        account.compose(event, rounds).get_epsilon(1e-6)
        for account in (pld.PLDAccountant(), rdp.RdpAccountant(range(2, 64)))
    )
    ours = made("fedavg", bound=1.0, noise=float(z), delta=1e-6).epsilon(rounds, q)
    assert ours == pytest.approx(due, rel=1e-6)
    assert ours < loose
    assert made("fedavg", bound=1.0, noise=1.0).epsilon(10) == pytest.approx(17.8566, abs=1e-4)


@pytest.mark.parametrize(("size", "epochs"), [(40, 3), (33, 2), (8, 1)])
def test_epsilon_of_an_example_is_the_library_s(size, epochs):
    m = made("fedavg", Training(batch=16, epochs=epochs, record_bound=1.0, record_noise=1.5))
    event, steps = dp.GaussianDpEvent(1.5), 3 * epochs * -(-size // 16)
    event = dp.PoissonSampledDpEvent(16 / size, event) if size > 16 else event
    due = pld.PLDAccountant().compose(event, steps).get_epsilon(1e-5)
    assert m.record_epsilon(3, [size]) == pytest.approx(due, rel=1e-3)
    assert m.record_epsilon(3, [size, 10_000]) == m.record_epsilon(3, [size])


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
    after, _, _ = m.play({}, Asked(messages))
    far = np.concatenate([(after[n] - a).ravel() for n, a in m.started({}).items()])
    assert np.linalg.norm(far) == pytest.approx(0.05 / 2, rel=1e-3)


def test_clients_take_part_by_themselves_and_perhaps_nobody_does():
    m, heard, state = made("fedavg", bound=1.0, noise=1.0), set(), None
    for t in range(12):
        moved, played = update(m, state, t, rate=0.2)
        state = played.state
        heard.add(int((played.faults.codes != Fault.ABSENT).sum()))
        assert moved.std() == pytest.approx(1 / (0.2 * CLIENTS), rel=0.25)  # as much for nobody
    assert {0} < heard
    assert state.down[EVERYONE].keys() == state.server.keys()
    chosen = [len(Participation(rate=0.3, poisson=True).cohort(0, t, 50)) for t in range(200)]
    assert np.mean(chosen) == pytest.approx(15, abs=5 * np.sqrt(10.5 / 200))
    assert np.var(chosen) == pytest.approx(10.5, rel=0.5)  # 5 standard errors of a variance


class Own(method("fedavg")):
    """An own server is not private until it says so."""

    def play(self, state, session):
        return super().play(state, session)


class Said(Own):
    averages = True


NORMED = TaskSpec(models=("mobilenet-v2",), norm="batch", clients=2, examples=60)
CUT = Training(record_bound=1.0)
BOTH = {"bound": 1.0, "noise": 1.0}
MORE_THAN_MEANS = ("fedgen", "clustered-fl", "fedkd")
MORE_OF_EXAMPLES = ("fedproto", "fedclassavg", "pfedme", "ditto", "fedala", "pfedgp")


@pytest.mark.parametrize(
    ("act", "rule"),
    [
        (lambda: made("fedavg", noise=1.0), "bound must be above 0 where there is noise"),
        (lambda: made("fedavg", **BOTH, delta=0.0), r"delta must be in \(0, 1\)"),
        *((lambda n=n: made(n, bound=1.0), "bound must be 0 for") for n in MORE_THAN_MEANS),
        (lambda: Own(TASK, bound=1.0), "bound must be 0"),
        (lambda: play(made("fedavg", **BOTH), late=0.5), "late must be 0 where updates are pr"),
        (lambda: play(method("fedavg")(NORMED, **BOTH)), "models must be without batch norm"),
        *((lambda n=n: made(n, CUT), "record_bound must be 0 for") for n in MORE_OF_EXAMPLES),
        (lambda: Training(record_noise=1.0), "record_bound must be above 0 where records have"),
    ],
)
def test_what_cannot_be_private_says_so(act, rule):
    with pytest.raises(ArgumentError, match=rule):
        act()
    assert Said(TASK, bound=1.0).bound == 1.0


@pytest.mark.parametrize("name", ["fedproto", "fedgh", "fedtgp", "fedgen", "lg-fedavg", "fedssa"])
def test_networks_of_different_lengths_share_features(name):
    m = short_run(name, models=("mlp:8", "mlp:12"), features=6).make(0)
    assert not play(m).faults.words()
    models = m.loaded.templates.values()
    assert {m.feature_dim for m in models} == {6}
    first, second = (m.head.weight for m in models)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


RECORDS = [n for n in METHODS if method(n).by_record]
ALONE = TaskSpec(models=("mlp:8",), clients=1, partition="iid", examples=60)


def test_the_gradient_of_each_example_is_cut_and_noise_is_added():
    """A round of one step as a plain loop over examples, and the size of the noise."""
    training = Training(lr=1.0, momentum=0.0, batch=1000, record_bound=0.1)
    m = method("fedavg")(ALONE, training)
    first, (rows,), net = m.loaded.initial(0), m.loaded.split.train, m.loaded.model(0)
    moved = {n: t.clone() for n, t in first.items()}
    for row in rows:
        x, y = m.loaded.tensors.batch(torch.as_tensor([row]))
        grads = torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), net.parameters())
        norm = torch.sqrt(sum((g**2).sum() for g in grads))
        for t, g in zip(moved.values(), grads, strict=True):
            t -= g * min(1.0, 0.1 / norm) / len(rows)
    noisy = method("fedavg")(ALONE, replace(training, record_noise=5.0))
    after, far = (play(each).state.server for each in (m, noisy))
    for n, t in moved.items():
        np.testing.assert_allclose(after[f"model/{n}"], t, atol=1e-6)
    noise = np.concatenate([(far[n] - after[n]).ravel() for n in after])
    assert noise.std() == pytest.approx(0.1 * 5 / len(rows), rel=5 / np.sqrt(2 * len(noise)))


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_private_in_every_method_that_says_so(name):
    training = Training(lr=0.05, batch=8, record_bound=0.5, record_noise=1.0)
    played = play(method(name)(TASK, training))
    assert not played.faults.words()
    assert np.isfinite(np.concatenate([a.ravel() for a in played.state.server.values()])).all()


def test_examples_are_in_a_step_by_themselves():
    training = Training(batch=10, epochs=20, record_bound=1.0)
    m = method("fedavg")(replace(ALONE, examples=0), training)
    client = Client(m, {}, Context(seed=0, round=0, exchange=0, client=0))
    steps, count = client.train(client.initial).steps(), len(client.rows)
    sizes = np.array([len(rows) for rows in steps])
    assert len(sizes) == 20 * -(-count // 10)
    assert sizes.mean() == pytest.approx(10, abs=5 * np.sqrt(10 / len(sizes)))
    assert sizes.var() == pytest.approx(10, rel=0.3)
    assert len(np.unique(np.concatenate(steps))) == count


def test_a_run_tells_its_epsilons():
    plain, told = short_run(rounds=3, rate=0.5), ["bound=1", "noise=1"]
    config = fl.with_options(plain, [*told, "record_bound=1", "record_noise=2"])
    summary, made_so = execute(fl, config).summary, config.make(0)
    sizes = [len(rows) for rows in made_so.loaded.split.train]
    assert summary["epsilon"][0] == pytest.approx(made_so.epsilon(3, 0.5))
    assert summary["record_epsilon"][0] == pytest.approx(made_so.record_epsilon(3, sizes))
    assert not {"epsilon", "record_epsilon"} & execute(fl, plain).summary.keys()
