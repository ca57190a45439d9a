"""The Hebbian read-out on every engine, and with operators in every form."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import fl  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.engines.pool import PoolEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts.ridge import Spectrum  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402

FORMS = ("counts", "factors", "sketch")


def made(**own):
    task = TaskSpec(models=("mlp",), clients=3, examples=500, partition="iid")
    own = {"filters": 8, "width": 40} | own
    return Hebbian(task, **own)


def play(method, engine=None):
    engine = engine or LocalEngine()
    played = play_round(method, None, 0, seed=0, clients=3, engine=engine)
    assert not played.faults.words()
    return played


def pooled(method):
    return method.pooled_sums(play(method).state.down.get(EVERYONE))


def alike(one, other, method):
    """As sums of the same bits are, whose features other processes may round otherwise."""
    a, b = (played.state.down.get(EVERYONE) for played in (one, other))
    assert a.keys() == b.keys()
    for name in {"members", "examples", "classes"} & a.keys():
        np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_allclose(a["kernel"], b["kernel"], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(one.traffic.up, other.traffic.up)
    n = float(a["examples"])
    first, second = (method.pooled_sums(down).operator for down in (a, b))
    X = np.eye(method.n_bits)
    assert abs(first.matmat(X) - second.matmat(X)).mean() < 0.01
    assert abs(a["by_class"] - b["by_class"]).mean() / n < 0.01
    scores = [fl.scores_of(method, played.state)[1].mean() for played in (one, other)]
    assert abs(scores[0] - scores[1]) < 0.05


@pytest.mark.slow  # the workers import torch
def test_worker_processes_give_the_same_sums(one_thread):
    with PoolEngine(2) as engine:
        for form in FORMS:
            method = made(form=form)
            alike(play(method), play(method, engine), method)


def test_nodes_of_flower_give_the_same_sums(one_thread):
    pytest.importorskip("flwr", reason="flwr is not installed")
    from hopfed.federation.engines.flower import FlowerEngine

    with FlowerEngine.simulated() as engine:
        for form in FORMS:
            method = made(form=form)
            alike(play(method), play(method, engine), method)
        private = made(bits="public", choose="own", epsilon=10.0)
        alike(play(private), play(private, engine), private)
        unequal = made(pooling="resembling")
        alike(play(unequal), play(unequal, engine), unequal)


def test_wide_forms_hold_the_whole_operator(one_thread):
    """As wide as there are bits, factors and sketches are the counts, in single precision."""
    exact = pooled(made())
    D = exact.operator.n_sites
    wanted = exact.operator.matmat(np.eye(D))
    for form in ("factors", "sketch"):
        found = pooled(made(form=form, width=D))
        np.testing.assert_allclose(found.operator.matmat(np.eye(D)), wanted, atol=1e-3)
        np.testing.assert_array_equal(found.by_class, exact.by_class)


def test_narrow_forms_keep_what_matters(one_thread):
    scores, bytes_up = {}, {}
    for form in FORMS:
        method = made(form=form, width=20, filters=16)
        played = play(method)
        scores[form] = fl.scores_of(method, played.state)[1].mean()
        bytes_up[form] = played.traffic.up.mean()
    assert min(scores.values()) > 0.85
    assert scores["counts"] - min(scores.values()) < 0.06
    assert max(bytes_up["factors"], bytes_up["sketch"]) < 0.9 * bytes_up["counts"]


def test_what_a_form_leaves_out_is_noise_of_equal_variance(one_thread):
    """The trace stays that of bits, and the read-out is the ridge solution of that operator."""
    for form in ("factors", "sketch"):
        sums = pooled(made(form=form, width=10))
        spectrum = Spectrum.of(sums)
        D, n = spectrum.vectors.shape[0], spectrum.examples
        np.testing.assert_allclose(spectrum.values.sum(), D, rtol=1e-3)
        seen = sums.operator.matmat(np.eye(D))
        left = (D - np.trace(seen)) / D
        assert left > 0.1
        W = np.linalg.solve(seen + (left + 0.3) * np.eye(D), sums.by_class / n)
        np.testing.assert_allclose(spectrum.readouts((0.3,))[0], W, atol=1e-6)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"form": "smallest"}, "form must be one of"),
        ({"form": "sketch", "width": 66}, "width must be between 1 and the 65"),
        ({"form": "factors", "keep": True}, "keep must be False"),
    ],
)
def test_forms_are_checked(own, words):
    with pytest.raises(ArgumentError, match=words):
        made(**own)
