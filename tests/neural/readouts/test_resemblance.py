"""What examples of a client are worth to another one, from their class sums."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts.contributions import gave  # noqa: E402
from hopfed.neural.readouts.resemblance import SUMMED, personal, worth  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402

D, C = 400, 3


def sums(rng, rates, counts):
    """Sums by class of bits of one client: 1 with the rates (D, C)."""
    ones = rng.binomial(np.broadcast_to(counts, (D, C)), rates)
    return 2 * ones - counts


def of_kinds(seed, kinds, counts):
    """Clients of the given kinds, each kind with its own rates of the bits."""
    rng = np.random.default_rng(seed)
    rates = rng.random((max(kinds) + 1, D, C))
    found = [sums(rng, rates[kind], n) for kind, n in zip(kinds, counts, strict=True)]
    return np.array(found), np.asarray(counts), rates


@pytest.mark.parametrize("seed", range(5))
def test_clients_of_one_kind_count_whole_and_others_little(seed):
    kinds, counts = [0, 0, 1, 1], np.full((4, C), 60)
    by_class, counts, rates = of_kinds(seed, kinds, counts)
    found = worth(by_class, counts)
    same = np.equal.outer(kinds, kinds)
    assert found[same].min() > 0.85
    means = 2 * rates - 1
    squared, variance = ((means[0] - means[1]) ** 2).sum(), (1 - means**2).sum(axis=(1, 2)).mean()
    np.testing.assert_allclose(found[~same], 1 / (1 + 60 * squared / variance), rtol=0.1)


def test_more_examples_of_another_kind_are_worth_no_more():
    """In all they count for as many as the difference allows: the variance over its square."""
    by_class, counts, _ = of_kinds(0, [0, 1, 1], [[50] * C, [200] * C, [3200] * C])
    found = worth(by_class, counts)
    assert found[0, 1] * 200 == pytest.approx(found[0, 2] * 3200, rel=0.1)


def test_who_shares_no_class_is_not_told_apart():
    by_class, counts, _ = of_kinds(0, [0, 1], [[50, 0, 1], [0, 50, 1]])
    np.testing.assert_array_equal(worth(by_class, counts), np.ones((2, 2)))
    np.testing.assert_array_equal(worth(by_class[:, :, :1] * 0, counts[:, :1] * 0), np.ones((2, 2)))


def test_labels_alone_do_not_make_clients_unlike():
    rng = np.random.default_rng(1)
    counts = rng.integers(2, 200, size=(6, C))
    by_class, counts, _ = of_kinds(2, [0] * 6, counts)
    assert worth(by_class, counts).min() > 0.8


def played(pooling, **own):
    task = TaskSpec(
        models=("mlp",), clients=6, partition="rotation:0,60,180", shares=(6.0, 1.0, 3.0)
    )
    method = Hebbian(task, filters=16, pooling=pooling, **own)
    return method, play_round(method, None, 0, seed=0, clients=6, engine=LocalEngine()).state


def log_loss(method, state):
    """Mean over clients and examples of what the classifier finds the true class to be worth."""
    found = []
    for c in range(6):
        down = state.down.get(c) or state.down.get(EVERYONE)
        bits, labels = method.bits_of(down, c, "test")
        logs = method.classifier(state.clients.get(c), down, c).of_bits(bits)
        found.append(-logs[np.arange(len(labels)), labels].mean())
    return np.mean(found)


def test_who_turns_images_alike_helps_and_who_does_not_does_no_harm():
    method, state = played("resembling")
    sent = {c: gave(state.server, c) for c in range(6)}
    each = personal(sent)
    for c in range(6):
        down = state.down.get(c)
        for name in SUMMED:
            np.testing.assert_array_equal(down[name], each[c][name])
        whole = method.pooled_sums(down)
        assert whole.counts.sum() == pytest.approx(float(down["examples"]))
    assert log_loss(method, state) < 0.9 * log_loss(*played("equal"))


@pytest.mark.parametrize(
    "own",
    [{"form": "factors"}, {"reading": "global"}, {"epsilon": 10.0, "bits": "public"}],
)
def test_what_does_not_go_together_is_refused(own):
    with pytest.raises(ArgumentError, match=r"where (pooling is resembling|counts have noise)"):
        Hebbian(TaskSpec(models=("mlp",)), pooling="resembling", **own)
