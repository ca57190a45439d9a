"""FedAvg and its like on the common contract: identities, faults, engines, resumption."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import fl  # noqa: E402
from hopfed.experiments.runner import execute  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.figures import fl as figure  # noqa: E402
from hopfed.neural.methods import METHODS, method  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvg  # noqa: E402
from hopfed.neural.training.evaluation import (  # noqa: E402
    Network,
    accuracies,
    bottom_decile,
    low_quantile,
)
from hopfed.runs import Run  # noqa: E402

SMALL = {
    "clients": 4,
    "rounds": 3,
    "examples": 400,
    "models": ("mlp",),
    "lr": 0.05,
    "way": "sequential",
}


def config(name="fedavg", **settings):
    return fl.Config(method=name, **(SMALL | settings))


def final(conf, seed=0, engine=None):
    """State of a federation after its rounds, and the method."""
    made, state = conf.make(seed), None
    for t in range(conf.rounds):
        played = play_round(
            made, state, t, seed=seed, clients=conf.clients, engine=engine or LocalEngine()
        )
        state = played.state
    return made, played


def models(played):
    return {n: a for n, a in played.state.down[EVERYONE].items() if n.startswith("model/")}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_and_its_run_is_complete(name):
    run = execute(fl, config(name, rounds=8))
    assert run.complete
    assert run.summary["test"][0] > 0.6
    assert run.arrays["test"].shape == (1, 8, 4)
    sent = run.arrays["traffic/up"][:, : 1 if name == "hebbian" else None]  # they send once
    assert (sent > 0).all() == (name not in ("standalone", "standalone-bias", "agg"))


def test_fedprox_without_its_pull_is_fedavg_to_the_bit():
    a, b = final(config()), final(config("fedprox", options="mu=0"))
    for n, array in models(a[1]).items():
        np.testing.assert_array_equal(array, models(b[1])[n])
    far = final(config("fedprox", options="mu=1"))
    assert any((array != models(far[1])[n]).any() for n, array in models(a[1]).items())


def test_fedavg_of_one_client_is_its_own_training_to_the_bit():
    one = config(clients=1, partition="iid")
    made, played = final(one)
    alone = final(config("standalone", clients=1, partition="iid"))[1].state.clients[0]
    for n, array in models(played).items():
        np.testing.assert_array_equal(array, np.asarray(alone[n]))


@pytest.mark.parametrize("tune", [0, 1, 3])
def test_fine_tuning_is_counted(tune):
    _, plain = final(config(rounds=1, epochs=2))
    made, tuned = final(config("fedavg+", rounds=1, epochs=2, options=f"tune={tune}"))
    assert made.tune == tune
    # Products of 8 x 8 pixels, 200, 200 and 10; all but the first have a gradient of their input.
    products = 64 * 200 + 200 * 200 + 200 * 10
    step = 2 * (3 * products - 64 * 200)
    sizes = np.array([len(rows) for rows in made.loaded.split.train])
    np.testing.assert_allclose(plain.client_metrics["flops"], 2 * step * sizes)
    np.testing.assert_allclose(tuned.client_metrics["flops"], (2 + tune) * step * sizes)


def test_the_mean_is_weighed_by_size_and_takes_buffers_along():
    conf = config(
        models=("mobilenet-v2",),
        norm="batch",
        clients=2,
        examples=100,
        rounds=1,
        partition="iid",
        epochs=1,
        batch=50,
    )
    made = conf.make(0)
    sent = {}

    class Spy(LocalEngine):
        def step(self, method, calls):
            outcomes = super().step(method, calls)
            sent.update({c.context.client: o.message for c, o in zip(calls, outcomes, strict=True)})
            return outcomes

    played = play_round(made, None, 0, seed=0, clients=2, engine=Spy())
    sizes = made.loaded.split.sizes[:, 0]
    name = next(n for n in sent[0] if n.endswith("running_mean"))
    for n in (name, "model/head.weight"):
        expected = np.average([sent[c][n] for c in (0, 1)], axis=0, weights=sizes)
        np.testing.assert_allclose(models(played)[n], expected, rtol=1e-5, atol=1e-7)


def test_a_client_that_sends_nan_is_left_out_of_the_mean():
    class Sick(FedAvg):
        def finish(self, state, params, client):
            if client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish(state, params, client)

    conf = config(rounds=1)
    healthy = conf.make(0)
    played = play_round(
        Sick(healthy.task, healthy.training), None, 0, seed=0, clients=4, engine=LocalEngine()
    )
    assert played.faults.codes.tolist() == [0, Fault.NOT_FINITE, 0, 0]
    assert all(np.isfinite(a).all() for a in models(played).values())


def test_two_runs_are_the_same_to_the_bit_and_a_resumed_one_too(tmp_path):
    conf = config(rate=0.5, rounds=4, way="stacked")
    a = execute(fl, conf, out=tmp_path / "a.h5")

    class Stop(BaseException):
        pass

    def stop(done, planned):
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        execute(fl, conf, out=tmp_path / "b.h5", report=stop)
    assert not Run.load(tmp_path / "b.h5").complete
    execute(fl, conf, out=tmp_path / "b.h5", resume=True)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert (a.arrays["faults/code"] == Fault.ABSENT).sum() == 4 * 2


def test_local_and_pool_agree(tmp_path):
    a = execute(fl, config())
    b = execute(fl, config(), engine="pool", workers=2)
    for name, array in a.arrays.items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)
    # Memory that is aligned otherwise may be summed otherwise: to rounding, not to the bit.
    np.testing.assert_allclose(a.arrays["client/loss"], b.arrays["client/loss"], rtol=1e-5)
    np.testing.assert_allclose(a.arrays["test"], b.arrays["test"], atol=0.03)


def test_stacked_and_sequential_agree():
    a, b = execute(fl, config()), execute(fl, config(way="stacked"))
    np.testing.assert_allclose(a.arrays["client/loss"], b.arrays["client/loss"], rtol=1e-4)
    np.testing.assert_allclose(a.arrays["test"], b.arrays["test"], atol=0.03)


def test_scores_count_every_example_once():
    made = config().make(0).loaded
    networks = [Network(made.model(c), made.initial(c)) for c in range(4)]
    parts = made.split.validation, made.split.test
    apart = accuracies(networks, made.tensors, parts)
    together = accuracies(networks[:1] * 4, made.tensors, parts)
    np.testing.assert_array_equal(apart, together)
    counts = apart * made.split.sizes[:, 1:].T
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)


def test_the_worst_tenth():
    assert bottom_decile(np.array([0.5, 0.1, 0.9])) == 0.1


def test_the_figure_is_drawn_from_the_run_alone(tmp_path):
    execute(fl, config(every=2, seeds=2), out=tmp_path / "run.h5")
    drawn = figure.draw(Run.load(tmp_path / "run.h5"))
    assert all(axes.has_data() for axes in drawn.axes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: method("fedavgg"), r"method must be one of .* \(did you mean fedavg\?\)"),
        (lambda: config("fedavg", models=("mlp", "lenet")).make(0), "models must be one arch"),
        (lambda: config("fedprox", options="mu=-1").make(0), "mu must be at least 0"),
        (lambda: config("fedprox", options="mu=x").make(0), "mu must be a number"),
        (lambda: config("fedavg+", options="tune=-1").make(0), "tune must be at least 0"),
        (lambda: fl.with_options(config(), ["epoch=2"]), r"did you mean epochs\?"),
        (lambda: config(minimum=9), "minimum must be 1 to clients"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_means_by_size_and_quantiles_are_named_apart():
    accuracy = np.linspace(0.05, 1, 20)
    assert bottom_decile(accuracy) == pytest.approx(0.075)
    assert low_quantile(accuracy) == pytest.approx(0.1)
    assert low_quantile(np.array([0.5, 0.1, 0.9])) == 0.1
    sizes = np.zeros((1, 1, 2, 3), int)
    sizes[0, 0, :, 2] = 30, 10
    assert fl.by_size(np.array([[1.0, 0.5]]), {"sizes": sizes}).tolist() == [0.875]
    summary = execute(fl, config(rounds=1)).summary
    assert {"weighted", "decile", "quantile"} <= summary.keys()
